// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls that uDAPL 1.2 has not. A provider that has them says so in its table's extension, which is
// any provider's own: so what it leads to is looked at with care, once.

#include "../forward.hpp"
#include "../readable.hpp"

#include <dat/dat_coherdma_extensions.h>

namespace coherdma::registry {
namespace {

/// NULL: it has not these calls.
const DAT_COHERDMA_CALLS *calls_of(const DAT_PROVIDER *provider) noexcept {
    // The one that had them is ours, which is never unloaded.
    static std::atomic<const DAT_PROVIDER *> known = nullptr;
    const auto *const calls = static_cast<const DAT_COHERDMA_CALLS *>(provider->extension);
    if (provider == known.load(std::memory_order_relaxed))
        return calls;
    if (reinterpret_cast<std::uintptr_t>(calls) % alignof(DAT_COHERDMA_CALLS) != 0 ||
        !readable(calls) || calls->magic != DAT_COHERDMA_CALLS_MAGIC)
        return nullptr;
    known.store(provider, std::memory_order_relaxed);
    return calls;
}

template <auto Function, typename... Arguments>
DAT_RETURN extended(DAT_EP_HANDLE handle, Arguments... arguments) noexcept {
    const DAT_PROVIDER *const provider = is_number(handle) ? nullptr : provider_of(handle);
    if (!provider)
        return error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP);
    const DAT_COHERDMA_CALLS *const calls = calls_of(provider);
    return calls ? (calls->*Function)(handle, arguments...) : error(DAT_NOT_IMPLEMENTED);
}

} // namespace
} // namespace coherdma::registry

using namespace coherdma::registry;

DAT_RETURN dat_coherdma_post_atomic_write(DAT_EP_HANDLE ep_handle, const void *value,
                                          const DAT_LMR_TRIPLET *old, DAT_DTO_COOKIE user_cookie,
                                          const DAT_RMR_TRIPLET *rbuf,
                                          DAT_COMPLETION_FLAGS completion_flags) {
    return extended<&DAT_COHERDMA_CALLS::post_atomic_write>(ep_handle, value, old, user_cookie,
                                                            rbuf, completion_flags);
}

DAT_RETURN dat_coherdma_post_flush(DAT_EP_HANDLE ep_handle, const DAT_LMR_TRIPLET *lbuf,
                                   DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *rbuf,
                                   DAT_COMPLETION_FLAGS completion_flags) {
    return extended<&DAT_COHERDMA_CALLS::post_flush>(ep_handle, lbuf, user_cookie, rbuf,
                                                     completion_flags);
}

DAT_RETURN dat_coherdma_query_ways(DAT_EP_HANDLE ep_handle, DAT_COHERDMA_WAYS *ways) {
    return extended<&DAT_COHERDMA_CALLS::query_ways>(ep_handle, ways);
}
