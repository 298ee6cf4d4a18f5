/* les-io: what a large-eddy simulation of a city's air writes: netCDF-4 files over MPI-IO, one shared file
 * for each output.
 *
 * Outputs Integral, Instant, Average and Restart, each written and read back. The mesh is divided in i and j;
 * a variable's chunk is a rank's block. Values are made variable by variable, since all of a paper's mesh
 * would not fit in memory; that, and checking, is between the timed steps. Collective: all but those that
 * fill, check and print. */
#include "base.h"
#include "clocks.h"
#include "content.h"
#include "kernel.h"
#include "phase.h"
#include "variables.h"
#include "verify.h"

#include <errno.h>
#include <hdf5.h>
#include <inttypes.h>
#include <netcdf.h>
#include <netcdf_par.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHUNK_BYTES_MAX INT64_C(0x7fffffff)

enum { ACCESS_INDEPENDENT, ACCESS_COLLECTIVE };
enum { CHUNK_BLOCK, CHUNK_CONTIGUOUS, CHUNK_GIVEN };

static struct {
    int64_t mesh[3], grid[2], soil_layers;
    int mp_model, soil_model, access, close_timed;
    unsigned outputs;
    const char *chunk;
    bool grid_given;
} set;

static struct mesh mesh;
static struct physics physics;
static int chunking;
static int64_t chunk[3]; /* k, j, i of CHUNK_GIVEN */

static const char *const names[] = {"integral", "instant", "average", "restart"};
static const char *const files[] = {"lesout_integral.nc", "lesout_instant.nc", "lesout_average.nc",
                                    "lesrst_restart.nc"};
static const char output_words[] = "integral|instant|average|restart";

static const struct option options[] = {
    {"mesh", OPTION_SHAPE, set.mesh, 3, 65536, "IxJxK", "cells of all processes together", NULL},
    {"grid", OPTION_SHAPE, set.grid, 2, 1 << 20, "IxJ", "processes (as even as can be)", &set.grid_given},
    {"mp-model", OPTION_WORD, &set.mp_model, 0, 0, "0|1|9", "1 species, 3 species, 3 species and 12 bins (1)",
     NULL},
    {"soil-model", OPTION_WORD, &set.soil_model, 0, 0, "0|1", "soil moisture in the restart file (0)", NULL},
    {"soil-layers", OPTION_COUNT, &set.soil_layers, 1, 1000, "N", "of soil moisture (4)", NULL},
    {"outputs", OPTION_WORDS, &set.outputs, 0, 0, output_words, "which, with commas; all by default", NULL},
    {"access", OPTION_WORD, &set.access, 0, 0, "independent|collective", "of MPI-IO (independent)", NULL},
    {"chunk", OPTION_TEXT, &set.chunk, 0, 0, "block|contiguous|IxJxK",
     "a rank's block, none, or so large (block)", NULL},
    {"close-timed", OPTION_WORD, &set.close_timed, 0, 0, "yes|no",
     "whether creating, opening and closing are steps (yes)", NULL},
    {0},
};

static void size(int size) {
    static const int64_t meshes[][3] = {{32, 32, 16}, {256, 256, 128}, {256, 256, 512}},
                         repetitions[] = {2, 6, 6};
    memcpy(set.mesh, meshes[size], sizeof set.mesh);
    settings.repetitions = repetitions[size];
    set.mp_model = 1;
    set.soil_layers = 4;
    set.outputs = (1U << OUTPUTS) - 1;
    set.chunk = "block";
}

static bool wanted(int output) {
    return (set.outputs >> output & 1) != 0;
}

static int64_t bytes_of(const struct extent *extent, int output) {
    return extent_values(extent) * variable_bytes((enum output)output);
}

/* What a rank, or all (-1), write of an output. */
static int64_t output_bytes(int output, int rank) {
    struct variable variable;
    int64_t sum = 0;
    for (int n = 0; variable_of((enum output)output, &physics, n, &variable); n++)
        for (int r = rank < 0 ? 0 : rank; r < (rank < 0 ? run.ranks : rank + 1); r++) {
            struct extent extent = extent_of(&variable, &mesh, r);
            sum += bytes_of(&extent, output);
        }
    return sum;
}

static void read_chunk(void) {
    char rest;
    if (strcmp(set.chunk, "block") == 0)
        chunking = CHUNK_BLOCK;
    else if (strcmp(set.chunk, "contiguous") == 0)
        chunking = CHUNK_CONTIGUOUS;
    else if (sscanf(set.chunk, "%" SCNd64 "x%" SCNd64 "x%" SCNd64 "%c", &chunk[2], &chunk[1], &chunk[0],
                    &rest) == 3 &&
             chunk[0] > 0 && chunk[1] > 0 && chunk[2] > 0 && chunk[0] <= set.mesh[2] &&
             chunk[1] <= set.mesh[1] && chunk[2] <= set.mesh[0])
        chunking = CHUNK_GIVEN;
    else
        usage_error("--chunk %s: expected block, contiguous, or IxJxK, each from 1 to the mesh's", set.chunk);
}

static void settle(void) {
    struct variable variable;
    if (!set.grid_given)
        kernel_grid(run.ranks, set.grid, 2);
    if (set.grid[0] * set.grid[1] != run.ranks)
        usage_error("--grid %" PRId64 "x%" PRId64 " is not for %d ranks", set.grid[0], set.grid[1],
                    run.ranks);
    if (set.grid[0] > set.mesh[0] || set.grid[1] > set.mesh[1])
        usage_error("--mesh: %" PRId64 "x%" PRId64 " cells cannot be divided among %" PRId64 "x%" PRId64
                    " processes",
                    set.mesh[0], set.mesh[1], set.grid[0], set.grid[1]);
    read_chunk();
    memcpy(mesh.cells, set.mesh, sizeof mesh.cells);
    memcpy(mesh.grid, set.grid, sizeof mesh.grid);
    physics = (struct physics){set.mp_model == 0   ? 0
                               : set.mp_model == 1 ? 1
                                                   : 9,
                               set.soil_model == 1, set.soil_layers};
    for (int output = 0; output < OUTPUTS; output++)
        for (int n = 0; variable_of((enum output)output, &physics, n, &variable); n++) {
            struct extent extent = extent_of(&variable, &mesh, 0);
            if (wanted(output) && bytes_of(&extent, output) > CHUNK_BYTES_MAX)
                usage_error("%s of %s: %" PRId64 " bytes a rank, and MPI-IO takes %" PRId64
                            " at once: use more ranks",
                            variable.name, names[output], bytes_of(&extent, output), CHUNK_BYTES_MAX);
        }
}

static void parameters(struct json *json) {
    char text[64] = "";
    for (int output = 0; output < OUTPUTS; output++)
        if (wanted(output)) {
            size_t length = strlen(text);
            print_into(text + length, sizeof text - length, "%s%s", length > 0 ? "," : "", names[output]);
        }
    json_row(json, "mesh", set.mesh, 3);
    json_row(json, "grid", set.grid, 2);
    json_whole(json, "mp_model", physics.mp_model);
    json_whole(json, "soil_model", physics.soil_model);
    json_whole(json, "soil_layers", set.soil_layers);
    json_text(json, "outputs", text);
    json_text(json, "access", options_word(options[6].words, set.access));
    json_text(json, "chunk", set.chunk);
    json_text(json, "close_timed", options_word(options[8].words, set.close_timed));
}

static int64_t payload(void) {
    int64_t sum = 0;
    for (int output = 0; output < OUTPUTS; output++)
        if (wanted(output))
            sum += output_bytes(output, -1);
    return sum;
}

/* Chunks at the edge are stored whole, and HDF5 has some kilobytes for each variable and chunk. */
static int64_t file_bytes(void) {
    int64_t sum = 0;
    struct variable variable;
    for (int output = 0; output < OUTPUTS; output++)
        for (int n = 0; wanted(output) && variable_of((enum output)output, &physics, n, &variable); n++) {
            struct extent extent = extent_of(&variable, &mesh, 0);
            int64_t values = 1;
            for (int d = 0; d < extent.dimensions; d++)
                values *= chunking == CHUNK_BLOCK
                              ? extent.block[d] * ((extent.whole[d] + extent.block[d] - 1) / extent.block[d])
                              : extent.whole[d];
            sum += values * variable_bytes((enum output)output) + 4096 + 64 * (int64_t)run.ranks;
        }
    return chunking == CHUNK_GIVEN ? sum + sum / 4 : sum;
}

static bool folder(int n, char *out, size_t room) {
    if (n >= settings.repetitions)
        return false;
    print_into(out, room, "out-%02d", n + 1);
    return true;
}

static void name_of(int output, int64_t repetition, char *out, size_t room) {
    print_into(out, room, "out-%02d/%s", (int)repetition + 1, files[output]);
}

/* All of rank 0, which creates them. */
static bool file(int rank, int64_t repetition, int n, char *out, size_t room) {
    for (int output = 0; rank == 0 && output < OUTPUTS; output++)
        if (wanted(output) && n-- == 0) {
            name_of(output, repetition, out, room);
            return true;
        }
    return false;
}

static void print_place(const char *word, const int64_t *values, int count) {
    printf(" %s ", word);
    for (int d = 0; d < count; d++)
        printf("%s%" PRId64, d > 0 ? "," : "", values[d]);
}

/* HDF5 decides about offsets. What is known is which cells a rank writes, and that they are one chunk. */
static void dry_run(void) {
    char name[PATH_LENGTH_MAX];
    struct variable variable;
    printf("# file\trank\tpart\toffset\tbytes\t(HDF5 chooses the offsets; start and count: the last "
           "dimension is i)\n");
    for (int64_t repetition = 0; repetition < settings.repetitions; repetition++)
        for (int output = 0; output < OUTPUTS; output++)
            for (int n = 0; wanted(output) && variable_of((enum output)output, &physics, n, &variable); n++)
                for (int rank = 0; rank < run.ranks; rank++) {
                    struct extent extent = extent_of(&variable, &mesh, rank);
                    name_of(output, repetition, name, sizeof name);
                    printf("%s\t%d\t%s", name, rank, variable.name);
                    print_place("start", extent.start, extent.dimensions);
                    print_place("count", extent.count, extent.dimensions);
                    printf("\t-\t%" PRId64 "\n", bytes_of(&extent, output));
                }
    printf("# total: %" PRId64 " bytes of payload; the files hold some kilobytes more for each variable\n",
           payload() * settings.repetitions);
}

static bool nc(int status, const char *what, const char *name) {
    return status == NC_NOERR || note_error("%s %s: %s", what, name, nc_strerror(status));
}

/* Values `from` to `to` of a block. */
static void fill(void *out, const struct extent *extent, int output, int64_t repetition, int n, int64_t from,
                 int64_t to) {
    uint64_t key =
        content_key((uint64_t)settings.seed, 0, (uint64_t)repetition, (uint64_t)(1000 * output + n));
    int64_t at[DIMENSIONS_MAX], row = extent->count[extent->dimensions - 1];
    for (int64_t index = from; index < to;) {
        /* Along the last dimension cells follow one another. */
        int64_t cell = extent_cell(extent, index, at), end = index + row - index % row;
        for (end = end < to ? end : to; index < end; index++, cell++)
            if (variable_bytes((enum output)output) == 8)
                ((uint64_t *)out)[index - from] = content_f64(key, (uint64_t)cell);
            else
                ((uint32_t *)out)[index - from] = content_f32(key, (uint64_t)cell);
    }
}

static void check(const char *path, const void *block, const struct extent *extent, int output,
                  int64_t repetition, int n, const char *variable) {
    enum { VALUES = 1 << 16 };
    int64_t values = extent_values(extent), bytes = variable_bytes((enum output)output), at[DIMENSIONS_MAX];
    char *expected = allocate(VALUES * (size_t)bytes);
    for (int64_t from = 0; from < values; from += VALUES) {
        int64_t to = from + VALUES < values ? from + VALUES : values;
        const unsigned char *found = (const unsigned char *)block + from * bytes;
        fill(expected, extent, output, repetition, n, from, to);
        int64_t wrong = verify_bytes(found, expected, (size_t)((to - from) * bytes));
        if (wrong < 0)
            continue;
        char place[128] = "";
        extent_cell(extent, from + wrong / bytes, at);
        for (int d = 0; d < extent->dimensions; d++) {
            size_t length = strlen(place);
            print_into(place + length, sizeof place - length, "%s%" PRId64, d > 0 ? "," : "", at[d]);
        }
        verify_locate("%s: rank %d repetition %" PRId64 " variable %s cell %s byte %" PRId64
                      ": 0x%02x instead of 0x%02x, read by rank %d",
                      path, kernel_source(), repetition, variable, place, wrong % bytes,
                      (unsigned)found[wrong], (unsigned)((unsigned char *)expected)[wrong], run.rank);
    }
    free(expected);
}

/* The last dimension, i, is the first that is defined. */
static void define_dimensions(int handle, const struct variable *variable, const struct extent *extent,
                              int *dimensions, const char *path) {
    for (int d = extent->dimensions; d-- > 0;) {
        const char *name = dimension_name(variable, extent->dimensions - 1 - d);
        if (nc_inq_dimid(handle, name, &dimensions[d]) != NC_NOERR)
            nc(nc_def_dim(handle, name, (size_t)extent->whole[d], &dimensions[d]), "define a dimension in",
               path);
    }
}

static void define(int handle, int output, const char *path) {
    struct variable variable;
    nc(nc_set_fill(handle, NC_NOFILL, NULL), "set the fill mode of", path);
    for (int n = 0; variable_of((enum output)output, &physics, n, &variable); n++) {
        struct extent extent = extent_of(&variable, &mesh, 0);
        int dimensions[DIMENSIONS_MAX], id;
        size_t chunks[DIMENSIONS_MAX];
        if (variable.kind == KIND_SURFACE) {
            /* Those of the ground stand together. */
            struct variable ground = {.kind = KIND_GROUND};
            struct extent layers = extent_of(&ground, &mesh, 0);
            define_dimensions(handle, &ground, &layers, dimensions, path);
        }
        define_dimensions(handle, &variable, &extent, dimensions, path);
        for (int d = 0; d < extent.dimensions; d++) {
            chunks[d] = (size_t)extent.block[d];
            int from_last = extent.dimensions - 1 - d;
            bool cells = variable.kind != KIND_SURFACE && variable.kind != KIND_GROUND;
            if (chunking == CHUNK_GIVEN && cells &&
                from_last < (variable.kind == KIND_PLANE || variable.kind == KIND_SOIL ? 2 : 3))
                chunks[d] = (size_t)chunk[2 - from_last];
        }
        nc_type type = variable_bytes((enum output)output) == 8 ? NC_DOUBLE : NC_FLOAT;
        if (!nc(nc_def_var(handle, variable.name, type, extent.dimensions, dimensions, &id), "define",
                variable.name))
            return;
        nc(nc_def_var_fill(handle, id, NC_NOFILL, NULL), "set the fill mode of", variable.name);
        nc(nc_def_var_chunking(handle, id, chunking == CHUNK_CONTIGUOUS ? NC_CONTIGUOUS : NC_CHUNKED, chunks),
           "set the chunks of", variable.name);
    }
    nc(nc_enddef(handle), "end the definitions of", path);
}

static void set_access(int handle, int output) {
    struct variable variable;
    int id;
    for (int n = 0; variable_of((enum output)output, &physics, n, &variable); n++)
        if (nc(nc_inq_varid(handle, variable.name, &id), "find", variable.name))
            nc(nc_var_par_access(handle, id,
                                 set.access == ACCESS_COLLECTIVE ? NC_COLLECTIVE : NC_INDEPENDENT),
               "set the access to", variable.name);
}

/* A step that is one only with --close-timed yes. */
static void side_step(const char *name) {
    if (set.close_timed == 0)
        step_begin(name);
}

static void side_step_end(int64_t calls) {
    if (set.close_timed == 0)
        step_end(0, calls);
}

/* Creates or opens, and leaves every variable ready. False when some rank could not. */
static bool begin(const char *path, int output, int64_t repetition, bool writing, int *handle) {
    char below[PATH_LENGTH_MAX], parent[PATH_LENGTH_MAX];
    side_step(writing ? "create" : "open");
    part_begin(PART_OPEN);
    if (writing && run.rank == 0) {
        folder((int)repetition, below, sizeof below);
        kernel_path(below, parent, sizeof parent);
        if (mkdir(parent, 0777) != 0 && errno != EEXIST)
            note_error("mkdir %s: %s", parent, strerror(errno));
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    int status = writing
                     ? nc_create_par(path, NC_NETCDF4 | NC_NOCLOBBER, MPI_COMM_WORLD, MPI_INFO_NULL, handle)
                     : nc_open_par(path, NC_NOWRITE, MPI_COMM_WORLD, MPI_INFO_NULL, handle);
    bool opened = nc(status, writing ? "create" : "open", path);
    if (opened && writing)
        define(*handle, output, path);
    if (opened && run.error[0] == '\0')
        set_access(*handle, output);
    part_end();
    side_step_end(opened ? 2 : 1);
    return all_well();
}

static void end(int handle, const char *path, bool writing) {
    int64_t calls = 1;
    side_step("close");
    part_begin(PART_CLOSE);
    nc(nc_close(handle), "close", path);
    part_end();
    if (writing && settings.fsync == FSYNC_FILE && hosts.local_rank == 0) {
        part_begin(PART_FLUSH);
        storage_sync_path(path);
        part_end();
        calls++;
    }
    side_step_end(calls);
}

static void sync_group(int handle, const char *path, int group) {
    char name[32];
    print_into(name, sizeof name, "sync %d", group);
    step_begin(name);
    part_begin(PART_FLUSH);
    nc(nc_sync(handle), "sync", path);
    part_end();
    step_end(0, 1);
}

/* One variable, this rank's block or, reading, that of another: a step. */
static void transfer(int handle, int output, int64_t repetition, int n, bool writing, const char *path) {
    struct variable variable;
    variable_of((enum output)output, &physics, n, &variable);
    struct extent extent = extent_of(&variable, &mesh, writing ? run.rank : kernel_source());
    int64_t bytes = bytes_of(&extent, output);
    size_t start[DIMENSIONS_MAX] = {0}, count[DIMENSIONS_MAX] = {0};
    for (int d = 0; d < extent.dimensions; d++) {
        start[d] = (size_t)extent.start[d];
        count[d] = (size_t)extent.count[d];
    }
    void *block = allocate((size_t)bytes);
    if (writing)
        fill(block, &extent, output, repetition, n, 0, extent_values(&extent));
    else
        memset(block, 0, (size_t)bytes);
    int id = 0;
    nc(nc_inq_varid(handle, variable.name, &id), "find", variable.name);
    step_begin(variable.name);
    part_begin(PART_TRANSFER);
    int status =
        writing ? nc_put_vara(handle, id, start, count, block) : nc_get_vara(handle, id, start, count, block);
    part_end();
    bool well = nc(status, writing ? "write" : "read", variable.name);
    step_end(well ? bytes : 0, 1);
    if (well && !writing)
        check(path, block, &extent, output, repetition, n, variable.name);
    free(block);
}

static void transfer_all(int handle, int output, int64_t repetition, bool writing, const char *path) {
    struct variable variable, next;
    for (int n = 0; variable_of((enum output)output, &physics, n, &variable); n++) {
        transfer(handle, output, repetition, n, writing, path);
        bool last = !variable_of((enum output)output, &physics, n + 1, &next) || next.group != variable.group;
        if (!all_well())
            return;
        if (writing && last)
            sync_group(handle, path, variable.group);
        if (!all_well())
            return;
    }
}

static struct residency residency_of(const char *path) {
    struct residency sum = {.known = true};
    if (run.error[0] == '\0' && hosts.local_rank == 0)
        storage_residency(path, &sum);
    return sum;
}

static void one_output(int output, int64_t repetition, bool writing) {
    char below[PATH_LENGTH_MAX], path[PATH_LENGTH_MAX], name[48];
    struct residency before = {.known = true}, after = {.known = true};
    int handle = -1;
    name_of(output, repetition, below, sizeof below);
    kernel_path(below, path, sizeof path);
    print_into(name, sizeof name, "%s_%s", names[output], writing ? "write" : "read");
    if (!writing)
        before = residency_of(path);
    phase_begin(name, (int)repetition);
    bool opened = begin(path, output, repetition, writing, &handle);
    if (opened)
        transfer_all(handle, output, repetition, writing, path);
    if (writing && !all_well()) {
        /* To close is to write what is left, together: where that fails on one rank, the others wait. */
        run.abandoned = true;
    } else if (opened) {
        end(handle, path, writing);
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        if (writing)
            after = residency_of(path);
    }
    phase_end(&before, &after);
}

static void all_outputs(int64_t repetition, bool writing) {
    for (int output = 0; output < OUTPUTS; output++)
        if (wanted(output)) {
            one_output(output, repetition, writing);
            if (!all_well())
                return;
        }
}

static void write_outputs(int64_t repetition) {
    all_outputs(repetition, true);
}

static void read_outputs(int64_t repetition) {
    all_outputs(repetition, false);
}

static void software(struct json *json) {
    unsigned major = 0, minor = 0, release = 0;
    char text[64];
    json_text(json, "netcdf", nc_inq_libvers());
    if (H5get_libversion(&major, &minor, &release) >= 0) {
        print_into(text, sizeof text, "%u.%u.%u", major, minor, release);
        json_text(json, "hdf5", text);
    }
}

static const struct kernel kernel = {
    .name = "les-io",
    .about = "the output of a large-eddy simulation of a city's air: shared netCDF-4 files",
    .family = "mpi-shared-netcdf4",
    .options = options,
    .size = size,
    .settle = settle,
    .parameters = parameters,
    .payload = payload,
    .file_bytes = file_bytes,
    .folder = folder,
    .file = file,
    .shared = true,
    .dry_run = dry_run,
    .write = write_outputs,
    .read = read_outputs,
    .software = software,
};

int main(int argc, char **argv) {
    return kernel_main(argc, argv, &kernel);
}
