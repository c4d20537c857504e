/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Atomic writes of eight bytes, coherdma's extension of uDAPL 2.0: who looks at the word while a
 * peer writes it again and again sees all of one value, and never an older one than before. The
 * four parts of a value are the same number, its place in the sequence.
 *
 *     cc -DWITH_DAT2 atomic_write.c talk.c -ldat2
 */
#include "talk.h"

#include <dat2/dat_coherdma_extensions.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <time.h>

/* The writer is never a STRIDE ahead of who looks, so that older and newer can be told by 16 bits.
 */
enum { COUNT = 10000, STRIDE = 16384, WINDOW = 8, AT = 64, WORD = 8, SECONDS = 12 };

static const uint64_t each_part = UINT64_C(0x0001000100010001);

/* The next look's number, and whether it is whole. */
static uint16_t number_in(uint64_t word, uint16_t before) {
    const uint16_t number = (uint16_t)word;
    char why[80];
    snprintf(why, sizeof why, "is 0x%016" PRIx64 " after %#x", word, before);
    if (word != number * each_part)
        stop("the word: torn", why);
    if ((uint16_t)(number - before) > STRIDE)
        stop("the word: backwards", why);
    return number;
}

static void watch(struct talk *talk, struct line *line, const struct memory *it) {
    const _Atomic uint64_t *const word = (const void *)(it->at + AT);
    const DAT_LMR_TRIPLET all = part(it, AT, WORD);
    time_t limit = time(NULL) + SECONDS;
    long seen = 0, values = 0, heard_of = 0;
    for (uint16_t before = 0; seen < talk->count;) {
        if (must_sync(talk, 1))
            MUST(dat_lmr_sync_rdma_write(talk->ia, &all, 1));
        const uint16_t now = number_in(atomic_load_explicit(word, memory_order_acquire), before);
        if (now == before) {
            if (time(NULL) > limit)
                stop("the word", "does not change any more");
            continue;
        }
        seen += (uint16_t)(now - before);
        before = now;
        ++values;
        limit = time(NULL) + SECONDS;
        for (; heard_of < seen / STRIDE; ++heard_of)
            tell(line, NULL, 0);
    }
    must_be(seen == talk->count, "that the last value is the last");
    printf("%ld values seen of %ld\n", values, talk->count);
}

static void serve(struct talk *talk) {
    struct memory word;
    struct line line;
    make(talk, &word, talk->pz, PAGE, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    connect_sides(talk, &line, talk->pz);
    const struct range name = name_of(&word, AT, WORD);
    tell(&line, &name, 1);
    watch(talk, &line, &word);
    part_sides(talk, &line);
    unmake(&word);
}

static const char *words_for(DAT_COHERDMA_WAY way) {
    return way == DAT_COHERDMA_WAY_NATIVE   ? "native"
           : way == DAT_COHERDMA_WAY_INLINE ? "inline write"
           : way == DAT_COHERDMA_WAY_SWAP   ? "compare and swap"
                                            : "none";
}

static void ask(struct talk *talk) {
    struct line line;
    struct range word;
    DAT_COHERDMA_WAYS ways;
    const DAT_DTO_COOKIE no_cookie = {.as_64 = 0};
    connect_sides(talk, &line, talk->pz);
    MUST(dat_coherdma_query_ways(line.ep, &ways));
    printf("atomic writes: %s\n", words_for(ways.atomic_write));
    hear(&line, &word, 1);
    const DAT_RMR_TRIPLET there = {.virtual_address = word.address,
                                   .segment_length = WORD,
                                   .rmr_context = (DAT_RMR_CONTEXT)word.context};
    for (long each = 1; each <= talk->count; ++each) {
        const uint64_t value = (uint16_t)each * each_part;
        const int told = each % WINDOW == 0 || each == talk->count;
        MUST(dat_coherdma_post_atomic_write(line.ep, &value, NULL, no_cookie, &there,
                                            told ? DAT_COMPLETION_DEFAULT_FLAG
                                                 : DAT_COMPLETION_SUPPRESS_FLAG));
        if (told)
            must_be(ended(&line) == DAT_DTO_SUCCESS, "that an atomic write succeeds");
        if (each % STRIDE == 0)
            hear(&line, NULL, 0);
    }
    part_sides(talk, &line);
}

int main(int count, char **words) {
    const struct situation it = {
        .name = "atomic_write", .syncs = 1, .serve = serve, .ask = ask, .count = COUNT};
    return run(&it, count, words);
}
