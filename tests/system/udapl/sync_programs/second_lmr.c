/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat_lmr_create with DAT_MEM_TYPE_LMR: what a first LMR has, once more in another protection zone
 * and with other privileges. A peer reaches what was allowed, in the zone of its connection, and
 * nothing else: without remote privileges there is no RMR context, and a guessed one is refused.
 *
 *     cc second_lmr.c sync_program.c -ldat
 */
#include "sync_program.h"

enum { SIZE = 4 * PAGE, AT = 100, LENGTH = 5000, WRITTEN = 2 * PAGE };
enum { REFUSED = 4, ITS_OWN = 77 };
/* A guess of a context that there is none of is a Write: Linux' siw answers a Read of any memory of
 * the connection's zone, whatever its privileges. */
static const int is_write[REFUSED] = {0, 1, 1, 0};

/* The length is ignored, as the first one's counts. */
static struct memory create_second(struct process *process, const struct memory *first,
                                   DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS privileges) {
    struct memory mem = *first;
    DAT_REGION_DESCRIPTION region;
    DAT_VADDR address;
    region.for_lmr_handle = first->lmr;
    CHECK_DAT(dat_lmr_create(process->ia, DAT_MEM_TYPE_LMR, region, 1, pz, privileges,
                             VIRTUAL_ADDRESSES & mem.lmr, &mem.local, &mem.remote, &mem.length,
                             &address));
    require(mem.length == first->length && address == (DAT_VADDR)first->addr, "of the same memory");
    return mem;
}

/* Either LMR's context will do for a sync. */
static void transfer(struct process *process, const struct memory *first,
                     const struct memory *second) {
    const DAT_LMR_TRIPLET modified = make_lmr_triplet(first, AT, LENGTH);
    const DAT_LMR_TRIPLET written = make_lmr_triplet(second, WRITTEN, LENGTH);
    const struct range ranges_to_send[] = {make_remote_range(second, AT, LENGTH),
                                           make_remote_range(second, WRITTEN, LENGTH)};
    struct connection connection;
    connect_peers(process, &connection, process->pz);
    fill_pattern(first, AT, LENGTH, 1);
    if (needs_sync(process, 1))
        CHECK_DAT(dat_lmr_sync_rdma_read(process->ia, &modified, 1));
    send_message(&connection, ranges_to_send, 2);
    receive_message(&connection, NULL, 0);
    if (needs_sync(process, 2))
        CHECK_DAT(dat_lmr_sync_rdma_write(process->ia, &written, 1));
    verify_pattern(process, first, WRITTEN, LENGTH, 2);
    disconnect_peers(process, &connection);
}

/* Each attempt costs its connection. */
static void expect_refusals(struct process *process, const struct memory *first,
                            DAT_PZ_HANDLE other) {
    struct memory local = create_second(process, first, process->pz, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    struct memory readable =
        create_second(process, first, process->pz, DAT_MEM_PRIV_REMOTE_READ_FLAG);
    struct memory elsewhere = create_second(process, first, other, DAT_MEM_PRIV_REMOTE_READ_FLAG);
    const DAT_UINT64 contexts[REFUSED] = {0, local.local, readable.remote, elsewhere.remote};
    require(local.remote == 0, "no context without a remote privilege, of a second LMR");
    for (int each = 0; each < REFUSED; ++each) {
        struct connection connection;
        struct range name = make_remote_range(first, AT, LENGTH);
        name.context = contexts[each];
        connect_peers(process, &connection, process->pz);
        send_last_message(&connection, &name, 1);
        disconnect_broken(process, &connection);
        verify_pattern(process, first, AT, LENGTH, 1); /* as it was */
    }
    CHECK_DAT(dat_lmr_free(local.lmr));
    CHECK_DAT(dat_lmr_free(readable.lmr));
    CHECK_DAT(dat_lmr_free(elsewhere.lmr));
}

static void server(struct process *process) {
    DAT_PZ_HANDLE other;
    struct memory first, second;
    CHECK_DAT(dat_pz_create(process->ia, &other));
    register_memory(process, &first, other, SIZE, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    require(first.remote == 0, "no context without a remote privilege");
    second = create_second(process, &first, process->pz,
                           DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    require(second.remote != 0, "a context with remote privileges");
    transfer(process, &first, &second);
    CHECK_DAT(dat_lmr_free(second.lmr));
    expect_refusals(process, &first, other);
    free_memory(&first);
    CHECK_DAT(dat_pz_free(other));
}

/* An RDMA Write to iWARP ends when it is on its way; a Read knows. */
static void expect_refusal(struct process *process, const struct memory *mem, int writes) {
    struct connection connection;
    struct range name;
    connect_peers(process, &connection, process->pz);
    receive_message(&connection, &name, 1);
    if (writes)
        try_write(&connection, make_lmr_triplet(mem, 0, LENGTH), name);
    else
        require(try_read(&connection, make_lmr_triplet(mem, 0, LENGTH), name) != DAT_DTO_SUCCESS,
                "that the Read is refused");
    disconnect_broken(process, &connection);
    verify_pattern(process, mem, 0, LENGTH, ITS_OWN);
}

static void client(struct process *process) {
    struct memory mem;
    struct connection connection;
    struct range ranges_to_send[2];
    register_memory(process, &mem, process->pz, SIZE, process->read_sink_flags);
    connect_peers(process, &connection, process->pz);
    receive_message(&connection, ranges_to_send, 2);
    rdma_read(&connection, make_lmr_triplet(&mem, 0, LENGTH), ranges_to_send[0]);
    verify_pattern(process, &mem, 0, LENGTH, 1);
    fill_pattern(&mem, 0, LENGTH, 2);
    rdma_write(&connection, make_lmr_triplet(&mem, 0, LENGTH), ranges_to_send[1]);
    send_message(&connection, NULL, 0);
    disconnect_peers(process, &connection);
    fill_pattern(&mem, 0, LENGTH, ITS_OWN);
    for (int each = 0; each < REFUSED; ++each)
        expect_refusal(process, &mem, is_write[each]);
    free_memory(&mem);
}

SYNC_PROGRAM(.name = "second_lmr", .num_syncs = 2, .server = server, .client = client)
