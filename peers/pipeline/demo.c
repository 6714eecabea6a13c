// SPDX-License-Identifier: MIT
/*
 * pipeline-demo - a frame's way through two machines, each leg by a device: camera -> grabber -> memory of GPU A -> RDMA ->
 * memory of GPU B -> disk.  No leg copies through host memory.
 *
 *	pipeline-demo --store FOLDER		machine B: waits for the other, and writes frames to FOLDER/frames
 *	pipeline-demo --capture HOST		machine A: sends them
 *
 * B reads the file at the end, and checks each frame by the checksum that the camera has written into it.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../fpga/src/screen.h"
#include "../fpga/src/sysfs.h"
#include "../grabber/src/stream.h"
#include "../hca/demo/remote.h"
#include "peerdma_file.h"

enum { EXIT_PASS, EXIT_FAIL, EXIT_USAGE, EXIT_MISSING };

#define PORT		"18517"
#define PINS		"/sys/kernel/debug/peerdma/pins"
#define GPU_BAR		2	/* softgpu's VRAM */
#define SLOTS		4	/* frames that each GPU's memory has room for */
#define WIDTH		640
#define HEIGHT		360
#define FRAME_MS	20000	/* for one frame, or one write, at most */

static const char usage_text[] =
"usage: pipeline-demo --store FOLDER | --capture HOST [--frames N] [--rate N] [--witness FILE]\n"
"Frames go from a camera into GPU memory, by RDMA into another machine's GPU memory, and from there to a file.\n"
"\n"
"  --store FOLDER   the machine with the disk; start it first\n"
"  --capture HOST   the machine with the grabber; HOST is the other one\n"
"  --frames N       (default 30)\n"
"  --rate N         frames a second (default 5)\n"
"  --witness FILE   where the number of bytes is written that the device must have moved to or from the GPU's BAR\n"
"  --help\n"
"\n"
"exit code: 0 pass, 1 fail, 2 usage, 3 a device or a driver is missing.\n";

struct pipe {
	struct side side;
	const char *folder, *host, *witness;
	unsigned int frames, rate;
	uint64_t slot;		/* bytes between frames in GPU memory */
	int peer;		/* the other machine */
};

/* What the two say to each other; both are the same program. */
struct hello {
	uint64_t slot, length, picture, base;	/* length: of what is transferred, whole pages */
	uint32_t frames, rkey;
	struct address address;
};

struct arrived {
	uint32_t index, number;		/* slot, and the frame's number; slot SLOTS: the end */
};

static bool say(struct pipe *p, const void *what, size_t length)
{
	if (send(p->peer, what, length, MSG_NOSIGNAL) == (ssize_t)length)
		return true;
	why_set(&p->side.why, "the other machine is gone");
	return false;
}

static bool hear(struct pipe *p, void *what, size_t length)
{
	if (recv(p->peer, what, length, MSG_WAITALL) == (ssize_t)length)
		return true;
	why_set(&p->side.why, "the other machine is gone");
	return false;
}

static void write_witness(struct pipe *p, uint64_t bytes)
{
	if (p->witness && !bar_report(p->witness, p->side.gpu.pci, GPU_BAR, bytes))
		screen_fail("%s: %s", p->witness, strerror(errno));
}

/* Memory of the GPU for all slots, which the adapter reaches by its address, and the two queue pairs. */
static bool meet(struct pipe *p, struct hello *own, struct hello *other)
{
	struct translation t;
	bool sends = p->host;

	if (!sends && !hear(p, other, sizeof(*other)))
		return false;
	if (!sends)
		p->slot = other->slot;
	if (!side_register(&p->side, WAY_PEER, SLOTS * p->slot, &t) || !side_queue(&p->side))
		return false;
	own->slot = p->slot;
	own->base = side_base(&p->side);
	own->rkey = p->side.mr->rkey;
	own->address = p->side.own;
	return say(p, own, sizeof(*own)) && (!sends || hear(p, other, sizeof(*other))) &&
	       side_connect(&p->side, &other->address);
}

/* ---- machine A ---- */

/* The same memory as dma-bufs for the grabber, one for each slot. */
static bool give_slots(struct pipe *p, struct stream *s, int fds[SLOTS], struct peerdma_region **region)
{
	if (peerdma_pin(p->side.peerdma, (void *)(uintptr_t)p->side.addr, SLOTS * p->slot, 0, NULL, region)) {
		why_set(&p->side.why, "%s", peerdma_last_error());
		return false;
	}
	for (unsigned int i = 0; i < SLOTS; i++) {
		int err;

		if (peerdma_export_dmabuf(*region, i * p->slot, p->slot, &fds[i])) {
			why_set(&p->side.why, "%s", peerdma_last_error());
			return false;
		}
		err = stream_queue(s, i, fds[i], NULL);
		if (err) {
			why_set(&p->side.why, "buffer %u: %s", i, strerror(-err));
			return false;
		}
	}
	return true;
}

/* One frame: into A by the grabber, into B by the adapters, to the disk by the other machine. */
static bool pass_frame(struct pipe *p, struct stream *s, const int fds[SLOTS], const struct hello *other, uint64_t n)
{
	struct arrived a;
	struct ibv_wc wc;
	struct taken t;
	int err;

	do {
		err = stream_take(s, FRAME_MS, &t);
		if (!err && t.error)
			err = stream_queue(s, t.index, fds[t.index], NULL);
	} while (!err && t.error);
	if (err) {
		why_set(&p->side.why, "no frame: %s", strerror(-err));
		return false;
	}
	if (!side_write(&p->side, t.index * p->slot, s->length, other->base, other->rkey, n))
		return false;
	if (side_poll(&p->side, &wc, FRAME_MS) != 1 || wc.status != IBV_WC_SUCCESS) {
		why_set(&p->side.why, "RDMA write: %s", ibv_wc_status_str(wc.status));
		return false;
	}
	a = (struct arrived){ .index = t.index, .number = t.sequence };
	/* The answer: the frame is on the disk, and the slot free. */
	if (!say(p, &a, sizeof(a)) || !hear(p, &a, sizeof(a)))
		return false;
	err = stream_queue(s, t.index, fds[t.index], NULL);
	if (err)
		why_set(&p->side.why, "buffer %u: %s", t.index, strerror(-err));
	return !err;
}

static bool capture(struct pipe *p, struct stream *s)
{
	struct arrived end = { .index = SLOTS };
	char bytes[SCREEN_CELL], sent[SCREEN_CELL];
	struct hello own = { .frames = p->frames, .length = s->length, .picture = s->picture }, other;
	uint64_t before, after;
	struct peerdma_region *region = NULL;
	int fds[SLOTS];
	unsigned int n = 0;
	bool ok;

	p->slot = (s->length + 0xffff) & ~(uint64_t)0xffff;
	p->peer = remote_connect(p->host, PORT, &p->side.why);
	if (p->peer < 0 || !meet(p, &own, &other) || !side_copied(&p->side, &before) || !give_slots(p, s, fds, &region))
		return false;
	ok = !stream_start(s);
	while (ok && n < p->frames)
		n += ok = pass_frame(p, s, fds, &other, n);
	stream_stop(s);
	if (ok)
		say(p, &end, sizeof(end));
	if (!side_copied(&p->side, &after))
		return false;
	screen_step(1, "Machine A", "camera -> grabber -> GPU %s -> RDMA", p->side.gpu.pci);
	screen_row("grabber", "%s by its DMA into GPU memory, %" PRIu64 " bytes into host memory",
		   screen_bytes(bytes, grabber_counted("dmabuf_bytes")), grabber_counted("host_bytes"));
	screen_row("RDMA", "%u frames, %s, from GPU memory: registered by its address", n, screen_bytes(sent, n * s->length));
	screen_row("", "the adapter is software: the guest's processor moves what the DMA of a real one would");
	screen_check(n == p->frames && !grabber_counted("host_bytes") && after == before, "copies",
		     "none: neither into host memory nor by the GPU's copy engine");
	write_witness(p, grabber_counted("dmabuf_bytes"));
	stream_close(s);
	for (int i = 0; i < SLOTS; i++)
		close(fds[i]);
	if (peerdma_unpin(region))
		screen_fail("%s", peerdma_last_error());
	return ok;
}

/* ---- machine B ---- */

static bool store_frames(struct pipe *p, const struct hello *other, struct peerdma_file *file, uint32_t numbers[], unsigned int *count)
{
	struct arrived a;

	while (hear(p, &a, sizeof(a))) {
		ssize_t n;

		if (a.index >= SLOTS)
			return true;
		if (*count == other->frames)
			break;
		n = peerdma_file_write(file, (void *)(uintptr_t)(p->side.addr + a.index * p->slot), other->length,
				       (off_t)(*count * p->slot));
		if (n != (ssize_t)other->length) {
			why_set(&p->side.why, "%s", peerdma_last_error());
			return false;
		}
		numbers[(*count)++] = a.number;
		if (!say(p, &a, sizeof(a)))
			return false;
	}
	return false;
}

/* Reads the file as any program does. */
static unsigned int right_frames(struct pipe *p, const struct hello *other, int fd, const uint32_t numbers[], unsigned int count)
{
	char *bytes = malloc(other->picture);
	unsigned int right = 0;
	uint32_t number;

	for (unsigned int i = 0; bytes && i < count; i++) {
		right += pread(fd, bytes, other->picture, (off_t)(i * p->slot)) == (ssize_t)other->picture &&
			 frame_whole(bytes, other->picture, &number) && number == numbers[i];
	}
	free(bytes);
	return right;
}

static bool store(struct pipe *p)
{
	struct peerdma_file_counters counters = { .size = sizeof(counters) };
	char path[PATH_MAX], direct[SCREEN_CELL], copied[SCREEN_CELL];
	struct hello own = { 0 }, other;
	struct peerdma_cache *cache;
	struct peerdma_file *file;
	uint64_t before, after;
	unsigned int count = 0, right;
	uint32_t *numbers;
	bool ok;
	int fd;

	snprintf(path, sizeof(path), "%s/frames", p->folder);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || peerdma_cache_open(p->side.peerdma, NULL, &cache) || peerdma_file_open(cache, fd, 0, &file)) {
		why_set(&p->side.why, "%s: %s", path, fd < 0 ? strerror(errno) : peerdma_last_error());
		return false;
	}
	p->peer = remote_listen(PORT, &p->side.why);
	if (p->peer < 0 || !meet(p, &own, &other) || !side_copied(&p->side, &before))
		return false;
	numbers = calloc(other.frames, sizeof(*numbers));
	ok = numbers && store_frames(p, &other, file, numbers, &count) && side_copied(&p->side, &after);
	peerdma_file_counters(file, &counters);
	screen_step(2, "Machine B", "RDMA -> GPU %s -> NVMe disk", p->side.gpu.pci);
	screen_row("disk", "%s by its DMA from GPU memory, %s copied", screen_bytes(direct, counters.direct),
		   screen_bytes(copied, counters.copied));
	screen_check(ok && after == before && !counters.copied, "copies", "none: neither through host memory nor by the GPU's copy engine");
	right = ok ? right_frames(p, &other, fd, numbers, count) : 0;
	screen_check(ok && right == other.frames, "checksums", "the camera's, over each frame in the file: %u right", right);
	write_witness(p, counters.direct);
	peerdma_file_close(file);
	peerdma_cache_close(cache);
	close(fd);
	free(numbers);
	return ok;
}

/* ---- the program ---- */

static bool options(int argc, char **argv, struct pipe *p)
{
	static const struct option known[] = {
		{ "store", required_argument, NULL, 's' }, { "capture", required_argument, NULL, 'c' },
		{ "frames", required_argument, NULL, 'f' }, { "rate", required_argument, NULL, 'r' },
		{ "witness", required_argument, NULL, 'w' }, { "help", no_argument, NULL, 'h' }, { 0 },
	};
	bool right = true;
	int option;

	while (right && (option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
		switch (option) {
		case 's':
			p->folder = optarg;
			break;
		case 'c':
			p->host = optarg;
			break;
		case 'f':
			right = parse_count(optarg, 1000, &p->frames);
			break;
		case 'r':
			right = parse_count(optarg, 120, &p->rate);
			break;
		case 'w':
			p->witness = optarg;
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(fflush(stdout) ? EXIT_FAIL : EXIT_PASS);
		default:
			right = false;
		}
	}
	return right && optind == argc && !p->folder != !p->host;
}

static int missing(const char *what)
{
	fprintf(stderr, "pipeline-demo: %s\n", what);
	return EXIT_MISSING;
}

int main(int argc, char **argv)
{
	static struct pipe p = { .frames = 30, .rate = 5 };
	struct stream stream;
	char grabber[32];
	bool ok;
	int err;

	if (!options(argc, argv, &p)) {
		fputs(usage_text, stderr);
		return EXIT_USAGE;
	}
	if (!side_open(&p.side, false))
		return missing(p.side.why.text);
	if (p.host) {
		if (!grabber_find(0, grabber))
			return missing("there is no grabber: is peerdma_grabber.ko loaded, and the machine booted with --camera?");
		err = stream_open(&stream, grabber, WIDTH, HEIGHT, p.rate);
		if (!err)
			err = stream_buffers(&stream, V4L2_MEMORY_DMABUF, SLOTS);
		if (err)
			return missing(strerror(-err));
	}
	screen_open(stdout);
	ok = p.host ? capture(&p, &stream) : store(&p);
	if (!ok)
		screen_fail("%s", p.side.why.text);
	side_close(&p.side);
	screen_check(!debugfs_lines(PINS), "pins", "%d are left", debugfs_lines(PINS));
	return screen_close("each leg by a device") ? EXIT_FAIL : EXIT_PASS;
}
