// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A fake registry library: keeps the table that was added last, and gives each IA the number
// REGISTRY_NUMBER.

#include <dat2/dat_registry.h>
#include <dat2/udat.h>

extern "C" {

[[gnu::visibility("default")]] const DAT_PROVIDER *registered = nullptr;

[[gnu::visibility("default")]] DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *provider,
                                                                    const DAT_PROVIDER_INFO *) {
    registered = provider;
    return DAT_SUCCESS;
}

[[gnu::visibility("default")]] DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER *provider,
                                                                       const DAT_PROVIDER_INFO *) {
    const bool known = registered == provider;
    registered = nullptr;
    return known ? DAT_SUCCESS : DAT_CLASS_ERROR | DAT_PROVIDER_NOT_FOUND;
}

[[gnu::visibility("default")]] DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE, DAT_IA_HANDLE *number) {
    *number = DAT_UL_TO_IA_HANDLE(REGISTRY_NUMBER);
    return DAT_SUCCESS;
}

[[gnu::visibility("default")]] DAT_RETURN dat_ia_openv(const DAT_NAME_PTR, DAT_COUNT,
                                                       DAT_EVD_HANDLE *, DAT_IA_HANDLE *,
                                                       DAT_UINT32, DAT_UINT32, DAT_BOOLEAN) {
    return DAT_CLASS_ERROR | DAT_PROVIDER_NOT_FOUND;
}
#ifdef REGISTRY_OF_COHERDMA
[[gnu::visibility("default")]] int dat_coherdma_query_methods() {
    return 0;
}
#endif
}
