/*
 * Tests of rakuda_gate.h, to be compiled with -fsanitize=address,undefined. Ends with 0 and says how many
 * checks it has made, or aborts at the first that does not hold.
 */
#include "../rakuda_gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int checks = 0;

#define CHECK(what)                                                                                          \
    do {                                                                                                     \
        checks++;                                                                                            \
        if (!(what)) {                                                                                       \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #what);                         \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* Makes an environment on the heap, so that every access beyond it is seen. */
static char **environment_of(int count, const char *const *entries) {
    char **made = malloc(sizeof(char *) * (size_t)(count + 1));
    for (int i = 0; i < count; i++) {
        made[i] = strdup(entries[i]);
    }
    made[count] = NULL;
    return made;
}

static void take(void) {
    int fields[RAKUDA_GATE_FIELDS] = {0};
    const char *const plain[] = {"A=1", "RAKUDA_GATE=9,8,7,6,5", "B=2"};
    char **made = environment_of(3, plain);
    CHECK(rakuda_gate_take(made, fields) == 1);
    CHECK(fields[0] == 9 && fields[1] == 8 && fields[2] == 7 && fields[3] == 6 && fields[4] == 5);
    CHECK(strcmp(made[0], "A=1") == 0 && strcmp(made[1], "B=2") == 0 && made[2] == NULL);

    const char *const preload[] = {"LD_PRELOAD=/proc/self/fd/196", "RAKUDA_GATE=1,2,3,4,0"};
    made = environment_of(2, preload);
    CHECK(rakuda_gate_take(made, fields) == 1 && made[0] == NULL);

    const char *const others[] = {"LD_PRELOAD=/proc/self/fd/196:/lib/a.so:b.so", "X="};
    made = environment_of(2, others);
    CHECK(rakuda_gate_take(made, fields) == 0);
    CHECK(strcmp(made[0], "LD_PRELOAD=/lib/a.so:b.so") == 0 && strcmp(made[1], "X=") == 0);

    const char *const own[] = {"LD_PRELOAD=/proc/self/fd/x", "LD_PRELOAD=/proc/self/fd/1x",
                               "RAKUDA_GATEWAY=1"};
    made = environment_of(3, own);
    CHECK(rakuda_gate_take(made, fields) == 0 && made[2] != NULL);

    const char *const broken[] = {"RAKUDA_GATE=1,2,3,4", "RAKUDA_GATE=", "RAKUDA_GATE=1,2,3,4,5,6",
                                  "RAKUDA_GATE=99999999999,1,1,1,1", "RAKUDA_GATE=-1,2,3,4,5"};
    for (int i = 0; i < 5; i++) {
        made = environment_of(1, broken + i);
        CHECK(rakuda_gate_take(made, fields) == 0 && made[0] == NULL);
    }
    made = environment_of(0, NULL);
    CHECK(rakuda_gate_take(made, fields) == 0);
    CHECK(rakuda_gate_take(NULL, fields) == 0);
}

struct round {
    int page;
    int wait[2];
    int ready[2];
};

static struct round new_round(uint32_t magic) {
    struct round round;
    struct rakuda_gate_head head = {.magic = magic};
    struct rakuda_gate_slot slots[2] = {{.cpu_wanted = -1}, {.cpu_wanted = -1, .offset_ns = 3000000}};
    round.page = memfd_create("page", 0);
    CHECK(round.page >= 0 && pipe(round.wait) == 0 && pipe(round.ready) == 0);
    CHECK(write(round.page, &head, sizeof head) == sizeof head);
    CHECK(write(round.page, slots, sizeof slots) == sizeof slots);
    return round;
}

/* A child that waits as worker `number`, and then ends with 7. */
static pid_t worker(const struct round *round, int number) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int fields[] = {round->page, round->wait[0], round->ready[1], dup(0), number};
        close(round->wait[1]);
        rakuda_gate_pass(fields, RAKUDA_GATE_CALL);
        _exit(7);
    }
    return child;
}

static int status_of(pid_t child) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void commit(const struct round *round, int64_t t0_ns) {
    struct rakuda_gate_head head = {
        .magic = RAKUDA_GATE_MAGIC, .state = RAKUDA_GATE_COMMITTED, .t0_ns = t0_ns, .spin_ns = 100000};
    CHECK(pwrite(round->page, &head, sizeof head, 0) == sizeof head);
}

static struct rakuda_gate_slot slot_of(const struct round *round, int number) {
    struct rakuda_gate_slot slot;
    off_t place = (off_t)(sizeof(struct rakuda_gate_head) + sizeof slot * (size_t)number);
    CHECK(pread(round->page, &slot, sizeof slot, place) == sizeof slot);
    return slot;
}

/* Workers begin at the instant and at their offset from it, never before. */
static void begin(void) {
    struct round round = new_round(RAKUDA_GATE_MAGIC);
    pid_t children[] = {worker(&round, 0), worker(&round, 1)};
    uint32_t ready[2];
    CHECK(read(round.ready[0], ready, 4) == 4 && read(round.ready[0], ready + 1, 4) == 4);
    CHECK(ready[0] + ready[1] == 1);
    int64_t t0_ns = rakuda_gate_now() + 20000000;
    commit(&round, t0_ns);
    close(round.wait[1]);
    CHECK(status_of(children[0]) == 7 && status_of(children[1]) == 7);
    for (int i = 0; i < 2; i++) {
        struct rakuda_gate_slot slot = slot_of(&round, i);
        CHECK(slot.kind == RAKUDA_GATE_CALL && slot.pid == (uint32_t)children[i]);
        CHECK(slot.ready_ns != 0 && slot.ready_ns <= slot.woke_ns && slot.woke_ns <= slot.spun_ns);
        CHECK(slot.spun_ns <= slot.start_ns && slot.start_ns >= t0_ns + slot.offset_ns && slot.cpu >= 0);
    }
}

/* An instant that is over is gone through at once. */
static void begin_late(void) {
    struct round round = new_round(RAKUDA_GATE_MAGIC);
    pid_t child = worker(&round, 0);
    uint32_t ready;
    CHECK(read(round.ready[0], &ready, 4) == 4);
    int64_t t0_ns = rakuda_gate_now() - 1;
    commit(&round, t0_ns);
    close(round.wait[1]);
    CHECK(status_of(child) == 7);
    struct rakuda_gate_slot slot = slot_of(&round, 0);
    CHECK(slot.woke_ns > t0_ns && slot.start_ns >= slot.woke_ns);
}

/* The end of the pipe without an instant, and a page that is none, end the process. */
static void given_up(void) {
    for (int i = 0; i < 2; i++) {
        struct round round = new_round(i == 0 ? RAKUDA_GATE_MAGIC : 1);
        pid_t child = worker(&round, 0);
        uint32_t ready;
        CHECK(read(round.ready[0], &ready, 4) == 4);
        close(round.wait[1]);
        CHECK(status_of(child) == RAKUDA_GATE_STATUS);
    }
    struct round round = new_round(RAKUDA_GATE_MAGIC);
    CHECK(status_of(worker(&round, 1000)) == RAKUDA_GATE_STATUS);
}

int main(void) {
    CHECK(sizeof(struct rakuda_gate_head) == 64 && sizeof(struct rakuda_gate_slot) == 64);
    unsetenv("RAKUDA_GATE");
    CHECK(rakuda_gate() == 0);
    take();
    begin();
    begin_late();
    given_up();
    printf("%d checks\n", checks);
    return 0;
}
