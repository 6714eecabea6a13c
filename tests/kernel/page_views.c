// SPDX-License-Identifier: MIT
/*
 * page_views.c - page views (PEERDMA_PAGES): Linux's own NVMe driver reads into GPU memory and
 * writes from it, and the memory is taken back.
 *
 *	page_views DISK [none]
 *
 * DISK: a block device, whose content the test overwrites.  none: GPU memory has no pages.
 */
#include <linux/io_uring.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "peerdma_test_gpu.h"

#define SEEN_LENGTH	(MIB)
#define MOST		4096	/* pieces of 64 KiB, more than the GPU has */

static int disk;
static int rounds = 30;

struct seen {
	int file, fd;
	uint32_t handle;
	uint64_t va;
	char *view;
};

/* ---- making views ---- */

static int pages(int fd, uint32_t handle, uint32_t flags, uint64_t offset, uint64_t length)
{
	struct peerdma_pages_args a = {
		.size = sizeof(a), .handle = handle, .flags = flags, .offset = offset, .length = length,
	};

	return ioctl(fd, PEERDMA_PAGES, &a) ? -1 : a.fd;
}

static void seen_make(struct seen *s, uint32_t flags)
{
	struct peerdma_pin_args a;

	s->file = dev_open();
	s->va = gpu_alloc(SEEN_LENGTH);
	WORKS(pin_va(s->file, s->va, SEEN_LENGTH, PEERDMA_PIN_DEVICE, &a));
	s->handle = a.handle;
	s->fd = pages(s->file, a.handle, flags, 0, 0);
	MUST(s->fd >= 0);
	s->view = mmap(NULL, SEEN_LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	MUST(s->view != MAP_FAILED);
}

static void seen_free(struct seen *s)
{
	CHECK(!cu.MemFree(s->va));
}

static void seen_end(struct seen *s)
{
	CHECK(!munmap(s->view, SEEN_LENGTH) && !close(s->fd) && !close(s->file));
}

/* Pins that keep memory, in all of the system, and of those how many are parked. */
static unsigned int kept(const char *client)
{
	char line[4096];
	unsigned int n = 0;
	FILE *f = fopen("/sys/kernel/debug/peerdma/pins", "re");

	MUST(f);
	while (fgets(line, sizeof(line), f))
		n += !!strstr(line, client);
	fclose(f);
	return n;
}

/* A view that was closed gives its memory back a little later. */
static void none_left(void)
{
	int fd = dev_open();

	CHECK(UNTIL(!kept("page view") && !live_pins(fd)));
	close(fd);
	check_none_left();
}

/* ---- what is written by one side is read by the other ---- */

static char bytes[SEEN_LENGTH] __attribute__((aligned(4096)));

static void pattern(unsigned int seed)
{
	for (size_t i = 0; i < SEEN_LENGTH; i += sizeof(seed)) {
		memcpy(bytes + i, &seed, sizeof(seed));
		seed = seed * 1664525 + 1013904223;
	}
}

static bool gpu_has(uint64_t va)
{
	static char back[SEEN_LENGTH];

	CHECK(!cu.MemcpyDtoH(back, va, SEEN_LENGTH) && !cu.CtxSynchronize());
	return !memcmp(back, bytes, SEEN_LENGTH);
}

static void both_ways(void)
{
	struct seen s;

	seen_make(&s, 0);
	pattern(1);
	CHECK(pwrite(disk, bytes, SEEN_LENGTH, 0) == (ssize_t)SEEN_LENGTH);
	CHECK(pread(disk, s.view, SEEN_LENGTH, 0) == (ssize_t)SEEN_LENGTH);
	CHECK(gpu_has(s.va));
	pattern(2);
	CHECK(!cu.MemcpyHtoD(s.va, bytes, SEEN_LENGTH) && !cu.CtxSynchronize());
	CHECK(pwrite(disk, s.view, SEEN_LENGTH, SEEN_LENGTH) == (ssize_t)SEEN_LENGTH);
	memset(bytes, 0, SEEN_LENGTH);
	CHECK(pread(disk, bytes, SEEN_LENGTH, SEEN_LENGTH) == (ssize_t)SEEN_LENGTH);
	CHECK(gpu_has(s.va));
	/* Part of it, by a second view that begins inside the memory. */
	int part = pages(s.file, s.handle, 0, GPU_PAGE + PAGE, PAGE);
	char *view = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, part, 0);

	MUST(part >= 0 && view != MAP_FAILED);
	CHECK(!memcmp(view, bytes + GPU_PAGE + PAGE, PAGE));
	CHECK(mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, part, 0) == MAP_FAILED && errno == EINVAL);
	munmap(view, PAGE);
	close(part);
	seen_free(&s);
	seen_end(&s);
}

/* ---- the memory is taken back ---- */

/* Returns how many bytes the read got, or -errno. */
static ssize_t read_part(const struct seen *s, size_t offset, size_t length)
{
	ssize_t n = pread(disk, s->view + offset, length, (off_t)offset);

	return n < 0 ? -errno : n;
}

static ssize_t read_into(const struct seen *s)
{
	return read_part(s, 0, SEEN_LENGTH);
}

static void after_free(void)
{
	struct seen s;

	seen_make(&s, 0);
	CHECK(read_into(&s) == (ssize_t)SEEN_LENGTH);
	CHECK(kept("page view") == 1);
	seen_free(&s);
	CHECK(kept("page view") == 0);
	CHECK(signal_of_read(s.view) == SIGBUS);
	CHECK(read_into(&s) == -EFAULT);
	/* A new mapping shows nothing either, nor does a view that comes too late. */
	char *again = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, s.fd, 0);

	CHECK(again != MAP_FAILED && signal_of_read(again) == SIGBUS);
	FAILS(ESTALE, pages(s.file, s.handle, 0, 0, 0));
	munmap(again, PAGE);
	seen_end(&s);
	none_left();
}

static void after_unpin(void)
{
	struct seen s;

	seen_make(&s, 0);
	CHECK(read_into(&s) == (ssize_t)SEEN_LENGTH);
	WORKS(unpin(s.file, s.handle));
	CHECK(kept("page view") == 0 && signal_of_read(s.view) == SIGBUS);
	seen_free(&s);
	seen_end(&s);
	/* The last close ends a view, too. */
	seen_make(&s, 0);
	CHECK(read_into(&s) == (ssize_t)SEEN_LENGTH);
	CHECK(!munmap(s.view, SEEN_LENGTH) && !close(s.fd));
	CHECK(UNTIL(kept("page view") == 0));
	seen_free(&s);
	CHECK(!close(s.file));
	none_left();
}

struct reader {
	const struct seen *s;
	volatile bool stop;
	ssize_t last;
	struct task task;
};

static void read_on(void *arg)
{
	struct reader *r = arg;

	do {
		r->last = read_into(r->s);
	} while (r->last == (ssize_t)SEEN_LENGTH && !r->stop);
}

/* Each into a part of its own: a kernel that checks DMA warns of a page that is mapped for several transfers. */
#define READERS		4
#define PART		(SEEN_LENGTH / READERS)

struct part_reader {
	const struct seen *s;
	size_t offset;
	ssize_t last;
	struct task task;
};

static void read_part_on(void *arg)
{
	struct part_reader *r = arg;

	do {
		r->last = read_part(r->s, r->offset, PART);
	} while (r->last == (ssize_t)PART);
}

/* The memory is freed while threads read into it; then it belongs to others, and stays as they left it. */
static void free_under_reads(void)
{
	struct part_reader readers[READERS];
	uint64_t reused;
	struct seen s;

	for (int round = 0; round < rounds; round++) {
		seen_make(&s, 0);
		for (int i = 0; i < READERS; i++) {
			readers[i] = (struct part_reader){ .s = &s, .offset = (size_t)i * PART };
			task_begin(&readers[i].task, read_part_on, &readers[i]);
		}
		usleep((unsigned int)(round % 10) * 1000);
		seen_free(&s);
		reused = gpu_alloc(SEEN_LENGTH);
		pattern(3 + (unsigned int)round);
		CHECK(!cu.MemcpyHtoD(reused, bytes, SEEN_LENGTH) && !cu.CtxSynchronize());
		for (int i = 0; i < READERS; i++) {
			task_end(&readers[i].task);
			/* A read that was under way is cut short. */
			CHECK(readers[i].last == -EFAULT ||
			      (readers[i].last > 0 && readers[i].last < (ssize_t)PART));
		}
		CHECK(gpu_has(reused));
		CHECK(!cu.MemFree(reused));
		seen_end(&s);
	}
	none_left();
}

/* ---- memory that something still uses is parked ---- */

/* A pipe refers to the view's pages for as long as it likes. */
static void pipe_keeps(void)
{
	struct iovec v = { .iov_len = PAGE };
	int ends[2];
	struct seen s;
	char byte;

	seen_make(&s, 0);
	s.view[0] = 'v';
	v.iov_base = s.view;
	MUST(!pipe(ends));
	CHECK(vmsplice(ends[1], &v, 1, 0) == (ssize_t)PAGE);
	seen_free(&s);
	CHECK(kept("parked page view") == 1);
	/* Given to no one: all that is left of the GPU's memory is allocated, and written. */
	uint64_t others[MOST], n = 0;
	unsigned long long va;

	while (n < MOST && !cu.MemAlloc(&va, GPU_PAGE)) {
		memset(bytes, 'o', GPU_PAGE);
		CHECK(!cu.MemcpyHtoD(va, bytes, GPU_PAGE));
		others[n++] = va;
	}
	CHECK(n && n < MOST && !cu.CtxSynchronize());
	CHECK(read(ends[0], &byte, 1) == 1 && byte == 'v');
	seen_end(&s);
	CHECK(kept("parked page view") == 1);
	close(ends[0]);
	close(ends[1]);
	CHECK(UNTIL(kept("page view") == 0));
	CHECK(!cu.MemAlloc(&va, GPU_PAGE) && !cu.MemFree(va));
	while (n)
		CHECK(!cu.MemFree(others[--n]));
	none_left();
}

/* While the user has parked memory, a free does not wait: here a wait would last for a day. */
static void no_second_wait(void)
{
	struct iovec v = { .iov_len = PAGE };
	int ends[2][2];
	struct seen s[2];

	for (int i = 0; i < 2; i++) {
		seen_make(&s[i], 0);
		s[i].view[0] = 'v';
		v.iov_base = s[i].view;
		MUST(!pipe(ends[i]));
		CHECK(vmsplice(ends[i][1], &v, 1, 0) == (ssize_t)PAGE);
	}
	seen_free(&s[0]);
	CHECK(kept("parked page view") == 1);
	CHECK(module_set("peerdma", "pages_timeout_ms", "86400000"));
	seen_free(&s[1]);
	CHECK(kept("parked page view") == 2);
	CHECK(module_set("peerdma", "pages_timeout_ms", "2000"));
	for (int i = 0; i < 2; i++) {
		close(ends[i][0]);
		close(ends[i][1]);
		seen_end(&s[i]);
	}
	none_left();
}

/* A path to a view's file keeps the module, though it keeps no file open. */
static void paths(void)
{
	char path[64];
	struct seen s;
	int opath;

	seen_make(&s, 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", s.fd);
	opath = open(path, O_PATH | O_CLOEXEC);
	CHECK(opath >= 0);
	seen_end(&s);
	CHECK(!cu.MemFree(s.va));
	none_left();
	CHECK(file_number("/sys/module/peerdma/refcnt") > 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", opath);
	FAILS(ENXIO, open(path, O_RDWR | O_CLOEXEC));
	close(opath);
}

/* ---- users without limit: refused by the one kind, kept by the other ---- */

/* 0, or the errno with which io_uring refuses to register the buffer. */
static int register_buffer(void *addr, size_t length, int *ring)
{
	struct io_uring_params p = { 0 };
	struct iovec v = { addr, length };

	*ring = (int)syscall(SYS_io_uring_setup, 4, &p);
	MUST(*ring >= 0);
	return syscall(SYS_io_uring_register, *ring, IORING_REGISTER_BUFFERS, &v, 1) ? errno : 0;
}

/* A long pin that only reads: since 6.15 or so the kernel grants it; then the memory is parked. */
static void long_read(struct seen *s)
{
	struct peerdma_pin_args a;
	int file = dev_open(), ret = pin(file, s->view, SEEN_LENGTH, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY, &a);

	printf("a long pin that only reads, of a revocable view: %s\n", ret ? strerror(errno) : "accepted");
	seen_free(s);
	CHECK(kept("parked page view") == !ret);
	close(file);
	CHECK(UNTIL(kept("page view") == 0));
	seen_end(s);
}

static void no_limit(void)
{
	struct seen s;
	int ring, error;

	seen_make(&s, 0);
	long_read(&s);

	seen_make(&s, 0);
	CHECK(register_buffer(s.view, SEEN_LENGTH, &ring) == EOPNOTSUPP);
	close(ring);
	seen_free(&s);
	CHECK(kept("page view") == 0);
	seen_end(&s);

	seen_make(&s, PEERDMA_PAGES_PERSISTENT);
	error = register_buffer(s.view, SEEN_LENGTH, &ring);
	/* Before 6.2 io_uring registers no buffer in a file. */
	CHECK(!error || error == EOPNOTSUPP);
	printf("io_uring's registered buffers in a persistent view: %s\n", error ? strerror(error) : "accepted");
	pattern(9);
	CHECK(pwrite(disk, bytes, SEEN_LENGTH, 0) == (ssize_t)SEEN_LENGTH);
	seen_free(&s);
	/* The memory is the view's. */
	CHECK(read_into(&s) == (ssize_t)SEEN_LENGTH && !memcmp(s.view, bytes, SEEN_LENGTH));
	CHECK(kept("page view") == 1);
	seen_end(&s);
	/* A registered buffer is kept, however long it takes. */
	if (!error)
		CHECK(UNTIL(kept("parked page view") == 1));
	close(ring);
	none_left();
}

/* ---- processes ---- */

static int child_reads(int peer, void *arg)
{
	const struct seen *s = arg;

	say(peer);
	CHECK(hear(peer));
	CHECK(signal_of_read(s->view) == SIGBUS && read_into(s) == -EFAULT);
	return 0;
}

static int child_is_killed(int peer, void *arg)
{
	struct seen *s = arg;
	char path[64];
	int fd;

	/* The descriptor's path: as a program opens it that takes file names only. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", s->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
	/* Its memory is the parent's: no view of it is made here. */
	FAILS(ENXIO, pages(s->file, s->handle, 0, 0, 0));
	say(peer);
	read_on(&(struct reader){ .s = s });
	return 0;
}

static void processes(void)
{
	struct process child;
	struct seen s;

	seen_make(&s, 0);
	child = begin(child_is_killed, &s);
	CHECK(hear(child.peer));
	usleep(20000);
	kill(child.pid, SIGKILL);
	CHECK(finish(&child) == -SIGKILL);
	child = begin(child_reads, &s);
	CHECK(hear(child.peer));
	seen_free(&s);
	say(child.peer);
	CHECK(finish(&child) == 0);
	seen_end(&s);
	none_left();
}

/* ---- bad input ---- */

static void wrong(void)
{
	struct peerdma_pages_args a = { .size = sizeof(a) };
	struct peerdma_pin_args host;
	struct seen s;

	seen_make(&s, 0);
	FAILS(ENOENT, pages(s.file, s.handle + 1, 0, 0, 0));
	FAILS(EINVAL, pages(s.file, s.handle, 4, 0, 0));
	FAILS(EINVAL, pages(s.file, s.handle, 0, 1, PAGE));
	FAILS(EINVAL, pages(s.file, s.handle, 0, 0, PAGE - 1));
	FAILS(EINVAL, pages(s.file, s.handle, 0, SEEN_LENGTH, PAGE));
	FAILS(EINVAL, pages(s.file, s.handle, 0, PAGE, SEEN_LENGTH));
	FAILS(EINVAL, pages(s.file, s.handle, 0, PAGE, 0));
	a.handle = s.handle;
	a.bus = 1;
	FAILS(EINVAL, ioctl(s.file, PEERDMA_PAGES, &a));
	a.flags = PEERDMA_PAGES_FOR_DEVICE;
	a.bus = 0xfe;
	FAILS(ENODEV, ioctl(s.file, PEERDMA_PAGES, &a));
	a.reserved = 1;
	FAILS(EINVAL, ioctl(s.file, PEERDMA_PAGES, &a));
	a.size = 8;
	FAILS(EINVAL, ioctl(s.file, PEERDMA_PAGES, &a));
	WORKS(pin(s.file, host_memory(PAGE), PAGE, PEERDMA_PIN_HOST, &host));
	FAILS(EOPNOTSUPP, pages(s.file, host.handle, 0, 0, 0));
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, s.fd, 0) == MAP_FAILED && errno == EINVAL);
	FAILS(EINVAL, read(s.fd, bytes, 1));
	/* As the disk has it, whatever memory it is. */
	FAILS(EINVAL, pread(disk, s.view + 1, 4096, 0));
	FAILS(EINVAL, pread(disk, s.view, 100, 0));
	seen_free(&s);
	seen_end(&s);
	/* A view to which nothing may write. */
	struct peerdma_pin_args only;
	int file = dev_open(), fd;

	s.va = gpu_alloc(SEEN_LENGTH);
	WORKS(pin_va(file, s.va, SEEN_LENGTH, PEERDMA_PIN_DEVICE | PEERDMA_PIN_READONLY, &only));
	fd = pages(file, only.handle, 0, 0, 0);
	CHECK(fd >= 0 && mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	char *view = mmap(NULL, SEEN_LENGTH, PROT_READ, MAP_SHARED, fd, 0);

	CHECK(view != MAP_FAILED && mprotect(view, PAGE, PROT_READ | PROT_WRITE));
	CHECK(pwrite(disk, view, SEEN_LENGTH, 0) == (ssize_t)SEEN_LENGTH);
	FAILS(EFAULT, pread(disk, view, SEEN_LENGTH, 0));
	seen_free(&s);
	munmap(view, SEEN_LENGTH);
	close(fd);
	close(file);
	none_left();
}

static void no_pages(void)
{
	struct peerdma_pin_args a;
	uint64_t va = gpu_alloc(SEEN_LENGTH);
	int file = dev_open(), log = log_open();

	WORKS(pin_va(file, va, SEEN_LENGTH, PEERDMA_PIN_DEVICE, &a));
	FAILS(EOPNOTSUPP, pages(file, a.handle, 0, 0, 0));
	CHECK(log_records(log, "no page view of pin", "no struct pages") == 1);
	close(log);
	close(file);
	CHECK(!cu.MemFree(va));
	none_left();
}

int main(int argc, char **argv)
{
	const char *why = "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	MUST(argc == 2 || argc == 3);
	if (getenv("ROUNDS"))
		rounds = atoi(getenv("ROUNDS"));
	if (!memory_open(&why)) {
		printf("no GPU memory: %s\n", why);
		return 1;
	}
	if (argc == 3) {
		run("memory without pages", no_pages);
		return check_end("page views");
	}
	disk = open(argv[1], O_RDWR | O_DIRECT | O_CLOEXEC);
	MUST(disk >= 0);
	run("a disk reads into GPU memory and writes from it", both_ways);
	run("free ends a view", after_free);
	run("unpin and the last close end a view", after_unpin);
	run("free under reads", free_under_reads);
	run("a pipe keeps the memory: parked", pipe_keeps);
	run("a second wait: none", no_second_wait);
	run("paths", paths);
	run("users without limit", no_limit);
	run("children", processes);
	run("bad input", wrong);
	return check_end("page views");
}
