// SPDX-License-Identifier: MIT
/*
 * bench-storage - what reading a file into GPU memory costs, beside the kernel's own calls: pread(2) with O_DIRECT into host
 * memory, and io_uring.  Where the clock counts instructions (bench/run), the values are instructions of the calling thread,
 * in the kernel, too.
 *
 *	bench-storage FOLDER [--json] [--repeats N] [--time]
 *
 * --time: by the elapsed time.
 */
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "comparison.h"
#include "cufile.h"
#include "gpu_need.h"
#include "peerdma_file.h"

#define MIB		(1UL << 20)
#define MAX_LENGTH	(16 * MIB)
#define SMALL		4096UL
#define BATCH		32U

/* The kernel's: pread() into host memory, in pages of 4 KiB; in the last row io_uring, into the page view. */
enum subject { KERNEL, HUGE, VIEW, FILES, CUFILE, SUBJECTS };
static const char *const subjects[SUBJECTS] = { "kernel", "huge pages", "page view", "peerdma_file", "cuFile" };

enum row { AGAIN, ONE, FOUR, SIXTEEN, RANDOM, ROWS };
static const char *const rows[ROWS] = { "4 KiB", "1 MiB", "4 MiB", "16 MiB", "4 KiB at random, 32 at once" };
static const uint64_t lengths[ROWS] = { SMALL, MIB, 4 * MIB, MAX_LENGTH, SMALL };

static int file_fd;
static char *host, *huge, *view, *gpu_memory;
static struct peerdma_cache *cache;
static struct peerdma_file *file;
static struct peerdma_file_queue *queue;
static CUfileHandle_t handle;
static CUfileBatchHandle_t batch;
static struct io_uring ring;
static clockid_t clock_id = CLOCK_THREAD_CPUTIME_ID;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bench-storage: %s: %s\n", what, peerdma_last_error());
	exit(1);
}

static double now(void)
{
	return clock_ns(clock_id);
}

/* ---- 4 KiB at random ---- */

/* The same places for all. */
static uint64_t place(unsigned int i)
{
	static uint64_t seed = 1;

	if (!i)
		seed = 1;
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % (MAX_LENGTH / SMALL) * SMALL;
}

static void by_ring(void)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;

	for (unsigned int i = 0; i < BATCH; i++)
		io_uring_prep_read(io_uring_get_sqe(&ring), file_fd, view + i * SMALL, SMALL, place(i));
	must(io_uring_submit_and_wait(&ring, BATCH) == BATCH, "io_uring");
	io_uring_for_each_cqe(&ring, head, cqe) {
		must(cqe->res == (int)SMALL, "a read by io_uring");
		n++;
	}
	io_uring_cq_advance(&ring, n);
	must(n == BATCH, "all reads by io_uring");
}

static void by_queue(void)
{
	struct peerdma_file_io io[BATCH], *ios[BATCH], *done[BATCH];

	for (unsigned int i = 0; i < BATCH; i++) {
		io[i] = (struct peerdma_file_io){ .size = sizeof(io[i]), .file = file, .ptr = gpu_memory + i * SMALL,
						  .length = SMALL, .offset = place(i) };
		ios[i] = &io[i];
	}
	must(!peerdma_file_submit(queue, ios, BATCH) && peerdma_file_wait(queue, done, BATCH, BATCH, -1) == BATCH, "a queue");
	for (unsigned int i = 0; i < BATCH; i++)
		must(io[i].result == (int64_t)SMALL, "a read by a queue");
}

static void by_batch(void)
{
	CUfileIOParams_t p[BATCH] = { 0 };
	CUfileIOEvents_t events[BATCH];
	unsigned int n = BATCH;

	for (unsigned int i = 0; i < BATCH; i++) {
		p[i].mode = CUFILE_BATCH;
		p[i].fh = handle;
		p[i].opcode = CUFILE_READ;
		p[i].u.batch.devPtr_base = gpu_memory;
		p[i].u.batch.devPtr_offset = (off_t)(i * SMALL);
		p[i].u.batch.file_offset = (off_t)place(i);
		p[i].u.batch.size = SMALL;
	}
	must(!cuFileBatchIOSubmit(batch, BATCH, p, 0).err && !cuFileBatchIOGetStatus(batch, BATCH, &n, events, NULL).err && n == BATCH,
	     "a batch");
	for (unsigned int i = 0; i < BATCH; i++)
		must(events[i].ret == SMALL, "a read by a batch");
}

/* ---- in a row ---- */

static ssize_t one_read(int subject, uint64_t length, uint64_t offset)
{
	switch (subject) {
	case KERNEL:
		return pread(file_fd, host, length, (off_t)offset);
	case HUGE:
		return pread(file_fd, huge, length, (off_t)offset);
	case VIEW:
		return pread(file_fd, view, length, (off_t)offset);
	case FILES:
		return peerdma_file_read(file, gpu_memory, length, offset);
	default:
		return cuFileRead(handle, gpu_memory, length, (off_t)offset, 0);
	}
}

/* For each byte, but of 4 KiB for each read. */
static double measure(int row, int subject)
{
	uint64_t length = lengths[row], times = row == AGAIN ? 32 : row == SIXTEEN ? 4 : MAX_LENGTH / length;
	double begin = now();

	if (row == RANDOM) {
		switch (subject) {
		case KERNEL:
			by_ring();
			break;
		case FILES:
			by_queue();
			break;
		case CUFILE:
			by_batch();
			break;
		default:
			return NAN;
		}
		return (now() - begin) / BATCH;
	}
	for (uint64_t i = 0; i < times; i++)
		must(one_read(subject, length, i * length % MAX_LENGTH) == (ssize_t)length, "a read");
	return (now() - begin) / (double)times / (row == AGAIN ? 1 : (double)(length / MIB));
}

/* The cache's hit, of which each read by peerdma_file.h has one. */
static double hit(void)
{
	struct peerdma_cached *hold;
	double begin = 0;

	/* The first ones warm up. */
	for (int i = 0; i < 2000; i++) {
		if (i == 1000)
			begin = now();
		must(!peerdma_cache_get(cache, gpu_memory, SMALL, &hold), "a lookup");
		peerdma_cache_put(cache, hold);
	}
	return (now() - begin) / 1000;
}

/* ---- */

static struct comparison c = {
	.program = "bench-storage", .rounds = 11, .rows = rows, .row_count = ROWS, .subjects = subjects,
	.subject_count = SUBJECTS, .measure = measure,
	.what = "reads of a file: instructions (or ns) of the calling thread for each read of 4 KiB, else for each MiB; ratios to the kernel's own call",
};

static void open_file(const char *folder)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/bench-storage", folder);
	file_fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);
	must(file_fd >= 0, path);
	unlink(path);
	must(pwrite(file_fd, host, MAX_LENGTH, 0) == (ssize_t)MAX_LENGTH && !fsync(file_fd), "the file's bytes");
}

static void open_subjects(void)
{
	CUfileDescr_t d = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD, .handle.fd = file_fd };
	struct peerdma_cached *hold;
	struct peerdma *ctx;
	int fd;

	must(!peerdma_open(&ctx, 0) && !peerdma_cache_open(ctx, NULL, &cache), "a cache");
	must(!peerdma_cache_get(cache, gpu_memory, MAX_LENGTH, &hold), "a pin");
	must(!peerdma_page_view(hold->registration, 0, 0, 0, NULL, &fd), "a page view");
	view = mmap(NULL, MAX_LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(view != MAP_FAILED, "its mapping");
	peerdma_cache_put(cache, hold);
	must(!peerdma_file_open(cache, file_fd, 0, &file), "the file");
	must(!peerdma_file_queue_open(BATCH, 0, &queue) && !queue->why, "a queue with io_uring");
	must(!cuFileHandleRegister(&handle, &d).err && !cuFileBufRegister(gpu_memory, MAX_LENGTH, 0).err, "cuFile");
	must(!cuFileBatchIOSetUp(&batch, BATCH).err, "a batch");
	must(!io_uring_queue_init(BATCH, &ring, 0), "io_uring");
}

static bool above(int row, int subject, int to, double goal)
{
	double ratio = value_of(&c, row, subject) / value_of(&c, row, to);

	if (ratio <= goal)
		return false;
	fprintf(stderr, "bench-storage: %s: %s takes %.3f of what %s takes, above the goal of %.2f\n", rows[row], subjects[subject], ratio,
		subjects[to], goal);
	return true;
}

static int judge(void)
{
	struct peerdma_file_counters counters = { .size = sizeof(counters) };
	int missed = 0;

	for (int row = ONE; row <= SIXTEEN; row++)
		missed += above(row, VIEW, KERNEL, 1 / 0.95);
	missed += above(ONE, FILES, KERNEL, 1.1) + above(ONE, CUFILE, KERNEL, 1.1);
	missed += above(RANDOM, FILES, KERNEL, 1.15) + above(RANDOM, CUFILE, KERNEL, 1.15);
	must(!peerdma_file_counters(file, &counters), "counters");
	if (counters.copied) {
		fprintf(stderr, "bench-storage: %llu bytes were copied: %s\n", (unsigned long long)counters.copied, counters.why);
		missed++;
	}
	return missed > 0;
}

/* Both begin at a multiple of 2 MiB. */
static char *host_memory(int advice)
{
	size_t length = MAX_LENGTH + 2 * MIB;
	uintptr_t p = (uintptr_t)mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must((void *)p != MAP_FAILED && !madvise((void *)p, length, advice), "host memory");
	p = (p + 2 * MIB - 1) & -(2 * MIB);
	memset((void *)p, 's', MAX_LENGTH);
	return (char *)p;
}

int main(int argc, char **argv)
{
	if (argc < 2 || argv[1][0] == '-') {
		fprintf(stderr, "usage: bench-storage FOLDER [--json] [--repeats N] [--time]\n");
		return 2;
	}
	if (argc > 2 && !strcmp(argv[argc - 1], "--time")) {
		clock_id = CLOCK_MONOTONIC;
		argc--;
	}
	comparison_options(&c, argc - 1, argv + 1);
	gpu_need(false, 1);
	host = host_memory(MADV_NOHUGEPAGE);
	huge = host_memory(MADV_HUGEPAGE);
	gpu_memory = (char *)(uintptr_t)gpu_need_memory(MAX_LENGTH);
	open_file(argv[1]);
	open_subjects();
	comparison_run(&c);
	comparison_print(&c);
	if (!c.json)
		printf("a hit of the registration cache, and its put: %.0f\n", hit());
	return judge();
}
