/* Sequential writing and reading of one file, block by block, of which only the transfer is timed: the file
 * is opened, its pages are dropped, and memory is filled before the gate of a round of Rakuda
 * (rakuda_gate.h). Started by nobody else, it begins at once.
 *
 * usage: bandwidth-io make --file FILE      makes the folders of FILE
 *        bandwidth-io write --file FILE --bytes N --block N [--key N] [--direct]
 *        bandwidth-io read --file FILE --bytes N --block N [--key N] [--direct] [--cold] [--seconds S]
 *        bandwidth-io check --file FILE --bytes N --block N [--key N]
 *        bandwidth-io remove --file FILE    removes FILE, and its folder where that is empty then
 *
 * `write` makes the file anew and flushes it, within the time. `read` looks at the first word of each KiB,
 * which tells the file, the step (--key) and the place; `check` compares every byte. With --seconds the file
 * is read over and over, for at least that time. All print one line of JSON; times are ns of CLOCK_MONOTONIC,
 * and what is in the page cache before reading is null where the kernel does not say. Exit status: 0; 1 when
 * a call fails or a byte is wrong; 2 for a wrong command line. */
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if (defined(__x86_64__) || defined(__aarch64__)) && __has_include("rakuda_gate.h")
#include "rakuda_gate.h"
#else
static void rakuda_gate(void) {}
#endif

enum {
    SPAN = 1 << 20, /* what repeats, but for its stamps */
    STAMPED = 1 << 10,
    ALIGNMENT = 4096,
    PARTS = 8, /* of the file, after each of which the time is noted */
};
static const uint64_t BYTES_MAX = UINT64_C(1) << 50;

static const char *path;
static uint64_t bytes, block, key, seconds;
static bool direct, cold;
/* Of SPAN bytes: what the file has, and what was read. */
static unsigned char *contents, *found;

static struct {
    uint64_t start_ns, end_ns, bytes, calls;
    uint64_t marks_ns[PARTS], marks_bytes[PARTS];
    int marks;
} moved;

static unsigned char *aligned(void) {
    void *memory;
    if (posix_memalign(&memory, ALIGNMENT, SPAN) != 0) {
        task_fail("no memory for %d bytes", SPAN);
    }
    memset(memory, 0, SPAN);
    return memory;
}

static uint64_t stamp(uint64_t offset) {
    return content_bits(key, offset / STAMPED);
}

/* The block at this offset as it is in the file. */
static const unsigned char *block_at(uint64_t offset) {
    unsigned char *start = contents + offset % SPAN;
    for (uint64_t at = 0; at < block; at += STAMPED) {
        uint64_t word = stamp(offset + at);
        memcpy(start + at, &word, sizeof word);
    }
    return start;
}

static void look(uint64_t offset) {
    const unsigned char *start = found + offset % SPAN;
    for (uint64_t at = 0; at < block; at += STAMPED) {
        uint64_t word;
        memcpy(&word, start + at, sizeof word);
        if (word != stamp(offset + at)) {
            task_fail("%s: the KiB at %" PRIu64 " is not what was written", path, offset + at);
        }
    }
}

static void read_block(int fd, uint64_t offset) {
    if (task_read(fd, path, found + offset % SPAN, block) != block) {
        task_fail("%s: it ends before %" PRIu64 " bytes", path, bytes);
    }
}

static void mark(uint64_t offset) {
    if (moved.marks < PARTS && offset + block >= (bytes / PARTS) * (uint64_t)(moved.marks + 1)) {
        moved.marks_ns[moved.marks] = task_now();
        moved.marks_bytes[moved.marks++] = offset + block;
    }
}

/* All blocks once. */
static void pass(int fd, bool writing) {
    for (uint64_t offset = 0; offset < bytes; offset += block) {
        if (writing) {
            task_write(fd, path, block_at(offset), block);
        } else {
            read_block(fd, offset);
            look(offset);
        }
        moved.calls++;
        if (seconds == 0) {
            mark(offset);
        }
    }
    moved.bytes += bytes;
}

static int opened(int flags) {
    int fd = open(path, flags | O_CLOEXEC | (direct ? O_DIRECT : 0), 0666);
    if (fd < 0) {
        task_fail("cannot open %s%s: %s", path, direct ? " with O_DIRECT" : "", strerror(errno));
    }
    return fd;
}

static void print(const char *cache) {
    printf("{\"bytes\": %" PRIu64 ", \"start_ns\": %" PRIu64 ", \"end_ns\": %" PRIu64 ", \"calls\": %" PRIu64
           ", \"marks\": [",
           moved.bytes, moved.start_ns, moved.end_ns, moved.calls);
    for (int i = 0; i < moved.marks; i++) {
        printf("%s%" PRIu64 ", %" PRIu64, i > 0 ? ", " : "", moved.marks_ns[i], moved.marks_bytes[i]);
    }
    printf("]%s}\n", cache);
}

static void write_file(void) {
    int fd = opened(O_WRONLY | O_CREAT | O_TRUNC);
    task_writes(path);
    rakuda_gate();
    moved.start_ns = task_now();
    pass(fd, true);
    if (fsync(fd) != 0) {
        task_fail("cannot flush %s: %s", path, strerror(errno));
    }
    moved.end_ns = task_now();
    task_writes(NULL);
    task_close(fd, path);
    print("");
}

static void read_file(void) {
    char cache[128];
    uint64_t resident;
    int fd = opened(O_RDONLY);
    if (cold) {
        task_drop(fd, path);
    }
    if (task_resident(fd, bytes, &resident) == NULL) {
        snprintf(cache, sizeof cache,
                 ", \"cache\": {\"bytes\": %" PRIu64 ", \"resident_bytes\": %" PRIu64 "}", bytes, resident);
    } else {
        snprintf(cache, sizeof cache, ", \"cache\": {\"bytes\": %" PRIu64 ", \"resident_bytes\": null}",
                 bytes);
    }
    rakuda_gate();
    moved.start_ns = task_now();
    do {
        if (moved.bytes > 0 && lseek(fd, 0, SEEK_SET) != 0) {
            task_fail("cannot read %s again: %s", path, strerror(errno));
        }
        pass(fd, false);
        moved.end_ns = task_now();
    } while (moved.end_ns - moved.start_ns < seconds * UINT64_C(1000000000));
    task_close(fd, path);
    print(cache);
}

static void check_file(void) {
    uint64_t size;
    int fd = task_open(path, &size);
    rakuda_gate();
    for (uint64_t offset = 0; offset < bytes; offset += block) {
        read_block(fd, offset);
        const unsigned char *expected = block_at(offset), *start = found + offset % SPAN;
        for (uint64_t at = 0; memcmp(start, expected, block) != 0 && at < block; at++) {
            if (start[at] != expected[at]) {
                task_fail("%s: the byte at %" PRIu64 " is not what was written", path, offset + at);
            }
        }
    }
    if (size != bytes) {
        task_fail("%s has %" PRIu64 " bytes: expected %" PRIu64, path, size, bytes);
    }
    task_close(fd, path);
    printf("{\"checked_bytes\": %" PRIu64 "}\n", bytes);
}

static void make_folders(void) {
    char *name = strdup(path);
    for (char *end = name; end != NULL && (end = strchr(end + 1, '/')) != NULL;) {
        *end = '\0';
        if (mkdir(name, 0777) != 0 && errno != EEXIST) {
            task_fail("cannot make %s: %s", name, strerror(errno));
        }
        *end = '/';
    }
    free(name);
    rakuda_gate();
}

static void remove_file(void) {
    rakuda_gate();
    if (unlink(path) != 0 && errno != ENOENT) {
        task_fail("cannot remove %s: %s", path, strerror(errno));
    }
    char *folder = strdup(path), *end = folder == NULL ? NULL : strrchr(folder, '/');
    if (end != NULL && end > folder) {
        *end = '\0';
        rmdir(folder); /* others may have files there */
    }
    free(folder);
}

static const char *value(int count, char **words, int *at) {
    if (*at + 1 == count) {
        task_usage("%s: expected a value behind it", words[*at]);
    }
    return words[++*at];
}

static void take(int count, char **words) {
    for (int i = 2; i < count; i++) {
        const char *word = words[i];
        if (strcmp(word, "--direct") == 0) {
            direct = true;
        } else if (strcmp(word, "--cold") == 0) {
            cold = true;
        } else if (strcmp(word, "--file") == 0) {
            path = value(count, words, &i);
        } else if (strcmp(word, "--bytes") == 0) {
            bytes = task_number(value(count, words, &i), word, BYTES_MAX);
        } else if (strcmp(word, "--block") == 0) {
            block = task_number(value(count, words, &i), word, SPAN);
        } else if (strcmp(word, "--key") == 0) {
            key = task_number(value(count, words, &i), word, UINT64_MAX);
        } else if (strcmp(word, "--seconds") == 0) {
            seconds = task_number(value(count, words, &i), word, 86400);
        } else {
            task_usage("unknown option %s; bandwidth-io --help", word);
        }
    }
    if (path == NULL) {
        task_usage("expected --file FILE; bandwidth-io --help");
    }
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*run)(void);
        bool blocks;
    } acts[] = {{"make", make_folders, false},
                {"write", write_file, true},
                {"read", read_file, true},
                {"check", check_file, true},
                {"remove", remove_file, false}};
    task_begin("bandwidth-io");
    if (count > 1 && strcmp(words[1], "--help") == 0) {
        puts("usage: bandwidth-io make|write|read|check|remove --file FILE [--bytes N --block N] [--key N]\n"
             "           [--direct] [--cold] [--seconds S]");
        return 0;
    }
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        if (count < 2 || strcmp(words[1], acts[i].name) != 0) {
            continue;
        }
        take(count, words);
        if (acts[i].blocks) {
            if (block < STAMPED || SPAN % block != 0 || block % STAMPED != 0 || bytes == 0 ||
                bytes % block != 0) {
                task_usage("expected --block that divides 1 MiB, a multiple of 1 KiB, and --bytes, a "
                           "multiple of it");
            }
            key = content_mix(key ^ task_digest(path, strlen(path)));
            contents = aligned();
            found = aligned();
            task_contents(key, 0, contents, SPAN);
        }
        acts[i].run();
        free(contents);
        free(found);
        return 0;
    }
    task_usage("expected make, write, read, check or remove; bandwidth-io --help");
}
