/* Files and the file system below them: free space, what is in the page cache, opening, whole reads and
 * writes.
 *
 * Functions that return bool note the error of this rank and return false. Nothing here is collective. */
#ifndef IOBENCH_STORAGE_H
#define IOBENCH_STORAGE_H

#include "base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mount {
    char type[64], options[TEXT_MAX], device[256];
    int64_t bytes_free; /* for this user, by statvfs; a quota is not in it */
};

/* What is mounted where `path` is. */
struct mount storage_mount(const char *path);

/* Bytes that this user may still write where `path` is, or -1. */
int64_t storage_free(const char *path);

/* How much of a file is in this machine's page cache. */
struct residency {
    int64_t bytes, resident_bytes, dirty_bytes; /* dirty: not yet written back, or being so */
    bool known;                                 /* cachestat(2) is there (Linux 6.5) */
};

/* Adds what is known of `path` to `sum`; a sum over no file has `known` set. */
bool storage_residency(const char *path, struct residency *sum);

/* Writes back and drops the pages of a file on this machine. */
bool storage_evict(const char *path);

/* Opens a new file (O_EXCL) or an existing one; -1 after an error. */
int storage_create(const char *path, int flags);
int storage_open(const char *path, int flags);

/* Exactly `bytes` bytes at the offset; `path` for the message. `calls` counts system calls. */
bool storage_write(int fd, const char *path, const void *data, size_t bytes, int64_t offset, int64_t *calls);
bool storage_read(int fd, const char *path, void *data, size_t bytes, int64_t offset, int64_t *calls);
bool storage_sync(int fd, const char *path);
bool storage_close(int fd, const char *path);

/* Flushes a file that is closed already: pages belong to the file, not to who wrote them. */
bool storage_sync_path(const char *path);

/* System calls of this process that read and wrote, so far, by /proc/self/io; -1 where that is not there. */
struct system_calls {
    int64_t reads, writes;
};
struct system_calls storage_system_calls(void);

#endif
