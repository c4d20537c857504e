/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat_lmr_create with DAT_MEM_TYPE_SHARED_VIRTUAL: two processes register memory that they share,
 * by one cookie of 40 bytes. A peer's RDMA Write by the context of the one is in the memory of the
 * other, too, after one dat_lmr_sync_rdma_write of either. What is not truly shared has no such
 * meaning.
 *
 *     cc shared.c sync_program.c -ldat
 */
#define _DEFAULT_SOURCE
#include "sync_program.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 4 * PAGE, AT = 100, LENGTH = 5000, SECOND = 2 * PAGE };

static unsigned char *shared, *other;
static char cookie[DAT_LMR_COOKIE_SIZE]; /* any 40 bytes that both know; zeros count as well */

/* Memory that both have, made before there are two. */
static void map_shared(void) {
    shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    other = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(shared != MAP_FAILED && other != MAP_FAILED, "shared memory");
    snprintf(cookie, sizeof cookie, "situation %ld", (long)getpid());
}

static DAT_RETURN register_by(struct process *process, DAT_LMR_COOKIE id, struct memory *mem) {
    DAT_REGION_DESCRIPTION region;
    DAT_VADDR address;
    region.for_shared_memory.virtual_address = mem->addr;
    region.for_shared_memory.shared_memory_id = id;
    return dat_lmr_create(process->ia, DAT_MEM_TYPE_SHARED_VIRTUAL, region, SIZE, process->pz,
                          DAT_MEM_PRIV_REMOTE_WRITE_FLAG, VIRTUAL_ADDRESSES & mem->lmr, &mem->local,
                          &mem->remote, &mem->length, &address);
}
static struct memory register_shared(struct process *process) {
    struct memory mem = {.addr = shared};
    CHECK_DAT(register_by(process, &cookie, &mem));
    return mem;
}

/* No other memory by this cookie, nor a process's own; by another cookie, be it in its last byte.
 */
static void expect_refusals(struct process *process) {
    struct memory other_mem = {.addr = other}, private_mem;
    char similar[DAT_LMR_COOKIE_SIZE], unused[DAT_LMR_COOKIE_SIZE];
    memcpy(similar, cookie, sizeof similar);
    similar[sizeof similar - 1] = 1;
    memcpy(unused, cookie, sizeof unused);
    unused[sizeof unused - 1] = 2;
    require(DAT_GET_TYPE(register_by(process, &cookie, &other_mem)) == DAT_INVALID_STATE,
            "that other memory by the same cookie is refused");
    CHECK_DAT(register_by(process, &similar, &other_mem));
    CHECK_DAT(dat_lmr_free(other_mem.lmr));
    register_memory(process, &private_mem, process->pz, SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    other_mem.addr = private_mem.addr;
    require(DAT_GET_TYPE(register_by(process, &unused, &other_mem)) == DAT_INVALID_STATE,
            "that memory of a process's own is refused");
    free_memory(&private_mem);
}

static void server(struct process *process) {
    const struct memory mem = register_shared(process);
    const struct range ranges_to_send[] = {make_remote_range(&mem, AT, LENGTH),
                                           make_remote_range(&mem, SECOND, LENGTH)};
    const DAT_LMR_TRIPLET first = make_lmr_triplet(&mem, AT, LENGTH);
    struct connection connection;
    connect_peers(process, &connection, process->pz);
    send_message(&connection, ranges_to_send, 2);
    receive_message(&connection, NULL, 0); /* the first range is written */
    if (needs_sync(process, 1))
        CHECK_DAT(dat_lmr_sync_rdma_write(process->ia, &first, 1));
    send_message(&connection, NULL, 0);
    verify_pattern(process, &mem, AT, LENGTH, 1);
    receive_message(&connection, NULL, 0); /* the second is written */
    send_message(&connection, NULL, 0);
    receive_message(&connection, NULL, 0); /* and synced by the other process */
    verify_pattern(process, &mem, SECOND, LENGTH, 2);
    disconnect_peers(process, &connection);
    CHECK_DAT(dat_lmr_free(mem.lmr));
}

static void client(struct process *process) {
    const struct memory mem = register_shared(process);
    const DAT_LMR_TRIPLET second = make_lmr_triplet(&mem, SECOND, LENGTH);
    struct memory source;
    struct connection connection;
    struct range ranges_to_send[2];
    expect_refusals(process);
    register_memory(process, &source, process->pz, SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    connect_peers(process, &connection, process->pz);
    receive_message(&connection, ranges_to_send, 2);
    fill_pattern(&source, 0, LENGTH, 1);
    rdma_write(&connection, make_lmr_triplet(&source, 0, LENGTH), ranges_to_send[0]);
    send_message(&connection, NULL, 0);
    receive_message(&connection, NULL, 0); /* the server has synced */
    verify_pattern(process, &mem, AT, LENGTH, 1);
    fill_pattern(&source, 0, LENGTH, 2);
    rdma_write(&connection, make_lmr_triplet(&source, 0, LENGTH), ranges_to_send[1]);
    send_message(&connection, NULL, 0);
    receive_message(&connection, NULL, 0); /* so it has arrived */
    if (needs_sync(process, 2))
        CHECK_DAT(dat_lmr_sync_rdma_write(process->ia, &second, 1));
    send_message(&connection, NULL, 0);
    verify_pattern(process, &mem, SECOND, LENGTH, 2);
    disconnect_peers(process, &connection);
    free_memory(&source);
    CHECK_DAT(dat_lmr_free(mem.lmr));
}

SYNC_PROGRAM(.name = "shared", .num_syncs = 2, .server = server, .client = client,
             .prepare = map_shared)
