/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A logbook: a writer appends records to the memory of a keeper by librpma, so that the keeper
 * never sees a part of a record: it reads the length, writes the record, flushes it, and then sets
 * the new length atomically.
 *
 *     logbook ADDRESS [RECORD...]     ADDRESS: of an RDMA device of this machine
 *
 * The writer is a child process of the keeper. docs/librpma.md leads through it.
 *
 *     cc logbook.c -o logbook $(pkg-config --cflags --libs librpma)
 */
#include <inttypes.h>
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, MAX_TEXT = 2048 };
static const char PORT[] = "7204";

/* In the keeper's memory. */
struct logbook {
    uint64_t length; /* of the text that is complete */
    char text[MAX_TEXT];
};

static void check(int ret, const char *operation) {
    if (ret != 0) {
        fprintf(stderr, "logbook: %s: %s\n", operation, rpma_err_2str(ret));
        exit(2);
    }
}

static struct rpma_peer *open_peer(const char *address, enum rpma_util_ibv_context_type type) {
    struct ibv_context *context = NULL;
    struct rpma_peer *peer = NULL;
    check(rpma_utils_get_ibv_context(address, type, &context), address);
    check(rpma_peer_new(context, &peer), "peer");
    return peer;
}

static void *new_page(void) {
    void *memory = aligned_alloc(PAGE, PAGE);
    check(memory != NULL ? 0 : RPMA_E_NOMEM, "memory");
    memset(memory, 0, PAGE);
    return memory;
}

static void expect_event(struct rpma_conn *conn, enum rpma_conn_event expected) {
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    check(rpma_conn_next_event(conn, &event), "event");
    if (event != expected) {
        fprintf(stderr, "logbook: %s\n", rpma_utils_conn_event_2str(event));
        exit(2);
    }
}

/* Waits for the completion of the last operation, and so of those before it. */
static void wait_completion(struct rpma_conn *conn) {
    struct rpma_cq *cq = NULL;
    struct ibv_wc wc;
    int ret;
    check(rpma_conn_get_cq(conn, &cq), "CQ");
    do {
        check(rpma_cq_wait(cq), "completion");
        ret = rpma_cq_get_wc(cq, 1, &wc, NULL);
    } while (ret == RPMA_E_NO_COMPLETION);
    check(ret, "completion");
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "logbook: %s\n", ibv_wc_status_str(wc.status));
        exit(2);
    }
}

/* Offers the logbook to one writer, and returns when it has disconnected. */
static void keep(const char *address, struct logbook *logbook, struct rpma_peer *peer,
                 int ready_fd) {
    struct rpma_mr_local *mr = NULL;
    struct rpma_ep *ep = NULL;
    struct rpma_conn_req *request = NULL;
    struct rpma_conn *conn = NULL;
    char descriptor[64];
    size_t descriptor_size = 0;
    check(rpma_mr_reg(peer, logbook, sizeof *logbook,
                      RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST |
                          RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
                      &mr),
          "memory region");
    logbook->length = (uint64_t)snprintf(logbook->text, MAX_TEXT, "logbook opened\n");
    check(rpma_mr_get_descriptor_size(mr, &descriptor_size), "descriptor");
    check(descriptor_size <= sizeof descriptor ? 0 : RPMA_E_NOMEM, "descriptor");
    check(rpma_mr_get_descriptor(mr, descriptor), "descriptor");
    const struct rpma_conn_private_data data = {descriptor, (uint8_t)descriptor_size};
    check(rpma_ep_listen(peer, address, PORT, &ep), "listen");
    check(write(ready_fd, "", 1) == 1 ? 0 : RPMA_E_UNKNOWN, "pipe");
    check(rpma_ep_next_conn_req(ep, NULL, &request), "request");
    check(rpma_conn_req_connect(&request, &data, &conn), "accept");
    expect_event(conn, RPMA_CONN_ESTABLISHED);
    expect_event(conn, RPMA_CONN_CLOSED);
    check(rpma_conn_disconnect(conn), "disconnect");
    check(rpma_conn_delete(&conn), "connection");
    check(rpma_ep_shutdown(&ep), "endpoint");
    check(rpma_mr_dereg(&mr), "memory region");
}

static void append_records(const char *address, char **records, int num_records) {
    struct rpma_peer *peer = open_peer(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
    struct rpma_conn_req *request = NULL;
    struct rpma_conn *conn = NULL;
    struct rpma_conn_private_data data = {NULL, 0};
    struct rpma_mr_local *local = NULL;
    struct rpma_mr_remote *remote = NULL;
    char *record = new_page();
    uint64_t length = 0;
    check(rpma_mr_reg(peer, record, PAGE, RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC, &local),
          "memory region");
    check(rpma_conn_req_new(peer, address, PORT, NULL, &request), "request");
    check(rpma_conn_req_connect(&request, NULL, &conn), "connect");
    expect_event(conn, RPMA_CONN_ESTABLISHED);
    check(rpma_conn_get_private_data(conn, &data), "private data");
    check(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote), "descriptor");
    check(rpma_read(conn, local, 0, remote, offsetof(struct logbook, length), sizeof length,
                    RPMA_F_COMPLETION_ALWAYS, NULL),
          "read");
    wait_completion(conn);
    memcpy(&length, record, sizeof length);
    for (int i = 0; i < num_records; ++i) {
        const size_t offset = offsetof(struct logbook, text) + length;
        const int size = snprintf(record, PAGE, "%s\n", records[i]);
        if (size < 0 || length + (uint64_t)size > MAX_TEXT) {
            fprintf(stderr, "logbook: full after %d records\n", i);
            break;
        }
        length += (uint64_t)size;
        check(rpma_write(conn, remote, offset, local, 0, (size_t)size, RPMA_F_COMPLETION_ON_ERROR,
                         NULL),
              "write");
        check(rpma_flush(conn, remote, offset, (size_t)size, RPMA_FLUSH_TYPE_VISIBILITY,
                         RPMA_F_COMPLETION_ON_ERROR, NULL),
              "flush");
        check(rpma_atomic_write(conn, remote, offsetof(struct logbook, length),
                                (const char *)&length, RPMA_F_COMPLETION_ALWAYS, NULL),
              "atomic write");
        wait_completion(conn);
    }
    check(rpma_mr_remote_delete(&remote), "remote memory");
    check(rpma_conn_disconnect(conn), "disconnect");
    expect_event(conn, RPMA_CONN_CLOSED);
    check(rpma_conn_delete(&conn), "connection");
    check(rpma_mr_dereg(&local), "memory region");
    check(rpma_peer_delete(&peer), "peer");
    free(record);
}

int main(int argc, char **argv) {
    static char first[] = "casting off", second[] = "wind from the west", third[] = "in port";
    static char *default_records[] = {first, second, third};
    int ready[2], status = 0;
    char byte;
    if (argc < 2 || argv[1][0] == '-') {
        fprintf(stderr, "usage: logbook ADDRESS [RECORD...]\n");
        return 2;
    }
    check(pipe(ready) == 0 ? 0 : RPMA_E_UNKNOWN, "pipe");
    const pid_t writer = fork();
    check(writer >= 0 ? 0 : RPMA_E_UNKNOWN, "fork");
    if (writer == 0) {
        close(ready[1]);
        if (read(ready[0], &byte, 1) != 1) /* The keeper has failed. */
            return 2;
        append_records(argv[1], argc > 2 ? argv + 2 : default_records, argc > 2 ? argc - 2 : 3);
        return 0;
    }
    struct rpma_peer *peer = open_peer(argv[1], RPMA_UTIL_IBV_CONTEXT_LOCAL);
    struct logbook *logbook = new_page();
    keep(argv[1], logbook, peer, ready[1]);
    check(rpma_peer_delete(&peer), "peer");
    printf("%" PRIu64 " bytes:\n%.*s", logbook->length, (int)logbook->length, logbook->text);
    free(logbook);
    return waitpid(writer, &status, 0) == writer && status == 0 ? 0 : 2;
}
