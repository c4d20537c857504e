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

static void must(int right, const char *what) {
    if (!right) {
        perror(what);
        exit(2);
    }
}

static struct ibv_mr *letter(struct ibv_pd *domain, unsigned access) {
    char *memory = aligned_alloc(PAGE, PAGE);
    must(memory != NULL, "memory");
    memset(memory, 0, LETTER);
    struct ibv_mr *region = ibv_reg_mr(domain, memory, LETTER, access);
    must(region != NULL, "register memory");
    return region;
}

static void make_pair(struct rdma_cm_id *id) {
    struct ibv_qp_init_attr wanted = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    must(rdma_create_qp(id, NULL, &wanted) == 0, "queue pair");
}

/* Connects the peer to the owner, whose end it returns. */
static struct rdma_cm_id *connect_to(const char *address, struct rdma_cm_id **peer) {
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *listener = NULL, *owner = NULL;
    struct sockaddr_in any_port = {.sin_family = AF_INET};
    struct rdma_conn_param reads = {.responder_resources = 1, .initiator_depth = 1};
    must(inet_pton(AF_INET, address, &any_port.sin_addr) == 1, "address");
    must(channel && rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0 &&
             rdma_create_id(channel, peer, NULL, RDMA_PS_TCP) == 0,
         "connection manager");
    must(rdma_bind_addr(listener, (struct sockaddr *)&any_port) == 0 &&
             rdma_listen(listener, 1) == 0,
         "listen");
    must(rdma_resolve_addr(*peer, NULL, rdma_get_local_addr(listener), 2000) == 0, "resolve");
    for (int established = 0; established < 2;) {
        struct rdma_cm_event *event;
        must(rdma_get_cm_event(channel, &event) == 0, "event");
        switch (event->event) {
        case RDMA_CM_EVENT_ADDR_RESOLVED:
            must(rdma_resolve_route(*peer, 2000) == 0, "route");
            break;
        case RDMA_CM_EVENT_ROUTE_RESOLVED:
            make_pair(*peer);
            must(rdma_connect(*peer, &reads) == 0, "connect");
            break;
        case RDMA_CM_EVENT_CONNECT_REQUEST:
            owner = event->id;
            make_pair(owner);
            must(rdma_accept(owner, &reads) == 0, "accept");
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
static void transfer(struct rdma_cm_id *peer, enum ibv_wr_opcode what, struct ibv_mr *own,
                     struct ibv_mr *owners) {
    struct ibv_sge piece = {(uintptr_t)own->addr, LETTER, own->lkey};
    struct ibv_send_wr request = {.sg_list = &piece,
                                  .num_sge = 1,
                                  .opcode = what,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .wr.rdma = {(uintptr_t)owners->addr, owners->rkey}},
                       *bad;
    struct ibv_wc done;
    must(ibv_post_send(peer->qp, &request, &bad) == 0, "post");
    while (ibv_poll_cq(peer->send_cq, 1, &done) == 0) {
    }
    if (done.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "mailbox: %s\n", ibv_wc_status_str(done.status));
        exit(2);
    }
}

static int differs(int round, const char *who, const char *got, const char *wanted) {
    const int wrong = strcmp(got, wanted) != 0;
    if (wrong)
        printf("round %d: the %s got '%s', not '%s'\n", round, who, got, wanted);
    return wrong;
}

int main(int count, char **words) {
    enum skipped_sync skipped = NOTHING;
    if (count == 4 && strcmp(words[1], "--skip-sync") == 0)
        skipped = strcmp(words[2], "read") == 0    ? READ
                  : strcmp(words[2], "write") == 0 ? WRITE
                                                   : NOTHING;
    if (count != 2 && skipped == NOTHING) {
        fprintf(stderr, "usage: mailbox [--skip-sync read|write] ADDRESS\n");
        return 2;
    }
    struct rdma_cm_id *peer, *owner = connect_to(words[count - 1], &peer);
    struct coherdma_device *device = coherdma_open_device(owner->verbs);
    if (device == NULL) {
        fprintf(stderr, "mailbox: %s\n", coherdma_error());
        return 2;
    }
    struct ibv_mr *inbox = letter(owner->pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_mr *outbox = letter(owner->pd, IBV_ACCESS_REMOTE_READ);
    struct ibv_mr *sent = letter(peer->pd, IBV_ACCESS_LOCAL_WRITE);
    /* What a Read fills is written by the other end, to iWARP. */
    struct ibv_mr *received = letter(peer->pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    const struct ibv_sge in = {(uintptr_t)inbox->addr, LETTER, inbox->lkey};
    const struct ibv_sge out = {(uintptr_t)outbox->addr, LETTER, outbox->lkey};

    int wrong = 0;
    for (int round = 1; round <= 3; ++round) {
        char question[LETTER], answer[LETTER];
        snprintf(question, sizeof question, "question %d", round);
        snprintf(answer, sizeof answer, "answer %d", round);

        coherdma_sync_rdma_write(device, &in, 1); /* before the peer writes */
        strcpy(outbox->addr, answer);
        if (skipped != READ)
            coherdma_sync_rdma_read(device, &out, 1); /* before the peer reads */

        strcpy(sent->addr, question);
        transfer(peer, IBV_WR_RDMA_WRITE, sent, inbox);
        transfer(peer, IBV_WR_RDMA_READ, received, outbox); /* done: so is the Write before it */

        if (skipped != WRITE)
            coherdma_sync_rdma_write(device, &in, 1); /* after the peer has written */
        wrong += differs(round, "owner", inbox->addr, question);
        wrong += differs(round, "peer", received->addr, answer);
    }
    if (wrong == 0)
        printf("all letters have arrived\n");
    rdma_disconnect(peer);
    rdma_destroy_qp(peer);
    rdma_destroy_qp(owner);
    struct ibv_mr *all[] = {inbox, outbox, sent, received};
    for (int each = 0; each < 4; ++each)
        ibv_dereg_mr(all[each]);
    coherdma_close(device);
    return wrong != 0;
}
