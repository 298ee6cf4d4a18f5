/*
 * The gate of a synchronised start (docs/design/synchronised-start.md), as seen from the process that waits
 * at it.
 *
 * A program that sets up first includes this file and calls rakuda_gate() when it is ready to begin: the call
 * returns at the round's common instant, or at once when the program was not started by a round of Rakuda.
 * The preload library and the exec helper do the same for programs that know nothing of it.
 *
 * Side effects: reads and removes RAKUDA_GATE, and what Rakuda put into LD_PRELOAD; closes the four
 * descriptors that it names; may bind the process to one processor. Allocates nothing, needs no library,
 * touches no errno. Not thread-safe: call it before the program makes threads. A process whose round is given
 * up, or whose agent is gone, ends here with status 75.
 */
#ifndef RAKUDA_GATE_H
#define RAKUDA_GATE_H

#include <stdint.h>

/* The page has a head, then one slot a worker; crates/agent/src/gate.rs has the same layout. */
#define RAKUDA_GATE_MAGIC 0x31474b52u /* "RKG1" */
#define RAKUDA_GATE_COMMITTED 1u
#define RAKUDA_GATE_STATUS 75

/* Maximum age, ns, of the time that a worker has said last, at which it counts as being on a processor. */
#define RAKUDA_GATE_FRESH_NS 3000
/* Time within which all learn when they begin, ns. */
#define RAKUDA_GATE_AHEAD_NS 4000
#define RAKUDA_GATE_AHEAD_NS_WORKER 100
/* Time after the instant at which a worker that has not met all others leaves its processor; time
 * between tries. */
#define RAKUDA_GATE_LINGER_NS 200000
#define RAKUDA_GATE_TRY_NS 2000000
/* More workers do not wait for one another. */
#define RAKUDA_GATE_MEETING 1024

/* 3: by call, at a gate that does not wait for the other workers, as Ruby's. */
enum { RAKUDA_GATE_PRELOAD = 1, RAKUDA_GATE_EXEC = 2, RAKUDA_GATE_CALL = 4 };

struct rakuda_gate_head {
    uint32_t magic;
    uint32_t state;
    int64_t t0_ns;       /* CLOCK_MONOTONIC of this machine */
    int64_t spin_ns;     /* time before its instant when a worker stops sleeping; 0: no spinning */
    int64_t patience_ns; /* how long beyond it workers 0 to `workers` - 1 wait for one another; 0: not */
    int64_t go_ns;       /* by worker 0: all of them are on a processor, and begin then */
    uint32_t workers;
    uint32_t unused[5];
};

struct rakuda_gate_slot {
    int64_t ready_ns;   /* it waits */
    int64_t woke_ns;    /* it has seen T0 */
    int64_t spun_ns;    /* its sleep was over */
    int64_t start_ns;   /* it went on; negative: it waits for the others, and did so then */
    int64_t offset_ns;  /* by the agent: time from T0 to its start */
    int32_t cpu_wanted; /* by the agent: -1: any */
    int32_t cpu;
    uint32_t kind;
    uint32_t pid;
    int64_t order; /* by the agent: where in the page its order begins (gate/cache.h); 0: it has none */
};

/* As a worker maps it; the file ends behind the last slot. */
struct rakuda_gate_page {
    struct rakuda_gate_head head;
    struct rakuda_gate_slot slots[];
};

/* Descriptors by place in RAKUDA_GATE. */
enum {
    RAKUDA_GATE_PAGE,
    RAKUDA_GATE_WAIT,
    RAKUDA_GATE_READY,
    RAKUDA_GATE_FILE,
    RAKUDA_GATE_SLOT,
    RAKUDA_GATE_FIELDS
};

#if defined(__x86_64__)
static inline long rakuda_gate_call6(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
static inline void rakuda_gate_pause(void) {
    __asm__ volatile("pause");
}
enum {
    RAKUDA_GATE_SYS_READ = 0,
    RAKUDA_GATE_SYS_WRITE = 1,
    RAKUDA_GATE_SYS_CLOSE = 3,
    RAKUDA_GATE_SYS_MMAP = 9,
    RAKUDA_GATE_SYS_MUNMAP = 11,
    RAKUDA_GATE_SYS_PREAD = 17,
    RAKUDA_GATE_SYS_PWRITE = 18,
    RAKUDA_GATE_SYS_GETPID = 39,
    RAKUDA_GATE_SYS_EXECVE = 59,
    RAKUDA_GATE_SYS_PRCTL = 157,
    RAKUDA_GATE_SYS_SETAFFINITY = 203,
    RAKUDA_GATE_SYS_GETTIME = 228,
    RAKUDA_GATE_SYS_NANOSLEEP = 230,
    RAKUDA_GATE_SYS_EXIT = 231,
    RAKUDA_GATE_SYS_GETCPU = 309
};
#elif defined(__aarch64__)
static inline long rakuda_gate_call6(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
static inline void rakuda_gate_pause(void) {
    __asm__ volatile("yield");
}
enum {
    RAKUDA_GATE_SYS_READ = 63,
    RAKUDA_GATE_SYS_WRITE = 64,
    RAKUDA_GATE_SYS_CLOSE = 57,
    RAKUDA_GATE_SYS_PREAD = 67,
    RAKUDA_GATE_SYS_PWRITE = 68,
    RAKUDA_GATE_SYS_GETPID = 172,
    RAKUDA_GATE_SYS_MUNMAP = 215,
    RAKUDA_GATE_SYS_EXECVE = 221,
    RAKUDA_GATE_SYS_MMAP = 222,
    RAKUDA_GATE_SYS_PRCTL = 167,
    RAKUDA_GATE_SYS_SETAFFINITY = 122,
    RAKUDA_GATE_SYS_GETTIME = 113,
    RAKUDA_GATE_SYS_NANOSLEEP = 115,
    RAKUDA_GATE_SYS_EXIT = 94,
    RAKUDA_GATE_SYS_GETCPU = 168
};
#else
#error "the gate knows the system calls of x86_64 and aarch64"
#endif

static inline long rakuda_gate_call(long number, long a, long b, long c, long d) {
    return rakuda_gate_call6(number, a, b, c, d, 0, 0);
}

struct rakuda_gate_time {
    int64_t seconds;
    int64_t ns;
};

static inline int64_t rakuda_gate_now(void) {
    struct rakuda_gate_time now = {0, 0};
    rakuda_gate_call(RAKUDA_GATE_SYS_GETTIME, 1, (long)&now, 0, 0);
    return now.seconds * 1000000000 + now.ns;
}

static inline int rakuda_gate_starts(const char *text, const char *with) {
    while (*with != '\0') {
        if (*text++ != *with++) {
            return 0;
        }
    }
    return 1;
}

/* Takes the entry at `place` out of an environment. */
static inline void rakuda_gate_remove(char **place) {
    do {
        place[0] = place[1];
    } while (*place++ != (char *)0);
}

/* Reads RAKUDA_GATE and takes it, and the gate in LD_PRELOAD, out of the environment. False: there is none.
 */
static inline int rakuda_gate_take(char **environment, int *fields) {
    int found = 0;
    char **place = environment;
    while (place != (char **)0 && *place != (char *)0) {
        char *entry = *place;
        if (rakuda_gate_starts(entry, "RAKUDA_GATE=")) {
            const char *text = entry + 12;
            int count = 0;
            while (count < RAKUDA_GATE_FIELDS && *text >= '0' && *text <= '9') {
                int value = 0;
                while (*text >= '0' && *text <= '9' && value < 10000000) {
                    value = value * 10 + (*text++ - '0');
                }
                fields[count++] = value;
                text += *text == ',';
            }
            found = count == RAKUDA_GATE_FIELDS && *text == '\0';
            rakuda_gate_remove(place);
        } else if (rakuda_gate_starts(entry, "LD_PRELOAD=/proc/self/fd/")) {
            char *rest = entry + 25;
            while (*rest >= '0' && *rest <= '9') {
                rest++;
            }
            if (*rest == ':') {
                char *to = entry + 11;
                rest++;
                while ((*to++ = *rest++) != '\0') {
                }
                place++;
            } else if (*rest == '\0') {
                rakuda_gate_remove(place);
            } else {
                place++;
            }
        } else {
            place++;
        }
    }
    return found;
}

static inline void rakuda_gate_close(int descriptor) {
    rakuda_gate_call(RAKUDA_GATE_SYS_CLOSE, descriptor, 0, 0, 0);
}

static inline void rakuda_gate_end(void) {
    for (;;) {
        rakuda_gate_call(RAKUDA_GATE_SYS_EXIT, RAKUDA_GATE_STATUS, 0, 0, 0);
    }
}

/* Binds this process to one processor, as far as it may. */
static inline void rakuda_gate_bind(int cpu) {
    uint64_t mask[16] = {0};
    if (cpu >= 0 && cpu < 1024) {
        mask[cpu / 64] = (uint64_t)1 << (cpu % 64);
        rakuda_gate_call(RAKUDA_GATE_SYS_SETAFFINITY, 0, (long)sizeof mask, (long)mask, 0);
    }
}

/* Sleeps until then, with the least timer slack. */
static inline void rakuda_gate_sleep(int64_t until_ns) {
    struct rakuda_gate_time until = {until_ns / 1000000000, until_ns % 1000000000};
    long slack_ns = rakuda_gate_call(RAKUDA_GATE_SYS_PRCTL, 30, 0, 0, 0);
    rakuda_gate_call(RAKUDA_GATE_SYS_PRCTL, 29, 1, 0, 0);
    while (rakuda_gate_call(RAKUDA_GATE_SYS_NANOSLEEP, 1, 1, (long)&until, 0) == -4) {
    }
    rakuda_gate_call(RAKUDA_GATE_SYS_PRCTL, 29, slack_ns > 0 ? slack_ns : 50000, 0, 0);
}

/* Whether all others were on a processor just before `now_ns`: who is says the time all the while. */
static inline int rakuda_gate_all_spin(const struct rakuda_gate_page *page, uint32_t workers,
                                       int64_t now_ns) {
    uint32_t other;
    for (other = 1; other < workers; other++) {
        int64_t seen_ns = -__atomic_load_n(&page->slots[other].start_ns, __ATOMIC_ACQUIRE);
        if (seen_ns < now_ns - RAKUDA_GATE_FRESH_NS) {
            return 0;
        }
    }
    return 1;
}

/*
 * Spins until `instant_ns`; when that was. Workers that wait for one another begin then if all of them are on
 * a processor, else as soon as they are, which worker 0 sees, or when patience ends: one that oversleeps, or
 * is kept from its processor by others, would else begin alone. Meanwhile they sleep, and come back all at
 * the same moments: two that spun on would lose their processors in turns, and who has slept is let in
 * sooner.
 */
static inline int64_t rakuda_gate_spin(struct rakuda_gate_page *page, uint32_t number, int64_t instant_ns) {
    struct rakuda_gate_head *head = &page->head;
    uint32_t workers = number < head->workers && head->workers <= RAKUDA_GATE_MEETING ? head->workers : 0;
    int64_t end_ns = instant_ns + (workers != 0 ? head->patience_ns : 0);
    int64_t ahead_ns = RAKUDA_GATE_AHEAD_NS + RAKUDA_GATE_AHEAD_NS_WORKER * (int64_t)workers;
    int64_t try_ns = instant_ns;
    for (;;) {
        int64_t now_ns = rakuda_gate_now();
        int64_t go_ns = end_ns > instant_ns ? __atomic_load_n(&head->go_ns, __ATOMIC_ACQUIRE) : 0;
        if (now_ns >= (go_ns != 0 ? go_ns : end_ns)) {
            return now_ns;
        }
        if (end_ns > instant_ns) {
            __atomic_store_n(&page->slots[number].start_ns, -now_ns, __ATOMIC_RELEASE);
            if (number == 0 && go_ns == 0 && now_ns + ahead_ns >= try_ns &&
                rakuda_gate_all_spin(page, workers, now_ns)) {
                go_ns = now_ns + ahead_ns;
                __atomic_store_n(&head->go_ns, go_ns, __ATOMIC_RELEASE);
            }
            if (go_ns == 0 && now_ns >= try_ns + RAKUDA_GATE_LINGER_NS) {
                try_ns += ((now_ns - try_ns) / RAKUDA_GATE_TRY_NS + 1) * RAKUDA_GATE_TRY_NS;
                try_ns = try_ns < end_ns ? try_ns : end_ns;
                rakuda_gate_sleep(try_ns - head->spin_ns);
            }
        }
        rakuda_gate_pause();
    }
}

/* Waits at the gate that `fields` name. */
static inline void rakuda_gate_pass(const int *fields, uint32_t kind) {
    struct rakuda_gate_slot slot = {0};
    uint32_t number = (uint32_t)fields[RAKUDA_GATE_SLOT];
    long place = (long)(sizeof(struct rakuda_gate_head) + sizeof slot * number);
    uint32_t slots = number < RAKUDA_GATE_MEETING ? RAKUDA_GATE_MEETING : number + 1;
    long bytes = (long)(sizeof(struct rakuda_gate_head) + sizeof slot * slots);
    long mapped;
    struct rakuda_gate_page *page;
    int64_t instant_ns;
    char byte;
    rakuda_gate_close(fields[RAKUDA_GATE_FILE]);
    /* What the file lacks cannot be touched in the mapping. */
    if (rakuda_gate_call(RAKUDA_GATE_SYS_PREAD, fields[RAKUDA_GATE_PAGE], (long)&slot, sizeof slot, place) !=
        (long)sizeof slot) {
        rakuda_gate_end();
    }
    /* By pwrite workers would wait for one another at the file's lock just when they begin. */
    mapped = rakuda_gate_call6(RAKUDA_GATE_SYS_MMAP, 0, bytes, 3, 1, fields[RAKUDA_GATE_PAGE], 0);
    if (mapped < 0 && mapped > -4096) {
        rakuda_gate_end();
    }
    rakuda_gate_close(fields[RAKUDA_GATE_PAGE]);
    page = (struct rakuda_gate_page *)mapped;
    rakuda_gate_bind(slot.cpu_wanted);
    slot.kind = kind;
    slot.pid = (uint32_t)rakuda_gate_call(RAKUDA_GATE_SYS_GETPID, 0, 0, 0, 0);
    slot.ready_ns = rakuda_gate_now();
    page->slots[number] = slot;
    rakuda_gate_call(RAKUDA_GATE_SYS_WRITE, fields[RAKUDA_GATE_READY], (long)&number, sizeof number, 0);
    rakuda_gate_close(fields[RAKUDA_GATE_READY]);
    /* The agent holds the only writing end: it ends when T0 is there, when the round is given up, and with
     * the agent. */
    while (rakuda_gate_call(RAKUDA_GATE_SYS_READ, fields[RAKUDA_GATE_WAIT], (long)&byte, 1, 0) == -4) {
    }
    slot.woke_ns = rakuda_gate_now();
    rakuda_gate_close(fields[RAKUDA_GATE_WAIT]);
    if (page->head.magic != RAKUDA_GATE_MAGIC || page->head.state != RAKUDA_GATE_COMMITTED) {
        rakuda_gate_end();
    }
    instant_ns = page->head.t0_ns + slot.offset_ns;
    if (instant_ns - page->head.spin_ns > slot.woke_ns) {
        rakuda_gate_sleep(instant_ns - page->head.spin_ns);
    }
    slot.spun_ns = rakuda_gate_now();
    rakuda_gate_call(RAKUDA_GATE_SYS_GETCPU, (long)&slot.cpu, 0, 0, 0);
    page->slots[number] = slot;
    /* The last of what it notes: the agent takes the others for whole then. */
    __atomic_store_n(&page->slots[number].start_ns, rakuda_gate_spin(page, number, instant_ns),
                     __ATOMIC_RELEASE);
    rakuda_gate_call(RAKUDA_GATE_SYS_MUNMAP, mapped, bytes, 0, 0);
}

extern char **environ;

/*
 * Waits until the round that this process is of begins. Returns 1 then, and 0 at once when it is of none.
 */
static inline int rakuda_gate(void) {
    int fields[RAKUDA_GATE_FIELDS];
    if (!rakuda_gate_take(environ, fields)) {
        return 0;
    }
    rakuda_gate_pass(fields, RAKUDA_GATE_CALL);
    return 1;
}

#endif
