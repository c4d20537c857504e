/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Calls of every macro that leads to dat_extension_op or dat_ia_openv, as programs write them. */
#ifndef COHERDMA_TESTS_DAT2_CALLS_H
#define COHERDMA_TESTS_DAT2_CALLS_H

#include <dat2/dat_ib_extensions.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the calls are given; only the addresses matter. */
struct dat2_things {
    char object; /* what the handle stands for */
    DAT_LMR_TRIPLET local;
    DAT_RMR_TRIPLET remote;
    DAT_IB_ADDR_HANDLE peer;
    DAT_UINT64 out;
    DAT_IA_HANDLE ia;
    DAT_EVD_HANDLE evd;
    DAT_IA_ATTR ia_attr;
    DAT_PROVIDER_ATTR provider_attr;
    DAT_IB_COLLECTIVE_MEMBER member;
    DAT_IB_COLLECTIVE_GROUP group;
    DAT_UINT32 size;
    DAT_COUNT sizes[2];
    DAT_COUNT places[2];
    char name[8];
    char sent[8];
    char received[8];
};
extern struct dat2_things dat2_things;

void dat2_calls_in_c(void);
void dat2_calls_in_cxx(void); /* these want thread safety */

#ifdef __cplusplus
}
#endif

#endif
