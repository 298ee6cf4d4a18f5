/* What a quota leaves of a file system, as the kernel keeps it: of the user and of the group that files in a
 * folder will be of. Quotas that a file server keeps for itself (NFS, Gfarm) are not known here. */
#ifndef IOBENCH_QUOTA_H
#define IOBENCH_QUOTA_H

#include <fcntl.h>
#include <linux/quota.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443 /* the same number on all architectures */
#endif

/* INT64_MAX: there is none, or nobody tells (Linux before 5.14). */
static inline int64_t quota_of(int fd, int type, unsigned id) {
    struct if_dqblk block = {0};
    if (syscall(SYS_quotactl_fd, fd, QCMD((unsigned)Q_GETQUOTA, type), id, &block) != 0 ||
        block.dqb_bhardlimit == 0)
        return INT64_MAX;
    uint64_t limit = block.dqb_bhardlimit * QIF_DQBLKSIZE;
    return limit > block.dqb_curspace ? (int64_t)(limit - block.dqb_curspace) : 0;
}

/* Bytes that may still be written into the folder; INT64_MAX without a quota. */
static inline int64_t quota_left(const char *folder) {
    struct stat facts;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return INT64_MAX;
    gid_t group = fstat(fd, &facts) == 0 && (facts.st_mode & S_ISGID) != 0 ? facts.st_gid : getegid();
    int64_t user = quota_of(fd, USRQUOTA, geteuid()), groups = quota_of(fd, GRPQUOTA, group);
    close(fd);
    return user < groups ? user : groups;
}

#endif
