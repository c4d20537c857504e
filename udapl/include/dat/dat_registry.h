/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * For providers: how they and the registry, libdat, find each other. The registry loads the
 * library that dat.conf names and calls dat_provider_init; this calls dat_registry_add_provider.
 * After the last close it calls dat_provider_fini and unloads the library.
 */
#ifndef COHERDMA_DAT1_DAT_REGISTRY_H
#define COHERDMA_DAT1_DAT_REGISTRY_H

#include <dat/udat.h>
#include <dat/udat_redirection.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Registers a provider for the IA, version and thread safety that the information says; the
 * table stays the provider's. On Solaris both functions take it without const, which is the same to
 * their caller.
 */
DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *provider,
                                     const DAT_PROVIDER_INFO *provider_info);

/* Takes back what dat_registry_add_provider did. */
DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER *provider,
                                        const DAT_PROVIDER_INFO *provider_info);

/*
 * Translates the handle of an IA: what a program holds into what its provider knows, and back. A
 * provider that tells a program an IA's handle calls it first.
 */
DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE *ia_handle);

/* The functions that a provider's library exports, under these names. */
#define DAT_PROVIDER_INIT_FUNC_NAME dat_provider_init
#define DAT_PROVIDER_FINI_FUNC_NAME dat_provider_fini
#define DAT_PROVIDER_INIT_FUNC_STR "dat_provider_init"
#define DAT_PROVIDER_FINI_FUNC_STR "dat_provider_fini"

/* instance_data is the seventh field of the line in dat.conf. */
typedef void (*DAT_PROVIDER_INIT_FUNC)(const DAT_PROVIDER_INFO *provider_info,
                                       const char *instance_data);
typedef void (*DAT_PROVIDER_FINI_FUNC)(const DAT_PROVIDER_INFO *provider_info);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
