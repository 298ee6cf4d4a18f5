/* What a kernel is to the common part, and the life of a run that all kernels have in common.
 *
 * A kernel says which files its ranks write, and writes and reads one repetition. The common part reads the
 * command line, makes and removes the folder of the run, looks after space, time and the page cache, and
 * tells the result. */
#ifndef IOBENCH_KERNEL_H
#define IOBENCH_KERNEL_H

#include "json.h"
#include "options.h"
#include "storage.h"

#include <stdbool.h>
#include <stdint.h>

/* What can be set of every kernel. */
struct settings {
    const char *dir, *name, *out;
    int size, cache, fsync;
    unsigned phases;
    int64_t seed, repetitions, read_shift, np;
    double compute_s, time_limit_s, hard_limit_s, min_seconds;
    bool keep, ignore_space, dry_run, clean, quiet, help, version;
};
extern struct settings settings;

enum { SIZE_TINY, SIZE_SMALL, SIZE_LARGE };
enum { CACHE_ANY, CACHE_WARM, CACHE_COLD };
enum { FSYNC_NONE, FSYNC_FILE };
enum { PHASE_WRITE = 1, PHASE_READ = 2 };

struct verdict;

struct kernel {
    const char *name, *about, *family;
    const char *epoch;    /* what a repetition is called: epoch, configuration, output */
    const char *notes[4]; /* said in every result */
    const struct option *options;

    /* Sets the parameters to those of a size, before the command line is read. */
    void (*size)(int size);
    /* Checks parameters together and derives what follows from them; `run.ranks` is known. Usage errors end
     * the program. */
    void (*settle)(void);
    /* The parameters, each with its name, in an order that stays. */
    void (*parameters)(struct json *json);
    /* Payload of one repetition, all ranks. */
    int64_t (*payload)(void);
    /* Bytes of all files of one repetition, as near as it is known before (at least the payload). */
    int64_t (*file_bytes)(void);
    /* The names below the folder of the run: the n-th folder of the run (outer ones first), and the n-th file
     * that a rank makes in a repetition. False when there is none. */
    bool (*folder)(int n, char *out, size_t size);
    bool (*file)(int rank, int64_t repetition, int n, char *out, size_t size);
    bool shared; /* files of rank 0 are read by all */
    /* Prints, for each repetition and rank, what goes where. */
    void (*dry_run)(void);
    /* Collective. One repetition: phases as in phase.h. False when this rank has an error; all ranks call
     * `all_well` after. */
    void (*write)(int64_t repetition);
    void (*read)(int64_t repetition);
    /* O_DIRECT was asked for, and how many bytes of a file may be in the page cache all the same. */
    bool (*direct)(int64_t *tail);
    /* Rank 0: what else speaks for or against the result. May be NULL. */
    void (*judge)(struct verdict *verdict);
    /* Versions of libraries, into the result. May be NULL. */
    void (*software)(struct json *json);
};

/* The whole program. */
int kernel_main(int argc, char **argv, const struct kernel *kernel);

/* The full name of a file below the folder of the run. */
void kernel_path(const char *below, char *out, size_t size);

/* The rank whose data this rank reads: another one, on another host where there are several. */
int kernel_source(void);

/* The end of a step with a file of this rank's own: flush, where it was written and that is asked for, and
 * close; counts these calls and the one that opened it. Whether all went well, with `well` before. */
bool kernel_end_file(int fd, const char *path, bool written, bool well, int64_t *calls);

/* What is known of the page cache of the files that this rank will read, or has written, in a repetition. */
struct residency kernel_cache(bool reading, int64_t repetition);

/* A process grid for `ranks` with `count` numbers, as even as can be, larger ones first. */
void kernel_grid(int ranks, int64_t *grid, int count);

#endif
