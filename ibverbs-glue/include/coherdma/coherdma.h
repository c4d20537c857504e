/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * libcoherdma: determines whether an RDMA device snoops the CPU's cache, and provides the sync
 * calls that a program needs if it does not: before and after a peer's RDMA Reads and Writes, and
 * before and after its own work requests.
 *
 *     struct coherdma_device *device = coherdma_open_device(context);
 *     ...
 *     coherdma_sync_before_read(device, list, count);             before a peer reads the ranges
 *     coherdma_sync_before_write(device, list, count);            before a peer writes them
 *     coherdma_sync_after_write(device, list, count);             after it has written them
 *     coherdma_sync_for_device(device, list, count, direction);   before the program's own posts
 *     coherdma_sync_for_cpu(device, list, count, direction);      after their completions
 *
 * For a coherent device the sync calls validate their arguments and order memory accesses, but
 * touch no cache line. See coherdma(7).
 *
 * Functions that return int return 0 or an errno value; functions that return a pointer return NULL
 * and set errno on failure. coherdma_error() returns the reason as text. Functions are thread-safe
 * unless their comment restricts it, but a handle must not be closed during a call. Functions that
 * close or free accept NULL.
 *
 * Structs grow at their end, but for coherdma_range and coherdma_batch. A size argument is the size
 * of the struct that the program was compiled with; EINVAL if it is less than that of the struct's
 * first version. Output structs are filled up to this size; bytes beyond what the library knows are
 * set to 0. Input structs must be zero beyond what the library knows, otherwise E2BIG.
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
#    define COHERDMA_CHECK_RESULT __attribute__((warn_unused_result))
#else
#    define COHERDMA_CHECK_RESULT
#endif

struct ibv_context; /* of <infiniband/verbs.h> */
struct coherdma_device;

enum coherdma_coherency {
    COHERDMA_UNKNOWN = 0, /* treated as non-coherent */
    COHERDMA_COHERENT = 1,
    COHERDMA_NON_COHERENT = 2,
    /* The kernel gives the device copies of the program's memory (bounce buffers): neither sees
     * the other's data, and no sync helps. */
    COHERDMA_BOUNCED = 3,
};

/* Returns "unknown", "coherent", "non-coherent" or "bounced". */
const char *coherdma_coherency_str(uint32_t coherency);

/* How strong evidence is. */
enum coherdma_strength {
    COHERDMA_STRENGTH_NONE = 0,     /* no result */
    COHERDMA_STRENGTH_ASSUMED = 1,  /* stated by the administrator or the program */
    COHERDMA_STRENGTH_FIRMWARE = 2, /* stated by the firmware, and Linux relies on it */
    COHERDMA_STRENGTH_KERNEL = 3,   /* how the kernel or coherdma's provider treats the device */
    COHERDMA_STRENGTH_MEASURED = 4, /* stale data was seen, or looked for in vain */
};

/* Returns "none", "assumed", "firmware", "kernel" or "measured". */
const char *coherdma_strength_str(uint32_t strength);

/* Returns the reason for the last failure in this thread, "" if none. Valid until the next one. */
const char *coherdma_error(void);

/* Returns the version of the library at run time, such as "0.1.0". */
const char *coherdma_version(void);

/* -- devices -------------------------------------------------------------------------------- */

enum coherdma_open_flags {
    /* Only query: do not fail if sync is required but not possible. The sync calls fail
     * instead. */
    COHERDMA_OPEN_QUERY_ONLY = 1 << 0,
    /* Evaluate the rules after the deciding one as well, for coherdma_query_evidence(). */
    COHERDMA_OPEN_ALL_RULES = 1 << 1,
    /* Check at every sync that the memory is mapped, with at least one system call: EFAULT instead
     * of a fault. COHERDMA_CHECK=1 in the environment does the same. */
    COHERDMA_OPEN_CHECK_MEMORY = 1 << 2,
    /* Open no device; use the coherency in `assume`. For measurements of the CPU. */
    COHERDMA_OPEN_ASSUME = 1 << 3,
};

struct coherdma_open_attr {
    uint32_t flags;              /* enum coherdma_open_flags */
    uint32_t assume;             /* enum coherdma_coherency, with COHERDMA_OPEN_ASSUME */
    struct ibv_context *context; /* the device, or NULL to use name */
    const char *name;            /* as in ibv_devices; the device is opened during the call */
    const char *instructions;    /* one of coherdma_cpu_attr.choices; NULL: the best */
};

/*
 * Determines coherency once. The handle may outlive `context`. Fails with EOPNOTSUPP if sync is
 * required but not possible for user programs on this CPU, or does not reach the queues of the
 * device or may not, or if its data is bounced, with EINVAL if an attribute or the configuration is
 * invalid, and with ENODEV if there is no device of that name.
 */
struct coherdma_device *coherdma_open_device(struct ibv_context *context);
struct coherdma_device *coherdma_open_device_ex(const struct coherdma_open_attr *attr, size_t size);
void coherdma_close_device(struct coherdma_device *device);

enum coherdma_device_flags {
    COHERDMA_DEVICE_EMULATED = 1 << 0, /* emulated as non-coherent: coherdma-emulate(7) */
};

/*
 * Buffers that the device writes must begin and end at a multiple of buffer_alignment; otherwise
 * stores to other data beside them can be lost, or what the device writes. It is more than a line
 * if the CPU writes back more at once, and that of a page if deregistration discards stores to
 * whole pages, as Linux does before 7.0 if the device is not coherent.
 */
struct coherdma_device_attr {
    uint32_t coherency;        /* enum coherdma_coherency */
    uint32_t strength;         /* enum coherdma_strength: of the evidence for it */
    uint32_t sync_required;    /* 0: the sync calls touch no cache line */
    uint32_t line_size;        /* of the cache, in bytes: what sync processes; 0: unknown */
    uint32_t buffer_alignment; /* of buffers that the device writes, begin and end, in bytes */
    uint32_t flags;            /* enum coherdma_device_flags */
    const char *name;          /* strings are valid until the device is closed, and never NULL */
    const char *driver;        /* of the kernel; "" if unknown */
    const char *transport;     /* "RoCE", "iWARP", "InfiniBand", ...; "" if unknown */
    const char *instructions;  /* of the CPU, used by sync; "" if none */
    const char *rule;          /* that decided */
    const char *source;        /* the file or system call that the rule read */
    const char *value;         /* the value read */
    const char *explanation;   /* all of this as a sentence */
    const char *sync_problem;  /* why the sync calls fail; "" if they do not */
};

int coherdma_query_device(const struct coherdma_device *device, struct coherdma_device_attr *attr,
                          size_t size);

struct coherdma_evidence {
    uint32_t coherency; /* of this rule alone; COHERDMA_UNKNOWN: no result */
    uint32_t strength;  /* enum coherdma_strength; COHERDMA_STRENGTH_NONE: no result */
    uint32_t decided;   /* 1: this rule decided */
    uint32_t reserved;  /* 0 */
    const char *rule;
    const char *source;
    const char *value;
    const char *reason;
};

/* Queries the rules in order of evaluation, from index 0. Fails with ENOENT after the last. */
int coherdma_query_evidence(const struct coherdma_device *device, size_t index,
                            struct coherdma_evidence *evidence, size_t size);

/* -- sync ----------------------------------------------------------------------------------- */

/* Memory of the program. A length of 0 is valid. */
struct coherdma_range {
    const void *addr;
    size_t length; /* in bytes */
};

/*
 * Sync memory that a peer accesses: before it reads the ranges, before it writes them, so that the
 * CPU writes nothing back later, and after it has written them, when the program has seen, for
 * example by a completion, that the Write is complete. An atomic operation counts as a Write.
 *
 * The first two write lines back. coherdma_sync_after_write() writes back and invalidates them; it
 * does all that coherdma_sync_before_write() does, for a caller that does not know which of both
 * is needed. All process whole lines: data that shares the first or last line of a range must not
 * be written while a peer writes the range. See coherdma_device_attr.buffer_alignment.
 *
 * All ranges are validated before the first line is touched: a call that fails has no effect. One
 * call with many ranges is cheaper than many calls: it waits once, and a line shared by two
 * consecutive ranges is processed once.
 */
COHERDMA_CHECK_RESULT
int coherdma_sync_before_read(const struct coherdma_device *device,
                              const struct coherdma_range *list, size_t count);
COHERDMA_CHECK_RESULT
int coherdma_sync_before_write(const struct coherdma_device *device,
                               const struct coherdma_range *list, size_t count);
COHERDMA_CHECK_RESULT
int coherdma_sync_after_write(const struct coherdma_device *device,
                              const struct coherdma_range *list, size_t count);

/*
 * For the local memory of the program's own work requests, as in the kernel's DMA API; the
 * direction is that of the data. coherdma_sync_for_device() before the request is posted: writes
 * lines back, and invalidates them unless the direction is COHERDMA_TO_DEVICE.
 * coherdma_sync_for_cpu() after its completion was polled, before the program reads the memory:
 * with COHERDMA_TO_DEVICE it only checks its arguments, otherwise it writes back and invalidates
 * lines. Between both calls the program must not store to the lines if the device writes them.
 */
enum coherdma_direction {
    COHERDMA_TO_DEVICE = 1 << 4,   /* the device reads: Send, RDMA Write */
    COHERDMA_FROM_DEVICE = 1 << 5, /* the device writes: Receive, RDMA Read, atomic */
    COHERDMA_BIDIRECTIONAL = COHERDMA_TO_DEVICE | COHERDMA_FROM_DEVICE,
};

COHERDMA_CHECK_RESULT
int coherdma_sync_for_device(const struct coherdma_device *device,
                             const struct coherdma_range *list, size_t count, uint32_t direction);
COHERDMA_CHECK_RESULT
int coherdma_sync_for_cpu(const struct coherdma_device *device, const struct coherdma_range *list,
                          size_t count, uint32_t direction);

enum coherdma_phase {
    COHERDMA_BEFORE_READ = 1 << 0,
    COHERDMA_BEFORE_WRITE = 1 << 1,
    COHERDMA_AFTER_WRITE = 1 << 2, /* after the completion of the Write was seen */
};

/*
 * Syncs ranges that become known one after another, or that need different syncs, given by one or
 * several combined of enum coherdma_phase: add starts the work, end waits for all of it.
 * Until end, no effect is guaranteed. End returns the error of the first begin or add that failed;
 * the ranges of the others are synced. The completion of a Write must have been seen before its
 * range is added. A batch is used by one thread, which may have only one batch at a time.
 */
struct coherdma_batch {
    uint64_t opaque[8];
};
void coherdma_batch_begin(struct coherdma_batch *batch, const struct coherdma_device *device);
int coherdma_batch_add(struct coherdma_batch *batch, const struct coherdma_range *list,
                       size_t count, uint32_t phase);
COHERDMA_CHECK_RESULT
int coherdma_batch_end(struct coherdma_batch *batch);

/* -- this machine --------------------------------------------------------------------------- */

struct coherdma_cpu_attr {
    uint32_t line_size;        /* in bytes; 0: unknown */
    uint32_t buffer_alignment; /* for the CPU; a device may need more: coherdma_device_attr */
    const char *instructions;  /* for devices that require sync; "" if none */
    const char *choices;       /* all usable instructions, best first, separated by spaces */
    const char *problem;       /* why there are none, or what is wrong with COHERDMA_CACHE; or "" */
};
int coherdma_query_cpu(struct coherdma_cpu_attr *attr, size_t size);

/*
 * Tests coherency: makes the device copy memory to itself over a temporary connection, and checks
 * whether the device or the CPU read stale data. Takes a moment; no other call does this.
 */
struct coherdma_probe_attr {
    uint32_t port_num;   /* 0: the first active port */
    uint32_t rounds;     /* 0: 8 */
    uint32_t timeout_ms; /* of each transfer; 0: 2000 */
    uint32_t reserved;   /* 0 */
};
struct coherdma_probe_result {
    uint32_t coherency;    /* COHERDMA_UNKNOWN: a transfer did not complete */
    uint32_t rounds;       /* completed */
    uint64_t lines;        /* checked in each direction */
    uint64_t device_stale; /* lines that the device read stale */
    uint64_t cpu_stale;    /* lines that the CPU read stale */
};
int coherdma_probe(struct ibv_context *context, const struct coherdma_probe_attr *attr,
                   size_t attr_size, struct coherdma_probe_result *result, size_t result_size);

#ifdef __GNUC__
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
