/* The tasks of a metagenome homology search as their I/O alone, in the shape of GHOST-MP: reads in chunks
 * against a database in chunks, hits keyed by read, merged, the best ten kept. There is no aligner: the hits
 * of a read in a chunk of the database follow from their numbers, so what must come out is known.
 *
 * usage: homology-task queries FILE FIRST READS        a chunk of reads: so many from the number FIRST on
 *        homology-task database FILE FIRST SUBJECTS    a chunk of the database
 *        homology-task map QUERIES DATABASE REDUCERS PREFIX
 *                                                      hits of one in the other, to PREFIX.0, PREFIX.1, ...
 *        homology-task reduce OUT HITS...              the best ten hits of each read
 *        homology-task collect OUT REDUCER REDUCERS    reduce, of the hits on stdin that are this reducer's
 *        homology-task check READS SUBJECTS CHUNK REDUCERS OUT...
 *                                                      whether the outputs are what they must be: READS and
 *                                                      SUBJECTS in all, CHUNK subjects in a chunk
 *
 * With a real aligner, diamond, whose hits they are:
 *        homology-task homologs FILE FIRST READS SUBJECTS PERCENT     reads, most of them from a subject
 *        homology-task format DATABASE FORMATTED        a chunk of the database as the aligner has it
 *        homology-task align QUERIES FORMATTED LETTERS TABLE     hits as a table; LETTERS of the database
 *        homology-task search LETTERS QUERIES FORMATTED REDUCERS PREFIX     hits, to PREFIX.0, PREFIX.1, ...
 *        homology-task merge OUT TABLE...               the best ten hits of each read
 *        homology-task gather OUT REDUCER REDUCERS      merge, of the hits on stdin that are this reducer's
 *        homology-task recall READS SUBJECTS PERCENT LEAST OUT...     whether so many % found their subject
 *
 * A diamond that uses no processor time for HOMOLOGY_STILL_S seconds (default 120) is killed and started
 * again, at most twice.
 *
 * With the PREFIX - hits go to stdout, those of all reducers together. `map` reads both chunks to their ends
 * and checks every byte. Exit status: 0; 1 when something is not what it must be, named with file and line; 2
 * for a wrong command line. */
#include "aligner.h"
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A record: '>', a letter, 9 digits, newline, letters, newline. */
enum {
    HEAD = 12,
    READ_LETTERS = 100,
    SUBJECT_LETTERS = 300,
    CODONS = 33,
    CANDIDATES = 10,
    BEST = 10,
    ROW_MAX = 160
};
static const uint64_t COUNT_MAX = 999999999;

struct kind {
    char letter;
    size_t letters;
    const char *alphabet;
    size_t alphabet_size;
};
static const struct kind READS = {'r', READ_LETTERS, "ACGT", 4};
static const struct kind SUBJECTS = {'p', SUBJECT_LETTERS, "ACDEFGHIKLMNPQRSTVWY", 20};

static size_t record_bytes(const struct kind *kind) {
    return HEAD + kind->letters + 1;
}

static void record_of(const struct kind *kind, uint64_t number, char *out) {
    uint64_t key = content_key(1, (uint64_t)kind->letter, number, 0);
    snprintf(out, HEAD, ">%c%09" PRIu64, kind->letter, number);
    out[HEAD - 1] = '\n';
    for (size_t i = 0; i < kind->letters; i++) {
        out[HEAD + i] = kind->alphabet[content_bits(key, i) % kind->alphabet_size];
    }
    out[HEAD + kind->letters] = '\n';
}

static void write_records(const struct kind *kind, const char *path, uint64_t first, uint64_t count) {
    size_t bytes = record_bytes(kind), filled = 0, room = TASK_BLOCK / bytes * bytes;
    char *data = task_allocate(room + 1);
    int fd = task_create(path);
    for (uint64_t number = first; number < first + count; number++) {
        record_of(kind, number, data + filled);
        filled += bytes;
        if (filled == room) {
            task_write(fd, path, data, filled);
            filled = 0;
        }
    }
    task_write(fd, path, data, filled);
    task_close(fd, path);
    free(data);
}

struct chunk {
    uint64_t first, count;
};

/* Reads a chunk to its end; every record must be the one that its number stands for. */
static struct chunk read_records(const struct kind *kind, const char *path) {
    size_t bytes = record_bytes(kind);
    uint64_t size;
    int fd = task_open(path, &size);
    struct chunk chunk = {0, size / bytes};
    if (size % bytes != 0 || size == 0) {
        task_fail("%s has %" PRIu64 " bytes: expected records of %zu", path, size, bytes);
    }
    char *got = task_allocate(bytes + 1), *wanted = task_allocate(bytes + 1);
    size_t room = TASK_BLOCK / bytes * bytes;
    char *data = task_allocate(room);
    uint64_t line = 0;
    for (size_t part; (part = task_read(fd, path, data, room)) > 0;) {
        for (size_t at = 0; at + bytes <= part; at += bytes, line++) {
            memcpy(got, data + at, bytes);
            got[HEAD - 1] = '\0';
            if (line == 0) {
                chunk.first = strtoull(got + 2, NULL, 10);
            }
            got[HEAD - 1] = '\n';
            record_of(kind, chunk.first + line, wanted);
            if (memcmp(got, wanted, bytes) != 0) {
                task_fail("%s: record %" PRIu64 " is not %c%09" PRIu64, path, line + 1, kind->letter,
                          chunk.first + line);
            }
        }
    }
    if (line != chunk.count) {
        task_fail("%s has %" PRIu64 " records: expected %" PRIu64, path, line, chunk.count);
    }
    task_close(fd, path);
    free(got);
    free(wanted);
    free(data);
    return chunk;
}

struct hit {
    uint64_t read, subject, score;
};

/* The hits of a read in a chunk of the database; how many there are. */
static size_t hits_of(uint64_t read, struct chunk database, struct hit *hits) {
    uint64_t key = content_key(2, read, database.first, 0);
    size_t count = 0;
    for (uint64_t candidate = 0; candidate < CANDIDATES; candidate++) {
        uint64_t bits = content_bits(key, candidate);
        /* Three in ten are too weak. */
        if (bits % 10 >= 3) {
            hits[count++] =
                (struct hit){read, database.first + (bits >> 20) % database.count, 30 + (bits >> 8) % 4000};
        }
    }
    return count;
}

static int best_first(const void *one, const void *other) {
    const struct hit *a = one, *b = other;
    if (a->read != b->read) {
        return a->read < b->read ? -1 : 1;
    }
    if (a->score != b->score) {
        return a->score > b->score ? -1 : 1;
    }
    return a->subject < b->subject ? -1 : a->subject > b->subject;
}

/* A row as BLAST's tables have it; its length. The columns in the middle follow from the hit. */
static size_t row_of(const struct hit *hit, char *out) {
    uint64_t bits = content_mix(hit->read * 1000003 + hit->subject);
    int length = snprintf(out, ROW_MAX,
                          "r%09" PRIu64 "\tp%09" PRIu64 "\t%" PRIu64 ".%02" PRIu64 "\t%" PRIu64 "\t%" PRIu64
                          "\t%" PRIu64 "\t1\t100\t%" PRIu64 "\t%" PRIu64 "\t1e-%" PRIu64 "\t%" PRIu64 "\n",
                          hit->read, hit->subject, 30 + bits % 70, bits / 70 % 100, 30 + bits / 7000 % 4,
                          bits / 28000 % 20, bits / 560000 % 3, bits / 1680000 % 200,
                          bits / 336000000 % 99 + 200, hit->score / 40, hit->score);
    return (size_t)length;
}

static void write_text(int fd, const char *path, char *data, size_t *filled, const char *row, size_t bytes) {
    if (*filled + bytes > TASK_BLOCK) {
        task_write(fd, path, data, *filled);
        *filled = 0;
    }
    memcpy(data + *filled, row, bytes);
    *filled += bytes;
}

static void map(char **words) {
    uint64_t reducers = task_number(words[2], "REDUCERS", 4096);
    if (reducers == 0) {
        task_usage("REDUCERS: expected at least 1");
    }
    struct chunk queries = read_records(&READS, words[0]), database = read_records(&SUBJECTS, words[1]);
    char *data = task_allocate(TASK_BLOCK), row[ROW_MAX], path[4096];
    bool together = strcmp(words[3], "-") == 0;
    for (uint64_t reducer = 0; reducer < (together ? 1 : reducers); reducer++) {
        size_t filled = 0;
        if ((size_t)snprintf(path, sizeof path, "%s.%" PRIu64, words[3], reducer) >= sizeof path) {
            task_usage("PREFIX is too long");
        }
        int fd = together ? STDOUT_FILENO : task_create(path);
        for (uint64_t read = queries.first; read < queries.first + queries.count; read++) {
            struct hit hits[CANDIDATES];
            size_t count = together || read % reducers == reducer ? hits_of(read, database, hits) : 0;
            for (size_t i = 0; i < count; i++) {
                size_t bytes = row_of(&hits[i], row);
                task_shuffled(bytes);
                write_text(fd, path, data, &filled, row, bytes);
            }
        }
        task_write(fd, path, data, filled);
        task_close(fd, path);
    }
    free(data);
}

/* Those of a stream that belong to one reducer; all of a file do. */
struct share {
    uint64_t reducer, reducers;
};

/* Adds the hits of a file, or of stdin (-); every row must be one. */
static struct hit *read_hits(const char *path, struct share share, struct hit *hits, size_t *count,
                             size_t *room) {
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    char line[ROW_MAX + 2], row[ROW_MAX];
    if (in == NULL) {
        task_fail("cannot read %s", path);
    }
    for (uint64_t number = 1; fgets(line, sizeof line, in) != NULL; number++) {
        struct hit hit;
        const char *score = strrchr(line, '\t');
        if (score == NULL || sscanf(line, "r%9" SCNu64 "\tp%9" SCNu64, &hit.read, &hit.subject) != 2 ||
            sscanf(score, "\t%" SCNu64, &hit.score) != 1 || row_of(&hit, row) != strlen(line) ||
            strcmp(row, line) != 0) {
            task_fail("%s: line %" PRIu64 " is no hit", path, number);
        }
        if (hit.read % share.reducers != share.reducer) {
            continue;
        }
        if (*count == *room) {
            *room = *room * 2 + 1024;
            hits = realloc(hits, *room * sizeof *hits);
            if (hits == NULL) {
                task_fail("no memory for %zu hits", *room);
            }
        }
        hits[(*count)++] = hit;
    }
    if (ferror(in)) {
        task_fail("cannot read %s", path);
    }
    fclose(in);
    return hits;
}

static void reduce(const char *out, struct share share, char **inputs, int files) {
    struct hit *hits = NULL;
    size_t count = 0, room = 0, filled = 0, rank = 0;
    char *data = task_allocate(TASK_BLOCK), row[ROW_MAX];
    for (int i = 0; i < files; i++) {
        hits = read_hits(inputs[i], share, hits, &count, &room);
    }
    if (count > 0) {
        qsort(hits, count, sizeof *hits, best_first);
    }
    task_sorted();
    int fd = task_create(out);
    for (size_t i = 0; i < count; i++) {
        rank = i > 0 && hits[i].read == hits[i - 1].read ? rank + 1 : 0;
        if (rank < BEST) {
            write_text(fd, out, data, &filled, row, row_of(&hits[i], row));
        }
    }
    task_write(fd, out, data, filled);
    task_close(fd, out);
    free(data);
    free(hits);
}

/* The second and the third word. */
static struct share share_of(char **words) {
    struct share share = {task_number(words[1], "REDUCER", 4095), task_number(words[2], "REDUCERS", 4096)};
    if (share.reducer >= share.reducers) {
        task_usage("REDUCER: expected a number below REDUCERS");
    }
    return share;
}

static void collect(char **words) {
    static char standard_input[] = "-";
    char *inputs[] = {standard_input};
    reduce(words[0], share_of(words), inputs, 1);
}

/* Makes anew what the reducer must have written, and compares line by line. */
static uint64_t check_output(const char *path, uint64_t reads, uint64_t subjects, uint64_t chunk,
                             uint64_t reducer, uint64_t reducers) {
    FILE *in = fopen(path, "re");
    char line[ROW_MAX + 2], row[ROW_MAX];
    uint64_t number = 0;
    size_t chunks = (size_t)((subjects + chunk - 1) / chunk);
    struct hit *hits = task_allocate(chunks * CANDIDATES * sizeof *hits);
    if (in == NULL) {
        task_fail("cannot read %s", path);
    }
    for (uint64_t read = reducer; read < reads; read += reducers) {
        size_t count = 0;
        for (uint64_t first = 0; first < subjects; first += chunk) {
            uint64_t of_chunk = subjects - first < chunk ? subjects - first : chunk;
            count += hits_of(read, (struct chunk){first, of_chunk}, hits + count);
        }
        if (count > 0) {
            qsort(hits, count, sizeof *hits, best_first);
        }
        for (size_t i = 0; i < count && i < BEST; i++) {
            row_of(&hits[i], row);
            number++;
            if (fgets(line, sizeof line, in) == NULL || strcmp(line, row) != 0) {
                task_fail("%s: line %" PRIu64 " is not the hit of r%09" PRIu64 " in p%09" PRIu64, path,
                          number, hits[i].read, hits[i].subject);
            }
        }
    }
    if (fgets(line, sizeof line, in) != NULL) {
        task_fail("%s: line %" PRIu64 " is one too many", path, number + 1);
    }
    fclose(in);
    free(hits);
    return number;
}

static void check(char **words, int files) {
    uint64_t reads = task_number(words[0], "READS", COUNT_MAX),
             subjects = task_number(words[1], "SUBJECTS", COUNT_MAX);
    uint64_t chunk = task_number(words[2], "CHUNK", COUNT_MAX),
             reducers = task_number(words[3], "REDUCERS", 4096);
    uint64_t rows = 0;
    if (chunk == 0 || reducers == 0 || reducers != (uint64_t)files) {
        task_usage("check: expected an output for each of %" PRIu64 " reducers, not %d", reducers, files);
    }
    for (int i = 0; i < files; i++) {
        rows += check_output(words[4 + i], reads, subjects, chunk, (uint64_t)i, reducers);
    }
    printf("%" PRIu64 " rows of %" PRIu64 " reads\n", rows, reads);
}

/* Where a read comes from: four in five from a subject. */
struct source {
    bool real;
    uint64_t subject, start, frame;
    bool reverse;
};

static struct source source_of(uint64_t read, uint64_t subjects) {
    uint64_t bits = content_mix(content_key(3, read, subjects, 0));
    return (struct source){.real = bits % 5 != 0,
                           .subject = (bits >> 8) % subjects,
                           .start = (bits >> 40) % (SUBJECT_LETTERS - CODONS),
                           .frame = (bits >> 52) % 2,
                           .reverse = (bits >> 54) % 2 == 1};
}

/* A codon of each amino acid, in the order of SUBJECTS' alphabet. */
static const char CODON[] = "GCTTGTGATGAATTTGGTCATATTAAACTGATGAACCCGCAGCGTTCTACCGTTTGGTAT";

static char complement(char base) {
    return base == 'A' ? 'T' : base == 'T' ? 'A' : base == 'C' ? 'G' : 'C';
}

static void homolog_of(uint64_t read, uint64_t subjects, uint64_t percent, char *out) {
    struct source source = source_of(read, subjects);
    char subject[HEAD + SUBJECT_LETTERS + 1], dna[READ_LETTERS];
    record_of(&READS, read, out);
    if (!source.real) {
        return;
    }
    record_of(&SUBJECTS, source.subject, subject);
    uint64_t key = content_key(4, read, percent, 0);
    memcpy(dna, out + HEAD, READ_LETTERS);
    for (uint64_t i = 0; i < CODONS; i++) {
        uint64_t bits = content_bits(key, i);
        char letter = subject[HEAD + source.start + i];
        if (bits % 100 < percent) {
            letter = SUBJECTS.alphabet[(bits >> 8) % SUBJECTS.alphabet_size];
        }
        size_t amino = (size_t)(strchr(SUBJECTS.alphabet, letter) - SUBJECTS.alphabet);
        memcpy(dna + source.frame + 3 * i, CODON + 3 * amino, 3);
    }
    for (size_t i = 0; i < READ_LETTERS; i++) {
        size_t from = source.reverse ? READ_LETTERS - 1 - i : i;
        out[HEAD + i] = source.reverse ? complement(dna[from]) : dna[from];
    }
}

static void write_homologs(char **words) {
    uint64_t first = task_number(words[1], "FIRST", COUNT_MAX),
             count = task_number(words[2], "READS", COUNT_MAX);
    uint64_t subjects = task_number(words[3], "SUBJECTS", COUNT_MAX),
             percent = task_number(words[4], "PERCENT", 100);
    char record[HEAD + READ_LETTERS + 1];
    if (subjects == 0) {
        task_usage("SUBJECTS: expected at least 1");
    }
    char *data = task_allocate(TASK_BLOCK);
    size_t filled = 0;
    int fd = task_create(words[0]);
    for (uint64_t read = first; read < first + count; read++) {
        homolog_of(read, subjects, percent, record);
        write_text(fd, words[0], data, &filled, record, sizeof record);
    }
    task_write(fd, words[0], data, filled);
    task_close(fd, words[0]);
    free(data);
}

/* Runs an aligner that writes a file; a failure leaves none. What it prints is dropped. */
static void write_by_aligner(char *const *words, const char *out) {
    uint64_t limit_s = aligner_limit();
    task_writes(out);
    free(aligner_run(words, out, limit_s).data);
    task_writes(NULL);
}

static void format_database(char **words) {
    char *const command[] = {"diamond", "makedb", "--quiet", "-p",     "1",
                             "--in",    words[0], "-d",      words[1], NULL};
    write_by_aligner(command, words[1]);
}

/* E-values are those of the whole database, whatever the chunk. */
static void align(char **words) {
    task_number(words[2], "LETTERS", UINT64_MAX);
    char *const command[] = {"diamond", "blastx", "--quiet", "-p", "1",        "-q",     words[0],
                             "-d",      words[1], "-k",      "10", "--dbsize", words[2], "-e",
                             "0.001",   "-f",     "6",       "-o", words[3],   NULL};
    write_by_aligner(command, words[3]);
}

/* A line of a table, with what it is sorted by. */
struct line {
    uint64_t read, subject;
    double score;
    char *text;
};

static int best_line_first(const void *one, const void *other) {
    const struct line *a = one, *b = other;
    if (a->read != b->read) {
        return a->read < b->read ? -1 : 1;
    }
    if (a->score != b->score) {
        return a->score > b->score ? -1 : 1;
    }
    if (a->subject != b->subject) {
        return a->subject < b->subject ? -1 : 1;
    }
    return strcmp(a->text, b->text);
}

/* Adds the rows of a table that are of the share. */
static struct line *read_lines(FILE *in, const char *path, struct share share, struct line *lines,
                               size_t *count, size_t *room) {
    char text[1024];
    for (uint64_t number = 1; fgets(text, sizeof text, in) != NULL; number++) {
        struct line line;
        const char *score = strrchr(text, '\t');
        if (score == NULL || sscanf(text, "r%9" SCNu64 "\tp%9" SCNu64, &line.read, &line.subject) != 2 ||
            sscanf(score, "\t%lf", &line.score) != 1) {
            task_fail("%s: line %" PRIu64 " is no hit", path, number);
        }
        if (line.read % share.reducers != share.reducer) {
            continue;
        }
        if (*count == *room) {
            *room = *room * 2 + 1024;
            lines = realloc(lines, *room * sizeof *lines);
            if (lines == NULL) {
                task_fail("no memory for %zu hits", *room);
            }
        }
        line.text = strcpy(task_allocate(strlen(text) + 1), text);
        lines[(*count)++] = line;
    }
    if (ferror(in)) {
        task_fail("cannot read %s", path);
    }
    return lines;
}

/* The same of a file, or of stdin (-). */
static struct line *read_table(const char *path, struct share share, struct line *lines, size_t *count,
                               size_t *room) {
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (in == NULL) {
        task_fail("cannot read %s", path);
    }
    lines = read_lines(in, path, share, lines, count, room);
    fclose(in);
    return lines;
}

static void free_lines(struct line *lines, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(lines[i].text);
    }
    free(lines);
}

/* The hits of a chunk of reads in a chunk of the database, by reducer; all of a hit's columns are the
 * aligner's. */
static void search(char **words) {
    task_number(words[0], "LETTERS", UINT64_MAX);
    uint64_t reducers = task_number(words[3], "REDUCERS", 4096);
    if (reducers == 0) {
        task_usage("REDUCERS: expected at least 1");
    }
    char *const command[] = {"diamond", "blastx", "--quiet", "-p", "1",  "-q",
                             words[1],  "-d",     words[2],  "-k", "10", "--dbsize",
                             words[0],  "-e",     "0.001",   "-f", "6",  NULL};
    bool together = strcmp(words[4], "-") == 0;
    struct line *lines = NULL;
    size_t count = 0, room = 0;
    struct aligner_text text = aligner_run(command, words[1], aligner_limit());
    if (text.bytes > 0) {
        FILE *hits = fmemopen(text.data, text.bytes, "r");
        if (hits == NULL) {
            task_fail("no memory for hits of diamond");
        }
        lines = read_lines(hits, "hits of diamond", (struct share){0, 1}, lines, &count, &room);
        fclose(hits);
    }
    free(text.data);
    char *data = task_allocate(TASK_BLOCK), path[4096];
    for (uint64_t reducer = 0; reducer < (together ? 1 : reducers); reducer++) {
        size_t filled = 0;
        if ((size_t)snprintf(path, sizeof path, "%s.%" PRIu64, words[4], reducer) >= sizeof path) {
            task_usage("PREFIX is too long");
        }
        int fd = together ? STDOUT_FILENO : task_create(path);
        for (size_t i = 0; i < count; i++) {
            size_t bytes = strlen(lines[i].text);
            if (together || lines[i].read % reducers == reducer) {
                task_shuffled(bytes);
                write_text(fd, path, data, &filled, lines[i].text, bytes);
            }
        }
        task_write(fd, path, data, filled);
        task_close(fd, path);
    }
    free(data);
    free_lines(lines, count);
}

static void merge(const char *out, struct share share, char **inputs, int files) {
    struct line *lines = NULL;
    size_t count = 0, room = 0, filled = 0, rank = 0;
    char *data = task_allocate(TASK_BLOCK);
    for (int i = 0; i < files; i++) {
        lines = read_table(inputs[i], share, lines, &count, &room);
    }
    if (count > 0) {
        qsort(lines, count, sizeof *lines, best_line_first);
    }
    task_sorted();
    int fd = task_create(out);
    for (size_t i = 0; i < count; i++) {
        rank = i > 0 && lines[i].read == lines[i - 1].read ? rank + 1 : 0;
        if (rank < BEST) {
            write_text(fd, out, data, &filled, lines[i].text, strlen(lines[i].text));
        }
    }
    task_write(fd, out, data, filled);
    task_close(fd, out);
    free_lines(lines, count);
    free(data);
}

static void gather(char **words) {
    static char standard_input[] = "-";
    char *inputs[] = {standard_input};
    merge(words[0], share_of(words), inputs, 1);
}

static void recall(char **words, int files) {
    uint64_t reads = task_number(words[0], "READS", COUNT_MAX),
             subjects = task_number(words[1], "SUBJECTS", COUNT_MAX);
    uint64_t least = task_number(words[3], "LEAST", 100), real = 0, found = 0;
    task_number(words[2], "PERCENT", 100);
    if (subjects == 0) {
        task_usage("SUBJECTS: expected at least 1");
    }
    for (uint64_t read = 0; read < reads; read++) {
        real += source_of(read, subjects).real;
    }
    for (int i = 0; i < files; i++) {
        struct line *lines = NULL;
        size_t count = 0, room = 0;
        lines = read_table(words[4 + i], (struct share){0, 1}, lines, &count, &room);
        for (size_t at = 0; at < count; at++) {
            struct source source = source_of(lines[at].read, subjects);
            bool first = at == 0 || lines[at].read != lines[at - 1].read;
            found += first && source.real && source.subject == lines[at].subject;
        }
        free_lines(lines, count);
    }
    printf("%" PRIu64 " of %" PRIu64 " reads that come from a subject have it as their best hit\n", found,
           real);
    if (found * 100 < real * least) {
        task_fail("fewer than %" PRIu64 " %%", least);
    }
}

int main(int count, char **words) {
    task_begin("homology-task");
    const char *what = count > 1 ? words[1] : "";
    if (count == 5 && strcmp(what, "queries") == 0) {
        write_records(&READS, words[2], task_number(words[3], "FIRST", COUNT_MAX),
                      task_number(words[4], "READS", COUNT_MAX));
    } else if (count == 5 && strcmp(what, "database") == 0) {
        write_records(&SUBJECTS, words[2], task_number(words[3], "FIRST", COUNT_MAX),
                      task_number(words[4], "SUBJECTS", COUNT_MAX));
    } else if (count == 6 && strcmp(what, "map") == 0) {
        task_phase("map");
        map(words + 2);
    } else if (count > 3 && strcmp(what, "reduce") == 0) {
        task_phase("reduce");
        reduce(words[2], (struct share){0, 1}, words + 3, count - 3);
    } else if (count == 5 && strcmp(what, "collect") == 0) {
        task_phase("reduce");
        collect(words + 2);
    } else if (count == 7 && strcmp(what, "search") == 0) {
        task_phase("map");
        search(words + 2);
    } else if (count == 5 && strcmp(what, "gather") == 0) {
        task_phase("reduce");
        gather(words + 2);
    } else if (count > 6 && strcmp(what, "check") == 0) {
        check(words + 2, count - 6);
    } else if (count == 7 && strcmp(what, "homologs") == 0) {
        write_homologs(words + 2);
    } else if (count == 4 && strcmp(what, "format") == 0) {
        format_database(words + 2);
    } else if (count == 6 && strcmp(what, "align") == 0) {
        align(words + 2);
    } else if (count > 3 && strcmp(what, "merge") == 0) {
        task_phase("reduce");
        merge(words[2], (struct share){0, 1}, words + 3, count - 3);
    } else if (count > 6 && strcmp(what, "recall") == 0) {
        recall(words + 2, count - 6);
    } else {
        task_usage(
            "expected queries, database, map, reduce, collect, check, homologs, format, align, search, "
            "merge, gather or recall with their arguments; they stand in homology-task.c");
    }
    return 0;
}
