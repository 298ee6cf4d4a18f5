#include "storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* the same number on all architectures */
#endif

/* As in linux/mman.h of Linux 6.5, which Debian 12's headers are older than. */
struct cachestat_range {
    uint64_t offset, length;
};
struct cachestat_answer {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

int64_t storage_free(const char *path) {
    struct statvfs facts;
    if (statvfs(path, &facts) != 0)
        return -1;
    return (int64_t)(facts.f_bavail * facts.f_frsize);
}

/* The line of /proc/self/mountinfo whose device is that of `path`, the last of them; fields as in proc(5). */
struct mount storage_mount(const char *path) {
    struct mount mount = {.type = "unknown", .bytes_free = storage_free(path)};
    char absolute[PATH_MAX];
    FILE *lines = fopen("/proc/self/mountinfo", "re");
    if (lines == NULL)
        return mount;
    char line[8192], point[4096], options[TEXT_MAX];
    size_t longest = 0;
    while (realpath(path, absolute) != NULL && fgets(line, sizeof line, lines) != NULL) {
        char *rest = strstr(line, " - ");
        if (rest == NULL || sscanf(line, "%*d %*d %*s %*s %4095s %511s", point, options) != 2)
            continue;
        size_t length = strcmp(point, "/") == 0 ? 0 : strlen(point);
        bool within =
            strncmp(absolute, point, length) == 0 && (absolute[length] == '/' || absolute[length] == '\0');
        if (!within || length < longest)
            continue;
        char more[TEXT_MAX] = "";
        if (sscanf(rest, " - %63s %255s %511s", mount.type, mount.device, more) < 2)
            continue;
        longest = length;
        snprintf(mount.options, sizeof mount.options, "%.255s,%.255s", options, more);
    }
    fclose(lines);
    return mount;
}

/* Files of an overlay have pages of their own only in the file system below it: of the overlay's, which is
 * what the call looks at, there are none whatever is in memory. */
static bool is_overlay(int fd) {
    struct statfs facts;
    return fstatfs(fd, &facts) == 0 && facts.f_type == OVERLAYFS_SUPER_MAGIC;
}

bool storage_residency(const char *path, struct residency *sum) {
    int fd = storage_open(path, O_RDONLY);
    if (fd < 0)
        return false;
    struct stat facts;
    struct cachestat_range range = {0, 0};
    struct cachestat_answer answer = {0};
    if (fstat(fd, &facts) != 0) {
        close(fd);
        return note_error("fstat %s: %s", path, strerror(errno));
    }
    sum->bytes += facts.st_size;
    if (!is_overlay(fd) && syscall(SYS_cachestat, fd, &range, &answer, 0U) == 0) {
        int64_t page = sysconf(_SC_PAGESIZE);
        int64_t resident = (int64_t)answer.cached * page;
        sum->resident_bytes += resident < facts.st_size ? resident : facts.st_size;
        sum->dirty_bytes += (int64_t)(answer.dirty + answer.writeback) * page;
    } else {
        sum->known = false;
    }
    return storage_close(fd, path);
}

bool storage_evict(const char *path) {
    int fd = storage_open(path, O_RDONLY);
    if (fd < 0)
        return false;
    int status = fdatasync(fd) != 0 ? errno : posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (status != 0) {
        close(fd);
        return note_error("cannot drop %s from the page cache: %s", path, strerror(status));
    }
    return storage_close(fd, path);
}

static int opened(int fd, const char *path, int flags, const char *what) {
    if (fd >= 0)
        return fd;
    if (errno == EINVAL && (flags & O_DIRECT) != 0)
        note_error("%s %s: this file system has no O_DIRECT; use --writer block", what, path);
    else
        note_error("%s %s: %s", what, path, strerror(errno));
    return -1;
}

int storage_create(const char *path, int flags) {
    return opened(open(path, O_CREAT | O_EXCL | O_CLOEXEC | flags, 0666), path, flags, "create");
}

int storage_open(const char *path, int flags) {
    return opened(open(path, O_CLOEXEC | flags), path, flags, "open");
}

bool storage_write(int fd, const char *path, const void *data, size_t bytes, int64_t offset, int64_t *calls) {
    const char *at = data;
    while (bytes > 0) {
        ssize_t done = pwrite(fd, at, bytes, offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return note_error("write %s at %" PRId64 ": %s", path, offset,
                              done < 0 ? strerror(errno) : "nothing written");
        ++*calls;
        at += done;
        offset += done;
        bytes -= (size_t)done;
    }
    return true;
}

bool storage_read(int fd, const char *path, void *data, size_t bytes, int64_t offset, int64_t *calls) {
    char *at = data;
    while (bytes > 0) {
        ssize_t done = pread(fd, at, bytes, offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return note_error("read %s at %" PRId64 ": %s", path, offset, strerror(errno));
        if (done == 0)
            return note_error("read %s: the file ends at %" PRId64 ", %zu bytes too early", path, offset,
                              bytes);
        ++*calls;
        at += done;
        offset += done;
        bytes -= (size_t)done;
    }
    return true;
}

bool storage_sync(int fd, const char *path) {
    return fsync(fd) == 0 || note_error("fsync %s: %s", path, strerror(errno));
}

bool storage_close(int fd, const char *path) {
    return close(fd) == 0 || note_error("close %s: %s", path, strerror(errno));
}

bool storage_sync_path(const char *path) {
    int fd = storage_open(path, O_RDONLY);
    if (fd < 0)
        return false;
    bool synced = storage_sync(fd, path);
    return storage_close(fd, path) && synced;
}

struct system_calls storage_system_calls(void) {
    struct system_calls calls = {-1, -1};
    char text[1024] = "";
    int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return calls;
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    const char *reads = size > 0 ? strstr(text, "syscr: ") : NULL;
    const char *writes = size > 0 ? strstr(text, "syscw: ") : NULL;
    if (reads != NULL && writes != NULL)
        calls = (struct system_calls){strtoll(reads + 7, NULL, 10), strtoll(writes + 7, NULL, 10)};
    return calls;
}
