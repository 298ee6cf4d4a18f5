/* The pure parts, without MPI: contents, figures, lattices, variables, JSON. Prints what is wrong; exits with
 * 1 then. */
#include "content.h"
#include "figures.h"
#include "json.h"
#include "lattice.h"
#include "variables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                           \
            failures++;                                                                                      \
        }                                                                                                    \
    } while (0)

static float f32(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Files of one version must be readable by the next: the formula may not change. */
static void contents_stay_what_they_are(void) {
    uint64_t key = content_key(1, 2, 3, 4);
    CHECK(content_key(1, 2, 3, 4) == UINT64_C(0xf1dfcabcefc80652));
    CHECK(content_f32(key, 5) == UINT32_C(0x3c2ef0d2));
    CHECK(content_f64(key, 5) == UINT64_C(0x3f8cf35741aef0d2));
}

static void contents_are_finite_and_of_their_range(void) {
    uint64_t key = content_key(1, 0, 0, 0);
    for (uint64_t cell = 0; cell < 100000; cell++) {
        double value = fabs((double)f32(content_f32(key, cell))), wide;
        uint64_t bits = content_f64(key, cell);
        memcpy(&wide, &bits, sizeof wide);
        CHECK(value >= 0x1p-8 && value < 0x1p8 && fabs(wide) >= 0x1p-8 && fabs(wide) < 0x1p8);
    }
}

/* A cell, variable, epoch, rank or seed that is taken for another one must show. */
static void contents_differ_in_every_coordinate(void) {
    uint64_t first = content_bits(content_key(1, 0, 0, 0), 0);
    CHECK(first != content_bits(content_key(2, 0, 0, 0), 0));
    CHECK(first != content_bits(content_key(1, 1, 0, 0), 0));
    CHECK(first != content_bits(content_key(1, 0, 1, 0), 0));
    CHECK(first != content_bits(content_key(1, 0, 0, 1), 0));
    CHECK(first != content_bits(content_key(1, 0, 0, 0), 1));
    CHECK(content_key(1, 0, 1, 0) != content_key(1, 1, 0, 0) &&
          content_key(1, 0, 0, 1) != content_key(1, 0, 1, 0));
}

/* Two ranks, two steps; rank 1 is slower and begins later. */
static void figures_are_those_of_their_definition(void) {
    struct step_times steps[4] = {
        {.start_ns = 0, .end_ns = 100, .transfer_ns = 80, .bytes = 1000},
        {.start_ns = 500, .end_ns = 600, .transfer_ns = 0, .bytes = 0},
        {.start_ns = 10,
         .end_ns = 200,
         .transfer_ns = 150,
         .bytes = 1000,
         .mark_ns = {60, 90, 150},
         .mark_bytes = {125, 250, 375}},
        {.start_ns = 500, .end_ns = 640, .transfer_ns = 5, .bytes = 0},
    };
    struct figures f = figures_of(steps, 2, 2, 34);
    CHECK(f.bytes == 2000 && f.calls == 34);
    CHECK(f.time_ns == 200 + 140);
    CHECK(f.transfer_ns == 150 + 5);
    CHECK(f.first_done_ns == 100 + 100);
    CHECK(f.first_done_bytes == 1000 + 250);
    CHECK(f.start_skew_ns_max == 10);
    CHECK(fabs(f.end_skew - 140.0 / 340) < 1e-12);
    CHECK(fabs(f.bw_last_done - 2000e9 / 340) < 1);
    CHECK(fabs(f.bw_transfer - 2000e9 / 155) < 1);
    CHECK(fabs(f.bw_first_done - 1250e9 / 200) < 1);
    CHECK(fabs(f.ops_per_s - 34e9 / 340) < 1);
}

static void medians_and_their_intervals(void) {
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
    int low = -1, high = -1;
    CHECK(figures_median(odd, 3) == 2 && figures_median(even, 4) == 2.5);
    CHECK(!figures_interval(5, &low, &high));
    CHECK(figures_interval(6, &low, &high) && low == 0 && high == 5);
    /* Tables of order statistics: the 6th and 15th of 20. */
    CHECK(figures_interval(20, &low, &high) && low == 5 && high == 14);
}

static void links_are_unitary(void) {
    link_matrix u;
    for (uint64_t n = 0; n < 20000; n++) {
        lattice_link(7, n, u);
        CHECK(lattice_deviation(u) < 1e-14);
    }
    u[1][2][0] += 1e-9;
    CHECK(lattice_deviation(u) > 1e-11);
    lattice_link(7, 0, u);
    u[0][0][0] = NAN;
    CHECK(!(lattice_deviation(u) < 1));
    /* Unitary, but of determinant -1: not SU(3). */
    lattice_link(7, 0, u);
    for (int i = 0; i < 6; i++)
        (&u[2][0][0])[i] *= -1;
    CHECK(lattice_deviation(u) > 1.9);
}

static void checksums_know_site_and_order(void) {
    unsigned char site[SITE_BYTES];
    for (int i = 0; i < SITE_BYTES; i++)
        site[i] = (unsigned char)i;
    struct lattice_sums zero = {0, 0}, one = {0, 0}, again = {0, 0}, both = {0, 0};
    lattice_sum(&zero, 0, site);
    CHECK(zero.a == zero.b); /* not turned: the CRC itself */
    lattice_sum(&one, 30, site);
    CHECK(one.a == (zero.a << 1 | zero.a >> 31));
    CHECK(one.b == (zero.a << 30 | zero.a >> 2));
    lattice_sum(&again, 29 * 31, site);
    CHECK(again.a == zero.a && again.b == zero.a);
    lattice_sum(&both, 30, site);
    lattice_sum(&both, 0, site);
    CHECK(both.a == (zero.a ^ one.a) && both.b == (zero.b ^ one.b));
}

static void swapping_reverses_each_double(void) {
    unsigned char bytes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const unsigned char wanted[16] = {7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8};
    lattice_swap(bytes, 2);
    CHECK(memcmp(bytes, wanted, sizeof bytes) == 0);
}

/* Volumes of an output at the paper's mesh; beside them are surfaces. */
static void outputs_have_their_variables(void) {
    static const struct {
        int mp_model, output, volumes, others;
    } rows[] = {{0, OUTPUT_INTEGRAL, 2, 2},
                {1, OUTPUT_INSTANT, 6 + 3, 2},
                {0, OUTPUT_INSTANT, 6 + 1, 2},
                {9, OUTPUT_INSTANT, 21, 2},
                {0, OUTPUT_AVERAGE, 39 + 11, 2},
                {1, OUTPUT_AVERAGE, 39 + 33, 2},
                {9, OUTPUT_AVERAGE, 39 + 15 * 11, 2},
                {1, OUTPUT_RESTART, 6 + 3, 4},
                {9, OUTPUT_RESTART, 21, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct physics physics = {rows[i].mp_model, false, 4};
        struct variable v;
        int64_t volumes = 0, others = 0;
        for (int n = 0; variable_of((enum output)rows[i].output, &physics, n, &v); n++)
            if (v.kind == KIND_VOLUME || v.kind == KIND_SPECIES)
                volumes += v.kind == KIND_SPECIES ? v.n : 1;
            else
                others++;
        CHECK(volumes == rows[i].volumes && others == rows[i].others);
    }
}

/* Every value of a variable is some rank's, and of one rank only, on a mesh that does not divide evenly. */
static void ranks_share_all_cells(void) {
    struct mesh mesh = {{7, 5, 3}, {3, 2}};
    struct physics physics = {9, true, 4};
    struct variable v;
    for (int n = 0; variable_of(OUTPUT_RESTART, &physics, n, &v); n++) {
        struct extent whole = extent_of(&v, &mesh, 0);
        int64_t values = 1, at[DIMENSIONS_MAX];
        for (int d = 0; d < whole.dimensions; d++)
            values *= whole.whole[d];
        char *seen = calloc((size_t)values, 1);
        for (int rank = 0; rank < 6; rank++) {
            struct extent extent = extent_of(&v, &mesh, rank);
            for (int64_t i = 0; i < extent_values(&extent); i++)
                seen[extent_cell(&extent, i, at)]++;
        }
        for (int64_t i = 0; i < values; i++)
            CHECK(seen[i] == 1);
        free(seen);
    }
}

static void json_escapes_what_it_must(void) {
    char *text = NULL;
    size_t size = 0;
    struct json json = {.out = open_memstream(&text, &size)};
    json_open(&json, NULL, '{');
    json_text(&json, "a\"b", "tab\tquote\" back\\ \x01");
    json_real(&json, "none", NAN);
    json_row(&json, "row", (const int64_t[]){1, -2}, 2);
    json_open(&json, "empty", '[');
    json_close(&json, ']');
    json_close(&json, '}');
    fclose(json.out);
    CHECK(strcmp(text, "{\n  \"a\\\"b\": \"tab\\u0009quote\\\" back\\\\ \\u0001\",\n  \"none\": null,\n  "
                       "\"row\": [1, -2],\n"
                       "  \"empty\": []\n}\n") == 0);
    free(text);
}

int main(void) {
    contents_stay_what_they_are();
    contents_are_finite_and_of_their_range();
    contents_differ_in_every_coordinate();
    figures_are_those_of_their_definition();
    medians_and_their_intervals();
    links_are_unitary();
    checksums_know_site_and_order();
    swapping_reverses_each_double();
    outputs_have_their_variables();
    ranks_share_all_cells();
    json_escapes_what_it_must();
    return failures > 0;
}
