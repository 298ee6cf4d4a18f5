/* Runs a command that is none of ours, so that its times are noted as those of the task programs are.
 *
 * usage: timed COMMAND ARGUMENT...
 *
 * Ends with the command's status, or 128 and the signal that ended it; 1 when it cannot be started; 2 for a
 * wrong command line. */
#include "task.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words) {
    pid_t child;
    int status;
    task_begin("timed");
    if (count < 2) {
        task_usage("expected a command");
    }
    int error = posix_spawnp(&child, words[1], NULL, NULL, words + 1, environ);
    if (error != 0) {
        task_fail("cannot start %s: %s", words[1], strerror(error));
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            task_fail("cannot wait for %s: %s", words[1], strerror(errno));
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
