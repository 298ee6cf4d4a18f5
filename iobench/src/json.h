/* Writes JSON to a stream: objects and arrays as calls, commas and indentation by themselves. */
#ifndef IOBENCH_JSON_H
#define IOBENCH_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    int depth;    /* of open objects and arrays */
    bool follows; /* something stands before in the innermost one */
};

/* `name` is NULL for what stands in an array. */
void json_open(struct json *json, const char *name, char bracket);
void json_close(struct json *json, char bracket);
void json_text(struct json *json, const char *name, const char *text);
void json_whole(struct json *json, const char *name, int64_t value);
void json_real(struct json *json, const char *name, double value);
void json_bool(struct json *json, const char *name, bool value);
void json_null(struct json *json, const char *name);
/* An array of numbers in one line. */
void json_row(struct json *json, const char *name, const int64_t *values, int64_t count);

#endif
