/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat_lmr_sync_rdma_write: the peer posts a Send after its RDMA Write that names the range; the
 * receiver of the Send calls it, and reads.
 *
 *     cc write_then_look.c sync_program.c -ldat
 */
#include "sync_program.h"

enum { ROUNDS = 3, SIZE = 2 * PAGE, AT = 100, LENGTH = 5000 };

static void server(struct process *process) {
    struct memory mem;
    struct connection connection;
    register_memory(process, &mem, process->pz, SIZE, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    connect_peers(process, &connection, process->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        const struct range offered = make_remote_range(&mem, AT, LENGTH);
        struct range written;
        send_message(&connection, &offered, 1);
        receive_message(&connection, &written, 1);
        const DAT_VLEN offset = written.address - (DAT_VADDR)mem.addr;
        const DAT_LMR_TRIPLET changed = make_lmr_triplet(&mem, offset, written.length);
        if (needs_sync(process, 1))
            CHECK_DAT(dat_lmr_sync_rdma_write(process->ia, &changed, 1));
        verify_pattern(process, &mem, offset, written.length, round);
    }
    disconnect_peers(process, &connection);
    free_memory(&mem);
}

static void client(struct process *process) {
    write_offered_ranges(process, ROUNDS, SIZE, 1);
}

SYNC_PROGRAM(.name = "write_then_look", .num_syncs = 1, .server = server, .client = client)
