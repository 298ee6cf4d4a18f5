/*
 * A program that does nothing but note when it began and ends: FOLDER/ROUND is a file, in which place WORKER (24 bytes
 * each) gets the monotonic clock, ns, the processor, and the clock when those two are noted. WORKER is a number, or the variable that holds it; ROUND is RAKUDA_ROUND,
 * or the third word. For bench/sync. The file is there before: making one takes longer than all else, and with more
 * workers than processors others wait for that. Compiled with WITH_MPI it begins when it comes out of a barrier, and
 * WORKER is its rank.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

int main(int count, char **words) {
    struct timespec now;
#ifdef WITH_MPI
    int rank;
    if (MPI_Init(&count, &words) != MPI_SUCCESS || MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS) {
        return 3;
    }
#endif
    clock_gettime(CLOCK_MONOTONIC, &now);
    const char *round = count > 3 ? words[3] : getenv("RAKUDA_ROUND");
    char path[4096] = "";
    if (count < 3 || round == NULL || strlen(words[1]) + strlen(round) + 2 > sizeof path) {
        return 2;
    }
    strcat(strcat(strcpy(path, words[1]), "/"), round);
    int64_t note[2] = {(int64_t)now.tv_sec * 1000000000 + now.tv_nsec, sched_getcpu()};
#ifdef WITH_MPI
    long worker = rank;
#else
    const char *variable = getenv(words[2]);
    long worker = atol(variable != NULL ? variable : words[2]);
#endif
    int file = open(path, O_WRONLY);
    int is_noted = file >= 0 && pwrite(file, note, sizeof note, 24 * worker) == sizeof note;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t end_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    is_noted = is_noted && pwrite(file, &end_ns, sizeof end_ns, 24 * worker + 16) == sizeof end_ns;
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    return is_noted ? 0 : 1;
}
