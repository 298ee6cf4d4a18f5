#include "lattice.h"
#include "content.h"

#include <math.h>
#include <string.h>
#include <zlib.h>

typedef double vector[3][2];

/* <a, b> = sum of conj(a_i) b_i. */
static void inner(vector a, vector b, double out[2]) {
    out[0] = out[1] = 0;
    for (int i = 0; i < 3; i++) {
        out[0] += a[i][0] * b[i][0] + a[i][1] * b[i][1];
        out[1] += a[i][0] * b[i][1] - a[i][1] * b[i][0];
    }
}

static void normalise(vector a) {
    double square = 0;
    for (int i = 0; i < 3; i++)
        square += a[i][0] * a[i][0] + a[i][1] * a[i][1];
    double length = sqrt(square);
    for (int i = 0; i < 3; i++)
        for (int part = 0; part < 2; part++)
            a[i][part] /= length;
}

/* b without its share along a. */
static void make_orthogonal(vector a, vector b) {
    double share[2];
    inner(a, b, share);
    for (int i = 0; i < 3; i++) {
        double real = share[0] * a[i][0] - share[1] * a[i][1];
        double imaginary = share[0] * a[i][1] + share[1] * a[i][0];
        b[i][0] -= real;
        b[i][1] -= imaginary;
    }
}

/* conj(a x b). */
static void cross(vector a, vector b, vector out) {
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;
        double real = a[j][0] * b[k][0] - a[j][1] * b[k][1] - (a[k][0] * b[j][0] - a[k][1] * b[j][1]);
        double imaginary = a[j][0] * b[k][1] + a[j][1] * b[k][0] - (a[k][0] * b[j][1] + a[k][1] * b[j][0]);
        out[i][0] = real;
        out[i][1] = -imaginary;
    }
}

/* In (-1, 1), never 0. */
static double number_of(uint64_t bits) {
    return ((double)(bits >> 11) + 0.5) / 0x1p52 - 1;
}

void lattice_link(uint64_t key, uint64_t number, link_matrix out) {
    uint64_t own = content_bits(key, number);
    for (uint64_t i = 0; i < 12; i++)
        out[i / 6][i / 2 % 3][i % 2] = number_of(content_bits(own, i));
    normalise(out[0]);
    /* Twice: one pass leaves a share of the size of the rounding, which matters when the rows are nearly
     * parallel. */
    make_orthogonal(out[0], out[1]);
    normalise(out[1]);
    make_orthogonal(out[0], out[1]);
    normalise(out[1]);
    cross(out[0], out[1], out[2]);
}

double lattice_deviation(link_matrix u) {
    double worst = 0, product[2];
    vector third;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            inner(u[i], u[j], product);
            worst = fmax(worst, fmax(fabs(product[0] - (i == j)), fabs(product[1])));
            /* fmax takes a number before NaN, and NaN is the worst. */
            if (isnan(product[0]) || isnan(product[1]))
                return INFINITY;
        }
    /* det U = <conj(row 0 x row 1), row 2>. */
    cross(u[0], u[1], third);
    inner(third, u[2], product);
    return fmax(worst, fmax(fabs(product[0] - 1), fabs(product[1])));
}

void lattice_swap(void *data, int64_t doubles) {
    char *at = data;
    for (int64_t i = 0; i < doubles; i++, at += 8) {
        uint64_t bits;
        memcpy(&bits, at, 8);
        bits = __builtin_bswap64(bits);
        memcpy(at, &bits, 8);
    }
}

static uint32_t turned(uint32_t value, unsigned by) {
    return by == 0 ? value : value << by | value >> (32 - by);
}

void lattice_sum(struct lattice_sums *sums, uint64_t site, const void *bytes) {
    uint32_t crc = (uint32_t)crc32(crc32(0, NULL, 0), bytes, SITE_BYTES);
    sums->a ^= turned(crc, (unsigned)(site % 29));
    sums->b ^= turned(crc, (unsigned)(site % 31));
}

const char *lattice_crc_version(void) {
    return zlibVersion();
}
