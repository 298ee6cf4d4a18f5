/* argot-io: what a radiation hydrodynamics simulation writes, one file a process.
 *
 * A file is a header of 808 bytes and one record for each cell of the process's mesh, z fastest; a record is
 * 13 to 33 floats. The original writes record by record through stdio, which is the default here; `block` and
 * `direct` write the same bytes in large pieces. All memory of one epoch is filled before the clock starts,
 * as a simulation's is. Collective: all but `piece`. */
#include "base.h"
#include "content.h"
#include "kernel.h"
#include "phase.h"
#include "verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEADER 808
#define ALIGNED 4096
#define DUMP_EPOCH 1000000 /* epochs of the contents of rewritten dumps begin here */

enum { WRITER_STDIO, WRITER_BLOCK, WRITER_DIRECT };

static struct {
    int64_t mesh[3], grid[3], rewrites, block;
    int record, writer;
    const char *model;
    bool grid_given;
} set;

/* Follow from the settings: floats of a record, cells of a process, bytes of a file. */
static int64_t fields, cells, file_size;

static const int64_t fields_of[] = {13, 20, 26, 33};
static const char *const names[] = {"dens", "eneg",  "momx", "momy", "momz",    "uene",  "pot",
                                    "wmol", "felec", "fHI",  "fHII", "GammaHI", "HeatHI"};

static const struct option options[] = {
    {"mesh", OPTION_SHAPE, set.mesh, 3, 65536, "XxYxZ", "cells of each process", NULL},
    {"grid", OPTION_SHAPE, set.grid, 3, 1 << 20, "XxYxZ", "processes (as even as can be)", &set.grid_given},
    {"record", OPTION_WORD, &set.record, 0, 0, "hydrogen|helium|molecular|all",
     "52, 80, 104 or 132 bytes a cell", NULL},
    {"writer", OPTION_WORD, &set.writer, 0, 0, "record-stdio|block|direct",
     "a record a call, or blocks, or O_DIRECT", NULL},
    {"block", OPTION_BYTES, &set.block, ALIGNED, 1 << 30, "BYTES", "of a block (1M); a multiple of 4096",
     NULL},
    {"rewrites", OPTION_COUNT, &set.rewrites, 0, 1000, "N",
     "before each epoch, write one dump so often again (0)", NULL},
    {"model", OPTION_TEXT, &set.model, 0, 0, "NAME", "begins the names of folders and files (argot)", NULL},
    {0},
};

static void size(int size) {
    static const int64_t meshes[] = {32, 192, 256}, repetitions[] = {2, 6, 10};
    for (int i = 0; i < 3; i++)
        set.mesh[i] = meshes[size];
    settings.repetitions = repetitions[size];
    set.block = 1 << 20;
    set.model = "argot";
}

static void settle(void) {
    if (!set.grid_given)
        kernel_grid(run.ranks, set.grid, 3);
    if (set.grid[0] * set.grid[1] * set.grid[2] != run.ranks)
        usage_error("--grid %" PRId64 "x%" PRId64 "x%" PRId64 " is not for %d ranks", set.grid[0],
                    set.grid[1], set.grid[2], run.ranks);
    if (set.block % ALIGNED != 0)
        usage_error("--block %" PRId64 ": expected a multiple of %d", set.block, ALIGNED);
    if (strchr(set.model, '/') != NULL || set.model[0] == '.')
        usage_error("--model %s: expected a name without / that does not begin with a dot", set.model);
    fields = fields_of[set.record];
    cells = (int64_t)product(product((uint64_t)set.mesh[0], (uint64_t)set.mesh[1]), (uint64_t)set.mesh[2]);
    file_size = HEADER + (int64_t)product((uint64_t)cells, (uint64_t)(4 * fields));
}

static void parameters(struct json *json) {
    json_row(json, "mesh", set.mesh, 3);
    json_row(json, "grid", set.grid, 3);
    json_text(json, "record", options_word(options[2].words, set.record));
    json_whole(json, "record_bytes", 4 * fields);
    json_text(json, "writer", options_word(options[3].words, set.writer));
    json_whole(json, "block", set.block);
    json_whole(json, "rewrites", set.rewrites);
    json_text(json, "model", set.model);
}

/* What is written for the epochs themselves and read back; rewrites are written besides, and only the last is
 * read. */
static int64_t payload(void) {
    return (int64_t)product((uint64_t)(file_size - HEADER), (uint64_t)run.ranks);
}

static int64_t file_bytes(void) {
    return file_size * run.ranks * (set.rewrites > 0 ? 2 : 1);
}

static bool folder(int n, char *out, size_t room) {
    int dumps = set.rewrites > 0;
    if (n >= settings.repetitions + dumps)
        return false;
    if (n == settings.repetitions)
        print_into(out, room, "%s-dmp", set.model);
    else
        print_into(out, room, "%s-%02d", set.model, n + 1);
    return true;
}

/* File 0 is the epoch's, file 1 the dump that is the same for all epochs. */
static bool file(int rank, int64_t epoch, int n, char *out, size_t room) {
    char place[64], below[PATH_LENGTH_MAX];
    if (n > 1 || (n == 1 && set.rewrites == 0))
        return false;
    print_into(place, sizeof place, "_%03d_%03d_%03d", (int)(rank / (set.grid[1] * set.grid[2])),
               (int)(rank / set.grid[2] % set.grid[1]), (int)(rank % set.grid[2]));
    folder(n == 0 ? (int)epoch : (int)settings.repetitions, below, sizeof below);
    print_into(out, room, "%s/%s%s", below, below, place);
    return true;
}

static void dry_run(void) {
    char name[PATH_LENGTH_MAX];
    printf("# file\trank\tpart\toffset\tbytes\n");
    for (int64_t epoch = 0; epoch < settings.repetitions; epoch++)
        for (int rank = 0; rank < run.ranks; rank++)
            for (int n = 0; file(rank, epoch, n, name, sizeof name); n++) {
                if (n == 1 && epoch > 0)
                    continue;
                printf("%s\t%d\theader\t0\t%d\n", name, rank, HEADER);
                printf("%s\t%d\t%" PRId64 " records of %" PRId64 "\t%d\t%" PRId64 "\n", name, rank, cells,
                       4 * fields, HEADER, file_size - HEADER);
            }
    printf("# total: %" PRId64 " bytes in files, %" PRId64 " of them payload\n",
           file_size * run.ranks * (settings.repetitions + (set.rewrites > 0)),
           (file_size - HEADER) * run.ranks * (settings.repetitions + (set.rewrites > 0)));
}

/* The header: a line that says what follows, the rest content like any other. The original has its parameters
 * in memory there, as they are, with pointers. */
static void fill_header(char *out, int rank, int64_t epoch) {
    uint64_t key = content_key((uint64_t)settings.seed, (uint64_t)rank, (uint64_t)epoch, 1000);
    uint64_t *words = (uint64_t *)(void *)out;
    for (int i = 0; i < HEADER / 8; i++)
        words[i] = content_bits(key, (uint64_t)i);
    print_into(out, 256,
               "iobench argot-io 1 rank %d epoch %" PRId64 " mesh %" PRId64 "x%" PRId64 "x%" PRId64
               " record %" PRId64 "\n",
               rank, epoch, set.mesh[0], set.mesh[1], set.mesh[2], 4 * fields);
}

/* Records `from` to `to` of a rank's mesh. */
static void fill_records(uint32_t *out, int rank, int64_t epoch, int64_t from, int64_t to) {
    for (int64_t f = 0; f < fields; f++) {
        uint64_t key = content_key((uint64_t)settings.seed, (uint64_t)rank, (uint64_t)epoch, (uint64_t)f);
        for (int64_t cell = from; cell < to; cell++)
            out[(cell - from) * fields + f] = content_f32(key, (uint64_t)cell);
    }
}

/* Record by record, from the mesh through a temporary, as the original does. */
static bool write_stdio(const char *path, bool again, const char *image, int64_t *calls) {
    char record[4 * 33];
    size_t record_size = (size_t)(4 * fields);
    part_begin(PART_OPEN);
    FILE *stream = fopen(path, again ? "we" : "wxe");
    part_end();
    if (stream == NULL)
        return note_error("create %s: %s", path, strerror(errno));
    part_begin(PART_TRANSFER);
    bool well = fwrite(image, HEADER, 1, stream) == 1;
    ++*calls;
    int64_t offset = HEADER;
    for (int64_t cell = 0; cell < cells && well; cell++) {
        memcpy(record, image + offset, record_size);
        well = fwrite(record, record_size, 1, stream) == 1;
        offset += (int64_t)record_size;
        ++*calls;
        if ((cell & 4095) == 0)
            step_progress(offset - HEADER);
    }
    well = fflush(stream) == 0 && well;
    int reason = errno;
    part_end();
    if (!well)
        note_error("write %s at about %" PRId64 ": %s", path, offset, strerror(reason));
    if (well && settings.fsync == FSYNC_FILE) {
        part_begin(PART_FLUSH);
        well = storage_sync(fileno(stream), path);
        part_end();
        ++*calls;
    }
    part_begin(PART_CLOSE);
    if (fclose(stream) != 0)
        well = note_error("close %s: %s", path, strerror(errno));
    part_end();
    *calls += 2;
    return well;
}

/* In blocks; for O_DIRECT what is left after the last whole 4096 bytes goes without it. */
static bool transfer_blocks(int fd, const char *path, char *image, bool writing, int64_t *calls) {
    int64_t whole = set.writer == WRITER_DIRECT ? file_size / ALIGNED * ALIGNED : file_size;
    bool well = true;
    for (int64_t at = 0; at < file_size && well;) {
        int64_t end = at < whole ? whole : file_size;
        int64_t bytes = end - at < set.block ? end - at : set.block;
        if (at == whole && set.writer == WRITER_DIRECT && fcntl(fd, F_SETFL, 0) != 0)
            return note_error("fcntl %s: %s", path, strerror(errno));
        well = writing ? storage_write(fd, path, image + at, (size_t)bytes, at, calls)
                       : storage_read(fd, path, image + at, (size_t)bytes, at, calls);
        at += bytes;
        step_progress(at - HEADER);
    }
    return well;
}

static bool write_blocks(const char *path, bool again, char *image, int64_t *calls) {
    int direct = set.writer == WRITER_DIRECT ? O_DIRECT : 0;
    part_begin(PART_OPEN);
    int fd =
        again ? storage_open(path, O_WRONLY | O_TRUNC | direct) : storage_create(path, O_WRONLY | direct);
    part_end();
    if (fd < 0)
        return false;
    part_begin(PART_TRANSFER);
    bool well = transfer_blocks(fd, path, image, true, calls);
    part_end();
    return kernel_end_file(fd, path, true, well, calls);
}

/* One step: folder, open, write, close. `again`: the dump of before is there and is replaced. */
static void write_file(const char *step, int64_t epoch, int n, bool again, char *image) {
    char below[PATH_LENGTH_MAX], path[PATH_LENGTH_MAX], parent[PATH_LENGTH_MAX];
    int64_t calls = 0;
    folder(n == 0 ? (int)epoch : (int)settings.repetitions, below, sizeof below);
    kernel_path(below, parent, sizeof parent);
    file(run.rank, epoch, n, below, sizeof below);
    kernel_path(below, path, sizeof path);
    step_begin(step);
    step_expects(file_size - HEADER);
    part_begin(PART_OPEN);
    bool well =
        mkdir(parent, 0777) == 0 || errno == EEXIST || note_error("mkdir %s: %s", parent, strerror(errno));
    part_end();
    calls++;
    if (well)
        well = set.writer == WRITER_STDIO ? write_stdio(path, again, image, &calls)
                                          : write_blocks(path, again, image, &calls);
    step_end(well ? file_size - HEADER : 0, calls);
}

static char *filled(int rank, int64_t epoch) {
    char *image = allocate((size_t)file_size);
    fill_header(image, rank, epoch);
    fill_records((uint32_t *)(void *)(image + HEADER), rank, epoch, 0, cells);
    return image;
}

static void write_epoch(int64_t epoch) {
    struct residency before = {.known = true}, after = {.known = true};
    if (set.rewrites > 0) {
        phase_begin("rewrite", (int)epoch);
        for (int64_t d = 0; d < set.rewrites; d++) {
            char *image = filled(run.rank, DUMP_EPOCH + epoch * set.rewrites + d);
            write_file("rewrite", epoch, 1, epoch > 0 || d > 0, image);
            free(image);
            if (!all_well())
                break;
        }
        phase_end(&before, &after);
        if (run.reason[0] != '\0')
            return;
    }
    char *image = filled(run.rank, epoch);
    phase_begin("write", (int)epoch);
    write_file("write", epoch, 0, false, image);
    free(image);
    if (run.error[0] == '\0')
        after = kernel_cache(false, epoch);
    phase_end(&before, &after);
}

static bool read_stdio(const char *path, char *image, int64_t *calls) {
    size_t record_size = (size_t)(4 * fields);
    part_begin(PART_OPEN);
    FILE *stream = fopen(path, "re");
    part_end();
    if (stream == NULL)
        return note_error("open %s: %s", path, strerror(errno));
    part_begin(PART_TRANSFER);
    bool well = fread(image, HEADER, 1, stream) == 1;
    ++*calls;
    int64_t offset = HEADER;
    for (int64_t cell = 0; cell < cells && well; cell++) {
        well = fread(image + offset, record_size, 1, stream) == 1;
        offset += (int64_t)record_size;
        ++*calls;
        if ((cell & 4095) == 0)
            step_progress(offset - HEADER);
    }
    part_end();
    if (!well)
        note_error("read %s at about %" PRId64 ": %s", path, offset,
                   ferror(stream) ? strerror(errno) : "the file ends too early");
    part_begin(PART_CLOSE);
    if (fclose(stream) != 0)
        well = note_error("close %s: %s", path, strerror(errno));
    part_end();
    *calls += 2;
    return well;
}

static bool read_blocks(const char *path, char *image, int64_t *calls) {
    part_begin(PART_OPEN);
    int fd = storage_open(path, O_RDONLY | (set.writer == WRITER_DIRECT ? O_DIRECT : 0));
    part_end();
    if (fd < 0)
        return false;
    part_begin(PART_TRANSFER);
    bool well = transfer_blocks(fd, path, image, false, calls);
    part_end();
    return kernel_end_file(fd, path, false, well, calls);
}

/* What was read of a file against what was to be written, some records at a time. */
static void check(const char *path, const char *image, int writer, int64_t epoch) {
    enum { RECORDS = 4096 };
    char header[HEADER];
    fill_header(header, writer, epoch);
    int64_t wrong = verify_bytes(image, header, HEADER);
    if (wrong >= 0)
        verify_locate("%s at %" PRId64 ": in the header: rank %d epoch %" PRId64 ", read by rank %d", path,
                      wrong, writer, epoch, run.rank);
    uint32_t *expected = allocate(RECORDS * (size_t)fields * sizeof *expected);
    for (int64_t from = 0; from < cells; from += RECORDS) {
        int64_t to = from + RECORDS < cells ? from + RECORDS : cells, at = HEADER + from * 4 * fields;
        fill_records(expected, writer, epoch, from, to);
        wrong = verify_bytes(image + at, expected, (size_t)((to - from) * fields * 4));
        if (wrong < 0)
            continue;
        int64_t cell = from + wrong / (4 * fields), field = wrong / 4 % fields;
        verify_locate("%s at %" PRId64 ": rank %d epoch %" PRId64 " cell %" PRId64 ",%" PRId64 ",%" PRId64
                      " variable %" PRId64 "%s%s: 0x%02x instead of 0x%02x, read by rank %d",
                      path, at + wrong, writer, epoch, cell / (set.mesh[1] * set.mesh[2]),
                      cell / set.mesh[2] % set.mesh[1], cell % set.mesh[2], field, field < 13 ? " " : "",
                      field < 13 ? names[field] : "", (unsigned)(unsigned char)image[at + wrong],
                      (unsigned)((unsigned char *)expected)[wrong], run.rank);
    }
    free(expected);
}

static void read_file(const char *step, int64_t epoch, int n, int64_t content_epoch) {
    char below[PATH_LENGTH_MAX], path[PATH_LENGTH_MAX];
    struct residency before = kernel_cache(true, epoch), after = {.known = true};
    int64_t calls = 0;
    file(kernel_source(), epoch, n, below, sizeof below);
    kernel_path(below, path, sizeof path);
    char *image = allocate((size_t)file_size);
    memset(image, 0, (size_t)file_size); /* its pages are there before the clock runs */
    phase_begin(step, (int)epoch);
    step_begin(step);
    step_expects(file_size - HEADER);
    bool well =
        set.writer == WRITER_STDIO ? read_stdio(path, image, &calls) : read_blocks(path, image, &calls);
    step_end(well ? file_size - HEADER : 0, calls);
    phase_end(&before, &after);
    if (well)
        check(path, image, kernel_source(), content_epoch);
    free(image);
}

static void read_epoch(int64_t epoch) {
    read_file("read", epoch, 0, epoch);
    if (set.rewrites > 0 && epoch + 1 == settings.repetitions)
        read_file("dump_read", epoch, 1, DUMP_EPOCH + settings.repetitions * set.rewrites - 1);
}

/* Of each file the last page, and one that was read ahead. */
static bool direct(int64_t *tail) {
    *tail = (int64_t)run.ranks * (set.rewrites > 0 ? 2 : 1) * 2 * ALIGNED;
    return set.writer == WRITER_DIRECT;
}

static const struct kernel kernel = {
    .name = "argot-io",
    .about = "the output of a radiation hydrodynamics simulation: one file a process",
    .family = "mpi-fpp",
    .options = options,
    .size = size,
    .settle = settle,
    .parameters = parameters,
    .payload = payload,
    .file_bytes = file_bytes,
    .folder = folder,
    .file = file,
    .dry_run = dry_run,
    .write = write_epoch,
    .read = read_epoch,
    .direct = direct,
};

int main(int argc, char **argv) {
    return kernel_main(argc, argv, &kernel);
}
