/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat_lmr_sync_rdma_read: the owner of memory calls it after a modification, then posts a Send that
 * names the range; the receiver of the Send issues the RDMA Read.
 *
 *     cc modify_then_read.c sync_program.c -ldat
 */
#include "sync_program.h"

enum { ROUNDS = 3, SIZE = 2 * PAGE, AT = 100, LENGTH = 5000 };

static void server(struct process *process) {
    struct memory table;
    struct connection connection;
    register_memory(process, &table, process->pz, SIZE, DAT_MEM_PRIV_REMOTE_READ_FLAG);
    connect_peers(process, &connection, process->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        const DAT_LMR_TRIPLET modified = make_lmr_triplet(&table, AT, LENGTH);
        const struct range name = make_remote_range(&table, AT, LENGTH);
        fill_pattern(&table, AT, LENGTH, round);
        if (needs_sync(process, 1))
            CHECK_DAT(dat_lmr_sync_rdma_read(process->ia, &modified, 1));
        send_message(&connection, &name, 1);
        receive_message(&connection, NULL, 0); /* it was read, and may be modified again */
    }
    disconnect_peers(process, &connection);
    free_memory(&table);
}

static void client(struct process *process) {
    struct memory copy;
    struct connection connection;
    struct range name;
    register_memory(process, &copy, process->pz, SIZE, process->read_sink_flags);
    connect_peers(process, &connection, process->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        receive_message(&connection, &name, 1);
        rdma_read(&connection, make_lmr_triplet(&copy, 0, LENGTH), name);
        verify_pattern(process, &copy, 0, LENGTH, round);
        send_message(&connection, NULL, 0);
    }
    disconnect_peers(process, &connection);
    free_memory(&copy);
}

SYNC_PROGRAM(.name = "modify_then_read", .num_syncs = 1, .server = server, .client = client)
