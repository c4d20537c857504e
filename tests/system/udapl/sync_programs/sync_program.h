/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The frame of the programs here: two processes, server and client, each with an IA; connections
 * between them; messages that name ranges of memory; and the exit status.
 *
 * The source is of uDAPL 1.2, and with WITH_DAT2 of 2.0.
 */
#ifndef SYNC_PROGRAM_H
#define SYNC_PROGRAM_H

#ifdef WITH_DAT2
#    include <dat2/udat.h>
#    define VIRTUAL_ADDRESSES DAT_VA_TYPE_VA, /* an argument of dat_lmr_create that 1.2 has not */
#    define REMOTE_ADDRESS virtual_address    /* in a DAT_RMR_TRIPLET */
typedef DAT_SEG_LENGTH segment_length;
#else
#    include <dat/udat.h>
#    define VIRTUAL_ADDRESSES
#    define REMOTE_ADDRESS target_address
typedef DAT_VLEN segment_length;
#endif

struct process;

struct sync_program {
    const char *name;
    int num_syncs; /* how many sync calls it has, each of which can be skipped */
    void (*server)(struct process *);
    void (*client)(struct process *);
    void (*prepare)(void); /* runs before the fork; may be NULL */
    long count;            /* default of --count; 0: there is no such option */
    const char *option;    /* another option, without a value; may be NULL */
};

/* The server or the client. */
struct process {
    const struct sync_program *program;
    DAT_IA_HANDLE ia;
    DAT_PZ_HANDLE pz;
    DAT_MEM_PRIV_FLAGS read_sink_flags; /* privileges of memory that an RDMA Read fills */
    DAT_IA_ADDRESS_PTR ia_address;      /* of the IA, which both sides use */
    DAT_CONN_QUAL conn_qual;
    DAT_PSP_HANDLE psp; /* the server's */
    DAT_EVD_HANDLE cr_evd;
    DAT_BOOLEAN lmr_sync_req;
    long count;
    int skipped_sync, data_wrong;
    int has_option; /* whether the command has program->option */
};

/* Returns the exit status. */
int run_program(const struct sync_program *, int count, char **argv);
#define SYNC_PROGRAM(...)                                                                          \
    int main(int argc, char **argv) {                                                              \
        const struct sync_program program = {__VA_ARGS__};                                         \
        return run_program(&program, argc, argv);                                                  \
    }

/* Whether the provider requires sync call sync_num (from 1), and --skip-sync does not name it. */
int needs_sync(const struct process *, int sync_num);

/* How long to wait for a change of memory that the peer writes, before which comes sync call
 * sync_num. Without that call a program may never see it, so the wait is short; else the limit only
 * ends a hang. */
long wait_seconds(const struct process *, int sync_num);

/* Exits with an error. */
_Noreturn void fail(const char *operation, const char *reason);
void require(int ok, const char *operation);
void check_dat(DAT_RETURN, const char *call);
#define CHECK_DAT(call) check_dat((call), #call)

/* Pages of their own, of zeros: mapped, and registered. */
struct memory {
    unsigned char *addr;
    DAT_VLEN length;
    DAT_LMR_HANDLE lmr;
    DAT_LMR_CONTEXT local;
    DAT_RMR_CONTEXT remote;
};
enum { PAGE = 4096 };
void map_pages(struct memory *, DAT_VLEN length);
void register_memory(struct process *, struct memory *, DAT_PZ_HANDLE, DAT_VLEN length,
                     DAT_MEM_PRIV_FLAGS);
void free_memory(struct memory *);
DAT_LMR_TRIPLET make_lmr_triplet(const struct memory *, DAT_VLEN offset, DAT_VLEN length);

/* A pattern that differs between rounds. */
void fill_pattern(const struct memory *, DAT_VLEN offset, DAT_VLEN length, unsigned round);
/* Whether the memory holds it; if not, prints where, and the status will be 1. */
int verify_pattern(struct process *, const struct memory *, DAT_VLEN offset, DAT_VLEN length,
                   unsigned round);

/* What a message names: memory of its sender. The same layout in both versions of uDAPL. */
struct range {
    DAT_UINT64 address, length, context;
};
enum { MAX_RANGES = 8 };
struct range make_remote_range(const struct memory *, DAT_VLEN offset, DAT_VLEN length);

/* Its messages need no sync: the provider keeps Sends and receives coherent. */
struct connection {
    DAT_PZ_HANDLE pz;
    DAT_EP_HANDLE ep;
    DAT_EVD_HANDLE request_evd, recv_evd, connection_evd;
    struct memory messages;
    unsigned next;
};
void connect_peers(struct process *, struct connection *, DAT_PZ_HANDLE);
void disconnect_peers(struct process *, struct connection *);
/* After an operation that was refused, and broke the connection. */
void disconnect_broken(struct process *, struct connection *);

void send_message(struct connection *, const struct range *, unsigned count);
/* The peer may disconnect before it has acknowledged it: its completion is suppressed. */
void send_last_message(struct connection *, const struct range *, unsigned count);
void receive_message(struct connection *, struct range *, unsigned count); /* exactly count */

/* Return when the transfer is done. */
void rdma_read(struct connection *, DAT_LMR_TRIPLET dst, struct range src);
void rdma_write(struct connection *, DAT_LMR_TRIPLET src, struct range dst);
/* The same, if it may be refused: its status. */
DAT_DTO_COMPLETION_STATUS try_read(struct connection *, DAT_LMR_TRIPLET dst, struct range src);
DAT_DTO_COMPLETION_STATUS try_write(struct connection *, DAT_LMR_TRIPLET src, struct range dst);
DAT_DTO_COMPLETION_STATUS wait_send_status(struct connection *);

/* A client's part: each round, writes the pattern to the one range that the server offers, then
 * sends a message, which names the range if named. The client's own memory needs no sync. */
void write_offered_ranges(struct process *, unsigned rounds, DAT_VLEN size, int named);

#endif
