/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A courier: sends four messages by a reliable connection, from a thread to another one. --early
 * destroys its QP before the last send has completed; --hasty writes the next message into the
 * buffer of the last one while that is being sent; --peek reads a message while it may arrive.
 *
 *     courier [--early|--hasty|--peek] ADDRESS     of an RDMA device of this machine
 *
 * docs/check.md leads through it.
 *
 *     cc courier.c -o courier -pthread $(pkg-config --cflags --libs librdmacm libibverbs)
 */
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUM_MESSAGES = 4, MESSAGE = 64, WAIT_MS = 1000 };

struct courier {
    const char *address;
    int early, hasty, peek;
};

static void require(int ok, const char *operation) {
    if (!ok) {
        perror(operation);
        exit(2);
    }
}

static struct rdma_cm_id *create_endpoint(const char *address, int flags) {
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *info;
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = NUM_MESSAGES,
                                            .max_recv_wr = NUM_MESSAGES,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1},
                                    .sq_sig_all = 1};
    struct rdma_cm_id *id;
    require(rdma_getaddrinfo(address, "7471", &hints, &info) == 0, "address");
    require(rdma_create_ep(&id, info, NULL, &attr) == 0, "endpoint");
    rdma_freeaddrinfo(info);
    return id;
}

static void await_send(struct rdma_cm_id *id) {
    struct ibv_wc wc;
    require(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "completion");
}

static void *send_messages(void *argument) {
    const struct courier *courier = argument;
    struct rdma_cm_id *id = create_endpoint(courier->address, 0);
    static char messages[NUM_MESSAGES][MESSAGE];
    struct ibv_mr *mr = rdma_reg_msgs(id, messages, sizeof messages);
    require(mr != NULL, "register memory");
    require(rdma_connect(id, NULL) == 0, "connect");
    for (int i = 0; i < NUM_MESSAGES; ++i) {
        char *message = messages[courier->hasty ? 0 : i];
        snprintf(message, MESSAGE, "message %d", i + 1);
        require(rdma_post_send(id, NULL, message, MESSAGE, mr, 0) == 0, "send");
        if (!courier->hasty && !(courier->early && i + 1 == NUM_MESSAGES))
            await_send(id);
    }
    for (int i = 0; courier->hasty && i < NUM_MESSAGES; ++i)
        await_send(id);
    rdma_destroy_qp(id);
    rdma_dereg_mr(mr);
    rdma_destroy_id(id);
    return NULL;
}

/* Waits for the messages, but no longer than WAIT_MS; returns how many have arrived. */
static int receive_messages(struct rdma_cm_id *id, int peek) {
    static char messages[NUM_MESSAGES][MESSAGE];
    struct ibv_mr *mr = rdma_reg_msgs(id, messages, sizeof messages);
    struct ibv_wc wc;
    int num_arrived = 0;
    require(mr != NULL, "register memory");
    for (int i = 0; i < NUM_MESSAGES; ++i)
        require(rdma_post_recv(id, NULL, messages[i], MESSAGE, mr) == 0, "receive");
    require(rdma_accept(id, NULL) == 0, "accept");
    for (int ms = 0; num_arrived < NUM_MESSAGES && ms < WAIT_MS; ++ms) {
        if (peek && messages[num_arrived][0] != 0)
            printf("message %d begins\n", num_arrived + 1);
        while (ibv_poll_cq(id->recv_cq, 1, &wc) == 1)
            num_arrived += wc.status == IBV_WC_SUCCESS;
        poll(NULL, 0, 1);
    }
    rdma_destroy_qp(id);
    rdma_dereg_mr(mr);
    return num_arrived;
}

int main(int argc, char **argv) {
    const char *option = argc == 3 ? argv[1] : "";
    struct courier courier = {.early = strcmp(option, "--early") == 0,
                              .hasty = strcmp(option, "--hasty") == 0,
                              .peek = strcmp(option, "--peek") == 0};
    struct rdma_cm_id *listener, *id;
    pthread_t thread;
    if (argc != 2 + courier.early + courier.hasty + courier.peek) {
        fprintf(stderr, "usage: courier [--early|--hasty|--peek] ADDRESS\n");
        return 2;
    }
    courier.address = argv[argc - 1];
    listener = create_endpoint(courier.address, RAI_PASSIVE);
    require(rdma_listen(listener, 1) == 0, "listen");
    require(pthread_create(&thread, NULL, send_messages, &courier) == 0, "thread");
    require(rdma_get_request(listener, &id) == 0, "request");
    printf("%d of %d messages have arrived\n", receive_messages(id, courier.peek), NUM_MESSAGES);
    pthread_join(thread, NULL);
    rdma_destroy_ep(id);
    rdma_destroy_ep(listener);
    return 0;
}
