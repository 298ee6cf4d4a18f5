#include "variables.h"

#include <stdio.h>
#include <string.h>

/* Variables of one kind: their names, with blanks between. */
struct row {
    const char *names;
    enum kind kind;
    int group;
    enum { ALWAYS, BINS, SOIL } when;
};

static const struct row integral[] = {
    {"sw_int lw_int", KIND_PLANE, 0, ALWAYS},
    {"sw_ra_heating_int lw_ra_heating_int", KIND_VOLUME, 0, ALWAYS},
    {0},
};

static const struct row instant[] = {
    {"u v w t p tke", KIND_VOLUME, 0, ALWAYS}, {"tsfc", KIND_SURFACE, 1, ALWAYS},
    {"tg1D", KIND_GROUND, 1, ALWAYS},          {"moist", KIND_SPECIES, 2, ALWAYS},
    {"binvar", KIND_SPECIES, 3, BINS},         {0},
};

static const struct row average[] = {
    {"um vm wm tm tkem", KIND_VOLUME, 0, ALWAYS},
    {"dm am bm", KIND_VOLUME, 1, ALWAYS},
    {"swm lwm", KIND_PLANE, 2, ALWAYS},
    {"u2m v2m w2m uvm vwm wum t2m tum tvm twm", KIND_VOLUME, 3, ALWAYS},
    {"tau11m tau22m tau33m tau12m tau23m tau31m t_flux1m t_flux2m t_flux3m", KIND_VOLUME, 4, ALWAYS},
    {"uxm uym uzm vxm vym vzm wxm wym wzm txm tym tzm", KIND_VOLUME, 5, ALWAYS},
    {"moistm moist2m moistum moistvm moistwm moist_flux1m moist_flux2m moist_flux3m moistxm moistym moistzm",
     KIND_SPECIES, 6, ALWAYS},
    {"binvarm binvar2m binvarum binvarvm binvarwm binvar_flux1m binvar_flux2m binvar_flux3m binvarxm "
     "binvarym binvarzm",
     KIND_SPECIES, 7, BINS},
    {0},
};

static const struct row restart[] = {
    {"u v w t p tke", KIND_VOLUME, 0, ALWAYS},
    {"tsfc", KIND_SURFACE, 1, ALWAYS},
    {"tg1D", KIND_GROUND, 2, ALWAYS},
    {"rainncv rainncv_int", KIND_PLANE, 3, ALWAYS},
    {"smois", KIND_SOIL, 4, SOIL},
    {"moist", KIND_SPECIES, 5, ALWAYS},
    {"binvar", KIND_SPECIES, 6, BINS},
    {0},
};

static const struct row *const outputs[] = {integral, instant, average, restart};

/* Copies the word with this number; where there are fewer words, returns the number less theirs. */
static int word_of(const char *words, int number, char *out, size_t room) {
    int found = 0;
    for (const char *word = words; *word != '\0'; found++) {
        size_t length = strcspn(word, " ");
        if (found == number) {
            snprintf(out, room, "%.*s", (int)length, word);
            return number;
        }
        word += length + (word[length] == ' ');
    }
    return number - found;
}

bool variable_of(enum output output, const struct physics *physics, int number, struct variable *out) {
    for (const struct row *row = outputs[output]; row->names != NULL; row++) {
        bool there = row->when == ALWAYS || (row->when == BINS && physics->mp_model == 9) ||
                     (row->when == SOIL && physics->soil_model);
        if (!there)
            continue;
        *out = (struct variable){.kind = row->kind, .group = row->group};
        number = word_of(row->names, number, out->name, sizeof out->name);
        if (out->name[0] == '\0')
            continue;
        if (row->kind == KIND_SPECIES) {
            out->n = row->when == BINS ? BIN_COUNT : physics->mp_model == 0 ? 1 : 3;
            out->slowest = row->when == BINS ? "bin" : "spcs";
        }
        if (row->kind == KIND_SOIL) {
            out->n = physics->soil_layers;
            out->slowest = "l";
        }
        return true;
    }
    return false;
}

const char *dimension_name(const struct variable *variable, int from_last) {
    static const char *const cells[] = {"i", "j", "k"}, *const surface[] = {"im1d", "nprocs"},
                             *const ground[] = {"im1d", "kg", "nprocs"};
    switch (variable->kind) {
    case KIND_SURFACE:
        return surface[from_last];
    case KIND_GROUND:
        return ground[from_last];
    case KIND_SOIL:
        return from_last == 2 ? variable->slowest : cells[from_last];
    case KIND_SPECIES:
        return from_last == 3 ? variable->slowest : cells[from_last];
    case KIND_PLANE:
    case KIND_VOLUME:
        break;
    }
    return cells[from_last];
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
