/* A task of a workflow as its I/O alone: reads files to their ends and checks every byte, computes for a
 * while, writes files. What stands in a file follows from its name as given and the seed, so any task can
 * check what any other wrote.
 *
 * usage: io-task [--seed N] [--compute-ms N] [--read FILE:BYTES]... [--write FILE:BYTES]...
 *
 * Exit status: 0; 1 when a file cannot be read or written or is not what it must be; 2 for a wrong command
 * line. It removes the file that it was writing when it fails. */
#include "task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Names and sizes are checked against these. */
static const uint64_t BYTES_MAX = UINT64_C(1) << 50;
static const uint64_t COMPUTE_MS_MAX = UINT64_C(86400000);

struct file {
    char *path;
    uint64_t bytes;
};

/* FILE:BYTES; the colon is the last one. */
static struct file file_of(char *word) {
    char *colon = strrchr(word, ':');
    if (colon == NULL || colon == word) {
        task_usage("expected FILE:BYTES, not %s", word);
    }
    *colon = '\0';
    return (struct file){.path = word, .bytes = task_number(colon + 1, word, BYTES_MAX)};
}

static uint64_t key_of(const struct file *file, uint64_t seed) {
    return content_key(seed, task_digest(file->path, strlen(file->path)), 0, 0);
}

static void check_file(const struct file *file, uint64_t seed, unsigned char *got, unsigned char *wanted) {
    uint64_t bytes, key = key_of(file, seed);
    int fd = task_open(file->path, &bytes);
    if (bytes != file->bytes) {
        task_fail("%s has %llu bytes: expected %llu", file->path, (unsigned long long)bytes,
                  (unsigned long long)file->bytes);
    }
    for (uint64_t offset = 0; offset < bytes;) {
        size_t part = task_read(fd, file->path, got, TASK_BLOCK);
        if (part == 0) {
            task_fail("%s ended at %llu while it was read", file->path, (unsigned long long)offset);
        }
        task_contents(key, offset, wanted, part);
        if (memcmp(got, wanted, part) != 0) {
            size_t at = 0;
            while (got[at] == wanted[at]) {
                at++;
            }
            task_fail("%s: byte %llu is %u: expected %u", file->path, (unsigned long long)(offset + at),
                      got[at], wanted[at]);
        }
        offset += part;
    }
    task_close(fd, file->path);
}

static void write_file(const struct file *file, uint64_t seed, unsigned char *data) {
    uint64_t key = key_of(file, seed);
    int fd = task_create(file->path);
    for (uint64_t offset = 0; offset < file->bytes;) {
        uint64_t rest = file->bytes - offset;
        size_t part = rest < TASK_BLOCK ? (size_t)rest : TASK_BLOCK;
        task_contents(key, offset, data, part);
        task_write(fd, file->path, data, part);
        offset += part;
    }
    task_close(fd, file->path);
}

static uint64_t processor_ns(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * UINT64_C(1000000000) + (uint64_t)used.tv_nsec;
}

/* By processor time, so that a task that has to wait for its core computes as much. */
static void compute(uint64_t ms) {
    uint64_t value = ms, start = processor_ns();
    while (processor_ns() - start < ms * 1000000 || value == UINT64_MAX) {
        for (int i = 0; i < 10000; i++) {
            value = content_mix(value + 1);
        }
    }
}

int main(int count, char **words) {
    uint64_t seed = 1, compute_ms = 0;
    struct file *reads = task_allocate((size_t)count * sizeof *reads);
    struct file *writes = task_allocate((size_t)count * sizeof *writes);
    int reading = 0, writing = 0;
    task_begin("io-task");
    for (int i = 1; i < count; i += 2) {
        if (strcmp(words[i], "--help") == 0) {
            puts("usage: io-task [--seed N] [--compute-ms N] [--read FILE:BYTES]... [--write FILE:BYTES]...");
            return 0;
        }
        if (i + 1 == count) {
            task_usage("%s: expected a value behind it", words[i]);
        }
        if (strcmp(words[i], "--seed") == 0) {
            seed = task_number(words[i + 1], words[i], UINT64_MAX);
        } else if (strcmp(words[i], "--compute-ms") == 0) {
            compute_ms = task_number(words[i + 1], words[i], COMPUTE_MS_MAX);
        } else if (strcmp(words[i], "--read") == 0) {
            reads[reading++] = file_of(words[i + 1]);
        } else if (strcmp(words[i], "--write") == 0) {
            writes[writing++] = file_of(words[i + 1]);
        } else {
            task_usage("unknown option %s; io-task --help", words[i]);
        }
    }
    unsigned char *got = task_allocate(TASK_BLOCK), *wanted = task_allocate(TASK_BLOCK);
    for (int i = 0; i < reading; i++) {
        check_file(&reads[i], seed, got, wanted);
    }
    compute(compute_ms);
    for (int i = 0; i < writing; i++) {
        write_file(&writes[i], seed, got);
    }
    free(got);
    free(wanted);
    free(reads);
    free(writes);
    return 0;
}
