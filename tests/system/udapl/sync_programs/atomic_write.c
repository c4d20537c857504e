/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Atomic writes of eight bytes, coherdma's extension of uDAPL 2.0: a reader of the word that a
 * peer writes again and again sees whole values, and never an older one after a newer one. The
 * four parts of a value are the same number, its place in the sequence.
 *
 * --never-torn: with DAT_COHERDMA_NEVER_TORN_FLAG, which a device may not support: then the write
 * is refused.
 *
 *     cc -DWITH_DAT2 atomic_write.c sync_program.c -ldat2
 */
#include "sync_program.h"

#include <dat2/dat_coherdma_extensions.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <time.h>

/* The writer is never a STRIDE ahead of the reader, so 16 bits tell older from newer.
 */
enum { COUNT = 10000, STRIDE = 16384, WINDOW = 8, AT = 64, WORD = 8 };
enum { LINE = 256 };           /* no two of these share a cache line */
enum { REMOTE_ATOMIC = 0x40 }; /* DAT_IB_MEM_PRIV_REMOTE_ATOMIC */

static const uint64_t quarter = UINT64_C(0x0001000100010001);

/* The next look's number, and whether it is whole. */
static uint16_t check_word(uint64_t word, uint16_t before) {
    const uint16_t number = (uint16_t)word;
    char why[80];
    snprintf(why, sizeof why, "is 0x%016" PRIx64 " after %#x", word, before);
    if (word != number * quarter)
        fail("the word: torn", why);
    if ((uint16_t)(number - before) > STRIDE)
        fail("the word: backwards", why);
    return number;
}

static void watch_word(struct process *process, struct connection *connection,
                       const struct memory *mem) {
    const _Atomic uint64_t *const word = (const void *)(mem->addr + AT);
    const DAT_LMR_TRIPLET all = make_lmr_triplet(mem, AT, WORD);
    time_t limit = time(NULL) + wait_seconds(process, 1);
    long seen = 0, values = 0, reported = 0;
    for (uint16_t before = 0; seen < process->count;) {
        if (needs_sync(process, 1))
            CHECK_DAT(dat_lmr_sync_rdma_write(process->ia, &all, 1));
        const uint16_t now = check_word(atomic_load_explicit(word, memory_order_acquire), before);
        if (now == before) {
            if (time(NULL) > limit)
                fail("the word", "does not change any more");
            continue;
        }
        seen += (uint16_t)(now - before);
        before = now;
        ++values;
        limit = time(NULL) + wait_seconds(process, 1);
        for (; reported < seen / STRIDE; ++reported)
            send_message(connection, NULL, 0);
    }
    require(seen == process->count, "that the last value is the last");
    printf("%ld values seen of %ld\n", values, process->count);
}

static DAT_COHERDMA_METHOD query_method(const struct process *process,
                                        const struct connection *connection) {
    DAT_COHERDMA_METHODS methods;
    CHECK_DAT(dat_coherdma_query_methods(connection->ep, &methods));
    return process->has_option ? methods.never_torn_write : methods.atomic_write;
}

static void server(struct process *process) {
    struct memory word;
    struct connection connection;
    connect_peers(process, &connection, process->pz);
    const DAT_COHERDMA_METHOD method = query_method(process, &connection);
    const int privileges = (int)DAT_MEM_PRIV_REMOTE_WRITE_FLAG |
                           (method == DAT_COHERDMA_METHOD_CMP_AND_SWP ? (int)REMOTE_ATOMIC : 0);
    register_memory(process, &word, process->pz, PAGE, (DAT_MEM_PRIV_FLAGS)privileges);
    const struct range name = make_remote_range(&word, AT, WORD);
    send_message(&connection, &name, 1);
    if (method != DAT_COHERDMA_METHOD_NONE)
        watch_word(process, &connection, &word);
    disconnect_peers(process, &connection);
    free_memory(&word);
}

static const char *method_name(DAT_COHERDMA_METHOD method) {
    return method == DAT_COHERDMA_METHOD_NATIVE         ? "native"
           : method == DAT_COHERDMA_METHOD_INLINE_WRITE ? "inline write"
           : method == DAT_COHERDMA_METHOD_CMP_AND_SWP  ? "compare and swap"
                                                        : "none";
}

/* The expected value before each write of a window; a compare and swap replaces it by the value
 * that it found. */
static uint64_t *expected_word(const struct memory *expected, long each) {
    return (void *)(expected->addr + each % WINDOW * LINE);
}

static void write_words(struct process *process, struct connection *connection,
                        const DAT_RMR_TRIPLET *rmr_triplet) {
    const DAT_DTO_COOKIE no_cookie = {.as_64 = 0};
    struct memory expected;
    register_memory(process, &expected, process->pz, PAGE, DAT_MEM_PRIV_ALL_FLAG);
    for (long each = 1; each <= process->count; ++each) {
        const uint64_t value = (uint16_t)each * quarter;
        const int signaled = each % WINDOW == 0 || each == process->count;
        const DAT_LMR_TRIPLET compare =
            make_lmr_triplet(&expected, (DAT_VLEN)(each % WINDOW * LINE), WORD);
        const int flags =
            (int)(signaled ? DAT_COMPLETION_DEFAULT_FLAG : DAT_COMPLETION_SUPPRESS_FLAG) |
            (process->has_option ? (int)DAT_COHERDMA_NEVER_TORN_FLAG : 0);
        *expected_word(&expected, each) = (uint16_t)(each - 1) * quarter;
        CHECK_DAT(dat_coherdma_post_atomic_write(connection->ep, &value, &compare, no_cookie,
                                                 rmr_triplet, flags));
        if (signaled) {
            require(wait_send_status(connection) == DAT_DTO_SUCCESS,
                    "that an atomic write succeeds");
            for (long past = (each - 1) / WINDOW * WINDOW + 1; past <= each; ++past)
                require(*expected_word(&expected, past) == (uint16_t)(past - 1) * quarter,
                        "that the value before an atomic write is the expected one");
        }
        if (each % STRIDE == 0)
            receive_message(connection, NULL, 0);
    }
    free_memory(&expected);
}

static void expect_refused(struct process *process, struct connection *connection,
                           const DAT_RMR_TRIPLET *rmr_triplet) {
    const DAT_DTO_COOKIE no_cookie = {.as_64 = 0};
    const uint64_t value = quarter;
    struct memory expected;
    register_memory(process, &expected, process->pz, PAGE, DAT_MEM_PRIV_ALL_FLAG);
    const DAT_LMR_TRIPLET compare = make_lmr_triplet(&expected, 0, WORD);
    require(DAT_GET_TYPE(dat_coherdma_post_atomic_write(
                connection->ep, &value, &compare, no_cookie, rmr_triplet,
                DAT_COHERDMA_NEVER_TORN_FLAG)) == DAT_MODEL_NOT_SUPPORTED,
            "that an atomic write is refused");
    free_memory(&expected);
}

static void client(struct process *process) {
    struct connection connection;
    struct range word;
    connect_peers(process, &connection, process->pz);
    const DAT_COHERDMA_METHOD method = query_method(process, &connection);
    printf("atomic writes: %s\n", method_name(method));
    receive_message(&connection, &word, 1);
    const DAT_RMR_TRIPLET rmr_triplet = {.virtual_address = word.address,
                                         .segment_length = WORD,
                                         .rmr_context = (DAT_RMR_CONTEXT)word.context};
    if (method == DAT_COHERDMA_METHOD_NONE)
        expect_refused(process, &connection, &rmr_triplet);
    else
        write_words(process, &connection, &rmr_triplet);
    disconnect_peers(process, &connection);
}

SYNC_PROGRAM(.name = "atomic_write", .num_syncs = 1, .server = server, .client = client,
             .count = COUNT, .option = "--never-torn")
