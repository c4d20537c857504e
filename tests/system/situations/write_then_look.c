/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat_lmr_sync_rdma_write: who writes by RDMA posts a Send after the Write that names the range;
 * who receives the Send calls it, and looks.
 *
 *     cc write_then_look.c talk.c -ldat
 */
#include "talk.h"

enum { ROUNDS = 3, SIZE = 2 * PAGE, AT = 100, LENGTH = 5000 };

static void serve(struct talk *talk) {
    struct memory box;
    struct line line;
    make(talk, &box, talk->pz, SIZE, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    connect_sides(talk, &line, talk->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        const struct range offered = name_of(&box, AT, LENGTH);
        struct range written;
        tell(&line, &offered, 1);
        hear(&line, &written, 1);
        const DAT_VLEN offset = written.address - (DAT_VADDR)box.at;
        const DAT_LMR_TRIPLET changed = part(&box, offset, written.length);
        if (must_sync(talk, 1))
            MUST(dat_lmr_sync_rdma_write(talk->ia, &changed, 1));
        look(talk, &box, offset, written.length, round);
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
        fill(&source, 0, box.length, round); /* what we send ourselves needs no sync */
        write_to(&line, part(&source, 0, box.length), box);
        tell(&line, &box, 1);
    }
    part_sides(talk, &line);
    unmake(&source);
}

int main(int count, char **words) {
    const struct situation it = {.name = "write_then_look", .syncs = 1, .serve = serve, .ask = ask};
    return run(&it, count, words);
}
