// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An MPI program of two ranks, each of which puts a message into the memory of the other one.

#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { LENGTH = 4096 }; // a page

static void exchange(int peer, MPI_Win win) {
    static char message[LENGTH];
    memset(message, 'a' + peer, sizeof message);
    MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, win);
    MPI_Put(message, LENGTH, MPI_BYTE, peer, 0, LENGTH, MPI_BYTE, win);
    MPI_Win_unlock(peer, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    int rank;
    static _Alignas(LENGTH) char memory[LENGTH]; // in lines of its own
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_create(memory, LENGTH, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    exchange(1 - rank, win);
    printf("rank %d has '%c'\n", rank, memory[LENGTH - 1]);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
