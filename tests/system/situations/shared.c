/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat_lmr_create with DAT_MEM_TYPE_SHARED_VIRTUAL: two processes register memory that they share,
 * by one cookie of 40 bytes. A peer's RDMA Write by the context of the one is in the memory of the
 * other, too, after one dat_lmr_sync_rdma_write of either. What is not truly shared has no such
 * meaning.
 *
 *     cc shared.c talk.c -ldat
 */
#define _DEFAULT_SOURCE
#include "talk.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 4 * PAGE, AT = 100, LENGTH = 5000, SECOND = 2 * PAGE };

static unsigned char *shared, *other;
static char cookie[DAT_LMR_COOKIE_SIZE]; /* any 40 bytes that both know; zeros count as well */

/* Memory that both have, made before there are two. */
static void share(void) {
    shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    other = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must_be(shared != MAP_FAILED && other != MAP_FAILED, "shared memory");
    snprintf(cookie, sizeof cookie, "situation %ld", (long)getpid());
}

static DAT_RETURN register_by(struct talk *talk, DAT_LMR_COOKIE id, struct memory *it) {
    DAT_REGION_DESCRIPTION region;
    DAT_VADDR address;
    region.for_shared_memory.virtual_address = it->at;
    region.for_shared_memory.shared_memory_id = id;
    return dat_lmr_create(talk->ia, DAT_MEM_TYPE_SHARED_VIRTUAL, region, SIZE, talk->pz,
                          DAT_MEM_PRIV_REMOTE_WRITE_FLAG, VIRTUAL_ADDRESSES & it->lmr, &it->local,
                          &it->remote, &it->length, &address);
}
static struct memory make_shared(struct talk *talk) {
    struct memory it = {.at = shared};
    MUST(register_by(talk, &cookie, &it));
    return it;
}

/* No other memory by this cookie, nor a process's own; by another cookie, be it in its last byte.
 */
static void refuse(struct talk *talk) {
    struct memory its = {.at = other}, own;
    char similar[DAT_LMR_COOKIE_SIZE], unused[DAT_LMR_COOKIE_SIZE];
    memcpy(similar, cookie, sizeof similar);
    similar[sizeof similar - 1] = 1;
    memcpy(unused, cookie, sizeof unused);
    unused[sizeof unused - 1] = 2;
    must_be(DAT_GET_TYPE(register_by(talk, &cookie, &its)) == DAT_INVALID_STATE,
            "that other memory by the same cookie is refused");
    MUST(register_by(talk, &similar, &its));
    MUST(dat_lmr_free(its.lmr));
    make(talk, &own, talk->pz, SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    its.at = own.at;
    must_be(DAT_GET_TYPE(register_by(talk, &unused, &its)) == DAT_INVALID_STATE,
            "that memory of a process's own is refused");
    unmake(&own);
}

static void serve(struct talk *talk) {
    const struct memory mine = make_shared(talk);
    const struct range names[] = {name_of(&mine, AT, LENGTH), name_of(&mine, SECOND, LENGTH)};
    const DAT_LMR_TRIPLET first = part(&mine, AT, LENGTH);
    struct line line;
    connect_sides(talk, &line, talk->pz);
    tell(&line, names, 2);
    hear(&line, NULL, 0); /* the first range is written */
    if (must_sync(talk, 1))
        MUST(dat_lmr_sync_rdma_write(talk->ia, &first, 1));
    tell(&line, NULL, 0);
    look(talk, &mine, AT, LENGTH, 1);
    hear(&line, NULL, 0); /* the second is written */
    tell(&line, NULL, 0);
    hear(&line, NULL, 0); /* and synced by the other process */
    look(talk, &mine, SECOND, LENGTH, 2);
    part_sides(talk, &line);
    MUST(dat_lmr_free(mine.lmr));
}

static void ask(struct talk *talk) {
    const struct memory mine = make_shared(talk);
    const DAT_LMR_TRIPLET second = part(&mine, SECOND, LENGTH);
    struct memory source;
    struct line line;
    struct range names[2];
    refuse(talk);
    make(talk, &source, talk->pz, SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    connect_sides(talk, &line, talk->pz);
    hear(&line, names, 2);
    fill(&source, 0, LENGTH, 1);
    write_to(&line, part(&source, 0, LENGTH), names[0]);
    tell(&line, NULL, 0);
    hear(&line, NULL, 0); /* the server has synced */
    look(talk, &mine, AT, LENGTH, 1);
    fill(&source, 0, LENGTH, 2);
    write_to(&line, part(&source, 0, LENGTH), names[1]);
    tell(&line, NULL, 0);
    hear(&line, NULL, 0); /* so it has arrived */
    if (must_sync(talk, 2))
        MUST(dat_lmr_sync_rdma_write(talk->ia, &second, 1));
    tell(&line, NULL, 0);
    look(talk, &mine, SECOND, LENGTH, 2);
    part_sides(talk, &line);
    unmake(&source);
    MUST(dat_lmr_free(mine.lmr));
}

int main(int count, char **words) {
    const struct situation it = {
        .name = "shared", .syncs = 2, .serve = serve, .ask = ask, .before = share};
    return run(&it, count, words);
}
