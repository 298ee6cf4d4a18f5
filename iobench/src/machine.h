/* What machine rank 0 runs on, as far as it bears on I/O: for the result. What is not known is left out. */
#ifndef IOBENCH_MACHINE_H
#define IOBENCH_MACHINE_H

#include "json.h"

#include <stddef.h>
#include <stdint.h>

/* FNV-1a, 64 bits: tells texts apart, keeps no secret. */
uint64_t machine_digest(const char *text);

/* Prints the object `machine`; `path` is in the file system that was measured. */
void machine_print(struct json *json, const char *path, void (*software)(struct json *json));

/* 1, 5 and 15 minutes' load; false where it is not known. */
bool machine_load(double load[3]);

/* Now, as RFC 3339, UTC. */
void machine_time(char *out, size_t size);

/* A random UUID (version 4). */
void machine_uuid(char *out, size_t size);

#endif
