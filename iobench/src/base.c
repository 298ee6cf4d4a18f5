#include "base.h"
#include "own.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct run_state run = {.program = "iobench", .ranks = 1};

_Noreturn void fail_at(const char *file, int line, const char *format, ...) {
    char text[TEXT_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "%s: rank %d: %s (%s:%d)\n", run.program, run.rank, text, file, line);
    fflush(stderr);
    own_remove_in_haste();
    if (run.parallel)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILED);
    _exit(EXIT_FAILED);
}

_Noreturn void usage_error(const char *format, ...) {
    if (run.rank == 0) {
        va_list list;
        fprintf(stderr, "%s: ", run.program);
        va_start(list, format);
        vfprintf(stderr, format, list);
        va_end(list);
        fprintf(stderr, "\n%s: try: %s --help\n", run.program, run.program);
    }
    if (run.parallel)
        MPI_Finalize();
    exit(EXIT_USAGE);
}

void check_mpi(int status, const char *call, const char *file, int line) {
    if (status == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(status, text, &length);
    fail_at(file, line, "%s: %s", call, text);
}

bool note_error(const char *format, ...) {
    if (run.error[0] != '\0')
        return false;
    va_list list;
    va_start(list, format);
    vsnprintf(run.error, sizeof run.error, format, list);
    va_end(list);
    if (run.error[0] == '\0')
        strcpy(run.error, "failed");
    return false;
}

static void wait_patiently(MPI_Request *request) {
    int64_t begun = now_ns();
    int done = 0;
    while (!done) {
        MPI(MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (!done && now_ns() - begun > PATIENCE_S * INT64_C(1000000000))
            FAIL("%s; the other ranks have not come to the end of the step for %d s", run.error, PATIENCE_S);
        if (!done)
            sched_yield();
    }
}

bool all_well(void) {
    int mine = run.error[0] == '\0' ? run.ranks : run.rank;
    int first = run.ranks;
    MPI_Request request;
    MPI(MPI_Iallreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &request));
    if (run.error[0] != '\0')
        wait_patiently(&request);
    else
        MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (first == run.ranks)
        return true;
    char text[TEXT_MAX];
    memcpy(text, run.error, sizeof text);
    MPI(MPI_Bcast(text, TEXT_MAX, MPI_CHAR, first, MPI_COMM_WORLD));
    snprintf(run.reason, sizeof run.reason, "rank %d: %.*s", first, TEXT_MAX - 20, text);
    return false;
}

void *allocate(size_t bytes) {
    void *memory = NULL;
    int status = posix_memalign(&memory, 4096, bytes > 0 ? bytes : 1);
    if (status != 0)
        FAIL("no memory for %zu bytes: %s; a smaller mesh or more ranks need less", bytes, strerror(status));
    return memory;
}

uint64_t product(uint64_t a, uint64_t b) {
    uint64_t result = 0;
    if (__builtin_mul_overflow(a, b, &result))
        FAIL("%llu times %llu is more than 64 bits hold", (unsigned long long)a, (unsigned long long)b);
    return result;
}

int64_t now_ns(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        FAIL("clock_gettime: %s", strerror(errno));
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void print_into(char *out, size_t size, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int length = vsnprintf(out, size, format, list);
    va_end(list);
    if (length < 0 || (size_t)length >= size)
        FAIL("a name is longer than %zu bytes: %.80s...", size - 1, out);
}
