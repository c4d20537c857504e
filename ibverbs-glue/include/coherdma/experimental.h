/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What libcoherdma offers besides coherency: atomic writes and flushes of a peer's memory, a list
 * of ports, and the choice of coherdma's provider.
 *
 * Experimental: any release may remove a function, or change its struct. A function that changes
 * gets a new name, so that a program compiled for an older release does not start, rather than call
 * it wrongly. <coherdma/coherdma.h> describes how functions fail and how structs grow.
 */
#ifndef COHERDMA_EXPERIMENTAL_H
#define COHERDMA_EXPERIMENTAL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#    pragma GCC visibility push(default)
#endif

struct ibv_qp;  /* of <infiniband/verbs.h> */
struct ibv_sge; /* of <infiniband/verbs.h> */

/* -- atomic writes and flushes of a peer's memory -------------------------------------------- */

struct coherdma_qp;

/* How a QP executes atomic writes and flushes, which few devices support natively. */
enum coherdma_method {
    COHERDMA_METHOD_NONE = 0, /* not supported */
    COHERDMA_METHOD_NATIVE = 1,
    /* An inline RDMA Write of eight bytes. Atomic only if the peer's device stores eight bytes at
     * once: hardware does, though no standard requires it; rxe and siw do not on every CPU. */
    COHERDMA_METHOD_INLINE_WRITE = 2,
    COHERDMA_METHOD_CMP_AND_SWP = 3, /* compare and swap */
    COHERDMA_METHOD_RDMA_READ = 4,   /* an RDMA Read of the end of the range */
};

/* Returns "none", "native", "inline write", "compare and swap", "read back" or "unknown". */
const char *coherdma_method_str(uint32_t method);

/*
 * Determines the methods of a QP once. The QP must be of type RC and outlive the handle. Atomic
 * writes are native if the QP was created by ibv_create_qp_ex() with IBV_QP_EX_WITH_ATOMIC_WRITE;
 * flushes are native with IBV_QP_EX_WITH_FLUSH (rdma-core 45), which requires
 * IBV_ACCESS_FLUSH_GLOBAL for the peer's memory region and the peer's QP.
 */
struct coherdma_qp *coherdma_open_qp(struct ibv_qp *qp);
void coherdma_close_qp(struct coherdma_qp *qp);

struct coherdma_qp_attr {
    uint32_t atomic_write;     /* enum coherdma_method */
    uint32_t flush;            /* enum coherdma_method */
    uint32_t never_torn_write; /* enum coherdma_method: with COHERDMA_POST_NEVER_TORN */
};
int coherdma_query_qp(const struct coherdma_qp *qp, struct coherdma_qp_attr *attr, size_t size);

/* Exactly one of the first two; other bits are invalid. */
enum coherdma_post_flags {
    COHERDMA_POST_COMPLETION_ON_ERROR = 1 << 0, /* no completion on success */
    COHERDMA_POST_COMPLETION_ALWAYS = 1 << 1,
    /* Of atomic writes: never by COHERDMA_METHOD_INLINE_WRITE, which can be torn, but by compare
     * and swap; or EOPNOTSUPP. */
    COHERDMA_POST_NEVER_TORN = 1 << 2,
    /* Of flushes: into persistent memory. COHERDMA_METHOD_NATIVE requires
     * IBV_ACCESS_FLUSH_PERSISTENT then; COHERDMA_METHOD_RDMA_READ is the same as without: that data
     * in the peer's memory is persistent is for the peer to know. */
    COHERDMA_POST_PERSISTENT = 1 << 3,
};

/*
 * Posts an atomic write of eight bytes to the peer's memory: a reader there sees all old or all new
 * bytes. remote_addr must be a multiple of 8. Fenced after earlier RDMA Reads, and therefore after
 * read-based flushes, except with COHERDMA_METHOD_CMP_AND_SWP. Same thread safety as
 * ibv_post_send().
 *
 * compare is used with COHERDMA_METHOD_CMP_AND_SWP only and may otherwise be NULL: eight bytes of
 * registered memory with the expected value. On completion they hold the previous value; if that
 * differs from the expected value, nothing was written.
 */
int coherdma_post_atomic_write(const struct coherdma_qp *qp, uint64_t wr_id, uint32_t flags,
                               uint32_t rkey, uint64_t remote_addr, const void *value,
                               const struct ibv_sge *compare);

/*
 * Posts a flush: when it completes, the data that earlier requests of this QP wrote to the range is
 * in the peer's memory. Unless the method is native, scratch must be at least one byte of
 * registered memory with local write access, and the remote range must have remote read access. A
 * peer with a non-coherent device must sync before its CPU reads the data.
 */
int coherdma_post_flush(const struct coherdma_qp *qp, uint64_t wr_id, uint32_t flags, uint32_t rkey,
                        uint64_t remote_addr, uint64_t length, const struct ibv_sge *scratch);

/* -- ports ---------------------------------------------------------------------------------- */

struct coherdma_port {
    const char *device;    /* as in ibv_devices */
    const char *netdev;    /* the network interface, as in ip link; "" if none */
    const char *transport; /* "RoCE", "iWARP", "InfiniBand", ...; "" if unknown */
    uint32_t port_num;     /* from 1 */
    uint32_t state;        /* enum ibv_port_state; 0: unknown */
};

/*
 * Returns the ports of the RDMA devices that this process can use, sorted by device and number: an
 * array of elements of the given size. The array ends with an element whose device is NULL; count
 * may be NULL. Strings are valid until the array is freed.
 */
struct coherdma_port *coherdma_get_port_list(size_t *count, size_t size);
void coherdma_free_port_list(struct coherdma_port *list);

/* -- coherdma's provider --------------------------------------------------------------------- */

/*
 * Makes this process use coherdma's provider for software devices (rxe, siw), regardless of the
 * system's setting. Must be called before the first ibv_get_device_list(): devices that the process
 * has already listed are not affected. Further calls have no effect; it cannot be undone. Fails
 * with ECANCELED if RDMAV_DRIVERS or IBV_DRIVERS names another provider, and with ENOENT if the
 * plugin is not installed.
 */
int coherdma_use_provider(void);

#ifdef __GNUC__
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
