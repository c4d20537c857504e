/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Calls of all macros that expand to dat_extension_op or dat_ia_openv. */
#ifndef COHERDMA_TESTS_DAT2_CALLS_H
#define COHERDMA_TESTS_DAT2_CALLS_H

#include <dat2/dat_ib_extensions.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments of the calls. Only the addresses are compared. */
struct call_arguments {
    char object; /* its address is the handle */
    DAT_LMR_TRIPLET local;
    DAT_RMR_TRIPLET remote;
    DAT_IB_ADDR_HANDLE ah;
    DAT_UINT64 result;
    DAT_IA_HANDLE ia;
    DAT_EVD_HANDLE evd;
    DAT_IA_ATTR ia_attr;
    DAT_PROVIDER_ATTR provider_attr;
    DAT_IB_COLLECTIVE_MEMBER member;
    DAT_IB_COLLECTIVE_GROUP group;
    DAT_UINT32 size;
    DAT_COUNT sizes[2];
    DAT_COUNT displacements[2];
    char name[8];
    char send_buffer[8];
    char recv_buffer[8];
};
extern struct call_arguments call_arguments;

void dat2_calls_in_c(void);
void dat2_calls_in_cxx(void); /* compiled with DAT_THREADSAFE */

#ifdef __cplusplus
}
#endif

#endif
