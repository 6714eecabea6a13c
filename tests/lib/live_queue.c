// SPDX-License-Identifier: MIT
/*
 * live_queue.c - queues of peerdma_file.h on a real file system: random operations at the same time, compared with a naive
 * model; cancellation, freed memory, forked children, threads; with io_uring and without.
 *
 *	live_queue direct|copied ENGINE FOLDER
 *
 * direct, copied: as live_files.c.  ENGINE:
 *	ring		io_uring is expected to be there
 *	threads		the program wants none
 *	filtered	a filter of system calls forbids it (EPERM), as in containers
 *	hidden		the same, with ENOSYS
 *	disabled	the system forbids it: kernel.io_uring_disabled
 *	lost		a filter forbids it after the queue was opened
 *	any		ring, if this process may have one; else threads
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_calls.h"
#include "peerdma_file.h"
#include "checks.h"

#define ALIGN	4096UL		/* enough for any disk */

static struct cuda_calls cu;
static struct peerdma *ctx;
static struct peerdma_cache *cache;
static void *context;
static bool direct, ring;
static uint32_t queue_flags;
static char folder[256];

static void *pointer(gpu_ptr p)
{
	return (void *)(uintptr_t)p;
}

/* A file without a name. */
static int make_file(size_t size)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/live_queue.XXXXXX", folder);
	fd = mkostemp(path, O_CLOEXEC);
	CHECK(fd >= 0 && !ftruncate(fd, (off_t)size), "%s: a file (%s)", path, strerror(errno));
	unlink(path);
	return fd;
}

static struct peerdma_file *open_file(int fd)
{
	struct peerdma_file *file = NULL;

	CHECK(!peerdma_file_open(cache, fd, 0, &file), "the file is prepared: %s", peerdma_last_error());
	return file;
}

static struct peerdma_file_queue *open_queue(uint32_t depth)
{
	struct peerdma_file_queue *queue = NULL;

	CHECK(!peerdma_file_queue_open(depth, queue_flags, &queue), "a queue: %s", peerdma_last_error());
	CHECK(ring ? !queue->why : queue->why != NULL, "io_uring is %s: %s", ring ? "used" : "not used", queue->why ? queue->why : "");
	return queue;
}

static bool readable(const struct peerdma_file_queue *queue)
{
	struct pollfd p = { .fd = queue->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static struct peerdma_file_io io_of(struct peerdma_file *file, bool write, void *ptr, uint64_t length, uint64_t offset)
{
	return (struct peerdma_file_io){
		.size = sizeof(struct peerdma_file_io), .flags = write ? PEERDMA_FILE_WRITE : 0, .file = file, .ptr = ptr,
		.length = length, .offset = offset, .result = 12345,
	};
}

static void submit_one(struct peerdma_file_queue *queue, struct peerdma_file_io *io)
{
	EXPECT(peerdma_file_submit(queue, &io, 1), 0);
}

/* ---- filters of system calls ---- */

static void forbid(int number, int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { .len = 4, .filter = code };

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
	CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter), "a filter: %s", strerror(errno));
}

static int ring_error(void)
{
	struct io_uring_params params = { 0 };
	int fd = (int)syscall(SYS_io_uring_setup, 1, &params);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/* ---- the model: lanes that share a file and an allocation, each with bytes of its own there ---- */

#define LANES	15UL		/* an odd number: the last one, where the file ends, begins with a page */
#define LANE	51000UL		/* neither a page nor a block: of two that lie side by side, one begins with a page */
#define ROUNDS	300

struct lane {
	struct peerdma_file_io io;
	bool busy, host;
	size_t at, offset;	/* of the operation under way, in the lane */
	unsigned char *memory;	/* host: what is transferred to */
	unsigned char file[LANE], model[LANE];
};
static struct lane lanes[LANES];
static struct peerdma_file *file;
static gpu_ptr gpu;
static size_t last_size;	/* the last lane's bytes in the file, which end with the file */
static unsigned int cancelled;

static size_t start_of(size_t number)
{
	return number / 2 * 25 * ALIGN + number % 2 * LANE;
}

static void lane_bytes(const struct lane *l, size_t at, size_t n, unsigned char *out)
{
	size_t number = (size_t)(l - lanes);

	if (l->host)
		memcpy(out, l->memory + at, n);
	else
		CHECK(!n || !cu.cuMemcpyDtoH_v2(out, gpu + start_of(number) + at, n), "a lane's bytes");
}

static void lanes_begin(uint64_t *seed, int fd)
{
	CHECK(!cu.cuMemAlloc_v2(&gpu, start_of(LANES + 1)), "GPU memory");
	memset(lanes, 0, sizeof(lanes));
	cancelled = 0;
	for (size_t i = 0; i < LANES; i++) {
		struct lane *l = &lanes[i];

		for (size_t b = 0; b < LANE; b++)
			l->model[b] = (unsigned char)below(seed, 256);
		l->host = i % 5 == 3;
		if (l->host) {
			CHECK(!posix_memalign((void **)&l->memory, ALIGN, 2 * LANE), "host memory");
			memcpy(l->memory, l->model, LANE);
		} else {
			CHECK(!cu.cuMemcpyHtoD_v2(gpu + start_of(i), l->model, LANE), "its content");
		}
	}
	last_size = 0;
	CHECK(!ftruncate(fd, (off_t)start_of(LANES - 1)), "its size");
}

static void lanes_end(void)
{
	cu.cuMemFree_v2(gpu);
	for (size_t i = 0; i < LANES; i++)
		free(lanes[i].memory);
}

static size_t some(uint64_t *seed, size_t max)
{
	size_t n = below(seed, 3) ? below(seed, max) : below(seed, 5000);

	return below(seed, 2) ? n / ALIGN * ALIGN : n;
}

/* A random operation; often at the same distance to an aligned byte in memory and in the file. */
static void lane_choose(struct lane *l, uint64_t *seed)
{
	size_t number = (size_t)(l - lanes), length;
	char *memory = l->host ? (char *)l->memory : pointer(gpu + start_of(number));

	l->at = some(seed, LANE - 1);
	l->offset = below(seed, 3) ? l->at : some(seed, LANE - 1);
	length = 1 + some(seed, LANE - 1);
	length = length > LANE - l->at ? LANE - l->at : length;
	length = length > LANE - l->offset ? LANE - l->offset : length;
	if (below(seed, 2) && length > ALIGN)
		length = length / ALIGN * ALIGN;
	l->io = io_of(file, below(seed, 2), memory + l->at, length, start_of(number) + l->offset);
	l->io.cookie = l;
	l->busy = true;
}

static size_t size_of(const struct lane *l)
{
	return l == &lanes[LANES - 1] ? last_size : LANE;
}

static void lane_check(struct lane *l, bool may_cancel)
{
	bool write = l->io.flags & PEERDMA_FILE_WRITE;
	size_t can = write ? l->io.length : l->offset < size_of(l) ? size_of(l) - l->offset : 0;
	size_t n = can < l->io.length ? can : l->io.length;

	l->busy = false;
	if (may_cancel && l->io.result == -ECANCELED) {
		cancelled++;
		return;
	}
	if (may_cancel && l->io.result >= 0 && (size_t)l->io.result < n)
		n = (size_t)l->io.result;
	EXPECT(l->io.result, (long long)n);
	if (!write) {
		memcpy(l->model + l->at, l->file + l->offset, n);
		/* Behind that it may be changed, up to the length. */
		lane_bytes(l, l->at + n, l->io.length - n, l->model + l->at + n);
		return;
	}
	if (l->offset > size_of(l))
		memset(l->file + size_of(l), 0, l->offset - size_of(l));
	memcpy(l->file + l->offset, l->model + l->at, n);
	if (l == &lanes[LANES - 1] && l->offset + n > last_size)
		last_size = l->offset + n;
}

static void lanes_compare(int fd)
{
	static unsigned char bytes[LANE];

	for (size_t i = 0; i < LANES; i++) {
		size_t size = size_of(&lanes[i]);

		lane_bytes(&lanes[i], 0, LANE, bytes);
		CHECK(!memcmp(bytes, lanes[i].model, LANE), "lane %zu: memory has what the model has", i);
		CHECK(pread(fd, bytes, LANE, (off_t)start_of(i)) == (ssize_t)size && !memcmp(bytes, lanes[i].file, size), "lane %zu: so has the file", i);
	}
}

static size_t reap(struct peerdma_file_queue *queue, size_t min, size_t max, int timeout, bool may_cancel)
{
	struct peerdma_file_io *done[LANES];
	int n = peerdma_file_wait(queue, done, min, max, timeout);

	CHECK(n >= 0 && (size_t)n <= max && (timeout != -1 || (size_t)n >= min), "wait returns %d: %s", n, n < 0 ? peerdma_last_error() : "");
	for (int i = 0; i < n; i++) {
		struct lane *l = done[i]->cookie;

		CHECK(done[i] == &l->io && l->busy, "an operation that was submitted, once");
		lane_check(l, may_cancel);
	}
	return n < 0 ? 0 : (size_t)n;
}

static size_t start_some(struct peerdma_file_queue *queue, uint64_t *seed)
{
	struct peerdma_file_io *ios[LANES];
	size_t n = 0;

	for (size_t i = 0; i < LANES; i++) {
		if (lanes[i].busy || below(seed, 2))
			continue;
		lane_choose(&lanes[i], seed);
		ios[n++] = &lanes[i].io;
	}
	EXPECT(peerdma_file_submit(queue, ios, n), 0);
	return n;
}

static void random_operations(bool with_cancel)
{
	struct peerdma_file_queue *queue = open_queue(LANES);
	struct peerdma_file_counters c = { .size = sizeof(c) };
	uint64_t seed = 20261129;
	size_t under_way = 0, done = 0;
	bool may_cancel = false;
	int fd = make_file(0);

	file = open_file(fd);
	lanes_begin(&seed, fd);
	for (int round = 0; round < ROUNDS && !check_counts.failures; round++) {
		size_t n, min, max;

		under_way += start_some(queue, &seed);
		if (with_cancel && !below(&seed, 3)) {
			CHECK(peerdma_file_cancel(queue) >= 0, "cancel");
			may_cancel = true;
		}
		min = below(&seed, under_way + 1);
		max = min + below(&seed, LANES + 1 - min);
		n = reap(queue, min, max ? max : 1, below(&seed, 2) ? -1 : (int)below(&seed, 2), may_cancel);
		under_way -= n;
		done += n;
		if (round % 10)
			continue;
		n = under_way ? reap(queue, under_way, LANES, -1, may_cancel) : 0;
		EXPECT(n, (long long)under_way);
		done += n;
		under_way = 0;
		may_cancel = false;
		lanes_compare(fd);
	}
	while (under_way)
		under_way -= reap(queue, under_way, LANES, -1, true);
	lanes_compare(fd);
	CHECK(!readable(queue), "nothing waits");
	CHECK(!peerdma_file_counters(file, &c), "counters");
	CHECK(direct ? c.direct : !c.direct, "%llu bytes directly, %llu copied: %s", (unsigned long long)c.direct,
	      (unsigned long long)c.copied, c.why);
	CHECK(!with_cancel || cancelled, "of %zu operations some were cancelled before they began", done);
	CHECK(c.copied && c.host, "%llu bytes copied, %llu of host memory", (unsigned long long)c.copied, (unsigned long long)c.host);
	CHECK(ring ? queue->by_ring : !queue->by_ring, "%llu by io_uring, %llu by threads, of %zu; %u cancelled",
	      (unsigned long long)queue->by_ring, (unsigned long long)queue->by_threads, done, cancelled);
	printf("%s: %zu operations, %llu transfers by io_uring, %llu by threads, %u cancelled\n", folder, done,
	       (unsigned long long)queue->by_ring, (unsigned long long)queue->by_threads, cancelled);
	peerdma_file_queue_close(queue);
	peerdma_file_close(file);
	lanes_end();
	close(fd);
}

/* ---- what a queue says ---- */

static void the_descriptor(void)
{
	struct peerdma_file_queue *queue = open_queue(4);
	struct peerdma_file_io io[3], *done[4];
	int fd = make_file(3 * ALIGN);
	struct pollfd p = { .fd = queue->fd, .events = POLLIN };
	gpu_ptr memory;

	CHECK(!cu.cuMemAlloc_v2(&memory, 4 * ALIGN), "GPU memory");
	file = open_file(fd);
	CHECK(!readable(queue), "nothing has ended");
	EXPECT(peerdma_file_wait(queue, done, 1, 4, -1), 0);
	/* One of each kind: the disk's, a copy, one that fails before it is made. */
	io[0] = io_of(file, false, pointer(memory), ALIGN, 0);
	io[1] = io_of(file, false, pointer(memory + ALIGN), 100, 3);
	io[2] = io_of(file, false, pointer(memory + 3 * ALIGN), 1UL << 40, 0);
	for (int i = 0; i < 3; i++) {
		submit_one(queue, &io[i]);
		CHECK(poll(&p, 1, 20000) == 1, "the end of operation %d is signalled", i);
		while (!peerdma_file_wait(queue, done, 0, 4, 0))
			CHECK(poll(&p, 1, 20000) == 1, "it may be none's; then there is another signal");
		CHECK(done[0] == &io[i] && !readable(queue), "it is operation %d, and nothing else waits", i);
	}
	EXPECT(io[0].result, (long long)ALIGN);
	EXPECT(io[1].result, 100);
	CHECK(io[2].result < 0, "more than the allocation: %lld", (long long)io[2].result);
	/* What is not taken at once is still signalled. */
	for (int i = 0; i < 2; i++)
		submit_one(queue, &io[i]);
	EXPECT(peerdma_file_wait(queue, done, 1, 1, -1), 1);
	CHECK(poll(&p, 1, 20000) == 1, "the other one is still signalled");
	EXPECT(peerdma_file_wait(queue, done, 1, 1, -1), 1);
	CHECK(!readable(queue), "nothing waits");
	peerdma_file_queue_close(queue);
	peerdma_file_close(file);
	cu.cuMemFree_v2(memory);
	close(fd);
}

static void refused(void)
{
	struct peerdma_file_queue *queue = NULL, *small;
	struct peerdma_file_io io[3], *ios[3] = { &io[0], &io[1], &io[2] }, *done[3];
	int fd = make_file(ALIGN);
	static char host[ALIGN];

	file = open_file(fd);
	EXPECT(peerdma_file_queue_open(0, 0, &queue), -EINVAL);
	EXPECT(peerdma_file_queue_open(4097, 0, &queue), -EINVAL);
	EXPECT(peerdma_file_queue_open(1, 2, &queue), -EINVAL);
	small = open_queue(2);
	for (int i = 0; i < 3; i++)
		io[i] = io_of(file, false, &host[16 * i], 10, 0);
	EXPECT(peerdma_file_submit(small, ios, 3), -EINVAL);
	/* All or none. */
	io[1].flags = 2;
	EXPECT(peerdma_file_submit(small, ios, 2), -EINVAL);
	io[1].flags = 0;
	io[1].size = 8;
	EXPECT(peerdma_file_submit(small, ios, 2), -EINVAL);
	io[1].size = sizeof(io[1]);
	io[1].length = 0;
	EXPECT(peerdma_file_submit(small, ios, 2), -EINVAL);
	io[1].length = 10;
	EXPECT(peerdma_file_wait(small, done, 0, 3, 0), 0);
	EXPECT(io[0].result, 12345);
	EXPECT(peerdma_file_submit(small, ios, 0), 0);
	EXPECT(peerdma_file_submit(small, ios, 2), 0);
	EXPECT(peerdma_file_submit(small, &ios[2], 1), -EAGAIN);
	EXPECT(peerdma_file_wait(small, done, 4, 3, 0), -EINVAL);
	EXPECT(peerdma_file_wait(small, done, 0, 0, 0), -EINVAL);
	EXPECT(peerdma_file_wait(small, done, 1, 3, -2), -EINVAL);
	EXPECT(peerdma_file_wait(small, done, 2, 3, -1), 2);
	EXPECT(peerdma_file_submit(small, &ios[2], 1), 0);
	/* The file may be closed: what is under way goes on. */
	peerdma_file_close(file);
	peerdma_file_queue_close(small);
	CHECK(io[2].result == 10 || io[2].result == -ECANCELED, "it has ended: %lld", (long long)io[2].result);
	peerdma_file_queue_close(NULL);
	close(fd);
}

/* Only directly, or not at all. */
static void direct_only(void)
{
	struct peerdma_file_queue *queue = open_queue(2);
	struct peerdma_file_io io[2], *ios[2] = { &io[0], &io[1] }, *done[2];
	struct peerdma_file *only = NULL;
	int fd = make_file(2 * ALIGN);
	gpu_ptr memory;

	CHECK(!cu.cuMemAlloc_v2(&memory, 8 * ALIGN), "GPU memory");
	CHECK(!peerdma_file_open(cache, fd, PEERDMA_FILE_DIRECT_ONLY, &only), "a file: %s", peerdma_last_error());
	/* The file ends in the middle of the first one. */
	io[0] = io_of(only, false, pointer(memory), 2 * ALIGN, ALIGN);
	io[1] = io_of(only, false, pointer(memory + 2 * ALIGN), 100, 0);
	EXPECT(peerdma_file_submit(queue, ios, 2), 0);
	EXPECT(peerdma_file_wait(queue, done, 2, 2, -1), 2);
	EXPECT(io[0].result, direct ? (long long)ALIGN : -EOPNOTSUPP);
	EXPECT(io[1].result, -EOPNOTSUPP);
	CHECK(!ftruncate(fd, 0) && !ftruncate(fd, 3 * ALIGN + 512), "another size");
	io[0] = io_of(only, false, pointer(memory), 8 * ALIGN, 0);
	EXPECT(peerdma_file_submit(queue, ios, 1), 0);
	EXPECT(peerdma_file_wait(queue, done, 1, 2, -1), 1);
	EXPECT(io[0].result, direct ? (long long)(3 * ALIGN + 512) : -EOPNOTSUPP);
	peerdma_file_close(only);
	peerdma_file_queue_close(queue);
	cu.cuMemFree_v2(memory);
	close(fd);
}

/* ---- closed and cancelled ---- */

#define MANY	64UL
#define PIECE	(64UL << 10)

static void closed(void)
{
	struct peerdma_file_queue *queue = open_queue(MANY);
	struct peerdma_file_io io[MANY], *ios[MANY], *done[MANY];
	int fd = make_file(MANY * PIECE), n, count = 0;
	gpu_ptr memory;

	CHECK(!cu.cuMemAlloc_v2(&memory, MANY * PIECE), "GPU memory");
	file = open_file(fd);
	/* Every other one has to be copied. */
	for (size_t i = 0; i < MANY; i++) {
		io[i] = io_of(file, i % 3 == 0, pointer(memory + i * PIECE + i % 2), PIECE - 1, i * PIECE);
		ios[i] = &io[i];
	}
	EXPECT(peerdma_file_submit(queue, ios, MANY), 0);
	n = peerdma_file_cancel(queue);
	CHECK(n >= 0, "how many have not begun: %d", n);
	EXPECT(peerdma_file_wait(queue, done, MANY, MANY, -1), (long long)MANY);
	for (size_t i = 0; i < MANY; i++) {
		CHECK(io[i].result == -ECANCELED || (io[i].result >= 0 && io[i].result <= (long long)PIECE),
		      "operation %zu ends with %lld", i, (long long)io[i].result);
		count += io[i].result == -ECANCELED;
	}
	CHECK(count <= n, "%d of %d had transferred nothing", count, n);
	/* What is submitted afterwards is made. */
	submit_one(queue, &io[1]);
	EXPECT(peerdma_file_wait(queue, done, 1, 1, -1), 1);
	EXPECT(io[1].result, PIECE - 1);
	/* Closed while they are under way: their results are there. */
	for (size_t i = 0; i < MANY; i++)
		io[i].result = 12345;
	EXPECT(peerdma_file_submit(queue, ios, MANY), 0);
	peerdma_file_queue_close(queue);
	for (size_t i = 0; i < MANY; i++)
		CHECK(io[i].result != 12345, "operation %zu has ended", i);
	peerdma_file_close(file);
	cu.cuMemFree_v2(memory);
	close(fd);
}

/* ---- memory that is freed under its operations ---- */

#define BIG	(1UL << 20)

/*
 * Whatever the disk still does, it does not reach the memory that is now there.  Not so in the process's own software GPU, whose
 * memory is ordinary memory: its free waits for no disk.
 */
static void freed(bool exact)
{
	static unsigned char bytes[8 * BIG];
	struct peerdma_file_queue *queue = open_queue(8);
	struct peerdma_file_io io[8], *ios[8], *done[8];
	int fd = make_file(0), ended = 0, stale = 0;
	gpu_ptr memory, other;

	memset(bytes, 'f', sizeof(bytes));
	CHECK(pwrite(fd, bytes, sizeof(bytes), 0) == sizeof(bytes), "a file");
	file = open_file(fd);
	for (int round = 0; round < 20; round++) {
		CHECK(!cu.cuMemAlloc_v2(&memory, 8 * BIG) && !cu.cuMemsetD8_v2(memory, 'm', 8 * BIG), "GPU memory");
		for (size_t i = 0; i < 8; i++) {
			io[i] = io_of(file, false, pointer(memory + i * BIG), exact ? BIG : BIG - i % 2, i * BIG);
			ios[i] = &io[i];
		}
		EXPECT(peerdma_file_submit(queue, ios, 8), 0);
		if (round % 3)
			EXPECT(peerdma_file_wait(queue, done, (size_t)round % 3, (size_t)round % 3, -1), round % 3);
		for (int i = 0; i < round % 3; i++)
			done[i]->cookie = done;
		CHECK(!cu.cuMemFree_v2(memory), "it is freed");
		CHECK(!cu.cuMemAlloc_v2(&other, 8 * BIG) && !cu.cuMemsetD8_v2(other, 'n', 8 * BIG), "new memory");
		EXPECT(peerdma_file_wait(queue, done, 8 - (size_t)round % 3, 8, -1), 8 - round % 3);
		for (size_t i = 0; i < 8; i++) {
			CHECK(io[i].result == (long long)io[i].length || io[i].result == -ESTALE,
			      "round %d, operation %zu: %lld", round, i, (long long)io[i].result);
			/* The library has not looked at its end before the free. */
			CHECK(!ring || !direct || io[i].cookie || io[i].length < BIG || io[i].result == -ESTALE,
			      "round %d, operation %zu, of freed memory: %lld", round, i, (long long)io[i].result);
			stale += io[i].result == -ESTALE;
			ended++;
		}
		CHECK(!cu.cuMemcpyDtoH_v2(bytes, other, 8 * BIG), "its bytes");
		for (size_t i = 0; exact && i < 8 * BIG; i++) {
			if (bytes[i] != 'n') {
				CHECK(false, "round %d: byte %zu of new memory is %u", round, i, bytes[i]);
				break;
			}
		}
		cu.cuMemFree_v2(other);
	}
	CHECK(stale, "the free came before the end of none of %d operations", ended);
	peerdma_file_queue_close(queue);
	peerdma_file_close(file);
	close(fd);
}

/* ---- forked children ---- */

static int in_child(struct peerdma_file_queue *queue, struct peerdma_file_io *io)
{
	struct peerdma_file_io *done[1];

	alarm(30);
	if (peerdma_file_submit(queue, &io, 1) != -EPERM || peerdma_file_wait(queue, done, 0, 1, 0) != -EPERM ||
	    peerdma_file_cancel(queue) != -EPERM)
		return 1;
	peerdma_file_queue_close(queue);
	return 0;
}

static void forked(void)
{
	struct peerdma_file_queue *queue = open_queue(8);
	struct peerdma_file_io io[8], *ios[8], *done[8];
	int fd = make_file(8 * PIECE), status;
	gpu_ptr memory;
	pid_t pid;

	CHECK(!cu.cuMemAlloc_v2(&memory, 8 * PIECE), "GPU memory");
	file = open_file(fd);
	for (size_t i = 0; i < 8; i++) {
		io[i] = io_of(file, true, pointer(memory + i * PIECE), PIECE - i % 2, i * PIECE);
		ios[i] = &io[i];
	}
	for (int round = 0; round < 5; round++) {
		EXPECT(peerdma_file_submit(queue, ios, 8), 0);
		pid = fork();
		if (!pid)
			_exit(in_child(queue, ios[0]));
		CHECK(waitpid(pid, &status, 0) == pid && !status, "the child may nothing, and ends: %d", status);
		EXPECT(peerdma_file_wait(queue, done, 8, 8, -1), 8);
		for (size_t i = 0; i < 8; i++)
			EXPECT(io[i].result, (long long)(PIECE - i % 2));
	}
	peerdma_file_queue_close(queue);
	peerdma_file_close(file);
	cu.cuMemFree_v2(memory);
	close(fd);
}

/* ---- threads that submit, and threads that wait ---- */

#define EACH	200

static struct peerdma_file_queue *shared;
static struct peerdma_file_io all[4][EACH];
static gpu_ptr shared_memory;
static _Atomic unsigned int returned;

static void *submitter(void *arg)
{
	size_t number = (size_t)arg;

	cu.cuCtxSetCurrent(context);
	for (size_t i = 0; i < EACH; i++) {
		struct peerdma_file_io *io = &all[number][i];
		int ret;

		*io = io_of(file, false, pointer(shared_memory + (number * EACH + i) * ALIGN), i % 3 ? ALIGN : 1000, i % 3 * 16);
		while ((ret = peerdma_file_submit(shared, &io, 1)) == -EAGAIN)
			sched_yield();
		if (ret)
			return "submit";
	}
	return NULL;
}

static void *waiter(void *arg)
{
	struct peerdma_file_io *done[8];

	(void)arg;
	while (returned < 4 * EACH) {
		int n = peerdma_file_wait(shared, done, 1, 8, 5);

		if (n < 0)
			return "wait";
		for (int i = 0; i < n; i++) {
			if (done[i]->result != (int64_t)done[i]->length)
				return "a result";
		}
		returned += (unsigned int)n;
	}
	return NULL;
}

static void threads(void)
{
	int fd = make_file(2 * ALIGN);
	pthread_t of[6];
	void *failed;

	shared = open_queue(16);
	file = open_file(fd);
	returned = 0;
	CHECK(!cu.cuMemAlloc_v2(&shared_memory, 4 * EACH * ALIGN), "GPU memory");
	for (size_t i = 0; i < 6; i++)
		CHECK(!pthread_create(&of[i], NULL, i < 4 ? submitter : waiter, (void *)i), "a thread");
	for (size_t i = 0; i < 6; i++)
		CHECK(!pthread_join(of[i], &failed) && !failed, "thread %zu: %s", i, failed ? (char *)failed : "");
	EXPECT(returned, 4 * EACH);
	peerdma_file_queue_close(shared);
	peerdma_file_close(file);
	cu.cuMemFree_v2(shared_memory);
	close(fd);
}

/* ---- threads that submit and end ---- */

/* What io_uring does in a thread's name, it gives up when the thread ends. */
static void *submits_and_ends(void *arg)
{
	struct peerdma_file_io *ios[MANY / 4];
	size_t number = (size_t)arg;

	cu.cuCtxSetCurrent(context);
	for (size_t i = 0; i < MANY / 4; i++)
		ios[i] = &all[0][number * (MANY / 4) + i];
	return peerdma_file_submit(shared, ios, MANY / 4) ? "submit" : NULL;
}

static void ended_threads(void)
{
	struct peerdma_file_io *done[MANY];
	pthread_t of[4];
	gpu_ptr memory;
	void *failed;
	int fd;

	CHECK(!cu.cuMemAlloc_v2(&memory, MANY * PIECE) && !cu.cuMemsetD8_v2(memory, 'e', MANY * PIECE), "GPU memory");
	shared = open_queue(MANY);
	for (int round = 0; round < 5; round++) {
		/* Writes that make the file longer are what io_uring leaves to threads of the kernel's. */
		fd = make_file(0);
		file = open_file(fd);
		for (size_t i = 0; i < MANY; i++)
			all[0][i] = io_of(file, true, pointer(memory + i * PIECE), PIECE, i * PIECE);
		for (size_t i = 0; i < 4; i++)
			CHECK(!pthread_create(&of[i], NULL, submits_and_ends, (void *)i), "a thread");
		for (size_t i = 0; i < 4; i++)
			CHECK(!pthread_join(of[i], &failed) && !failed, "thread %zu: %s", i, failed ? (char *)failed : "");
		EXPECT(peerdma_file_wait(shared, done, MANY, MANY, -1), (long long)MANY);
		for (size_t i = 0; i < MANY; i++)
			EXPECT(all[0][i].result, (long long)PIECE);
		peerdma_file_close(file);
		close(fd);
	}
	peerdma_file_queue_close(shared);
	cu.cuMemFree_v2(memory);
}

/* ---- io_uring is taken away from an open queue ---- */

static void lost(void)
{
	struct peerdma_file_queue *queue = open_queue(MANY);
	struct peerdma_file_io io[MANY], *ios[MANY], *done[MANY];
	struct pollfd p = { .fd = queue->fd, .events = POLLIN };
	int fd = make_file(MANY * PIECE);
	size_t n = 0;
	gpu_ptr memory;

	CHECK(!cu.cuMemAlloc_v2(&memory, MANY * PIECE) && !cu.cuMemsetD8_v2(memory, 'l', MANY * PIECE), "GPU memory");
	file = open_file(fd);
	for (size_t i = 0; i < MANY; i++) {
		io[i] = io_of(file, true, pointer(memory + i * PIECE + i % 2), PIECE - i % 2, i * PIECE);
		ios[i] = &io[i];
	}
	/* Some are under way by io_uring and by threads, then others come. */
	EXPECT(peerdma_file_submit(queue, ios, MANY / 2), 0);
	forbid(SYS_io_uring_enter, EPERM);
	EXPECT(peerdma_file_submit(queue, ios + MANY / 2, MANY / 2), 0);
	while (n < MANY) {
		int got;

		CHECK(poll(&p, 1, 20000) == 1, "ends are signalled: %zu so far", n);
		got = peerdma_file_wait(queue, done, n % 2, MANY, -1);
		CHECK(got >= 0, "wait: %s", peerdma_last_error());
		n += got > 0 ? (size_t)got : 0;
		if (check_counts.failures)
			return;
	}
	EXPECT(n, (long long)MANY);
	for (size_t i = 0; i < MANY; i++)
		EXPECT(io[i].result, (long long)(PIECE - i % 2));
	CHECK(queue->why && strstr(queue->why, "not allowed"), "it is said: %s", queue->why ? queue->why : "");
	CHECK(!readable(queue), "nothing waits");
	peerdma_file_queue_close(queue);
	/* The next one has none from the beginning on, if the kernel would give it no ring; else from its first use on. */
	peerdma_file_close(file);
	cu.cuMemFree_v2(memory);
	close(fd);
}

/* ---- */

static bool choose(const char *engine)
{
	int error;

	if (!strcmp(engine, "threads"))
		queue_flags = PEERDMA_FILE_QUEUE_THREADS;
	else if (!strcmp(engine, "filtered"))
		forbid(SYS_io_uring_setup, EPERM);
	else if (!strcmp(engine, "hidden"))
		forbid(SYS_io_uring_setup, ENOSYS);
	error = ring_error();
	if (!strcmp(engine, "lost") && error) {
		printf("skipped: there is no io_uring that could be taken away: %s\n", strerror(error));
		exit(77);
	}
	if (!strcmp(engine, "any") || !strcmp(engine, "threads"))
		ring = !error && !queue_flags;
	else if (!strcmp(engine, "ring") || !strcmp(engine, "lost"))
		ring = true;
	else if (!strcmp(engine, "disabled"))
		CHECK(error == EPERM, "the system forbids io_uring: %s", strerror(error));
	else if (strcmp(engine, "filtered") && strcmp(engine, "hidden"))
		return false;
	return true;
}

int main(int argc, char **argv)
{
	if (argc != 4 || (strcmp(argv[1], "direct") && strcmp(argv[1], "copied"))) {
		fprintf(stderr, "usage: live_queue direct|copied ring|threads|filtered|hidden|disabled|lost|any FOLDER\n");
		return 2;
	}
	direct = !strcmp(argv[1], "direct");
	snprintf(folder, sizeof(folder), "%s", argv[3]);
	if (!choose(argv[2])) {
		fprintf(stderr, "live_queue: no such engine: %s\n", argv[2]);
		return 2;
	}
	if (!cuda_calls_load(&cu) || cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context)) {
		fprintf(stderr, "no CUDA\n");
		return 1;
	}
	CHECK(!peerdma_open(&ctx, 0) && !peerdma_cache_open(ctx, NULL, &cache), "a cache: %s", peerdma_last_error());
	if (!strcmp(argv[2], "lost")) {
		lost();
	} else {
		random_operations(false);
		random_operations(true);
		the_descriptor();
		refused();
		direct_only();
		closed();
/* In the process's own software GPU it is a race, and meant to be one. */
#ifndef __SANITIZE_THREAD__
		freed(false);
#endif
		if (direct && getenv("PEERDMA_PROVIDER") && !strcmp(getenv("PEERDMA_PROVIDER"), "kernel"))
			freed(true);
		forked();
		threads();
		ended_threads();
	}
	peerdma_cache_close(cache);
	peerdma_close(ctx);
	return check_end("queues");
}
