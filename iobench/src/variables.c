#include "variables.h"

#include <stdio.h>
#include <string.h>

/* `count` variables of one kind; a count above 1 numbers the names. `unless` 0: always there. */
struct row {
    const char *name;
    enum kind kind;
    int count, group;
    enum { ALWAYS, BINS, SOIL } when;
};

static const struct row integral[] = {
    {"sw_int", KIND_PLANE, 1, 0, ALWAYS},
    {"lw_int", KIND_PLANE, 1, 0, ALWAYS},
    {"sw_ra_heating_int", KIND_VOLUME, 1, 0, ALWAYS},
    {"lw_ra_heating_int", KIND_VOLUME, 1, 0, ALWAYS},
    {0},
};

static const struct row instant[] = {
    {"u", KIND_VOLUME, 1, 0, ALWAYS},
    {"v", KIND_VOLUME, 1, 0, ALWAYS},
    {"w", KIND_VOLUME, 1, 0, ALWAYS},
    {"t", KIND_VOLUME, 1, 0, ALWAYS},
    {"p", KIND_VOLUME, 1, 0, ALWAYS},
    {"tke", KIND_VOLUME, 1, 0, ALWAYS},
    {"tsfc", KIND_SURFACE, 1, 1, ALWAYS},
    {"tg1D", KIND_GROUND, 1, 1, ALWAYS},
    {"moist", KIND_SPECIES, 1, 2, ALWAYS},
    {"binvar", KIND_SPECIES, 1, 3, BINS},
    {0},
};

static const struct row average[] = {
    {"mean", KIND_VOLUME, 8, 0, ALWAYS},
    {"tsfc_mean", KIND_SURFACE, 1, 1, ALWAYS},
    {"tg1D_mean", KIND_GROUND, 1, 1, ALWAYS},
    {"correlation", KIND_VOLUME, 10, 2, ALWAYS},
    {"flux", KIND_VOLUME, 9, 3, ALWAYS},
    {"gradient", KIND_VOLUME, 12, 4, ALWAYS},
    {"moist_moment", KIND_SPECIES, 11, 5, ALWAYS},
    {"binvar_moment", KIND_SPECIES, 11, 6, BINS},
    {0},
};

static const struct row restart[] = {
    {"u", KIND_VOLUME, 1, 0, ALWAYS},      {"v", KIND_VOLUME, 1, 0, ALWAYS},
    {"w", KIND_VOLUME, 1, 0, ALWAYS},      {"t", KIND_VOLUME, 1, 0, ALWAYS},
    {"p", KIND_VOLUME, 1, 0, ALWAYS},      {"tke", KIND_VOLUME, 1, 0, ALWAYS},
    {"tsfc", KIND_SURFACE, 1, 1, ALWAYS},  {"tg1D", KIND_GROUND, 1, 1, ALWAYS},
    {"rainncv", KIND_PLANE, 1, 1, ALWAYS}, {"rainncv_int", KIND_PLANE, 1, 1, ALWAYS},
    {"smois", KIND_SOIL, 1, 1, SOIL},      {"moist", KIND_SPECIES, 1, 2, ALWAYS},
    {"binvar", KIND_SPECIES, 1, 3, BINS},  {0},
};

static const struct row *const outputs[] = {integral, instant, average, restart};

bool variable_of(enum output output, const struct physics *physics, int number, struct variable *out) {
    for (const struct row *row = outputs[output]; row->name != NULL; row++) {
        bool there = row->when == ALWAYS || (row->when == BINS && physics->mp_model == 9) ||
                     (row->when == SOIL && physics->soil_model);
        if (!there)
            continue;
        if (number >= row->count) {
            number -= row->count;
            continue;
        }
        *out = (struct variable){.kind = row->kind, .group = row->group};
        if (row->count > 1)
            snprintf(out->name, sizeof out->name, "%s_%02d", row->name, number + 1);
        else
            snprintf(out->name, sizeof out->name, "%s", row->name);
        if (row->kind == KIND_SPECIES)
            out->n = row->when == BINS ? 13 : physics->mp_model == 0 ? 1 : 3;
        if (row->kind == KIND_SOIL)
            out->n = physics->soil_layers;
        return true;
    }
    return false;
}

int variable_bytes(enum output output) {
    return output == OUTPUT_INTEGRAL || output == OUTPUT_RESTART ? 8 : 4;
}

void mesh_part(int64_t cells, int64_t parts, int64_t part, int64_t *start, int64_t *count) {
    int64_t least = cells / parts, over = cells % parts;
    *count = least + (part < over);
    *start = part * least + (part < over ? part : over);
}

static void add(struct extent *extent, int64_t whole, int64_t start, int64_t count, int64_t block) {
    int d = extent->dimensions++;
    extent->whole[d] = whole;
    extent->start[d] = start;
    extent->count[d] = count;
    extent->block[d] = block;
}

struct extent extent_of(const struct variable *variable, const struct mesh *mesh, int rank) {
    struct extent extent = {0};
    int64_t start[2], count[2], most[2], ranks = mesh->grid[0] * mesh->grid[1], nothing;
    for (int d = 0; d < 2; d++) {
        int64_t part = d == 0 ? rank % mesh->grid[0] : rank / mesh->grid[0];
        mesh_part(mesh->cells[d], mesh->grid[d], part, &start[d], &count[d]);
        mesh_part(mesh->cells[d], mesh->grid[d], 0, &nothing, &most[d]);
    }
    int64_t points = most[0] * most[1];
    switch (variable->kind) {
    case KIND_SURFACE:
    case KIND_GROUND:
        add(&extent, ranks, rank, 1, 1);
        if (variable->kind == KIND_GROUND)
            add(&extent, GROUND_LAYERS, 0, GROUND_LAYERS, GROUND_LAYERS);
        add(&extent, points, 0, points, points);
        return extent;
    case KIND_SPECIES:
    case KIND_SOIL:
        add(&extent, variable->n, 0, variable->n, variable->n);
        break;
    case KIND_PLANE:
    case KIND_VOLUME:
        break;
    }
    if (variable->kind == KIND_VOLUME || variable->kind == KIND_SPECIES)
        add(&extent, mesh->cells[2], 0, mesh->cells[2], mesh->cells[2]);
    add(&extent, mesh->cells[1], start[1], count[1], most[1]);
    add(&extent, mesh->cells[0], start[0], count[0], most[0]);
    return extent;
}

int64_t extent_values(const struct extent *extent) {
    int64_t values = 1;
    for (int d = 0; d < extent->dimensions; d++)
        values *= extent->count[d];
    return values;
}

int64_t extent_cell(const struct extent *extent, int64_t index, int64_t at[DIMENSIONS_MAX]) {
    int64_t cell = 0;
    for (int d = extent->dimensions; d-- > 0;) {
        at[d] = extent->start[d] + index % extent->count[d];
        index /= extent->count[d];
    }
    for (int d = 0; d < extent->dimensions; d++)
        cell = cell * extent->whole[d] + at[d];
    return cell;
}
