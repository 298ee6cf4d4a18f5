#include "machine.h"
#include "base.h"
#include "clocks.h"
#include "storage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

uint64_t machine_digest(const char *text) {
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++)
        digest = (digest ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return digest;
}

/* The first line of a file that begins with `start`, without that and what separates it; false when there is
 * none. */
static bool line_of(const char *path, const char *start, char *out, size_t size) {
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool found = false;
    char line[1024];
    while (!found && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, start, strlen(start)) == 0) {
            const char *rest = line + strlen(start);
            rest += strspn(rest, " \t:");
            snprintf(out, size, "%.*s", (int)strcspn(rest, "\n"), rest);
            found = true;
        }
    fclose(file);
    return found;
}

bool machine_load(double load[3]) {
    return getloadavg(load, 3) == 3;
}

void machine_time(char *out, size_t size) {
    time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) == NULL || strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        FAIL("cannot tell the time");
}

void machine_uuid(char *out, size_t size) {
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        FAIL("getrandom: %s", strerror(errno));
    bytes[6] = (unsigned char)(0x40 | (bytes[6] & 0x0f));
    bytes[8] = (unsigned char)(0x80 | (bytes[8] & 0x3f));
    size_t at = 0;
    for (int i = 0; i < 16; i++) {
        print_into(out + at, size - at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", bytes[i]);
        at += strlen(out + at);
    }
}

static void print_file_system(struct json *json, const char *path) {
    struct mount mount = storage_mount(path);
    json_open(json, "fs", '{');
    json_text(json, "path", path);
    json_text(json, "type", mount.type);
    json_text(json, "options", mount.options);
    json_text(json, "device", mount.device);
    json_whole(json, "free_bytes", mount.bytes_free);
    json_close(json, '}');
}

static void print_numbers(struct json *json, const char *name, const char *const *paths) {
    char text[64];
    json_open(json, name, '{');
    for (; *paths != NULL; paths++)
        if (line_of(*paths, "", text, sizeof text))
            json_whole(json, strrchr(*paths, '/') + 1, strtoll(text, NULL, 10));
    json_close(json, '}');
}

static void print_software(struct json *json, void (*software)(struct json *json)) {
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI(MPI_Get_library_version(mpi, &length));
    mpi[strcspn(mpi, ",\n")] = '\0';
    json_open(json, "software", '{');
    json_text(json, "iobench", IOBENCH_VERSION);
    json_text(json, "mpi", mpi);
    json_text(json, "compiler", __VERSION__);
    if (software != NULL)
        software(json);
    json_close(json, '}');
}

void machine_print(struct json *json, const char *path, void (*software)(struct json *json)) {
    static const char *const vm[] = {"/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_background_ratio", NULL};
    struct utsname system;
    char text[256];
    json_open(json, "machine", '{');
    print_into(text, sizeof text, "fnv1a64:%016" PRIx64, machine_digest(hosts.all[0].name));
    json_text(json, "hostname_hash", text);
    if (uname(&system) == 0) {
        json_text(json, "kernel", system.release);
        json_text(json, "architecture", system.machine);
    }
    json_whole(json, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
    if (line_of("/proc/cpuinfo", "model name", text, sizeof text))
        json_text(json, "cpu_model", text);
    json_whole(json, "mem_bytes", (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    int nodes = 0;
    for (bool there = true; there; nodes += there) {
        print_into(text, sizeof text, "/sys/devices/system/node/node%d", nodes);
        there = access(text, F_OK) == 0;
    }
    if (nodes > 0)
        json_whole(json, "numa", nodes);
    print_file_system(json, path);
    print_numbers(json, "vm", vm);
    print_software(json, software);
    json_open(json, "psi", '{');
    if (line_of("/proc/pressure/io", "some", text, sizeof text))
        json_text(json, "io", text);
    if (line_of("/proc/pressure/memory", "some", text, sizeof text))
        json_text(json, "memory", text);
    json_close(json, '}');
    json_close(json, '}');
}
