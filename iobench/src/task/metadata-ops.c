/* Metadata operations as Iwai, Tatebe and Tanaka (2016, section 5.6) measure them: creates, looks at and
 * removes directories, then files, one after the other, in a folder of its own, and prints how long each kind
 * took.
 *
 * usage: metadata-ops --dir FOLDER [--operations N]
 *
 * FOLDER must not be there; it is made and removed. Prints one line of JSON: for each kind the ns from before
 * the first operation to after the last. Exit status: 0; 1 when an operation fails, with what was made
 * removed; 2 for a wrong command line. */
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_LENGTH_MAX = 4096 };
static const uint64_t OPERATIONS_MAX = 10000000;

static const char *folder;
static uint64_t operations = 10000;

static const char *path_of(char kind, uint64_t number) {
    static char path[PATH_LENGTH_MAX];
    int length = snprintf(path, sizeof path, "%s/%c%08llu", folder, kind, (unsigned long long)number);
    if (length < 0 || (size_t)length >= sizeof path) {
        task_usage("--dir %s is too long", folder);
    }
    return path;
}

static int make_file(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd < 0 ? -1 : close(fd);
}

static int make_directory(const char *path) {
    return mkdir(path, 0777);
}

static int look(const char *path) {
    struct stat status;
    return stat(path, &status);
}

/* Those that are not there any more are no error. */
static void remove_all(char kind) {
    for (uint64_t number = 0; number < operations; number++) {
        remove(path_of(kind, number));
    }
}

static uint64_t pass(const char *what, char kind, int (*operation)(const char *)) {
    uint64_t start = task_now();
    for (uint64_t number = 0; number < operations; number++) {
        const char *path = path_of(kind, number);
        if (operation(path) != 0) {
            int error = errno;
            remove_all(kind);
            rmdir(folder);
            task_fail("%s %s: %s", what, path_of(kind, number), strerror(error));
        }
    }
    return task_now() - start;
}

int main(int count, char **words) {
    task_begin("metadata-ops");
    for (int i = 1; i < count; i += 2) {
        if (strcmp(words[i], "--help") == 0) {
            puts("usage: metadata-ops --dir FOLDER [--operations N]");
            return 0;
        }
        if (i + 1 == count) {
            task_usage("%s: expected a value behind it", words[i]);
        }
        if (strcmp(words[i], "--dir") == 0) {
            folder = words[i + 1];
        } else if (strcmp(words[i], "--operations") == 0) {
            operations = task_number(words[i + 1], words[i], OPERATIONS_MAX);
        } else {
            task_usage("unknown option %s; metadata-ops --help", words[i]);
        }
    }
    if (folder == NULL || operations == 0) {
        task_usage("expected --dir FOLDER, and at least 1 operation; metadata-ops --help");
    }
    if (mkdir(folder, 0777) != 0) {
        task_fail("cannot make %s: %s", folder, strerror(errno));
    }
    uint64_t times[6], start = task_now();
    times[0] = pass("mkdir", 'd', make_directory);
    times[1] = pass("stat", 'd', look);
    times[2] = pass("rmdir", 'd', rmdir);
    times[3] = pass("create", 'f', make_file);
    times[4] = pass("stat", 'f', look);
    times[5] = pass("unlink", 'f', unlink);
    uint64_t end = task_now();
    if (rmdir(folder) != 0) {
        task_fail("cannot remove %s: %s", folder, strerror(errno));
    }
    static const char *const names[] = {"directory_create", "directory_stat", "directory_remove",
                                        "file_create",      "file_stat",      "file_remove"};
    printf("{\"operations\": %llu, \"start_ns\": %llu, \"end_ns\": %llu, \"ns\": {",
           (unsigned long long)operations, (unsigned long long)start, (unsigned long long)end);
    for (int i = 0; i < 6; i++) {
        printf("%s\"%s\": %llu", i > 0 ? ", " : "", names[i], (unsigned long long)times[i]);
    }
    puts("}}");
    return 0;
}
