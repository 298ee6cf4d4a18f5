/*
 * What a worker does before it waits at the gate: has the files that its round names out of this machine's
 * page cache, or in it, and asks the kernel how much of them is in memory then (cachestat(2), Linux 6.5).
 *
 * Only the files that were named are touched. What was written to them and is not on the device yet is
 * written first. A file that is not there is none: what the program is to make cannot be in memory. Names are
 * those of the process, so relative ones begin in its working directory.
 */
#ifndef RAKUDA_GATE_CACHE_H
#define RAKUDA_GATE_CACHE_H

#include "rakuda_gate.h"

enum { RAKUDA_GATE_COLD = 1, RAKUDA_GATE_WARM = 2 };

#if defined(__x86_64__)
enum {
    RAKUDA_GATE_SYS_LSEEK = 8,
    RAKUDA_GATE_SYS_FDATASYNC = 75,
    RAKUDA_GATE_SYS_FADVISE = 221,
    RAKUDA_GATE_SYS_OPENAT = 257
};
#else
enum {
    RAKUDA_GATE_SYS_OPENAT = 56,
    RAKUDA_GATE_SYS_LSEEK = 62,
    RAKUDA_GATE_SYS_FDATASYNC = 83,
    RAKUDA_GATE_SYS_FADVISE = 223
};
#endif
enum {
    RAKUDA_GATE_SYS_CACHESTAT = 451,
    RAKUDA_GATE_DONTNEED = 4,
    RAKUDA_GATE_FROM_CWD = -100,
    RAKUDA_GATE_ENOENT = 2,
    RAKUDA_GATE_EINTR = 4,
    RAKUDA_GATE_EBADF = 9,
    RAKUDA_GATE_ENAMETOOLONG = 36,
    RAKUDA_GATE_PATH = 4096,
    /* How often a file is dropped that does not go. */
    RAKUDA_GATE_DROPS = 16,
    /* One who reads more at once gains nothing. */
    RAKUDA_GATE_PIECE = 65536
};
/* Read-only, not waiting for the other end of a pipe, no terminal, not for the program. */
#define RAKUDA_GATE_OPEN_FLAGS (02000000 | 04000 | 0400)

/* The order of a worker; the names follow it, with a 0 behind each. */
struct rakuda_gate_order {
    int64_t names_bytes; /* by the agent */
    int64_t page_bytes;  /* by the agent: of a page of memory */
    uint32_t wanted;     /* by the agent */
    uint32_t done;       /* it was seen to */
    int32_t error;       /* errno of what failed; 0: nothing did */
    uint32_t file;       /* the number of the file with which that was */
    int64_t bytes;       /* of all files */
    int64_t resident;    /* of them in memory afterwards; -1: the kernel does not say */
};

struct rakuda_gate_range {
    uint64_t offset;
    uint64_t length;
};

struct rakuda_gate_pages {
    uint64_t cached;
    uint64_t dirty;
    uint64_t writeback;
    uint64_t evicted;
    uint64_t recently_evicted;
};

/* Reads the whole file; how that ended. */
static inline long rakuda_gate_read_all(long file) {
    static char piece[RAKUDA_GATE_PIECE];
    long place = 0;
    for (;;) {
        long count = rakuda_gate_call(RAKUDA_GATE_SYS_PREAD, file, (long)piece, sizeof piece, place);
        if (count > 0) {
            place += count;
        } else if (count != -RAKUDA_GATE_EINTR) {
            return count;
        }
    }
}

/* Has a file out of memory; how that ended. A page that the kernel holds just then, as when it moves or sorts
 * pages, stays, so the kernel is asked several times. */
static inline long rakuda_gate_drop(long file) {
    struct rakuda_gate_range all = {0, 0};
    struct rakuda_gate_pages pages = {0, 0, 0, 0, 0};
    long result;
    int tries = RAKUDA_GATE_DROPS;
    do {
        result = rakuda_gate_call(RAKUDA_GATE_SYS_FADVISE, file, 0, 0, RAKUDA_GATE_DONTNEED);
        tries--;
    } while (result == 0 && tries > 0 &&
             rakuda_gate_call(RAKUDA_GATE_SYS_CACHESTAT, file, (long)&all, (long)&pages, 0) == 0 &&
             pages.cached > 0);
    return result;
}

/* Has one file out of memory, or in it, and counts what of it is there; how that ended. */
static inline long rakuda_gate_see_to(const char *name, struct rakuda_gate_order *order) {
    struct rakuda_gate_range all = {0, 0};
    struct rakuda_gate_pages pages = {0, 0, 0, 0, 0};
    long bytes;
    long result;
    long file =
        rakuda_gate_call(RAKUDA_GATE_SYS_OPENAT, RAKUDA_GATE_FROM_CWD, (long)name, RAKUDA_GATE_OPEN_FLAGS, 0);
    if (file < 0) {
        return file == -RAKUDA_GATE_ENOENT ? 0 : file;
    }
    /* A folder refuses to be read, and what has no end to be read from a place. */
    result = rakuda_gate_call(RAKUDA_GATE_SYS_PREAD, file, (long)&pages, 0, 0);
    bytes = rakuda_gate_call(RAKUDA_GATE_SYS_LSEEK, file, 0, 2, 0);
    if (result == 0 && bytes < 0) {
        result = bytes;
    }
    if (result == 0 && order->wanted == RAKUDA_GATE_COLD) {
        result = rakuda_gate_call(RAKUDA_GATE_SYS_FDATASYNC, file, 0, 0, 0);
        /* Gfarm syncs no file that is open for reading; what stays in memory is counted below. */
        if (result == 0 || result == -RAKUDA_GATE_EBADF) {
            result = rakuda_gate_drop(file);
        }
    } else if (result == 0) {
        result = rakuda_gate_read_all(file);
    }
    if (result == 0) {
        order->bytes += bytes;
        if (rakuda_gate_call(RAKUDA_GATE_SYS_CACHESTAT, file, (long)&all, (long)&pages, 0) != 0) {
            order->resident = -1;
        } else if (order->resident >= 0) {
            int64_t resident = (int64_t)pages.cached * order->page_bytes;
            order->resident += resident < bytes ? resident : bytes;
        }
    }
    rakuda_gate_close((int)file);
    return result;
}

/* Does what the worker's order says, if it has one; what came of it is there afterwards. Ends the process
 * where it cannot be done. */
static inline void rakuda_gate_obey(const int *fields) {
    static char name[RAKUDA_GATE_PATH];
    struct rakuda_gate_slot slot = {0};
    struct rakuda_gate_order order = {0};
    long page = fields[RAKUDA_GATE_PAGE];
    long at = (long)(sizeof(struct rakuda_gate_head) + sizeof slot * (uint32_t)fields[RAKUDA_GATE_SLOT]);
    int64_t done = 0;
    long result = 0;
    if (rakuda_gate_call(RAKUDA_GATE_SYS_PREAD, page, (long)&slot, sizeof slot, at) != (long)sizeof slot) {
        rakuda_gate_end();
    }
    if (slot.order == 0) {
        return;
    }
    if (rakuda_gate_call(RAKUDA_GATE_SYS_PREAD, page, (long)&order, sizeof order, slot.order) !=
        (long)sizeof order) {
        rakuda_gate_end();
    }
    while (result == 0 && done < order.names_bytes) {
        long place = slot.order + (long)sizeof order + done;
        long count = rakuda_gate_call(RAKUDA_GATE_SYS_PREAD, page, (long)name, sizeof name, place);
        long length = 0;
        while (length < count && name[length] != '\0') {
            length++;
        }
        result = length < count ? rakuda_gate_see_to(name, &order) : -RAKUDA_GATE_ENAMETOOLONG;
        done += length + 1;
        order.file += result == 0;
    }
    order.error = (int32_t)-result;
    order.done = 1;
    rakuda_gate_call(RAKUDA_GATE_SYS_PWRITE, page, (long)&order, sizeof order, slot.order);
    if (result != 0) {
        rakuda_gate_end();
    }
}

#endif
