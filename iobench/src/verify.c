#include "verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verification verification;

int64_t verify_bytes(const void *found, const void *expected, size_t bytes) {
    verification.checked_bytes += (int64_t)bytes;
    if (memcmp(found, expected, bytes) == 0)
        return -1;
    const unsigned char *a = found, *b = expected;
    int64_t first = -1;
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i]) {
            verification.wrong_bytes++;
            if (first < 0)
                first = (int64_t)i;
        }
    return first;
}

void verify_locate(const char *format, ...) {
    if (verification.details > 0)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(verification.detail[0], TEXT_MAX, format, list);
    va_end(list);
    verification.details = 1;
}

void verify_gather(void) {
    int64_t mine[2] = {verification.checked_bytes, verification.wrong_bytes}, sums[2] = {0};
    MPI(MPI_Reduce(mine, sums, 2, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD));
    char *texts = run.rank == 0 ? allocate((size_t)run.ranks * TEXT_MAX) : NULL;
    char text[TEXT_MAX] = "";
    memcpy(text, verification.detail[0], sizeof text);
    MPI(MPI_Gather(text, TEXT_MAX, MPI_CHAR, texts, TEXT_MAX, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (run.rank != 0)
        return;
    verification = (struct verification){.checked_bytes = sums[0], .wrong_bytes = sums[1]};
    for (int r = 0; r < run.ranks && verification.details < VERIFY_DETAILS; r++) {
        const char *found = texts + (size_t)r * TEXT_MAX;
        if (found[0] != '\0')
            snprintf(verification.detail[verification.details++], TEXT_MAX, "%s", found);
    }
    free(texts);
}
