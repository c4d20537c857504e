/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes, flushes and waits for the completion, many times, over a connection of the process to
 * itself. For counting the instructions of measured_rounds().
 *
 *     write_and_flush ADDRESS ROUNDS     ADDRESS: of an RDMA device of this machine
 */
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char PORT[] = "7205";
enum { SIZE = 4096, WRITTEN = 64 };

static void check(int ret, const char *operation) {
    if (ret != 0) {
        fprintf(stderr, "write_and_flush: %s: %s\n", operation, rpma_err_2str(ret));
        exit(2);
    }
}

struct ends {
    struct rpma_conn *active, *passive;
};

static void expect_established(struct rpma_conn *conn) {
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    check(rpma_conn_next_event(conn, &event), "event");
    check(event == RPMA_CONN_ESTABLISHED ? 0 : RPMA_E_UNKNOWN, "connection");
}

static struct ends connect_to_self(struct rpma_peer *peer, const char *address) {
    struct rpma_ep *ep = NULL;
    struct rpma_conn_req *active = NULL, *passive = NULL;
    struct ends ends = {NULL, NULL};
    check(rpma_ep_listen(peer, address, PORT, &ep), "listen");
    check(rpma_conn_req_new(peer, address, PORT, NULL, &active), "request");
    check(rpma_conn_req_connect(&active, NULL, &ends.active), "connect");
    check(rpma_ep_next_conn_req(ep, NULL, &passive), "next request");
    check(rpma_conn_req_connect(&passive, NULL, &ends.passive), "accept");
    expect_established(ends.active);
    expect_established(ends.passive);
    check(rpma_ep_shutdown(&ep), "endpoint");
    return ends;
}

__attribute__((noinline)) static void measured_rounds(struct rpma_conn *conn, struct rpma_cq *cq,
                                                      struct rpma_mr_remote *remote,
                                                      struct rpma_mr_local *local, int num_rounds) {
    for (int i = 0; i < num_rounds; ++i) {
        struct ibv_wc wc;
        check(rpma_write(conn, remote, 0, local, 0, WRITTEN, RPMA_F_COMPLETION_ON_ERROR, NULL),
              "write");
        check(rpma_flush(conn, remote, 0, WRITTEN, RPMA_FLUSH_TYPE_VISIBILITY,
                         RPMA_F_COMPLETION_ALWAYS, NULL),
              "flush");
        check(rpma_cq_wait(cq), "wait");
        check(rpma_cq_get_wc(cq, 1, &wc, NULL), "completion");
        check(wc.status == IBV_WC_SUCCESS ? 0 : RPMA_E_UNKNOWN, ibv_wc_status_str(wc.status));
    }
}

int main(int argc, char **argv) {
    struct ibv_context *context = NULL;
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *source = NULL, *destination = NULL;
    struct rpma_mr_remote *remote = NULL;
    struct rpma_cq *cq = NULL;
    char *memory = aligned_alloc(SIZE, 2 * SIZE), descriptor[64];
    size_t descriptor_size = 0;
    if (argc != 3 || memory == NULL) {
        fprintf(stderr, "usage: write_and_flush ADDRESS ROUNDS\n");
        return 2;
    }
    memset(memory, 'a', SIZE);
    memset(memory + SIZE, 0, SIZE);
    check(rpma_utils_get_ibv_context(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL, &context), "device");
    check(rpma_peer_new(context, &peer), "peer");
    check(rpma_mr_reg(peer, memory, SIZE, RPMA_MR_USAGE_WRITE_SRC, &source), "source");
    check(rpma_mr_reg(peer, memory + SIZE, SIZE,
                      RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &destination),
          "destination");
    check(rpma_mr_get_descriptor_size(destination, &descriptor_size), "size of descriptor");
    check(rpma_mr_get_descriptor(destination, descriptor), "descriptor");
    check(rpma_mr_remote_from_descriptor(descriptor, descriptor_size, &remote), "remote memory");
    struct ends ends = connect_to_self(peer, argv[1]);
    check(rpma_conn_get_cq(ends.active, &cq), "CQ");
    measured_rounds(ends.active, cq, remote, source, atoi(argv[2]));
    check(memcmp(memory, memory + SIZE, WRITTEN) == 0 ? 0 : RPMA_E_UNKNOWN, "data");
    check(rpma_conn_disconnect(ends.active), "disconnect");
    check(rpma_conn_delete(&ends.active), "active end");
    check(rpma_conn_delete(&ends.passive), "passive end");
    check(rpma_mr_remote_delete(&remote), "remote memory");
    check(rpma_mr_dereg(&destination), "destination");
    check(rpma_mr_dereg(&source), "source");
    check(rpma_peer_delete(&peer), "peer");
    free(memory);
    return 0;
}
