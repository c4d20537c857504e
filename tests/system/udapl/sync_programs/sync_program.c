/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#define _DEFAULT_SOURCE
#include "sync_program.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RIGHT, WRONG, MISUSE }; /* exit status */
enum { MESSAGES = 4, EVENTS = 32 };
enum { LIMIT_SECONDS = 300, WRITES_PER_SECOND = 100 }; /* ends a hang */
static const DAT_TIMEOUT timeout_us = 120 * 1000 * 1000;
static const char *side = "";

void fail(const char *operation, const char *reason) {
    fprintf(stderr, "%s: %s: %s\n", side, operation, reason);
    exit(WRONG);
}
void require(int ok, const char *operation) {
    if (!ok)
        fail(operation, "is not so");
}
void check_dat(DAT_RETURN status, const char *call) {
    const char *type, *subtype;
    char why[200];
    if (status == DAT_SUCCESS)
        return;
    dat_strerror(status, &type, &subtype);
    snprintf(why, sizeof why, "%s %s", type, subtype);
    fail(call, why);
}

/* -- memory --------------------------------------------------------------------------------- */

void map_pages(struct memory *mem, DAT_VLEN length) {
    memset(mem, 0, sizeof *mem);
    mem->length = length;
    mem->addr = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(mem->addr != MAP_FAILED, "memory");
}
void register_memory(struct process *process, struct memory *mem, DAT_PZ_HANDLE pz, DAT_VLEN length,
                     DAT_MEM_PRIV_FLAGS privileges) {
    DAT_REGION_DESCRIPTION region;
    DAT_VLEN registered;
    DAT_VADDR address;
    map_pages(mem, length);
    region.for_va = mem->addr;
    CHECK_DAT(dat_lmr_create(process->ia, DAT_MEM_TYPE_VIRTUAL, region, length, pz, privileges,
                             VIRTUAL_ADDRESSES & mem->lmr, &mem->local, &mem->remote, &registered,
                             &address));
    require(registered >= length && address <= (DAT_VADDR)mem->addr, "all of it is registered");
}
void free_memory(struct memory *mem) {
    CHECK_DAT(dat_lmr_free(mem->lmr));
    munmap(mem->addr, mem->length);
}

DAT_LMR_TRIPLET make_lmr_triplet(const struct memory *mem, DAT_VLEN offset, DAT_VLEN length) {
    return (DAT_LMR_TRIPLET){.virtual_address = (DAT_VADDR)(mem->addr + offset),
                             .segment_length = (segment_length)length,
                             .lmr_context = mem->local};
}
struct range make_remote_range(const struct memory *mem, DAT_VLEN offset, DAT_VLEN length) {
    return (struct range){(DAT_UINT64)(mem->addr + offset), length, mem->remote};
}

static unsigned char pattern_byte(unsigned round, DAT_VLEN i) {
    return (unsigned char)(round * 37 + i * 7 + i / 251 + 1);
}
void fill_pattern(const struct memory *mem, DAT_VLEN offset, DAT_VLEN length, unsigned round) {
    for (DAT_VLEN i = 0; i < length; ++i)
        mem->addr[offset + i] = pattern_byte(round, i);
}
int verify_pattern(struct process *process, const struct memory *mem, DAT_VLEN offset,
                   DAT_VLEN length, unsigned round) {
    const unsigned char *const addr = mem->addr + offset;
    for (DAT_VLEN i = 0; i < length; ++i)
        if (addr[i] != pattern_byte(round, i)) {
            fprintf(stderr, "%s: round %u: byte %llu is %#x, not %#x\n", side, round,
                    (unsigned long long)i, addr[i], pattern_byte(round, i));
            process->data_wrong = 1;
            return 0;
        }
    return 1;
}

/* -- connections ---------------------------------------------------------------------------- */

struct message {
    DAT_UINT64 count;
    struct range ranges[MAX_RANGES];
};

static DAT_EVENT wait_event(DAT_EVD_HANDLE evd) {
    DAT_EVENT event;
    DAT_COUNT remaining;
    CHECK_DAT(dat_evd_wait(evd, timeout_us, 1, &event, &remaining));
    return event;
}
static DAT_EVENT expect_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected,
                              const char *operation) {
    const DAT_EVENT event = wait_event(evd);
    char reason[40];
    snprintf(reason, sizeof reason, "event %#x", (unsigned)event.event_number);
    if (event.event_number != expected)
        fail(operation, reason);
    return event;
}

static DAT_DTO_COMPLETION_STATUS wait_dto_status(DAT_EVD_HANDLE evd) {
    return expect_event(evd, DAT_DTO_COMPLETION_EVENT, "a completion")
        .event_data.dto_completion_event_data.status;
}
static void expect_success(DAT_DTO_COMPLETION_STATUS status, const char *operation) {
    char reason[40];
    snprintf(reason, sizeof reason, "status %d", (int)status);
    if (status != DAT_DTO_SUCCESS)
        fail(operation, reason);
}

static const DAT_DTO_COOKIE no_cookie = {.as_64 = 0};

static void post_receive(struct connection *connection, unsigned index) {
    DAT_LMR_TRIPLET room = make_lmr_triplet(&connection->messages, index * sizeof(struct message),
                                            sizeof(struct message));
    CHECK_DAT(dat_ep_post_recv(connection->ep, 1, &room, no_cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

static void free_connection(struct connection *connection) {
    CHECK_DAT(dat_ep_free(connection->ep));
    CHECK_DAT(dat_evd_free(connection->request_evd));
    CHECK_DAT(dat_evd_free(connection->recv_evd));
    CHECK_DAT(dat_evd_free(connection->connection_evd));
    free_memory(&connection->messages);
}

static void post_message(struct connection *connection, const struct range *ranges, unsigned count,
                         DAT_COMPLETION_FLAGS flags) {
    struct message *const message = (struct message *)(void *)connection->messages.addr + MESSAGES;
    DAT_LMR_TRIPLET all =
        make_lmr_triplet(&connection->messages, MESSAGES * sizeof *message, sizeof *message);
    message->count = count;
    if (count > 0)
        memcpy(message->ranges, ranges, count * sizeof *ranges);
    CHECK_DAT(dat_ep_post_send(connection->ep, 1, &all, no_cookie, flags));
}

void send_message(struct connection *connection, const struct range *ranges, unsigned count) {
    post_message(connection, ranges, count, DAT_COMPLETION_DEFAULT_FLAG);
    expect_success(wait_dto_status(connection->request_evd), "a Send");
}

void send_last_message(struct connection *connection, const struct range *ranges, unsigned count) {
    post_message(connection, ranges, count, DAT_COMPLETION_SUPPRESS_FLAG);
}

void receive_message(struct connection *connection, struct range *ranges, unsigned count) {
    const struct message *const message =
        (const struct message *)(void *)connection->messages.addr + connection->next;
    expect_success(wait_dto_status(connection->recv_evd), "a message");
    require(message->count == count, "as many ranges as expected");
    if (count > 0)
        memcpy(ranges, message->ranges, count * sizeof *ranges);
    post_receive(connection, connection->next);
    connection->next = (connection->next + 1) % MESSAGES;
}

void connect_peers(struct process *process, struct connection *connection, DAT_PZ_HANDLE pz) {
    memset(connection, 0, sizeof *connection);
    register_memory(process, &connection->messages, pz, (MESSAGES + 1) * sizeof(struct message),
                    DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    CHECK_DAT(dat_evd_create(process->ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
                             &connection->request_evd));
    CHECK_DAT(dat_evd_create(process->ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
                             &connection->recv_evd));
    CHECK_DAT(dat_evd_create(process->ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
                             &connection->connection_evd));
    CHECK_DAT(dat_ep_create(process->ia, pz, connection->recv_evd, connection->request_evd,
                            connection->connection_evd, NULL, &connection->ep));
    for (unsigned each = 0; each < MESSAGES; ++each)
        post_receive(connection, each);
    if (process->psp) {
        const DAT_EVENT event =
            expect_event(process->cr_evd, DAT_CONNECTION_REQUEST_EVENT, "a connection request");
        CHECK_DAT(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, connection->ep, 0,
                                NULL));
    } else {
        CHECK_DAT(dat_ep_connect(connection->ep, process->ia_address, process->conn_qual,
                                 timeout_us, 0, NULL, DAT_QOS_BEST_EFFORT,
                                 DAT_CONNECT_DEFAULT_FLAG));
    }
    expect_event(connection->connection_evd, DAT_CONNECTION_EVENT_ESTABLISHED, "the connection");
    /* iWARP demands that the client sends first. */
    if (process->psp)
        receive_message(connection, NULL, 0);
    else
        send_message(connection, NULL, 0);
}

void disconnect_peers(struct process *process, struct connection *connection) {
    if (process->psp) {
        receive_message(connection, NULL, 0);
        CHECK_DAT(dat_ep_disconnect(connection->ep, DAT_CLOSE_GRACEFUL_FLAG));
    } else {
        send_last_message(connection, NULL, 0);
    }
    expect_event(connection->connection_evd, DAT_CONNECTION_EVENT_DISCONNECTED,
                 "the end of the connection");
    free_connection(connection);
}
void disconnect_broken(struct process *process, struct connection *connection) {
    DAT_EVENT_NUMBER event_number;
    if (!process->psp)
        dat_ep_disconnect(connection->ep, DAT_CLOSE_ABRUPT_FLAG); /* it may be broken already */
    event_number = wait_event(connection->connection_evd).event_number;
    require(event_number == DAT_CONNECTION_EVENT_BROKEN ||
                event_number == DAT_CONNECTION_EVENT_DISCONNECTED,
            "that the connection breaks");
    free_connection(connection);
}

static DAT_RMR_TRIPLET rmr_triplet(struct range name) {
    return (DAT_RMR_TRIPLET){.REMOTE_ADDRESS = name.address,
                             .segment_length = (segment_length)name.length,
                             .rmr_context = (DAT_RMR_CONTEXT)name.context};
}
DAT_DTO_COMPLETION_STATUS wait_send_status(struct connection *connection) {
    return wait_dto_status(connection->request_evd);
}
DAT_DTO_COMPLETION_STATUS try_read(struct connection *connection, DAT_LMR_TRIPLET dst,
                                   struct range src) {
    const DAT_RMR_TRIPLET remote = rmr_triplet(src);
    CHECK_DAT(dat_ep_post_rdma_read(connection->ep, 1, &dst, no_cookie, &remote,
                                    DAT_COMPLETION_DEFAULT_FLAG));
    return wait_dto_status(connection->request_evd);
}
DAT_DTO_COMPLETION_STATUS try_write(struct connection *connection, DAT_LMR_TRIPLET src,
                                    struct range dst) {
    const DAT_RMR_TRIPLET remote = rmr_triplet(dst);
    CHECK_DAT(dat_ep_post_rdma_write(connection->ep, 1, &src, no_cookie, &remote,
                                     DAT_COMPLETION_DEFAULT_FLAG));
    return wait_dto_status(connection->request_evd);
}
void rdma_read(struct connection *connection, DAT_LMR_TRIPLET dst, struct range src) {
    expect_success(try_read(connection, dst, src), "an RDMA Read");
}
void rdma_write(struct connection *connection, DAT_LMR_TRIPLET src, struct range dst) {
    expect_success(try_write(connection, src, dst), "an RDMA Write");
}

void write_offered_ranges(struct process *process, unsigned rounds, DAT_VLEN size, int named) {
    struct memory source;
    struct connection connection;
    register_memory(process, &source, process->pz, size, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    connect_peers(process, &connection, process->pz);
    for (unsigned round = 1; round <= rounds; ++round) {
        struct range offered;
        receive_message(&connection, &offered, 1);
        fill_pattern(&source, 0, offered.length, round);
        rdma_write(&connection, make_lmr_triplet(&source, 0, offered.length), offered);
        send_message(&connection, named ? &offered : NULL, named ? 1 : 0);
    }
    disconnect_peers(process, &connection);
    free_memory(&source);
}

/* -- two processes -------------------------------------------------------------------------- */

int needs_sync(const struct process *process, int sync_num) {
    return process->lmr_sync_req == DAT_TRUE && process->skipped_sync != sync_num;
}

long wait_seconds(const struct process *process, int sync_num) {
    return process->skipped_sync == sync_num ? 1 : LIMIT_SECONDS / 2;
}

static void open_ia(struct process *process, char *name) {
    DAT_EVD_HANDLE errors = DAT_HANDLE_NULL;
    DAT_IA_ATTR ia;
    DAT_PROVIDER_ATTR provider;
    CHECK_DAT(dat_ia_open(name, EVENTS, &errors, &process->ia));
    CHECK_DAT(
        dat_ia_query(process->ia, NULL, DAT_IA_FIELD_ALL, &ia, DAT_PROVIDER_FIELD_ALL, &provider));
    CHECK_DAT(dat_pz_create(process->ia, &process->pz));
    process->ia_address = ia.ia_address_ptr;
    process->lmr_sync_req = provider.lmr_sync_req;
    process->read_sink_flags = DAT_MEM_PRIV_LOCAL_WRITE_FLAG;
    if (provider.rdma_write_for_rdma_read_req == DAT_TRUE)
        process->read_sink_flags |= DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
}
static int close_ia(struct process *process) {
    CHECK_DAT(dat_pz_free(process->pz));
    CHECK_DAT(dat_ia_close(process->ia, DAT_CLOSE_GRACEFUL_FLAG));
    return process->data_wrong ? WRONG : RIGHT;
}

/* stream: receives the port that the server listens on. */
static int run_server(struct process *process, char *name, FILE *stream) {
    side = "server";
    open_ia(process, name);
    CHECK_DAT(
        dat_evd_create(process->ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &process->cr_evd));
    CHECK_DAT(dat_psp_create_any(process->ia, &process->conn_qual, process->cr_evd,
                                 DAT_PSP_CONSUMER_FLAG, &process->psp));
    fprintf(stream, "%llu\n", (unsigned long long)process->conn_qual);
    fflush(stream);
    process->program->server(process);
    CHECK_DAT(dat_psp_free(process->psp));
    CHECK_DAT(dat_evd_free(process->cr_evd));
    return close_ia(process);
}
static int run_client(struct process *process, char *name, unsigned long long port) {
    side = "client";
    open_ia(process, name);
    process->conn_qual = port;
    process->program->client(process);
    return close_ia(process);
}

static unsigned limit_seconds(const struct process *process) {
    return LIMIT_SECONDS + (unsigned)(process->count / WRITES_PER_SECOND);
}

/* The server is a process of its own from before any IA is opened. */
static int run_both(struct process *process, char *name) {
    int ends[2], status, child_status = 0;
    unsigned long long port = 0;
    FILE *stream;
    pid_t server_pid;
    require(pipe(ends) == 0, "a pipe");
    server_pid = fork();
    require(server_pid >= 0, "a second process");
    if (server_pid == 0) {
        close(ends[0]);
        alarm(limit_seconds(process));
        return run_server(process, name, fdopen(ends[1], "w"));
    }
    close(ends[1]);
    stream = fdopen(ends[0], "r");
    require(stream && fscanf(stream, "%llu", &port) == 1, "that the server listens");
    status = run_client(process, name, port);
    require(waitpid(server_pid, &child_status, 0) == server_pid, "the server's end");
    return status ? status : WIFEXITED(child_status) ? WEXITSTATUS(child_status) : WRONG;
}

static int usage(const struct sync_program *program) {
    fprintf(stderr,
            "usage: %s [--skip-sync [N]]%s%s%s%s IA             both sides\n"
            "       %s [...] server IA        prints the port\n"
            "       %s [...] client IA PORT\n"
            "--skip-sync: without sync call N of %d\n",
            program->name, program->count ? " [--count N]" : "", program->option ? " [" : "",
            program->option ? program->option : "", program->option ? "]" : "", program->name,
            program->name, program->num_syncs);
    return MISUSE;
}

/* The number that a word is, or -1. */
static long number(const char *word) {
    char *end;
    const long value = word ? strtol(word, &end, 10) : -1;
    return word && *word >= '0' && *word <= '9' && *end == '\0' ? value : -1;
}

int run_program(const struct sync_program *program, int count, char **argv) {
    struct process process = {.program = program, .count = program->count};
    char **const end = argv + count;
    int remaining;
    for (++argv; argv < end && (*argv)[0] == '-'; ++argv) {
        if (strcmp(*argv, "--skip-sync") == 0) {
            const long sync_num = argv + 1 < end ? number(argv[1]) : -1;
            process.skipped_sync = sync_num < 0 ? 1 : (int)sync_num;
            argv += sync_num >= 0;
            if (process.skipped_sync < 1 || process.skipped_sync > program->num_syncs)
                return usage(program);
        } else if (program->count && strcmp(*argv, "--count") == 0 && argv + 1 < end) {
            process.count = number(*++argv);
            if (process.count < 1)
                return usage(program);
        } else if (program->option && strcmp(*argv, program->option) == 0) {
            process.has_option = 1;
        } else {
            return usage(program);
        }
    }
    remaining = (int)(end - argv);
    if (program->prepare && remaining == 1)
        program->prepare();
    if (remaining == 1)
        return run_both(&process, argv[0]);
    if (program->prepare)
        return usage(program);
    alarm(limit_seconds(&process));
    if (remaining == 2 && strcmp(argv[0], "server") == 0)
        return run_server(&process, argv[1], stdout);
    if (remaining == 3 && strcmp(argv[0], "client") == 0 && number(argv[2]) > 0)
        return run_client(&process, argv[1], (unsigned long long)number(argv[2]));
    return usage(program);
}
