#include "clocks.h"
#include "base.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIPS 32

struct hosts hosts;

static void find_hosts(void) {
    char mine[65] = "";
    if (gethostname(mine, sizeof mine - 1) != 0)
        strcpy(mine, "unknown");
    char *names = allocate((size_t)run.ranks * sizeof mine);
    MPI(MPI_Allgather(mine, sizeof mine, MPI_CHAR, names, sizeof mine, MPI_CHAR, MPI_COMM_WORLD));
    hosts.all = allocate((size_t)run.ranks * sizeof *hosts.all);
    hosts.of_rank = allocate((size_t)run.ranks * sizeof *hosts.of_rank);
    hosts.count = 0;
    for (int rank = 0; rank < run.ranks; rank++) {
        const char *name = names + (size_t)rank * sizeof mine;
        int at = 0;
        while (at < hosts.count && strcmp(hosts.all[at].name, name) != 0)
            at++;
        if (at == hosts.count) {
            hosts.all[hosts.count] = (struct host){0};
            memcpy(hosts.all[hosts.count++].name, name, sizeof mine);
        }
        if (rank == run.rank)
            hosts.local_rank = hosts.all[at].ranks;
        hosts.of_rank[rank] = at;
        hosts.all[at].ranks++;
    }
    free(names);
}

/* Rank 0 and `other` exchange times; rank 0 keeps what the fastest trip says. */
static void measure(int other, struct host *host) {
    int64_t best = INT64_MAX;
    for (int trip = 0; trip < TRIPS; trip++) {
        int64_t there = 0;
        if (run.rank == other) {
            MPI(MPI_Recv(&there, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            there = now_ns();
            MPI(MPI_Send(&there, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD));
        } else if (run.rank == 0) {
            int64_t before = now_ns();
            MPI(MPI_Send(&before, 1, MPI_INT64_T, other, 0, MPI_COMM_WORLD));
            MPI(MPI_Recv(&there, 1, MPI_INT64_T, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            int64_t after = now_ns();
            if (after - before < best) {
                best = after - before;
                host->offset_ns = there - (before + best / 2);
                host->bound_ns = best / 2 + 1;
            }
        }
    }
}

void clocks_measure(void) {
    find_hosts();
    for (int at = 1; at < hosts.count; at++) {
        int other = 0;
        while (hosts.of_rank[other] != at)
            other++;
        measure(other, &hosts.all[at]);
    }
    MPI(MPI_Bcast(hosts.all, (int)((size_t)hosts.count * sizeof *hosts.all), MPI_BYTE, 0, MPI_COMM_WORLD));
}

void clocks_free(void) {
    free(hosts.all);
    free(hosts.of_rank);
}
