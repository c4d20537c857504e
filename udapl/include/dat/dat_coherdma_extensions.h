/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What coherdma does beyond DAT, on every device: atomic writes of eight bytes, and flushes, of a
 * peer's memory. With another provider the calls return DAT_NOT_IMPLEMENTED. They are libdat's, of
 * a node of their own; uDAPL 2.0 has them by the same names in <dat2/dat_coherdma_extensions.h>.
 */
#ifndef COHERDMA_DAT1_DAT_COHERDMA_EXTENSIONS_H
#define COHERDMA_DAT1_DAT_COHERDMA_EXTENSIONS_H

#include <dat/udat.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

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
DAT_RETURN dat_coherdma_post_atomic_write(DAT_EP_HANDLE ep_handle, const void *value,
                                          const DAT_LMR_TRIPLET *old, DAT_DTO_COOKIE user_cookie,
                                          const DAT_RMR_TRIPLET *rbuf,
                                          DAT_COMPLETION_FLAGS completion_flags);

/*
 * When it completes, what earlier requests of this endpoint wrote to rbuf is in the peer's memory.
 * lbuf is local memory of one byte or more to read into; rbuf may be read. Its event is an RDMA
 * Read's. The peer may have to call dat_lmr_sync_rdma_write before it sees it.
 */
DAT_RETURN dat_coherdma_post_flush(DAT_EP_HANDLE ep_handle, const DAT_LMR_TRIPLET *lbuf,
                                   DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *rbuf,
                                   DAT_COMPLETION_FLAGS completion_flags);

/* Tells how a connected endpoint does them. */
DAT_RETURN dat_coherdma_query_ways(DAT_EP_HANDLE ep_handle, DAT_COHERDMA_WAYS *ways);

/* For providers: what the extension of a provider's table leads to, if it has these calls. */
#define DAT_COHERDMA_CALLS_MAGIC UINT64_C(0x616d6472656f6863)
typedef struct dat_coherdma_calls {
    DAT_UINT64 magic; /* DAT_COHERDMA_CALLS_MAGIC */
    DAT_RETURN(*post_atomic_write)
    (DAT_EP_HANDLE, const void *, const DAT_LMR_TRIPLET *, DAT_DTO_COOKIE, const DAT_RMR_TRIPLET *,
     DAT_COMPLETION_FLAGS);
    DAT_RETURN(*post_flush)
    (DAT_EP_HANDLE, const DAT_LMR_TRIPLET *, DAT_DTO_COOKIE, const DAT_RMR_TRIPLET *,
     DAT_COMPLETION_FLAGS);
    DAT_RETURN (*query_ways)(DAT_EP_HANDLE, DAT_COHERDMA_WAYS *);
} DAT_COHERDMA_CALLS;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
