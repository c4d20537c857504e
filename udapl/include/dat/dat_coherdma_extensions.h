/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * coherdma's extensions of DAT 1.2: atomic writes of eight bytes, and flushes, of a peer's memory,
 * on every device. Other providers return DAT_NOT_IMPLEMENTED. The functions are in libdat's symbol
 * version COHERDMA_1.0; uDAPL 2.0 has the same names in <dat2/dat_coherdma_extensions.h>.
 */
#ifndef COHERDMA_DAT1_DAT_COHERDMA_EXTENSIONS_H
#define COHERDMA_DAT1_DAT_COHERDMA_EXTENSIONS_H

#include <dat/udat.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* How an endpoint executes atomic writes and flushes, which few devices support natively. */
typedef enum dat_coherdma_method DAT_ENUM_BASE {
    DAT_COHERDMA_METHOD_NONE = 0, /* not supported */
    DAT_COHERDMA_METHOD_NATIVE = 1,
    /* An inline RDMA Write of eight bytes. Atomic only if the peer's device stores eight bytes at
     * once: hardware does, though no standard requires it; rxe and siw do not on every CPU. */
    DAT_COHERDMA_METHOD_INLINE_WRITE = 2,
    DAT_COHERDMA_METHOD_CMP_AND_SWP = 3, /* compare and swap */
    DAT_COHERDMA_METHOD_RDMA_READ = 4    /* an RDMA Read of the end of the range */
} DAT_COHERDMA_METHOD;

typedef struct dat_coherdma_methods {
    DAT_COHERDMA_METHOD atomic_write;
    DAT_COHERDMA_METHOD flush;
    DAT_COHERDMA_METHOD never_torn_write; /* an atomic write with DAT_COHERDMA_NEVER_TORN_FLAG */
} DAT_COHERDMA_METHODS;

/* Of atomic writes, with other completion flags: never by DAT_COHERDMA_METHOD_INLINE_WRITE, which
 * can be torn, but by compare and swap; or DAT_MODEL_NOT_SUPPORTED. */
#define DAT_COHERDMA_NEVER_TORN_FLAG DAT_CAST(DAT_COMPLETION_FLAGS, 0x10000)

/*
 * Posts an atomic write of the eight bytes at value to rbuf in the peer's memory, whose address
 * must be a multiple of 8: a reader there sees all old or all new bytes. Fenced after earlier RDMA
 * Reads and flushes, except with DAT_COHERDMA_METHOD_CMP_AND_SWP. Its event is that of an RDMA
 * Write; with DAT_COMPLETION_SUPPRESS_FLAG only if it fails.
 *
 * compare is used with DAT_COHERDMA_METHOD_CMP_AND_SWP only and may otherwise be NULL: eight bytes
 * of local memory with the expected value. On completion they hold the previous value; if that
 * differs from the expected value, nothing was written.
 */
DAT_RETURN dat_coherdma_post_atomic_write(DAT_EP_HANDLE ep_handle, const void *value,
                                          const DAT_LMR_TRIPLET *compare,
                                          DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *rbuf,
                                          DAT_COMPLETION_FLAGS completion_flags);

/*
 * Posts a flush: when it completes, the data that earlier requests of this endpoint wrote to rbuf
 * is in the peer's memory. lbuf is at least one byte of local memory to read into; rbuf requires
 * remote read access. Its event is that of an RDMA Read. A peer with a non-coherent device must
 * call dat_lmr_sync_rdma_write before its CPU reads the data.
 */
DAT_RETURN dat_coherdma_post_flush(DAT_EP_HANDLE ep_handle, const DAT_LMR_TRIPLET *lbuf,
                                   DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *rbuf,
                                   DAT_COMPLETION_FLAGS completion_flags);

/* Returns the methods of a connected endpoint. */
DAT_RETURN dat_coherdma_query_methods(DAT_EP_HANDLE ep_handle, DAT_COHERDMA_METHODS *methods);

/* For providers: the extension of the provider table points to this, if it has these calls. */
#define DAT_COHERDMA_CALLS_MAGIC UINT64_C(0x616d6472656f6863)
typedef struct dat_coherdma_calls {
    DAT_UINT64 magic; /* DAT_COHERDMA_CALLS_MAGIC */
    DAT_RETURN(*post_atomic_write)
    (DAT_EP_HANDLE, const void *, const DAT_LMR_TRIPLET *, DAT_DTO_COOKIE, const DAT_RMR_TRIPLET *,
     DAT_COMPLETION_FLAGS);
    DAT_RETURN(*post_flush)
    (DAT_EP_HANDLE, const DAT_LMR_TRIPLET *, DAT_DTO_COOKIE, const DAT_RMR_TRIPLET *,
     DAT_COMPLETION_FLAGS);
    DAT_RETURN (*query_methods)(DAT_EP_HANDLE, DAT_COHERDMA_METHODS *);
} DAT_COHERDMA_CALLS;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
