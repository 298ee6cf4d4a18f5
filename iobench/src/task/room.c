/* What may still be written into a folder: bytes that are free for this user, and those that a quota leaves.
 *
 * usage: room FOLDER      FREE QUOTA, or FREE - where no quota limits this user, or none is known
 *
 * Exit status: 0; 1 when the folder cannot be asked; 2 for a wrong command line. */
#include "../quota.h"
#include "task.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

int main(int count, char **words) {
    struct statvfs facts;
    task_begin("room");
    if (count != 2) {
        task_usage("expected a folder");
    }
    if (statvfs(words[1], &facts) != 0) {
        task_fail("%s: %s", words[1], strerror(errno));
    }
    printf("%" PRIu64 " ", (uint64_t)facts.f_bavail * facts.f_frsize);
    int64_t left = quota_left(words[1]);
    if (left == INT64_MAX) {
        puts("-");
    } else {
        printf("%" PRId64 "\n", left);
    }
    return 0;
}
