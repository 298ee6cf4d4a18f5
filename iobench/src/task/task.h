/* What the task programs share: failing, whole reads and writes, contents by the name of a file, time. No
 * MPI. */
#ifndef IOBENCH_TASK_H
#define IOBENCH_TASK_H

#include "../content.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TASK_FAILED = 1, TASK_USAGE = 2 };

/* What is read or written by one call. */
enum { TASK_BLOCK = 1 << 20 };

/* Prints the message behind the program's name and ends with TASK_FAILED; files being written are removed. */
_Noreturn void task_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void task_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The name in front of messages. When the program ends, it adds its times (ns of CLOCK_MONOTONIC), and a
 * digest of its words, as a line to the file IOBENCH_TRACE, where that is set and there. Where that is a
 * folder, to the file on-HOST in it, which is made. */
void task_begin(const char *program);

/* The part of a MapReduce job that this program is, "map" or "reduce": when it ends well, a line with its
 * times, the bytes that it gave to the shuffle and the digest is added to IOBENCH_PHASES, which is likewise a
 * file or a folder. */
void task_phase(const char *phase);
/* All that a reduce gets is there, and in order. */
void task_sorted(void);
/* So many bytes were given to the shuffle. */
void task_shuffled(uint64_t bytes);

void *task_allocate(size_t bytes);

/* A number in decimal, not greater than `most`; `what` for the message. */
uint64_t task_number(const char *text, const char *what, uint64_t most);

/* Opens to write what a failure of this program removes again. */
int task_create(const char *path);
/* A child writes this file, which a failure removes; NULL: it is complete. */
void task_writes(const char *path);
int task_open(const char *path, uint64_t *bytes);
void task_write(int fd, const char *path, const void *data, size_t bytes);
/* Up to so many bytes; fewer only at the end of the file. */
size_t task_read(int fd, const char *path, void *data, size_t bytes);
void task_close(int fd, const char *path);

/* Flushes a file and drops its pages, and those of no other. */
void task_drop(int fd, const char *path);
/* What of the first bytes of a file is in the page cache. Returns NULL, or why that is not known. */
const char *task_resident(int fd, uint64_t bytes, uint64_t *resident);

/* FNV-1a, 64 bits. */
uint64_t task_digest(const void *data, size_t bytes);
#define TASK_DIGEST_START UINT64_C(0xcbf29ce484222325)
uint64_t task_digest_more(uint64_t digest, const void *data, size_t bytes);

/* Fills `out` with the contents of a file at the offset, which is a multiple of 8. */
void task_contents(uint64_t key, uint64_t offset, unsigned char *out, size_t bytes);

/* ns of CLOCK_MONOTONIC. */
uint64_t task_now(void);

#endif
