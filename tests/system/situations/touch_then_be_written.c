/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat_lmr_sync_rdma_write, before and after: memory that the program has written itself, and a peer
 * will write. Without the first call the program's own bytes are still to be written back when the
 * peer's come.
 *
 *     cc touch_then_be_written.c talk.c -ldat
 */
#include "talk.h"

enum { ROUNDS = 3, SIZE = 2 * PAGE, AT = 100, LENGTH = 5000, OURS = 100 };

static void serve(struct talk *talk) {
    struct memory box;
    struct line line;
    make(talk, &box, talk->pz, SIZE, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    connect_sides(talk, &line, talk->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        const DAT_LMR_TRIPLET range = part(&box, AT, LENGTH);
        const struct range name = name_of(&box, AT, LENGTH);
        fill(&box, AT, LENGTH, OURS + round);
        if (must_sync(talk, 1))
            MUST(dat_lmr_sync_rdma_write(talk->ia, &range, 1));
        tell(&line, &name, 1);
        hear(&line, NULL, 0);
        if (must_sync(talk, 2))
            MUST(dat_lmr_sync_rdma_write(talk->ia, &range, 1));
        look(talk, &box, AT, LENGTH, round);
    }
    part_sides(talk, &line);
    unmake(&box);
}

static void ask(struct talk *talk) {
    struct memory source;
    struct line line;
    make(talk, &source, talk->pz, SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    connect_sides(talk, &line, talk->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        struct range box;
        hear(&line, &box, 1);
        fill(&source, 0, box.length, round);
        write_to(&line, part(&source, 0, box.length), box);
        tell(&line, NULL, 0);
    }
    part_sides(talk, &line);
    unmake(&source);
}

int main(int count, char **words) {
    const struct situation it = {
        .name = "touch_then_be_written", .syncs = 2, .serve = serve, .ask = ask};
    return run(&it, count, words);
}
