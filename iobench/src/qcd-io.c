/* qcd-io: configurations of lattice QCD, written and read in the three ways of lattice codes.
 *
 * `fpp`: each process its own field into its own file, in the order in which the CCS QCD miniapp has it in
 * memory; `shared`: one file in ILDG order, each rank its part of it by collective MPI-IO; `rank0`: the same
 * file, gathered and written by rank 0. Time is not divided among the processes. The source of the QCD-IO of
 * the paper is not public: these layouts are derived from public lattice codes, and every result says so.
 * Collective: all that begins with write_ or read_. */
#include "base.h"
#include "content.h"
#include "kernel.h"
#include "lattice.h"
#include "own.h"
#include "phase.h"
#include "result.h"
#include "verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEADER 256
#define PIECE (INT64_C(8) << 20)
#define DEVIATION_MAX 1e-13

enum { LAYOUT_FPP, LAYOUT_SHARED, LAYOUT_RANK0 };
enum { X, Y, Z, T };

static struct {
    int64_t local[4], grid[3];
    int layout;
    bool grid_given;
} set;

/* Of the whole lattice; sites and bytes of a process. */
static int64_t whole[4], sites, block_bytes;

/* Of what was read: the largest deviation from SU(3). */
static double deviation;

static const struct option options[] = {
    {"local", OPTION_SHAPE, set.local, 4, 65536, "XxYxZxT", "lattice of each process; T even", NULL},
    {"grid", OPTION_SHAPE, set.grid, 3, 1 << 20, "XxYxZ", "processes (as even as can be)", &set.grid_given},
    {"layout", OPTION_WORD, &set.layout, 0, 0, "fpp|shared|rank0",
     "a file a process, one by MPI-IO, one by rank 0", NULL},
    {0},
};

static void size(int size) {
    static const int64_t locals[][4] = {{4, 8, 8, 4}, {12, 24, 24, 48}, {12, 24, 24, 32}},
                         repetitions[] = {2, 6, 30};
    memcpy(set.local, locals[size], sizeof set.local);
    settings.repetitions = repetitions[size];
}

static void settle(void);

static void parameters(struct json *json) {
    json_row(json, "local", set.local, 4);
    json_row(json, "grid", set.grid, 3);
    json_row(json, "lattice", whole, 4);
    json_text(json, "layout", options_word(options[2].words, set.layout));
}

static int64_t payload(void) {
    return (int64_t)product((uint64_t)block_bytes, (uint64_t)run.ranks);
}

static int64_t file_bytes(void) {
    return payload() + HEADER * (set.layout == LAYOUT_FPP ? run.ranks : 1);
}

static bool folder(int n, char *out, size_t room) {
    if (set.layout != LAYOUT_FPP || n >= settings.repetitions)
        return false;
    print_into(out, room, "conf-%04d", n + 1);
    return true;
}

/* Shared: file 0 is the configuration, file 1 its checksums. */
static bool file(int rank, int64_t configuration, int n, char *out, size_t room) {
    int number = (int)configuration + 1;
    if (set.layout == LAYOUT_FPP && n == 0)
        print_into(out, room, "conf-%04d/conf-%04d_%05d", number, number, rank);
    else if (set.layout != LAYOUT_FPP && rank == 0 && n < 2)
        print_into(out, room, "conf-%04d.%s", number, n == 0 ? "ildg" : "sums");
    else
        return false;
    return true;
}

/* Where in the lattice a rank's part begins. */
static void origin_of(int rank, int64_t origin[4]) {
    origin[X] = rank / (set.grid[Y] * set.grid[Z]) * set.local[X];
    origin[Y] = rank / set.grid[Z] % set.grid[Y] * set.local[Y];
    origin[Z] = rank % set.grid[Z] * set.local[Z];
    origin[T] = 0;
}

static uint64_t site_number(const int64_t at[4]) {
    return (uint64_t)(((at[T] * whole[Z] + at[Z]) * whole[Y] + at[Y]) * whole[X] + at[X]);
}

/* The part of a rank that begins at `origin`, site by site, x fastest: from the `index` in it to the place in
 * the lattice. */
static void place_of(int64_t index, const int64_t origin[4], int64_t at[4]) {
    for (int d = X; d <= T; d++) {
        at[d] = origin[d] + index % set.local[d];
        index /= set.local[d];
    }
}

/* Where, in bytes from the start of a block, the link of a site in a direction is in a file of one process:
 * even sites, then odd ones; of each the direction is slowest, then x, y, z, half the time. */
static int64_t fpp_offset(const int64_t at[4], const int64_t origin[4], int direction) {
    int64_t x = at[X] - origin[X], y = at[Y] - origin[Y], z = at[Z] - origin[Z];
    int64_t odd = (at[X] + at[Y] + at[Z] + at[T]) & 1;
    int64_t place =
        (((odd * DIRECTIONS + direction) * set.local[X] + x) * set.local[Y] + y) * set.local[Z] + z;
    return (place * (set.local[T] / 2) + at[T] / 2) * LINK_DOUBLES * 8;
}

/* All four links of a site as they are in memory. */
static void make_site(int64_t configuration, uint64_t number, link_matrix links[DIRECTIONS]) {
    uint64_t key = content_key((uint64_t)settings.seed, 0, (uint64_t)configuration, 0);
    for (uint64_t d = 0; d < DIRECTIONS; d++)
        lattice_link(key, number * DIRECTIONS + d, links[d]);
}

/* Fortran's order of a matrix: rows fastest. */
static void transpose(link_matrix in, link_matrix out) {
    for (int row = 0; row < 3; row++)
        for (int column = 0; column < 3; column++)
            memcpy(out[column][row], in[row][column], sizeof out[column][row]);
}

/* Puts a site into a rank's block as the layout has it, and back. */
static void put_site(char *block, int64_t index, const int64_t at[4], const int64_t origin[4],
                     link_matrix links[DIRECTIONS]) {
    if (set.layout != LAYOUT_FPP) {
        memcpy(block + index * SITE_BYTES, links, SITE_BYTES);
        lattice_swap(block + index * SITE_BYTES, SITE_DOUBLES);
        return;
    }
    for (int d = 0; d < DIRECTIONS; d++)
        transpose(links[d], *(link_matrix *)(void *)(block + fpp_offset(at, origin, d)));
}

static void take_site(char *block, int64_t index, const int64_t at[4], const int64_t origin[4],
                      link_matrix links[DIRECTIONS]) {
    if (set.layout != LAYOUT_FPP) {
        memcpy(links, block + index * SITE_BYTES, SITE_BYTES);
        lattice_swap(links, SITE_DOUBLES);
        return;
    }
    for (int d = 0; d < DIRECTIONS; d++)
        transpose(*(link_matrix *)(void *)(block + fpp_offset(at, origin, d)), links[d]);
}

static void add_to_sums(struct lattice_sums *sums, uint64_t number, link_matrix links[DIRECTIONS]) {
    double bytes[SITE_DOUBLES];
    memcpy(bytes, links, SITE_BYTES);
    lattice_swap(bytes, SITE_DOUBLES);
    lattice_sum(sums, number, bytes);
}

static struct lattice_sums fill(char *block, int rank, int64_t configuration) {
    struct lattice_sums sums = {0, 0};
    int64_t origin[4], at[4];
    link_matrix links[DIRECTIONS];
    origin_of(rank, origin);
    for (int64_t index = 0; index < sites; index++) {
        place_of(index, origin, at);
        make_site(configuration, site_number(at), links);
        add_to_sums(&sums, site_number(at), links);
        put_site(block, index, at, origin, links);
    }
    return sums;
}

/* What stands before a field, or in the file beside a configuration. */
static void fill_header(char out[HEADER], int rank, int64_t configuration, struct lattice_sums sums) {
    char text[HEADER];
    memset(out, ' ', HEADER);
    print_into(text, sizeof text,
               "iobench qcd-io 1 configuration %" PRId64 " lattice %" PRId64 "x%" PRId64 "x%" PRId64
               "x%" PRId64 " rank %d of %d checksums %08" PRIx32 " %08" PRIx32,
               configuration, whole[X], whole[Y], whole[Z], whole[T], rank, run.ranks, sums.a, sums.b);
    memcpy(out, text, strlen(text));
    out[HEADER - 1] = '\n';
}

/* Of all ranks; every rank has it. */
static struct lattice_sums sums_of_all(struct lattice_sums mine) {
    uint32_t values[2] = {mine.a, mine.b}, all[2];
    MPI(MPI_Allreduce(values, all, 2, MPI_UINT32_T, MPI_BXOR, MPI_COMM_WORLD));
    return (struct lattice_sums){all[0], all[1]};
}

static bool mpi_io(int status, const char *what, const char *path) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (status == MPI_SUCCESS)
        return true;
    MPI_Error_string(status, text, &length);
    return note_error("%s %s: %s", what, path, text);
}

/* One file a process: header and field, in large pieces. */
static bool transfer_own(const char *path, bool writing, char *header, char *block, int64_t *calls) {
    part_begin(PART_OPEN);
    int fd = writing ? storage_create(path, O_WRONLY) : storage_open(path, O_RDONLY);
    part_end();
    if (fd < 0)
        return false;
    part_begin(PART_TRANSFER);
    bool well = writing ? storage_write(fd, path, header, HEADER, 0, calls)
                        : storage_read(fd, path, header, HEADER, 0, calls);
    for (int64_t at = 0; at < block_bytes && well; at += PIECE) {
        size_t bytes = (size_t)(block_bytes - at < PIECE ? block_bytes - at : PIECE);
        well = writing ? storage_write(fd, path, block + at, bytes, HEADER + at, calls)
                       : storage_read(fd, path, block + at, bytes, HEADER + at, calls);
        step_progress(at + (int64_t)bytes);
    }
    part_end();
    return kernel_end_file(fd, path, writing, well, calls);
}

/* One file, each rank its part of the lattice, all at once. */
static bool transfer_shared(const char *path, bool writing, int rank, char *block, int64_t *calls) {
    int64_t origin[4];
    MPI_Datatype site, part;
    MPI_File handle;
    MPI_Status status;
    int count = 0;
    origin_of(rank, origin);
    int sizes[4], parts[4], starts[4];
    for (int d = 0; d < 4; d++) {
        sizes[d] = (int)whole[T - d];
        parts[d] = (int)set.local[T - d];
        starts[d] = (int)origin[T - d];
    }
    part_begin(PART_OPEN);
    MPI(MPI_Type_contiguous(SITE_BYTES, MPI_BYTE, &site));
    MPI(MPI_Type_commit(&site));
    MPI(MPI_Type_create_subarray(4, sizes, parts, starts, MPI_ORDER_C, site, &part));
    MPI(MPI_Type_commit(&part));
    int mode = writing ? MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY : MPI_MODE_RDONLY;
    bool opened = mpi_io(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &handle), "open", path);
    bool well = opened && mpi_io(MPI_File_set_view(handle, 0, site, part, "native", MPI_INFO_NULL),
                                 "set the view of", path);
    part_end();
    if (opened) {
        part_begin(PART_TRANSFER);
        int done = writing ? MPI_File_write_all(handle, block, (int)sites, site, &status)
                           : MPI_File_read_all(handle, block, (int)sites, site, &status);
        part_end();
        well = mpi_io(done, writing ? "write" : "read", path) && well;
        if (well && MPI_Get_count(&status, site, &count) == MPI_SUCCESS && count != (int)sites)
            well =
                note_error("%s %s: %d of %" PRId64 " sites", writing ? "write" : "read", path, count, sites);
        if (writing && settings.fsync == FSYNC_FILE) {
            part_begin(PART_FLUSH);
            well = mpi_io(MPI_File_sync(handle), "sync", path) && well;
            part_end();
            ++*calls;
        }
        part_begin(PART_CLOSE);
        well = mpi_io(MPI_File_close(&handle), "close", path) && well;
        part_end();
        *calls += 3;
    }
    MPI(MPI_Type_free(&part));
    MPI(MPI_Type_free(&site));
    return well;
}

/* Rows of x of a rank's block at (t, global z), which are its part of a plane: `plane` is that of the whole
 * lattice. */
static void rows(char *plane, char *part, int rank, bool into_plane) {
    int64_t origin[4], row = set.local[X] * SITE_BYTES;
    origin_of(rank, origin);
    for (int64_t y = 0; y < set.local[Y]; y++) {
        char *there = plane + ((origin[Y] + y) * whole[X] + origin[X]) * SITE_BYTES;
        memcpy(into_plane ? there : part + y * row, into_plane ? part + y * row : there, (size_t)row);
    }
}

/* Rank 0 alone opens the file. Plane by plane (x and y of the lattice) the ranks that have a part of it send
 * it, or get it. After an error planes still go round, so that nobody waits for ever; the file is then left
 * as it is. */
static bool transfer_gathered(const char *path, bool writing, int rank, char *block, int64_t *calls) {
    int64_t part_bytes = set.local[X] * set.local[Y] * SITE_BYTES,
            plane_bytes = whole[X] * whole[Y] * SITE_BYTES;
    char *plane = NULL, *part = NULL;
    int fd = -1;
    bool well = true;
    if (run.rank == 0) {
        plane = allocate((size_t)plane_bytes);
        part = allocate((size_t)part_bytes);
        part_begin(PART_OPEN);
        fd = writing ? storage_create(path, O_WRONLY) : storage_open(path, O_RDONLY);
        well = fd >= 0;
        part_end();
        *calls += 2;
    }
    int64_t origin[4];
    origin_of(rank, origin);
    part_begin(PART_TRANSFER);
    for (int64_t tz = 0; tz < whole[T] * whole[Z]; tz++) {
        int64_t t = tz / whole[Z], z = tz % whole[Z];
        if (run.rank == 0 && !writing && well)
            well = storage_read(fd, path, plane, (size_t)plane_bytes, tz * plane_bytes, calls);
        bool mine = z >= origin[Z] && z < origin[Z] + set.local[Z];
        char *here = block + (t * set.local[Z] + (z - origin[Z])) * part_bytes;
        MPI_Request request = MPI_REQUEST_NULL;
        if (mine && writing)
            MPI(MPI_Isend(here, (int)part_bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request));
        else if (mine)
            MPI(MPI_Irecv(here, (int)part_bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request));
        for (int r = 0; run.rank == 0 && r < run.ranks; r++) {
            int64_t its[4];
            /* Who reads takes the part of another rank: part r belongs to rank r - shift. */
            int other = writing ? r : (int)((r + run.ranks - settings.read_shift % run.ranks) % run.ranks);
            origin_of(r, its);
            if (z < its[Z] || z >= its[Z] + set.local[Z])
                continue;
            if (writing)
                MPI(MPI_Recv(part, (int)part_bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            rows(plane, part, r, writing);
            if (!writing)
                MPI(MPI_Send(part, (int)part_bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD));
        }
        MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (run.rank == 0 && writing && well)
            well = storage_write(fd, path, plane, (size_t)plane_bytes, tz * plane_bytes, calls);
        step_progress((tz + 1) * block_bytes / (whole[T] * whole[Z]));
    }
    part_end();
    if (fd >= 0 && well && writing && settings.fsync == FSYNC_FILE) {
        part_begin(PART_FLUSH);
        well = storage_sync(fd, path);
        part_end();
        ++*calls;
    }
    if (fd >= 0) {
        part_begin(PART_CLOSE);
        well = storage_close(fd, path) && well;
        part_end();
    }
    free(plane);
    free(part);
    return well;
}

static bool transfer(const char *path, bool writing, int rank, char *header, char *block, int64_t *calls) {
    return set.layout == LAYOUT_FPP      ? transfer_own(path, writing, header, block, calls)
           : set.layout == LAYOUT_SHARED ? transfer_shared(path, writing, rank, block, calls)
                                         : transfer_gathered(path, writing, rank, block, calls);
}

/* The checksums beside a shared file: a small file of rank 0. */
static bool transfer_sums(int64_t configuration, bool writing, char header[HEADER], int64_t *calls) {
    char below[PATH_LENGTH_MAX], path[PATH_LENGTH_MAX];
    file(0, configuration, 1, below, sizeof below);
    kernel_path(below, path, sizeof path);
    int fd = writing ? storage_create(path, O_WRONLY) : storage_open(path, O_RDONLY);
    if (fd < 0)
        return false;
    bool well = writing ? storage_write(fd, path, header, HEADER, 0, calls)
                        : storage_read(fd, path, header, HEADER, 0, calls);
    if (well && writing && settings.fsync == FSYNC_FILE)
        well = storage_sync(fd, path);
    *calls += 2;
    return storage_close(fd, path) && well;
}

static void path_of(int rank, int64_t configuration, char *out, size_t room) {
    char below[PATH_LENGTH_MAX];
    file(set.layout == LAYOUT_FPP ? rank : 0, configuration, 0, below, sizeof below);
    kernel_path(below, out, room);
}

static void make_parent(int64_t configuration) {
    char below[PATH_LENGTH_MAX], path[PATH_LENGTH_MAX];
    if (!folder((int)configuration, below, sizeof below))
        return;
    kernel_path(below, path, sizeof path);
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        note_error("mkdir %s: %s", path, strerror(errno));
}

static void write_configuration(int64_t configuration) {
    char path[PATH_LENGTH_MAX], header[HEADER];
    struct residency before = {.known = true}, after = {.known = true};
    int64_t calls = 0;
    char *block = allocate((size_t)block_bytes);
    struct lattice_sums sums = fill(block, run.rank, configuration);
    if (set.layout != LAYOUT_FPP)
        sums = sums_of_all(sums);
    fill_header(header, set.layout == LAYOUT_FPP ? run.rank : 0, configuration, sums);
    path_of(run.rank, configuration, path, sizeof path);
    phase_begin("write", (int)configuration);
    step_begin("write");
    step_expects(block_bytes);
    part_begin(PART_OPEN);
    make_parent(configuration);
    part_end();
    bool well = transfer(path, true, run.rank, header, block, &calls);
    if (well && set.layout != LAYOUT_FPP && run.rank == 0)
        well = transfer_sums(configuration, true, header, &calls);
    step_end(well ? block_bytes : 0, calls + (set.layout == LAYOUT_FPP));
    free(block);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (run.error[0] == '\0')
        after = kernel_cache(false, configuration);
    phase_end(&before, &after);
}

/* Finds the wrong byte of a site in the file, and says which number of which link it belongs to. */
static void locate(const char *path, int64_t configuration, int writer, const int64_t at[4],
                   const int64_t origin[4], link_matrix found[DIRECTIONS], link_matrix expected[DIRECTIONS]) {
    for (int d = 0; d < DIRECTIONS; d++)
        for (int n = 0; n < LINK_DOUBLES; n++) {
            int row = n / 6, column = n / 2 % 3, part = n % 2;
            const double *a = &found[d][row][column][part], *b = &expected[d][row][column][part];
            if (memcmp(a, b, sizeof *a) == 0)
                continue;
            int byte = 0;
            while (((const char *)a)[byte] == ((const char *)b)[byte])
                byte++;
            int64_t offset =
                set.layout == LAYOUT_FPP
                    ? HEADER + fpp_offset(at, origin, d) + ((column * 3 + row) * 2 + part) * 8 + byte
                    : (int64_t)site_number(at) * SITE_BYTES + (d * LINK_DOUBLES + n) * 8 + 7 - byte;
            verify_locate("%s at %" PRId64 ": rank %d configuration %" PRId64 " site x=%" PRId64 " y=%" PRId64
                          " z=%" PRId64 " t=%" PRId64
                          " direction %c row %d column %d %s: 0x%02x instead of 0x%02x, read by rank %d",
                          path, offset, writer, configuration, at[X], at[Y], at[Z], at[T], "xyzt"[d], row,
                          column, part == 0 ? "real" : "imaginary",
                          (unsigned)((const unsigned char *)a)[byte],
                          (unsigned)((const unsigned char *)b)[byte], run.rank);
            return;
        }
}

/* Every byte, every matrix, and the checksums of what was read. */
static struct lattice_sums check_block(const char *path, char *block, int writer, int64_t configuration) {
    struct lattice_sums sums = {0, 0};
    int64_t origin[4], at[4];
    link_matrix found[DIRECTIONS], expected[DIRECTIONS];
    origin_of(writer, origin);
    for (int64_t index = 0; index < sites; index++) {
        place_of(index, origin, at);
        take_site(block, index, at, origin, found);
        make_site(configuration, site_number(at), expected);
        add_to_sums(&sums, site_number(at), found);
        for (int d = 0; d < DIRECTIONS; d++)
            deviation = fmax(deviation, lattice_deviation(found[d]));
        if (verify_bytes(found, expected, SITE_BYTES) >= 0)
            locate(path, configuration, writer, at, origin, found, expected);
    }
    return sums;
}

static void read_configuration(int64_t configuration) {
    char path[PATH_LENGTH_MAX], header[HEADER] = "", expected[HEADER];
    struct residency before = kernel_cache(true, configuration), after = {.known = true};
    int64_t calls = 0;
    int writer = kernel_source();
    char *block = allocate((size_t)block_bytes);
    memset(block, 0, (size_t)block_bytes);
    path_of(writer, configuration, path, sizeof path);
    phase_begin("read", (int)configuration);
    step_begin("read");
    step_expects(block_bytes);
    bool well = transfer(path, false, writer, header, block, &calls);
    if (well && set.layout != LAYOUT_FPP && run.rank == 0)
        well = transfer_sums(configuration, false, header, &calls);
    step_end(well ? block_bytes : 0, calls);
    phase_end(&before, &after);
    if (all_well()) {
        struct lattice_sums sums = check_block(path, block, writer, configuration);
        if (set.layout != LAYOUT_FPP)
            sums = sums_of_all(sums);
        fill_header(expected, set.layout == LAYOUT_FPP ? writer : 0, configuration, sums);
        /* The header has the checksums: of what was written, and here of what was read. */
        if ((set.layout == LAYOUT_FPP || run.rank == 0) && verify_bytes(header, expected, HEADER) >= 0)
            verify_locate("%s: the header, or the checksums, are '%.*s', and by what was read '%.*s'", path,
                          (int)strcspn(header, "\n"), header, (int)strcspn(expected, "\n"), expected);
    }
    double mine = deviation;
    MPI(MPI_Allreduce(&mine, &deviation, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    free(block);
}

static void judge(struct verdict *verdict) {
    if ((settings.phases & PHASE_READ) == 0 || verdict->failed)
        return;
    if (!(deviation <= DEVIATION_MAX))
        verdict_reason(verdict,
                       "verification: a matrix that was read is not SU(3): off by %.3g, and %.0e is allowed",
                       deviation, DEVIATION_MAX);
    else
        verdict_note(verdict, "all matrices that were read are SU(3) within %.1e", deviation);
}

/* Offsets in a shared file go by rows of x: so many of them, with the strides of y, z and t. */
static void dry_run(void) {
    char name[PATH_LENGTH_MAX];
    int64_t origin[4], odd = block_bytes / 2, row = set.local[X] * SITE_BYTES;
    printf("# file\trank\tpart\toffset\tbytes\n");
    for (int64_t configuration = 0; configuration < settings.repetitions; configuration++) {
        for (int rank = 0; rank < run.ranks; rank++) {
            origin_of(rank, origin);
            file(set.layout == LAYOUT_FPP ? rank : 0, configuration, 0, name, sizeof name);
            if (set.layout == LAYOUT_FPP) {
                printf("%s\t%d\theader\t0\t%d\n", name, rank, HEADER);
                printf("%s\t%d\teven sites\t%d\t%" PRId64 "\n", name, rank, HEADER, odd);
                printf("%s\t%d\todd sites\t%" PRId64 "\t%" PRId64 "\n", name, rank, HEADER + odd, odd);
            } else {
                printf("%s\t%d\t%" PRId64 " rows of %" PRId64 ": %" PRId64 " every %" PRId64 ", %" PRId64
                       " every %" PRId64 ", %" PRId64 " every %" PRId64 "\t%" PRIu64 "\t%" PRId64 "\n",
                       name, rank, set.local[Y] * set.local[Z] * set.local[T], row, set.local[Y],
                       whole[X] * SITE_BYTES, set.local[Z], whole[X] * whole[Y] * SITE_BYTES, set.local[T],
                       whole[X] * whole[Y] * whole[Z] * SITE_BYTES, site_number(origin) * SITE_BYTES,
                       block_bytes);
            }
        }
        if (set.layout != LAYOUT_FPP && file(0, configuration, 1, name, sizeof name))
            printf("%s\t0\tchecksums\t0\t%d\n", name, HEADER);
    }
    printf("# total: %" PRId64 " bytes in files, %" PRId64 " of them payload\n",
           file_bytes() * settings.repetitions, payload() * settings.repetitions);
}

static void software(struct json *json);

static struct kernel kernel = {
    .name = "qcd-io",
    .about = "configurations of lattice QCD: a file a process, one by MPI-IO, or one by rank 0",
    .family = "mpi-lattice",
    .notes =
        {"the layout is ours, after public lattice codes: the source of the paper's QCD-IO is not public"},
    .options = options,
    .size = size,
    .settle = settle,
    .parameters = parameters,
    .payload = payload,
    .file_bytes = file_bytes,
    .folder = folder,
    .file = file,
    .dry_run = dry_run,
    .write = write_configuration,
    .read = read_configuration,
    .judge = judge,
    .software = software,
};

static void settle(void) {
    if (!set.grid_given)
        kernel_grid(run.ranks, set.grid, 3);
    if (set.grid[0] * set.grid[1] * set.grid[2] != run.ranks)
        usage_error("--grid %" PRId64 "x%" PRId64 "x%" PRId64 " is not for %d ranks", set.grid[0],
                    set.grid[1], set.grid[2], run.ranks);
    if (set.local[T] % 2 != 0)
        usage_error("--local: T is %" PRId64 ", and even and odd sites need an even one", set.local[T]);
    sites = 1;
    for (int d = X; d <= T; d++) {
        whole[d] = set.local[d] * (d < T ? set.grid[d] : 1);
        sites = (int64_t)product((uint64_t)sites, (uint64_t)set.local[d]);
    }
    if (sites > INT32_MAX / 2)
        usage_error("--local: %" PRId64 " sites a process, and MPI counts to %d", sites, INT32_MAX / 2);
    if (whole[X] > INT32_MAX || whole[Y] > INT32_MAX || whole[Z] > INT32_MAX ||
        set.local[X] * set.local[Y] * SITE_BYTES > INT32_MAX)
        usage_error("--local and --grid: a plane of x and y is too large for MPI's counts");
    block_bytes = sites * SITE_BYTES;
    kernel.shared = set.layout != LAYOUT_FPP;
}

static void software(struct json *json) {
    json_text(json, "zlib", lattice_crc_version());
}

int main(int argc, char **argv) {
    return kernel_main(argc, argv, &kernel);
}
