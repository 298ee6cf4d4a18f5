#include "own.h"
#include "base.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* From when a rank has said where it is until it is told to end, and from then until it is killed. */
#define SAID_S 6
#define KILL_S 5

struct names {
    char **all;
    size_t count, room;
};

static struct names files, folders;
static volatile sig_atomic_t armed;

static void declare(struct names *names, const char *path) {
    if (names->count == names->room) {
        names->room = names->room > 0 ? 2 * names->room : 64;
        names->all = realloc(names->all, names->room * sizeof *names->all);
        if (names->all == NULL)
            FAIL("no memory for %zu names", names->room);
    }
    char *copy = strdup(path);
    if (copy == NULL)
        FAIL("no memory for a name");
    names->all[names->count++] = copy;
}

void own_declare_file(const char *path) {
    declare(&files, path);
}

void own_declare_folder(const char *path) {
    declare(&folders, path);
}

void own_arm(void) {
    armed = 1;
}

void own_disarm(void) {
    armed = 0;
}

void own_remove_in_haste(void) {
    if (!armed)
        return;
    for (size_t i = 0; i < files.count; i++)
        unlink(files.all[i]);
    for (size_t i = folders.count; i-- > 0;)
        rmdir(folders.all[i]);
}

void own_remove_in_order(void) {
    if (armed)
        for (size_t i = 0; i < files.count; i++)
            if (unlink(files.all[i]) != 0 && errno != ENOENT)
                note_error("cannot remove %s: %s", files.all[i], strerror(errno));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (armed && run.rank == 0)
        for (size_t i = folders.count; i-- > 0;)
            if (rmdir(folders.all[i]) != 0 && errno != ENOENT)
                note_error("cannot remove %s: %s", folders.all[i], strerror(errno));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    armed = 0;
    for (size_t i = 0; i < files.count; i++)
        free(files.all[i]);
    for (size_t i = 0; i < folders.count; i++)
        free(folders.all[i]);
    free(files.all);
    free(folders.all);
    files = folders = (struct names){0};
}

/* write(2) of a text, as nothing else may be called here. */
static void say(const char *text) {
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

/* The text that counts is never written into. */
static char places[2][TEXT_MAX];
static _Atomic(const char *) place = "has begun no step";

void own_is(const char *format, ...) {
    static int next;
    va_list list;
    va_start(list, format);
    vsnprintf(places[next], sizeof places[next], format, list);
    va_end(list);
    place = places[next];
    next = !next;
}

static const char *limit = "--time-limit";

static void on_signal(int number) {
    say(run.program);
    if (number == SIGALRM) {
        say(": ");
        say(limit);
        say(" passed, and a step had not ended");
    } else {
        say(": ended by a signal");
    }
    say(armed ? "; the run's own files are removed\n" : "\n");
    own_remove_in_haste();
    _exit(128 + number);
}

static void wait_for(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&time, &time) != 0)
        continue;
}

/* A thread of its own, since the others may be within a call that does not end. The first rank that ends has
 * mpirun end the others: until then each has said where it is. */
static void *end_later(void *seconds) {
    char text[2 * TEXT_MAX];
    wait_for(*(double *)seconds);
    snprintf(text, sizeof text, "%s: %s passed: rank %d %s\n", run.program, limit, run.rank, place);
    say(text);
    wait_for(SAID_S);
    kill(getpid(), SIGALRM);
    wait_for(KILL_S);
    snprintf(text, sizeof text,
             "%s: %s passed, and the file system does not answer: killed; what is left goes with --clean\n",
             run.program, limit);
    say(text);
    kill(getpid(), SIGKILL);
    return NULL;
}

void own_end_after(double seconds, const char *option) {
    static double time;
    pthread_t thread;
    sigset_t all, before;
    time = seconds;
    limit = option;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&thread, NULL, end_later, &time);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != 0)
        FAIL("pthread_create: %s", strerror(status));
    pthread_detach(thread);
}

void own_install_handlers(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM};
    struct sigaction action = {.sa_handler = on_signal};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&action.sa_mask, signals[i]);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (sigaction(signals[i], &action, NULL) != 0)
            FAIL("sigaction: %s", strerror(errno));
    /* Where mpirun is gone, nobody reads what the handler says before it removes the files. */
    signal(SIGPIPE, SIG_IGN);
}
