#include "phase.h"
#include "base.h"
#include "clocks.h"
#include "own.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT_BYTES, COUNT_CALLS, COUNT_READS, COUNT_WRITES, COUNTS };

struct phase *phases;
int phase_count;

/* The phase that is being measured, of this rank. */
static struct phase now;
static int64_t my_parts[PART_COUNT], my_counts[COUNTS];
static struct system_calls calls_before;
static int room;
static struct step_times *step;
static enum part part_now;
static int64_t part_start_ns, next_mark_bytes, expected_bytes;
static int mark;

void phase_begin(const char *name, int repetition) {
    now = (struct phase){.repetition = repetition};
    print_into(now.name, sizeof now.name, "%s", name);
    memset(my_parts, 0, sizeof my_parts);
    memset(my_counts, 0, sizeof my_counts);
    room = 0;
    calls_before = storage_system_calls();
}

void step_begin(const char *name) {
    if (now.step_count == room) {
        room = room > 0 ? 2 * room : 8;
        now.steps = realloc(now.steps, (size_t)room * sizeof *now.steps);
        now.step_names = realloc(now.step_names, (size_t)room * sizeof *now.step_names);
        if (now.steps == NULL || now.step_names == NULL)
            FAIL("no memory for %d steps", room);
    }
    print_into(now.step_names[now.step_count], sizeof now.step_names[0], "%s", name);
    step = &now.steps[now.step_count++];
    *step = (struct step_times){0};
    mark = 0;
    next_mark_bytes = INT64_MAX;
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    own_is("is within step %s of %s %d", name, now.name, now.repetition);
    step->start_ns = now_ns();
}

void step_expects(int64_t bytes) {
    expected_bytes = bytes;
    next_mark_bytes = bytes / MARKS;
}

void step_progress(int64_t bytes) {
    if (bytes < next_mark_bytes || mark == MARKS)
        return;
    step->mark_ns[mark] = now_ns();
    step->mark_bytes[mark] = bytes;
    mark++;
    next_mark_bytes = bytes + expected_bytes / MARKS;
}

void part_begin(enum part part) {
    part_now = part;
    part_start_ns = now_ns();
}

void part_end(void) {
    int64_t took = now_ns() - part_start_ns;
    my_parts[part_now] += took;
    if (part_now == PART_TRANSFER || part_now == PART_FLUSH)
        step->transfer_ns += took;
}

void step_end(int64_t bytes, int64_t calls) {
    step->end_ns = now_ns();
    step->bytes = bytes;
    my_counts[COUNT_BYTES] += bytes;
    my_counts[COUNT_CALLS] += calls;
    own_is("is behind step %s of %s %d", now.step_names[now.step_count - 1], now.name, now.repetition);
}

/* The sums over all ranks, on rank 0. */
static struct residency residency_sum(const struct residency *mine) {
    int64_t values[3] = {mine->bytes, mine->resident_bytes, mine->dirty_bytes}, sums[3] = {0};
    int known = mine->known, all_known = 0;
    MPI(MPI_Reduce(values, sums, 3, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD));
    MPI(MPI_Reduce(&known, &all_known, 1, MPI_INT, MPI_LAND, 0, MPI_COMM_WORLD));
    return (struct residency){sums[0], sums[1], sums[2], all_known != 0};
}

/* `count` numbers of each rank, on rank 0; the caller frees. */
static int64_t *gather(const int64_t *mine, int count) {
    int64_t *all = run.rank == 0 ? allocate((size_t)run.ranks * (size_t)count * sizeof *all) : NULL;
    MPI(MPI_Gather(mine, count, MPI_INT64_T, all, count, MPI_INT64_T, 0, MPI_COMM_WORLD));
    return all;
}

void phase_end(const struct residency *before, const struct residency *after) {
    struct system_calls calls = storage_system_calls();
    /* The reading of /proc at the start of the phase is counted in it. */
    my_counts[COUNT_READS] = calls.reads < 0 ? -1 : calls.reads - calls_before.reads - 1;
    my_counts[COUNT_WRITES] = calls.writes < 0 ? -1 : calls.writes - calls_before.writes;
    const struct host *host = &hosts.all[hosts.of_rank[run.rank]];
    for (int s = 0; s < now.step_count; s++) {
        now.steps[s].start_ns -= host->offset_ns;
        now.steps[s].end_ns -= host->offset_ns;
        for (int i = 0; i < MARKS; i++)
            if (now.steps[s].mark_ns[i] != 0)
                now.steps[s].mark_ns[i] -= host->offset_ns;
    }
    struct step_times *mine = now.steps;
    now.steps =
        (struct step_times *)gather((int64_t *)mine, now.step_count * (int)(sizeof *mine / sizeof(int64_t)));
    free(mine);
    now.parts = gather(my_parts, PART_COUNT);
    now.counts = gather(my_counts, COUNTS);
    now.before = residency_sum(before);
    now.after = residency_sum(after);
    if (run.rank != 0) {
        free(now.step_names);
        return;
    }
    int64_t all_calls = 0;
    for (int r = 0; r < run.ranks; r++)
        all_calls += now.counts[r * COUNTS + COUNT_CALLS];
    now.figures = figures_of(now.steps, run.ranks, now.step_count, all_calls);
    phases = realloc(phases, (size_t)(phase_count + 1) * sizeof *phases);
    if (phases == NULL)
        FAIL("no memory for %d phases", phase_count + 1);
    phases[phase_count++] = now;
}

static void print_rank(struct json *json, const struct phase *phase, int rank) {
    const int64_t *parts = &phase->parts[rank * PART_COUNT], *counts = &phase->counts[rank * COUNTS];
    json_open(json, NULL, '{');
    json_whole(json, "rank", rank);
    json_whole(json, "host", hosts.of_rank[rank]);
    json_whole(json, "open_ns", parts[PART_OPEN]);
    json_whole(json, "xfer_ns", parts[PART_TRANSFER]);
    json_whole(json, "flush_ns", parts[PART_FLUSH]);
    json_whole(json, "close_ns", parts[PART_CLOSE]);
    json_whole(json, "bytes", counts[COUNT_BYTES]);
    json_whole(json, "calls", counts[COUNT_CALLS]);
    if (counts[COUNT_READS] >= 0) {
        json_whole(json, "system_calls_read", counts[COUNT_READS]);
        json_whole(json, "system_calls_write", counts[COUNT_WRITES]);
    }
    json_close(json, '}');
}

static int64_t origin_ns; /* of the times in a result: when the run's first step began */

/* Raw times of a step, one number for each rank; ns since the first step of the run. */
static void print_step(struct json *json, const struct phase *phase, int s) {
    int64_t *row = allocate((size_t)run.ranks * sizeof *row);
    json_open(json, NULL, '{');
    json_text(json, "name", phase->step_names[s]);
    const char *names[] = {"start_ns", "end_ns", "transfer_ns", "bytes"};
    for (int field = 0; field < 4; field++) {
        for (int r = 0; r < run.ranks; r++) {
            const struct step_times *times = &phase->steps[r * phase->step_count + s];
            const int64_t values[] = {times->start_ns - origin_ns, times->end_ns - origin_ns,
                                      times->transfer_ns, times->bytes};
            row[r] = values[field];
        }
        json_row(json, names[field], row, run.ranks);
    }
    json_open(json, "marks", '[');
    for (int r = 0; r < run.ranks; r++) {
        const struct step_times *times = &phase->steps[r * phase->step_count + s];
        int64_t pairs[2 * MARKS];
        int count = 0;
        for (int i = 0; i < MARKS && times->mark_ns[i] != 0; i++) {
            pairs[count++] = times->mark_ns[i] - origin_ns;
            pairs[count++] = times->mark_bytes[i];
        }
        json_row(json, NULL, pairs, count);
    }
    json_close(json, ']');
    json_close(json, '}');
    free(row);
}

static void print_cache(struct json *json, const char *name, const struct residency *cache) {
    json_open(json, name, '{');
    json_bool(json, "known", cache->known);
    json_whole(json, "bytes", cache->bytes);
    if (cache->known) {
        json_real(json, "resident_frac",
                  cache->bytes > 0 ? (double)cache->resident_bytes / (double)cache->bytes : 0);
        json_whole(json, "dirty_bytes", cache->dirty_bytes);
    }
    json_close(json, '}');
}

void phase_print(struct json *json, const struct phase *phase) {
    const struct figures *f = &phase->figures;
    origin_ns = phases[0].figures.first_start_ns;
    json_open(json, NULL, '{');
    json_text(json, "name", phase->name);
    json_whole(json, "rep", phase->repetition);
    json_whole(json, "bytes", f->bytes);
    json_whole(json, "calls", f->calls);
    json_whole(json, "first_start_ns", f->first_start_ns - origin_ns);
    json_whole(json, "first_end_ns", f->first_end_ns - origin_ns);
    json_whole(json, "last_end_ns", f->last_end_ns - origin_ns);
    json_whole(json, "time_ns", f->time_ns);
    json_whole(json, "transfer_ns", f->transfer_ns);
    json_whole(json, "first_done_ns", f->first_done_ns);
    json_whole(json, "first_done_bytes", f->first_done_bytes);
    json_whole(json, "start_skew_ns_max", f->start_skew_ns_max);
    json_real(json, "end_skew", f->end_skew);
    json_real(json, "bw_last_done", f->bw_last_done);
    json_real(json, "bw_transfer", f->bw_transfer);
    json_real(json, "bw_first_done", f->bw_first_done);
    json_real(json, "ops_per_s", f->ops_per_s);
    print_cache(json, "cache_before", &phase->before);
    print_cache(json, "cache_after", &phase->after);
    json_open(json, "ranks", '[');
    for (int r = 0; r < run.ranks; r++)
        print_rank(json, phase, r);
    json_close(json, ']');
    json_open(json, "steps", '[');
    for (int s = 0; s < phase->step_count; s++)
        print_step(json, phase, s);
    json_close(json, ']');
    json_close(json, '}');
}

void phases_free(void) {
    for (int i = 0; i < phase_count; i++) {
        free(phases[i].step_names);
        free(phases[i].steps);
        free(phases[i].parts);
        free(phases[i].counts);
    }
    free(phases);
}
