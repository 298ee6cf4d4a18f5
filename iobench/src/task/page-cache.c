/* What of files is in the page cache: by cachestat(2), which Linux has since 6.5.
 *
 * usage: page-cache show FILE...     prints "RESIDENT TOTAL", bytes of all files together
 *        page-cache cold FILE...     flushes the files and drops their pages, then the same
 *        page-cache warm FILE...     reads the files, then the same
 *
 * No right of root is used, and no page of other files is dropped. Exit status: 0; 1 when a file cannot be
 * looked at or the kernel cannot tell; 2 for a wrong command line. */
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* the same number on all architectures */
#endif

/* As in linux/mman.h of Linux 6.5, which Debian 12's headers are older than. */
struct range {
    uint64_t offset, length;
};
struct answer {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

static void drop(int fd, const char *path) {
    int error = fdatasync(fd) != 0 ? errno : posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (error != 0) {
        task_fail("cannot drop the pages of %s: %s", path, strerror(error));
    }
}

static void touch(int fd, const char *path) {
    char *data = task_allocate(TASK_BLOCK);
    while (task_read(fd, path, data, TASK_BLOCK) > 0) {
    }
    free(data);
}

static uint64_t resident(int fd, const char *path, uint64_t bytes) {
    struct statfs facts;
    if (fstatfs(fd, &facts) == 0 && facts.f_type == OVERLAYFS_SUPER_MAGIC) {
        task_fail("an overlay does not tell what of %s is in the page cache: name a folder elsewhere", path);
    }
    struct range range = {0, 0};
    struct answer answer = {0};
    if (syscall(SYS_cachestat, fd, &range, &answer, 0U) != 0) {
        task_fail("the kernel cannot tell what of %s is in the page cache: %s", path, strerror(errno));
    }
    uint64_t found = answer.cached * (uint64_t)sysconf(_SC_PAGESIZE);
    return found < bytes ? found : bytes;
}

int main(int count, char **words) {
    task_begin("page-cache");
    const char *what = count > 2 ? words[1] : "";
    bool cold = strcmp(what, "cold") == 0, warm = strcmp(what, "warm") == 0;
    if (!cold && !warm && strcmp(what, "show") != 0) {
        task_usage("expected show, cold or warm, and files");
    }
    uint64_t total = 0, found = 0;
    for (int i = 2; i < count; i++) {
        uint64_t bytes;
        int fd = task_open(words[i], &bytes);
        if (cold) {
            drop(fd, words[i]);
        } else if (warm) {
            touch(fd, words[i]);
        }
        total += bytes;
        found += resident(fd, words[i], bytes);
        task_close(fd, words[i]);
    }
    printf("%" PRIu64 " %" PRIu64 "\n", found, total);
    return 0;
}
