/* The figures of a phase from its raw times. The one place where they are computed;
 * iobench/README.md defines them. Pure.
 *
 * A phase is a sequence of steps. All ranks begin a step together, after a barrier, and what a kernel does
 * between two steps (making values, checking them) is in no figure. All times are ns on the clock of rank 0.
 */
#ifndef IOBENCH_FIGURES_H
#define IOBENCH_FIGURES_H

#include <stdint.h>

/* Marks of how far a rank's transfer was, within a step. */
#define MARKS 8

/* A step as one rank saw it. All fields are int64_t, since they travel as an array of such. */
struct step_times {
    int64_t start_ns, end_ns;
    int64_t transfer_ns;    /* reading or writing and flushing, without opening and closing */
    int64_t bytes;          /* payload */
    int64_t mark_ns[MARKS]; /* when so many bytes had been transferred; 0: there is no such mark */
    int64_t mark_bytes[MARKS];
};

struct figures {
    int64_t bytes;             /* payload of all ranks */
    int64_t calls;             /* of all ranks */
    int64_t first_start_ns;    /* of the first step */
    int64_t first_end_ns;      /* of the last step: when its first rank ended */
    int64_t last_end_ns;       /* of the last step */
    int64_t time_ns;           /* sum over the steps: last end - first start */
    int64_t transfer_ns;       /* sum over the steps: the largest transfer_ns of a rank */
    int64_t first_done_ns;     /* sum over the steps: first end - first start */
    int64_t first_done_bytes;  /* what is known to have been transferred by then: the last marks before it */
    int64_t start_skew_ns_max; /* largest over the steps: last start - first start */
    double end_skew;           /* (sum over the steps: last end - first end) / time_ns */
    double bw_last_done;       /* bytes / time, B/s */
    double bw_transfer;        /* bytes / transfer, B/s */
    double bw_first_done;      /* first_done_bytes / first_done, B/s */
    double ops_per_s;          /* calls / time */
};

/* `steps[r * step_count + s]` is step s of rank r. */
struct figures figures_of(const struct step_times *steps, int ranks, int step_count, int64_t calls);

/* Median of `count` values, which are sorted in place. */
double figures_median(double *values, int count);

/* Ranks (from 0) of the two sorted values between which the median lies with at least 95 % (order statistics
 * of the binomial distribution); 0 when so few values do not tell, which is below 6. */
int figures_interval(int count, int *low, int *high);

#endif
