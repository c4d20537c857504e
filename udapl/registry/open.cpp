// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How an IA comes and goes.

#include "forward.hpp"
#include "lock.hpp"
#include "readable.hpp"
#include "registrations.hpp"
#include "version.hpp"

namespace coherdma::registry {
namespace {

/// What the provider opened, if it begins as every object must.
DAT_RETURN open_ia(const DAT_PROVIDER *provider, const wish &what, DAT_COUNT qlen,
                   DAT_EVD_HANDLE *evd, DAT_IA_HANDLE &ia) noexcept {
    if (!provider->ia_open_func)
        return error(DAT_MODEL_NOT_SUPPORTED);
    const DAT_RETURN status = call_ia_open(*provider, what, qlen, evd, &ia);
    if (status != DAT_SUCCESS)
        return status;
    const bool right =
        !is_number(ia) && address_of(ia) % sizeof(void *) == 0 && readable(ia) && first_word(ia);
    return right ? DAT_SUCCESS : error(DAT_INTERNAL_ERROR);
}

/// Opened, and with an integer of its own.
DAT_RETURN open_numbered(registration *through, const wish &what, DAT_COUNT qlen,
                         DAT_EVD_HANDLE *evd, DAT_IA_HANDLE &handle) noexcept {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    const DAT_RETURN status = open_ia(through->provider, what, qlen, evd, ia);
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

} // namespace
} // namespace coherdma::registry

using namespace coherdma::registry;

DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_evd_min_qlen,
                        DAT_EVD_HANDLE *async_evd_handle, DAT_IA_HANDLE *ia_handle,
                        DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN thread_safe) {
    const wish what = wish_of(name);
    DAT_PROVIDER_INFO wanted = {};
    if (!make_info(what.name, major, minor, thread_safe, wanted))
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
    status = open_numbered(through, what, async_evd_min_qlen, async_evd_handle, handle);
    if (status != DAT_SUCCESS) {
        const locked lock;
        close_provider(through);
        return status;
    }
    is_opened(handle);
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
