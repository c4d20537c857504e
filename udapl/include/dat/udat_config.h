/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which uDAPL this is, and what dat_ia_open asks for. A program that wants a provider that says it
 * is thread-safe defines DAT_THREADSAFE as DAT_TRUE before it includes any header of DAT.
 */
#ifndef COHERDMA_DAT1_UDAT_CONFIG_H
#define COHERDMA_DAT1_UDAT_CONFIG_H

#define DAT_VERSION_MAJOR 1
#define DAT_VERSION_MINOR 2

#ifndef DAT_THREADSAFE
#    define DAT_THREADSAFE DAT_FALSE
#endif

#endif
