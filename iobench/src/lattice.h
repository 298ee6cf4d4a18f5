/* SU(3) matrices from a formula, and the checksums that lattice people put with a configuration. Pure.
 *
 * A link is a 3x3 complex matrix; a site has four. In ILDG order a site is 576 bytes, big-endian: direction
 * (x, y, z, t), row, column, real and imaginary part. */
#ifndef IOBENCH_LATTICE_H
#define IOBENCH_LATTICE_H

#include <stdint.h>

#define DIRECTIONS 4
#define LINK_DOUBLES 18
#define SITE_DOUBLES (DIRECTIONS * LINK_DOUBLES)
#define SITE_BYTES (SITE_DOUBLES * 8)

/* [row][column][real, imaginary]. */
typedef double link_matrix[3][3][2];

/* The link of a number: two rows from random bits made orthonormal (Gram and Schmidt), the third their
 * conjugate cross product. Additions, products, quotients and roots only, so the same bits on every IEEE
 * machine. */
void lattice_link(uint64_t key, uint64_t number, link_matrix out);

/* The largest deviation of an element of U U^+ from the unit matrix, and of det U from 1. */
double lattice_deviation(link_matrix u);

/* Reverses the bytes of `doubles` doubles. */
void lattice_swap(void *data, int64_t doubles);

/* SciDAC's two checksums: exclusive or of the CRC-32 of all sites, turned left by the site's number modulo 29
 * and 31. */
struct lattice_sums {
    uint32_t a, b;
};

/* Adds a site in ILDG order with the number that it has in the whole lattice, x fastest. */
void lattice_sum(struct lattice_sums *sums, uint64_t site, const void *bytes);

/* The version of the library that computes them. */
const char *lattice_crc_version(void);

#endif
