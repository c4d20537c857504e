// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "remote.hpp"

#include "dapl/ep/post.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/memory/local_sync.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>

namespace coherdma::dapl::extensions {

namespace {

constexpr std::uint32_t atomic_write_size = 8;

/// Sets ep.remote_ops, libcoherdma's handle for atomic writes and flushes, on the first call for a
/// QP. The caller holds the lock of the EP's requests, which guards it.
DAT_RETURN open_remote(dapl_ep &ep) noexcept {
    if (ep.is_ud)
        return dat_error(DAT_MODEL_NOT_SUPPORTED);
    if (ep.qp == nullptr || !ep.can_post_requests())
        return invalid_state(state_subtype(ep.current_state()));
    if (!ep.remote_ops)
        ep.remote_ops.reset(coherdma_open_qp(ep.qp));
    return ep.remote_ops ? DAT_SUCCESS : from_errno(errno, DAT_RESOURCE_TEP);
}

std::uint32_t to_post_flags(DAT_COMPLETION_FLAGS flags) noexcept {
    return (flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0 ? COHERDMA_POST_COMPLETION_ON_ERROR
                                                       : COHERDMA_POST_COMPLETION_ALWAYS;
}

std::uint32_t to_atomic_write_flags(DAT_COMPLETION_FLAGS flags) noexcept {
    return to_post_flags(flags) |
           ((flags & DAT_COHERDMA_NEVER_TORN_FLAG) != 0 ? std::uint32_t{COHERDMA_POST_NEVER_TORN}
                                                        : 0);
}

/// Calls post_fn(remote_ops, wr_id). wr_id is the cookie that has the data of the completion event.
/// sink: local memory that the device may write, or nullptr. If post_fn returns EINVAL, the invalid
/// argument is the one with the number `argument`.
template <class post_function>
DAT_RETURN post_remote(dapl_ep &ep, DAT_DTOS operation, std::uint32_t length,
                       DAT_UINT64 user_cookie, const DAT_LMR_TRIPLET *sink, unsigned argument,
                       const post_function &post_fn) noexcept {
    const std::lock_guard guard(ep.requests.lock);
    if (const DAT_RETURN result = open_remote(ep); result != DAT_SUCCESS)
        return result;
    dto_cookie *const cookie = ep.requests.peek_any_free();
    if (cookie == nullptr)
        return request_queue_full(ep);
    cookie->event.user_cookie.as_64 = user_cookie;
    cookie->event.transfered_length = length;
    cookie->event.operation = operation;
    if (ep.requests.has_sinks()) {
        const std::size_t num_sinks = sink != nullptr ? 1 : 0;
        cookie->set_sinks(sink, num_sinks, ep.requests.max_sinks());
        sync_for_device(*ep.ia, sink, num_sinks, true);
    }
    constexpr unsigned unknown_flags = 0; // of libcoherdma's requests
    ep.requests.commit(*cookie, unknown_flags);
    const int error = post_fn(*ep.remote_ops, ep.requests.wr_id_of(*cookie));
    if (error == 0)
        return DAT_SUCCESS;
    ep.requests.rollback();
    return error == EOPNOTSUPP ? dat_error(DAT_MODEL_NOT_SUPPORTED)
           : error == EINVAL   ? invalid_parameter(argument)
                               : from_errno(error, DAT_RESOURCE_MEMORY);
}

} // namespace

/// DAT_COHERDMA_ATOMIC_WRITE_OP. The completion has the event of an RDMA Write. compare: see
/// coherdma_post_atomic_write(); a DAT_LMR_TRIPLET has the layout of ibv_sge.
DAT_RETURN atomic_write(DAT_EP_HANDLE ep_handle, const void *value, const DAT_LMR_TRIPLET *compare,
                        DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote,
                        DAT_COMPLETION_FLAGS flags) noexcept {
    const auto ep = lookup<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (value == nullptr)
        return invalid_parameter(2);
    if (remote == nullptr || remote->virtual_address % atomic_write_size != 0)
        return invalid_parameter(5);
    return post_remote(*ep, DAT_DTO_RDMA_WRITE, atomic_write_size, user_cookie.as_64, compare, 3,
                       [&](const coherdma_qp &remote_ops, DAT_UINT64 wr_id) {
                           return coherdma_post_atomic_write(
                               &remote_ops, wr_id, to_atomic_write_flags(flags),
                               remote->rmr_context, remote->virtual_address, value,
                               reinterpret_cast<const ibv_sge *>(compare));
                       });
}

/// DAT_COHERDMA_FLUSH_OP. The completion has the event of an RDMA Read. scratch: where the bytes
/// are stored that it reads; a DAT_LMR_TRIPLET has the layout of ibv_sge.
DAT_RETURN flush(DAT_EP_HANDLE ep_handle, const DAT_LMR_TRIPLET *scratch,
                 DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote,
                 DAT_COMPLETION_FLAGS flags) noexcept {
    const auto ep = lookup<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (scratch == nullptr || scratch->segment_length == 0)
        return invalid_parameter(2);
    if (remote == nullptr || remote->segment_length == 0)
        return invalid_parameter(4);
    return post_remote(*ep, DAT_DTO_RDMA_READ, remote->segment_length, user_cookie.as_64, scratch,
                       4, [&](const coherdma_qp &remote_ops, DAT_UINT64 wr_id) {
                           return coherdma_post_flush(&remote_ops, wr_id, to_post_flags(flags),
                                                      remote->rmr_context, remote->virtual_address,
                                                      remote->segment_length,
                                                      reinterpret_cast<const ibv_sge *>(scratch));
                       });
}

/// By which operations libcoherdma makes atomic writes and flushes on this EP.
DAT_RETURN query_methods(DAT_EP_HANDLE ep_handle, DAT_COHERDMA_METHODS *methods) noexcept {
    const auto ep = lookup<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (methods == nullptr)
        return invalid_parameter(2);
    const std::lock_guard guard(ep->requests.lock);
    if (const DAT_RETURN result = open_remote(*ep); result != DAT_SUCCESS)
        return result;
    coherdma_qp_attr attr = {};
    coherdma_query_qp(ep->remote_ops.get(), &attr, sizeof attr);
    methods->atomic_write = static_cast<DAT_COHERDMA_METHOD>(attr.atomic_write);
    methods->flush = static_cast<DAT_COHERDMA_METHOD>(attr.flush);
    methods->never_torn_write = static_cast<DAT_COHERDMA_METHOD>(attr.never_torn_write);
    return DAT_SUCCESS;
}

bool is_remote_op(DAT_EXTENDED_OP operation) noexcept {
    return operation == DAT_COHERDMA_ATOMIC_WRITE_OP || operation == DAT_COHERDMA_FLUSH_OP ||
           operation == DAT_COHERDMA_QUERY_METHODS_OP;
}

/// Atomic writes, flushes and the query of how they are made. args: those of dat_extension_op after
/// the operation.
DAT_RETURN remote_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, std::va_list args) noexcept {
    if (operation == DAT_COHERDMA_QUERY_METHODS_OP)
        return query_methods(handle, va_arg(args, DAT_COHERDMA_METHODS *));
    const bool is_write = operation == DAT_COHERDMA_ATOMIC_WRITE_OP;
    const auto *const value = is_write ? va_arg(args, const void *) : nullptr;
    const auto *const local = va_arg(args, const DAT_LMR_TRIPLET *);
    const auto user_cookie = va_arg(args, DAT_DTO_COOKIE);
    const auto *const remote = va_arg(args, const DAT_RMR_TRIPLET *);
    const auto flags = static_cast<DAT_COMPLETION_FLAGS>(va_arg(args, int));
    return is_write ? atomic_write(handle, value, local, user_cookie, remote, flags)
                    : flush(handle, local, user_cookie, remote, flags);
}

} // namespace coherdma::dapl::extensions
