/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which uDAPL this is, and what dat_ia_open asks for. A program that wants a provider that says it
 * is thread-safe defines DAT_THREADSAFE as DAT_TRUE before it includes any header of DAT.
 */
#ifndef COHERDMA_DAT2_UDAT_CONFIG_H
#define COHERDMA_DAT2_UDAT_CONFIG_H

#define DAT_VERSION_MAJOR 2
#define DAT_VERSION_MINOR 0

#ifndef DAT_THREADSAFE
#    define DAT_THREADSAFE DAT_FALSE
#endif

/* dat_extension_op and all that belongs to it are always there. */
#ifndef DAT_EXTENSIONS
#    define DAT_EXTENSIONS 1
#endif

#endif
