/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * libcoherdma: does an RDMA device see what is in the CPU's cache, on what evidence, and, where it
 * does not, the calls that make memory right before and after a peer's RDMA Read or Write.
 *
 *     struct coherdma_device *device = coherdma_open_device(context);
 *     ...
 *     coherdma_sync_rdma_read(device, list, count);    before a peer reads the ranges
 *     coherdma_sync_rdma_write(device, list, count);   before a peer writes them, and again after
 *
 * Where the device is coherent the calls check what they are given and order memory accesses; no
 * cache line is touched. coherdma(7) has the whole story.
 *
 * Functions that return int return 0 or a value of errno, those that return a pointer NULL with
 * errno set; coherdma_error() then says in words what was wrong. All may be called by any thread
 * at any time, but a device must not be closed under a call. Structs grow at their end: give the
 * size that you were compiled with.
 */
#ifndef COHERDMA_COHERDMA_H
#define COHERDMA_COHERDMA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#    pragma GCC visibility push(default)
#endif

struct ibv_context; /* of <infiniband/verbs.h> */
struct ibv_sge;     /* of <infiniband/verbs.h> */
struct coherdma_device;

enum coherdma_verdict {
    COHERDMA_UNKNOWN = 0, /* treated as non-coherent */
    COHERDMA_COHERENT = 1,
    COHERDMA_NON_COHERENT = 2,
    COHERDMA_EMULATED = 3, /* played as non-coherent: coherdma-emulate(7) */
};

/* "unknown", "coherent", "non-coherent", "emulated" */
const char *coherdma_verdict_name(uint32_t verdict);

/* Why the last call of this thread that failed did so. Stays until the next one fails. */
const char *coherdma_error(void);

/* -- a device ------------------------------------------------------------------------------- */

enum coherdma_open_flags {
    /* Only to ask: not refused where this CPU could not sync; the sync calls refuse instead. */
    COHERDMA_OPEN_QUERY_ONLY = 1 << 0,
    /* Do not stop at the rule that decides: coherdma_query_evidence has them all. */
    COHERDMA_OPEN_ALL_RULES = 1 << 1,
    /* Look, at every sync, whether the memory is there, at the price of a system call or more:
     * an error instead of a fault. COHERDMA_CHECK=1 in the environment does the same. */
    COHERDMA_OPEN_CHECK_MEMORY = 1 << 2,
    /* There is no device; the field assume is the verdict. For measurements of the CPU. */
    COHERDMA_OPEN_ASSUME = 1 << 3,
};

struct coherdma_open_attr {
    uint64_t comp_mask;          /* 0 */
    uint64_t flags;              /* enum coherdma_open_flags */
    struct ibv_context *context; /* the device; NULL: the one that name says */
    const char *name;            /* as in ibv_devices; without a context, the rule that registers
                                    memory is left out */
    const char *instructions;    /* one of coherdma_cpu_attr.choices; NULL: the best of them */
    uint32_t assume;             /* enum coherdma_verdict, with COHERDMA_OPEN_ASSUME */
};

/*
 * Decides, once, and may be kept as long as the process lives. The context must be open until then
 * only. Fails with EOPNOTSUPP where sync is needed and this CPU lets no user program do it, with
 * EINVAL if the configuration is nonsense, with ENODEV if there is no such device.
 */
struct coherdma_device *coherdma_open_device(struct ibv_context *context);
struct coherdma_device *coherdma_open(const struct coherdma_open_attr *attr, size_t size);
void coherdma_close(struct coherdma_device *device);

struct coherdma_device_attr {
    uint64_t comp_mask;       /* 0 */
    uint32_t verdict;         /* enum coherdma_verdict */
    uint32_t sync_required;   /* 0: the sync calls touch no line */
    uint32_t line_size;       /* bytes; 0: this CPU does not say */
    uint32_t alignment;       /* of a buffer that shares no line with other data */
    const char *name;         /* strings live as long as the device and are never NULL */
    const char *driver;       /* "" if nobody says */
    const char *transport;    /* "RoCE", "iWARP", "InfiniBand", ... or "" */
    const char *instructions; /* of the CPU, that sync uses; "" if none */
    const char *rule;         /* that decided */
    const char *source;       /* what it read: a file, a system call */
    const char *value;        /* what was there */
    const char *explanation;  /* a sentence with all of it, for people */
};

int coherdma_query_device(const struct coherdma_device *device, struct coherdma_device_attr *attr,
                          size_t size);

struct coherdma_evidence {
    uint64_t comp_mask;
    uint32_t verdict; /* what this rule by itself says; COHERDMA_UNKNOWN: nothing */
    uint32_t decided; /* 1: this is the rule that counted */
    const char *rule;
    const char *source;
    const char *value;
    const char *reason;
};

/* The rules in the order they were asked, index from 0; ENOENT after the last. */
int coherdma_query_evidence(const struct coherdma_device *device, size_t index,
                            struct coherdma_evidence *evidence, size_t size);

/* -- sync ----------------------------------------------------------------------------------- */

/*
 * All ranges are checked before the first is touched: after an error nothing was done. A range of
 * length 0 is allowed, lkey is not looked at. Lines that two neighbouring ranges share are done
 * once, and there is one wait at the end, however many ranges: give them in one call.
 *
 * Whole lines are written back and dropped. Data beside a range, in its first or last line, must
 * not be written while a peer writes the range; see coherdma_device_attr.alignment.
 */
int coherdma_sync_rdma_read(const struct coherdma_device *device, const struct ibv_sge *list,
                            size_t count);
int coherdma_sync_rdma_write(const struct coherdma_device *device, const struct ibv_sge *list,
                             size_t count);

/* Who knows the phase can say it; before a Write that is cheaper than coherdma_sync_rdma_write. */
enum coherdma_phase {
    COHERDMA_BEFORE_READ = 1 << 0,
    COHERDMA_BEFORE_WRITE = 1 << 1,
    COHERDMA_AFTER_WRITE = 1 << 2, /* after its completion was seen */
};

/* As above, with one phase (or several, by or) for each range. */
int coherdma_sync(const struct coherdma_device *device, const struct ibv_sge *list,
                  const uint32_t *phases, size_t count);

/*
 * For ranges that come one after another: add issues the work, end waits for all of it. Completions
 * of Writes must have been seen before begin. A batch belongs to one thread, at most one per
 * thread is under way, and until end nothing is promised.
 */
struct coherdma_batch {
    const struct coherdma_device *device;
    uint64_t reserved[3];
};
void coherdma_batch_begin(struct coherdma_batch *batch, const struct coherdma_device *device);
int coherdma_batch_add(struct coherdma_batch *batch, const struct ibv_sge *list, size_t count,
                       uint32_t phase);
void coherdma_batch_end(struct coherdma_batch *batch);

/* -- a peer's memory ------------------------------------------------------------------------ */

struct ibv_qp; /* of <infiniband/verbs.h> */
struct coherdma_remote;

/* How a queue pair does what not every device can. */
enum coherdma_way {
    COHERDMA_WAY_NONE = 0,
    COHERDMA_WAY_NATIVE = 1,
    /* An RDMA Write of eight bytes, with its data in the request: at once if the peer's device
     * copies eight bytes in one piece, as hardware does, but no standard says, and rxe and siw not
     * on every CPU. */
    COHERDMA_WAY_INLINE = 2,
    COHERDMA_WAY_SWAP = 3, /* compare and swap */
    COHERDMA_WAY_READ = 4, /* an RDMA Read of what was written last */
};

/* "none", "native", "inline write", "compare and swap", "read back" */
const char *coherdma_way_name(uint32_t way);

/*
 * Decides, once, how this queue pair does it. It must be of type RC, and live longer. An atomic
 * write is native if it was made by ibv_create_qp_ex with IBV_QP_EX_WITH_ATOMIC_WRITE, a flush if
 * with IBV_QP_EX_WITH_FLUSH (rdma-core 45): then the peer must have registered its memory with
 * IBV_ACCESS_FLUSH_GLOBAL, and given its queue pair the same.
 */
struct coherdma_remote *coherdma_open_remote(struct ibv_qp *qp);
void coherdma_close_remote(struct coherdma_remote *remote);

struct coherdma_remote_attr {
    uint64_t comp_mask;    /* 0 */
    uint32_t atomic_write; /* enum coherdma_way */
    uint32_t flush;        /* enum coherdma_way */
};
int coherdma_query_remote(const struct coherdma_remote *remote, struct coherdma_remote_attr *attr,
                          size_t size);

enum coherdma_completion {
    COHERDMA_COMPLETION_ON_ERROR = 1 << 0, /* none if all goes well */
    COHERDMA_COMPLETION_ALWAYS = 1 << 1,
};

/*
 * Writes eight bytes to the peer's memory: who looks there sees all of the old or all of the new
 * ones. The address is a multiple of 8. It waits for earlier RDMA Reads, so for flushes. Posted as
 * by ibv_post_send, with the same threads at it.
 *
 * swap counts where the way is COHERDMA_WAY_SWAP, else it may be NULL: eight bytes of registered
 * memory, with the value that is expected at the peer. What was there comes in its place; if that
 * is not what was expected, nothing was written.
 */
int coherdma_post_atomic_write(const struct coherdma_remote *remote, uint64_t remote_addr,
                               uint32_t rkey, const void *value, const struct ibv_sge *swap,
                               uint32_t completion, uint64_t wr_id);

/*
 * When it completes, what was written to the range by earlier requests of this queue pair is in the
 * peer's memory. scratch is registered memory of a byte or more that may be written by an RDMA
 * Read, and the range one that may be read; where the way is native scratch may be NULL. The peer's
 * CPU may have to sync before it sees it.
 */
int coherdma_post_flush(const struct coherdma_remote *remote, uint64_t remote_addr, uint64_t length,
                        uint32_t rkey, const struct ibv_sge *scratch, uint32_t completion,
                        uint64_t wr_id);

/* -- this machine --------------------------------------------------------------------------- */

struct coherdma_cpu_attr {
    uint64_t comp_mask;
    uint32_t line_size;       /* bytes; 0: it does not say */
    uint32_t alignment;       /* of a buffer that shares no line with other data */
    const char *instructions; /* in use if a device needs sync; "" if none */
    const char *choices;      /* all that work here, best first, with a space between */
    const char *problem;      /* why there are none, or what is wrong with COHERDMA_CACHE; or "" */
};
int coherdma_query_cpu(struct coherdma_cpu_attr *attr, size_t size);

/* Names of the RDMA devices that this process could use, NULL after the last. */
char **coherdma_list_devices(size_t *count);
void coherdma_free_list(char **list);

struct coherdma_port {
    uint64_t comp_mask;
    const char *device;    /* as in ibv_devices */
    const char *interface; /* of the network, as in ip link; "" if it has none here */
    const char *transport; /* "RoCE", "iWARP", "InfiniBand", ... or "" */
    uint32_t port;         /* from 1 */
    uint32_t state;        /* enum ibv_port_state: 4 is active; 0 if nobody says */
};

/*
 * The ports of these devices, by device and number: an array whose elements have the given size.
 * Strings live as long as it does.
 */
struct coherdma_port *coherdma_list_ports(size_t *count, size_t size);
void coherdma_free_ports(struct coherdma_port *list);

/*
 * Tries it: has the device copy memory to itself, over a connection of its own, and looks whether
 * it or the CPU saw old data. Takes a moment, and is never done unless called.
 */
struct coherdma_probe_attr {
    uint64_t comp_mask;  /* 0 */
    uint32_t port;       /* 0: the first that is active */
    uint32_t rounds;     /* 0: 8 */
    uint32_t timeout_ms; /* 0: 2000, for each transfer */
};
struct coherdma_probe_result {
    uint64_t comp_mask;
    uint32_t verdict;      /* COHERDMA_UNKNOWN: a transfer did not complete */
    uint32_t rounds;       /* that were completed */
    uint64_t lines;        /* that were looked at, in each direction */
    uint64_t device_stale; /* lines of which the device saw old data */
    uint64_t cpu_stale;    /* lines of which the CPU did */
};
int coherdma_probe(struct ibv_context *context, const struct coherdma_probe_attr *attr,
                   size_t attr_size, struct coherdma_probe_result *result, size_t result_size);

/* -- our provider ---------------------------------------------------------------------------- */

/*
 * Has soft devices (rxe, siw) of this process served by coherdma's provider plugin, whatever the
 * system's setting. To be called before the first ibv_get_device_list: without effect on devices
 * that the process has listed already. Once is enough, more does no harm; it cannot be undone.
 * Fails with ECANCELED where the user has named another plugin in RDMAV_DRIVERS or IBV_DRIVERS,
 * which goes before, and with ENOENT where the plugin is not installed.
 */
int coherdma_use_provider(void);

#ifdef __GNUC__
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
