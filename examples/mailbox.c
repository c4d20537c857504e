/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A mailbox: memory that a peer writes (inbox) and reads (outbox) by RDMA, with the syncs that a
 * device behind the CPU's cache needs around it; or without one of them, to see what comes of it.
 *
 *     mailbox [--skip-sync read|write] ADDRESS     of an RDMA device of this machine
 *
 * Owner and peer are both in this process. docs/forgotten-sync.md leads through it.
 *
 *     cc mailbox.c -o mailbox $(pkg-config --cflags --libs coherdma libibverbs librdmacm)
 */
#include <arpa/inet.h>
#include <coherdma/coherdma.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LETTER = 256, PAGE = 4096 }; /* a letter shares no line of the cache, nor a page */
enum skipped_sync { NOTHING, READ, WRITE };

static void require(int ok, const char *operation) {
    if (!ok) {
        perror(operation);
        exit(2);
    }
}

/* error: what a sync call returned. */
static void check_sync(int error) {
    if (error != 0) {
        fprintf(stderr, "sync: %s\n", coherdma_error());
        exit(2);
    }
}

static struct ibv_mr *reg_letter(struct ibv_pd *pd, unsigned access) {
    char *memory = aligned_alloc(PAGE, PAGE);
    require(memory != NULL, "memory");
    memset(memory, 0, LETTER);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, LETTER, access);
    require(mr != NULL, "register memory");
    return mr;
}

static void create_qp(struct rdma_cm_id *id) {
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    require(rdma_create_qp(id, NULL, &attr) == 0, "queue pair");
}

/* Connects the peer to the owner, whose end it returns. */
static struct rdma_cm_id *connect_to(const char *address, struct rdma_cm_id **peer) {
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *listener = NULL, *owner = NULL;
    struct sockaddr_in any_port = {.sin_family = AF_INET};
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
    require(inet_pton(AF_INET, address, &any_port.sin_addr) == 1, "address");
    require(channel && rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0 &&
                rdma_create_id(channel, peer, NULL, RDMA_PS_TCP) == 0,
            "connection manager");
    require(rdma_bind_addr(listener, (struct sockaddr *)&any_port) == 0 &&
                rdma_listen(listener, 1) == 0,
            "listen");
    require(rdma_resolve_addr(*peer, NULL, rdma_get_local_addr(listener), 2000) == 0, "resolve");
    for (int established = 0; established < 2;) {
        struct rdma_cm_event *event;
        require(rdma_get_cm_event(channel, &event) == 0, "event");
        switch (event->event) {
        case RDMA_CM_EVENT_ADDR_RESOLVED:
            require(rdma_resolve_route(*peer, 2000) == 0, "route");
            break;
        case RDMA_CM_EVENT_ROUTE_RESOLVED:
            create_qp(*peer);
            require(rdma_connect(*peer, &param) == 0, "connect");
            break;
        case RDMA_CM_EVENT_CONNECT_REQUEST:
            owner = event->id;
            create_qp(owner);
            require(rdma_accept(owner, &param) == 0, "accept");
            break;
        case RDMA_CM_EVENT_ESTABLISHED:
            ++established;
            break;
        default:
            fprintf(stderr, "mailbox: %s\n", rdma_event_str(event->event));
            exit(2);
        }
        rdma_ack_cm_event(event);
    }
    return owner;
}

/* The peer's request: an RDMA Write of its letter into the owner's, or a Read of it. */
static void transfer(struct rdma_cm_id *peer, enum ibv_wr_opcode opcode, struct ibv_mr *local,
                     struct ibv_mr *remote) {
    struct ibv_sge sge = {(uintptr_t)local->addr, LETTER, local->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {(uintptr_t)remote->addr, remote->rkey}},
                       *bad_wr;
    struct ibv_wc wc;
    require(ibv_post_send(peer->qp, &wr, &bad_wr) == 0, "post");
    while (ibv_poll_cq(peer->send_cq, 1, &wc) == 0) {
    }
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "mailbox: %s\n", ibv_wc_status_str(wc.status));
        exit(2);
    }
}

static int is_wrong(int round, const char *receiver, const char *actual, const char *expected) {
    const int wrong = strcmp(actual, expected) != 0;
    if (wrong)
        printf("round %d: the %s got '%s', not '%s'\n", round, receiver, actual, expected);
    return wrong;
}

int main(int argc, char **argv) {
    enum skipped_sync skipped = NOTHING;
    if (argc == 4 && strcmp(argv[1], "--skip-sync") == 0)
        skipped = strcmp(argv[2], "read") == 0    ? READ
                  : strcmp(argv[2], "write") == 0 ? WRITE
                                                  : NOTHING;
    if (argc != 2 && skipped == NOTHING) {
        fprintf(stderr, "usage: mailbox [--skip-sync read|write] ADDRESS\n");
        return 2;
    }
    struct rdma_cm_id *peer, *owner = connect_to(argv[argc - 1], &peer);
    struct coherdma_device *device = coherdma_open_device(owner->verbs);
    if (device == NULL) {
        fprintf(stderr, "mailbox: %s\n", coherdma_error());
        return 2;
    }
    struct ibv_mr *inbox = reg_letter(owner->pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_mr *outbox = reg_letter(owner->pd, IBV_ACCESS_REMOTE_READ);
    struct ibv_mr *sent = reg_letter(peer->pd, IBV_ACCESS_LOCAL_WRITE);
    /* What a Read fills is written by the other end, to iWARP. */
    struct ibv_mr *reply = reg_letter(peer->pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    const struct coherdma_range inbox_range = {.addr = inbox->addr, .length = LETTER};
    const struct coherdma_range outbox_range = {.addr = outbox->addr, .length = LETTER};

    int num_wrong = 0;
    for (int round = 1; round <= 3; ++round) {
        char question[LETTER], answer[LETTER];
        snprintf(question, sizeof question, "question %d", round);
        snprintf(answer, sizeof answer, "answer %d", round);

        check_sync(coherdma_sync_before_write(device, &inbox_range, 1));
        strcpy(outbox->addr, answer);
        if (skipped != READ)
            check_sync(coherdma_sync_before_read(device, &outbox_range, 1));

        strcpy(sent->addr, question);
        transfer(peer, IBV_WR_RDMA_WRITE, sent, inbox);
        transfer(peer, IBV_WR_RDMA_READ, reply, outbox); /* done: so is the Write before it */

        if (skipped != WRITE)
            check_sync(coherdma_sync_after_write(device, &inbox_range, 1));
        num_wrong += is_wrong(round, "owner", inbox->addr, question);
        num_wrong += is_wrong(round, "peer", reply->addr, answer);
    }
    if (num_wrong == 0)
        printf("all letters have arrived\n");
    rdma_disconnect(peer);
    rdma_destroy_qp(peer);
    rdma_destroy_qp(owner);
    struct ibv_mr *all[] = {inbox, outbox, sent, reply};
    for (int each = 0; each < 4; ++each)
        ibv_dereg_mr(all[each]);
    coherdma_close_device(device);
    return num_wrong != 0;
}
