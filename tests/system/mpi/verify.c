// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// verify [MAX_BYTES]: an MPI program that checks every byte that arrives: messages of many sizes,
// also unexpected ones and from any source, collective operations, and one-sided ones. A wrong byte
// aborts all ranks, with status 1. The environment variable VERIFY_FAULT makes one byte of a
// message wrong.

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 64, ROUNDS = 100 };

static int rank, num_ranks;
static unsigned long long verified;

static const int SIZES[] = {0,     1,     2,      7,       64,      100,    1023,  1024,
                            4095,  4096,  4097,   8191,    12288,   16384,  32768, 65535,
                            65536, 65537, 262144, 1000000, 1048576, 4194304};
enum { NUM_SIZES = sizeof SIZES / sizeof *SIZES };

static unsigned char expected_byte(int source, int tag, size_t index) {
    return (unsigned char)(((size_t)source * 31 + (size_t)tag * 7 + index * 13 + (index >> 8)) &
                           0xff);
}

static void fill(unsigned char *buffer, int source, int tag, size_t size) {
    for (size_t i = 0; i < size; i++)
        buffer[i] = expected_byte(source, tag, i);
}

static void fail(const char *operation, size_t size, size_t index) {
    fprintf(stderr, "rank %d: %s of %zu bytes: byte %zu is wrong\n", rank, operation, size, index);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(const char *operation, const unsigned char *buffer, int source, int tag,
                  size_t size) {
    for (size_t i = 0; i < size; i++)
        if (buffer[i] != expected_byte(source, tag, i))
            fail(operation, size, i);
    verified += size;
}

static unsigned char *allocate(size_t size) {
    unsigned char *buffer = malloc(size + 1); // malloc(0) may be NULL
    if (!buffer)
        MPI_Abort(MPI_COMM_WORLD, 2);
    memset(buffer, 0xee, size + 1);
    return buffer;
}

static void exchange_with_neighbours(int size) {
    unsigned char *out = allocate((size_t)size), *input = allocate((size_t)size);
    for (int distance = 1; distance < num_ranks; distance++) {
        int destination = (rank + distance) % num_ranks,
            source = (rank - distance + num_ranks) % num_ranks;
        MPI_Status status;
        int count;
        fill(out, rank, distance, (size_t)size);
        if (size == 64 && getenv("VERIFY_FAULT"))
            out[63]++;
        memset(input, 0xee, (size_t)size);
        MPI_Sendrecv(out, size, MPI_BYTE, destination, distance, input, size, MPI_BYTE, source,
                     distance, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        if (count != size)
            fail("the count of MPI_Sendrecv", (size_t)size, 0);
        check("MPI_Sendrecv", input, source, distance, (size_t)size);
    }
    free(out);
    free(input);
}

// All messages are sent before the first receive is posted, and received in another order of their
// tags.
static void send_unexpected(int size) {
    int destination = (rank + 1) % num_ranks, source = (rank - 1 + num_ranks) % num_ranks;
    unsigned char *out[MANY], *input = allocate((size_t)size);
    MPI_Request requests[MANY];
    for (int i = 0; i < MANY; i++) {
        out[i] = allocate((size_t)size);
        fill(out[i], rank, i, (size_t)size);
        MPI_Isend(out[i], size, MPI_BYTE, destination, i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = MANY - 1; i >= 0; i--) {
        MPI_Recv(input, size, MPI_BYTE, source, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check("an unexpected message", input, source, i, (size_t)size);
    }
    MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++)
        free(out[i]);
    free(input);
}

// Rank 0 receives from any source; the messages of one source stay in order.
static void receive_from_any(int size) {
    unsigned char *buffer = allocate((size_t)size);
    if (rank == 0) {
        int *next = calloc((size_t)num_ranks, sizeof *next);
        for (int i = 0; i < (num_ranks - 1) * ROUNDS; i++) {
            MPI_Status status;
            MPI_Recv(buffer, size, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            if (status.MPI_TAG != next[status.MPI_SOURCE]++)
                fail("the order of messages", (size_t)size, 0);
            check("a message of any source", buffer, status.MPI_SOURCE, status.MPI_TAG,
                  (size_t)size);
        }
        free(next);
    } else {
        for (int i = 0; i < ROUNDS; i++) {
            fill(buffer, rank, i, (size_t)size);
            MPI_Ssend(buffer, size, MPI_BYTE, 0, i, MPI_COMM_WORLD);
        }
    }
    free(buffer);
}

static void use_collectives(int size) {
    size_t bytes = (size_t)size, total = bytes * (size_t)num_ranks;
    unsigned char *out = allocate(total), *input = allocate(total);
    for (int peer = 0; peer < num_ranks; peer++)
        fill(out + bytes * (size_t)peer, rank, peer, bytes);
    MPI_Alltoall(out, size, MPI_BYTE, input, size, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < num_ranks; peer++)
        check("MPI_Alltoall", input + bytes * (size_t)peer, peer, rank, bytes);

    fill(out, rank, 5, bytes);
    MPI_Allgather(out, size, MPI_BYTE, input, size, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < num_ranks; peer++)
        check("MPI_Allgather", input + bytes * (size_t)peer, peer, 5, bytes);

    for (int root = 0; root < num_ranks; root++) {
        if (rank == root)
            fill(input, root, 6, bytes);
        MPI_Bcast(input, size, MPI_BYTE, root, MPI_COMM_WORLD);
        check("MPI_Bcast", input, root, 6, bytes);
    }
    free(out);
    free(input);

    int count = size / (int)sizeof(int64_t);
    int64_t *terms = (int64_t *)(void *)allocate(bytes), *sums = (int64_t *)(void *)allocate(bytes);
    for (int i = 0; i < count; i++)
        terms[i] = (int64_t)i * (rank + 1);
    MPI_Allreduce(terms, sums, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        if (sums[i] != (int64_t)i * num_ranks * (num_ranks + 1) / 2)
            fail("MPI_Allreduce", bytes, (size_t)i * sizeof *sums);
    verified += (size_t)count * sizeof *sums;
    free(terms);
    free(sums);
}

// Each rank's window has a place for each rank.
static void use_one_sided(int size) {
    size_t bytes = (size_t)size, total = bytes * (size_t)num_ranks;
    unsigned char *memory, *out = allocate(bytes), *input = allocate(bytes);
    MPI_Win win;
    MPI_Win_allocate((MPI_Aint)total, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0xee, total);
    fill(out, rank, 8, bytes);
    MPI_Win_fence(0, win);
    for (int peer = 0; peer < num_ranks; peer++)
        MPI_Put(out, size, MPI_BYTE, peer, (MPI_Aint)bytes * rank, size, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    for (int peer = 0; peer < num_ranks; peer++)
        check("MPI_Put", memory + bytes * (size_t)peer, peer, 8, bytes);
    MPI_Win_fence(0, win);
    for (int peer = 0; peer < num_ranks; peer++) {
        MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, win);
        for (int source = 0; source < num_ranks; source++) {
            memset(input, 0xee, bytes);
            MPI_Get(input, size, MPI_BYTE, peer, (MPI_Aint)bytes * source, size, MPI_BYTE, win);
            MPI_Win_flush(peer, win);
            check("MPI_Get", input, source, 8, bytes);
        }
        MPI_Win_unlock(peer, win);
    }
    MPI_Win_free(&win);
    free(out);
    free(input);
}

// All ranks add to one counter of rank 0, and each sees each value of it once at most.
static void use_atomics(void) {
    int64_t *counter, increment = 1, old, last = -1;
    MPI_Win win;
    MPI_Win_allocate(sizeof *counter, sizeof *counter, MPI_INFO_NULL, MPI_COMM_WORLD, &counter,
                     &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    *counter = 0;
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Fetch_and_op(&increment, &old, MPI_INT64_T, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        if (old <= last)
            fail("MPI_Fetch_and_op", sizeof old, (size_t)i);
        last = old;
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(&old, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
    MPI_Win_unlock(0, win);
    if (old != (int64_t)num_ranks * ROUNDS)
        fail("the sum of MPI_Fetch_and_op", sizeof old, (size_t)old);
    verified += sizeof old;
    MPI_Win_free(&win);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
    int max_bytes = argc > 1 ? atoi(argv[1]) : SIZES[NUM_SIZES - 1];
    for (int i = 0; i < NUM_SIZES && SIZES[i] <= max_bytes; i++) {
        exchange_with_neighbours(SIZES[i]);
        if (SIZES[i] <= 65537)
            send_unexpected(SIZES[i]);
        if (SIZES[i] <= 4097)
            receive_from_any(SIZES[i]);
        use_collectives(SIZES[i]);
        use_one_sided(SIZES[i]);
    }
    use_atomics();
    unsigned long long sum = 0;
    MPI_Reduce(&verified, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("verified %llu bytes on %d ranks\n", sum, num_ranks);
    MPI_Finalize();
    return 0;
}
