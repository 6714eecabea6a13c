// SPDX-License-Identifier: MIT
/*
 * storage-demo - shows on one screen how a disk's controller transfers files to GPU memory and from it: by its own DMA, with
 * Linux's unmodified NVMe driver; through host memory beside it; and what happens when the memory is freed meanwhile.
 *
 * Every figure on the screen was measured by the run that shows it.  The program counts what it asked for; --witness writes
 * that to a file, for comparison with what the emulated disk did.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../fpga/src/gpu.h"
#include "../fpga/src/screen.h"
#include "../fpga/src/sysfs.h"
#include "peerdma_file.h"

enum { EXIT_PASS, EXIT_FAIL, EXIT_USAGE, EXIT_MISSING };

#define PINS		"/sys/kernel/debug/peerdma/pins"
#define GPU_BAR		2		/* softgpu's VRAM */
#define READERS		4
#define SUM		16		/* digits of a SHA-256 that are shown */
#define TAIL		1234		/* bytes of a file behind its last block */
#define HOLE		(1UL << 20)
#define MARKS		5		/* reads of MARK bytes that tell the witness where to stop */
#define MARK		512

static const char usage_text[] =
"usage: storage-demo [--size SIZE] [--witness FILE] FOLDER DISK\n"
"Files are read into GPU memory and written from it by the disk's controller.\n"
"\n"
"  FOLDER         on a file system with O_DIRECT, such as ext4\n"
"  DISK           the block device that it lies on, such as /dev/nvme0n1\n"
"  --size SIZE    of the memory and the file (default 4M)\n"
"  --witness FILE where the number of bytes is written that the disk must have transferred to and from the GPU's BAR\n"
"  --help\n"
"\n"
"Be root; peerdma.ko and a GPU driver that gives its memory struct pages are loaded (softgpu.ko pages=generic).\n"
"exit code: 0 pass, 1 fail, 2 usage, 3 a GPU, a disk or a driver is missing.\n";

struct demo {
	struct gpu gpus[GPUS_MAX];
	struct peerdma *ctx;
	struct peerdma_cache *cache;
	const char *folder, *disk, *witness;
	uint64_t size, direct;		/* direct: of all files so far, without holes */
	uint64_t bar, bar_length;
	struct why why;
};

static char *path_of(const struct demo *d, const char *name)
{
	static char paths[2][PATH_MAX];
	static int turn;
	char *path = paths[turn++ % 2];

	snprintf(path, sizeof(paths[0]), "%s/%s", d->folder, name);
	return path;
}

static void *pointer(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* ---- what there is ---- */

static bool begin(struct demo *d)
{
	int count;

	if (!gpus_open(d->gpus, &count, &d->why))
		return false;
	if (peerdma_open(&d->ctx, 0) || peerdma_cache_open(d->ctx, NULL, &d->cache)) {
		why_set(&d->why, "%s", peerdma_last_error());
		return false;
	}
	return true;
}

/* ---- files ---- */

static void sum_of(const void *bytes, uint64_t length, char sum[DIGEST_HEX])
{
	digest(bytes, length, sum);
	sum[SUM] = 0;
}

static bool sum_of_file(struct demo *d, const char *path, char sum[DIGEST_HEX])
{
	size_t length;
	void *bytes = read_file(path, &length, &d->why);

	if (!bytes)
		return false;
	sum_of(bytes, length, sum);
	free(bytes);
	return true;
}

static bool sum_of_memory(struct demo *d, uint64_t gpu, uint64_t length, char sum[DIGEST_HEX])
{
	char *bytes = malloc(length);
	bool ok = bytes && gpu_read(&d->gpus[0], bytes, gpu, length, &d->why);

	if (ok)
		sum_of(bytes, length, sum);
	free(bytes);
	return ok;
}

/* A file with this content on the disk; from `hole' on, the next megabyte is not written. */
static bool make_file(struct demo *d, const char *path, uint64_t length, uint64_t hole)
{
	char *bytes = malloc(length);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint64_t after = hole + HOLE;
	bool ok = bytes && fd >= 0;

	if (ok) {
		pattern_fill(bytes, length, length);
		ok = pwrite(fd, bytes, hole < length ? hole : length, 0) >= 0 &&
		     (after >= length || pwrite(fd, bytes + after, length - after, (off_t)after) > 0) && !fsync(fd);
	}
	if (!ok)
		why_set(&d->why, "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	free(bytes);
	return ok;
}

struct moved {
	ssize_t n;
	struct peerdma_file_counters counters;
};

/* One transfer of a file, from its beginning. */
static bool move(struct demo *d, const char *path, uint64_t gpu, uint64_t length, bool write, struct moved *m)
{
	int fd = open(path, write ? O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0600);
	struct peerdma_file *file;

	m->counters = (struct peerdma_file_counters){ .size = sizeof(m->counters) };
	if (fd < 0 || peerdma_file_open(d->cache, fd, 0, &file)) {
		why_set(&d->why, "%s: %s", path, fd < 0 ? strerror(errno) : peerdma_last_error());
		if (fd >= 0)
			close(fd);
		return false;
	}
	m->n = write ? peerdma_file_write(file, pointer(gpu), length, 0) :
		       peerdma_file_read(file, pointer(gpu), length, 0);
	if (m->n < 0)
		why_set(&d->why, "%s", peerdma_last_error());
	peerdma_file_counters(file, &m->counters);
	peerdma_file_close(file);
	fsync(fd);
	close(fd);
	d->direct += m->counters.direct;
	return m->n >= 0;
}

static void show(const char *label, const struct moved *m)
{
	char direct[SCREEN_CELL], copied[SCREEN_CELL];

	screen_row(label, "%s by O_DIRECT into a page view, %s copied", screen_bytes(direct, m->counters.direct),
		   screen_bytes(copied, m->counters.copied));
	if (m->counters.why[0])
		screen_row("", "copied because %s", m->counters.why);
}

/* ---- the steps ---- */

static void by_dma(struct demo *d)
{
	char from[DIGEST_HEX] = "", in[DIGEST_HEX] = "", to[DIGEST_HEX] = "";
	struct moved read, written;
	uint64_t gpu;

	screen_step(1, "Directly", "file -> GPU memory -> another file, with Linux's own NVMe driver");
	if (!make_file(d, path_of(d, "a"), d->size, UINT64_MAX - HOLE) || !gpu_alloc(&d->gpus[0], d->size, &gpu, &d->why)) {
		screen_fail("%s", d->why.text);
		return;
	}
	if (!move(d, path_of(d, "a"), gpu, d->size, false, &read) || !sum_of_memory(d, gpu, d->size, in) ||
	    !move(d, path_of(d, "b"), gpu, d->size, true, &written) || !sum_of_file(d, path_of(d, "a"), from) ||
	    !sum_of_file(d, path_of(d, "b"), to)) {
		screen_fail("%s", d->why.text);
		return;
	}
	show("read", &read);
	show("written", &written);
	screen_check(!strcmp(from, in) && !strcmp(in, to), "SHA-256", "file %s..., GPU %s..., file %s...", from, in, to);
	screen_check(read.counters.direct == d->size && written.counters.direct == d->size && !read.counters.copied &&
		     !written.counters.copied, "copies", "none: no byte of the file was in host memory");
	gpu_free(&d->gpus[0], gpu, &d->why);
}

static void by_host(struct demo *d)
{
	char from[DIGEST_HEX] = "", in[DIGEST_HEX] = "", bytes[SCREEN_CELL];
	uint64_t gpu, before = gpu_bytes_copied(), moved;
	size_t length;
	void *buffer;

	screen_step(2, "Host memory", "the same file, as programs do it without peer-to-peer");
	buffer = read_file(path_of(d, "a"), &length, &d->why);
	if (!buffer || !gpu_alloc(&d->gpus[0], d->size, &gpu, &d->why)) {
		screen_fail("%s", d->why.text);
		return;
	}
	if (!gpu_write(&d->gpus[0], gpu, buffer, length, &d->why))
		screen_fail("%s", d->why.text);
	moved = gpu_bytes_copied() - before;
	sum_of(buffer, length, from);
	sum_of_memory(d, gpu, length, in);
	screen_row("read", "%s into host memory, then as many by the GPU's copy engine: each byte crosses the bus twice", screen_bytes(bytes, length));
	screen_check(moved == length && !strcmp(from, in), "SHA-256", "file %s..., GPU %s...", from, in);
	free(buffer);
	gpu_free(&d->gpus[0], gpu, &d->why);
}

static void odd_file(struct demo *d)
{
	char from[DIGEST_HEX] = "", in[DIGEST_HEX] = "";
	uint64_t gpu, length = d->size + TAIL;
	struct moved read;

	screen_step(3, "An odd file", "with a hole of 1 MiB, and %d bytes behind the last block", TAIL);
	if (!make_file(d, path_of(d, "odd"), length, d->size / 2) || !gpu_alloc(&d->gpus[0], length, &gpu, &d->why)) {
		screen_fail("%s", d->why.text);
		return;
	}
	if (move(d, path_of(d, "odd"), gpu, length, false, &read) && sum_of_file(d, path_of(d, "odd"), from) &&
	    sum_of_memory(d, gpu, length, in)) {
		show("read", &read);
		screen_row("the hole", "filled by the kernel: the disk has nothing to transfer");
		d->direct -= HOLE;
		screen_check(!strcmp(from, in), "SHA-256", "file %s..., GPU %s...", from, in);
	} else {
		screen_fail("%s", d->why.text);
	}
	gpu_free(&d->gpus[0], gpu, &d->why);
}

/* What the disk must have done up to here; the reads are the sign for it. */
static void witness(struct demo *d)
{
	char *block = aligned_alloc(4096, 4096);
	int fd = open(d->disk, O_RDONLY | O_DIRECT | O_CLOEXEC);
	FILE *f = fopen(d->witness, "we");

	if (!f || fd < 0 || !block) {
		screen_fail("%s or %s: %s", d->witness, d->disk, strerror(errno));
	} else {
		fprintf(f, "%#" PRIx64 " %" PRIu64 " %" PRIu64 "\n", d->bar, d->bar_length, d->direct);
		for (int i = 0; i < MARKS; i++) {
			if (pread(fd, block, MARK, 0) != MARK)
				screen_fail("%s: %s", d->disk, strerror(errno));
		}
	}
	if (f)
		fclose(f);
	if (fd >= 0)
		close(fd);
	free(block);
}

/* ---- freed under reads ---- */

struct reader {
	int file;
	char *view;
	uint64_t size, rounds;
	pthread_t thread;
	int error;		/* that ended it */
};

static void *read_on(void *arg)
{
	struct reader *r = arg;
	ssize_t n;

	do {
		n = pread(r->file, r->view, r->size, 0);
		r->rounds++;
		/* A read that is cut short ends with the next one. */
	} while (n >= 0);
	r->error = errno;
	return NULL;
}

/* The memory's page view, as a program makes one that reads by itself. */
static char *map_view(struct demo *d, uint64_t gpu, struct peerdma_region **region)
{
	char *view = MAP_FAILED;
	int fd;

	if (!peerdma_pin(d->ctx, pointer(gpu), d->size, 0, NULL, region) &&
	    !peerdma_page_view(*region, 0, 0, 0, NULL, &fd)) {
		view = mmap(NULL, d->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
	}
	if (view != MAP_FAILED)
		return view;
	why_set(&d->why, "no page view: %s", peerdma_last_error());
	return NULL;
}

/* Frees the memory under the readers, and gives it to the next owner: the bytes that this one sees, before and after. */
static bool hand_over(struct demo *d, uint64_t gpu, struct reader readers[], char before[DIGEST_HEX], char after[DIGEST_HEX])
{
	char *bytes = malloc(d->size);
	uint64_t other;
	bool ok;

	sleep_ms(300);
	ok = bytes && gpu_free(&d->gpus[0], gpu, &d->why) && gpu_alloc(&d->gpus[0], d->size, &other, &d->why);
	if (ok) {
		pattern_fill(bytes, d->size, 99);
		sum_of(bytes, d->size, before);
		ok = gpu_write(&d->gpus[0], other, bytes, d->size, &d->why);
	}
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i].thread, NULL);
	ok = ok && sum_of_memory(d, other, d->size, after) && gpu_free(&d->gpus[0], other, &d->why);
	free(bytes);
	return ok;
}

static void freed(struct demo *d)
{
	char before[DIGEST_HEX] = "", after[DIGEST_HEX] = "";
	int file = open(path_of(d, "a"), O_RDONLY | O_DIRECT | O_CLOEXEC), refused = 0;
	struct peerdma_region *region;
	struct reader readers[READERS];
	uint64_t gpu, rounds = 0;
	char *view;

	screen_step(4, "Freed", "%d threads read into memory while it is freed, and the next owner gets it", READERS);
	view = gpu_alloc(&d->gpus[0], d->size, &gpu, &d->why) ? map_view(d, gpu, &region) : NULL;
	if (file < 0 || !view) {
		screen_fail("%s", file < 0 ? strerror(errno) : d->why.text);
		return;
	}
	for (int i = 0; i < READERS; i++) {
		readers[i] = (struct reader){ .file = file, .view = view, .size = d->size };
		pthread_create(&readers[i].thread, NULL, read_on, &readers[i]);
	}
	if (!hand_over(d, gpu, readers, before, after))
		screen_fail("%s", d->why.text);
	for (int i = 0; i < READERS; i++) {
		rounds += readers[i].rounds;
		refused += readers[i].error == EFAULT;
	}
	screen_check(refused == READERS, "reads", "%" PRIu64 " in all; then %d of %d threads got: %s", rounds, refused, READERS,
		     strerror(EFAULT));
	screen_check(!strcmp(before, after), "next owner", "%s... before, %s... after: nothing landed there", before, after);
	munmap(view, d->size);
	peerdma_unpin(region);
	close(file);
}

static void counted_back(struct demo *d)
{
	struct gpu_usage before, after;
	int left;

	screen_step(5, "Counted back", "what the machine has after all that");
	before = gpu_usage(&d->gpus[0]);
	peerdma_cache_close(d->cache);
	peerdma_close(d->ctx);
	after = gpu_usage(&d->gpus[0]);
	left = debugfs_lines(PINS);
	screen_check(!left, "pins", "%d are left", left);
	screen_check(after.known && after.bar1_used <= before.bar1_used, "BAR1", "%" PRIu64 " KiB in use, the driver's own",
		     after.bar1_used >> 10);
}

/* ---- the program ---- */

static int options(struct demo *d, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "size", required_argument, NULL, 's' }, { "witness", required_argument, NULL, 'w' },
		{ "help", no_argument, NULL, 'h' }, { 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 's':
			if (!parse_size(optarg, &d->size) || d->size % 4096 || d->size < (4 << 20)) {
				fprintf(stderr, "storage-demo: --size %s: must be at least 4M, and a multiple of 4096\n", optarg);
				return EXIT_USAGE;
			}
			break;
		case 'w':
			d->witness = optarg;
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(fflush(stdout) ? EXIT_FAIL : EXIT_PASS);
		default:
			return EXIT_USAGE;
		}
	}
	if (argc - optind != 2) {
		fputs(usage_text, stderr);
		return EXIT_USAGE;
	}
	d->folder = argv[optind];
	d->disk = argv[optind + 1];
	return EXIT_PASS;
}

int main(int argc, char **argv)
{
	static struct demo d = { .size = 4 << 20 };
	int code = options(&d, argc, argv);
	struct utsname u;

	if (code)
		return code;
	if (!begin(&d)) {
		fprintf(stderr, "storage-demo: %s\n", d.why.text);
		return EXIT_MISSING;
	}
	pci_bar(d.gpus[0].pci, GPU_BAR, &d.bar, &d.bar_length);
	if (!d.bar_length) {
		fprintf(stderr, "storage-demo: the GPU %s has no BAR for its memory: GPUs of system memory have no pages\n", d.gpus[0].pci);
		return EXIT_MISSING;
	}
	uname(&u);
	screen_open(stdout);
	screen_title("peerdma: files and GPU memory", u.release);
	screen_note("GPU %s (%s), memory at %#" PRIx64 "; disk %s; emulated: no figure is one of hardware", d.gpus[0].pci, d.gpus[0].name,
		    d.bar, d.disk);
	by_dma(&d);
	by_host(&d);
	odd_file(&d);
	if (d.witness)
		witness(&d);
	freed(&d);
	counted_back(&d);
	return screen_close("the disk and the GPU exchanged files without the CPU") ? EXIT_FAIL : EXIT_PASS;
}
