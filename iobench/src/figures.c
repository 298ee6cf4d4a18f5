#include "figures.h"

#include <math.h>
#include <stdlib.h>

static int64_t known_by(const struct step_times *step, int64_t moment) {
    if (step->end_ns <= moment)
        return step->bytes;
    int64_t bytes = 0;
    for (int i = 0; i < MARKS; i++)
        if (step->mark_ns[i] != 0 && step->mark_ns[i] <= moment && step->mark_bytes[i] > bytes)
            bytes = step->mark_bytes[i];
    return bytes;
}

static double rate(int64_t amount, int64_t ns) {
    return ns > 0 ? (double)amount * 1e9 / (double)ns : 0;
}

struct figures figures_of(const struct step_times *steps, int ranks, int step_count, int64_t calls) {
    struct figures f = {.calls = calls};
    int64_t tail_ns = 0;
    for (int s = 0; s < step_count; s++) {
        int64_t first_start = INT64_MAX, last_start = INT64_MIN;
        int64_t first_end = INT64_MAX, last_end = INT64_MIN, transfer = 0;
        for (int r = 0; r < ranks; r++) {
            const struct step_times *step = &steps[r * step_count + s];
            first_start = step->start_ns < first_start ? step->start_ns : first_start;
            last_start = step->start_ns > last_start ? step->start_ns : last_start;
            first_end = step->end_ns < first_end ? step->end_ns : first_end;
            last_end = step->end_ns > last_end ? step->end_ns : last_end;
            transfer = step->transfer_ns > transfer ? step->transfer_ns : transfer;
            f.bytes += step->bytes;
        }
        for (int r = 0; r < ranks; r++)
            f.first_done_bytes += known_by(&steps[r * step_count + s], first_end);
        if (s == 0)
            f.first_start_ns = first_start;
        f.first_end_ns = first_end;
        f.last_end_ns = last_end;
        f.time_ns += last_end - first_start;
        f.first_done_ns += first_end - first_start;
        f.transfer_ns += transfer;
        tail_ns += last_end - first_end;
        if (last_start - first_start > f.start_skew_ns_max)
            f.start_skew_ns_max = last_start - first_start;
    }
    f.end_skew = f.time_ns > 0 ? (double)tail_ns / (double)f.time_ns : 0;
    f.bw_last_done = rate(f.bytes, f.time_ns);
    f.bw_transfer = rate(f.bytes, f.transfer_ns);
    f.bw_first_done = rate(f.first_done_bytes, f.first_done_ns);
    f.ops_per_s = rate(calls, f.time_ns);
    return f;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double figures_median(double *values, int count) {
    if (count == 0)
        return NAN;
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

int figures_interval(int count, int *low, int *high) {
    /* tail: the probability that at most k of `count` values lie below the median. */
    double term = pow(0.5, count), tail = 0;
    int k = -1;
    while (k + 1 < count / 2 && tail + term <= 0.025) {
        tail += term;
        k++;
        term *= (double)(count - k) / (double)(k + 1);
    }
    if (k < 0)
        return 0;
    *low = k;
    *high = count - 1 - k;
    return 1;
}
