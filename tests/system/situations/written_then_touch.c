/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat_lmr_sync_rdma_write between a peer's RDMA Write and a local write to the same range: the
 * server changes a few bytes of what the client has written. Then the client reads all back, which
 * is what dat_lmr_sync_rdma_read is for.
 *
 *     cc written_then_touch.c talk.c -ldat
 */
#include "talk.h"

/* Each round has a range of its own: what was touched once is not written again. */
enum { ROUNDS = 3, EACH = 2 * PAGE, AT = 100, LENGTH = 5000, STEP = 200 };

/* Of each STEP bytes one. Twice, and they are as they were. */
static void touch(unsigned char *at) {
    for (unsigned place = 0; place < LENGTH; place += STEP)
        at[place] ^= 0xff;
}

static void serve(struct talk *talk) {
    struct memory box;
    struct line line;
    make(talk, &box, talk->pz, ROUNDS * EACH,
         DAT_MEM_PRIV_REMOTE_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG);
    connect_sides(talk, &line, talk->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        const DAT_VLEN offset = (round - 1) * EACH + AT;
        const DAT_LMR_TRIPLET range = part(&box, offset, LENGTH);
        const struct range name = name_of(&box, offset, LENGTH);
        tell(&line, &name, 1);
        hear(&line, NULL, 0); /* it is written */
        if (must_sync(talk, 1))
            MUST(dat_lmr_sync_rdma_write(talk->ia, &range, 1));
        touch(box.at + offset);
        if (must_sync(talk, 2))
            MUST(dat_lmr_sync_rdma_read(talk->ia, &range, 1));
        tell(&line, NULL, 0);
        hear(&line, NULL, 0); /* it is read */
    }
    part_sides(talk, &line);
    unmake(&box);
}

static void ask(struct talk *talk) {
    struct memory source, copy;
    struct line line;
    make(talk, &source, talk->pz, EACH, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    make(talk, &copy, talk->pz, EACH, talk->sink);
    connect_sides(talk, &line, talk->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        struct range box;
        hear(&line, &box, 1);
        fill(&source, 0, LENGTH, round);
        write_to(&line, part(&source, 0, LENGTH), box);
        tell(&line, NULL, 0);
        hear(&line, NULL, 0);
        read_from(&line, part(&copy, 0, LENGTH), box);
        touch(copy.at);
        look(talk, &copy, 0, LENGTH, round);
        tell(&line, NULL, 0);
    }
    part_sides(talk, &line);
    unmake(&copy);
    unmake(&source);
}

int main(int count, char **words) {
    const struct situation it = {
        .name = "written_then_touch", .syncs = 2, .serve = serve, .ask = ask};
    return run(&it, count, words);
}
