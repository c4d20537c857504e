/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What coherdma's provider does beyond DAT, on every device: atomic writes of eight bytes, and
 * flushes, of a peer's memory. With another provider the calls return DAT_NOT_IMPLEMENTED or the
 * like. They are macros over dat_extension_op, so that what they are given is converted to what the
 * provider takes from its argument list.
 */
#ifndef COHERDMA_DAT2_DAT_COHERDMA_EXTENSIONS_H
#define COHERDMA_DAT2_DAT_COHERDMA_EXTENSIONS_H

#include <dat2/udat.h>

typedef enum dat_coherdma_op DAT_ENUM_BASE {
    DAT_COHERDMA_ATOMIC_WRITE_OP = 0x0c00,
    DAT_COHERDMA_FLUSH_OP,
    DAT_COHERDMA_QUERY_WAYS_OP
} DAT_COHERDMA_OP;

/* How an endpoint does what not every device can. */
typedef enum dat_coherdma_way DAT_ENUM_BASE {
    DAT_COHERDMA_WAY_NONE = 0,
    DAT_COHERDMA_WAY_NATIVE = 1,
    /* An RDMA Write of eight bytes, with its data in the request: at once if the peer's device
     * copies eight bytes in one piece, as hardware does, but no standard says, and rxe and siw not
     * on every CPU. */
    DAT_COHERDMA_WAY_INLINE = 2,
    DAT_COHERDMA_WAY_SWAP = 3, /* compare and swap */
    DAT_COHERDMA_WAY_READ = 4  /* an RDMA Read of what was written last */
} DAT_COHERDMA_WAY;

typedef struct dat_coherdma_ways {
    DAT_COHERDMA_WAY atomic_write;
    DAT_COHERDMA_WAY flush;
} DAT_COHERDMA_WAYS;

/*
 * Writes the eight bytes at value to rbuf in the peer's memory, whose address is a multiple of 8:
 * who looks there sees all of the old or all of the new ones. It waits for earlier RDMA Reads and
 * flushes. Its event is an RDMA Write's; DAT_COMPLETION_SUPPRESS_FLAG: only if it fails.
 *
 * old is NULL, or eight bytes of local memory for endpoints whose way is DAT_COHERDMA_WAY_SWAP:
 * with the value that is expected at the peer, and in its place, later, what was there. If that was
 * not what was expected, nothing was written.
 */
#define dat_coherdma_post_atomic_write(ep, value, old, cookie, rbuf, flgs)                         \
    dat_extension_op(DAT_CAST(DAT_EP_HANDLE, ep), DAT_COHERDMA_ATOMIC_WRITE_OP,                    \
                     DAT_CAST(const void *, value), DAT_CAST(const DAT_LMR_TRIPLET *, old),        \
                     (cookie), DAT_CAST(const DAT_RMR_TRIPLET *, rbuf),                            \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flgs))

/*
 * When it completes, what earlier requests of this endpoint wrote to rbuf is in the peer's memory.
 * lbuf is local memory of one byte or more to read into; rbuf may be read. Its event is an RDMA
 * Read's. The peer may have to call dat_lmr_sync_rdma_write before it sees it.
 */
#define dat_coherdma_post_flush(ep, lbuf, cookie, rbuf, flgs)                                      \
    dat_extension_op(DAT_CAST(DAT_EP_HANDLE, ep), DAT_COHERDMA_FLUSH_OP,                           \
                     DAT_CAST(const DAT_LMR_TRIPLET *, lbuf), (cookie),                            \
                     DAT_CAST(const DAT_RMR_TRIPLET *, rbuf),                                      \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flgs))

/* Tells a DAT_COHERDMA_WAYS of a connected endpoint. */
#define dat_coherdma_query_ways(ep, ways)                                                          \
    dat_extension_op(DAT_CAST(DAT_EP_HANDLE, ep), DAT_COHERDMA_QUERY_WAYS_OP,                      \
                     DAT_CAST(DAT_COHERDMA_WAYS *, ways))

#endif
