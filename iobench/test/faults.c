/* Loaded into a kernel with LD_PRELOAD: some of one rank's writes fail, or never end.
 *
 * IOBENCH_FAULT=RANK:COUNT:KIND:PATH: of what that rank (OMPI_COMM_WORLD_RANK; all: -1) writes into files
 * whose path has PATH in it, COUNT writes go through. Each later one fails with EDQUOT (KIND quota), as
 * beyond a quota; or never ends (KIND hang), in a wait that only SIGKILL ends, as at a file server that does
 * not answer. What stdio writes for itself does not come by here. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* The parent of vfork waits for its child, deaf to signals, until that executes or ends; that ends with it.
 */
static void hang(void) {
    sigset_t all;
    sigfillset(&all);
    if (vfork() == 0) {
        sigprocmask(SIG_SETMASK, &all, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
}

static int faulty(int fd) {
    static atomic_int seen;
    char name[64], path[PATH_MAX] = "", kind[16], part[64];
    int rank = 0, count = 0;
    const char *fault = getenv("IOBENCH_FAULT"), *own = getenv("OMPI_COMM_WORLD_RANK");
    if (fault == NULL || own == NULL || sscanf(fault, "%d:%d:%15[^:]:%63s", &rank, &count, kind, part) != 4)
        return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if ((rank >= 0 && atoi(own) != rank) || readlink(name, path, sizeof path - 1) < 0 ||
        strstr(path, part) == NULL)
        return 0;
    if (atomic_fetch_add(&seen, 1) < count)
        return 0;
    if (strcmp(kind, "hang") == 0)
        hang();
    errno = EDQUOT;
    return 1;
}

ssize_t write(int fd, const void *data, size_t size) {
    return faulty(fd) ? -1 : syscall(SYS_write, fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    return faulty(fd) ? -1 : syscall(SYS_pwrite64, fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) {
    return pwrite(fd, data, size, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    return faulty(fd) ? -1 : syscall(SYS_writev, fd, parts, count);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    return faulty(fd) ? -1 : syscall(SYS_pwritev, fd, parts, count, offset, 0);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset) {
    return pwritev(fd, parts, count, offset);
}
