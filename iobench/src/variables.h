/* The variables of a large-eddy simulation of a city's air, by output and physics; and how ranks share the
 * mesh. Pure.
 *
 * How many variables of which kind and type an output has is as in City-LES; the names of those beyond u, v,
 * w, t, p, tke, tsfc, tg1D, moist, binvar, rainncv and smois are ours. Dimensions are given slowest first, as
 * netCDF's C interface does. */
#ifndef IOBENCH_VARIABLES_H
#define IOBENCH_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

#define GROUND_LAYERS 20
#define DIMENSIONS_MAX 4

enum output { OUTPUT_INTEGRAL, OUTPUT_INSTANT, OUTPUT_AVERAGE, OUTPUT_RESTART, OUTPUTS };

enum kind {
    KIND_PLANE,   /* j, i */
    KIND_VOLUME,  /* k, j, i */
    KIND_SPECIES, /* n, k, j, i: n species, or bins of a size distribution */
    KIND_SURFACE, /* rank, m: the surface points of a rank one after the other */
    KIND_GROUND,  /* rank, layer, m */
    KIND_SOIL     /* n, j, i: n layers of soil */
};

struct variable {
    char name[32];
    enum kind kind;
    int64_t n;           /* of KIND_SPECIES and KIND_SOIL */
    const char *slowest; /* what that dimension is called */
    int group;           /* after the last variable of a group the file is flushed */
};

#define BIN_COUNT 12

struct physics {
    int mp_model;    /* 0: 1 species, 1: 3 species, 9: 3 species and 12 bins */
    bool soil_model; /* soil moisture in the restart file */
    int64_t soil_layers;
};

/* The variable of an output with this number; false when there are no more. */
bool variable_of(enum output output, const struct physics *physics, int number, struct variable *out);

/* The name of a dimension, counted from the last; dimensions of one name are as long. */
const char *dimension_name(const struct variable *variable, int from_last);

/* Bytes of a value in an output: 8 in Integral and Restart, else 4. */
int variable_bytes(enum output output);

struct mesh {
    int64_t cells[3]; /* i, j, k of the whole */
    int64_t grid[2];  /* processes in i and j */
};

/* Where a part of `cells` begins and how long it is; what is left over goes to the first parts. */
void mesh_part(int64_t cells, int64_t parts, int64_t part, int64_t *start, int64_t *count);

/* Dimensions of a variable: how many, the whole, and the block of a rank. */
struct extent {
    int dimensions;
    int64_t whole[DIMENSIONS_MAX], start[DIMENSIONS_MAX], count[DIMENSIONS_MAX];
    int64_t block[DIMENSIONS_MAX]; /* the largest count of any rank: a chunk */
};
struct extent extent_of(const struct variable *variable, const struct mesh *mesh, int rank);

/* Values in a rank's block. */
int64_t extent_values(const struct extent *extent);

/* The number in the whole variable (last dimension fastest) of the value with number `index` in the block.
 * `at` gets its place. */
int64_t extent_cell(const struct extent *extent, int64_t index, int64_t at[DIMENSIONS_MAX]);

#endif
