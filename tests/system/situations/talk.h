/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the programs here have in common, and no manual page is about: two processes, server and
 * client, each with the IA that it was given by name; connections between them; messages that name
 * ranges of memory; and the end, with the exit status of both.
 *
 * The source is of uDAPL 1.2, and with WITH_DAT2 of 2.0.
 */
#ifndef SITUATIONS_TALK_H
#define SITUATIONS_TALK_H

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

struct talk;

struct situation {
    const char *name;
    int syncs; /* how many sync calls it has, any of which can be left out */
    void (*serve)(struct talk *);
    void (*ask)(struct talk *); /* the client's part */
    void (*before)(void); /* what both processes share, made before there are two; NULL: nothing */
    long count;           /* what --count is if nobody says it; 0: there is no such option */
};

/* A process of a situation. */
struct talk {
    const struct situation *of;
    DAT_IA_HANDLE ia;
    DAT_PZ_HANDLE pz;
    DAT_MEM_PRIV_FLAGS sink;  /* what memory needs that an RDMA Read fills */
    DAT_IA_ADDRESS_PTR where; /* of the IA, which both sides use */
    DAT_CONN_QUAL port;
    DAT_PSP_HANDLE listener; /* the server's */
    DAT_EVD_HANDLE requests;
    DAT_BOOLEAN lmr_sync_req;
    long count;
    int forgotten, wrong;
};

/* Runs it as the words of the command line say, and returns the exit status. */
int run(const struct situation *, int count, char **words);

/* Whether the provider wants this sync call (1, 2, ...), and nobody said to forget it. */
int must_sync(const struct talk *, int which);

/* The end of what cannot go on. */
_Noreturn void stop(const char *what, const char *why);
void must_be(int right, const char *what);
void must(DAT_RETURN, const char *call);
#define MUST(call) must((call), #call)

/* Pages of zeros that nothing else is on: mapped, and registered. */
struct memory {
    unsigned char *at;
    DAT_VLEN length;
    DAT_LMR_HANDLE lmr;
    DAT_LMR_CONTEXT local;
    DAT_RMR_CONTEXT remote;
};
enum { PAGE = 4096 };
void map(struct memory *, DAT_VLEN length);
void make(struct talk *, struct memory *, DAT_PZ_HANDLE, DAT_VLEN length, DAT_MEM_PRIV_FLAGS);
void unmake(struct memory *);
DAT_LMR_TRIPLET part(const struct memory *, DAT_VLEN offset, DAT_VLEN length);

/* Bytes that tell rounds from each other. */
void fill(const struct memory *, DAT_VLEN offset, DAT_VLEN length, unsigned round);
/* Whether they are these; if not, says which is not, and both processes' status will be 1. */
int look(struct talk *, const struct memory *, DAT_VLEN offset, DAT_VLEN length, unsigned round);

/* What a message names: memory of the one who sends it. Of one layout in all programs. */
struct range {
    DAT_UINT64 address, length, context;
};
enum { MOST_RANGES = 8 };
struct range name_of(const struct memory *, DAT_VLEN offset, DAT_VLEN length);

/* A connection. What it needs to send and receive is the provider's to keep coherent. */
struct line {
    DAT_PZ_HANDLE pz;
    DAT_EP_HANDLE ep;
    DAT_EVD_HANDLE sent, received, connection;
    struct memory notes;
    unsigned next;
};
void connect_sides(struct talk *, struct line *, DAT_PZ_HANDLE);
void part_sides(struct talk *, struct line *);
/* After a request that was refused, and took the connection with it. */
void part_broken(struct talk *, struct line *);

void tell(struct line *, const struct range *, unsigned count);
/* To one who may be gone before he has acknowledged it, so that nothing tells what becomes of it.
 */
void tell_last(struct line *, const struct range *, unsigned count);
void hear(struct line *, struct range *, unsigned count); /* just as many */

/* Transfer it, and return when it is done. */
void read_from(struct line *, DAT_LMR_TRIPLET to, struct range from);
void write_to(struct line *, DAT_LMR_TRIPLET from, struct range to);
/* The same, of what may be refused: how it ended. */
DAT_DTO_COMPLETION_STATUS try_read(struct line *, DAT_LMR_TRIPLET to, struct range from);
DAT_DTO_COMPLETION_STATUS try_write(struct line *, DAT_LMR_TRIPLET from, struct range to);
DAT_DTO_COMPLETION_STATUS ended(struct line *);

#endif
