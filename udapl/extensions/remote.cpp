// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "remote.hpp"

#include "dapl/ia.hpp"
#include "dapl/post.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>

namespace coherdma::dapl::extensions {

namespace {

constexpr std::uint32_t word = 8;

/// How the queue pair does it, found out when it is first asked for. Under the requests' guard.
DAT_RETURN know(ep &one) noexcept {
    if (one.qp == nullptr || !one.takes_requests())
        return wrong_state(subtype_of(one.now()));
    if (!one.reach)
        one.reach.reset(coherdma_open_remote(one.qp));
    return one.reach ? DAT_SUCCESS : failed_with(errno, DAT_RESOURCE_TEP);
}

std::uint32_t completion_of(DAT_COMPLETION_FLAGS flags) noexcept {
    return (flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0 ? COHERDMA_COMPLETION_ON_ERROR
                                                       : COHERDMA_COMPLETION_ALWAYS;
}

/// With a record of what its event will say. argument: what is wrong if the request is.
template <class how>
DAT_RETURN post(ep &one, DAT_DTOS operation, std::uint32_t length, DAT_UINT64 cookie,
                unsigned argument, const how &give) noexcept {
    const holding held(one.requests.guard);
    if (const DAT_RETURN result = know(one); result != DAT_SUCCESS)
        return result;
    record *const next = one.requests.next();
    if (next == nullptr)
        return no_room(one);
    next->told.user_cookie.as_64 = cookie;
    next->told.transfered_length = length;
    next->told.operation = operation;
    one.requests.posted(*next);
    const int error = give(*one.reach, reinterpret_cast<std::uintptr_t>(next));
    if (error == 0)
        return DAT_SUCCESS;
    one.requests.not_posted();
    return error == EOPNOTSUPP ? failed(DAT_MODEL_NOT_SUPPORTED)
           : error == EINVAL   ? wrong_argument(argument)
                               : failed_with(error, DAT_RESOURCE_MEMORY);
}

} // namespace

DAT_RETURN atomic_write(DAT_EP_HANDLE ep_handle, const void *value, const DAT_LMR_TRIPLET *old,
                        DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
                        DAT_COMPLETION_FLAGS flags) noexcept {
    ep *const one = as<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    if (value == nullptr)
        return wrong_argument(2);
    if (remote == nullptr || remote->virtual_address % word != 0)
        return wrong_argument(5);
    return post(*one, DAT_DTO_RDMA_WRITE, word, cookie.as_64, 3,
                [&](const coherdma_remote &reach, DAT_UINT64 id) {
                    return coherdma_post_atomic_write(
                        &reach, remote->virtual_address, remote->rmr_context, value,
                        reinterpret_cast<const ibv_sge *>(old), completion_of(flags), id);
                });
}

DAT_RETURN flush(DAT_EP_HANDLE ep_handle, const DAT_LMR_TRIPLET *scratch, DAT_DTO_COOKIE cookie,
                 const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags) noexcept {
    ep *const one = as<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    if (scratch == nullptr || scratch->segment_length == 0)
        return wrong_argument(2);
    if (remote == nullptr || remote->segment_length == 0)
        return wrong_argument(4);
    return post(*one, DAT_DTO_RDMA_READ, remote->segment_length, cookie.as_64, 4,
                [&](const coherdma_remote &reach, DAT_UINT64 id) {
                    return coherdma_post_flush(&reach, remote->virtual_address,
                                               remote->segment_length, remote->rmr_context,
                                               reinterpret_cast<const ibv_sge *>(scratch),
                                               completion_of(flags), id);
                });
}

DAT_RETURN ways(DAT_EP_HANDLE ep_handle, DAT_COHERDMA_WAYS *to) noexcept {
    ep *const one = as<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    if (to == nullptr)
        return wrong_argument(2);
    const holding held(one->requests.guard);
    if (const DAT_RETURN result = know(*one); result != DAT_SUCCESS)
        return result;
    coherdma_remote_attr are = {};
    coherdma_query_remote(one->reach.get(), &are, sizeof are);
    to->atomic_write = static_cast<DAT_COHERDMA_WAY>(are.atomic_write);
    to->flush = static_cast<DAT_COHERDMA_WAY>(are.flush);
    return DAT_SUCCESS;
}

bool is_remote(DAT_EXTENDED_OP operation) noexcept {
    return operation == DAT_COHERDMA_ATOMIC_WRITE_OP || operation == DAT_COHERDMA_FLUSH_OP ||
           operation == DAT_COHERDMA_QUERY_WAYS_OP;
}

DAT_RETURN operate_remote(DAT_HANDLE handle, DAT_EXTENDED_OP operation,
                          std::va_list arguments) noexcept {
    if (operation == DAT_COHERDMA_QUERY_WAYS_OP)
        return ways(handle, va_arg(arguments, DAT_COHERDMA_WAYS *));
    const bool writes = operation == DAT_COHERDMA_ATOMIC_WRITE_OP;
    const auto *const value = writes ? va_arg(arguments, const void *) : nullptr;
    const auto *const local = va_arg(arguments, const DAT_LMR_TRIPLET *);
    const auto cookie = va_arg(arguments, DAT_DTO_COOKIE);
    const auto *const remote = va_arg(arguments, const DAT_RMR_TRIPLET *);
    const auto flags = static_cast<DAT_COMPLETION_FLAGS>(va_arg(arguments, int));
    return writes ? atomic_write(handle, value, local, cookie, remote, flags)
                  : flush(handle, local, cookie, remote, flags);
}

} // namespace coherdma::dapl::extensions
