/*
 * Tests of rakuda_gate.h and cache.h, to be compiled with -fsanitize=address,undefined. Ends with 0 and says
 * how many checks it has made, or aborts at the first that does not hold.
 */
#include "../cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

/* What is in the page when the round begins. */
static void commit_meeting(const struct round *round, int64_t t0_ns, int64_t patience_ns, int64_t go_ns) {
    struct rakuda_gate_head head = {.magic = RAKUDA_GATE_MAGIC,
                                    .state = RAKUDA_GATE_COMMITTED,
                                    .t0_ns = t0_ns,
                                    .spin_ns = 100000,
                                    .patience_ns = patience_ns,
                                    .go_ns = go_ns,
                                    .workers = 2};
    CHECK(pwrite(round->page, &head, sizeof head, 0) == sizeof head);
    CHECK(close(round->wait[1]) == 0);
}

/* One of two workers, the other of which is `seen_ns` on a processor, and has said `go_ns`; when it began. */
static int64_t meet(int number, int64_t t0_ns, int64_t patience_ns, int64_t seen_ns, int64_t *go_ns) {
    struct round round = new_round(RAKUDA_GATE_MAGIC);
    struct rakuda_gate_slot slots[2] = {{.cpu_wanted = -1, .start_ns = -seen_ns},
                                        {.cpu_wanted = -1, .start_ns = -seen_ns}};
    struct rakuda_gate_head head;
    CHECK(pwrite(round.page, slots, sizeof slots, sizeof head) == sizeof slots);
    pid_t child = worker(&round, number);
    uint32_t ready;
    CHECK(read(round.ready[0], &ready, 4) == 4);
    commit_meeting(&round, t0_ns, patience_ns, *go_ns);
    CHECK(status_of(child) == 7);
    CHECK(pread(round.page, &head, sizeof head, 0) == sizeof head);
    *go_ns = head.go_ns;
    return slot_of(&round, number).start_ns;
}

/* Workers of one machine begin when all of them are on a processor, and when patience ends at the latest. */
static void begin_together(void) {
    const int64_t minute_ns = 60000000000;
    int64_t t0_ns = rakuda_gate_now() + 5000000;
    int64_t go_ns = 0;
    int64_t start_ns = meet(0, t0_ns, minute_ns, t0_ns + minute_ns, &go_ns);
    CHECK(go_ns >= t0_ns && start_ns >= go_ns && start_ns < t0_ns + minute_ns);

    /* The other one is not there: it was seen long before. */
    t0_ns = rakuda_gate_now() + 5000000;
    go_ns = 0;
    start_ns = meet(0, t0_ns, 20000000, t0_ns - minute_ns, &go_ns);
    CHECK(go_ns == 0 && start_ns >= t0_ns + 20000000);

    /* Worker 0 has decided. */
    t0_ns = rakuda_gate_now() + 5000000;
    go_ns = t0_ns + 7000000;
    start_ns = meet(1, t0_ns, minute_ns, 0, &go_ns);
    CHECK(go_ns == t0_ns + 7000000 && start_ns >= go_ns && start_ns < t0_ns + minute_ns);

    /* Worker 1 does not decide, whoever is there. */
    t0_ns = rakuda_gate_now() + 5000000;
    go_ns = 0;
    start_ns = meet(1, t0_ns, 20000000, t0_ns + minute_ns, &go_ns);
    CHECK(go_ns == 0 && start_ns >= t0_ns + 20000000);

    /* Both, wherever they are. */
    struct round round = new_round(RAKUDA_GATE_MAGIC);
    struct rakuda_gate_slot slot = {.cpu_wanted = -1};
    CHECK(pwrite(round.page, &slot, sizeof slot, sizeof(struct rakuda_gate_head) + sizeof slot) ==
          sizeof slot);
    pid_t children[] = {worker(&round, 0), worker(&round, 1)};
    uint32_t ready[2];
    CHECK(read(round.ready[0], ready, 4) == 4 && read(round.ready[0], ready + 1, 4) == 4);
    t0_ns = rakuda_gate_now() + 5000000;
    commit_meeting(&round, t0_ns, 40000000, 0);
    CHECK(status_of(children[0]) == 7 && status_of(children[1]) == 7);
    struct rakuda_gate_head head;
    CHECK(pread(round.page, &head, sizeof head, 0) == sizeof head);
    int64_t begin_ns = head.go_ns != 0 ? head.go_ns : t0_ns + 40000000;
    CHECK(begin_ns >= t0_ns && slot_of(&round, 0).start_ns >= begin_ns &&
          slot_of(&round, 1).start_ns >= begin_ns);
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

/* A child that sees to files as its order says; how it ended, and what it noted. */
static int see_to(const char *names, int64_t bytes, uint32_t wanted, struct rakuda_gate_order *noted) {
    struct round round = new_round(RAKUDA_GATE_MAGIC);
    struct rakuda_gate_slot slot = {.cpu_wanted = -1, .order = 5000};
    struct rakuda_gate_order order = {
        .names_bytes = bytes, .wanted = wanted, .page_bytes = sysconf(_SC_PAGESIZE)};
    CHECK(pwrite(round.page, &slot, sizeof slot, sizeof(struct rakuda_gate_head)) == sizeof slot);
    CHECK(pwrite(round.page, &order, sizeof order, slot.order) == sizeof order);
    CHECK(pwrite(round.page, names, (size_t)bytes, slot.order + (off_t)sizeof order) == bytes);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int fields[] = {round.page, 0, 0, 0, 0};
        rakuda_gate_obey(fields);
        _exit(7);
    }
    int status = status_of(child);
    CHECK(pread(round.page, noted, sizeof *noted, slot.order) == sizeof *noted);
    close(round.page);
    return status;
}

/* Files go out of memory and come back, and what is said of them is what the kernel says. In the folder of
 * this program, as what lies in /tmp may be in memory alone. */
static void cache(const char *program) {
    char folder[4096];
    char block[10000];
    struct rakuda_gate_order order;
    snprintf(folder, sizeof folder, "%s.files", program);
    CHECK(mkdir(folder, 0700) == 0 && chdir(folder) == 0);
    memset(block, 7, sizeof block);
    int file = open("a", O_CREAT | O_WRONLY, 0600);
    CHECK(write(file, block, sizeof block) == sizeof block && close(file) == 0);
    file = open("b", O_CREAT | O_WRONLY, 0600);
    CHECK(close(file) == 0);

    const char names[] = "a\0none\0b";
    CHECK(see_to(names, sizeof names, RAKUDA_GATE_COLD, &order) == 7);
    CHECK(order.done == 1 && order.error == 0 && order.bytes == sizeof block);
    CHECK(order.file == 3 && (order.resident == 0 || order.resident == -1));
    int is_known = order.resident == 0;
    CHECK(see_to(names, sizeof names, RAKUDA_GATE_WARM, &order) == 7);
    CHECK(order.done == 1 && order.bytes == sizeof block);
    CHECK(order.resident == (is_known ? (int64_t)sizeof block : -1));

    const char folders[] = "b\0.";
    CHECK(see_to(folders, sizeof folders, RAKUDA_GATE_COLD, &order) == RAKUDA_GATE_STATUS);
    CHECK(order.done == 1 && order.error == EISDIR && order.file == 1);
    CHECK(mkfifo("c", 0600) == 0);
    CHECK(see_to("c", 2, RAKUDA_GATE_WARM, &order) == RAKUDA_GATE_STATUS && order.error == ESPIPE);
    char long_name[5000];
    memset(long_name, 'x', sizeof long_name);
    CHECK(see_to(long_name, sizeof long_name, RAKUDA_GATE_COLD, &order) == RAKUDA_GATE_STATUS);
    CHECK(order.error == ENAMETOOLONG);
    CHECK(see_to(names, 0, RAKUDA_GATE_COLD, &order) == 7 && order.done == 1 && order.bytes == 0);
    CHECK(unlink("a") == 0 && unlink("b") == 0 && unlink("c") == 0 && chdir("/") == 0 && rmdir(folder) == 0);
}

int main(int count, char **words) {
    CHECK(count == 1);
    CHECK(sizeof(struct rakuda_gate_head) == 64 && sizeof(struct rakuda_gate_slot) == 64);
    unsetenv("RAKUDA_GATE");
    CHECK(rakuda_gate() == 0);
    take();
    begin();
    begin_late();
    begin_together();
    given_up();
    cache(words[0]);
    printf("%d checks\n", checks);
    return 0;
}
