#include "own.h"
#include "base.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

static void on_signal(int number) {
    say(run.program);
    say(number == SIGALRM ? ": --time-limit passed, and a step had not ended" : ": ended by a signal");
    say(armed ? "; the run's own files are removed\n" : "\n");
    own_remove_in_haste();
    _exit(128 + number);
}

/* A thread of its own, since the others may be within a call that does not end. */
static void *kill_later(void *seconds) {
    double left = *(double *)seconds;
    struct timespec time = {.tv_sec = (time_t)left, .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
    while (nanosleep(&time, &time) != 0)
        continue;
    say(run.program);
    say(": --time-limit passed, and the file system does not answer: killed; what is left goes with "
        "--clean\n");
    kill(getpid(), SIGKILL);
    return NULL;
}

void own_kill_after(double seconds) {
    static double time;
    pthread_t thread;
    sigset_t all, before;
    time = seconds;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&thread, NULL, kill_later, &time);
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
