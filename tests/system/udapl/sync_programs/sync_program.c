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

void stop(const char *what, const char *why) {
    fprintf(stderr, "%s: %s: %s\n", side, what, why);
    exit(WRONG);
}
void expect(int right, const char *what) {
    if (!right)
        stop(what, "is not so");
}
void must(DAT_RETURN status, const char *call) {
    const char *type, *subtype;
    char why[200];
    if (status == DAT_SUCCESS)
        return;
    dat_strerror(status, &type, &subtype);
    snprintf(why, sizeof why, "%s %s", type, subtype);
    stop(call, why);
}

/* -- memory --------------------------------------------------------------------------------- */

void map_pages(struct memory *mem, DAT_VLEN length) {
    memset(mem, 0, sizeof *mem);
    mem->length = length;
    mem->addr = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(mem->addr != MAP_FAILED, "memory");
}
void register_memory(struct process *process, struct memory *mem, DAT_PZ_HANDLE pz, DAT_VLEN length,
                     DAT_MEM_PRIV_FLAGS privileges) {
    DAT_REGION_DESCRIPTION region;
    DAT_VLEN registered;
    DAT_VADDR address;
    map_pages(mem, length);
    region.for_va = mem->addr;
    MUST(dat_lmr_create(process->ia, DAT_MEM_TYPE_VIRTUAL, region, length, pz, privileges,
                        VIRTUAL_ADDRESSES & mem->lmr, &mem->local, &mem->remote, &registered,
                        &address));
    expect(registered >= length && address <= (DAT_VADDR)mem->addr, "all of it is registered");
}
void free_memory(struct memory *mem) {
    MUST(dat_lmr_free(mem->lmr));
    munmap(mem->addr, mem->length);
}

DAT_LMR_TRIPLET triplet(const struct memory *mem, DAT_VLEN offset, DAT_VLEN length) {
    return (DAT_LMR_TRIPLET){.virtual_address = (DAT_VADDR)(mem->addr + offset),
                             .segment_length = (segment_length)length,
                             .lmr_context = mem->local};
}
struct range remote_range(const struct memory *mem, DAT_VLEN offset, DAT_VLEN length) {
    return (struct range){(DAT_UINT64)(mem->addr + offset), length, mem->remote};
}

static unsigned char byte_of(unsigned round, DAT_VLEN place) {
    return (unsigned char)(round * 37 + place * 7 + place / 251 + 1);
}
void fill(const struct memory *mem, DAT_VLEN offset, DAT_VLEN length, unsigned round) {
    for (DAT_VLEN place = 0; place < length; ++place)
        mem->addr[offset + place] = byte_of(round, place);
}
int verify(struct process *process, const struct memory *mem, DAT_VLEN offset, DAT_VLEN length,
           unsigned round) {
    const unsigned char *const addr = mem->addr + offset;
    for (DAT_VLEN place = 0; place < length; ++place)
        if (addr[place] != byte_of(round, place)) {
            fprintf(stderr, "%s: round %u: byte %llu is %#x, not %#x\n", side, round,
                    (unsigned long long)place, addr[place], byte_of(round, place));
            process->wrong = 1;
            return 0;
        }
    return 1;
}

/* -- connections ---------------------------------------------------------------------------- */

struct message {
    DAT_UINT64 count;
    struct range ranges[MAX_RANGES];
};

static DAT_EVENT next_event(DAT_EVD_HANDLE evd) {
    DAT_EVENT event;
    DAT_COUNT remaining;
    MUST(dat_evd_wait(evd, timeout_us, 1, &event, &remaining));
    return event;
}
static DAT_EVENT expect_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected, const char *what) {
    const DAT_EVENT event = next_event(evd);
    char why[40];
    snprintf(why, sizeof why, "event %#x", (unsigned)event.event_number);
    if (event.event_number != expected)
        stop(what, why);
    return event;
}

static DAT_DTO_COMPLETION_STATUS dto_status(DAT_EVD_HANDLE evd) {
    return expect_event(evd, DAT_DTO_COMPLETION_EVENT, "a completion")
        .event_data.dto_completion_event_data.status;
}
static void expect_success(DAT_DTO_COMPLETION_STATUS status, const char *what) {
    char why[40];
    snprintf(why, sizeof why, "status %d", (int)status);
    if (status != DAT_DTO_SUCCESS)
        stop(what, why);
}

static const DAT_DTO_COOKIE no_cookie = {.as_64 = 0};

static void post_receive(struct connection *connection, unsigned which) {
    DAT_LMR_TRIPLET room =
        triplet(&connection->messages, which * sizeof(struct message), sizeof(struct message));
    MUST(dat_ep_post_recv(connection->ep, 1, &room, no_cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

static void free_connection(struct connection *connection) {
    MUST(dat_ep_free(connection->ep));
    MUST(dat_evd_free(connection->sent));
    MUST(dat_evd_free(connection->received));
    MUST(dat_evd_free(connection->connection_evd));
    free_memory(&connection->messages);
}

static void post_message(struct connection *connection, const struct range *ranges, unsigned count,
                         DAT_COMPLETION_FLAGS flags) {
    struct message *const message = (struct message *)(void *)connection->messages.addr + MESSAGES;
    DAT_LMR_TRIPLET all =
        triplet(&connection->messages, MESSAGES * sizeof *message, sizeof *message);
    message->count = count;
    if (count > 0)
        memcpy(message->ranges, ranges, count * sizeof *ranges);
    MUST(dat_ep_post_send(connection->ep, 1, &all, no_cookie, flags));
}

void send_message(struct connection *connection, const struct range *ranges, unsigned count) {
    post_message(connection, ranges, count, DAT_COMPLETION_DEFAULT_FLAG);
    expect_success(dto_status(connection->sent), "a Send");
}

void send_last_message(struct connection *connection, const struct range *ranges, unsigned count) {
    post_message(connection, ranges, count, DAT_COMPLETION_SUPPRESS_FLAG);
}

void receive_message(struct connection *connection, struct range *ranges, unsigned count) {
    const struct message *const message =
        (const struct message *)(void *)connection->messages.addr + connection->next;
    expect_success(dto_status(connection->received), "a message");
    expect(message->count == count, "as many ranges as expected");
    if (count > 0)
        memcpy(ranges, message->ranges, count * sizeof *ranges);
    post_receive(connection, connection->next);
    connection->next = (connection->next + 1) % MESSAGES;
}

void connect_peers(struct process *process, struct connection *connection, DAT_PZ_HANDLE pz) {
    memset(connection, 0, sizeof *connection);
    register_memory(process, &connection->messages, pz, (MESSAGES + 1) * sizeof(struct message),
                    DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    MUST(dat_evd_create(process->ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &connection->sent));
    MUST(dat_evd_create(process->ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
                        &connection->received));
    MUST(dat_evd_create(process->ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
                        &connection->connection_evd));
    MUST(dat_ep_create(process->ia, pz, connection->received, connection->sent,
                       connection->connection_evd, NULL, &connection->ep));
    for (unsigned each = 0; each < MESSAGES; ++each)
        post_receive(connection, each);
    if (process->listener) {
        const DAT_EVENT event =
            expect_event(process->requests, DAT_CONNECTION_REQUEST_EVENT, "a connection request");
        MUST(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, connection->ep, 0,
                           NULL));
    } else {
        MUST(dat_ep_connect(connection->ep, process->ia_address, process->port, timeout_us, 0, NULL,
                            DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    }
    expect_event(connection->connection_evd, DAT_CONNECTION_EVENT_ESTABLISHED, "the connection");
    /* iWARP demands that the client sends first. */
    if (process->listener)
        receive_message(connection, NULL, 0);
    else
        send_message(connection, NULL, 0);
}

void disconnect_peers(struct process *process, struct connection *connection) {
    if (process->listener) {
        receive_message(connection, NULL, 0);
        MUST(dat_ep_disconnect(connection->ep, DAT_CLOSE_GRACEFUL_FLAG));
    } else {
        send_last_message(connection, NULL, 0);
    }
    expect_event(connection->connection_evd, DAT_CONNECTION_EVENT_DISCONNECTED,
                 "the end of the connection");
    free_connection(connection);
}
void disconnect_broken(struct process *process, struct connection *connection) {
    DAT_EVENT_NUMBER event_number;
    if (!process->listener)
        dat_ep_disconnect(connection->ep, DAT_CLOSE_ABRUPT_FLAG); /* it may be broken already */
    event_number = next_event(connection->connection_evd).event_number;
    expect(event_number == DAT_CONNECTION_EVENT_BROKEN ||
               event_number == DAT_CONNECTION_EVENT_DISCONNECTED,
           "that the connection breaks");
    free_connection(connection);
}

static DAT_RMR_TRIPLET rmr_triplet(struct range name) {
    return (DAT_RMR_TRIPLET){.REMOTE_ADDRESS = name.address,
                             .segment_length = (segment_length)name.length,
                             .rmr_context = (DAT_RMR_CONTEXT)name.context};
}
DAT_DTO_COMPLETION_STATUS wait_for_send(struct connection *connection) {
    return dto_status(connection->sent);
}
DAT_DTO_COMPLETION_STATUS try_read(struct connection *connection, DAT_LMR_TRIPLET dst,
                                   struct range src) {
    const DAT_RMR_TRIPLET remote = rmr_triplet(src);
    MUST(dat_ep_post_rdma_read(connection->ep, 1, &dst, no_cookie, &remote,
                               DAT_COMPLETION_DEFAULT_FLAG));
    return dto_status(connection->sent);
}
DAT_DTO_COMPLETION_STATUS try_write(struct connection *connection, DAT_LMR_TRIPLET src,
                                    struct range dst) {
    const DAT_RMR_TRIPLET remote = rmr_triplet(dst);
    MUST(dat_ep_post_rdma_write(connection->ep, 1, &src, no_cookie, &remote,
                                DAT_COMPLETION_DEFAULT_FLAG));
    return dto_status(connection->sent);
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
        fill(&source, 0, offered.length, round);
        rdma_write(&connection, triplet(&source, 0, offered.length), offered);
        send_message(&connection, named ? &offered : NULL, named ? 1 : 0);
    }
    disconnect_peers(process, &connection);
    free_memory(&source);
}

/* -- two processes -------------------------------------------------------------------------- */

int needs_sync(const struct process *process, int which) {
    return process->lmr_sync_req == DAT_TRUE && process->skipped_sync != which;
}

long wait_seconds(const struct process *process, int which) {
    return process->skipped_sync == which ? 1 : LIMIT_SECONDS / 2;
}

static void open_ia(struct process *process, char *name) {
    DAT_EVD_HANDLE errors = DAT_HANDLE_NULL;
    DAT_IA_ATTR ia;
    DAT_PROVIDER_ATTR provider;
    MUST(dat_ia_open(name, EVENTS, &errors, &process->ia));
    MUST(dat_ia_query(process->ia, NULL, DAT_IA_FIELD_ALL, &ia, DAT_PROVIDER_FIELD_ALL, &provider));
    MUST(dat_pz_create(process->ia, &process->pz));
    process->ia_address = ia.ia_address_ptr;
    process->lmr_sync_req = provider.lmr_sync_req;
    process->read_sink_flags = DAT_MEM_PRIV_LOCAL_WRITE_FLAG;
    if (provider.rdma_write_for_rdma_read_req == DAT_TRUE)
        process->read_sink_flags |= DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
}
static int close_ia(struct process *process) {
    MUST(dat_pz_free(process->pz));
    MUST(dat_ia_close(process->ia, DAT_CLOSE_GRACEFUL_FLAG));
    return process->wrong ? WRONG : RIGHT;
}

/* stream: receives the port that the server listens on. */
static int run_server(struct process *process, char *name, FILE *stream) {
    side = "server";
    open_ia(process, name);
    MUST(dat_evd_create(process->ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &process->requests));
    MUST(dat_psp_create_any(process->ia, &process->port, process->requests, DAT_PSP_CONSUMER_FLAG,
                            &process->listener));
    fprintf(stream, "%llu\n", (unsigned long long)process->port);
    fflush(stream);
    process->program->server(process);
    MUST(dat_psp_free(process->listener));
    MUST(dat_evd_free(process->requests));
    return close_ia(process);
}
static int run_client(struct process *process, char *name, unsigned long long port) {
    side = "client";
    open_ia(process, name);
    process->port = port;
    process->program->client(process);
    return close_ia(process);
}

static unsigned limit_seconds(const struct process *process) {
    return LIMIT_SECONDS + (unsigned)(process->count / WRITES_PER_SECOND);
}

/* The server is a process of its own from before any IA is opened. */
static int run_both(struct process *process, char *name) {
    int ends[2], status, other_mem = 0;
    unsigned long long port = 0;
    FILE *stream;
    pid_t server_pid;
    expect(pipe(ends) == 0, "a pipe");
    server_pid = fork();
    expect(server_pid >= 0, "a second process");
    if (server_pid == 0) {
        close(ends[0]);
        alarm(limit_seconds(process));
        return run_server(process, name, fdopen(ends[1], "w"));
    }
    close(ends[1]);
    stream = fdopen(ends[0], "r");
    expect(stream && fscanf(stream, "%llu", &port) == 1, "that the server listens");
    status = run_client(process, name, port);
    expect(waitpid(server_pid, &other_mem, 0) == server_pid, "the server's end");
    return status ? status : WIFEXITED(other_mem) ? WEXITSTATUS(other_mem) : WRONG;
}

static int usage(const struct sync_program *program) {
    fprintf(stderr,
            "usage: %s [--skip-sync [N]]%s IA             both sides\n"
            "       %s [...] server IA        prints the port\n"
            "       %s [...] client IA PORT\n"
            "--skip-sync: without sync call N of %d\n",
            program->name, program->count ? " [--count N]" : "", program->name, program->name,
            program->syncs);
    return MISUSE;
}

/* The number that a word is, or -1. */
static long number(const char *word) {
    char *end;
    const long value = word ? strtol(word, &end, 10) : -1;
    return word && *word >= '0' && *word <= '9' && *end == '\0' ? value : -1;
}

int run(const struct sync_program *program, int count, char **argv) {
    struct process process = {.program = program, .count = program->count};
    char **const end = argv + count;
    int remaining;
    for (++argv; argv < end && (*argv)[0] == '-'; ++argv) {
        if (strcmp(*argv, "--skip-sync") == 0) {
            const long which = argv + 1 < end ? number(argv[1]) : -1;
            process.skipped_sync = which < 0 ? 1 : (int)which;
            argv += which >= 0;
            if (process.skipped_sync < 1 || process.skipped_sync > program->syncs)
                return usage(program);
        } else if (program->count && strcmp(*argv, "--count") == 0 && argv + 1 < end) {
            process.count = number(*++argv);
            if (process.count < 1)
                return usage(program);
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
