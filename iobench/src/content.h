/* What is written: every value is a function of (seed, rank, epoch, variable, cell), so that any rank can
 * check what any other has written. Values are finite, of both signs, between 2^-8 and 2^8, and hardly
 * compressible.
 *
 * Pure. Bytes are little-endian in the files; a machine that is not is refused at compile time. */
#ifndef IOBENCH_CONTENT_H
#define IOBENCH_CONTENT_H

#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "iobench writes little-endian files from memory; this machine is big-endian"
#endif

/* SplitMix64's finaliser (Steele, Lea, Flood 2014): a bijection whose every output bit depends on every input
 * bit. */
static inline uint64_t content_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* What all cells of a variable have in common. */
static inline uint64_t content_key(uint64_t seed, uint64_t rank, uint64_t epoch, uint64_t variable) {
    uint64_t key = content_mix(seed + UINT64_C(0x9e3779b97f4a7c15));
    key = content_mix(key ^ content_mix(rank + UINT64_C(0xd1b54a32d192ed03)));
    key = content_mix(key ^ content_mix(epoch + UINT64_C(0x8cb92ba72f3d8dd7)));
    return content_mix(key ^ content_mix(variable + UINT64_C(0xaef17502108ef2d9)));
}

/* 64 random bits of a cell. */
static inline uint64_t content_bits(uint64_t key, uint64_t cell) {
    return content_mix(key + cell * UINT64_C(0x9e3779b97f4a7c15));
}

/* The bits of a float of a cell: sign and fraction random, the exponent one of 16 around 0. */
static inline uint32_t content_f32(uint64_t key, uint64_t cell) {
    uint64_t bits = content_bits(key, cell);
    uint32_t exponent = 119 + (uint32_t)(bits >> 59 & 15);
    return (uint32_t)(bits >> 63) << 31 | exponent << 23 | (uint32_t)(bits & 0x7fffff);
}

/* Likewise of a double. */
static inline uint64_t content_f64(uint64_t key, uint64_t cell) {
    uint64_t bits = content_bits(key, cell);
    uint64_t exponent = 1015 + (bits >> 59 & 15);
    return bits >> 63 << 63 | exponent << 52 | (bits & UINT64_C(0xfffffffffffff));
}

#endif
