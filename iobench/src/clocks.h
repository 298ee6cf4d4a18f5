/* The clocks of the hosts: how far CLOCK_MONOTONIC of each is from that of rank 0's host, and how well that
 * is known.
 *
 * Measured before anything else by messages there and back: of 32 the fastest counts, half of its time is the
 * bound. Ranks on one host have one clock. It does not correct for drift: a run takes minutes, clocks drift
 * microseconds in them. */
#ifndef IOBENCH_CLOCKS_H
#define IOBENCH_CLOCKS_H

#include <stdint.h>

struct host {
    char name[65]; /* as gethostname says; the result has a digest of it only */
    int ranks;
    int64_t offset_ns; /* to be taken from a time of this host for the time of rank 0's */
    int64_t bound_ns;  /* the offset is right within this */
};

struct hosts {
    struct host *all; /* in order of their first ranks */
    int count;
    int *of_rank;   /* the host of each rank */
    int local_rank; /* place of this rank among those of its host */
};
extern struct hosts hosts;

/* Collective. Fills `hosts` on every rank. */
void clocks_measure(void);
void clocks_free(void);

#endif
