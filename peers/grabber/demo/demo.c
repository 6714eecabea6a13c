// SPDX-License-Identifier: MIT
/*
 * capture-demo - shows on one screen how a frame grabber writes the frames of a camera into GPU memory: by its own DMA; through
 * host memory beside it; frames of which packets were lost; and what happens when a buffer is freed under the stream.
 *
 * Every figure on the screen was measured by the run that shows it.  Every frame has a checksum of the camera's, which is
 * outside the machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../../fpga/src/gpu.h"
#include "../../fpga/src/screen.h"
#include "../../fpga/src/sysfs.h"
#include "../src/stream.h"
#include "peerdma.h"

enum { EXIT_PASS, EXIT_FAIL, EXIT_USAGE, EXIT_MISSING };

#define PINS		"/sys/kernel/debug/peerdma/pins"
#define GPU_BAR		2	/* softgpu's VRAM */
#define BUFFERS		4
#define WIDTH		640
#define HEIGHT		360
#define FRAME_MS	20000	/* for one frame, at most */

static const char usage_text[] =
"usage: capture-demo [--frames N] [--rate N] [--witness FILE]\n"
"Frames of a camera are written into GPU memory by the grabber's DMA.\n"
"\n"
"  --frames N     into GPU memory, in the first step (default 50)\n"
"  --rate N       frames a second (default 10)\n"
"  --witness FILE where the number of bytes is written that the grabber must have written into the GPU's BAR\n"
"  --help\n"
"\n"
"Be root; peerdma_grabber.ko, peerdma.ko and a GPU driver are loaded. Of a second grabber the camera loses packets.\n"
"exit code: 0 pass, 1 fail, 2 usage, 3 a GPU, a grabber or a driver is missing.\n";

struct surface {
	uint64_t gpu;
	int fd;				/* of its dma-buf */
	struct peerdma_region *region;
};

struct demo {
	struct gpu gpus[GPUS_MAX];
	struct peerdma *ctx;
	unsigned int frames, rate;
	const char *witness;
	char grabbers[2][32];
	bool second;
	size_t length;			/* of a surface */
	struct surface surfaces[BUFFERS];
	struct why why;
};

/* What became of frames. */
struct tally {
	unsigned int whole, wrong, errors, missed;
	uint32_t next;
};

static void *pointer(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* ---- surfaces: memory that can be freed at any time, as dma-bufs of the bridge's ---- */

static bool make_surface(struct demo *d, struct surface *s)
{
	if (!gpu_alloc(&d->gpus[0], d->length, &s->gpu, &d->why))
		return false;
	if (peerdma_pin(d->ctx, pointer(s->gpu), d->length, 0, NULL, &s->region) ||
	    peerdma_export_dmabuf(s->region, 0, 0, &s->fd)) {
		why_set(&d->why, "%s", peerdma_last_error());
		return false;
	}
	return true;
}

static void end_surface(struct demo *d, struct surface *s, bool freed)
{
	close(s->fd);
	peerdma_unpin(s->region);
	if (!freed)
		gpu_free(&d->gpus[0], s->gpu, &d->why);
}

static bool begin_stream(struct demo *d, struct stream *s, const char *path, enum v4l2_memory memory)
{
	int err = stream_open(s, path, WIDTH, HEIGHT, d->rate);

	if (!err) {
		d->length = (s->length + 0xffff) & ~(size_t)0xffff;
		err = stream_buffers(s, memory, BUFFERS);
	}
	if (err)
		why_set(&d->why, "%s: %s", path, strerror(-err));
	return !err;
}

static bool queue(struct demo *d, struct stream *s, unsigned int i)
{
	int err = stream_queue(s, i, d->surfaces[i].fd, NULL);

	if (err)
		why_set(&d->why, "buffer %u: %s", i, strerror(-err));
	return !err;
}

static bool begin_surfaces(struct demo *d, struct stream *s)
{
	int err;

	for (unsigned int i = 0; i < BUFFERS; i++) {
		if (!make_surface(d, &d->surfaces[i]) || !queue(d, s, i))
			return false;
	}
	err = stream_start(s);
	if (err)
		why_set(&d->why, "the stream does not start: %s", strerror(-err));
	return !err;
}

/* Takes a frame and looks at it in GPU memory.  False: none came. */
static bool take(struct demo *d, struct stream *s, struct taken *t, struct tally *tally)
{
	char *bytes = malloc(s->picture);
	uint32_t number = 0;
	int err = stream_take(s, FRAME_MS, t);

	if (err || !bytes) {
		why_set(&d->why, "no frame: %s", strerror(err ? -err : ENOMEM));
		free(bytes);
		return false;
	}
	if (t->error)
		tally->errors++;
	else if (gpu_read(&d->gpus[0], bytes, d->surfaces[t->index].gpu, s->picture, &d->why) &&
		 frame_whole(bytes, s->picture, &number) && number == t->sequence)
		tally->whole++;
	else
		tally->wrong++;
	tally->missed += t->sequence - tally->next;
	tally->next = t->sequence + 1;
	free(bytes);
	return true;
}

/* ---- the steps ---- */

static void by_dma(struct demo *d)
{
	uint64_t dmabuf = grabber_counted("dmabuf_bytes"), host = grabber_counted("host_bytes"), begin;
	char bytes[SCREEN_CELL], took[SCREEN_CELL];
	struct tally tally = { 0 };
	struct stream s;
	struct taken t;

	screen_step(1, "Into the GPU", "camera -> wire -> grabber -> GPU memory, %dx%d, %u frames a second", WIDTH, HEIGHT, d->rate);
	if (!begin_stream(d, &s, d->grabbers[0], V4L2_MEMORY_DMABUF) || !begin_surfaces(d, &s)) {
		screen_fail("%s", d->why.text);
		return;
	}
	begin = now_ns();
	for (unsigned int n = 0; n < d->frames; n++) {
		if (!take(d, &s, &t, &tally) || !queue(d, &s, t.index)) {
			screen_fail("%s", d->why.text);
			break;
		}
	}
	screen_row("frames", "%u in %s: %u whole, %u dropped, %u with errors", d->frames, screen_time(took, now_ns() - begin),
		   tally.whole, tally.missed, tally.errors);
	stream_stop(&s);
	stream_close(&s);
	screen_check(tally.whole == d->frames && !tally.wrong, "checksums",
		     "the camera's, over each frame as the GPU has it: %u right", tally.whole);
	screen_check(grabber_counted("host_bytes") == host && grabber_counted("dmabuf_bytes") - dmabuf >= (uint64_t)d->frames * s.length,
		     "bytes", "%s by DMA into GPU memory, %" PRIu64 " into host memory",
		     screen_bytes(bytes, grabber_counted("dmabuf_bytes") - dmabuf), grabber_counted("host_bytes") - host);
	for (int i = 0; i < BUFFERS; i++)
		end_surface(d, &d->surfaces[i], false);
}

static void by_host(struct demo *d)
{
	uint64_t before = grabber_counted("host_bytes"), copied = gpu_bytes_copied(), gpu;
	unsigned int frames = 10, whole = 0;
	char dma[SCREEN_CELL], copy[SCREEN_CELL];
	void *at[BUFFERS] = { 0 };
	uint32_t number;
	struct stream s;
	struct taken t;
	bool ok;

	screen_step(2, "Host memory", "the same, as programs do it without peer-to-peer");
	ok = begin_stream(d, &s, d->grabbers[0], V4L2_MEMORY_MMAP) && gpu_alloc(&d->gpus[0], d->length, &gpu, &d->why);
	for (unsigned int i = 0; ok && i < BUFFERS; i++) {
		at[i] = stream_map(&s, i);
		ok = at[i] && !stream_queue(&s, i, -1, NULL);
	}
	ok = ok && !stream_start(&s);
	for (unsigned int n = 0; ok && n < frames; n++) {
		ok = !stream_take(&s, FRAME_MS, &t) && gpu_write(&d->gpus[0], gpu, at[t.index], s.picture, &d->why);
		whole += ok && frame_whole(at[t.index], s.picture, &number);
		ok = ok && !stream_queue(&s, t.index, -1, NULL);
	}
	stream_stop(&s);
	for (int i = 0; i < BUFFERS; i++) {
		if (at[i])
			munmap(at[i], s.length);
	}
	stream_close(&s);
	gpu_free(&d->gpus[0], gpu, &d->why);
	screen_check(ok && whole == frames, "bytes", "%s by DMA into host memory, then %s by the GPU: each crosses the bus twice",
		     screen_bytes(dma, grabber_counted("host_bytes") - before), screen_bytes(copy, gpu_bytes_copied() - copied));
}

static void lossy(struct demo *d)
{
	struct tally tally = { 0 };
	struct stream s;
	struct taken t;

	screen_step(3, "Lost packets", "another camera, of which each 301st packet is lost on its way");
	if (!begin_stream(d, &s, d->grabbers[1], V4L2_MEMORY_DMABUF) || !begin_surfaces(d, &s)) {
		screen_fail("%s", d->why.text);
		return;
	}
	while (tally.whole < 15) {
		if (!take(d, &s, &t, &tally) || !queue(d, &s, t.index)) {
			screen_fail("%s", d->why.text);
			break;
		}
	}
	stream_stop(&s);
	stream_close(&s);
	screen_check(!tally.wrong && tally.errors, "frames", "%u whole; %u torn, and V4L2_BUF_FLAG_ERROR says so; %u missing in the sequence",
		     tally.whole, tally.errors, tally.missed);
	for (int i = 0; i < BUFFERS; i++)
		end_surface(d, &d->surfaces[i], false);
}

/* Until the freed buffer has come back and so many others. */
static bool go_on(struct demo *d, struct stream *s, struct tally *tally, unsigned int freed)
{
	bool back = false;
	struct taken t;

	while (!back || tally->whole < 8) {
		if (!take(d, s, &t, tally))
			return false;
		if (t.index == freed)
			back = true;
		else if (!queue(d, s, t.index))
			return false;
	}
	return true;
}

static void freed(struct demo *d)
{
	char before[DIGEST_HEX] = "", after[DIGEST_HEX] = "", *bytes;
	struct tally tally = { 0 };
	uint64_t other = 0;
	struct stream s;
	bool ok;

	screen_step(4, "Freed", "cuMemFree of one of the four buffers while frames arrive; the next owner gets its memory");
	ok = begin_stream(d, &s, d->grabbers[0], V4L2_MEMORY_DMABUF) && begin_surfaces(d, &s);
	bytes = malloc(d->length);
	sleep_ms(250);
	ok = ok && bytes && gpu_free(&d->gpus[0], d->surfaces[1].gpu, &d->why) &&
	     gpu_alloc(&d->gpus[0], d->length, &other, &d->why);
	if (ok) {
		pattern_fill(bytes, d->length, 99);
		digest(bytes, d->length, before);
		ok = gpu_write(&d->gpus[0], other, bytes, d->length, &d->why) && go_on(d, &s, &tally, 1) &&
		     gpu_read(&d->gpus[0], bytes, other, d->length, &d->why);
		digest(bytes, d->length, after);
	}
	if (!ok)
		screen_fail("%s", d->why.text);
	screen_check(ok && stream_queue(&s, 1, d->surfaces[1].fd, NULL) < 0, "the buffer", "came back; it cannot be queued again");
	screen_check(ok && tally.whole >= 8, "the stream", "went on with the other three: %u frames whole", tally.whole);
	screen_check(ok && !strcmp(before, after), "next owner", "%.16s... before, %.16s... after: nothing landed there", before, after);
	stream_stop(&s);
	stream_close(&s);
	free(bytes);
	gpu_free(&d->gpus[0], other, &d->why);
	for (int i = 0; i < BUFFERS; i++)
		end_surface(d, &d->surfaces[i], i == 1);
}

static void counted_back(struct demo *d)
{
	struct gpu_usage usage;
	int left;

	screen_step(5, "Counted back", "what the machine has after all that");
	peerdma_close(d->ctx);
	usage = gpu_usage(&d->gpus[0]);
	left = debugfs_lines(PINS);
	screen_check(!left, "pins", "%d are left", left);
	screen_row("BAR1", "%" PRIu64 " KiB in use, the driver's own", usage.bar1_used >> 10);
}

/* ---- the program ---- */

static int missing(const char *what)
{
	fprintf(stderr, "capture-demo: %s\n", what);
	return EXIT_MISSING;
}

static bool options(int argc, char **argv, struct demo *d)
{
	static const struct option known[] = {
		{ "frames", required_argument, NULL, 'f' }, { "rate", required_argument, NULL, 'r' },
		{ "witness", required_argument, NULL, 'w' }, { "help", no_argument, NULL, 'h' }, { 0 },
	};
	bool right = true;
	int option;

	while (right && (option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
		switch (option) {
		case 'f':
			right = parse_count(optarg, 100000, &d->frames);
			break;
		case 'r':
			right = parse_count(optarg, 120, &d->rate);
			break;
		case 'w':
			d->witness = optarg;
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(EXIT_PASS);
		default:
			right = false;
		}
	}
	return right && optind == argc;
}

int main(int argc, char **argv)
{
	struct demo d = { .frames = 50, .rate = 10 };
	struct utsname u;
	int count;

	if (!options(argc, argv, &d)) {
		fputs(usage_text, stderr);
		return EXIT_USAGE;
	}
	if (!gpus_open(d.gpus, &count, &d.why))
		return missing(d.why.text);
	if (!grabber_find(0, d.grabbers[0]))
		return missing("there is no grabber: is peerdma_grabber.ko loaded, and the machine booted with --camera?");
	if (peerdma_open(&d.ctx, 0))
		return missing(peerdma_last_error());
	d.second = grabber_find(1, d.grabbers[1]);
	uname(&u);
	screen_open(stdout);
	screen_title("peerdma: frames and GPU memory", u.release);
	screen_note("GPU %s (%s); grabber %s; camera outside the machine; emulated: no figure is one of hardware", d.gpus[0].pci,
		    d.gpus[0].name, d.grabbers[0]);
	by_dma(&d);
	by_host(&d);
	if (d.second)
		lossy(&d);
	freed(&d);
	counted_back(&d);
	if (d.witness && !bar_report(d.witness, d.gpus[0].pci, GPU_BAR, grabber_counted("dmabuf_bytes")))
		screen_fail("%s: %s", d.witness, strerror(errno));
	return screen_close("every frame by the grabber's DMA, none through the host, and all given back") ? EXIT_FAIL : EXIT_PASS;
}
