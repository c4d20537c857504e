// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_ia_openv and dat_ia_close.

#include "forward.hpp"
#include "handles/probe_address.hpp"
#include "lock.hpp"
#include "providers/provider_table.hpp"
#include "version.hpp"

namespace coherdma::registry {
namespace {

/// Opens the provider's IA and checks that it begins with a provider, as every object must.
DAT_RETURN open_provider_ia(const DAT_PROVIDER *provider, const ia_name &name, DAT_COUNT qlen,
                            DAT_EVD_HANDLE *evd, DAT_IA_HANDLE &ia) noexcept {
    if (!provider->ia_open_func)
        return make_error(DAT_MODEL_NOT_SUPPORTED);
    const DAT_RETURN status = call_ia_open(*provider, name, qlen, evd, &ia);
    if (status != DAT_SUCCESS)
        return status;
    const bool is_valid = !is_ia_index(ia) && to_address(ia) % sizeof(void *) == 0 &&
                          is_readable(ia) && read_provider(ia);
    return is_valid ? DAT_SUCCESS : make_error(DAT_INTERNAL_ERROR);
}

/// Opens an IA and adds it to the IA table; handle is its index.
DAT_RETURN open_ia(provider_entry *entry, const ia_name &name, DAT_COUNT qlen, DAT_EVD_HANDLE *evd,
                   DAT_IA_HANDLE &handle) noexcept {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    const DAT_RETURN status = open_provider_ia(entry->provider, name, qlen, evd, ia);
    if (status != DAT_SUCCESS)
        return status;
    {
        const std::lock_guard guard(registry_lock);
        handle = add_ia(ia, entry);
    }
    if (handle)
        return DAT_SUCCESS;
    if (entry->provider->ia_close_func)
        entry->provider->ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG);
    return make_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
}

} // namespace
} // namespace coherdma::registry

using namespace coherdma::registry;

DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_evd_min_qlen,
                        DAT_EVD_HANDLE *async_evd_handle, DAT_IA_HANDLE *ia_handle,
                        DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN thread_safe) {
    const ia_name parsed_name = parse_ia_name(name);
    DAT_PROVIDER_INFO info = {};
    if (!make_provider_info(parsed_name.name, major, minor, thread_safe, info))
        return make_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    if (!ia_handle)
        return make_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    DAT_RETURN status = DAT_SUCCESS;
    provider_entry *entry = nullptr;
    {
        const std::lock_guard guard(registry_lock);
        entry = open_provider(info, status);
    }
    if (!entry)
        return status;
    wait_for_forks();
    DAT_IA_HANDLE handle = DAT_HANDLE_NULL;
    status = open_ia(entry, parsed_name, async_evd_min_qlen, async_evd_handle, handle);
    if (status != DAT_SUCCESS) {
        const std::lock_guard guard(registry_lock);
        close_provider(entry);
        return status;
    }
    notify_ia_open(handle);
    *ia_handle = handle;
    return DAT_SUCCESS;
}

/// The provider closes the IA; then its library may be unloaded.
DAT_RETURN dat_ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS flags) {
    const closing_ia closing = begin_ia_close(ia_handle);
    if (closing.index == 0)
        return make_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    const DAT_RETURN status =
        forward<&DAT_PROVIDER::ia_close_func, DAT_INVALID_HANDLE_IA>(closing.ia, flags);
    end_ia_close(closing, status == DAT_SUCCESS);
    if (status == DAT_SUCCESS) {
        const std::lock_guard guard(registry_lock);
        close_provider(closing.entry);
    }
    return status;
}
