/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * coherdma's extensions of DAT 2.0: atomic writes of eight bytes, and flushes, of a peer's memory,
 * on every device. Other providers return an error such as DAT_NOT_IMPLEMENTED. The macros call
 * dat_extension_op and convert the arguments to the types that the provider expects.
 */
#ifndef COHERDMA_DAT2_DAT_COHERDMA_EXTENSIONS_H
#define COHERDMA_DAT2_DAT_COHERDMA_EXTENSIONS_H

#include <dat2/udat.h>

typedef enum dat_coherdma_op DAT_ENUM_BASE {
    DAT_COHERDMA_ATOMIC_WRITE_OP = 0x0c00,
    DAT_COHERDMA_FLUSH_OP,
    DAT_COHERDMA_QUERY_METHODS_OP
} DAT_COHERDMA_OP;

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
#define dat_coherdma_post_atomic_write(ep, value, compare, cookie, rbuf, flgs)                     \
    dat_extension_op(DAT_CAST(DAT_EP_HANDLE, ep), DAT_COHERDMA_ATOMIC_WRITE_OP,                    \
                     DAT_CAST(const void *, value), DAT_CAST(const DAT_LMR_TRIPLET *, compare),    \
                     (cookie), DAT_CAST(const DAT_RMR_TRIPLET *, rbuf),                            \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flgs))

/*
 * Posts a flush: when it completes, the data that earlier requests of this endpoint wrote to rbuf
 * is in the peer's memory. lbuf is at least one byte of local memory to read into; rbuf requires
 * remote read access. Its event is that of an RDMA Read. A peer with a non-coherent device must
 * call dat_lmr_sync_rdma_write before its CPU reads the data.
 */
#define dat_coherdma_post_flush(ep, lbuf, cookie, rbuf, flgs)                                      \
    dat_extension_op(DAT_CAST(DAT_EP_HANDLE, ep), DAT_COHERDMA_FLUSH_OP,                           \
                     DAT_CAST(const DAT_LMR_TRIPLET *, lbuf), (cookie),                            \
                     DAT_CAST(const DAT_RMR_TRIPLET *, rbuf),                                      \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flgs))

/* Returns the methods of a connected endpoint in a DAT_COHERDMA_METHODS. */
#define dat_coherdma_query_methods(ep, methods)                                                    \
    dat_extension_op(DAT_CAST(DAT_EP_HANDLE, ep), DAT_COHERDMA_QUERY_METHODS_OP,                   \
                     DAT_CAST(DAT_COHERDMA_METHODS *, methods))

#endif
