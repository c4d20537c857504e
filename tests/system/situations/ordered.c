/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat_lmr_create with DAT_MEM_TYPE_SO_VIRTUAL, of Solaris' uDAPL 1.2: memory that the device writes
 * in order, so that the program may wait for a peer's last byte by looking at it. With RO_AWARE_
 * before the IA's name only such memory is in order, else all is. The data lie in other memory than
 * the flag that follows them, which no message announces: so each look needs a sync.
 *
 *     cc ordered.c talk.c -ldat
 */
#include "talk.h"

#include <time.h>

enum { ROUNDS = 3, SIZE = 2 * PAGE, AT = 100, LENGTH = 5000, SECONDS = 3 };

static void make_ordered(struct talk *talk, struct memory *it) {
    DAT_REGION_DESCRIPTION region;
    DAT_LMR_PARAM is;
    DAT_VADDR address;
    map(it, PAGE);
    region.for_va = it->at;
    MUST(dat_lmr_create(talk->ia, DAT_MEM_TYPE_SO_VIRTUAL, region, PAGE, talk->pz,
                        DAT_MEM_PRIV_REMOTE_WRITE_FLAG, &it->lmr, &it->local, &it->remote,
                        &it->length, &address));
    MUST(dat_lmr_query(it->lmr, DAT_LMR_FIELD_ALL, &is));
    must_be(is.mem_type == DAT_MEM_TYPE_SO_VIRTUAL && is.region_desc.for_va == it->at,
            "a region of its type");
}

/* Until the flag is the round's. */
static void wait_for(struct talk *talk, const struct memory *flag, unsigned round) {
    const volatile unsigned char *const at = flag->at + AT;
    const DAT_LMR_TRIPLET all = part(flag, AT, 1);
    const time_t limit = time(NULL) + SECONDS;
    for (;;) {
        if (must_sync(talk, 1))
            MUST(dat_lmr_sync_rdma_write(talk->ia, &all, 1));
        if (*at == round)
            return;
        if (time(NULL) > limit)
            stop("the flag", "has not come");
    }
}

static void serve(struct talk *talk) {
    struct memory data, flag;
    struct line line;
    make(talk, &data, talk->pz, SIZE, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    make_ordered(talk, &flag);
    connect_sides(talk, &line, talk->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        const DAT_LMR_TRIPLET written = part(&data, AT, LENGTH);
        const struct range names[] = {name_of(&data, AT, LENGTH), name_of(&flag, AT, 1)};
        tell(&line, names, 2);
        wait_for(talk, &flag, round);
        if (must_sync(talk, 2))
            MUST(dat_lmr_sync_rdma_write(talk->ia, &written, 1));
        look(talk, &data, AT, LENGTH, round);
    }
    part_sides(talk, &line);
    unmake(&flag);
    unmake(&data);
}

static void ask(struct talk *talk) {
    struct memory source;
    struct line line;
    make(talk, &source, talk->pz, SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    connect_sides(talk, &line, talk->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        struct range names[2];
        hear(&line, names, 2);
        fill(&source, 0, LENGTH, round);
        source.at[LENGTH] = (unsigned char)round;
        write_to(&line, part(&source, 0, LENGTH), names[0]);
        write_to(&line, part(&source, LENGTH, 1), names[1]);
    }
    part_sides(talk, &line);
    unmake(&source);
}

int main(int count, char **words) {
    const struct situation it = {.name = "ordered", .syncs = 2, .serve = serve, .ask = ask};
    return run(&it, count, words);
}
