// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libibverbs and the provider of the device.

#include "rdma.hpp"
#include "state.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <new>

namespace fake {

device_settings settings;
thread_local arguments last;

namespace {

ibv_device device;
verbs_context verbs;

struct fake_channel : ibv_comp_channel {
    std::deque<ibv_cq *> events;
};

thread_local std::vector<ibv_cq *> live_cqs;
int poll_result = 0;
thread_local std::vector<ibv_wc> completions; ///< if there are any, in place of poll_result
ibv_pd *kept_pd = nullptr;

/// The transport type of the settings; other threads may read it.
void set_transport_type() {
    if (device.transport_type != settings.transport_type)
        device.transport_type = settings.transport_type;
}

/// nullptr with errno: the call has failed.
template <class object_type>
object_type *create(const char *name) {
    if (const int error = call(name)) {
        errno = error;
        return nullptr;
    }
    return new object_type{};
}

/// Destroys the object even if the call fails.
template <class object_type, class given_type>
int destroy(const char *name, const char *kind, given_type *object) {
    const int error = call(name);
    const bool was_live = is_live(object);
    remove_object(object, kind);
    if (was_live)
        delete static_cast<object_type *>(object);
    return error;
}

int query_device_ex(ibv_context *, const ibv_query_device_ex_input *, ibv_device_attr_ex *attr,
                    std::size_t) {
    if (const int error = call("ibv_query_device_ex"))
        return error;
    *attr = {};
    attr->device_cap_flags_ex = settings.cap_flags_ex;
    attr->odp_caps.general_caps = settings.odp_caps;
    attr->odp_caps.per_transport_caps.rc_odp_caps = settings.rc_odp_caps;
    return 0;
}

int advise_mr(ibv_pd *pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge *sg_list,
              std::uint32_t num_sge) {
    check_object(pd, "PD");
    if (num_sge != 1)
        add_violation("advice for other than one segment");
    last.advised = *sg_list;
    last.advice = advice;
    last.advice_flags = flags;
    return call("ibv_advise_mr");
}

int req_notify_cq(ibv_cq *cq, int solicited_only) {
    check_object(cq, "CQ");
    if (solicited_only != 0)
        add_violation("not all completions have events");
    return call("ibv_req_notify_cq");
}

int poll_cq(ibv_cq *cq, int num_entries, ibv_wc *wc) {
    check_object(cq, "CQ");
    if (!completions.empty()) {
        const int num_polled = std::min(num_entries, static_cast<int>(completions.size()));
        std::copy_n(completions.begin(), num_polled, wc);
        completions.clear();
        return num_polled;
    }
    for (int i = 0; i < std::min(num_entries, poll_result); ++i) {
        wc[i] = {};
        wc[i].wr_id = static_cast<std::uint64_t>(i) + 1;
    }
    return poll_result;
}

} // namespace

ibv_context *context() {
    return &verbs.context;
}

void reset_verbs() {
    settings = {};
    last = {};
    poll_result = 0;
    completions.clear();
    live_cqs.clear();
    device = {};
    device.transport_type = IBV_TRANSPORT_IB;
    std::strcpy(device.name, "fake0");
    verbs = {};
    verbs.sz = sizeof verbs;
    verbs.query_device_ex = query_device_ex;
    verbs.advise_mr = advise_mr;
    verbs.context.device = &device;
    verbs.context.abi_compat = reinterpret_cast<void *>(std::numeric_limits<std::uintptr_t>::max());
    verbs.context.ops.req_notify_cq = req_notify_cq;
    verbs.context.ops.poll_cq = poll_cq;
    set_post_ops(verbs.context.ops);
}

std::vector<ibv_cq *> cqs() {
    return live_cqs;
}

void post_cq_event(ibv_cq *cq) {
    static_cast<fake_channel *>(cq->channel)->events.push_back(cq);
}

void set_completions(const std::vector<ibv_wc> &list) {
    completions = list;
}

void free_kept_pd() {
    settings.keeps_pd = false;
    assert_int_equal(ibv_dealloc_pd(kept_pd), 0);
}

void set_poll_result(int result) {
    poll_result = result;
}

} // namespace fake

using namespace fake;

namespace {

ibv_mr *register_memory(ibv_pd *pd, void *addr, std::size_t length, unsigned access) {
    check_object(pd, "PD");
    last.access.push_back(access);
    set_transport_type();
    auto *const mr = create<ibv_mr>("ibv_reg_mr");
    if (mr == nullptr)
        return nullptr;
    if (!settings.pins_memory && (access & IBV_ACCESS_ON_DEMAND) == 0) {
        delete mr;
        errno = EOPNOTSUPP;
        return nullptr;
    }
    mr->context = pd->context;
    mr->pd = pd;
    mr->addr = addr;
    mr->length = length;
    mr->lkey = LKEY;
    mr->rkey = RKEY;
    add_object(mr, "MR", {pd, is_live(addr) ? addr : nullptr});
    return mr;
}

} // namespace

#undef ibv_reg_mr

extern "C" {

int ibv_query_device(ibv_context *, ibv_device_attr *attr) {
    *attr = {};
    attr->atomic_cap = settings.atomic_cap;
    return call("ibv_query_device");
}

ibv_pd *ibv_alloc_pd(ibv_context *context) {
    set_transport_type();
    auto *const pd = create<ibv_pd>("ibv_alloc_pd");
    if (pd == nullptr)
        return nullptr;
    pd->context = context;
    add_object(pd, "PD", {});
    return pd;
}
int ibv_dealloc_pd(ibv_pd *pd) {
    if (settings.keeps_pd) {
        kept_pd = pd;
        return EBUSY;
    }
    return destroy<ibv_pd>("ibv_dealloc_pd", "PD", pd);
}

ibv_mr *ibv_reg_mr(ibv_pd *pd, void *addr, std::size_t length, int access) {
    return register_memory(pd, addr, length, static_cast<unsigned>(access));
}
ibv_mr *ibv_reg_mr_iova2(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova,
                         unsigned access) {
    if (iova != reinterpret_cast<std::uintptr_t>(addr))
        add_violation("a region begins at another address");
    return register_memory(pd, addr, length, access);
}
int ibv_dereg_mr(ibv_mr *mr) {
    return destroy<ibv_mr>("ibv_dereg_mr", "MR", mr);
}

ibv_comp_channel *ibv_create_comp_channel(ibv_context *context) {
    auto *const channel = create<fake_channel>("ibv_create_comp_channel");
    if (channel == nullptr)
        return nullptr;
    channel->context = context;
    channel->fd = 1000 + static_cast<int>(count_objects());
    add_object(channel, "completion channel", {});
    return channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel *channel) {
    return destroy<fake_channel>("ibv_destroy_comp_channel", "completion channel", channel);
}

ibv_cq *ibv_create_cq(ibv_context *context, int cqe, void *cq_context, ibv_comp_channel *channel,
                      int) {
    last.cqe.push_back(cqe);
    auto *const cq = create<ibv_cq>("ibv_create_cq");
    if (cq == nullptr)
        return nullptr;
    cq->context = context;
    cq->channel = channel;
    cq->cq_context = cq_context;
    cq->cqe = cqe;
    add_object(cq, "CQ", {channel});
    live_cqs.push_back(cq);
    return cq;
}
int ibv_destroy_cq(ibv_cq *cq) {
    std::erase(live_cqs, cq);
    return destroy<ibv_cq>("ibv_destroy_cq", "CQ", cq);
}
int ibv_get_cq_event(ibv_comp_channel *channel, ibv_cq **cq, void **cq_context) {
    check_object(channel, "completion channel");
    auto &events = static_cast<fake_channel *>(channel)->events;
    if (const int error = events.empty() ? settings.no_event_error : call("ibv_get_cq_event")) {
        errno = error;
        return -1;
    }
    *cq = events.front();
    *cq_context = nullptr;
    events.pop_front();
    add_events(*cq, 1);
    return 0;
}
void ibv_ack_cq_events(ibv_cq *cq, unsigned num_events) {
    add_events(cq, -static_cast<int>(num_events));
}

ibv_srq *ibv_create_srq(ibv_pd *pd, ibv_srq_init_attr *attr) {
    last.srq = *attr;
    auto *const srq = create<ibv_srq>("ibv_create_srq");
    if (srq == nullptr)
        return nullptr;
    srq->context = pd->context;
    srq->pd = pd;
    add_object(srq, "SRQ", {pd});
    return srq;
}
int ibv_destroy_srq(ibv_srq *srq) {
    return destroy<ibv_srq>("ibv_destroy_srq", "SRQ", srq);
}
}
