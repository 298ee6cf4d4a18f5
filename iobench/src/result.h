/* The result of a run as JSON (schema/result.schema.json) and as text. On rank 0 alone. */
#ifndef IOBENCH_RESULT_H
#define IOBENCH_RESULT_H

#include "kernel.h"

#define REASONS_MAX 16

struct verdict {
    char reasons[REASONS_MAX][TEXT_MAX]; /* why the run is not valid */
    char notes[REASONS_MAX][TEXT_MAX];   /* what a reader must know, though it is */
    int reason_count, note_count;
    bool failed; /* it did not come to its end */
};

void verdict_reason(struct verdict *verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));
void verdict_note(struct verdict *verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Takes what has to be known from the start: the time, the load, what is mounted. */
void result_begin(const struct kernel *kernel);

/* Adds to the verdict what follows from phases and verification. */
void result_judge(const struct kernel *kernel, struct verdict *verdict);

/* Whether settings.out can be written, before hours are measured; notes an error. Leaves nothing. */
bool result_can_write(const struct kernel *kernel);

/* Writes settings.out, first under another name. False when that cannot be. */
bool result_write(const struct kernel *kernel, const struct verdict *verdict);

/* Some lines for people. */
void result_print(const struct kernel *kernel, const struct verdict *verdict);

/* The digest of what makes two runs comparable: kernel, size, ranks, parameters, seed. */
void result_instance(const struct kernel *kernel, char *out, size_t size);

#endif
