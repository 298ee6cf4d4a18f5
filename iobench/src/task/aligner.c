#include "aligner.h"

#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Default timeout for an aligner that uses no processor time, s, and maximum number of starts. */
enum { STILL_S = 120, STARTS_MAX = 3 };
/* Minimum processor time of an aligner that works, of each second, ns. */
static const int64_t WORK_NS_MIN = 10000000;

/* An aligner that runs, and what is known of its work. */
struct aligner {
    pid_t process;
    int output; /* -1: it has closed that */
    int64_t used_ns;
    uint64_t still_s, limit_s;
};

uint64_t aligner_limit(void) {
    const char *limit = getenv("HOMOLOGY_STILL_S");
    if (limit == NULL || limit[0] == '\0') {
        return STILL_S;
    }
    uint64_t limit_s = task_number(limit, "HOMOLOGY_STILL_S", 1000000);
    if (limit_s == 0) {
        task_usage("HOMOLOGY_STILL_S: expected at least 1");
    }
    return limit_s;
}

/* Interrupts a call that waits. */
static void on_second(int signal) {
    (void)signal;
}

/* Has calls that wait interrupted each second, or no more. */
static void interrupt_each_second(bool wanted) {
    struct sigaction action = {.sa_handler = wanted ? on_second : SIG_DFL};
    struct itimerval timer = {{wanted ? 1 : 0, 0}, {wanted ? 1 : 0, 0}};
    /* The timer ends before the handler goes. */
    if ((wanted && sigaction(SIGALRM, &action, NULL) != 0) || setitimer(ITIMER_REAL, &timer, NULL) != 0 ||
        (!wanted && sigaction(SIGALRM, &action, NULL) != 0)) {
        task_fail("cannot set a timer: %s", strerror(errno));
    }
}

static void start(struct aligner *aligner, char *const *words) {
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        task_fail("cannot make a pipe: %s", strerror(errno));
    }
    if (posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) != 0) {
        task_fail("no memory to start %s", words[0]);
    }
    int error = posix_spawnp(&aligner->process, words[0], &actions, NULL, words, environ);
    if (error != 0) {
        task_fail("cannot start %s: %s (Debian: diamond-aligner)", words[0], strerror(error));
    }
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    aligner->output = ends[0];
    aligner->used_ns = 0;
    aligner->still_s = 0;
}

/* Called each second: whether the aligner has not worked for as long as the limit says. One of which that is
 * not known is taken to work. */
static bool is_stuck(struct aligner *aligner) {
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(aligner->process, &clock) != 0 || clock_gettime(clock, &used) != 0) {
        return false;
    }
    int64_t used_ns = (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
    bool works = used_ns - aligner->used_ns >= WORK_NS_MIN;
    aligner->used_ns = used_ns;
    aligner->still_s = works ? 0 : aligner->still_s + 1;
    return aligner->still_s >= aligner->limit_s;
}

static void close_output(struct aligner *aligner) {
    if (aligner->output >= 0) {
        close(aligner->output);
        aligner->output = -1;
    }
}

/* Leaves nothing of it that could go on writing. */
static void end(struct aligner *aligner) {
    close_output(aligner);
    kill(aligner->process, SIGKILL);
    while (waitpid(aligner->process, NULL, 0) < 0 && errno == EINTR) {
    }
}

/* Reads what there is; at the end of all output closes it. Returns false when the call was interrupted. */
static bool read_some(struct aligner *aligner, struct aligner_text *text) {
    if (text->room - text->bytes < TASK_BLOCK) {
        text->room = text->room * 2 + 2 * TASK_BLOCK;
        char *larger = realloc(text->data, text->room);
        if (larger == NULL) {
            end(aligner);
            task_fail("no memory for what an aligner prints, %zu bytes", text->room);
        }
        text->data = larger;
    }
    ssize_t got = read(aligner->output, text->data + text->bytes, TASK_BLOCK);
    if (got < 0 && errno == EINTR) {
        return false;
    }
    if (got < 0) {
        int error = errno;
        end(aligner);
        task_fail("cannot read what an aligner prints: %s", strerror(error));
    }
    if (got == 0) {
        close_output(aligner);
    }
    text->bytes += (size_t)got;
    aligner->still_s = 0;
    return true;
}

/* Takes its output to the end, then its status. Returns false when it is stuck, before or after that. */
static bool finish(struct aligner *aligner, struct aligner_text *text, int *status) {
    for (;;) {
        if (aligner->output >= 0) {
            if (!read_some(aligner, text) && is_stuck(aligner)) {
                return false;
            }
        } else if (waitpid(aligner->process, status, 0) == aligner->process) {
            return true;
        } else if (errno != EINTR) {
            task_fail("cannot wait for an aligner: %s", strerror(errno));
        } else if (is_stuck(aligner)) {
            return false;
        }
    }
}

/* Threads of diamond 2.1.3 deadlock at times, mostly where many of it run at once (its issue 732). */
struct aligner_text aligner_run(char *const *words, const char *on, uint64_t limit_s) {
    struct aligner aligner = {.limit_s = limit_s};
    struct aligner_text text = {NULL, 0, 0};
    int status = 0, starts = 0;
    interrupt_each_second(true);
    for (;;) {
        start(&aligner, words);
        starts++;
        if (finish(&aligner, &text, &status)) {
            break;
        }
        end(&aligner);
        if (starts == STARTS_MAX) {
            task_fail("%s failed on %s: it used no processor time for %" PRIu64 " s, %d times", words[0], on,
                      limit_s, starts);
        }
        fprintf(stderr, "homology-task: %s used no processor time for %" PRIu64 " s on %s: started again\n",
                words[0], limit_s, on);
        text.bytes = 0;
    }
    interrupt_each_second(false);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        task_fail("%s failed on %s", words[0], on);
    }
    return text;
}
