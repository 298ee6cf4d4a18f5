/* Verification: what was read against what must be there, byte by byte; counts, and the place of the first
 * wrong byte. */
#ifndef IOBENCH_VERIFY_H
#define IOBENCH_VERIFY_H

#include "base.h"

#include <stddef.h>
#include <stdint.h>

#define VERIFY_DETAILS 4

struct verification {
    int64_t checked_bytes, wrong_bytes;
    int details; /* how many of the texts below there are */
    char detail[VERIFY_DETAILS]
               [TEXT_MAX]; /* places of wrong bytes: first ones of ranks, after `verify_gather` of the run */
};
extern struct verification verification;

/* Compares, counts, and returns the offset of the first byte that differs, or -1. */
int64_t verify_bytes(const void *found, const void *expected, size_t bytes);

/* Says where a wrong byte is. Of each rank the first place counts. */
void verify_locate(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Collective. On rank 0 `verification` then holds for all ranks. */
void verify_gather(void);

#endif
