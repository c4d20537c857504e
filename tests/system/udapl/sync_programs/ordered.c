/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat_lmr_create with DAT_MEM_TYPE_SO_VIRTUAL, of Solaris' uDAPL 1.2: memory that the device writes
 * in order, so that the program may wait for a peer's last byte by looking at it. With RO_AWARE_
 * before the IA's name only such memory is in order, else all is. The data lie in other memory than
 * the flag that follows them, which no message announces: so each look needs a sync.
 *
 *     cc ordered.c sync_program.c -ldat
 */
#include "sync_program.h"

#include <time.h>

enum { ROUNDS = 3, SIZE = 2 * PAGE, AT = 100, LENGTH = 5000 };

static void register_ordered(struct process *process, struct memory *mem) {
    DAT_REGION_DESCRIPTION region;
    DAT_LMR_PARAM is;
    DAT_VADDR address;
    map_pages(mem, PAGE);
    region.for_va = mem->addr;
    CHECK_DAT(dat_lmr_create(process->ia, DAT_MEM_TYPE_SO_VIRTUAL, region, PAGE, process->pz,
                             DAT_MEM_PRIV_REMOTE_WRITE_FLAG, &mem->lmr, &mem->local, &mem->remote,
                             &mem->length, &address));
    CHECK_DAT(dat_lmr_query(mem->lmr, DAT_LMR_FIELD_ALL, &is));
    require(is.mem_type == DAT_MEM_TYPE_SO_VIRTUAL && is.region_desc.for_va == mem->addr,
            "a region of its type");
}

/* Until the flag is the round's. */
static void wait_for_flag(struct process *process, const struct memory *flag, unsigned round) {
    const volatile unsigned char *const addr = flag->addr + AT;
    const DAT_LMR_TRIPLET all = make_lmr_triplet(flag, AT, 1);
    const time_t limit = time(NULL) + wait_seconds(process, 1);
    for (;;) {
        if (needs_sync(process, 1))
            CHECK_DAT(dat_lmr_sync_rdma_write(process->ia, &all, 1));
        if (*addr == round)
            return;
        if (time(NULL) > limit)
            fail("the flag", "has not come");
    }
}

static void server(struct process *process) {
    struct memory data, flag;
    struct connection connection;
    register_memory(process, &data, process->pz, SIZE, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    register_ordered(process, &flag);
    connect_peers(process, &connection, process->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        const DAT_LMR_TRIPLET written = make_lmr_triplet(&data, AT, LENGTH);
        const struct range ranges_to_send[] = {make_remote_range(&data, AT, LENGTH),
                                               make_remote_range(&flag, AT, 1)};
        send_message(&connection, ranges_to_send, 2);
        wait_for_flag(process, &flag, round);
        if (needs_sync(process, 2))
            CHECK_DAT(dat_lmr_sync_rdma_write(process->ia, &written, 1));
        verify_pattern(process, &data, AT, LENGTH, round);
    }
    disconnect_peers(process, &connection);
    free_memory(&flag);
    free_memory(&data);
}

static void client(struct process *process) {
    struct memory source;
    struct connection connection;
    register_memory(process, &source, process->pz, SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    connect_peers(process, &connection, process->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        struct range ranges_to_send[2];
        receive_message(&connection, ranges_to_send, 2);
        fill_pattern(&source, 0, LENGTH, round);
        source.addr[LENGTH] = (unsigned char)round;
        rdma_write(&connection, make_lmr_triplet(&source, 0, LENGTH), ranges_to_send[0]);
        rdma_write(&connection, make_lmr_triplet(&source, LENGTH, 1), ranges_to_send[1]);
    }
    disconnect_peers(process, &connection);
    free_memory(&source);
}

SYNC_PROGRAM(.name = "ordered", .num_syncs = 2, .server = server, .client = client)
