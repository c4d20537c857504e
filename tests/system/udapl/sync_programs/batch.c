/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One call of dat_lmr_sync_rdma_read, and one of dat_lmr_sync_rdma_write, for several ranges of
 * several RDMA operations: in three LMRs, of two protection zones, each with a connection of its
 * own.
 *
 *     cc batch.c sync_program.c -ldat
 */
#include "sync_program.h"

enum { ROUNDS = 3, REGIONS = 3, RANGES = 5, SIZE = 4 * PAGE, WRITTEN = 2 * PAGE };

/* The second region has two ranges; the third is of the other zone. */
static const struct {
    int region;
    DAT_VLEN offset, length;
} ranges[RANGES] = {{0, 0, 1}, {1, 60, 1000}, {1, 3000, 500}, {1, 4000, 97}, {2, 100, 4000}};
enum { FIRST_OF_OTHER = 4 };

/* What is written lies apart from what is modified and read. */
static void list(DAT_LMR_TRIPLET *out, const struct memory *regions, DAT_VLEN offset) {
    for (int each = 0; each < RANGES; ++each)
        out[each] = make_lmr_triplet(&regions[ranges[each].region], offset + ranges[each].offset,
                                     ranges[each].length);
}
static void ranges_to_send(struct range *out, const struct memory *regions, DAT_VLEN offset) {
    for (int each = 0; each < RANGES; ++each)
        out[each] = make_remote_range(&regions[ranges[each].region], offset + ranges[each].offset,
                                      ranges[each].length);
}

static void server(struct process *process) {
    const DAT_MEM_PRIV_FLAGS both = DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
    DAT_PZ_HANDLE other;
    struct memory regions[REGIONS];
    struct connection connection, second;
    DAT_LMR_TRIPLET modified[RANGES], written[RANGES];
    struct range to_read[RANGES], to_write[RANGES];
    CHECK_DAT(dat_pz_create(process->ia, &other));
    for (int each = 0; each < REGIONS; ++each)
        register_memory(process, &regions[each], each < 2 ? process->pz : other, SIZE, both);
    list(modified, regions, 0);
    list(written, regions, WRITTEN);
    ranges_to_send(to_read, regions, 0);
    ranges_to_send(to_write, regions, WRITTEN);
    connect_peers(process, &connection, process->pz);
    connect_peers(process, &second, other);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        for (int each = 0; each < RANGES; ++each)
            fill_pattern(&regions[ranges[each].region], ranges[each].offset, ranges[each].length,
                         round);
        if (needs_sync(process, 1))
            CHECK_DAT(dat_lmr_sync_rdma_read(process->ia, modified, RANGES));
        send_message(&connection, to_read, FIRST_OF_OTHER);
        send_message(&second, to_read + FIRST_OF_OTHER, RANGES - FIRST_OF_OTHER);
        send_message(&connection, to_write, FIRST_OF_OTHER);
        send_message(&second, to_write + FIRST_OF_OTHER, RANGES - FIRST_OF_OTHER);
        receive_message(&connection, NULL, 0);
        receive_message(&second, NULL, 0);
        if (needs_sync(process, 2))
            CHECK_DAT(dat_lmr_sync_rdma_write(process->ia, written, RANGES));
        for (int each = 0; each < RANGES; ++each)
            verify_pattern(process, &regions[ranges[each].region], WRITTEN + ranges[each].offset,
                           ranges[each].length, round);
    }
    disconnect_peers(process, &second);
    disconnect_peers(process, &connection);
    for (int each = 0; each < REGIONS; ++each)
        free_memory(&regions[each]);
    CHECK_DAT(dat_pz_free(other));
}

static void client(struct process *process) {
    struct memory copy, source;
    struct connection connection, second;
    register_memory(process, &copy, process->pz, SIZE, process->read_sink_flags);
    register_memory(process, &source, process->pz, SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    connect_peers(process, &connection, process->pz);
    /* Ours need not be of two zones: what a zone keeps apart is on the server's side. */
    connect_peers(process, &second, process->pz);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        struct range all[RANGES];
        receive_message(&connection, all, FIRST_OF_OTHER);
        receive_message(&second, all + FIRST_OF_OTHER, RANGES - FIRST_OF_OTHER);
        for (int each = 0; each < RANGES; ++each) {
            struct connection *const conn = each < FIRST_OF_OTHER ? &connection : &second;
            rdma_read(conn, make_lmr_triplet(&copy, 0, all[each].length), all[each]);
            verify_pattern(process, &copy, 0, all[each].length, round);
        }
        receive_message(&connection, all, FIRST_OF_OTHER);
        receive_message(&second, all + FIRST_OF_OTHER, RANGES - FIRST_OF_OTHER);
        for (int each = 0; each < RANGES; ++each) {
            struct connection *const conn = each < FIRST_OF_OTHER ? &connection : &second;
            fill_pattern(&source, 0, all[each].length, round);
            rdma_write(conn, make_lmr_triplet(&source, 0, all[each].length), all[each]);
        }
        send_message(&connection, NULL, 0);
        send_message(&second, NULL, 0);
    }
    disconnect_peers(process, &second);
    disconnect_peers(process, &connection);
    free_memory(&source);
    free_memory(&copy);
}

SYNC_PROGRAM(.name = "batch", .num_syncs = 2, .server = server, .client = client)
