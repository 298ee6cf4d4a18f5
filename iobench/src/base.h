/* What every part of a kernel uses: who this rank is, failing, memory, time.
 *
 * One process is one rank of one run, so what is known of the run is in one place, `run`. Nothing here knows
 * files or what is measured. */
#ifndef IOBENCH_BASE_H
#define IOBENCH_BASE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_MAX 512
#define PATH_LENGTH_MAX 1024

/* Exit statuses. */
enum { EXIT_VALID = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INVALID = 3 };

struct run_state {
    const char *program;   /* name of the kernel, in front of what it prints */
    int rank, ranks;       /* of MPI_COMM_WORLD; of a dry run 0 and --np */
    bool parallel;         /* MPI is initialised */
    char error[TEXT_MAX];  /* first error of this rank, empty while all is well */
    char reason[TEXT_MAX]; /* rank 0: the error of the first rank that had one, after `all_well` */
    bool abandoned;        /* on all ranks: a library keeps a file open that some rank could not write; its
                              collective calls might never end, and MPI_Finalize makes them */
};
extern struct run_state run;

/* Ends all ranks: prints rank and place, removes the run's own files, aborts. For what no rank can go on
 * after. */
_Noreturn void fail_at(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define FAIL(...) fail_at(__FILE__, __LINE__, __VA_ARGS__)

/* Ends this process with EXIT_USAGE; all ranks have the same command line, and rank 0 alone prints. */
_Noreturn void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Checks a call of MPI. */
#define MPI(call) check_mpi((call), #call, __FILE__, __LINE__)
void check_mpi(int status, const char *call, const char *file, int line);

/* Notes an error of this rank, from which the run ends in order at the next `all_well`. Returns false, to be
 * passed on. */
bool note_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Collective. Whether no rank has an error; if one has, `run.reason` on rank 0 says the lowest such rank and
 * its error. A rank with an error waits PATIENCE_S for the others, which may be within a collective call that
 * it has left; then it ends all ranks. */
#define PATIENCE_S 10
bool all_well(void);

/* Memory that is there or ends the run; aligned to 4096 bytes, as O_DIRECT needs. The caller frees. */
void *allocate(size_t bytes);

/* a*b, or the end of the run when that overflows. */
uint64_t product(uint64_t a, uint64_t b);

/* ns of CLOCK_MONOTONIC of this machine. */
int64_t now_ns(void);

/* snprintf that ends the run when the text does not fit. */
void print_into(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
