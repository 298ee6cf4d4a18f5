/* wan TAP_A TAP_B DELAY_US BACK_US RATE_MBIT: joins two TAP devices, and holds each frame back for DELAY_US on its way from
 * A to B, and for BACK_US from B to A.
 *
 * Each direction carries RATE_MBIT (0: no bound). It stands in for tc's netem, which many kernels are without. With headers
 * of virtual network devices, frames of up to 64 KiB pass in one read and one write, so it needs little CPU.
 * A frame that would wait more than 200 ms for the line, or would take the queue over 256 MiB, is dropped, as a router's
 * full queue would do. It runs until it is killed. It knows nothing of addresses. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct frame {
	struct frame *next;
	int64_t due; /* ns */
	size_t length;
	unsigned char bytes[];
};

/* One way of the line. `tail` points to where the next frame is hung. */
struct way {
	int in, out;
	int64_t delay; /* ns */
	struct frame *head, **tail;
	int64_t line_free; /* ns: when the last frame will have been sent */
	size_t queued;     /* bytes */
};

static const size_t queued_max = (size_t)256 << 20;
static const int64_t wait_max = 200000000;

static void fail(const char *what)
{
	fprintf(stderr, "wan: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now(void)
{
	struct timespec time;

	if (clock_gettime(CLOCK_MONOTONIC, &time) < 0)
		fail("clock_gettime");
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int open_tap(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (tap < 0)
		fail("/dev/net/tun");
	snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
	if (ioctl(tap, TUNSETIFF, &request) < 0)
		fail(name);
	/* Without offloads it works too, with more CPU. */
	if (ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN) < 0)
		perror("wan: TUNSETOFFLOAD");
	return tap;
}

/* Reads up to 64 frames, so that neither way starves the other. */
static void take_in(struct way *way, int64_t time, double ns_per_byte)
{
	static unsigned char buffer[70000];

	for (int count = 0; count < 64; count++) {
		ssize_t got = read(way->in, buffer, sizeof buffer);
		if (got <= 0)
			return;
		size_t length = (size_t)got;
		int late = ns_per_byte > 0 && way->line_free - time > wait_max;
		struct frame *frame = late || way->queued + length > queued_max ? NULL : malloc(sizeof *frame + length);
		if (!frame)
			continue;
		int64_t start = way->line_free > time ? way->line_free : time;
		way->line_free = start + (int64_t)((double)length * ns_per_byte);
		*frame = (struct frame){ .next = NULL, .due = way->line_free + way->delay, .length = length };
		memcpy(frame->bytes, buffer, length);
		*way->tail = frame;
		way->tail = &frame->next;
		way->queued += length;
	}
}

static void give_out(struct way *way, int64_t time)
{
	while (way->head && way->head->due <= time) {
		struct frame *frame = way->head;
		if (write(way->out, frame->bytes, frame->length) < 0 && errno == EAGAIN)
			return;
		way->head = frame->next;
		if (!way->head)
			way->tail = &way->head;
		way->queued -= frame->length;
		free(frame);
	}
}

/* Sleeps until a frame comes or is due. */
static void wait_for(const struct way *ways)
{
	struct pollfd polled[2] = { { .fd = ways[0].in, .events = POLLIN }, { .fd = ways[1].in, .events = POLLIN } };
	struct timespec left;
	int64_t due = INT64_MAX, rest;

	for (int i = 0; i < 2; i++)
		if (ways[i].head && ways[i].head->due < due)
			due = ways[i].head->due;
	rest = due - now();
	if (rest < 0)
		rest = 0;
	left = (struct timespec){ .tv_sec = rest / 1000000000, .tv_nsec = rest % 1000000000 };
	if (ppoll(polled, 2, due == INT64_MAX ? NULL : &left, NULL) < 0 && errno != EINTR)
		fail("ppoll");
}

int main(int count, char **words)
{
	if (count != 6) {
		fprintf(stderr, "usage: wan TAP_A TAP_B DELAY_US BACK_US RATE_MBIT\n");
		return 2;
	}
	int a = open_tap(words[1]), b = open_tap(words[2]);
	int64_t delay = strtoll(words[3], NULL, 10) * 1000, back = strtoll(words[4], NULL, 10) * 1000;
	double rate = strtod(words[5], NULL), ns_per_byte = rate > 0 ? 8000 / rate : 0;
	struct way ways[2] = { { .in = a, .out = b, .delay = delay }, { .in = b, .out = a, .delay = back } };
	for (int i = 0; i < 2; i++)
		ways[i].tail = &ways[i].head;
	/* Delays of a few microseconds are wanted as they are. */
	prctl(PR_SET_TIMERSLACK, 1);
	for (;;) {
		wait_for(ways);
		for (int i = 0; i < 2; i++) {
			int64_t time = now();
			take_in(&ways[i], time, ns_per_byte);
			give_out(&ways[i], time);
		}
	}
}
