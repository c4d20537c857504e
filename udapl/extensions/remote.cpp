// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "remote.hpp"

#include "dapl/ia.hpp"
#include "dapl/post.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <dat2/dat_coherdma_extensions.h>

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

DAT_RETURN post_atomic_write(ep &one, std::va_list arguments) noexcept {
    const auto *const value = va_arg(arguments, const void *);
    const auto *const old = va_arg(arguments, const DAT_LMR_TRIPLET *);
    const auto cookie = va_arg(arguments, DAT_DTO_COOKIE);
    const auto *const remote = va_arg(arguments, const DAT_RMR_TRIPLET *);
    const auto flags = static_cast<DAT_COMPLETION_FLAGS>(va_arg(arguments, int));
    if (value == nullptr)
        return wrong_argument(2);
    if (remote == nullptr || remote->virtual_address % word != 0)
        return wrong_argument(5);
    return post(one, DAT_DTO_RDMA_WRITE, word, cookie.as_64, 3,
                [&](const coherdma_remote &reach, DAT_UINT64 id) {
                    return coherdma_post_atomic_write(
                        &reach, remote->virtual_address, remote->rmr_context, value,
                        reinterpret_cast<const ibv_sge *>(old), completion_of(flags), id);
                });
}

DAT_RETURN post_flush(ep &one, std::va_list arguments) noexcept {
    const auto *const scratch = va_arg(arguments, const DAT_LMR_TRIPLET *);
    const auto cookie = va_arg(arguments, DAT_DTO_COOKIE);
    const auto *const remote = va_arg(arguments, const DAT_RMR_TRIPLET *);
    const auto flags = static_cast<DAT_COMPLETION_FLAGS>(va_arg(arguments, int));
    if (scratch == nullptr || scratch->segment_length == 0)
        return wrong_argument(2);
    if (remote == nullptr || remote->segment_length == 0)
        return wrong_argument(4);
    return post(one, DAT_DTO_RDMA_READ, remote->segment_length, cookie.as_64, 4,
                [&](const coherdma_remote &reach, DAT_UINT64 id) {
                    return coherdma_post_flush(&reach, remote->virtual_address,
                                               remote->segment_length, remote->rmr_context,
                                               reinterpret_cast<const ibv_sge *>(scratch),
                                               completion_of(flags), id);
                });
}

DAT_RETURN tell_ways(ep &one, std::va_list arguments) noexcept {
    auto *const ways = va_arg(arguments, DAT_COHERDMA_WAYS *);
    if (ways == nullptr)
        return wrong_argument(2);
    const holding held(one.requests.guard);
    if (const DAT_RETURN result = know(one); result != DAT_SUCCESS)
        return result;
    coherdma_remote_attr are = {};
    coherdma_query_remote(one.reach.get(), &are, sizeof are);
    ways->atomic_write = static_cast<DAT_COHERDMA_WAY>(are.atomic_write);
    ways->flush = static_cast<DAT_COHERDMA_WAY>(are.flush);
    return DAT_SUCCESS;
}

} // namespace

bool is_remote(DAT_EXTENDED_OP operation) noexcept {
    return operation == DAT_COHERDMA_ATOMIC_WRITE_OP || operation == DAT_COHERDMA_FLUSH_OP ||
           operation == DAT_COHERDMA_QUERY_WAYS_OP;
}

DAT_RETURN operate_remote(DAT_HANDLE handle, DAT_EXTENDED_OP operation,
                          std::va_list arguments) noexcept {
    ep *const one = as<ep>(handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    switch (operation) {
    case DAT_COHERDMA_ATOMIC_WRITE_OP:
        return post_atomic_write(*one, arguments);
    case DAT_COHERDMA_FLUSH_OP:
        return post_flush(*one, arguments);
    default:
        return tell_ways(*one, arguments);
    }
}

} // namespace coherdma::dapl::extensions
