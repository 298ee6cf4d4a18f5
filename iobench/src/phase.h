/* Phases and their steps: measured on every rank, gathered on rank 0.
 *
 * A phase is one pass over a data set (`write`, repetition 3). Its steps begin together after a barrier.
 * Within a step, what is done is timed by kind: opening, transferring, flushing, closing. All ranks have the
 * same steps in the same order. */
#ifndef IOBENCH_PHASE_H
#define IOBENCH_PHASE_H

#include "figures.h"
#include "json.h"
#include "storage.h"

enum part { PART_OPEN, PART_TRANSFER, PART_FLUSH, PART_CLOSE, PART_COUNT };

/* Collective. Begins a phase; there is one at a time. */
void phase_begin(const char *name, int repetition);

/* Collective: has a barrier. The name tells steps of a phase apart. */
void step_begin(const char *name);

/* Between these, time counts as the part; parts of a step do not overlap. */
void part_begin(enum part part);
void part_end(void);

/* So many payload bytes of this step have been transferred; cheap enough to be called after every block. */
void step_progress(int64_t bytes);

/* Payload and calls of this step on this rank. */
void step_end(int64_t bytes, int64_t calls);

/* Collective. Ends the phase and keeps it, on rank 0, with what was known of the page cache before and after.
 */
void phase_end(const struct residency *before, const struct residency *after);

/* The payload that this rank will transfer in the step, for its marks. Before the first step_progress. */
void step_expects(int64_t bytes);

/* Rank 0: the phases kept so far. */
struct phase {
    char name[48];
    int repetition, step_count;
    char (*step_names)[48];
    struct step_times *steps;       /* [rank][step] */
    int64_t *parts;                 /* [rank][PART_COUNT] */
    int64_t *counts;                /* [rank][bytes, calls, system calls that read, that wrote] */
    struct residency before, after; /* sums over the ranks */
    struct figures figures;
};
extern struct phase *phases;
extern int phase_count;

void phase_print(struct json *json, const struct phase *phase);
void phases_free(void);

#endif
