// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How an IA comes and goes.

#include "extension.hpp"
#include "forward.hpp"
#include "lock.hpp"
#include "readable.hpp"
#include "registrations.hpp"

namespace coherdma::registry {
namespace {

/// What the provider opened, if it begins as every object must.
DAT_RETURN open_ia(const DAT_PROVIDER *provider, DAT_NAME_PTR name, DAT_COUNT qlen,
                   DAT_EVD_HANDLE *evd, DAT_IA_HANDLE &ia) noexcept {
    if (!provider->ia_open_func)
        return error(DAT_MODEL_NOT_SUPPORTED);
    const DAT_RETURN status = provider->ia_open_func(name, qlen, evd, &ia);
    if (status != DAT_SUCCESS)
        return status;
    const bool right =
        !is_number(ia) && address_of(ia) % sizeof(void *) == 0 && readable(ia) && first_word(ia);
    return right ? DAT_SUCCESS : error(DAT_INTERNAL_ERROR);
}

/// Opened, and with an integer of its own.
DAT_RETURN open_numbered(registration *through, DAT_NAME_PTR name, DAT_COUNT qlen,
                         DAT_EVD_HANDLE *evd, DAT_IA_HANDLE &handle) noexcept {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    const DAT_RETURN status = open_ia(through->provider, name, qlen, evd, ia);
    if (status != DAT_SUCCESS)
        return status;
    {
        const locked lock;
        handle = add_ia(ia, through);
    }
    if (handle)
        return DAT_SUCCESS;
    if (through->provider->ia_close_func)
        through->provider->ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG);
    return error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
}

/// dat_extension_op may be used from now on, if this IA has extensions.
void ask_for_extensions(DAT_IA_HANDLE handle) noexcept {
    DAT_IA_ATTR about = {};
    const DAT_RETURN status = forward_ia<&DAT_PROVIDER::ia_query_func>(
        handle, nullptr, DAT_IA_FIELD_ALL, &about, DAT_PROVIDER_ATTR_MASK{0}, nullptr);
    if (status == DAT_SUCCESS && about.extension_supported != DAT_EXTENSION_NONE)
        allow_extensions();
}

} // namespace
} // namespace coherdma::registry

using namespace coherdma::registry;

DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_evd_min_qlen,
                        DAT_EVD_HANDLE *async_evd_handle, DAT_IA_HANDLE *ia_handle,
                        DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN thread_safe) {
    DAT_PROVIDER_INFO wanted = {};
    if (!make_info(name, major, minor, thread_safe, wanted))
        return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    if (!ia_handle)
        return error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    DAT_RETURN status = DAT_SUCCESS;
    registration *through = nullptr;
    {
        const locked lock;
        through = open_provider(wanted, status);
    }
    if (!through)
        return status;
    DAT_IA_HANDLE handle = DAT_HANDLE_NULL;
    status = open_numbered(through, name, async_evd_min_qlen, async_evd_handle, handle);
    if (status != DAT_SUCCESS) {
        const locked lock;
        close_provider(through);
        return status;
    }
    ask_for_extensions(handle);
    *ia_handle = handle;
    return DAT_SUCCESS;
}

DAT_RETURN dat_ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS flags) {
    const closing_ia closing = begin_closing(ia_handle);
    if (closing.number == 0)
        return error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    const DAT_RETURN status =
        forward<&DAT_PROVIDER::ia_close_func, DAT_INVALID_HANDLE_IA>(closing.ia, flags);
    end_closing(closing, status == DAT_SUCCESS);
    if (status == DAT_SUCCESS) {
        const locked lock;
        close_provider(closing.through);
    }
    return status;
}
