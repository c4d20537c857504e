/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#define _DEFAULT_SOURCE
#include "talk.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RIGHT, WRONG, MISUSE }; /* exit status */
enum { NOTES = 4, EVENTS = 32 };
enum { PATIENCE = 60, A_SECOND = 1000 }; /* one more for so many of a count */
static const DAT_TIMEOUT a_while = 20 * 1000 * 1000;
static const char *side = "";

void stop(const char *what, const char *why) {
    fprintf(stderr, "%s: %s: %s\n", side, what, why);
    exit(WRONG);
}
void must_be(int right, const char *what) {
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

void map(struct memory *it, DAT_VLEN length) {
    memset(it, 0, sizeof *it);
    it->length = length;
    it->at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must_be(it->at != MAP_FAILED, "memory");
}
void make(struct talk *talk, struct memory *it, DAT_PZ_HANDLE pz, DAT_VLEN length,
          DAT_MEM_PRIV_FLAGS privileges) {
    DAT_REGION_DESCRIPTION region;
    DAT_VLEN registered;
    DAT_VADDR address;
    map(it, length);
    region.for_va = it->at;
    MUST(dat_lmr_create(talk->ia, DAT_MEM_TYPE_VIRTUAL, region, length, pz, privileges,
                        VIRTUAL_ADDRESSES & it->lmr, &it->local, &it->remote, &registered,
                        &address));
    must_be(registered >= length && address <= (DAT_VADDR)it->at, "all of it is registered");
}
void unmake(struct memory *it) {
    MUST(dat_lmr_free(it->lmr));
    munmap(it->at, it->length);
}

DAT_LMR_TRIPLET part(const struct memory *it, DAT_VLEN offset, DAT_VLEN length) {
    return (DAT_LMR_TRIPLET){.virtual_address = (DAT_VADDR)(it->at + offset),
                             .segment_length = (segment_length)length,
                             .lmr_context = it->local};
}
struct range name_of(const struct memory *it, DAT_VLEN offset, DAT_VLEN length) {
    return (struct range){(DAT_UINT64)(it->at + offset), length, it->remote};
}

static unsigned char byte_of(unsigned round, DAT_VLEN place) {
    return (unsigned char)(round * 37 + place * 7 + place / 251 + 1);
}
void fill(const struct memory *it, DAT_VLEN offset, DAT_VLEN length, unsigned round) {
    for (DAT_VLEN place = 0; place < length; ++place)
        it->at[offset + place] = byte_of(round, place);
}
int look(struct talk *talk, const struct memory *it, DAT_VLEN offset, DAT_VLEN length,
         unsigned round) {
    const unsigned char *const at = it->at + offset;
    for (DAT_VLEN place = 0; place < length; ++place)
        if (at[place] != byte_of(round, place)) {
            fprintf(stderr, "%s: round %u: byte %llu is %#x, not %#x\n", side, round,
                    (unsigned long long)place, at[place], byte_of(round, place));
            talk->wrong = 1;
            return 0;
        }
    return 1;
}

/* -- connections ---------------------------------------------------------------------------- */

struct note {
    DAT_UINT64 count;
    struct range ranges[MOST_RANGES];
};

static DAT_EVENT event_of(DAT_EVD_HANDLE evd) {
    DAT_EVENT event;
    DAT_COUNT left;
    MUST(dat_evd_wait(evd, a_while, 1, &event, &left));
    return event;
}
static DAT_EVENT the_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER wanted, const char *what) {
    const DAT_EVENT event = event_of(evd);
    char why[40];
    snprintf(why, sizeof why, "event %#x", (unsigned)event.event_number);
    if (event.event_number != wanted)
        stop(what, why);
    return event;
}

static DAT_DTO_COMPLETION_STATUS completed(DAT_EVD_HANDLE evd) {
    return the_event(evd, DAT_DTO_COMPLETION_EVENT, "a completion")
        .event_data.dto_completion_event_data.status;
}
static void success(DAT_DTO_COMPLETION_STATUS status, const char *what) {
    char why[40];
    snprintf(why, sizeof why, "status %d", (int)status);
    if (status != DAT_DTO_SUCCESS)
        stop(what, why);
}

static const DAT_DTO_COOKIE no_cookie = {.as_64 = 0};

static void receive_into(struct line *line, unsigned which) {
    DAT_LMR_TRIPLET room = part(&line->notes, which * sizeof(struct note), sizeof(struct note));
    MUST(dat_ep_post_recv(line->ep, 1, &room, no_cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

static void take_apart(struct line *line) {
    MUST(dat_ep_free(line->ep));
    MUST(dat_evd_free(line->sent));
    MUST(dat_evd_free(line->received));
    MUST(dat_evd_free(line->connection));
    unmake(&line->notes);
}

static void post_note(struct line *line, const struct range *ranges, unsigned count,
                      DAT_COMPLETION_FLAGS flags) {
    struct note *const note = (struct note *)(void *)line->notes.at + NOTES;
    DAT_LMR_TRIPLET all = part(&line->notes, NOTES * sizeof *note, sizeof *note);
    note->count = count;
    if (count > 0)
        memcpy(note->ranges, ranges, count * sizeof *ranges);
    MUST(dat_ep_post_send(line->ep, 1, &all, no_cookie, flags));
}

void tell(struct line *line, const struct range *ranges, unsigned count) {
    post_note(line, ranges, count, DAT_COMPLETION_DEFAULT_FLAG);
    success(completed(line->sent), "a Send");
}

void tell_last(struct line *line, const struct range *ranges, unsigned count) {
    post_note(line, ranges, count, DAT_COMPLETION_SUPPRESS_FLAG);
}

void hear(struct line *line, struct range *ranges, unsigned count) {
    const struct note *const note = (const struct note *)(void *)line->notes.at + line->next;
    success(completed(line->received), "a message");
    must_be(note->count == count, "as many ranges as expected");
    if (count > 0)
        memcpy(ranges, note->ranges, count * sizeof *ranges);
    receive_into(line, line->next);
    line->next = (line->next + 1) % NOTES;
}

void connect_sides(struct talk *talk, struct line *line, DAT_PZ_HANDLE pz) {
    memset(line, 0, sizeof *line);
    make(talk, &line->notes, pz, (NOTES + 1) * sizeof(struct note), DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    MUST(dat_evd_create(talk->ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &line->sent));
    MUST(dat_evd_create(talk->ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &line->received));
    MUST(dat_evd_create(talk->ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
                        &line->connection));
    MUST(
        dat_ep_create(talk->ia, pz, line->received, line->sent, line->connection, NULL, &line->ep));
    for (unsigned each = 0; each < NOTES; ++each)
        receive_into(line, each);
    if (talk->listener) {
        const DAT_EVENT event =
            the_event(talk->requests, DAT_CONNECTION_REQUEST_EVENT, "a connection request");
        MUST(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, line->ep, 0, NULL));
    } else {
        MUST(dat_ep_connect(line->ep, talk->where, talk->port, a_while, 0, NULL,
                            DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    }
    the_event(line->connection, DAT_CONNECTION_EVENT_ESTABLISHED, "the connection");
    /* iWARP wants who has connected to be the first to send. */
    if (talk->listener)
        hear(line, NULL, 0);
    else
        tell(line, NULL, 0);
}

void part_sides(struct talk *talk, struct line *line) {
    if (talk->listener) {
        hear(line, NULL, 0);
        MUST(dat_ep_disconnect(line->ep, DAT_CLOSE_GRACEFUL_FLAG));
    } else {
        tell_last(line, NULL, 0);
    }
    the_event(line->connection, DAT_CONNECTION_EVENT_DISCONNECTED, "the end of the connection");
    take_apart(line);
}
void part_broken(struct talk *talk, struct line *line) {
    DAT_EVENT_NUMBER how;
    if (!talk->listener)
        dat_ep_disconnect(line->ep, DAT_CLOSE_ABRUPT_FLAG); /* if it is not broken yet */
    how = event_of(line->connection).event_number;
    must_be(how == DAT_CONNECTION_EVENT_BROKEN || how == DAT_CONNECTION_EVENT_DISCONNECTED,
            "that the connection breaks");
    take_apart(line);
}

static DAT_RMR_TRIPLET there(struct range name) {
    return (DAT_RMR_TRIPLET){.REMOTE_ADDRESS = name.address,
                             .segment_length = (segment_length)name.length,
                             .rmr_context = (DAT_RMR_CONTEXT)name.context};
}
DAT_DTO_COMPLETION_STATUS ended(struct line *line) {
    return completed(line->sent);
}
DAT_DTO_COMPLETION_STATUS try_read(struct line *line, DAT_LMR_TRIPLET to, struct range from) {
    const DAT_RMR_TRIPLET remote = there(from);
    MUST(dat_ep_post_rdma_read(line->ep, 1, &to, no_cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG));
    return completed(line->sent);
}
DAT_DTO_COMPLETION_STATUS try_write(struct line *line, DAT_LMR_TRIPLET from, struct range to) {
    const DAT_RMR_TRIPLET remote = there(to);
    MUST(dat_ep_post_rdma_write(line->ep, 1, &from, no_cookie, &remote,
                                DAT_COMPLETION_DEFAULT_FLAG));
    return completed(line->sent);
}
void read_from(struct line *line, DAT_LMR_TRIPLET to, struct range from) {
    success(try_read(line, to, from), "an RDMA Read");
}
void write_to(struct line *line, DAT_LMR_TRIPLET from, struct range to) {
    success(try_write(line, from, to), "an RDMA Write");
}

/* -- two processes -------------------------------------------------------------------------- */

int must_sync(const struct talk *talk, int which) {
    return talk->lmr_sync_req == DAT_TRUE && talk->forgotten != which;
}

static void open_ia(struct talk *talk, char *name) {
    DAT_EVD_HANDLE errors = DAT_HANDLE_NULL;
    DAT_IA_ATTR ia;
    DAT_PROVIDER_ATTR provider;
    MUST(dat_ia_open(name, EVENTS, &errors, &talk->ia));
    MUST(dat_ia_query(talk->ia, NULL, DAT_IA_FIELD_ALL, &ia, DAT_PROVIDER_FIELD_ALL, &provider));
    MUST(dat_pz_create(talk->ia, &talk->pz));
    talk->where = ia.ia_address_ptr;
    talk->lmr_sync_req = provider.lmr_sync_req;
    talk->sink = DAT_MEM_PRIV_LOCAL_WRITE_FLAG;
    if (provider.rdma_write_for_rdma_read_req == DAT_TRUE)
        talk->sink |= DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
}
static int close_ia(struct talk *talk) {
    MUST(dat_pz_free(talk->pz));
    MUST(dat_ia_close(talk->ia, DAT_CLOSE_GRACEFUL_FLAG));
    return talk->wrong ? WRONG : RIGHT;
}

/* to: who is told where the server listens. */
static int be_server(struct talk *talk, char *name, FILE *to) {
    side = "server";
    open_ia(talk, name);
    MUST(dat_evd_create(talk->ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &talk->requests));
    MUST(dat_psp_create_any(talk->ia, &talk->port, talk->requests, DAT_PSP_CONSUMER_FLAG,
                            &talk->listener));
    fprintf(to, "%llu\n", (unsigned long long)talk->port);
    fflush(to);
    talk->of->serve(talk);
    MUST(dat_psp_free(talk->listener));
    MUST(dat_evd_free(talk->requests));
    return close_ia(talk);
}
static int be_client(struct talk *talk, char *name, unsigned long long port) {
    side = "client";
    open_ia(talk, name);
    talk->port = port;
    talk->of->ask(talk);
    return close_ia(talk);
}

static unsigned patience_for(const struct talk *talk) {
    return PATIENCE + (unsigned)(talk->count / A_SECOND);
}

/* The server is another process from before anything is opened. */
static int be_both(struct talk *talk, char *name) {
    int ends[2], status, its = 0;
    unsigned long long port = 0;
    FILE *from;
    pid_t server;
    must_be(pipe(ends) == 0, "a pipe");
    server = fork();
    must_be(server >= 0, "a second process");
    if (server == 0) {
        close(ends[0]);
        alarm(patience_for(talk));
        return be_server(talk, name, fdopen(ends[1], "w"));
    }
    close(ends[1]);
    from = fdopen(ends[0], "r");
    must_be(from && fscanf(from, "%llu", &port) == 1, "that the server listens");
    status = be_client(talk, name, port);
    must_be(waitpid(server, &its, 0) == server, "the server's end");
    return status ? status : WIFEXITED(its) ? WEXITSTATUS(its) : WRONG;
}

static int misuse(const struct situation *it) {
    fprintf(stderr,
            "usage: %s [--forget [N]]%s IA             both sides\n"
            "       %s [...] server IA        prints the port\n"
            "       %s [...] client IA PORT\n"
            "--forget: without sync call N of %d\n",
            it->name, it->count ? " [--count N]" : "", it->name, it->name, it->syncs);
    return MISUSE;
}

/* The number that a word is, or -1. */
static long number(const char *word) {
    char *end;
    const long it = word ? strtol(word, &end, 10) : -1;
    return word && *word >= '0' && *word <= '9' && *end == '\0' ? it : -1;
}

int run(const struct situation *it, int count, char **words) {
    struct talk talk = {.of = it, .count = it->count};
    char **const end = words + count;
    int left;
    for (++words; words < end && (*words)[0] == '-'; ++words) {
        if (strcmp(*words, "--forget") == 0) {
            const long which = words + 1 < end ? number(words[1]) : -1;
            talk.forgotten = which < 0 ? 1 : (int)which;
            words += which >= 0;
            if (talk.forgotten < 1 || talk.forgotten > it->syncs)
                return misuse(it);
        } else if (it->count && strcmp(*words, "--count") == 0 && words + 1 < end) {
            talk.count = number(*++words);
            if (talk.count < 1)
                return misuse(it);
        } else {
            return misuse(it);
        }
    }
    left = (int)(end - words);
    if (it->before && left == 1)
        it->before();
    if (left == 1)
        return be_both(&talk, words[0]);
    if (it->before)
        return misuse(it);
    alarm(patience_for(&talk));
    if (left == 2 && strcmp(words[0], "server") == 0)
        return be_server(&talk, words[1], stdout);
    if (left == 3 && strcmp(words[0], "client") == 0 && number(words[2]) > 0)
        return be_client(&talk, words[1], (unsigned long long)number(words[2]));
    return misuse(it);
}
