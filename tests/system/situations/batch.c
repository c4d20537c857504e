/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One call of dat_lmr_sync_rdma_read, and one of dat_lmr_sync_rdma_write, for several ranges of
 * several RDMA operations: in three LMRs, of two protection zones, each with a connection of its
 * own.
 *
 *     cc batch.c talk.c -ldat
 */
#include "talk.h"

enum { ROUNDS = 3, REGIONS = 3, RANGES = 5, SIZE = 4 * PAGE, WRITTEN = 2 * PAGE };

/* The second region has two ranges; the third is of the other zone. */
static const struct {
    int region;
    DAT_VLEN offset, length;
} ranges[RANGES] = {{0, 0, 1}, {1, 60, 1000}, {1, 3000, 500}, {1, 4000, 97}, {2, 100, 4000}};
enum { FIRST_OF_OTHER = 4 };

/* What is written lies apart from what is modified and read. */
static void list(DAT_LMR_TRIPLET *to, const struct memory *regions, DAT_VLEN from) {
    for (int each = 0; each < RANGES; ++each)
        to[each] =
            part(&regions[ranges[each].region], from + ranges[each].offset, ranges[each].length);
}
static void names(struct range *to, const struct memory *regions, DAT_VLEN from) {
    for (int each = 0; each < RANGES; ++each)
        to[each] =
            name_of(&regions[ranges[each].region], from + ranges[each].offset, ranges[each].length);
}

static void serve(struct talk *talk) {
    const DAT_MEM_PRIV_FLAGS both = DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
    DAT_PZ_HANDLE other;
    struct memory regions[REGIONS];
    struct line line, second;
    DAT_LMR_TRIPLET modified[RANGES], written[RANGES];
    struct range to_read[RANGES], to_write[RANGES];
    MUST(dat_pz_create(talk->ia, &other));
    for (int each = 0; each < REGIONS; ++each)
        make(talk, &regions[each], each < 2 ? talk->pz : other, SIZE, both);
    list(modified, regions, 0);
    list(written, regions, WRITTEN);
    names(to_read, regions, 0);
    names(to_write, regions, WRITTEN);
    connect_sides(talk, &line, talk->pz);
    connect_sides(talk, &second, other);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        for (int each = 0; each < RANGES; ++each)
            fill(&regions[ranges[each].region], ranges[each].offset, ranges[each].length, round);
        if (must_sync(talk, 1))
            MUST(dat_lmr_sync_rdma_read(talk->ia, modified, RANGES));
        tell(&line, to_read, FIRST_OF_OTHER);
        tell(&second, to_read + FIRST_OF_OTHER, RANGES - FIRST_OF_OTHER);
        tell(&line, to_write, FIRST_OF_OTHER);
        tell(&second, to_write + FIRST_OF_OTHER, RANGES - FIRST_OF_OTHER);
        hear(&line, NULL, 0);
        hear(&second, NULL, 0);
        if (must_sync(talk, 2))
            MUST(dat_lmr_sync_rdma_write(talk->ia, written, RANGES));
        for (int each = 0; each < RANGES; ++each)
            look(talk, &regions[ranges[each].region], WRITTEN + ranges[each].offset,
                 ranges[each].length, round);
    }
    part_sides(talk, &second);
    part_sides(talk, &line);
    for (int each = 0; each < REGIONS; ++each)
        unmake(&regions[each]);
    MUST(dat_pz_free(other));
}

static void ask(struct talk *talk) {
    struct memory copy, source;
    struct line line, second;
    make(talk, &copy, talk->pz, SIZE, talk->sink);
    make(talk, &source, talk->pz, SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    connect_sides(talk, &line, talk->pz);
    /* Ours need not be of two zones: what a zone keeps apart is on the server's side. */
    connect_sides(talk, &second, talk->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        struct range all[RANGES];
        hear(&line, all, FIRST_OF_OTHER);
        hear(&second, all + FIRST_OF_OTHER, RANGES - FIRST_OF_OTHER);
        for (int each = 0; each < RANGES; ++each) {
            struct line *const by = each < FIRST_OF_OTHER ? &line : &second;
            read_from(by, part(&copy, 0, all[each].length), all[each]);
            look(talk, &copy, 0, all[each].length, round);
        }
        hear(&line, all, FIRST_OF_OTHER);
        hear(&second, all + FIRST_OF_OTHER, RANGES - FIRST_OF_OTHER);
        for (int each = 0; each < RANGES; ++each) {
            struct line *const by = each < FIRST_OF_OTHER ? &line : &second;
            fill(&source, 0, all[each].length, round);
            write_to(by, part(&source, 0, all[each].length), all[each]);
        }
        tell(&line, NULL, 0);
        tell(&second, NULL, 0);
    }
    part_sides(talk, &second);
    part_sides(talk, &line);
    unmake(&source);
    unmake(&copy);
}

int main(int count, char **words) {
    const struct situation it = {.name = "batch", .syncs = 2, .serve = serve, .ask = ask};
    return run(&it, count, words);
}
