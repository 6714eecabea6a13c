// SPDX-License-Identifier: MIT
/*
 * camera.c - a camera that sends frames over Ethernet: a program outside the virtual machine,
 * at the other end of the grabber's wire (grabber_wire.h).
 *
 * It keeps its own time.  A frame that is due is put into a small memory in the camera, and
 * packets leave it as fast as the wire takes them.  What does not fit any more is dropped:
 * the wire does not hold a camera up.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "camera.h"

static const char help[] =
	"usage: camera [options]\n"
	"\n"
	"A camera at the other end of a grabber's wire, which is standard input (a datagram\n"
	"socket): vm/run --camera 'PATH/camera OPTIONS' starts it. It sends what the grabber\n"
	"asks for: grey pixels or YUYV, with a counter and a checksum at the start of each frame.\n"
	"\n"
	"  --memory N      frames that the camera can keep while the wire is busy (default 2)\n"
	"  --frames N      stop each stream after N frames\n"
	"  --lose N        lose every Nth packet\n"
	"  --garbage N     before every Nth packet, send one that no camera sends\n"
	"  --swap N        exchange every Nth packet with the next one\n"
	"  --skip N        skip every Nth frame\n"
	"  --stall N       stop for a second in the middle of every Nth frame\n"
	"  -h, --help      this text\n"
	"\n"
	"SIGTERM ends it: it says on standard error what it has sent, and exits with 0. It exits\n"
	"with 64 if it was called wrongly.\n";

static unsigned long number(const char *name, const char *text)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value > 1000000) {
		fprintf(stderr, "camera: --%s %s: give a number from 0 to 1000000\n", name, text);
		exit(64);
	}
	return value;
}

static void options(int argc, char **argv, struct camera *c)
{
	static const struct option known[] = {
		{ "memory", 1, NULL, 'm' }, { "frames", 1, NULL, 'f' }, { "lose", 1, NULL, 'l' },
		{ "garbage", 1, NULL, 'g' }, { "swap", 1, NULL, 's' }, { "skip", 1, NULL, 'k' },
		{ "stall", 1, NULL, 't' }, { "help", 0, NULL, 'h' }, { 0 },
	};
	unsigned long *to[128] = {
		['m'] = &c->memory, ['f'] = &c->frames, ['l'] = &c->lose, ['g'] = &c->garbage,
		['s'] = &c->swap, ['k'] = &c->skip, ['t'] = &c->stall,
	};
	int option, index;

	while ((option = getopt_long(argc, argv, "h", known, &index)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			exit(0);
		}
		if (option == '?')
			exit(64);
		*to[option] = number(known[index].name, optarg);
	}
	if (optind < argc || !c->memory) {
		fprintf(stderr, optind < argc ? "camera: it takes no arguments, only options\n" :
						"camera: --memory 0: it needs room for a frame\n");
		exit(64);
	}
}

/* Orders that the grabber has sent; false: the wire has ended. */
static bool orders(struct camera *c)
{
	union {
		struct grabber_order order;
		char bytes[2048];
	} in;
	ssize_t n;

	while ((n = recv(STDIN_FILENO, &in, sizeof(in), MSG_DONTWAIT)) > 0)
		if ((size_t)n >= sizeof(in.order))
			camera_order(c, &in.order);
	return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

static volatile sig_atomic_t asked_to_end;

static void end(int signal)
{
	asked_to_end = signal;
}

static void report(const struct camera *c)
{
	if (!c->frames_taken)
		return;
	fprintf(stderr, "camera: %" PRIu64 " frames taken, %" PRIu64 " sent, %" PRIu64
		" dropped for want of room; %" PRIu64 " packets, %" PRIu64 " lost on purpose\n",
		c->frames_taken, c->frames_sent, c->frames_dropped, c->packets, c->packets_lost);
}

int main(int argc, char **argv)
{
	struct camera c = { .memory = 2 };
	struct sigaction on_end = { .sa_handler = end };
	struct pollfd wire = { .fd = STDIN_FILENO };
	sigset_t blocked, unblocked;

	options(argc, argv, &c);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGINT);
	sigprocmask(SIG_BLOCK, &blocked, &unblocked);
	sigaction(SIGTERM, &on_end, NULL);
	sigaction(SIGINT, &on_end, NULL);
	while (!asked_to_end) {
		int wait = camera_wait_ms(&c);
		struct timespec time = { wait / 1000, wait % 1000 * 1000000l };

		/* A wire that is busy has room again soon; a stall is not ended by room. */
		wire.events = POLLIN | (c.waiting && c.stalled_until_us <= now_us() ? POLLOUT : 0);
		if (ppoll(&wire, 1, wait < 0 ? NULL : &time, &unblocked) < 0 && errno != EINTR)
			break;
		if (wire.revents & POLLIN && !orders(&c))
			break;
		camera_take(&c);
		if (!camera_send(&c, STDIN_FILENO))
			break;
	}
	report(&c);
	camera_end(&c);
	return 0;
}
