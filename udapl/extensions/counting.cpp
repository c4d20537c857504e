// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The functions that count, around those that work. All is counted where the program sees it: when
// a call succeeds, and when an event is taken.

#include "counters.hpp"

#include "dapl/api.hpp"
#include "dapl/ep.hpp"
#include "dapl/evd.hpp"
#include "dapl/ia.hpp"
#include "ib.hpp"

#include <tuple>

namespace coherdma::dapl::extensions {

namespace {

counters *of(const object *one) noexcept {
    return one != nullptr ? one->counted.get() : nullptr;
}
counters *of_home(DAT_HANDLE handle) noexcept {
    DAT_HANDLE_TYPE kind;
    const object *const one = find_any(handle, kind);
    return one != nullptr ? of(one->home) : nullptr;
}
void add(counters *to, unsigned which, DAT_UINT64 how_many = 1) noexcept {
    if (to != nullptr)
        to->add(which, how_many);
}

void begin(object *one) noexcept {
    if (one != nullptr && one->counted == nullptr)
        one->counted.reset(new (std::nothrow) counters());
}
void begin(DAT_HANDLE handle) noexcept {
    begin(as<ia>(handle));
    begin(as<ep>(handle));
    begin(as<evd>(handle));
}

template <auto function, unsigned... which>
struct calls;
/// Counted for the IA of the first argument.
template <class... arguments, DAT_RETURN (*function)(DAT_HANDLE, arguments...) noexcept,
          unsigned... which>
struct calls<function, which...> {
    static DAT_RETURN counted(DAT_HANDLE handle, arguments... given) noexcept {
        counters *const home = of_home(handle); // before the call may free what was called
        const DAT_RETURN result = function(handle, given...);
        if (result == DAT_SUCCESS)
            (add(home, which), ...);
        return result;
    }
    /// The same, and the last argument is where a new handle is: its counters begin.
    static DAT_RETURN creating(DAT_HANDLE handle, arguments... given) noexcept {
        const DAT_RETURN result = counted(handle, given...);
        if (result == DAT_SUCCESS)
            begin(*std::get<sizeof...(given) - 1>(std::tie(given...)));
        return result;
    }
    /// Counted for an EP.
    static DAT_RETURN of_ep(DAT_HANDLE handle, arguments... given) noexcept {
        const DAT_RETURN result = function(handle, given...);
        if (result == DAT_SUCCESS)
            (add(of(as<ep>(handle)), which), ...);
        return result;
    }
};

DAT_UINT64 length_of(const DAT_LMR_TRIPLET *iov, DAT_COUNT segments) noexcept {
    DAT_UINT64 all = 0;
    for (DAT_COUNT each = 0; each < segments; ++each)
        all += iov[each].segment_length;
    return all;
}

template <auto function, unsigned which>
struct posts;
/// Data transfers: how many, and their bytes in the counter after it.
template <class... more,
          DAT_RETURN (*function)(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, more...) noexcept,
          unsigned which>
struct posts<function, which> {
    static DAT_RETURN counted(DAT_EP_HANDLE handle, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
                              more... given) noexcept {
        const DAT_RETURN result = function(handle, segments, iov, given...);
        if (result == DAT_SUCCESS) {
            add(of(as<ep>(handle)), which);
            add(of(as<ep>(handle)), which + 1, length_of(iov, segments));
        }
        return result;
    }
};

DAT_RETURN read_to_rmr(DAT_EP_HANDLE handle, const DAT_RMR_TRIPLET *local, DAT_DTO_COOKIE cookie,
                       const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags) noexcept {
    const DAT_RETURN result = ep_post_rdma_read_to_rmr(handle, local, cookie, remote, flags);
    if (result == DAT_SUCCESS) {
        add(of(as<ep>(handle)), DCNT_EP_POST_READ);
        add(of(as<ep>(handle)), DCNT_EP_POST_READ_DATA, local->segment_length);
    }
    return result;
}

/// With the list, and the bytes it has.
void count_list(counters *to, unsigned which, std::va_list arguments) noexcept {
    const auto segments = va_arg(arguments, DAT_COUNT);
    const auto *const iov = va_arg(arguments, DAT_LMR_TRIPLET *);
    add(to, which);
    add(to, which + 1, length_of(iov, segments));
}

DAT_RETURN operate_counted(DAT_HANDLE handle, DAT_EXTENDED_OP operation,
                           std::va_list arguments) noexcept {
    std::va_list again;
    va_copy(again, arguments);
    const DAT_RETURN result = operate(handle, operation, arguments);
    if (counters *const to = of(as<ep>(handle)); result == DAT_SUCCESS && to != nullptr) {
        if (operation == DAT_IB_RDMA_WRITE_IMMED_OP)
            count_list(to, DCNT_EP_POST_WRITE_IMM, again);
        else if (operation == DAT_IB_UD_SEND_OP)
            count_list(to, DCNT_EP_POST_SEND_UD, again);
        else if (operation == DAT_IB_FETCH_AND_ADD_OP)
            add(to, DCNT_EP_POST_FETCH_ADD);
        else if (operation == DAT_IB_CMP_AND_SWAP_OP)
            add(to, DCNT_EP_POST_CMP_SWAP);
    }
    va_end(again);
    return result;
}

template <auto function>
struct connects;
template <class... arguments, DAT_RETURN (*function)(DAT_EP_HANDLE, arguments...) noexcept>
struct connects<function> {
    static DAT_RETURN counted(DAT_EP_HANDLE handle, arguments... given) noexcept {
        // Before the call, since the event may come before it returns.
        counters *const to = of(as<ep>(handle));
        if (to != nullptr)
            to->connects = true;
        const DAT_RETURN result = function(handle, given...);
        if (result == DAT_SUCCESS) {
            add(to, DCNT_EP_CONNECT);
            add(of_home(handle), DCNT_IA_CM_REQ_TX);
        }
        return result;
    }
};

DAT_RETURN disconnect(DAT_EP_HANDLE handle, DAT_CLOSE_FLAGS flags) noexcept {
    counters *const to = of(as<ep>(handle));
    const bool ended = to != nullptr && to->ended.exchange(true);
    const DAT_RETURN result = ep_disconnect(handle, flags);
    if (result == DAT_SUCCESS && !ended) {
        add(to, DCNT_EP_DISCONNECT);
        add(of_home(handle), DCNT_IA_CM_DREQ_TX);
    }
    if (result != DAT_SUCCESS && to != nullptr)
        to->ended = ended;
    return result;
}

/// A receive, and what it has brought.
void tell_receive(counters *to, unsigned which, DAT_VLEN length) noexcept {
    add(to, which);
    add(to, which + 1, length);
}

void tell_transfer(const DAT_EVENT &event) noexcept {
    const auto &data = event.event_data.dto_completion_event_data;
    if (data.status != DAT_DTO_SUCCESS)
        return;
    counters *const to = of(as<ep>(data.ep_handle));
    switch (static_cast<int>(data.operation)) {
    case DAT_DTO_RECEIVE:
    case DAT_DTO_RECEIVE_WITH_INVALIDATE:
        return tell_receive(to, DCNT_EP_RECV, data.transfered_length);
    case DAT_IB_DTO_RECV_UD:
        return tell_receive(to, DCNT_EP_RECV_UD, data.transfered_length);
    case DAT_IB_DTO_RECV_MSG_IMMED:
        return tell_receive(to, DCNT_EP_RECV_IMM, data.transfered_length);
    case DAT_IB_DTO_RECV_IMMED:
        return tell_receive(to, DCNT_EP_RECV_RDMA_IMM, data.transfered_length);
    default:
        return;
    }
}

void tell_connection(const DAT_EVENT &event) noexcept {
    const DAT_EP_HANDLE handle = event.event_data.connect_event_data.ep_handle;
    counters *const home = of_home(handle), *const to = of(as<ep>(handle));
    switch (event.event_number) {
    case DAT_CONNECTION_EVENT_ESTABLISHED: {
        const bool active = to != nullptr && to->connects.exchange(false);
        add(home, active ? DCNT_IA_CM_REP_RX : DCNT_IA_CM_RTU_RX);
        add(home, active ? DCNT_IA_CM_ACTIVE_EST : DCNT_IA_CM_PASSIVE_EST);
        if (active)
            add(home, DCNT_IA_CM_RTU_TX);
        return;
    }
    case DAT_CONNECTION_EVENT_DISCONNECTED:
        return add(home, to != nullptr && to->ended.exchange(false) ? DCNT_IA_CM_DREP_RX
                                                                    : DCNT_IA_CM_DREQ_RX);
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
        return add(home, DCNT_IA_CM_USER_REJ_RX);
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
        return add(home, DCNT_IA_CM_ERR_REFUSED);
    case DAT_CONNECTION_EVENT_BROKEN:
        return add(home, DCNT_IA_CM_ERR_RESET);
    default:
        return add(home, DCNT_IA_CM_ERR_TIMEOUT);
    }
}

void tell_error(const DAT_EVENT &event) noexcept {
    counters *const home = of_home(event.evd_handle);
    add(home, DCNT_IA_ASYNC_ERROR);
    if (event.event_number == DAT_ASYNC_ERROR_EP_BROKEN)
        add(home, DCNT_IA_ASYNC_QP_ERROR);
    if (event.event_number == DAT_ASYNC_ERROR_EVD_OVERFLOW)
        add(home, DCNT_IA_ASYNC_CQ_ERROR);
}

void tell_taken(const DAT_EVENT &event) noexcept {
    const unsigned number = event.event_number;
    if (number == DAT_DTO_COMPLETION_EVENT || number == DAT_IB_DTO_EVENT)
        tell_transfer(event);
    else if (number == DAT_CONNECTION_REQUEST_EVENT) {
        counters *const home = of_home(event.evd_handle);
        add(home, DCNT_IA_SP_CR);
        add(home, DCNT_IA_CM_REQ_RX);
    } else if (number >= DAT_CONNECTION_EVENT_ESTABLISHED &&
               number <= DAT_CONNECTION_EVENT_UNREACHABLE)
        tell_connection(event);
    else if (number >= DAT_ASYNC_ERROR_EVD_OVERFLOW &&
             number <= DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR)
        tell_error(event);
}

DAT_RETURN dequeue(DAT_EVD_HANDLE handle, DAT_EVENT *event) noexcept {
    const DAT_RETURN result = evd_dequeue(handle, event);
    counters *const to = of(as<evd>(handle));
    add(to, DCNT_EVD_DEQUEUE);
    add(to, result == DAT_SUCCESS ? DCNT_EVD_DEQUEUE_FOUND : DCNT_EVD_DEQUEUE_NOT_FOUND);
    if (result == DAT_SUCCESS)
        tell_taken(*event);
    return result;
}

DAT_RETURN wait(DAT_EVD_HANDLE handle, DAT_TIMEOUT timeout, DAT_COUNT threshold, DAT_EVENT *event,
                DAT_COUNT *more) noexcept {
    add(of(as<evd>(handle)), DCNT_EVD_WAIT);
    const DAT_RETURN result = evd_wait(handle, timeout, threshold, event, more);
    if (result == DAT_SUCCESS)
        tell_taken(*event);
    return result;
}

template <auto function>
DAT_RETURN open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async,
                DAT_IA_HANDLE *ia_handle) noexcept {
    const DAT_RETURN result = function(name, qlen, async, ia_handle);
    if (result == DAT_SUCCESS) {
        begin(*ia_handle);
        begin(*async);
    }
    return result;
}

} // namespace

void count_calls(DAT_PROVIDER &table) noexcept {
    table.ia_open_func =
        table.ia_open_func == ia_open ? open<&ia_open> : open<&ia_open_thread_safe>;
    table.pz_create_func = calls<&pz_create, DCNT_IA_PZ_CREATE>::counted;
    table.pz_free_func = calls<&pz_free, DCNT_IA_PZ_FREE>::counted;
    table.lmr_create_func = calls<&lmr_create, DCNT_IA_LMR_CREATE>::counted;
    table.lmr_free_func = calls<&lmr_free, DCNT_IA_LMR_FREE>::counted;
    table.rmr_create_func = calls<&rmr_create, DCNT_IA_RMR_CREATE>::counted;
    table.rmr_create_for_ep_func = calls<&rmr_create_for_ep, DCNT_IA_RMR_CREATE>::counted;
    table.rmr_free_func = calls<&rmr_free, DCNT_IA_RMR_FREE>::counted;
    table.psp_create_func = calls<&psp_create, DCNT_IA_PSP_CREATE, DCNT_IA_CM_LISTEN>::counted;
    table.psp_create_any_func =
        calls<&psp_create_any, DCNT_IA_PSP_CREATE_ANY, DCNT_IA_CM_LISTEN>::counted;
    table.psp_free_func = calls<&psp_free, DCNT_IA_PSP_FREE>::counted;
    table.rsp_create_func = calls<&rsp_create, DCNT_IA_RSP_CREATE, DCNT_IA_CM_LISTEN>::counted;
    table.rsp_free_func = calls<&rsp_free, DCNT_IA_RSP_FREE>::counted;
    table.srq_create_func = calls<&srq_create, DCNT_IA_SRQ_CREATE>::counted;
    table.srq_free_func = calls<&srq_free, DCNT_IA_SRQ_FREE>::counted;
    table.evd_create_func = calls<&evd_create, DCNT_IA_EVD_CREATE>::creating;
    table.evd_free_func = calls<&evd_free, DCNT_IA_EVD_FREE>::counted;
    table.evd_dequeue_func = dequeue;
    table.evd_wait_func = wait;
    table.ep_create_func = calls<&ep_create, DCNT_IA_EP_CREATE>::creating;
    table.ep_create_with_srq_func = calls<&ep_create_with_srq, DCNT_IA_EP_CREATE>::creating;
    table.ep_free_func = calls<&ep_free, DCNT_IA_EP_FREE>::counted;
    table.ep_connect_func = connects<&ep_connect>::counted;
    table.ep_dup_connect_func = connects<&ep_dup_connect>::counted;
    table.ep_common_connect_func = connects<&ep_common_connect>::counted;
    table.ep_disconnect_func = disconnect;
    table.cr_accept_func = calls<&cr_accept, DCNT_IA_SP_CR_ACCEPTED, DCNT_IA_CM_REP_TX>::counted;
    table.cr_reject_func =
        calls<&cr_reject, DCNT_IA_SP_CR_REJECTED, DCNT_IA_CM_USER_REJ_TX>::counted;
    table.ep_post_send_func = posts<&ep_post_send, DCNT_EP_POST_SEND>::counted;
    table.ep_post_send_with_invalidate_func =
        posts<&ep_post_send_with_invalidate, DCNT_EP_POST_SEND>::counted;
    table.ep_post_recv_func = posts<&ep_post_recv, DCNT_EP_POST_RECV>::counted;
    table.ep_post_rdma_write_func = posts<&ep_post_rdma_write, DCNT_EP_POST_WRITE>::counted;
    table.ep_post_rdma_read_func = posts<&ep_post_rdma_read, DCNT_EP_POST_READ>::counted;
    table.ep_post_rdma_read_to_rmr_func = read_to_rmr;
    table.handle_extendedop_func = operate_counted;
}

} // namespace coherdma::dapl::extensions
