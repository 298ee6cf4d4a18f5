#include "result.h"
#include "base.h"
#include "clocks.h"
#include "machine.h"
#include "phase.h"
#include "verify.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char started_at[32];
static double load_before[3];
static bool load_known;
static struct mount mounted;
static int64_t begun_ns;

/* All repetitions of the phases of one name. */
struct series {
    const char *name;
    int count;
    int64_t bytes, calls, time_ns, transfer_ns, first_done_ns, first_done_bytes;
    double *rates; /* bw_last_done of each, sorted; freed with series_free */
    double median, low, high;
    bool interval;
};

static void add(char texts[REASONS_MAX][TEXT_MAX], int *count, const char *format, va_list list) {
    if (*count < REASONS_MAX)
        vsnprintf(texts[(*count)++], TEXT_MAX, format, list);
}

void verdict_reason(struct verdict *verdict, const char *format, ...) {
    va_list list;
    va_start(list, format);
    add(verdict->reasons, &verdict->reason_count, format, list);
    va_end(list);
}

void verdict_note(struct verdict *verdict, const char *format, ...) {
    va_list list;
    va_start(list, format);
    add(verdict->notes, &verdict->note_count, format, list);
    va_end(list);
}

void result_begin(const struct kernel *kernel) {
    (void)kernel;
    machine_time(started_at, sizeof started_at);
    load_known = machine_load(load_before);
    mounted = storage_mount(settings.dir);
    begun_ns = now_ns();
}

void result_instance(const struct kernel *kernel, char *out, size_t size) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (stream == NULL)
        FAIL("no memory for a text");
    struct json json = {.out = stream};
    json_open(&json, NULL, '{');
    kernel->parameters(&json);
    json_close(&json, '}');
    if (fclose(stream) != 0)
        FAIL("no memory for a text");
    size_t kept = 0;
    for (size_t i = 0; i < length; i++)
        if (strchr(" \n", text[i]) == NULL)
            text[kept++] = text[i];
    text[kept] = '\0';
    print_into(out, size, "%s ranks=%d reps=%" PRId64 " seed=%" PRId64 " %s", kernel->name, run.ranks,
               settings.repetitions, settings.seed, text);
    free(text);
}

/* The n-th name of a phase, in order of appearance, with all that has it; false when there is none. */
static bool series_of(int n, struct series *series) {
    int place = -1, first = -1;
    for (int i = 0; i < phase_count && first < 0; i++) {
        bool seen = false;
        for (int j = 0; j < i; j++)
            seen = seen || strcmp(phases[j].name, phases[i].name) == 0;
        place += !seen;
        if (!seen && place == n)
            first = i;
    }
    if (first < 0)
        return false;
    *series =
        (struct series){.name = phases[first].name, .rates = allocate((size_t)phase_count * sizeof(double))};
    for (int i = first; i < phase_count; i++) {
        const struct figures *f = &phases[i].figures;
        if (strcmp(phases[i].name, series->name) != 0)
            continue;
        series->bytes += f->bytes;
        series->calls += f->calls;
        series->time_ns += f->time_ns;
        series->transfer_ns += f->transfer_ns;
        series->first_done_ns += f->first_done_ns;
        series->first_done_bytes += f->first_done_bytes;
        series->rates[series->count++] = f->bw_last_done;
    }
    series->median = figures_median(series->rates, series->count);
    int low = 0, high = 0;
    series->interval = figures_interval(series->count, &low, &high) != 0;
    series->low = series->rates[low];
    series->high = series->rates[high];
    return true;
}

static double per_second(int64_t amount, int64_t ns) {
    return ns > 0 ? (double)amount * 1e9 / (double)ns : 0;
}

static bool is_read(const char *name) {
    size_t length = strlen(name);
    return length >= 4 && strcmp(name + length - 4, "read") == 0;
}

static double share(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

static void judge_cache(const struct phase *phase, struct verdict *verdict) {
    double resident = share(phase->before.resident_bytes, phase->before.bytes);
    if (!is_read(phase->name) || settings.cache == CACHE_ANY)
        return;
    if (!phase->before.known)
        verdict_reason(verdict,
                       "cache: %s %d: its state cannot be proven: cachestat(2) tells nothing here (an "
                       "overlay, or Linux before 6.5)",
                       phase->name, phase->repetition);
    else if (settings.cache == CACHE_COLD && resident > 0.01)
        verdict_reason(verdict, "cache: %s %d was to be cold, and %.1f %% was in the page cache before",
                       phase->name, phase->repetition, resident * 100);
    else if (settings.cache == CACHE_WARM && resident < 0.99)
        verdict_reason(verdict, "cache: %s %d was to be warm, and only %.1f %% was in the page cache before",
                       phase->name, phase->repetition, resident * 100);
}

static void judge_written(const struct kernel *kernel, const struct phase *phase, struct verdict *verdict) {
    int64_t tail = 0;
    if (is_read(phase->name))
        return;
    if (settings.fsync == FSYNC_FILE && !phase->after.known)
        verdict_reason(verdict,
                       "durable: %s %d: cannot be proven: cachestat(2) tells nothing here (an overlay, or "
                       "Linux before 6.5)",
                       phase->name, phase->repetition);
    else if (settings.fsync == FSYNC_FILE && phase->after.dirty_bytes > 0)
        verdict_reason(verdict, "durable: %s %d: after fsync %" PRId64 " bytes are dirty", phase->name,
                       phase->repetition, phase->after.dirty_bytes);
    if (kernel->direct != NULL && kernel->direct(&tail) && !phase->after.known)
        verdict_reason(verdict,
                       "direct: %s %d: cannot be proven: cachestat(2) tells nothing here (an overlay, or "
                       "Linux before 6.5)",
                       phase->name, phase->repetition);
    else if (kernel->direct != NULL && kernel->direct(&tail) && phase->after.resident_bytes > tail)
        verdict_reason(verdict,
                       "direct: %s %d: O_DIRECT was asked for, and %" PRId64
                       " bytes went through the page cache: %s takes O_DIRECT and does not do it",
                       phase->name, phase->repetition, phase->after.resident_bytes, mounted.type);
}

/* One note a name, about the worst repetition. */
static void note_worst(const char *name, struct verdict *verdict) {
    double skew = 0, tail = 0, resident = 0;
    for (int i = 0; i < phase_count; i++) {
        const struct phase *phase = &phases[i];
        if (strcmp(phase->name, name) != 0)
            continue;
        skew = fmax(skew, share(phase->figures.start_skew_ns_max, phase->figures.time_ns));
        tail = fmax(tail, phase->figures.end_skew);
        if (is_read(name) && phase->before.known)
            resident = fmax(resident, share(phase->before.resident_bytes, phase->before.bytes));
    }
    if (settings.cache == CACHE_ANY && resident > 0.5)
        verdict_note(verdict, "%s: up to %.0f %% of what it read was in the page cache before", name,
                     resident * 100);
    if (skew > 0.01)
        verdict_note(verdict, "%s: ranks began a step up to %.0f %% of its repetition's time apart", name,
                     skew * 100);
    if (tail > 0.5)
        verdict_note(verdict, "%s: for up to %.0f %% of the time some rank had ended already", name,
                     tail * 100);
}

static void judge_verification(const struct kernel *kernel, struct verdict *verdict) {
    int64_t expected = kernel->payload() * settings.repetitions;
    for (int i = 0; i < verification.details; i++)
        verdict_reason(verdict, "verification: %s", verification.detail[i]);
    if (verdict->failed)
        return;
    if ((settings.phases & PHASE_READ) == 0)
        verdict_reason(verdict, "verification: nothing was read back");
    else if (verification.checked_bytes < expected)
        verdict_reason(verdict, "verification: of %" PRId64 " bytes only %" PRId64 " were checked", expected,
                       verification.checked_bytes);
}

/* All writing together, and all reading, must take long enough that chance is small beside it. */
static void judge_duration(struct verdict *verdict) {
    int64_t times[2] = {0, 0};
    for (int i = 0; i < phase_count; i++)
        times[is_read(phases[i].name)] += phases[i].figures.time_ns;
    for (int reading = 0; reading < 2; reading++)
        if ((settings.phases & (reading ? PHASE_READ : PHASE_WRITE)) != 0 &&
            (double)times[reading] < settings.min_seconds * 1e9 && !verdict->failed)
            verdict_reason(verdict,
                           "duration: %s took %.3f s in all, and at least %g s are asked for (more --reps, "
                           "or --min-seconds)",
                           reading ? "reading" : "writing", (double)times[reading] / 1e9,
                           settings.min_seconds);
}

void result_judge(const struct kernel *kernel, struct verdict *verdict) {
    struct series series;
    for (int i = 0; i < 4 && kernel->notes[i] != NULL; i++)
        verdict_note(verdict, "%s", kernel->notes[i]);
    judge_verification(kernel, verdict);
    if (kernel->judge != NULL)
        kernel->judge(verdict);
    for (int i = 0; i < phase_count; i++) {
        judge_cache(&phases[i], verdict);
        judge_written(kernel, &phases[i], verdict);
    }
    judge_duration(verdict);
    if (settings.size != SIZE_TINY && settings.repetitions < 5)
        verdict_reason(verdict, "repetitions: %" PRId64 ", and at least 5 are needed", settings.repetitions);
    if (strcmp(mounted.type, "tmpfs") == 0)
        verdict_note(verdict, "%s is in memory (tmpfs): nothing here is about a disk", settings.dir);
    if (settings.fsync == FSYNC_NONE && (settings.phases & PHASE_WRITE) != 0)
        verdict_note(verdict, "buffered: no fsync, so writing may have ended in the page cache");
    if (settings.read_shift % run.ranks == 0)
        verdict_note(verdict, "each rank has read what it wrote itself");
    for (int n = 0; series_of(n, &series); n++) {
        note_worst(series.name, verdict);
        free(series.rates);
    }
}

static void print_instance(struct json *json, const struct kernel *kernel) {
    char text[TEXT_MAX], digest[64];
    result_instance(kernel, text, sizeof text);
    print_into(digest, sizeof digest, "fnv1a64:%016" PRIx64, machine_digest(text));
    json_open(json, "instance", '{');
    json_text(json, "hash", digest);
    json_open(json, "params", '{');
    kernel->parameters(json);
    json_close(json, '}');
    json_whole(json, "seed", settings.seed);
    json_whole(json, "ranks", run.ranks);
    json_whole(json, "reps", settings.repetitions);
    json_whole(json, "bytes_rep", kernel->payload());
    json_whole(json, "bytes", kernel->payload() * settings.repetitions);
    json_close(json, '}');
}

static void print_conditions(struct json *json, const struct kernel *kernel) {
    int64_t tail = 0;
    json_open(json, "conditions", '{');
    json_text(json, "cache", options_word("any|warm|cold", settings.cache));
    json_bool(json, "durable", settings.fsync == FSYNC_FILE);
    json_bool(json, "direct", kernel->direct != NULL && kernel->direct(&tail));
    json_real(json, "compute_s", settings.compute_s);
    json_whole(json, "read_shift", settings.read_shift);
    json_bool(json, "write", (settings.phases & PHASE_WRITE) != 0);
    json_bool(json, "read", (settings.phases & PHASE_READ) != 0);
    json_close(json, '}');
}

static void print_hosts(struct json *json) {
    char text[64];
    json_open(json, "hosts", '[');
    for (int i = 0; i < hosts.count; i++) {
        json_open(json, NULL, '{');
        print_into(text, sizeof text, "fnv1a64:%016" PRIx64, machine_digest(hosts.all[i].name));
        json_text(json, "hostname_hash", text);
        json_whole(json, "slots", hosts.all[i].ranks);
        json_whole(json, "clock_offset_ns", hosts.all[i].offset_ns);
        json_whole(json, "clock_bound_ns", hosts.all[i].bound_ns);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void print_derived(struct json *json) {
    struct series s;
    json_open(json, "derived", '[');
    for (int n = 0; series_of(n, &s); n++) {
        json_open(json, NULL, '{');
        json_text(json, "name", s.name);
        json_whole(json, "reps", s.count);
        json_whole(json, "bytes", s.bytes);
        json_real(json, "time_s", (double)s.time_ns / 1e9);
        json_real(json, "bw_last_done", per_second(s.bytes, s.time_ns));
        json_real(json, "bw_transfer", per_second(s.bytes, s.transfer_ns));
        json_real(json, "bw_first_done", per_second(s.first_done_bytes, s.first_done_ns));
        json_real(json, "ops_per_s", per_second(s.calls, s.time_ns));
        json_real(json, "median_bw", s.median);
        json_real(json, "min_bw", s.rates[0]);
        json_real(json, "max_bw", s.rates[s.count - 1]);
        if (s.interval) {
            json_open(json, "ci95", '[');
            json_real(json, NULL, s.low);
            json_real(json, NULL, s.high);
            json_close(json, ']');
        } else {
            json_null(json, "ci95");
        }
        json_close(json, '}');
        free(s.rates);
    }
    json_close(json, ']');
}

static void print_texts(struct json *json, const char *name, char texts[][TEXT_MAX], int count) {
    json_open(json, name, '[');
    for (int i = 0; i < count; i++)
        json_text(json, NULL, texts[i]);
    json_close(json, ']');
}

static void print_engine(struct json *json) {
    json_open(json, "engine", '{');
    json_text(json, "name", getenv("OMPI_COMM_WORLD_SIZE") != NULL ? "mpirun" : "mpi");
    json_whole(json, "slots", run.ranks);
    json_close(json, '}');
    json_open(json, "adapter", '{');
    json_text(json, "name", "builtin");
    json_text(json, "version", IOBENCH_VERSION);
    json_close(json, '}');
}

static void print_result(struct json *json, const struct kernel *kernel, const struct verdict *verdict) {
    char id[40], ended_at[32];
    machine_uuid(id, sizeof id);
    machine_time(ended_at, sizeof ended_at);
    json_open(json, NULL, '{');
    json_text(json, "schema", "rakuda-bench/1");
    json_text(json, "id", id);
    json_text(json, "suite_version", IOBENCH_VERSION);
    json_text(json, "benchmark", kernel->name);
    json_text(json, "family", kernel->family);
    json_text(json, "size", options_word("tiny|small|large", settings.size));
    print_instance(json, kernel);
    print_engine(json);
    print_conditions(json, kernel);
    machine_print(json, settings.dir, kernel->software);
    if (load_known) {
        json_open(json, "loadavg_before", '[');
        for (int i = 0; i < 3; i++)
            json_real(json, NULL, load_before[i]);
        json_close(json, ']');
    }
    print_hosts(json);
    json_open(json, "phases", '[');
    for (int i = 0; i < phase_count; i++)
        phase_print(json, &phases[i]);
    json_close(json, ']');
    print_derived(json);
    json_real(json, "makespan_s", (double)(now_ns() - begun_ns) / 1e9);
    json_open(json, "verification", '{');
    json_text(json, "method", "formula");
    json_whole(json, "checked_bytes", verification.checked_bytes);
    json_whole(json, "errors", verification.wrong_bytes);
    print_texts(json, "detail", verification.detail, verification.details);
    json_close(json, '}');
    json_bool(json, "valid", verdict->reason_count == 0);
    print_texts(json, "reasons", (char(*)[TEXT_MAX])verdict->reasons, verdict->reason_count);
    print_texts(json, "notes", (char(*)[TEXT_MAX])verdict->notes, verdict->note_count);
    json_text(json, "started_at", started_at);
    json_text(json, "ended_at", ended_at);
    json_close(json, '}');
}

bool result_can_write(const struct kernel *kernel) {
    char part[PATH_LENGTH_MAX];
    print_into(part, sizeof part, "%s.part", settings.out);
    FILE *file = fopen(part, "we");
    if (file != NULL) {
        fclose(file);
        unlink(part);
        return true;
    }
    note_error("cannot write the result of %s, --out %s: %s", kernel->name, settings.out, strerror(errno));
    return false;
}

bool result_write(const struct kernel *kernel, const struct verdict *verdict) {
    char part[PATH_LENGTH_MAX];
    print_into(part, sizeof part, "%s.part", settings.out);
    FILE *file = fopen(part, "we");
    bool written = file != NULL;
    if (written) {
        struct json json = {.out = file};
        print_result(&json, kernel, verdict);
        written = ferror(file) == 0;
        written = fclose(file) == 0 && written && rename(part, settings.out) == 0;
    }
    if (!written)
        fprintf(stderr, "%s: cannot write the result --out %s: %s\n", kernel->name, settings.out,
                strerror(errno));
    return written;
}

void result_print(const struct kernel *kernel, const struct verdict *verdict) {
    struct series s;
    char instance[TEXT_MAX];
    result_instance(kernel, instance, sizeof instance);
    printf("%s\n", instance);
    printf("%-16s %4s %12s %10s %10s %10s %10s %12s\n", "phase", "reps", "MB", "s", "MB/s", "transfer",
           "first done", "operations/s");
    for (int n = 0; series_of(n, &s); n++) {
        printf("%-16s %4d %12.3f %10.4f %10.1f %10.1f %10.1f %12.0f\n", s.name, s.count,
               (double)s.bytes / 1e6, (double)s.time_ns / 1e9, per_second(s.bytes, s.time_ns) / 1e6,
               per_second(s.bytes, s.transfer_ns) / 1e6,
               per_second(s.first_done_bytes, s.first_done_ns) / 1e6, per_second(s.calls, s.time_ns));
        free(s.rates);
    }
    printf("verified %" PRId64 " bytes, %" PRId64 " wrong; %s\n", verification.checked_bytes,
           verification.wrong_bytes, verdict->reason_count == 0 ? "valid" : "NOT VALID");
    for (int i = 0; i < verdict->note_count; i++)
        printf("note: %s\n", verdict->notes[i]);
}
