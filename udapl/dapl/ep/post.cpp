// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Data transfer operations. Every request with a list takes the same path: look up the EP, check
// the arguments, and post under the request ring's lock.

#include "post.hpp"

#include "dapl/api.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/memory/lmr.hpp"
#include "dapl/memory/local_sync.hpp"
#include "dapl/memory/rmr.hpp"

#include <cerrno>

namespace coherdma::dapl {

namespace {

constexpr dto_op send = {.opcode = IBV_WR_SEND, .operation = DAT_DTO_SEND, .can_inline = true};
constexpr dto_op send_with_invalidate = {.opcode = IBV_WR_SEND_WITH_INV,
                                         .operation = DAT_DTO_SEND,
                                         .can_inline = false}; // siw refuses it
constexpr dto_op rdma_write = {
    .opcode = IBV_WR_RDMA_WRITE, .operation = DAT_DTO_RDMA_WRITE, .can_inline = true};
constexpr dto_op rdma_read = {
    .opcode = IBV_WR_RDMA_READ, .operation = DAT_DTO_RDMA_READ, .can_inline = false};

template <const dto_op &op, std::atomic<DAT_COUNT> dapl_ep::*max_segments>
DAT_RETURN post_rdma(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                     DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote,
                     DAT_COMPLETION_FLAGS flags) noexcept {
    const auto ep = handle_to<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (remote == nullptr) [[unlikely]]
        return invalid_after_segments(*ep, (*ep).*max_segments, num_segments, iov, 5);
    return post_checked(*ep, op, (*ep).*max_segments, num_segments, iov, user_cookie, flags,
                        [remote](ibv_send_wr &wr) {
                            wr.wr.rdma.remote_addr = remote->virtual_address;
                            wr.wr.rdma.rkey = remote->rmr_context;
                        });
}

/// The error for a receive that finds no free cookie: the EP has an SRQ, no QP, or a full queue.
DAT_RETURN recv_queue_full(const dapl_ep &ep) noexcept {
    if (ep.has_srq)
        return invalid_state(DAT_INVALID_STATE_SRQ_IN_USE);
    return ep.qp == nullptr ? invalid_state(DAT_INVALID_STATE_EP_UNCONFIGURED)
                            : no_resources(DAT_RESOURCE_MEMORY);
}

/// For a receive that finds no free cookie by peek_free(): syncs its memory and posts it if the
/// device is not coherent, else an error. It ends as ep_post_recv does, which takes three
/// instructions more if both share that code: see tests/bench/dapl_costs.py.
[[gnu::cold, gnu::noinline]] DAT_RETURN post_recv_with_sync(dapl_ep &ep, DAT_COUNT num_segments,
                                                            DAT_LMR_TRIPLET *iov,
                                                            DAT_DTO_COOKIE user_cookie) noexcept {
    dto_cookie *const cookie = ep.receives.peek_free_with_sinks();
    if (cookie == nullptr)
        return recv_queue_full(ep);
    const auto count = static_cast<std::size_t>(num_segments);
    cookie->set_sinks(iov, count, ep.receives.max_sinks());
    sync_for_device(*ep.ia, iov, count, true);
    cookie->event.user_cookie = user_cookie;
    ibv_recv_wr wr = {to_wr_id(*cookie, sync_flag), nullptr, reinterpret_cast<ibv_sge *>(iov),
                      num_segments};
    ibv_recv_wr *bad_wr;
    ep.receives.commit(*cookie);
    if (const int error = ibv_post_recv(ep.qp, &wr, &bad_wr)) {
        ep.receives.rollback();
        return from_errno(error, DAT_RESOURCE_MEMORY);
    }
    return DAT_SUCCESS;
}

bool writes_local_memory(ibv_wr_opcode opcode) noexcept {
    return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
           opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

} // namespace

DAT_RETURN post_with_sync(dapl_ep &ep, const dto_op &op, ibv_send_wr &wr, std::uint32_t length,
                          DAT_UINT64 user_cookie, void *object) noexcept {
    dto_cookie *const cookie = peek_free<&cookie_ring::peek_free_with_sinks>(ep, op);
    if (cookie == nullptr)
        return request_queue_full(ep, op.is_datagram);
    const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0; // copied by the CPU
    const bool device_writes = writes_local_memory(op.opcode);
    const auto count = static_cast<std::size_t>(is_inline ? 0 : wr.num_sge);
    const auto *const iov = reinterpret_cast<const DAT_LMR_TRIPLET *>(wr.sg_list);
    cookie->set_sinks(iov, device_writes ? count : 0, ep.requests.max_sinks());
    sync_for_device(*ep.ia, iov, count, device_writes);
    wr.wr_id = to_wr_id(*cookie, sync_flag);
    return post_wr(ep, op, wr, *cookie, length, user_cookie, object);
}

/// The error for a request that finds no free cookie: the EP's service type or state, or a full
/// queue.
DAT_RETURN request_queue_full(const dapl_ep &ep, bool is_datagram) noexcept {
    if (ep.is_ud && !is_datagram)
        return dat_error(DAT_MODEL_NOT_SUPPORTED);
    return ep.qp == nullptr || !ep.can_post_requests()
               ? invalid_state(state_subtype(ep.current_state()))
               : no_resources(DAT_RESOURCE_MEMORY);
}

DAT_RETURN invalid_after_segments(const dapl_ep &ep, DAT_COUNT max_segments, DAT_COUNT num_segments,
                                  const DAT_LMR_TRIPLET *iov, unsigned argument) noexcept {
    std::uint64_t length;
    const DAT_RETURN result = check_segments(ep, max_segments, num_segments, iov, length);
    return result != DAT_SUCCESS ? result : invalid_parameter(argument);
}

DAT_RETURN ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                        DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS flags) noexcept {
    const auto ep = handle_to<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    return post_checked(*ep, send, ep->max_request_iov, num_segments, iov, user_cookie, flags,
                        [](ibv_send_wr &) {});
}

DAT_RETURN ep_post_send_with_invalidate(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                        DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE user_cookie,
                                        DAT_COMPLETION_FLAGS flags, DAT_BOOLEAN invalidate,
                                        DAT_RMR_CONTEXT rmr_context) noexcept {
    if (invalidate == DAT_FALSE)
        return ep_post_send(ep_handle, num_segments, iov, user_cookie, flags);
    const auto ep = handle_to<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    std::uint64_t length;
    const DAT_RETURN result = check_segments(*ep, ep->max_request_iov, num_segments, iov, length);
    if (result != DAT_SUCCESS)
        return result;
    const device &dev = *ep->ia->dev;
    if (!dev.iwarp && (dev.attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) == 0)
        return dat_error(DAT_MODEL_NOT_SUPPORTED);
    return post(*ep, send_with_invalidate,
                {num_segments, iov, static_cast<std::uint32_t>(length), user_cookie.as_64,
                 verbs_flags(flags)},
                [rmr_context](ibv_send_wr &wr) { wr.invalidate_rkey = rmr_context; });
}

DAT_RETURN ep_post_rdma_write(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                              DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote,
                              DAT_COMPLETION_FLAGS flags) noexcept {
    return post_rdma<rdma_write, &dapl_ep::max_write_iov>(ep_handle, num_segments, iov, user_cookie,
                                                          remote, flags);
}

DAT_RETURN ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                             DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote,
                             DAT_COMPLETION_FLAGS flags) noexcept {
    return post_rdma<rdma_read, &dapl_ep::max_read_iov>(ep_handle, num_segments, iov, user_cookie,
                                                        remote, flags);
}

/// The buffer is named by an RMR context; the WR needs the lkey of the LMR that the RMR is bound
/// to.
DAT_RETURN ep_post_rdma_read_to_rmr(DAT_EP_HANDLE ep_handle, const DAT_RMR_TRIPLET *local,
                                    DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote,
                                    DAT_COMPLETION_FLAGS flags) noexcept {
    const auto ep = handle_to<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (local == nullptr)
        return invalid_parameter(2);
    if (remote == nullptr)
        return invalid_parameter(4);
    DAT_LMR_TRIPLET sink = {local->virtual_address, local->segment_length, 0};
    if (!rmr_to_lmr_triplet(*ep->ia, *local, sink))
        return dat_error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_WRITE);
    return ep_post_rdma_read(ep_handle, 1, &sink, user_cookie, remote, flags);
}

DAT_RETURN ep_post_recv(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                        DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS) noexcept {
    const auto ep = handle_to<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (num_segments < 0 || num_segments > ep->max_recv_iov) [[unlikely]]
        return ep->has_srq ? invalid_state(DAT_INVALID_STATE_SRQ_IN_USE) : invalid_parameter(2);
    if (iov == nullptr && num_segments != 0) [[unlikely]]
        return invalid_parameter(3);
    const std::lock_guard guard(ep->receives.lock);
    dto_cookie *const cookie = ep->receives.peek_free();
    if (cookie == nullptr) [[unlikely]]
        return post_recv_with_sync(*ep, num_segments, iov, user_cookie);
    cookie->event.user_cookie = user_cookie;
    ibv_recv_wr wr = {to_wr_id(*cookie), nullptr, reinterpret_cast<ibv_sge *>(iov), num_segments};
    ibv_recv_wr *bad_wr;
    ep->receives.commit(*cookie);
    if (const int error = ibv_post_recv(ep->qp, &wr, &bad_wr)) {
        ep->receives.rollback();
        return from_errno(error, DAT_RESOURCE_MEMORY);
    }
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl
