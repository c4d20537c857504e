/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat_lmr_sync_rdma_write between a peer's RDMA Write and a local write to the same range: the
 * server changes a few bytes of what the client has written. Then the client reads all back, which
 * is what dat_lmr_sync_rdma_read is for.
 *
 *     cc written_then_touch.c sync_program.c -ldat
 */
#include "sync_program.h"

/* Each round has a range of its own: what was touched once is not written again. */
enum { ROUNDS = 3, EACH = 2 * PAGE, AT = 100, LENGTH = 5000, STEP = 200 };

/* Of each STEP bytes one. Twice, and they are as they were. */
static void touch(unsigned char *addr) {
    for (unsigned place = 0; place < LENGTH; place += STEP)
        addr[place] ^= 0xff;
}

static void server(struct process *process) {
    struct memory mem;
    struct connection connection;
    register_memory(process, &mem, process->pz, ROUNDS * EACH,
                    DAT_MEM_PRIV_REMOTE_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG);
    connect_peers(process, &connection, process->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        const DAT_VLEN offset = (round - 1) * EACH + AT;
        const DAT_LMR_TRIPLET range = make_lmr_triplet(&mem, offset, LENGTH);
        const struct range name = make_remote_range(&mem, offset, LENGTH);
        send_message(&connection, &name, 1);
        receive_message(&connection, NULL, 0); /* it is written */
        if (needs_sync(process, 1))
            CHECK_DAT(dat_lmr_sync_rdma_write(process->ia, &range, 1));
        touch(mem.addr + offset);
        if (needs_sync(process, 2))
            CHECK_DAT(dat_lmr_sync_rdma_read(process->ia, &range, 1));
        send_message(&connection, NULL, 0);
        receive_message(&connection, NULL, 0); /* it is read */
    }
    disconnect_peers(process, &connection);
    free_memory(&mem);
}

static void client(struct process *process) {
    struct memory source, copy;
    struct connection connection;
    register_memory(process, &source, process->pz, EACH, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    register_memory(process, &copy, process->pz, EACH, process->read_sink_flags);
    connect_peers(process, &connection, process->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        struct range mem;
        receive_message(&connection, &mem, 1);
        fill_pattern(&source, 0, LENGTH, round);
        rdma_write(&connection, make_lmr_triplet(&source, 0, LENGTH), mem);
        send_message(&connection, NULL, 0);
        receive_message(&connection, NULL, 0);
        rdma_read(&connection, make_lmr_triplet(&copy, 0, LENGTH), mem);
        touch(copy.addr);
        verify_pattern(process, &copy, 0, LENGTH, round);
        send_message(&connection, NULL, 0);
    }
    disconnect_peers(process, &connection);
    free_memory(&copy);
    free_memory(&source);
}

SYNC_PROGRAM(.name = "written_then_touch", .num_syncs = 2, .server = server, .client = client)
