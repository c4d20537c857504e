// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "books.hpp"

#include "reports/text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace coherdma::check {
namespace {

using reports::hex_number;

constexpr std::size_t MAX_DESTROYED = 4096; ///< as many are remembered

template <class map_type>
auto *find_in(map_type &map, const typename map_type::key_type &key) noexcept {
    const auto it = map.find(key);
    return it != map.end() ? &it->second : nullptr;
}

/// object: as the interposer or the books know it.
template <class verbs_type, class object_type>
verbs_type &handle_of(const object_type &object) noexcept {
    return *static_cast<verbs_type *>(const_cast<void *>(object.handle));
}

/// Of an object that was just created.
stack_trace to_stack(const interposer::call_stack &creation) noexcept {
    stack_trace stack;
    stack.depth = std::min(creation.depth, static_cast<int>(stack.frames.size()));
    std::copy_n(creation.frames.begin(), stack.depth, stack.frames.begin());
    stack.time = read_ticks();
    return stack;
}

std::string name_of(const interposer::object &object) {
    switch (object.kind) {
    case object_kind::CONTEXT:
        return "the device's context";
    case object_kind::PD:
        return "PD " + std::to_string(handle_of<ibv_pd>(object).handle);
    case object_kind::MR:
        return "MR " + hex_number(handle_of<ibv_mr>(object).lkey);
    case object_kind::MW:
        return "MW " + hex_number(handle_of<ibv_mw>(object).rkey);
    case object_kind::CHANNEL:
        return "the completion channel of descriptor " +
               std::to_string(handle_of<ibv_comp_channel>(object).fd);
    case object_kind::CQ:
        return "CQ " + std::to_string(handle_of<ibv_cq>(object).handle);
    case object_kind::SRQ:
        return "SRQ " + std::to_string(handle_of<ibv_srq>(object).handle);
    case object_kind::QP:
        return "QP " + std::to_string(handle_of<ibv_qp>(object).qp_num);
    case object_kind::AH:
        return "AH " + std::to_string(handle_of<ibv_ah>(object).handle);
    case object_kind::CM_ID:
        return "a cm_id";
    }
    return "an object";
}

/// What all objects have.
template <class record>
record known_as(const interposer::object &object) {
    record known;
    known.kind = object.kind;
    known.number = object.number;
    known.handle = object.handle;
    known.context = object.context;
    if (object.context != nullptr)
        known.device = ibv_get_device_name(object.context->device);
    known.name = name_of(object);
    known.creation = to_stack(object.creation);
    return known;
}

/// Of SGEs. 0: the driver does not say.
std::size_t limit_of(std::uint32_t max_sges) noexcept {
    return max_sges != 0 ? max_sges : SIZE_MAX;
}

known_qp describe_qp(const interposer::object &object) {
    ibv_qp &qp = handle_of<ibv_qp>(object);
    auto known = known_as<known_qp>(object);
    known.pd_handle = qp.pd != nullptr ? qp.pd->handle : 0;
    known.send_cq = qp.send_cq;
    known.recv_cq = qp.recv_cq;
    known.srq = qp.srq;
    known.type = qp.qp_type;
    known.qp_num = qp.qp_num;
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init = {};
    if (ibv_query_qp(&qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init) == 0) {
        known.state = attr.qp_state;
        known.max_sends = init.cap.max_send_wr;
        known.max_receives = init.cap.max_recv_wr;
        known.max_send_sges = limit_of(init.cap.max_send_sge);
        known.max_receive_sges = limit_of(init.cap.max_recv_sge);
    }
    return known;
}

memory_use use_of(const posted_request &request) noexcept {
    return is_written(request) ? memory_use::TARGET : memory_use::SOURCE;
}

} // namespace

bool is_written(const posted_request &request) noexcept {
    return request.is_receive || request.opcode == IBV_WR_RDMA_READ ||
           request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
           request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

bool waits_for(const posted_request &send, const posted_request &other) noexcept {
    return send.is_fenced && !other.is_receive && is_written(other);
}

known_qp *process_books::find_qp(const void *handle) noexcept {
    return find_in(qps, handle);
}
known_qp *process_books::find_qp(const ibv_context *context, std::uint32_t qp_num) noexcept {
    const auto it = std::find_if(qps.begin(), qps.end(), [&](const auto &entry) {
        return entry.second.context == context && entry.second.qp_num == qp_num;
    });
    return it != qps.end() ? &it->second : nullptr;
}
known_srq *process_books::find_srq(const void *handle) noexcept {
    return find_in(srqs, handle);
}
known_object *process_books::find_queue(const void *handle) noexcept {
    if (known_qp *const qp = find_qp(handle))
        return qp;
    return find_srq(handle);
}
known_cq *process_books::find_cq(const void *handle) noexcept {
    return find_in(cqs, handle);
}
known_mr *process_books::find_mr(object_number number) noexcept {
    return find_in(mrs, number);
}
known_mr *process_books::find_mr(const ibv_context *context, std::uint32_t lkey) noexcept {
    const object_number *const number = find_in(mr_of_lkey, {context, lkey});
    return number != nullptr ? find_mr(*number) : nullptr;
}

known_mr *process_books::find_remote_mr(const ibv_context *context, std::uint32_t rkey) noexcept {
    const object_number *const number = find_in(mr_of_rkey, {context, rkey});
    return number != nullptr ? find_mr(*number) : nullptr;
}

known_qp *process_books::find_peer(known_qp &qp) noexcept {
    if (!qp.local_peer)
        return nullptr;
    const auto is_peer = [&](const known_qp &other) {
        return other.qp_num == *qp.local_peer && other.device == qp.device;
    };
    if (known_qp *const last = find_qp(qp.peer); last != nullptr && is_peer(*last))
        return last;
    for (auto &[handle, other] : qps)
        if (is_peer(other)) {
            qp.peer = handle;
            return &other;
        }
    return nullptr;
}

known_object *process_books::find(const interposer::object &object) noexcept {
    known_object *known = nullptr;
    switch (object.kind) {
    case object_kind::QP:
        known = find_qp(object.handle);
        break;
    case object_kind::CQ:
        known = find_cq(object.handle);
        break;
    case object_kind::SRQ:
        known = find_srq(object.handle);
        break;
    case object_kind::MR:
        known = find_mr(object.number);
        break;
    default:
        known = find_in(others, object.number);
    }
    return known != nullptr && known->number == object.number ? known : nullptr;
}

/// An object of a handle that the books have replaces it: the driver has freed that, and its
/// on_destroy() is about to come.
void process_books::add(const interposer::object &object) {
    destroyed.erase(object.handle);
    switch (object.kind) {
    case object_kind::QP:
        if (known_qp *const replaced = find_qp(object.handle)) {
            drop_requests(*replaced);
            end_queue(*replaced);
        }
        qps.insert_or_assign(object.handle, describe_qp(object));
        return;
    case object_kind::CQ: {
        auto known = known_as<known_cq>(object);
        known.channel = handle_of<ibv_cq>(object).channel;
        cqs.insert_or_assign(object.handle, std::move(known));
        return;
    }
    case object_kind::SRQ: {
        if (known_srq *const replaced = find_srq(object.handle)) {
            drop_requests(*replaced);
            end_queue(*replaced);
        }
        auto known = known_as<known_srq>(object);
        known.pd_handle = handle_of<ibv_srq>(object).pd->handle;
        ibv_srq_attr attr = {};
        if (ibv_query_srq(&handle_of<ibv_srq>(object), &attr) == 0)
            known.max_sges = limit_of(attr.max_sge);
        srqs.insert_or_assign(object.handle, std::move(known));
        return;
    }
    case object_kind::MR: // by add_mr()
        return;
    default:
        others.insert_or_assign(object.number, known_as<known_object>(object));
    }
}

void process_books::index_keys(const known_mr &mr) {
    // Another MR that has the key is about to be removed, unless it has got it by change_lkey():
    // then this one is to get another.
    const auto [entry, is_new] = mr_of_lkey.emplace(std::pair(mr.context, mr.lkey), mr.number);
    const known_mr *const other = !is_new ? find_mr(entry->second) : nullptr;
    if (other == nullptr || other->lkey == other->device_lkey)
        entry->second = mr.number;
    mr_of_rkey[{mr.context, mr.rkey}] = mr.number;
}

void process_books::forget_keys(const known_mr &mr) noexcept {
    const auto forget = [&](auto &index, std::uint32_t key) {
        const auto it = index.find({mr.context, key});
        if (it != index.end() && it->second == mr.number) // another may have the key
            index.erase(it);
    };
    forget(mr_of_lkey, mr.lkey);
    forget(mr_of_lkey, mr.device_lkey); // if it was shown
    forget(mr_of_rkey, mr.rkey);
}

void process_books::add_mr(const interposer::object &object,
                           const interposer::registration &asked) {
    destroyed.erase(object.handle);
    const auto &mr = handle_of<ibv_mr>(object);
    auto known = known_as<known_mr>(object);
    known.pd_handle = mr.pd->handle;
    known.lkey = known.device_lkey = mr.lkey;
    known.rkey = mr.rkey;
    // The null MR discards what is written to it; the process that registered an imported one has
    // given its access.
    const bool has_access = asked.kind != interposer::memory_kind::NO_MEMORY &&
                            asked.kind != interposer::memory_kind::IMPORTED;
    known.access = has_access ? asked.access : IBV_ACCESS_LOCAL_WRITE;
    known.is_access_known = has_access;
    const bool has_range = asked.kind == interposer::memory_kind::PROGRAM ||
                           asked.kind == interposer::memory_kind::DMABUF;
    if (asked.kind == interposer::memory_kind::PROGRAM)
        known.memory = reinterpret_cast<std::uintptr_t>(asked.addr);
    if (has_range && asked.length != SIZE_MAX) { // else everything
        known.begin = (asked.access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : asked.iova;
        known.end = known.begin + asked.length;
    }
    index_keys(known);
    mrs.insert_or_assign(object.number, std::move(known));
    if (busy_mrs.capacity() < mrs.size()) // add_busy() has room
        busy_mrs.reserve(2 * mrs.size());
}

known_mr *process_books::change_mr(const ibv_mr &mr, int flags, int access) {
    known_mr *changed = nullptr;
    for (auto &[number, known] : mrs) {
        if (known.handle != &mr)
            continue;
        changed = &known;
        forget_keys(known);
        known.pd_handle = mr.pd->handle;
        known.lkey = known.device_lkey = mr.lkey;
        known.rkey = mr.rkey;
        if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0)
            known.access = access;
        if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
            known.memory = reinterpret_cast<std::uintptr_t>(mr.addr);
            known.begin = known.memory;
            known.end = known.begin + mr.length;
        }
        index_keys(known);
    }
    return changed;
}

void process_books::change_lkey(known_mr &mr) {
    constexpr std::uint32_t HIGHEST_BIT = 1U << 31, OTHER_BITS = 0x0101'0100;
    forget_keys(mr);
    mr.lkey = mr.device_lkey ^ HIGHEST_BIT;
    while (mr.lkey == mr.rkey || mr_of_lkey.contains({mr.context, mr.lkey}) ||
           mr_of_rkey.contains({mr.context, mr.lkey}))
        mr.lkey += OTHER_BITS;
    hide_device_lkey(mr);
    mr.name = "MR " + hex_number(mr.lkey);
    index_keys(mr);
}

void process_books::show_device_lkey(const known_mr &mr) {
    mr_of_lkey.emplace(std::pair(mr.context, mr.device_lkey), mr.number);
    handle_of<ibv_mr>(mr).lkey = mr.device_lkey;
}

void process_books::hide_device_lkey(const known_mr &mr) noexcept {
    handle_of<ibv_mr>(mr).lkey = mr.lkey;
}

void process_books::arm(const ibv_cq &cq, const stack_trace &stack) {
    known_cq *const known = find_cq(&cq);
    if (known == nullptr)
        return;
    ++known->max_events;
    known->is_polled_since_arm = false;
    known->arm = stack;
    known->arm_thread = std::this_thread::get_id();
    ++known->num_arms;
    known->num_sends_at_arm = known->num_receives_at_arm = 0;
    for (const auto &[handle, qp] : qps) {
        if (qp.send_cq == &cq)
            known->num_sends_at_arm += qp.num_signaled;
        if (qp.recv_cq == &cq && (qp.state == IBV_QPS_RTR || qp.state == IBV_QPS_RTS))
            known->num_receives_at_arm += qp.receives.size();
    }
}

void process_books::drop_requests(known_qp &qp) noexcept {
    for (request_map *const requests : {&qp.sends, &qp.receives})
        for (auto &[number, request] : *requests) {
            count(qp, request, -1);
            drop_use(number, request);
        }
    qp.sends.clear();
    qp.receives.clear();
}

void process_books::remove(const interposer::object &object, const stack_trace &destruction) {
    known_object *const known = find(object);
    if (known == nullptr)
        return;
    if (destroyed.size() >= MAX_DESTROYED)
        destroyed.clear();
    uses.erase(object.number);
    destroyed_object ended = {.object = *known, .destruction = destruction};
    if (object.kind == object_kind::MR)
        ended.rkey = mrs.at(object.number).rkey;
    destroyed.insert_or_assign(object.handle, std::move(ended));
    switch (object.kind) {
    case object_kind::QP:
        drop_requests(qps.at(object.handle));
        end_queue(*known);
        qps.erase(object.handle);
        return;
    case object_kind::CQ:
        cqs.erase(object.handle);
        return;
    case object_kind::SRQ:
        drop_requests(srqs.at(object.handle));
        end_queue(*known);
        srqs.erase(object.handle);
        return;
    case object_kind::MR:
        forget_keys(mrs.at(object.number));
        if (mrs.at(object.number).num_requests != 0) {
            remove_busy(mrs.at(object.number));
            end_uses(mrs.at(object.number));
        }
        mrs.erase(object.number);
        return;
    case object_kind::CONTEXT:
        end_context(object.context);
        [[fallthrough]];
    default:
        others.erase(object.number);
    }
}

/// The device ends what the program has left. It stays in the books as a leak, and is not used.
void process_books::end_context(const ibv_context *context) noexcept {
    for (auto &[handle, qp] : qps)
        if (qp.context == context)
            drop_requests(qp);
    for (auto &[handle, srq] : srqs)
        if (srq.context == context)
            drop_requests(srq);
    for (auto &[handle, cq] : cqs)
        if (cq.context == context)
            cq.channel = nullptr;
}

void process_books::drop_requests(known_srq &srq) noexcept {
    for (auto &[number, request] : srq.receives) {
        count_mrs(request, -1);
        drop_use(number, request);
    }
    srq.receives.clear();
}

void process_books::take_memory(posted_request &request) {
    if (!owned.is_started())
        return;
    for (named_memory &named : request.memory)
        if (named.begin != 0)
            named.is_protected =
                owned.take(named.begin, named.end, use_of(request), named.can_protect);
}

void process_books::return_memory(posted_request &request) noexcept {
    if (!owned.is_started() || std::exchange(request.is_returned, true))
        return;
    for (const named_memory &named : request.memory)
        if (named.begin != 0)
            owned.give_back(named.begin, named.end, use_of(request), named.is_protected);
    request.copy.reset();
}

void process_books::end_use(std::uint64_t number, posted_request &request) noexcept {
    return_memory(request);
    if (watcher != nullptr)
        watcher->end(number, request);
}

void process_books::stop_use(std::uint64_t number, posted_request &request) noexcept {
    return_memory(request);
    if (watcher != nullptr)
        watcher->stop(number, request);
}

void process_books::drop_use(std::uint64_t number, posted_request &request) noexcept {
    return_memory(request);
    if (watcher != nullptr)
        watcher->drop(number, request);
}

void process_books::end_uses(known_qp &qp) noexcept {
    for (request_map *const requests : {&qp.sends, &qp.receives})
        for (auto &[number, request] : *requests)
            stop_use(number, request);
}

void process_books::end_uses(const known_mr &mr) noexcept {
    const auto names_mr = [&](const named_memory &named) {
        return named.mr == mr.number;
    };
    const auto end_those_of = [&](request_map &requests) {
        for (auto &[number, request] : requests)
            if (std::any_of(request.memory.begin(), request.memory.end(), names_mr))
                stop_use(number, request);
    };
    for (auto &[handle, qp] : qps) {
        end_those_of(qp.sends);
        end_those_of(qp.receives);
    }
    for (auto &[handle, srq] : srqs)
        end_those_of(srq.receives);
}

void process_books::count_mrs(const posted_request &request, int change) noexcept {
    for (const named_memory &named : request.memory) {
        known_mr *const mr = find_mr(named.mr);
        if (mr == nullptr)
            continue;
        const bool was_busy = mr->num_requests != 0;
        mr->num_requests += static_cast<std::size_t>(change);
        if (!was_busy)
            add_busy(*mr);
        else if (mr->num_requests == 0)
            remove_busy(*mr);
    }
}

void process_books::add_busy(known_mr &mr) noexcept {
    mr.busy_index = busy_mrs.size();
    busy_mrs.push_back(mr.number);
}

void process_books::remove_busy(const known_mr &mr) noexcept {
    const object_number last = busy_mrs.back();
    busy_mrs[mr.busy_index] = last;
    mrs.at(last).busy_index = mr.busy_index;
    busy_mrs.pop_back();
}

void process_books::count(known_qp &qp, const posted_request &request, int change) noexcept {
    count_mrs(request, change);
    if (!request.is_signaled)
        return;
    if (known_cq *const cq = find_cq(request.is_receive ? qp.recv_cq : qp.send_cq))
        cq->num_expected += static_cast<std::size_t>(change);
    if (!request.is_receive)
        qp.num_signaled += static_cast<std::size_t>(change);
}

const posted_request &process_books::add_request(known_qp &qp, std::uint64_t number,
                                                 posted_request added) {
    request_map &requests = added.is_receive ? qp.receives : qp.sends;
    if (!added.is_receive) {
        qp.last_send = number;
        // The peer may send only when it has this one: what was armed before is no evidence.
        if (known_cq *const cq = find_cq(qp.recv_cq))
            cq->num_receives_at_arm = 0;
        // Its completion comes after the CQ was armed, and makes the event.
        if (known_cq *const cq = find_cq(qp.send_cq); cq != nullptr && added.is_signaled)
            cq->num_sends_at_arm = 0;
    }
    posted_request &kept = requests.emplace(number, std::move(added)).first->second;
    count(qp, kept, 1);
    take_memory(kept);
    if (watcher != nullptr)
        watcher->begin(qp, number, kept);
    return kept;
}

const posted_request &process_books::add_request(known_srq &srq, std::uint64_t number,
                                                 posted_request added) {
    posted_request &kept = srq.receives.emplace(number, std::move(added)).first->second;
    count_mrs(kept, 1);
    take_memory(kept);
    if (watcher != nullptr)
        watcher->begin(srq, number, kept);
    return kept;
}

posted_request *process_books::find_request(const interposer::request &request) noexcept {
    if (known_qp *const qp = find_qp(request.queue))
        return find_in(request.is_receive ? qp->receives : qp->sends, request.number);
    known_srq *const srq = find_srq(request.queue);
    return srq != nullptr ? find_in(srq->receives, request.number) : nullptr;
}

void process_books::remove_request(known_qp &qp, std::uint64_t number, bool is_receive) noexcept {
    request_map &requests = is_receive ? qp.receives : qp.sends;
    const auto it = requests.find(number);
    if (it == requests.end())
        return;
    count(qp, it->second, -1);
    end_use(number, it->second);
    requests.erase(it);
}

void process_books::remove_request(known_srq &srq, std::uint64_t number) noexcept {
    const auto it = srq.receives.find(number);
    if (it == srq.receives.end())
        return;
    count_mrs(it->second, -1);
    end_use(number, it->second);
    srq.receives.erase(it);
}

known_object describe_object(const interposer::object &object) {
    auto known = known_as<known_object>(object);
    known.creation.time = 0; // it was created before
    return known;
}

std::string describe_request(const posted_request &request) {
    const auto name = [&] {
        if (request.is_receive)
            return "a receive";
        switch (request.opcode) {
        case IBV_WR_RDMA_WRITE:
        case IBV_WR_RDMA_WRITE_WITH_IMM:
            return "an RDMA Write";
        case IBV_WR_RDMA_READ:
            return "an RDMA Read";
        case IBV_WR_ATOMIC_CMP_AND_SWP:
        case IBV_WR_ATOMIC_FETCH_AND_ADD:
            return "an atomic";
        case IBV_WR_SEND:
        case IBV_WR_SEND_WITH_IMM:
        case IBV_WR_SEND_WITH_INV:
            return "a Send";
        default:
            return "a request";
        }
    };
    return std::string(name()) + ", wr_id " + hex_number(request.wr_id);
}

const char *state_name(ibv_qp_state state) noexcept {
    constexpr std::array NAMES = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    const auto index = static_cast<std::size_t>(state);
    return index < NAMES.size() ? NAMES[index] : "not known";
}

} // namespace coherdma::check
