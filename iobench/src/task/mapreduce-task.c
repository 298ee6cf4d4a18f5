/* The tasks of two MapReduce jobs: sorting of rows by their keys, and TestDFSIO's, which writes or reads one
 * file a map. The engines in Java make the same rows and files (iobench/mapreduce).
 *
 * usage: mapreduce-task rows FILE FIRST COUNT          rows to sort: so many from the number FIRST on
 *        mapreduce-task split IN REDUCERS PREFIX       map of sort: rows by key, to PREFIX.0, PREFIX.1, ...
 *        mapreduce-task merge OUT IN...                reduce of sort
 *        mapreduce-task collect OUT REDUCER REDUCERS   the same, of the rows on stdin that are this reducer's
 *        mapreduce-task check ROWS OUT...              whether the outputs are all rows, in their order
 *        mapreduce-task write|read FILE BYTES ROW      map of dfsio: one file, and a row about it
 *        mapreduce-task sum OUT ROW...                 reduce of dfsio: how many files and bytes
 *
 * With - for PREFIX or ROW, output goes to stdout, or input comes from stdin. A row to sort has 100 bytes: a
 * key of 10 letters from A to P, a space, its number with 12 digits, 76 letters from A to P that follow from
 * the number, newline. Exit status: 0; 1 when something is not what it must be, named; 2 for a wrong command
 * line. */
#include "task.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY = 10, DIGITS = 12, ROW = 100, KEY_BITS = 4 * KEY };
static const uint64_t ROWS_MAX = 999999999999;
static const uint64_t REDUCERS_MAX = 4096;
static const uint64_t BYTES_MAX = UINT64_C(1) << 50;

static const char STANDARD[] = "-";

static void row_of(uint64_t number, char *out) {
    uint64_t key = content_key(5, number, 0, 0);
    for (size_t i = 0; i < ROW - 1; i++) {
        out[i] = (char)('A' + (content_bits(key, i / 16) >> (4 * (i % 16)) & 15));
    }
    char digits[DIGITS + 3];
    snprintf(digits, sizeof digits, " %012" PRIu64, number);
    memcpy(out + KEY, digits, DIGITS + 1);
    out[ROW - 1] = '\n';
}

/* Keys are even between A... and P...: a range for each reducer. */
static uint64_t reducer_of(const char *row, uint64_t reducers) {
    uint64_t key = 0;
    for (size_t i = 0; i < KEY; i++) {
        key = key << 4 | ((uint64_t)(row[i] - 'A') & 15);
    }
    return key * reducers >> KEY_BITS;
}

static uint64_t number_of_row(const char *row) {
    char digits[DIGITS + 1];
    memcpy(digits, row + KEY + 1, DIGITS);
    digits[DIGITS] = '\0';
    return strtoull(digits, NULL, 10);
}

/* Rows that are gathered before they are written. */
struct writer {
    const char *path;
    int fd;
    size_t filled;
    char *data;
};

static struct writer writer_to(const char *path, int fd) {
    return (struct writer){path, fd, 0, task_allocate(TASK_BLOCK)};
}

static void add(struct writer *out, const char *data, size_t bytes) {
    if (out->filled + bytes > TASK_BLOCK) {
        task_write(out->fd, out->path, out->data, out->filled);
        out->filled = 0;
    }
    memcpy(out->data + out->filled, data, bytes);
    out->filled += bytes;
}

static void finish(struct writer *out) {
    task_write(out->fd, out->path, out->data, out->filled);
    task_close(out->fd, out->path);
    free(out->data);
}

static void write_rows(char **words) {
    uint64_t first = task_number(words[1], "FIRST", ROWS_MAX),
             count = task_number(words[2], "COUNT", ROWS_MAX);
    struct writer out = writer_to(words[0], task_create(words[0]));
    char row[ROW + 1];
    for (uint64_t number = first; number < first + count; number++) {
        row_of(number, row);
        add(&out, row, ROW);
    }
    finish(&out);
}

/* The rows of a file, or of stdin; a number that is no whole one fails. */
struct rows {
    char *data;
    size_t count, room;
};

static void read_rows(const char *path, uint64_t reducer, uint64_t reducers, struct rows *rows) {
    uint64_t bytes;
    bool standard = strcmp(path, STANDARD) == 0;
    int fd = standard ? STDIN_FILENO : task_open(path, &bytes);
    char *block = task_allocate(TASK_BLOCK);
    for (size_t part; (part = task_read(fd, path, block, TASK_BLOCK / ROW * ROW)) > 0;) {
        if (part % ROW != 0 || block[part - 1] != '\n') {
            task_fail("%s: expected rows of %d bytes", path, ROW);
        }
        for (size_t at = 0; at < part; at += ROW) {
            if (reducers > 1 && reducer_of(block + at, reducers) != reducer) {
                continue;
            }
            if (rows->count == rows->room) {
                rows->room = rows->room * 2 + 1024;
                rows->data = realloc(rows->data, rows->room * ROW);
                if (rows->data == NULL) {
                    task_fail("no memory for %zu rows", rows->room);
                }
            }
            memcpy(rows->data + ROW * rows->count++, block + at, ROW);
        }
    }
    free(block);
    if (!standard) {
        task_close(fd, path);
    }
}

static void split(char **words) {
    uint64_t reducers = task_number(words[1], "REDUCERS", REDUCERS_MAX);
    if (reducers == 0) {
        task_usage("REDUCERS: expected at least 1");
    }
    struct rows rows = {0};
    read_rows(words[0], 0, 1, &rows);
    task_shuffled(rows.count * ROW);
    if (strcmp(words[2], STANDARD) == 0) {
        task_write(STDOUT_FILENO, "stdout", rows.data, rows.count * ROW);
        free(rows.data);
        return;
    }
    for (uint64_t reducer = 0; reducer < reducers; reducer++) {
        char path[4096];
        if ((size_t)snprintf(path, sizeof path, "%s.%" PRIu64, words[2], reducer) >= sizeof path) {
            task_usage("PREFIX is too long");
        }
        struct writer out = writer_to(path, task_create(path));
        for (size_t i = 0; i < rows.count; i++) {
            if (reducer_of(rows.data + ROW * i, reducers) == reducer) {
                add(&out, rows.data + ROW * i, ROW);
            }
        }
        finish(&out);
    }
    free(rows.data);
}

static int by_bytes(const void *one, const void *other) {
    return memcmp(one, other, ROW);
}

static void write_sorted(const char *path, struct rows *rows) {
    if (rows->count > 0) {
        qsort(rows->data, rows->count, ROW, by_bytes);
    }
    task_sorted();
    int fd = task_create(path);
    for (size_t at = 0; at < rows->count * ROW;) {
        size_t rest = rows->count * ROW - at, part = rest < TASK_BLOCK ? rest : TASK_BLOCK;
        task_write(fd, path, rows->data + at, part);
        at += part;
    }
    task_close(fd, path);
    free(rows->data);
}

static void merge(const char *out, char **inputs, int files) {
    struct rows rows = {0};
    for (int i = 0; i < files; i++) {
        read_rows(inputs[i], 0, 1, &rows);
    }
    write_sorted(out, &rows);
}

static void collect(char **words) {
    struct rows rows = {0};
    uint64_t reducer = task_number(words[1], "REDUCER", REDUCERS_MAX),
             reducers = task_number(words[2], "REDUCERS", REDUCERS_MAX);
    if (reducer >= reducers) {
        task_usage("REDUCER: expected a number below REDUCERS");
    }
    read_rows(STANDARD, reducer, reducers, &rows);
    write_sorted(words[0], &rows);
}

/* Each row is what its number says, none comes twice, all are there, and each is behind the one before it. */
static void check(uint64_t expected, char **outputs, int files) {
    unsigned char *seen = task_allocate((size_t)(expected / 8) + 1);
    memset(seen, 0, (size_t)(expected / 8) + 1);
    char before[ROW], wanted[ROW + 1];
    uint64_t count = 0;
    memset(before, 0, sizeof before);
    for (int file = 0; file < files; file++) {
        struct rows rows = {0};
        read_rows(outputs[file], 0, 1, &rows);
        for (size_t i = 0; i < rows.count; i++, count++) {
            const char *row = rows.data + ROW * i;
            uint64_t number = number_of_row(row);
            row_of(number, wanted);
            if (number >= expected || memcmp(row, wanted, ROW) != 0) {
                task_fail("%s: row %zu is none that was to be sorted", outputs[file], i + 1);
            }
            if (seen[number / 8] >> (number % 8) & 1) {
                task_fail("%s: row %zu, number %" PRIu64 ", is there twice", outputs[file], i + 1, number);
            }
            seen[number / 8] = (unsigned char)(seen[number / 8] | 1 << (number % 8));
            if (memcmp(before, row, ROW) > 0) {
                task_fail("%s: row %zu stands behind a greater one", outputs[file], i + 1);
            }
            memcpy(before, row, ROW);
        }
        free(rows.data);
    }
    free(seen);
    if (count != expected) {
        task_fail("%" PRIu64 " rows: expected %" PRIu64, count, expected);
    }
    printf("%" PRIu64 " rows in order\n", count);
}

/* What stands in a file follows from the digits at the end of its name. */
static uint64_t key_of_file(const char *path) {
    size_t end = strlen(path), start = end;
    while (start > 0 && path[start - 1] >= '0' && path[start - 1] <= '9') {
        start--;
    }
    if (start == end || end - start > 9) {
        task_usage("%s: expected a name that ends with a number", path);
    }
    return content_key(6, task_number(path + start, "FILE", ROWS_MAX), 0, 0);
}

static void write_file(const char *path, uint64_t bytes) {
    uint64_t key = key_of_file(path);
    unsigned char *data = task_allocate(TASK_BLOCK);
    int fd = task_create(path);
    for (uint64_t at = 0; at < bytes;) {
        size_t part = bytes - at < TASK_BLOCK ? (size_t)(bytes - at) : TASK_BLOCK;
        task_contents(key, at, data, part);
        task_write(fd, path, data, part);
        at += part;
    }
    task_close(fd, path);
    free(data);
}

static void read_file(const char *path, uint64_t expected) {
    uint64_t bytes, key = key_of_file(path), at = 0;
    unsigned char *got = task_allocate(TASK_BLOCK), *wanted = task_allocate(TASK_BLOCK);
    int fd = task_open(path, &bytes);
    for (size_t part; (part = task_read(fd, path, got, TASK_BLOCK)) > 0; at += part) {
        task_contents(key, at, wanted, part);
        if (memcmp(got, wanted, part) != 0) {
            task_fail("%s: a byte between %" PRIu64 " and %" PRIu64 " is wrong", path, at, at + part);
        }
    }
    if (at != expected) {
        task_fail("%s has %" PRIu64 " bytes: expected %" PRIu64, path, at, expected);
    }
    task_close(fd, path);
    free(got);
    free(wanted);
}

static void one_file(bool writing, char **words) {
    uint64_t bytes = task_number(words[1], "BYTES", BYTES_MAX);
    if (writing) {
        write_file(words[0], bytes);
    } else {
        read_file(words[0], bytes);
    }
    char row[4096];
    int length = snprintf(row, sizeof row, "%s\t%" PRIu64 "\n", words[0], bytes);
    if (length < 0 || (size_t)length >= sizeof row) {
        task_usage("FILE is too long");
    }
    task_shuffled((uint64_t)length);
    int fd = strcmp(words[2], STANDARD) == 0 ? STDOUT_FILENO : task_create(words[2]);
    task_write(fd, words[2], row, (size_t)length);
    task_close(fd, words[2]);
}

static void sum(const char *path, char **inputs, int count) {
    uint64_t files = 0, bytes = 0;
    for (int i = 0; i < count; i++) {
        FILE *in = strcmp(inputs[i], STANDARD) == 0 ? stdin : fopen(inputs[i], "re");
        char line[4096];
        if (in == NULL) {
            task_fail("cannot read %s", inputs[i]);
        }
        while (fgets(line, sizeof line, in) != NULL) {
            char *tab = strchr(line, '\t'), *end = strchr(line, '\n');
            if (tab == NULL || end == NULL) {
                task_fail("%s: expected FILE, tab, BYTES", inputs[i]);
            }
            *end = '\0';
            bytes += task_number(tab + 1, "BYTES", BYTES_MAX);
            files++;
        }
        fclose(in);
    }
    task_sorted();
    char row[128];
    int length = snprintf(row, sizeof row, "%" PRIu64 " files, %" PRIu64 " bytes\n", files, bytes);
    int fd = task_create(path);
    task_write(fd, path, row, (size_t)length);
    task_close(fd, path);
}

int main(int count, char **words) {
    task_begin("mapreduce-task");
    const char *what = count > 1 ? words[1] : "";
    if (count == 5 && strcmp(what, "rows") == 0) {
        write_rows(words + 2);
    } else if (count == 5 && strcmp(what, "split") == 0) {
        task_phase("map");
        split(words + 2);
    } else if (count > 3 && strcmp(what, "merge") == 0) {
        task_phase("reduce");
        merge(words[2], words + 3, count - 3);
    } else if (count == 5 && strcmp(what, "collect") == 0) {
        task_phase("reduce");
        collect(words + 2);
    } else if (count > 3 && strcmp(what, "check") == 0) {
        check(task_number(words[2], "ROWS", ROWS_MAX), words + 3, count - 3);
    } else if (count == 5 && (strcmp(what, "write") == 0 || strcmp(what, "read") == 0)) {
        task_phase("map");
        one_file(strcmp(what, "write") == 0, words + 2);
    } else if (count > 3 && strcmp(what, "sum") == 0) {
        task_phase("reduce");
        sum(words[2], words + 3, count - 3);
    } else {
        task_usage("expected rows, split, merge, collect, check, write, read or sum with their arguments; "
                   "they stand in "
                   "mapreduce-task.c");
    }
    return 0;
}
