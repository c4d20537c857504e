/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat_lmr_sync_rdma_write, before and after: memory that the program has written itself, and a peer
 * will write. Without the first call the program's own bytes are still to be written back when the
 * peer's come.
 *
 *     cc touch_then_be_written.c sync_program.c -ldat
 */
#include "sync_program.h"

enum { ROUNDS = 3, SIZE = 2 * PAGE, AT = 100, LENGTH = 5000, OURS = 100 };

static void server(struct process *process) {
    struct memory mem;
    struct connection connection;
    register_memory(process, &mem, process->pz, SIZE, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    connect_peers(process, &connection, process->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        const DAT_LMR_TRIPLET range = make_lmr_triplet(&mem, AT, LENGTH);
        const struct range name = make_remote_range(&mem, AT, LENGTH);
        fill_pattern(&mem, AT, LENGTH, OURS + round);
        if (needs_sync(process, 1))
            CHECK_DAT(dat_lmr_sync_rdma_write(process->ia, &range, 1));
        send_message(&connection, &name, 1);
        receive_message(&connection, NULL, 0);
        if (needs_sync(process, 2))
            CHECK_DAT(dat_lmr_sync_rdma_write(process->ia, &range, 1));
        verify_pattern(process, &mem, AT, LENGTH, round);
    }
    disconnect_peers(process, &connection);
    free_memory(&mem);
}

static void client(struct process *process) {
    write_offered_ranges(process, ROUNDS, SIZE, 0);
}

SYNC_PROGRAM(.name = "touch_then_be_written", .num_syncs = 2, .server = server, .client = client)
