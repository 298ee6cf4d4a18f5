#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
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

static const char *name = "iobench";
/* What is being written: half a file must not be taken for a whole one. */
static const char *unfinished;

static uint64_t words, begun, sorted, shuffled;
/* NULL: no part of a MapReduce job. */
static const char *part;

/* Hosts that append to one file of NFS write over each other's lines: in a folder each has a file of its own,
 * by its name. */
static int open_in_folder(const char *folder) {
    char host[HOST_NAME_MAX + 1] = "", path[PATH_MAX];
    if (gethostname(host, sizeof host - 1) != 0 || strchr(host, '/') != NULL) {
        return -1;
    }
    int length = snprintf(path, sizeof path, "%s/on-%s", folder, host);
    if (length < 0 || (size_t)length >= sizeof path) {
        return -1;
    }
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

/* One line, by one call: tasks that end at the same time do not mix theirs. */
static void add_line(const char *variable, const char *line, int length) {
    const char *path = getenv(variable);
    int fd = path == NULL ? -1 : open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0 && path != NULL && errno == EISDIR) {
        fd = open_in_folder(path);
    }
    if (fd >= 0) {
        if (write(fd, line, (size_t)length) != length) {
            fprintf(stderr, "%s: cannot write %s\n", name, path);
        }
        close(fd);
    }
}

/* Of the words of the command line, each with its NUL, but for the program: whoever has started this knows
 * which task it is. */
static uint64_t digest_of_words(void) {
    uint64_t digest = TASK_DIGEST_START;
    char block[4096];
    ssize_t got = 0;
    bool within = false;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && ((got = read(fd, block, sizeof block)) > 0 || (got < 0 && errno == EINTR))) {
        const char *rest = block, *end = block + (got > 0 ? got : 0);
        while (!within && rest < end) {
            within = *rest++ == '\0';
        }
        digest = task_digest_more(digest, rest, (size_t)(end - rest));
    }
    if (fd >= 0) {
        close(fd);
    }
    return digest;
}

static void trace(void) {
    unsigned long long now = task_now();
    char line[128];
    if (getenv("IOBENCH_TRACE") != NULL) {
        add_line(
            "IOBENCH_TRACE", line,
            snprintf(line, sizeof line, "%llu %llu %016" PRIx64 "\n", (unsigned long long)begun, now, words));
    }
    if (part != NULL) {
        unsigned long long middle = strcmp(part, "map") == 0 ? now : sorted;
        add_line("IOBENCH_PHASES", line,
                 snprintf(line, sizeof line, "%s %llu %llu %llu %llu %016" PRIx64 "\n", part,
                          (unsigned long long)begun, middle, now, (unsigned long long)shuffled, words));
    }
}

void task_phase(const char *phase) {
    part = phase;
}

void task_sorted(void) {
    sorted = task_now();
}

void task_shuffled(uint64_t bytes) {
    shuffled += bytes;
}

void task_begin(const char *program) {
    name = program;
    /* Now, since programs take their words apart where they stand. */
    bool wanted = getenv("IOBENCH_TRACE") != NULL || getenv("IOBENCH_PHASES") != NULL;
    words = wanted ? digest_of_words() : 0;
    begun = task_now();
    atexit(trace);
}

static _Noreturn void end(int status, const char *format, va_list values) {
    part = NULL;
    if (unfinished != NULL) {
        unlink(unfinished);
    }
    fprintf(stderr, "%s: ", name);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    exit(status);
}

void task_fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    end(TASK_FAILED, format, values);
}

void task_usage(const char *format, ...) {
    va_list values;
    va_start(values, format);
    end(TASK_USAGE, format, values);
}

void *task_allocate(size_t bytes) {
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        task_fail("no memory for %zu bytes", bytes);
    }
    return memory;
}

uint64_t task_number(const char *text, const char *what, uint64_t most) {
    char *rest;
    errno = 0;
    unsigned long long number = strtoull(text, &rest, 10);
    if (text[0] < '0' || text[0] > '9' || *rest != '\0' || errno != 0 || number > most) {
        task_usage("%s: expected a whole number up to %llu, not %s", what, (unsigned long long)most, text);
    }
    return number;
}

int task_create(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        task_fail("cannot write %s: %s", path, strerror(errno));
    }
    struct stat status;
    /* Never a device. */
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        unfinished = path;
    }
    return fd;
}

void task_writes(const char *path) {
    unfinished = path;
}

int task_open(const char *path, uint64_t *bytes) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        task_fail("cannot read %s: %s", path, strerror(errno));
    }
    *bytes = (uint64_t)status.st_size;
    return fd;
}

void task_write(int fd, const char *path, const void *data, size_t bytes) {
    const char *rest = data;
    while (bytes > 0) {
        ssize_t written = write(fd, rest, bytes);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            task_fail("cannot write %s: %s", path, strerror(errno));
        }
        rest += written;
        bytes -= (size_t)written;
    }
}

size_t task_read(int fd, const char *path, void *data, size_t bytes) {
    char *rest = data;
    size_t missing = bytes;
    while (missing > 0) {
        ssize_t got = read(fd, rest, missing);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            task_fail("cannot read %s: %s", path, strerror(errno));
        }
        if (got == 0) {
            break;
        }
        rest += got;
        missing -= (size_t)got;
    }
    return bytes - missing;
}

void task_close(int fd, const char *path) {
    if (close(fd) != 0) {
        task_fail("cannot close %s: %s", path, strerror(errno));
    }
    if (unfinished == path) {
        unfinished = NULL;
    }
}

void task_drop(int fd, const char *path) {
    int error = fdatasync(fd) != 0 ? errno : posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (error != 0) {
        task_fail("cannot drop the pages of %s: %s", path, strerror(error));
    }
}

const char *task_resident(int fd, uint64_t bytes, uint64_t *resident) {
    struct statfs facts;
    if (fstatfs(fd, &facts) == 0 && facts.f_type == OVERLAYFS_SUPER_MAGIC) {
        return "an overlay does not tell; name a folder elsewhere";
    }
    struct range range = {0, 0};
    struct answer answer = {0};
    if (syscall(SYS_cachestat, fd, &range, &answer, 0U) != 0) {
        return strerror(errno);
    }
    uint64_t found = answer.cached * (uint64_t)sysconf(_SC_PAGESIZE);
    *resident = found < bytes ? found : bytes;
    return NULL;
}

uint64_t task_digest_more(uint64_t digest, const void *data, size_t bytes) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++) {
        digest = (digest ^ byte[i]) * UINT64_C(0x100000001b3);
    }
    return digest;
}

uint64_t task_digest(const void *data, size_t bytes) {
    return task_digest_more(TASK_DIGEST_START, data, bytes);
}

void task_contents(uint64_t key, uint64_t offset, unsigned char *out, size_t bytes) {
    uint64_t cell = offset / 8;
    for (; bytes >= 8; bytes -= 8, out += 8) {
        uint64_t bits = content_bits(key, cell++);
        memcpy(out, &bits, 8);
    }
    if (bytes > 0) {
        uint64_t bits = content_bits(key, cell);
        memcpy(out, &bits, bytes);
    }
}

uint64_t task_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
