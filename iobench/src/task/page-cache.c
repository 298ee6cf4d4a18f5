/* What of files is in the page cache: by cachestat(2), which Linux has since 6.5.
 *
 * usage: page-cache show FILE...     prints "RESIDENT TOTAL", bytes of all files together
 *        page-cache cold FILE...     flushes the files and drops their pages, then the same
 *        page-cache warm FILE...     reads the files, then the same
 *
 * No right of root is used, and no page of other files is dropped. Exit status: 0; 1 when a file cannot be
 * looked at or the kernel cannot tell; 2 for a wrong command line. */
#include "task.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void touch(int fd, const char *path) {
    char *data = task_allocate(TASK_BLOCK);
    while (task_read(fd, path, data, TASK_BLOCK) > 0) {
    }
    free(data);
}

static uint64_t resident(int fd, const char *path, uint64_t bytes) {
    uint64_t found;
    const char *why = task_resident(fd, bytes, &found);
    if (why != NULL) {
        task_fail("it is not known what of %s is in the page cache: %s", path, why);
    }
    return found;
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
            task_drop(fd, words[i]);
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
