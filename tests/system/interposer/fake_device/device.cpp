// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "device.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <string>

namespace {

/// A function that the provider exports.
template <class function>
function *find_driver_function(const char *name) {
    const std::string path = std::getenv("RDMAV_DRIVERS") + std::string("-rdmav34.so");
    void *const provider = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(provider);
    auto *const match = reinterpret_cast<function *>(dlsym(provider, name));
    assert_non_null(match);
    return match;
}

} // namespace

std::uint64_t next_wr_id() noexcept {
    // Odd: no two are the same. All bits are used, and the first wr_id is 0.
    constexpr std::uint64_t SPREAD = 0x9e3779b97f4a7c15;
    static std::atomic<std::uint64_t> last = 0;
    return last++ * SPREAD;
}

device::device() {
    int num_devices = 0;
    ibv_device **const devices = ibv_get_device_list(&num_devices);
    assert_true(devices != nullptr && num_devices > 0);
    context = counted_object(ibv_open_device(devices[0]), counted.contexts);
    ibv_free_device_list(devices);
    ibv_device_attr attr;
    assert_int_equal(ibv_query_device(context, &attr), 0);
    assert_string_equal(attr.fw_ver, "fake");
    pd = counted_object(ibv_alloc_pd(context), counted.pds);
    mr = counted_object(ibv_reg_mr(pd, memory.data(), sizeof memory,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                       IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
                                       IBV_ACCESS_MW_BIND),
                        counted.mrs);
    cq = create_cq().release();
}

device::~device() {
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

cq_owner device::create_cq() const {
    return cq_owner(counted_object(ibv_create_cq(context, 100, nullptr, nullptr, 0), counted.cqs));
}

cq_owner device::create_cq_ex(bool single_threaded) const {
    ibv_cq_init_attr_ex attr = {};
    attr.cqe = 100;
    attr.wc_flags = IBV_WC_EX_WITH_QP_NUM;
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = single_threaded ? unsigned{IBV_CREATE_CQ_ATTR_SINGLE_THREADED} : 0;
    return cq_owner(ibv_cq_ex_to_cq(counted_object(ibv_create_cq_ex(context, &attr), counted.cqs)));
}

srq_owner device::create_srq(std::uint32_t max_wr) const {
    ibv_srq_init_attr attr = {};
    attr.attr.max_wr = max_wr;
    attr.attr.max_sge = 1;
    return srq_owner(counted_object(ibv_create_srq(pd, &attr), counted.srqs));
}

mw_owner device::alloc_mw(ibv_mw_type type) const {
    return mw_owner(counted_object(ibv_alloc_mw(pd, type), counted.mws));
}

ah_owner device::create_ah() const {
    ibv_ah_attr attr = {};
    attr.port_num = 1;
    return ah_owner(counted_object(ibv_create_ah(pd, &attr), counted.ahs));
}

qp_owner device::create_qp(const qp_options &options) const {
    ibv_qp_init_attr_ex attr = {};
    attr.send_cq = attr.recv_cq = options.cq != nullptr ? options.cq : cq;
    attr.srq = options.srq;
    attr.cap.max_send_wr = attr.cap.max_recv_wr = options.depth;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    attr.qp_type = options.type;
    attr.sq_sig_all = options.is_sig_all;
    attr.pd = pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD; // without more, ibv_create_qp_ex() calls ibv_create_qp()
    if (options.send_ops_flags != 0) {
        attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.send_ops_flags = options.send_ops_flags;
    }
    ibv_qp *const created =
        options.uses_driver
            ? find_driver_function<decltype(ibv_create_qp_ex)>("fakedv_create_qp")(context, &attr)
            : ibv_create_qp_ex(context, &attr);
    qp_owner qp(counted_object(created, counted.qps));
    set_state(qp.get(), IBV_QPS_INIT);
    return qp;
}

qp_owner device::create_connected_qp(const qp_options &options) const {
    qp_owner qp = create_qp(options);
    connect(qp.get(), qp->qp_num);
    return qp;
}

ibv_sge device::sge(std::size_t first, std::size_t count) const noexcept {
    return {.addr = addr(first),
            .length = static_cast<std::uint32_t>(count * sizeof memory[0]),
            .lkey = mr->lkey};
}

std::uint64_t device::addr(std::size_t word) const noexcept {
    return reinterpret_cast<std::uintptr_t>(&memory[word]);
}

void set_state(ibv_qp *qp, ibv_qp_state state) {
    ibv_qp_attr attr = {};
    attr.qp_state = state;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

void connect(ibv_qp *qp, std::uint32_t dest_qp_num) {
    if (qp->state == IBV_QPS_RESET)
        set_state(qp, IBV_QPS_INIT);
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.dest_qp_num = dest_qp_num;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN), 0);
    set_state(qp, IBV_QPS_RTS);
}

ibv_send_wr &add_send(send_list &list, const ibv_sge &sge, ibv_wr_opcode opcode) {
    ibv_send_wr &wr = list.add(sge);
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    return wr;
}

namespace {

/// Those from bad_wr on were refused; none is known to be, if the call has not set it.
template <class wr_type>
void count_refused(const wr_type *bad_wr) noexcept {
    for (; bad_wr != nullptr; bad_wr = bad_wr->next)
        ++counted.refused;
}

template <class queue_type>
int post_receives(queue_type *queue, receive_list &list, ibv_recv_wr **bad_wr,
                  int (*post_function)(queue_type *, ibv_recv_wr *, ibv_recv_wr **)) {
    counted.receives += list.size();
    ibv_recv_wr *bad = nullptr;
    const int error = post_function(queue, list.first(), &bad);
    count_refused(bad);
    if (bad_wr != nullptr)
        *bad_wr = bad;
    return error;
}

void count_completion(ibv_wc_status status) noexcept {
    ++counted.completions;
    if (status != IBV_WC_SUCCESS)
        ++counted.failed;
}

} // namespace

int post(ibv_qp *qp, send_list &list, ibv_send_wr **bad_wr) {
    for (std::size_t i = 0; i < list.size(); ++i) {
        ++counted.sends;
        for (int sge = 0; sge < list[i].num_sge; ++sge)
            counted.send_bytes += list[i].sg_list[sge].length;
    }
    ibv_send_wr *bad = nullptr;
    const int error = ibv_post_send(qp, list.first(), &bad);
    count_refused(bad);
    if (bad_wr != nullptr)
        *bad_wr = bad;
    return error;
}

int post(ibv_qp *qp, receive_list &list, ibv_recv_wr **bad_wr) {
    return post_receives(qp, list, bad_wr, ibv_post_recv);
}

int post(ibv_srq *srq, receive_list &list, ibv_recv_wr **bad_wr) {
    return post_receives(srq, list, bad_wr, ibv_post_srq_recv);
}

std::uint64_t post_send(ibv_qp *qp, const ibv_sge &sge, ibv_wr_opcode opcode) {
    send_list list;
    add_send(list, sge, opcode);
    assert_int_equal(post(qp, list), 0);
    return list[0].wr_id;
}

std::uint64_t post_receive(ibv_qp *qp, const ibv_sge &sge) {
    receive_list list;
    list.add(sge);
    assert_int_equal(post(qp, list), 0);
    return list[0].wr_id;
}

void count_wr(std::size_t length) noexcept {
    ++counted.sends;
    counted.send_bytes += length;
}

std::vector<ibv_wc> poll_all(ibv_cq *cq) {
    std::vector<ibv_wc> wcs;
    for (;;) {
        std::array<ibv_wc, 3> batch;
        const int count = ibv_poll_cq(cq, batch.size(), batch.data());
        assert_true(count >= 0);
        if (count == 0)
            return wcs;
        wcs.insert(wcs.end(), batch.begin(), batch.begin() + count);
        for (int i = 0; i < count; ++i)
            count_completion(batch[static_cast<std::size_t>(i)].status);
    }
}

std::vector<ibv_wc> poll_all_ex(ibv_cq *cq) {
    auto *const cq_ex = reinterpret_cast<ibv_cq_ex *>(cq);
    std::vector<ibv_wc> wcs;
    ibv_poll_cq_attr attr = {};
    int error = ibv_start_poll(cq_ex, &attr);
    const bool is_started = error == 0;
    for (; error == 0; error = ibv_next_poll(cq_ex)) {
        ibv_wc wc = {};
        wc.wr_id = cq_ex->wr_id;
        wc.status = cq_ex->status;
        wc.qp_num = ibv_wc_read_qp_num(cq_ex);
        if (wc.status == IBV_WC_SUCCESS)
            wc.opcode = ibv_wc_read_opcode(cq_ex);
        wcs.push_back(wc);
        count_completion(wc.status);
    }
    assert_int_equal(error, ENOENT);
    if (is_started)
        ibv_end_poll(cq_ex);
    return wcs;
}

void expect_wr_ids(const std::vector<ibv_wc> &wcs, const std::vector<std::uint64_t> &wr_ids,
                   ibv_wc_status status) {
    assert_int_equal(wcs.size(), wr_ids.size());
    for (std::size_t i = 0; i < wcs.size(); ++i) {
        assert_int_equal(wcs[i].wr_id, wr_ids[i]);
        assert_int_equal(wcs[i].status, status);
    }
}
