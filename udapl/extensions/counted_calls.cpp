// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The functions that count: each calls the function of DAT and counts it if it succeeds. Events are
// counted when the consumer dequeues them.

#include "counters.hpp"

#include "dapl/api.hpp"
#include "dapl/ep/ep.hpp"
#include "dapl/event/evd.hpp"
#include "dapl/ia/ia.hpp"
#include "ib.hpp"

#include <tuple>

namespace coherdma::dapl::extensions {

namespace {

counter_set *obj_counters(const object *obj) noexcept {
    return obj != nullptr ? obj->counters.get() : nullptr;
}
counter_set *ep_counters(DAT_EP_HANDLE ep_handle) noexcept {
    return obj_counters(lookup<dapl_ep>(ep_handle));
}
/// The counters of the object's IA.
counter_set *ia_counters(DAT_HANDLE handle) noexcept {
    DAT_HANDLE_TYPE type;
    const object *const obj = find_any(handle, type);
    return obj != nullptr ? obj_counters(obj->ia) : nullptr;
}
void add(counter_set *set, unsigned counter, DAT_UINT64 value = 1) noexcept {
    if (set != nullptr)
        set->add(counter, value);
}
/// A counter of operations, and the next one, which counts their bytes.
void add_with_bytes(counter_set *set, unsigned counter, DAT_UINT64 bytes) noexcept {
    add(set, counter);
    add(set, counter + 1, bytes);
}

void alloc_counters(object *obj) noexcept {
    if (obj != nullptr && obj->counters == nullptr)
        obj->counters.reset(new (std::nothrow) counter_set());
}
void alloc_counters(DAT_HANDLE handle) noexcept {
    alloc_counters(lookup<dapl_ia>(handle));
    alloc_counters(lookup<dapl_ep>(handle));
    alloc_counters(lookup<dapl_evd>(handle));
}

template <auto function, unsigned... ia_counter>
struct counted;
/// Counts in the IA of the first argument.
template <class... arg_types, DAT_RETURN (*function)(DAT_HANDLE, arg_types...) noexcept,
          unsigned... ia_counter>
struct counted<function, ia_counter...> {
    static DAT_RETURN call(DAT_HANDLE handle, arg_types... args) noexcept {
        counter_set *const set = ia_counters(handle); // before function, which may free the object
        const DAT_RETURN result = function(handle, args...);
        if (result == DAT_SUCCESS)
            (add(set, ia_counter), ...);
        return result;
    }
    /// Also allocates the new object's counters. The last argument points to its handle.
    static DAT_RETURN create(DAT_HANDLE handle, arg_types... args) noexcept {
        const DAT_RETURN result = call(handle, args...);
        if (result == DAT_SUCCESS)
            alloc_counters(*std::get<sizeof...(args) - 1>(std::tie(args...)));
        return result;
    }
};

DAT_UINT64 iov_length(const DAT_LMR_TRIPLET *iov, DAT_COUNT num_segments) noexcept {
    DAT_UINT64 length = 0;
    for (DAT_COUNT i = 0; i < num_segments; ++i)
        length += iov[i].segment_length;
    return length;
}

template <auto function, unsigned ep_counter>
struct counted_post;
/// Counts a post and its bytes in the EP.
template <class... arg_types,
          DAT_RETURN (*function)(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *,
                                 arg_types...) noexcept,
          unsigned ep_counter>
struct counted_post<function, ep_counter> {
    static DAT_RETURN call(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                           arg_types... args) noexcept {
        const DAT_RETURN result = function(ep_handle, num_segments, iov, args...);
        if (result == DAT_SUCCESS)
            add_with_bytes(ep_counters(ep_handle), ep_counter, iov_length(iov, num_segments));
        return result;
    }
};

DAT_RETURN post_rdma_read_to_rmr(DAT_EP_HANDLE ep_handle, const DAT_RMR_TRIPLET *local,
                                 DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote,
                                 DAT_COMPLETION_FLAGS flags) noexcept {
    const DAT_RETURN result =
        ep_post_rdma_read_to_rmr(ep_handle, local, user_cookie, remote, flags);
    if (result == DAT_SUCCESS)
        add_with_bytes(ep_counters(ep_handle), DCNT_EP_POST_READ, local->segment_length);
    return result;
}

/// args: those of a post by dat_extension_op that begin with num_segments and iov.
void count_extended_post(counter_set *set, unsigned counter, std::va_list args) noexcept {
    const auto num_segments = va_arg(args, DAT_COUNT);
    const auto *const iov = va_arg(args, DAT_LMR_TRIPLET *);
    add_with_bytes(set, counter, iov_length(iov, num_segments));
}

DAT_RETURN counted_extended_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation,
                               std::va_list args) noexcept {
    std::va_list args_copy;
    va_copy(args_copy, args);
    const DAT_RETURN result = extended_op(handle, operation, args);
    if (counter_set *const set = ep_counters(handle); result == DAT_SUCCESS && set != nullptr) {
        if (operation == DAT_IB_RDMA_WRITE_IMMED_OP)
            count_extended_post(set, DCNT_EP_POST_WRITE_IMM, args_copy);
        else if (operation == DAT_IB_UD_SEND_OP)
            count_extended_post(set, DCNT_EP_POST_SEND_UD, args_copy);
        else if (operation == DAT_IB_FETCH_AND_ADD_OP)
            add(set, DCNT_EP_POST_FETCH_ADD);
        else if (operation == DAT_IB_CMP_AND_SWAP_OP)
            add(set, DCNT_EP_POST_CMP_SWAP);
    }
    va_end(args_copy);
    return result;
}

template <auto function>
struct counted_connect;
template <class... arg_types, DAT_RETURN (*function)(DAT_EP_HANDLE, arg_types...) noexcept>
struct counted_connect<function> {
    static DAT_RETURN call(DAT_EP_HANDLE ep_handle, arg_types... args) noexcept {
        // Before the call: the event may be dequeued before it returns.
        counter_set *const set = ep_counters(ep_handle);
        if (set != nullptr)
            set->connect_called = true;
        const DAT_RETURN result = function(ep_handle, args...);
        if (result == DAT_SUCCESS) {
            add(set, DCNT_EP_CONNECT);
            add(ia_counters(ep_handle), DCNT_IA_CM_REQ_TX);
        }
        return result;
    }
};

DAT_RETURN disconnect(DAT_EP_HANDLE ep_handle, DAT_CLOSE_FLAGS flags) noexcept {
    counter_set *const set = ep_counters(ep_handle);
    const bool called_before = set != nullptr && set->disconnect_called.exchange(true);
    const DAT_RETURN result = ep_disconnect(ep_handle, flags);
    if (result == DAT_SUCCESS && !called_before) {
        add(set, DCNT_EP_DISCONNECT);
        add(ia_counters(ep_handle), DCNT_IA_CM_DREQ_TX);
    }
    if (result != DAT_SUCCESS && set != nullptr)
        set->disconnect_called = called_before;
    return result;
}

void count_dto_event(const DAT_EVENT &event) noexcept {
    const auto &data = event.event_data.dto_completion_event_data;
    if (data.status != DAT_DTO_SUCCESS)
        return;
    counter_set *const set = ep_counters(data.ep_handle);
    switch (static_cast<int>(data.operation)) {
    case DAT_DTO_RECEIVE:
    case DAT_DTO_RECEIVE_WITH_INVALIDATE:
        return add_with_bytes(set, DCNT_EP_RECV, data.transfered_length);
    case DAT_IB_DTO_RECV_UD:
        return add_with_bytes(set, DCNT_EP_RECV_UD, data.transfered_length);
    case DAT_IB_DTO_RECV_MSG_IMMED:
        return add_with_bytes(set, DCNT_EP_RECV_IMM, data.transfered_length);
    case DAT_IB_DTO_RECV_IMMED:
        return add_with_bytes(set, DCNT_EP_RECV_RDMA_IMM, data.transfered_length);
    default:
        return;
    }
}

void count_connection_event(const DAT_EVENT &event) noexcept {
    const DAT_EP_HANDLE ep_handle = event.event_data.connect_event_data.ep_handle;
    counter_set *const ia_set = ia_counters(ep_handle), *const ep_set = ep_counters(ep_handle);
    switch (event.event_number) {
    case DAT_CONNECTION_EVENT_ESTABLISHED: {
        const bool active = ep_set != nullptr && ep_set->connect_called.exchange(false);
        add(ia_set, active ? DCNT_IA_CM_REP_RX : DCNT_IA_CM_RTU_RX);
        add(ia_set, active ? DCNT_IA_CM_ACTIVE_EST : DCNT_IA_CM_PASSIVE_EST);
        if (active)
            add(ia_set, DCNT_IA_CM_RTU_TX);
        return;
    }
    case DAT_CONNECTION_EVENT_DISCONNECTED:
        return add(ia_set, ep_set != nullptr && ep_set->disconnect_called.exchange(false)
                               ? DCNT_IA_CM_DREP_RX
                               : DCNT_IA_CM_DREQ_RX);
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
        return add(ia_set, DCNT_IA_CM_USER_REJ_RX);
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
        return add(ia_set, DCNT_IA_CM_ERR_REFUSED);
    case DAT_CONNECTION_EVENT_BROKEN:
        return add(ia_set, DCNT_IA_CM_ERR_RESET);
    default:
        return add(ia_set, DCNT_IA_CM_ERR_TIMEOUT);
    }
}

void count_async_event(const DAT_EVENT &event) noexcept {
    counter_set *const set = ia_counters(event.evd_handle);
    add(set, DCNT_IA_ASYNC_ERROR);
    if (event.event_number == DAT_ASYNC_ERROR_EP_BROKEN)
        add(set, DCNT_IA_ASYNC_QP_ERROR);
    if (event.event_number == DAT_ASYNC_ERROR_EVD_OVERFLOW)
        add(set, DCNT_IA_ASYNC_CQ_ERROR);
}

void count_event(const DAT_EVENT &event) noexcept {
    const unsigned number = event.event_number;
    if (number == DAT_DTO_COMPLETION_EVENT || number == DAT_IB_DTO_EVENT)
        count_dto_event(event);
    else if (number == DAT_CONNECTION_REQUEST_EVENT) {
        counter_set *const set = ia_counters(event.evd_handle);
        add(set, DCNT_IA_SP_CR);
        add(set, DCNT_IA_CM_REQ_RX);
    } else if (number >= DAT_CONNECTION_EVENT_ESTABLISHED &&
               number <= DAT_CONNECTION_EVENT_UNREACHABLE)
        count_connection_event(event);
    else if (number >= DAT_ASYNC_ERROR_EVD_OVERFLOW &&
             number <= DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR)
        count_async_event(event);
}

DAT_RETURN dequeue(DAT_EVD_HANDLE evd_handle, DAT_EVENT *event) noexcept {
    const DAT_RETURN result = evd_dequeue(evd_handle, event);
    counter_set *const set = obj_counters(lookup<dapl_evd>(evd_handle));
    add(set, DCNT_EVD_DEQUEUE);
    add(set, result == DAT_SUCCESS ? DCNT_EVD_DEQUEUE_FOUND : DCNT_EVD_DEQUEUE_NOT_FOUND);
    if (result == DAT_SUCCESS)
        count_event(*event);
    return result;
}

DAT_RETURN wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
                DAT_EVENT *event, DAT_COUNT *num_more) noexcept {
    add(obj_counters(lookup<dapl_evd>(evd_handle)), DCNT_EVD_WAIT);
    const DAT_RETURN result = evd_wait(evd_handle, timeout, threshold, event, num_more);
    if (result == DAT_SUCCESS)
        count_event(*event);
    return result;
}

template <auto function>
DAT_RETURN open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd_handle,
                DAT_IA_HANDLE *ia_handle) noexcept {
    const DAT_RETURN result = function(name, qlen, async_evd_handle, ia_handle);
    if (result == DAT_SUCCESS) {
        alloc_counters(*ia_handle);
        alloc_counters(*async_evd_handle);
    }
    return result;
}

} // namespace

void set_counted_calls(DAT_PROVIDER &table) noexcept {
    table.ia_open_func =
        table.ia_open_func == ia_open ? open<&ia_open> : open<&ia_open_thread_safe>;
    table.pz_create_func = counted<&pz_create, DCNT_IA_PZ_CREATE>::call;
    table.pz_free_func = counted<&pz_free, DCNT_IA_PZ_FREE>::call;
    table.lmr_create_func = counted<&lmr_create, DCNT_IA_LMR_CREATE>::call;
    table.lmr_free_func = counted<&lmr_free, DCNT_IA_LMR_FREE>::call;
    table.rmr_create_func = counted<&rmr_create, DCNT_IA_RMR_CREATE>::call;
    table.rmr_create_for_ep_func = counted<&rmr_create_for_ep, DCNT_IA_RMR_CREATE>::call;
    table.rmr_free_func = counted<&rmr_free, DCNT_IA_RMR_FREE>::call;
    table.psp_create_func = counted<&psp_create, DCNT_IA_PSP_CREATE, DCNT_IA_CM_LISTEN>::call;
    table.psp_create_any_func =
        counted<&psp_create_any, DCNT_IA_PSP_CREATE_ANY, DCNT_IA_CM_LISTEN>::call;
    table.psp_free_func = counted<&psp_free, DCNT_IA_PSP_FREE>::call;
    table.rsp_create_func = counted<&rsp_create, DCNT_IA_RSP_CREATE, DCNT_IA_CM_LISTEN>::call;
    table.rsp_free_func = counted<&rsp_free, DCNT_IA_RSP_FREE>::call;
    table.srq_create_func = counted<&srq_create, DCNT_IA_SRQ_CREATE>::call;
    table.srq_free_func = counted<&srq_free, DCNT_IA_SRQ_FREE>::call;
    table.evd_create_func = counted<&evd_create, DCNT_IA_EVD_CREATE>::create;
    table.evd_free_func = counted<&evd_free, DCNT_IA_EVD_FREE>::call;
    table.evd_dequeue_func = dequeue;
    table.evd_wait_func = wait;
    table.ep_create_func = counted<&ep_create, DCNT_IA_EP_CREATE>::create;
    table.ep_create_with_srq_func = counted<&ep_create_with_srq, DCNT_IA_EP_CREATE>::create;
    table.ep_free_func = counted<&ep_free, DCNT_IA_EP_FREE>::call;
    table.ep_connect_func = counted_connect<&ep_connect>::call;
    table.ep_dup_connect_func = counted_connect<&ep_dup_connect>::call;
    table.ep_common_connect_func = counted_connect<&ep_common_connect>::call;
    table.ep_disconnect_func = disconnect;
    table.cr_accept_func = counted<&cr_accept, DCNT_IA_SP_CR_ACCEPTED, DCNT_IA_CM_REP_TX>::call;
    table.cr_reject_func =
        counted<&cr_reject, DCNT_IA_SP_CR_REJECTED, DCNT_IA_CM_USER_REJ_TX>::call;
    table.ep_post_send_func = counted_post<&ep_post_send, DCNT_EP_POST_SEND>::call;
    table.ep_post_send_with_invalidate_func =
        counted_post<&ep_post_send_with_invalidate, DCNT_EP_POST_SEND>::call;
    table.ep_post_recv_func = counted_post<&ep_post_recv, DCNT_EP_POST_RECV>::call;
    table.ep_post_rdma_write_func = counted_post<&ep_post_rdma_write, DCNT_EP_POST_WRITE>::call;
    table.ep_post_rdma_read_func = counted_post<&ep_post_rdma_read, DCNT_EP_POST_READ>::call;
    table.ep_post_rdma_read_to_rmr_func = post_rdma_read_to_rmr;
    table.handle_extendedop_func = counted_extended_op;
}

} // namespace coherdma::dapl::extensions
