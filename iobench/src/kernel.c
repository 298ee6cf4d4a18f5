#include "kernel.h"
#include "base.h"
#include "clocks.h"
#include "own.h"
#include "phase.h"
#include "quota.h"
#include "result.h"
#include "verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARKER ".iobench"
#define SPACE_FACTOR 1.2

struct settings settings;
static const struct kernel *kernel;
static char folder[PATH_LENGTH_MAX];
static int64_t started_ns;

static const struct option common[] = {
    {"dir", OPTION_TEXT, &settings.dir, 0, 0, "DIR", "where to make the folder of the run (.)", NULL},
    {"name", OPTION_TEXT, &settings.name, 0, 0, "NAME", "its name; must not be there yet (the kernel's name)",
     NULL},
    {"size", OPTION_WORD, &settings.size, 0, 0, "tiny|small|large",
     "sets what follows below; tiny by default", NULL},
    {"phases", OPTION_WORDS, &settings.phases, 0, 0, "write|read", "which, with a comma; both by default",
     NULL},
    {"reps", OPTION_COUNT, &settings.repetitions, 1, 9999, "N",
     "repetitions: epochs, configurations, outputs", NULL},
    {"compute", OPTION_TIME, &settings.compute_s, 0, 0, "SECONDS", "time to compute between two writes (0)",
     NULL},
    {"fsync", OPTION_WORD, &settings.fsync, 0, 0, "none|file", "fsync each file, timed as flush (none)",
     NULL},
    {"cache", OPTION_WORD, &settings.cache, 0, 0, "any|warm|cold", "the page cache before reading (any)",
     NULL},
    {"read-shift", OPTION_COUNT, &settings.read_shift, 0, 1 << 30, "N",
     "rank r reads what r+N wrote (another host, else 1)", NULL},
    {"ignore-space", OPTION_SWITCH, &settings.ignore_space, 0, 0, NULL,
     "do not ask the file system whether there is room", NULL},
    {"seed", OPTION_COUNT, &settings.seed, 0, INT64_MAX, "N", "of the contents (1)", NULL},
    {"keep", OPTION_SWITCH, &settings.keep, 0, 0, NULL, "leave the files; also when only writing", NULL},
    {"time-limit", OPTION_TIME, &settings.time_limit_s, 0, 0, "SECONDS",
     "end as invalid after that (0: never)", NULL},
    {"hard-limit", OPTION_TIME, &settings.hard_limit_s, 0, 0, "SECONDS",
     "end within a step, too, and say where (1.5 times --time-limit, at least 10 s later)", NULL},
    {"min-seconds", OPTION_TIME, &settings.min_seconds, 0, 0, "SECONDS",
     "invalid when all writing, or all reading, takes less (0, small 10, large 60)", NULL},
    {"out", OPTION_TEXT, &settings.out, 0, 0, "FILE", "the result as JSON", NULL},
    {"quiet", OPTION_SWITCH, &settings.quiet, 0, 0, NULL, "no text on stdout", NULL},
    {"dry-run", OPTION_SWITCH, &settings.dry_run, 0, 0, NULL,
     "print files, offsets and sizes; needs --np, and no MPI", NULL},
    {"np", OPTION_COUNT, &settings.np, 1, 1 << 20, "N", "ranks of the dry run", NULL},
    {"clean", OPTION_SWITCH, &settings.clean, 0, 0, NULL,
     "remove what a killed run with these options has left", NULL},
    {"help", OPTION_SWITCH, &settings.help, 0, 0, NULL, "this text", NULL},
    {"version", OPTION_SWITCH, &settings.version, 0, 0, NULL, "the version", NULL},
    {0},
};

void kernel_path(const char *below, char *out, size_t size) {
    print_into(out, size, "%s/%s", folder, below);
}

int kernel_source(void) {
    return (int)((run.rank + settings.read_shift) % run.ranks);
}

void kernel_grid(int ranks, int64_t *grid, int count) {
    for (int i = 0; i < count; i++)
        grid[i] = 1;
    /* Prime factors from the largest, each to the smallest number so far. */
    int factors[32], found = 0, rest = ranks;
    for (int factor = 2; factor * factor <= rest; factor++)
        for (; rest % factor == 0; rest /= factor)
            factors[found++] = factor;
    if (rest > 1)
        factors[found++] = rest;
    while (found-- > 0) {
        int smallest = 0;
        for (int i = 1; i < count; i++)
            smallest = grid[i] < grid[smallest] ? i : smallest;
        grid[smallest] *= factors[found];
    }
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++)
            if (grid[j] > grid[i]) {
                int64_t swap = grid[i];
                grid[i] = grid[j];
                grid[j] = swap;
            }
}

/* Sizes come first, whatever the order on the command line: the tables are read twice. */
static void read_command_line(int argc, char **argv) {
    const struct option *const tables[] = {common, kernel->options, NULL};
    settings =
        (struct settings){.dir = ".", .name = kernel->name, .seed = 1, .phases = PHASE_WRITE | PHASE_READ};
    settings.read_shift = settings.repetitions = -1;
    settings.min_seconds = -1;
    options_read(argc, argv, tables);
    kernel->size(settings.size);
    options_read(argc, argv, tables);
    if (settings.min_seconds < 0)
        settings.min_seconds = settings.size == SIZE_TINY ? 0 : settings.size == SIZE_SMALL ? 10 : 60;
    if (settings.phases == PHASE_WRITE || settings.phases == PHASE_READ)
        settings.keep = true;
    if (strchr(settings.name, '/') != NULL || settings.name[0] == '.')
        usage_error("--name %s: expected a name without / that does not begin with a dot", settings.name);
    if ((settings.phases & PHASE_READ) == 0 && settings.cache != CACHE_ANY)
        usage_error("--cache is about reading: add read to --phases");
    print_into(folder, sizeof folder, "%s/%s", settings.dir, settings.name);
}

static void help(void) {
    const struct option *const tables[] = {common, kernel->options, NULL};
    printf("%s: %s\nusage: mpirun -n RANKS %s [OPTION...]\n\n", kernel->name, kernel->about, kernel->name);
    options_help(tables);
    printf("\nExit status: 0 valid, 1 failed, 2 usage, 3 ran but the result is not valid.\n");
}

/* Everything that a rank makes is declared before anything is made. */
static void declare_rank(int rank) {
    char below[PATH_LENGTH_MAX], path[PATH_LENGTH_MAX];
    if (rank == 0) {
        kernel_path(MARKER, path, sizeof path);
        own_declare_file(path);
    }
    for (int64_t repetition = 0; repetition < settings.repetitions; repetition++)
        for (int n = 0; kernel->file(rank, repetition, n, below, sizeof below); n++) {
            kernel_path(below, path, sizeof path);
            own_declare_file(path);
        }
}

static void declare_folders(void) {
    char below[PATH_LENGTH_MAX], path[PATH_LENGTH_MAX];
    own_declare_folder(folder);
    for (int n = 0; kernel->folder(n, below, sizeof below); n++) {
        kernel_path(below, path, sizeof path);
        own_declare_folder(path);
    }
}

static void declare(void) {
    declare_folders();
    declare_rank(run.rank);
    if (run.ranks > 1)
        declare_rank((run.rank + 1) % run.ranks);
}

/* Rank 0 makes the folder and, in it, the marker that says with which parameters. */
static void make_folder(const char *instance) {
    int made = 0;
    if (run.rank == 0) {
        char path[PATH_LENGTH_MAX];
        kernel_path(MARKER, path, sizeof path);
        if (mkdir(folder, 0777) != 0) {
            if (errno == EEXIST)
                note_error("%s is there already: choose another --name, or, when a killed run has left it, "
                           "give the same "
                           "options and --clean",
                           folder);
            else
                note_error("cannot make %s: %s", folder, strerror(errno));
        } else {
            own_arm();
            made = 1;
            FILE *marker = fopen(path, "wxe");
            if (marker == NULL || fprintf(marker, "%s\n", instance) < 0 || fclose(marker) != 0)
                note_error("cannot write %s: %s", path, strerror(errno));
        }
    }
    MPI(MPI_Bcast(&made, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (made)
        own_arm();
}

/* The folder is there, was made with these parameters, and is the same folder on every host. */
static void check_folder(const char *instance) {
    char path[PATH_LENGTH_MAX], text[TEXT_MAX] = "";
    kernel_path(MARKER, path, sizeof path);
    FILE *marker = fopen(path, "re");
    if (marker == NULL) {
        note_error("cannot open %s: %s; expected a folder that a run of %s has kept, and on several hosts a "
                   "--dir that they "
                   "share",
                   path, strerror(errno), kernel->name);
        return;
    }
    if (fgets(text, sizeof text, marker) == NULL)
        text[0] = '\0';
    fclose(marker);
    text[strcspn(text, "\n")] = '\0';
    if (strcmp(text, instance) != 0)
        note_error("%s was written as '%s', and this is '%s': give the same kernel, ranks and parameters",
                   folder, text, instance);
}

static void clean(const char *instance) {
    check_folder(instance);
    if (run.error[0] == '\0') {
        declare_folders();
        for (int rank = 0; rank < run.ranks; rank++)
            declare_rank(rank);
        own_arm();
        own_remove_in_haste();
        own_disarm();
        if (access(folder, F_OK) == 0)
            note_error("%s holds something that no such run has made; that is left", folder);
    }
    if (run.error[0] != '\0')
        fprintf(stderr, "%s: %s\n", kernel->name, run.error);
}

static void check_space(double factor, int64_t bytes, const char *what) {
    if (run.rank != 0 || settings.ignore_space)
        return;
    int64_t available = storage_free(settings.dir), left = quota_left(settings.dir);
    const char *what_is = left < available ? "that the quota leaves" : "free";
    available = left < available ? left : available;
    if (available < 0)
        note_error("--dir %s: %s", settings.dir, strerror(errno));
    else if ((double)available < factor * (double)bytes)
        note_error("%s: too little space for %s: %" PRId64 " bytes %s, %.0f needed%s", settings.dir, what,
                   available, what_is, factor * (double)bytes, factor > 1 ? " (1.2 times the files)" : "");
}

/* Collective. False when the time is over. */
static bool time_left(struct verdict *verdict) {
    int left = settings.time_limit_s <= 0 || (double)(now_ns() - started_ns) < settings.time_limit_s * 1e9;
    MPI(MPI_Bcast(&left, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (!left && run.rank == 0) {
        verdict_reason(verdict, "time: --time-limit %g passed before all was done", settings.time_limit_s);
        verdict->failed = true;
    }
    return left != 0;
}

/* Keeps a core busy, as the simulation between two outputs does. */
static void compute(void) {
    int64_t end = now_ns() + (int64_t)(settings.compute_s * 1e9);
    volatile double value = 1;
    while (now_ns() < end)
        for (int i = 0; i < 10000; i++)
            value = value * 1.0000001 + 1e-9;
}

/* The files that this rank looks at in the page cache: `reading`: those that it will read; else those that it
 * has written. Of shared files each host looks once. */
static void each_file(bool reading, int64_t repetition, bool (*visit)(const char *, void *), void *context) {
    char below[PATH_LENGTH_MAX], path[PATH_LENGTH_MAX];
    if (kernel->shared && hosts.local_rank != 0)
        return;
    int rank = kernel->shared ? 0 : reading ? kernel_source() : run.rank;
    for (int n = 0; kernel->file(rank, repetition, n, below, sizeof below); n++) {
        kernel_path(below, path, sizeof path);
        if (!visit(path, context))
            return;
    }
}

static bool evict(const char *path, void *context) {
    (void)context;
    return storage_evict(path);
}

/* Reads a file, so that it is in this machine's page cache. */
static bool warm(const char *path, void *context) {
    enum { BLOCK = 1 << 20 };
    (void)context;
    int fd = storage_open(path, O_RDONLY);
    if (fd < 0)
        return false;
    char *block = allocate(BLOCK);
    ssize_t done = 0;
    do {
        done = read(fd, block, BLOCK);
    } while (done > 0 || (done < 0 && errno == EINTR));
    if (done < 0)
        note_error("read %s: %s", path, strerror(errno));
    free(block);
    return storage_close(fd, path);
}

static bool look(const char *path, void *context) {
    return storage_residency(path, context);
}

static struct residency look_at(bool reading, int64_t repetition) {
    struct residency sum = {.known = true};
    if (run.error[0] == '\0')
        each_file(reading, repetition, look, &sum);
    return sum;
}

bool kernel_end_file(int fd, const char *path, bool written, bool well, int64_t *calls) {
    if (well && written && settings.fsync == FSYNC_FILE) {
        part_begin(PART_FLUSH);
        well = storage_sync(fd, path);
        part_end();
        ++*calls;
    }
    part_begin(PART_CLOSE);
    well = storage_close(fd, path) && well;
    part_end();
    *calls += 2;
    return well;
}

struct residency kernel_cache(bool reading, int64_t repetition) {
    return look_at(reading, repetition);
}

static void write_all(struct verdict *verdict) {
    for (int64_t repetition = 0; repetition < settings.repetitions; repetition++) {
        if (!time_left(verdict))
            return;
        check_space(1, kernel->file_bytes(), "the next repetition");
        if (!all_well())
            return;
        if (repetition > 0 && settings.compute_s > 0)
            compute();
        kernel->write(repetition);
        if (!all_well())
            return;
    }
}

static void read_all(struct verdict *verdict) {
    for (int64_t repetition = 0; repetition < settings.repetitions; repetition++) {
        if (!time_left(verdict))
            return;
        if (settings.cache == CACHE_COLD) {
            each_file(true, repetition, evict, NULL);
            MPI(MPI_Barrier(MPI_COMM_WORLD));
        } else if (settings.cache == CACHE_WARM) {
            each_file(true, repetition, warm, NULL);
            MPI(MPI_Barrier(MPI_COMM_WORLD));
        }
        if (!all_well())
            return;
        kernel->read(repetition);
        if (!all_well())
            return;
    }
}

static void set_alarm(void) {
    /* What goes on is ended in order between two steps; a step that hangs, some time later, so. */
    double later = settings.time_limit_s > 20 ? settings.time_limit_s / 2 : 10;
    if (settings.hard_limit_s > 0)
        own_end_after(settings.hard_limit_s, "--hard-limit");
    else if (settings.time_limit_s > 0)
        own_end_after(settings.time_limit_s + later, "--time-limit");
}

static bool unwritable; /* rank 0: the result, as was found before anything was measured */

static void perform(const char *instance, struct verdict *verdict) {
    started_ns = now_ns();
    set_alarm();
    if (settings.out != NULL) {
        if (run.rank == 0)
            unwritable = !result_can_write(kernel);
        if (!all_well())
            return;
    }
    if (settings.phases & PHASE_WRITE) {
        check_space(SPACE_FACTOR, kernel->file_bytes() * settings.repetitions, "the run");
        if (!all_well())
            return;
        make_folder(instance);
        if (!all_well())
            return;
    }
    check_folder(instance);
    if (!all_well())
        return;
    if (settings.phases & PHASE_WRITE)
        write_all(verdict);
    int failed = verdict->failed || run.reason[0] != '\0';
    MPI(MPI_Bcast(&failed, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (!failed && (settings.phases & PHASE_READ))
        read_all(verdict);
}

/* Files stay only after a run that came to its end, and when that was asked for. */
static void finish(struct verdict *verdict) {
    int stay = settings.keep && !verdict->failed && run.reason[0] == '\0';
    MPI(MPI_Bcast(&stay, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (stay)
        own_disarm();
    memset(run.error, 0, sizeof run.error);
    own_remove_in_order();
}

static int run_kernel(void) {
    struct verdict *verdict = allocate(sizeof *verdict);
    char instance[TEXT_MAX];
    memset(verdict, 0, sizeof *verdict);
    result_instance(kernel, instance, sizeof instance);
    own_install_handlers();
    clocks_measure();
    if (settings.read_shift < 0)
        settings.read_shift = run.ranks == 1 ? 0 : hosts.count > 1 ? hosts.all[0].ranks : 1;
    if (run.rank == 0)
        result_begin(kernel);
    declare();
    perform(instance, verdict);
    if (run.reason[0] != '\0') {
        verdict->failed = true;
        verdict_reason(verdict, "failed: %s", run.reason);
        run.reason[0] = '\0';
    }
    verify_gather();
    int status = EXIT_VALID;
    if (run.rank == 0)
        result_judge(kernel, verdict);
    finish(verdict);
    if (!all_well() && run.rank == 0)
        verdict_reason(verdict, "failed: %s", run.reason);
    if (run.rank == 0) {
        bool written = settings.out == NULL || (!unwritable && result_write(kernel, verdict));
        if (!settings.quiet)
            result_print(kernel, verdict);
        for (int i = 0; i < verdict->reason_count; i++)
            fprintf(stderr, "%s: not valid: %s\n", kernel->name, verdict->reasons[i]);
        status = verdict->failed || !written ? EXIT_FAILED
                 : verdict->reason_count > 0 ? EXIT_INVALID
                                             : EXIT_VALID;
    }
    MPI(MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD));
    phases_free();
    clocks_free();
    free(verdict);
    return status;
}

static bool among(int argc, char **argv, const char *word) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

/* Ends without MPI_Finalize, where libraries would close what they keep open. */
static _Noreturn void leave(int status) {
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    fflush(NULL);
    _exit(status);
}

int kernel_main(int argc, char **argv, const struct kernel *given) {
    kernel = given;
    run.program = kernel->name;
    bool alone = among(argc, argv, "--dry-run") || among(argc, argv, "--help") ||
                 among(argc, argv, "--version") || among(argc, argv, "--clean");
    if (!alone) {
        MPI(MPI_Init(&argc, &argv));
        run.parallel = true;
        MPI(MPI_Comm_rank(MPI_COMM_WORLD, &run.rank));
        MPI(MPI_Comm_size(MPI_COMM_WORLD, &run.ranks));
    }
    read_command_line(argc, argv);
    if (settings.help || settings.version) {
        if (settings.help)
            help();
        else
            printf("%s %s\n", kernel->name, IOBENCH_VERSION);
        return EXIT_VALID;
    }
    if (alone && settings.np == 0)
        usage_error("--dry-run and --clean start no ranks: say with --np for how many");
    if (alone)
        run.ranks = (int)settings.np;
    kernel->settle();
    int status = EXIT_VALID;
    if (settings.clean) {
        char instance[TEXT_MAX];
        result_instance(kernel, instance, sizeof instance);
        clean(instance);
        status = run.error[0] == '\0' ? EXIT_VALID : EXIT_FAILED;
    } else if (settings.dry_run) {
        kernel->dry_run();
    } else {
        status = run_kernel();
        if (run.abandoned)
            leave(status);
        MPI(MPI_Finalize());
    }
    return status;
}
