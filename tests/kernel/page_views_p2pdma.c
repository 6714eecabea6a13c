// SPDX-License-Identifier: MIT
/*
 * page_views_p2pdma.c - pages of p2pdma: which users the kernel refuses, that p2pdma itself hands
 * out none of them, and what its rules about the path between devices come to.
 */
#include <glob.h>

#include "page_views.h"

/* The kernel gives such pages to those that ask for them by name: O_DIRECT and io_uring do. */
static void few_users(void)
{
	struct peerdma_pin_args a;
	int ends[2], ring, file;
	struct seen s;

	seen_make(&s, 0);
	FAILS(EREMOTEIO, pipe_offer(ends, s.view));
	close(ends[0]);
	close(ends[1]);
	CHECK(!socket_take(ends, s.view));
	printf("MSG_ZEROCOPY from a page of p2pdma: %s\n", strerror(errno));
	close(ends[0]);
	close(ends[1]);
	CHECK(register_buffer(s.view, SEEN_LENGTH, &ring) == EOPNOTSUPP);
	close(ring);
	file = dev_open();
	CHECK(pin(file, s.view, SEEN_LENGTH, PEERDMA_PIN_HOST, &a) < 0);
	CHECK(pin(file, s.view, SEEN_LENGTH, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY, &a) < 0);
	close(file);
	/* None of them has kept a page. */
	seen_free(&s);
	CHECK(kept("page view") == 0);
	seen_end(&s);
	none_left();
}

/* A persistent view is kept by its files and mappings only: users without limit are refused here, too. */
static void persistent(void)
{
	struct seen s;
	int ring, error;

	seen_make(&s, PEERDMA_PAGES_PERSISTENT);
	error = register_buffer(s.view, SEEN_LENGTH, &ring);
	CHECK(error);
	printf("io_uring's registered buffers in a persistent view: %s\n", strerror(error));
	close(ring);
	pattern(9);
	CHECK(pwrite(disk, bytes, SEEN_LENGTH, 0) == (ssize_t)SEEN_LENGTH);
	seen_free(&s);
	CHECK(read_into(&s) == (ssize_t)SEEN_LENGTH && !memcmp(s.view, bytes, SEEN_LENGTH));
	CHECK(kept("page view") == 1);
	seen_end(&s);
	none_left();
}

/* VRAM is the GPU's to hand out: the pool of p2pdma, which root can map, has none left. */
static void pool_is_empty(void)
{
	glob_t found;
	int fd;

	MUST(!glob("/sys/bus/pci/devices/*/p2pmem/allocate", 0, NULL, &found));
	CHECK(found.gl_pathc == 1);
	fd = open(found.gl_pathv[0], O_RDWR | O_CLOEXEC);
	MUST(fd >= 0);
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == ENOMEM);
	close(fd);
	globfree(&found);
}

static void for_disk(void)
{
	struct seen s;
	int fd;

	seen_make(&s, 0);
	fd = pages_for_disk(s.file, s.handle);
	CHECK(fd >= 0);
	close(fd);
	seen_free(&s);
	seen_end(&s);
	none_left();
}

void test_p2pdma(void)
{
	run("p2pdma: few users", few_users);
	run("p2pdma: persistent views", persistent);
	run("p2pdma: its own pool is empty", pool_is_empty);
	run("p2pdma: the disk reaches the memory", for_disk);
}

/* The view shows the memory, but the drive's driver is refused its DMA addresses. */
static void refused(void)
{
	int log = log_open();
	struct seen s;

	seen_make(&s, 0);
	FAILS(EOPNOTSUPP, pages_for_disk(s.file, s.handle));
	CHECK(log_records(log, "peerdma: does not reach the memory of", "the host bridge is not known to forward between devices") == 1);
	CHECK(read_into(&s) < 0);
	printf("a read where p2pdma knows no path: %s\n", strerror((int)-read_into(&s)));
	CHECK(pwrite(disk, s.view, SEEN_LENGTH, 0) < 0);
	seen_free(&s);
	CHECK(kept("page view") == 0);
	seen_end(&s);
	close(log);
	none_left();
}

/*
 * Below a switch the kernel uses bus addresses; QEMU's IOMMU translates these, too, and drops what
 * comes of it.  The read succeeds, and the memory stays as it was: so peerdma refuses that device.
 */
static void lost(void)
{
	int log = log_open();
	struct seen s;

	seen_make(&s, 0);
	FAILS(EOPNOTSUPP, pages_for_disk(s.file, s.handle));
	CHECK(log_records(log, "peerdma: does not reach the memory of", "QEMU's IOMMU translates them all the same") == 1);
	pattern(7);
	CHECK(pwrite(disk, bytes, SEEN_LENGTH, 0) == (ssize_t)SEEN_LENGTH);
	pattern(8);
	gpu_write(s.va);
	CHECK(read_into(&s) == (ssize_t)SEEN_LENGTH);
	CHECK(gpu_has(s.va));
	seen_free(&s);
	seen_end(&s);
	close(log);
	none_left();
}

void test_lost(void)
{
	run("p2pdma: where the data would be lost", lost);
}

void test_refused(void)
{
	run("p2pdma: where the kernel knows no path", refused);
}
