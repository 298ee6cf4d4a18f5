/* disk FILE BYTES_A_SECOND: lays over FILE one of the same bytes that is as slow as a disk. What is read from it and what is
 * written to it together is at most BYTES_A_SECOND.
 *
 * cgroups bound each direction for itself, and many kernels have neither device-mapper nor nbd. This is a FUSE file system of
 * one file, in the mount namespace of the caller; it needs no library. It serves one request after the other, as a disk with one
 * head does, and caches nothing: the page cache above it is a host's, and FILE is read and written past that of the machine.
 * A disk that was idle is ahead by 100 ms of its budget at most.
 *
 * It prints the number of the process that goes on in the background. After SIGTERM nothing is bounded, and the process ends
 * when nobody has the file open. It does not know file systems, loop devices and hosts. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Bytes of the largest request, a whole number of pages. Larger ones hold up those behind them for longer. */
enum { LARGEST = 256 << 10, PAGE = 4096 };

static const int64_t ahead_max = 100000000; /* ns */

static int file, fuse;
static int64_t ended;       /* ns: when the disk will be done with what it has taken on */
static double ns_per_byte;
static volatile sig_atomic_t lifted, opened;

static void fail(const char *what)
{
	fprintf(stderr, "disk: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void lift(int signal)
{
	(void)signal;
	lifted = 1;
	if (!opened)
		_exit(0);
}

static int64_t now(void)
{
	struct timespec time;

	if (clock_gettime(CLOCK_MONOTONIC, &time) < 0)
		fail("clock_gettime");
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Waits until a disk would be done with so many bytes more. */
static void take_time(size_t bytes)
{
	int64_t earliest = now() - ahead_max;

	ended = (ended > earliest ? ended : earliest) + (int64_t)((double)bytes * ns_per_byte);
	struct timespec until = { .tv_sec = ended / 1000000000, .tv_nsec = ended % 1000000000 };
	while (!lifted && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/* Answers a request: with an error (a number of errno), or with bytes. */
static void answer(uint64_t request, int error, const void *bytes, size_t length)
{
	struct fuse_out_header head = { .len = (uint32_t)(sizeof head + length), .error = -error, .unique = request };
	struct iovec parts[2] = { { &head, sizeof head }, { (void *)(uintptr_t)bytes, length } };

	/* ENOENT: whoever asked has been killed meanwhile. */
	if (writev(fuse, parts, length ? 2 : 1) < 0 && errno != ENOENT)
		fail("answering the kernel");
}

static void answer_init(uint64_t request)
{
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = LARGEST,
		.flags = FUSE_ASYNC_READ | FUSE_ASYNC_DIO | FUSE_BIG_WRITES | FUSE_MAX_PAGES,
		.max_write = LARGEST,
		.time_gran = 1,
		.max_pages = LARGEST / PAGE,
	};

	answer(request, 0, &out, sizeof out);
}

static void answer_getattr(uint64_t request)
{
	struct fuse_attr_out out = { .attr_valid = UINT32_MAX };
	struct stat stat;

	if (fstat(file, &stat) < 0)
		fail("fstat");
	out.attr = (struct fuse_attr){ .ino = FUSE_ROOT_ID, .size = (uint64_t)stat.st_size, .blocks = (uint64_t)stat.st_blocks,
	                               .mode = S_IFREG | S_IRUSR | S_IWUSR, .nlink = 1, .blksize = PAGE };
	answer(request, 0, &out, sizeof out);
}

static void answer_read(uint64_t request, const struct fuse_read_in *in, void *bytes)
{
	size_t size = in->size < LARGEST ? in->size : LARGEST;
	ssize_t got = pread(file, bytes, size, (off_t)in->offset);
	int error = got < 0 ? errno : 0;

	take_time(size);
	answer(request, error, bytes, got < 0 ? 0 : (size_t)got);
}

static void answer_write(uint64_t request, const struct fuse_write_in *in, const void *bytes)
{
	ssize_t put = pwrite(file, bytes, in->size, (off_t)in->offset);
	int error = put < 0 ? errno : 0;
	struct fuse_write_out out = { .size = put < 0 ? 0 : (uint32_t)put };

	take_time(in->size);
	answer(request, error, &out, put < 0 ? 0 : sizeof out);
}

/* What is not known here, the kernel does without after the first refusal: flushing, for instance, since a write has been done
 * when it is answered. */
static void serve(const struct fuse_in_header *head, void *bytes)
{
	static const struct fuse_open_out open;
	const void *in = head + 1;

	switch (head->opcode) {
	case FUSE_INIT:
		return answer_init(head->unique);
	case FUSE_GETATTR:
		return answer_getattr(head->unique);
	case FUSE_READ:
		return answer_read(head->unique, in, bytes);
	case FUSE_WRITE:
		return answer_write(head->unique, in, bytes);
	case FUSE_OPEN:
		opened++;
		return answer(head->unique, 0, &open, sizeof open);
	case FUSE_RELEASE:
		answer(head->unique, 0, NULL, 0);
		opened--;
		if (lifted && !opened)
			exit(0);
		return;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
		return; /* not answered */
	default:
		answer(head->unique, ENOSYS, NULL, 0);
	}
}

static void mount_over(const char *path)
{
	char options[100];

	fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fuse < 0)
		fail("/dev/fuse");
	snprintf(options, sizeof options, "fd=%d,rootmode=%o,user_id=0,group_id=0,default_permissions", fuse, S_IFREG | S_IRUSR | S_IWUSR);
	if (mount("disk", path, "fuse", MS_NOSUID | MS_NODEV, options) < 0)
		fail(path);
}

/* The parent prints who goes on, and ends. */
static void go_on_in_the_background(void)
{
	pid_t child = fork();
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (child < 0 || null < 0)
		fail("fork");
	if (child) {
		printf("%d\n", child);
		exit(0);
	}
	setsid();
	dup2(null, 0);
	dup2(null, 1);
}

int main(int count, char **words)
{
	struct sigaction on_term = { .sa_handler = lift };
	/* Requests are read to where what is to be written begins a page, as is needed for writing past the page cache. */
	const size_t before = sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in);
	unsigned char *buffer = aligned_alloc(PAGE, PAGE + LARGEST);

	if (count != 3 || strtod(words[2], NULL) < 1) {
		fprintf(stderr, "usage: disk FILE BYTES_A_SECOND\n");
		return 2;
	}
	if (!buffer)
		fail("memory");
	ns_per_byte = 1e9 / strtod(words[2], NULL);
	file = open(words[1], O_RDWR | O_CLOEXEC | O_DIRECT);
	if (file < 0)
		fail(words[1]);
	mount_over(words[1]);
	sigaction(SIGTERM, &on_term, NULL);
	go_on_in_the_background();
	prctl(PR_SET_TIMERSLACK, 1);
	for (;;) {
		ssize_t got = read(fuse, buffer + PAGE - before, before + LARGEST);

		if (got >= (ssize_t)sizeof(struct fuse_in_header))
			serve((const void *)(buffer + PAGE - before), buffer + PAGE);
		else if (got < 0 && errno == ENODEV)
			return 0; /* unmounted */
		else if (got < 0 && errno != EINTR && errno != ENOENT && errno != EAGAIN)
			fail("reading from the kernel");
	}
}
