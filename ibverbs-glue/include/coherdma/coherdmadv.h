/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What coherdma's provider knows of a device that it serves.
 *
 * The provider exports the function; libcoherdma has one of the same name, which calls that of the
 * provider that serves the context. See coherdmadv_query_device(3).
 */
#ifndef COHERDMA_COHERDMADV_H
#define COHERDMA_COHERDMADV_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#    pragma GCC visibility push(default)
#endif

struct ibv_context; /* of <infiniband/verbs.h> */

/* In comp_mask: the members that were filled. */
enum coherdmadv_device_attr_mask {
    COHERDMADV_DEVICE_ATTR_COHERENCY = 1 << 0, /* coherency, line_size */
    COHERDMADV_DEVICE_ATTR_DRIVER = 1 << 1,    /* driver_id, caps */
    COHERDMADV_DEVICE_ATTR_MODE = 1 << 2,
    COHERDMADV_DEVICE_ATTR_EVIDENCE = 1 << 3,
};

/* Optional operations of this device with this provider and this libibverbs. */
enum coherdmadv_device_caps {
    COHERDMADV_CAP_ATOMIC_WRITE = 1 << 0,   /* ibv_wr_atomic_write() on an RC QP */
    COHERDMADV_CAP_FLUSH = 1 << 1,          /* ibv_wr_flush() on an RC QP */
    COHERDMADV_CAP_MEMORY_WINDOW = 1 << 2,  /* ibv_alloc_mw() */
    COHERDMADV_CAP_QP_EX = 1 << 3,          /* ibv_create_qp_ex() with send_ops_flags */
    COHERDMADV_CAP_CQ_EX = 1 << 4,          /* ibv_create_cq_ex() */
    COHERDMADV_CAP_RESIZE_CQ = 1 << 5,      /* ibv_resize_cq() */
    COHERDMADV_CAP_THREAD_DOMAIN = 1 << 6,  /* ibv_alloc_td(), ibv_alloc_parent_domain() */
    COHERDMADV_CAP_ADDRESS_HANDLE = 1 << 7, /* ibv_create_ah() */
    COHERDMADV_CAP_MULTICAST = 1 << 8,      /* ibv_attach_mcast() */
    COHERDMADV_CAP_IMPORT = 1 << 9,         /* ibv_import_pd(), ibv_import_mr() */
};

/* Grows at its end, without padding. */
struct coherdmadv_device_attr {
    uint64_t comp_mask; /* enum coherdmadv_device_attr_mask */
    uint32_t coherency; /* enum coherdma_coherency of coherdma.h */
    uint32_t line_size; /* of the cache that sync operates on, in bytes; 0: unknown */
    uint32_t driver_id; /* RDMA_DRIVER_RXE or RDMA_DRIVER_SIW of <rdma/ib_user_ioctl_verbs.h> */
    uint32_t caps;      /* enum coherdmadv_device_caps */
    char mode[32];      /* of the emulation: coherdma-emulate(7); "" if not emulated */
    char evidence[96];  /* for coherency, as the end of a sentence */
};

/*
 * attr is output only. Fills the members of each bit of comp_mask that all lie in the first inlen
 * bytes of attr, and zeros the rest of these bytes. Returns 0, or EINVAL if an argument is NULL or
 * inlen excludes comp_mask, or EOPNOTSUPP if another provider serves the context.
 */
int coherdmadv_query_device(struct ibv_context *context, struct coherdmadv_device_attr *attr,
                            uint32_t inlen);

#ifdef __GNUC__
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
