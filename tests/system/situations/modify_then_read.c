/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat_lmr_sync_rdma_read: who modifies memory calls it, then posts a Send that names the range; who
 * receives the Send then issues the RDMA Read.
 *
 *     cc modify_then_read.c talk.c -ldat
 */
#include "talk.h"

enum { ROUNDS = 3, SIZE = 2 * PAGE, AT = 100, LENGTH = 5000 };

static void serve(struct talk *talk) {
    struct memory table;
    struct line line;
    make(talk, &table, talk->pz, SIZE, DAT_MEM_PRIV_REMOTE_READ_FLAG);
    connect_sides(talk, &line, talk->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        const DAT_LMR_TRIPLET modified = part(&table, AT, LENGTH);
        const struct range name = name_of(&table, AT, LENGTH);
        fill(&table, AT, LENGTH, round);
        if (must_sync(talk, 1))
            MUST(dat_lmr_sync_rdma_read(talk->ia, &modified, 1));
        tell(&line, &name, 1);
        hear(&line, NULL, 0); /* it was read, and may be modified again */
    }
    part_sides(talk, &line);
    unmake(&table);
}

static void ask(struct talk *talk) {
    struct memory copy;
    struct line line;
    struct range name;
    make(talk, &copy, talk->pz, SIZE, talk->sink);
    connect_sides(talk, &line, talk->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        hear(&line, &name, 1);
        read_from(&line, part(&copy, 0, LENGTH), name);
        look(talk, &copy, 0, LENGTH, round);
        tell(&line, NULL, 0);
    }
    part_sides(talk, &line);
    unmake(&copy);
}

int main(int count, char **words) {
    const struct situation it = {
        .name = "modify_then_read", .syncs = 1, .serve = serve, .ask = ask};
    return run(&it, count, words);
}
