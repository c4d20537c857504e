/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat_lmr_create with DAT_MEM_TYPE_LMR: what a first LMR has, once more in another protection zone
 * and with other privileges. A peer reaches what was allowed, in the zone of its connection, and
 * nothing else: without remote privileges there is no RMR context, and who guesses one is refused.
 *
 *     cc second_lmr.c talk.c -ldat
 */
#include "talk.h"

enum { SIZE = 4 * PAGE, AT = 100, LENGTH = 5000, WRITTEN = 2 * PAGE };
enum { REFUSED = 4, ITS_OWN = 77 };
/* A guess of a context that there is none of is a Write: Linux' siw answers a Read of any memory of
 * the connection's zone, whatever its privileges. */
static const int is_write[REFUSED] = {0, 1, 1, 0};

/* The length is ignored, as the first one's counts. */
static struct memory over(struct talk *talk, const struct memory *first, DAT_PZ_HANDLE pz,
                          DAT_MEM_PRIV_FLAGS privileges) {
    struct memory it = *first;
    DAT_REGION_DESCRIPTION region;
    DAT_VADDR address;
    region.for_lmr_handle = first->lmr;
    MUST(dat_lmr_create(talk->ia, DAT_MEM_TYPE_LMR, region, 1, pz, privileges,
                        VIRTUAL_ADDRESSES & it.lmr, &it.local, &it.remote, &it.length, &address));
    must_be(it.length == first->length && address == (DAT_VADDR)first->at, "of the same memory");
    return it;
}

/* Either LMR's context will do for a sync. */
static void exchange(struct talk *talk, const struct memory *first, const struct memory *second) {
    const DAT_LMR_TRIPLET modified = part(first, AT, LENGTH);
    const DAT_LMR_TRIPLET written = part(second, WRITTEN, LENGTH);
    const struct range names[] = {name_of(second, AT, LENGTH), name_of(second, WRITTEN, LENGTH)};
    struct line line;
    connect_sides(talk, &line, talk->pz);
    fill(first, AT, LENGTH, 1);
    if (must_sync(talk, 1))
        MUST(dat_lmr_sync_rdma_read(talk->ia, &modified, 1));
    tell(&line, names, 2);
    hear(&line, NULL, 0);
    if (must_sync(talk, 2))
        MUST(dat_lmr_sync_rdma_write(talk->ia, &written, 1));
    look(talk, first, WRITTEN, LENGTH, 2);
    part_sides(talk, &line);
}

/* Each attempt costs its connection. */
static void refuse(struct talk *talk, const struct memory *first, DAT_PZ_HANDLE other) {
    struct memory local = over(talk, first, talk->pz, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    struct memory readable = over(talk, first, talk->pz, DAT_MEM_PRIV_REMOTE_READ_FLAG);
    struct memory elsewhere = over(talk, first, other, DAT_MEM_PRIV_REMOTE_READ_FLAG);
    const DAT_UINT64 contexts[REFUSED] = {0, local.local, readable.remote, elsewhere.remote};
    must_be(local.remote == 0, "no context without a remote privilege, of a second LMR");
    for (int each = 0; each < REFUSED; ++each) {
        struct line line;
        struct range name = name_of(first, AT, LENGTH);
        name.context = contexts[each];
        connect_sides(talk, &line, talk->pz);
        tell_last(&line, &name, 1);
        part_broken(talk, &line);
        look(talk, first, AT, LENGTH, 1); /* as it was */
    }
    MUST(dat_lmr_free(local.lmr));
    MUST(dat_lmr_free(readable.lmr));
    MUST(dat_lmr_free(elsewhere.lmr));
}

static void serve(struct talk *talk) {
    DAT_PZ_HANDLE other;
    struct memory first, second;
    MUST(dat_pz_create(talk->ia, &other));
    make(talk, &first, other, SIZE, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    must_be(first.remote == 0, "no context without a remote privilege");
    second = over(talk, &first, talk->pz,
                  DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    must_be(second.remote != 0, "a context with remote privileges");
    exchange(talk, &first, &second);
    MUST(dat_lmr_free(second.lmr));
    refuse(talk, &first, other);
    unmake(&first);
    MUST(dat_pz_free(other));
}

/* An RDMA Write to iWARP ends when it is on its way; a Read knows. */
static void be_refused(struct talk *talk, const struct memory *mine, int writes) {
    struct line line;
    struct range name;
    connect_sides(talk, &line, talk->pz);
    hear(&line, &name, 1);
    if (writes)
        try_write(&line, part(mine, 0, LENGTH), name);
    else
        must_be(try_read(&line, part(mine, 0, LENGTH), name) != DAT_DTO_SUCCESS,
                "that the Read is refused");
    part_broken(talk, &line);
    look(talk, mine, 0, LENGTH, ITS_OWN);
}

static void ask(struct talk *talk) {
    struct memory mine;
    struct line line;
    struct range names[2];
    make(talk, &mine, talk->pz, SIZE, talk->sink);
    connect_sides(talk, &line, talk->pz);
    hear(&line, names, 2);
    read_from(&line, part(&mine, 0, LENGTH), names[0]);
    look(talk, &mine, 0, LENGTH, 1);
    fill(&mine, 0, LENGTH, 2);
    write_to(&line, part(&mine, 0, LENGTH), names[1]);
    tell(&line, NULL, 0);
    part_sides(talk, &line);
    fill(&mine, 0, LENGTH, ITS_OWN);
    for (int each = 0; each < REFUSED; ++each)
        be_refused(talk, &mine, is_write[each]);
    unmake(&mine);
}

int main(int count, char **words) {
    const struct situation it = {.name = "second_lmr", .syncs = 2, .serve = serve, .ask = ask};
    return run(&it, count, words);
}
