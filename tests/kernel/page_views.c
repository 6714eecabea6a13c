// SPDX-License-Identifier: MIT
/*
 * page_views.c - page views: their way from beginning to end, and bad input.
 *
 *	page_views DISK [none|p2pdma|refused|lost|unload]
 *
 * DISK: a block device, whose content the test overwrites.  GPU memory has pages that the kernel
 * takes for RAM; or none; or those of p2pdma; or those, and the kernel refuses the path to the disk, or loses what
 * is sent there.  unload: at the end peerdma's modules are not loaded any more.
 */
#include "page_views.h"

int disk;
bool p2pdma;

static void both_ways(void)
{
	struct seen s;

	seen_make(&s, 0);
	pattern(1);
	CHECK(pwrite(disk, bytes, SEEN_LENGTH, 0) == (ssize_t)SEEN_LENGTH);
	CHECK(pread(disk, s.view, SEEN_LENGTH, 0) == (ssize_t)SEEN_LENGTH);
	CHECK(gpu_has(s.va));
	pattern(2);
	gpu_write(s.va);
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
	none_left();
}

/* ---- the memory is taken back ---- */

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
	seen_free(&s);
	none_left();
	CHECK(file_number("/sys/module/peerdma/refcnt") > 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", opath);
	FAILS(ENXIO, open(path, O_RDWR | O_CLOEXEC));
	close(opath);
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
	while (read_into(s) == (ssize_t)SEEN_LENGTH)
		;
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
	const char *why = "", *rounds = getenv("ROUNDS"), *mode = argc == 3 ? argv[2] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	MUST(argc == 2 || argc == 3);
	if (!strcmp(mode, "unload")) {
		test_unload();
		return check_end("page views");
	}
	if (!memory_open(&why)) {
		printf("no GPU memory: %s\n", why);
		return 1;
	}
	p2pdma = !strcmp(mode, "p2pdma");
	disk = open(argv[1], O_RDWR | O_DIRECT | O_CLOEXEC);
	MUST(disk >= 0);
	if (!strcmp(mode, "none")) {
		run("memory without pages", no_pages);
		return check_end("page views");
	}
	if (!strcmp(mode, "refused") || !strcmp(mode, "lost")) {
		*mode == 'l' ? test_lost() : test_refused();
		return check_end("page views");
	}
	run("a disk reads into GPU memory and writes from it", both_ways);
	run("free ends a view", after_free);
	run("unpin and the last close end a view", after_unpin);
	run("paths", paths);
	run("children", processes);
	run("bad input", wrong);
	test_rounds(rounds ? (unsigned int)atoi(rounds) : 30);
	if (p2pdma)
		test_p2pdma();
	else
		test_users();
	return check_end("page views");
}
