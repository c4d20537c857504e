// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls that uDAPL 1.2 does not have. A provider offers them in the extension member of its table.
// Other providers use that member for other data, so it is checked before it is used.

#include "../forward.hpp"
#include "handles/probe_address.hpp"

#include <dat/dat_coherdma_extensions.h>

namespace coherdma::registry {
namespace {

/// NULL if the provider does not have these calls.
const DAT_COHERDMA_CALLS *find_coherdma_calls(const DAT_PROVIDER *provider) noexcept {
    // The last provider that passed the check: the coherdma provider, which is never unloaded.
    static std::atomic<const DAT_PROVIDER *> checked_provider = nullptr;
    const auto *const calls = static_cast<const DAT_COHERDMA_CALLS *>(provider->extension);
    if (provider == checked_provider.load(std::memory_order_relaxed))
        return calls;
    if (reinterpret_cast<std::uintptr_t>(calls) % alignof(DAT_COHERDMA_CALLS) != 0 ||
        !is_readable(calls) || calls->magic != DAT_COHERDMA_CALLS_MAGIC)
        return nullptr;
    checked_provider.store(provider, std::memory_order_relaxed);
    return calls;
}

/// Calls the member Function of the provider's DAT_COHERDMA_CALLS.
template <auto Function, typename... Arguments>
DAT_RETURN forward_coherdma_call(DAT_EP_HANDLE handle, Arguments... arguments) noexcept {
    const DAT_PROVIDER *const provider = is_ia_index(handle) ? nullptr : find_provider(handle);
    if (!provider)
        return make_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP);
    const DAT_COHERDMA_CALLS *const calls = find_coherdma_calls(provider);
    return calls ? (calls->*Function)(handle, arguments...) : make_error(DAT_NOT_IMPLEMENTED);
}

} // namespace
} // namespace coherdma::registry

using namespace coherdma::registry;

DAT_RETURN dat_coherdma_post_atomic_write(DAT_EP_HANDLE ep_handle, const void *value,
                                          const DAT_LMR_TRIPLET *compare,
                                          DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *rbuf,
                                          DAT_COMPLETION_FLAGS completion_flags) {
    return forward_coherdma_call<&DAT_COHERDMA_CALLS::post_atomic_write>(
        ep_handle, value, compare, user_cookie, rbuf, completion_flags);
}

DAT_RETURN dat_coherdma_post_flush(DAT_EP_HANDLE ep_handle, const DAT_LMR_TRIPLET *lbuf,
                                   DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *rbuf,
                                   DAT_COMPLETION_FLAGS completion_flags) {
    return forward_coherdma_call<&DAT_COHERDMA_CALLS::post_flush>(ep_handle, lbuf, user_cookie,
                                                                  rbuf, completion_flags);
}

DAT_RETURN dat_coherdma_query_methods(DAT_EP_HANDLE ep_handle, DAT_COHERDMA_METHODS *methods) {
    return forward_coherdma_call<&DAT_COHERDMA_CALLS::query_methods>(ep_handle, methods);
}
