/* A plain netCDF-4 program, as one writes it from the manual: define, put, close; open, get, close.
 * Contiguous variables, default fill. It prints the times of each repetition as JSON, less what it takes to
 * make and to check the values.
 *
 * usage: plain NX NY NZ REPETITIONS */
#include <netcdf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { VARIABLES = 9 };

static void check(int status) {
    if (status != NC_NOERR) {
        fprintf(stderr, "plain: %s\n", nc_strerror(status));
        exit(1);
    }
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static float value(size_t cell, int variable, int repetition) {
    return (float)((cell * 2654435761U + (size_t)(variable * 97 + repetition)) % 1000003) / 7;
}

/* Each returns how long it took to make or check the values, ns, which is no part of a repetition. */
static uint64_t fill(float *data, size_t cells, int variable, int repetition) {
    uint64_t begun = now();
    for (size_t cell = 0; cell < cells; cell++) {
        data[cell] = value(cell, variable, repetition);
    }
    return now() - begun;
}

static uint64_t compare(const float *data, size_t cells, int variable, int repetition, int *wrong) {
    uint64_t begun = now();
    for (size_t cell = 0; cell < cells; cell++) {
        *wrong += data[cell] != value(cell, variable, repetition);
    }
    return now() - begun;
}

static uint64_t write_file(const char *path, const size_t *sizes, int repetition, float *data) {
    uint64_t aside_ns = 0;
    int file, dimensions[3], ids[VARIABLES];
    const char *names[] = {"k", "j", "i"};
    check(nc_create(path, NC_NETCDF4, &file));
    for (int i = 0; i < 3; i++) {
        check(nc_def_dim(file, names[i], sizes[i], &dimensions[i]));
    }
    for (int variable = 0; variable < VARIABLES; variable++) {
        char name[8];
        snprintf(name, sizeof name, "v%d", variable);
        check(nc_def_var(file, name, NC_FLOAT, 3, dimensions, &ids[variable]));
    }
    check(nc_enddef(file));
    for (int variable = 0; variable < VARIABLES; variable++) {
        aside_ns += fill(data, sizes[0] * sizes[1] * sizes[2], variable, repetition);
        check(nc_put_var_float(file, ids[variable], data));
    }
    check(nc_close(file));
    return aside_ns;
}

static uint64_t read_file(const char *path, const size_t *sizes, int repetition, float *data, int *wrong) {
    uint64_t aside_ns = 0;
    int file;
    check(nc_open(path, NC_NOWRITE, &file));
    for (int variable = 0; variable < VARIABLES; variable++) {
        check(nc_get_var_float(file, variable, data));
        aside_ns += compare(data, sizes[0] * sizes[1] * sizes[2], variable, repetition, wrong);
    }
    check(nc_close(file));
    return aside_ns;
}

int main(int count, char **words) {
    if (count != 5) {
        fputs("plain: expected NX NY NZ REPETITIONS\n", stderr);
        return 2;
    }
    size_t sizes[3] = {strtoul(words[3], NULL, 10), strtoul(words[2], NULL, 10), strtoul(words[1], NULL, 10)};
    size_t cells = sizes[0] * sizes[1] * sizes[2];
    int repetitions = atoi(words[4]), wrong = 0;
    float *data = malloc(cells * sizeof *data);
    char path[32];
    if (data == NULL) {
        return 1;
    }
    printf("{\"steps\": {");
    for (int pass = 0; pass < 2 * repetitions; pass++) {
        int repetition = pass % repetitions;
        snprintf(path, sizeof path, "plain-%d.nc", repetition);
        uint64_t begun = now(), aside_ns;
        if (pass < repetitions) {
            aside_ns = write_file(path, sizes, repetition, data);
        } else {
            aside_ns = read_file(path, sizes, repetition, data, &wrong);
        }
        printf("%s\"%s-%d\": [{\"bytes\": %zu, \"start_ns\": %llu, \"end_ns\": %llu, \"calls\": %d}]",
               pass > 0 ? ", " : "", pass < repetitions ? "write" : "read", repetition + 1,
               cells * sizeof *data * VARIABLES, (unsigned long long)begun,
               (unsigned long long)(now() - aside_ns), VARIABLES + 2);
    }
    printf("}, \"reasons\": [");
    if (wrong > 0) {
        printf("\"%d values are wrong\"", wrong);
    }
    puts("]}");
    free(data);
    return 0;
}
