// SPDX-License-Identifier: MIT
/*
 * test_fabric.c - libpeerdma-fabric in front of a stand-in for libfabric: each version's calls go on to the same one, the monitor
 * is imported once and before, and is told of the memory that it asked about, and of no other.
 *
 * usage: test_fabric works|open-fails|bind-fails STAND-IN
 *        test_fabric absent
 */
#include <dlfcn.h>
#include <sys/mman.h>

#include <rdma/fabric.h>
#include <rdma/fi_ext.h>

#include "../lib/checks.h"
#include "fake_fabric.h"

#define GRANULE 65536UL
#define MAPPED (1UL << 36)	/* what the map has bits for */

static struct fake_fabric *fake;

/* As programs of different ages are linked. */
int fabric_1_0(void *attr, void *fabric, void *context);
__asm__(".symver fabric_1_0,fi_fabric@FABRIC_1.0");
int fabric_1_1(void *attr, void *fabric, void *context);
__asm__(".symver fabric_1_1,fi_fabric@FABRIC_1.1");
int fabric2_1_8(void *info, void *fabric, uint64_t flags, void *context);
__asm__(".symver fabric2_1_8,fi_fabric2@FABRIC_1.8");

static char *map(size_t length)
{
	return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Whether giving [p, +length) back was told: before and after. */
static bool told(char *p, size_t length)
{
	fake->notified = 0;
	munmap(p, length);
	if (fake->notified)
		CHECK(fake->notified == 2 && fake->addr == p && fake->length == length, "of that range, before and after");
	return fake->notified;
}

static void calls(void)
{
	char a, b, c;

	CHECK(fabric_1_0(&a, &b, &c) == 7 && !strcmp(fake->called, "fi_fabric@FABRIC_1.0") && fake->arguments[0] == &a &&
	      fake->arguments[1] == &b && fake->arguments[2] == &c, "the first version");
	CHECK(fabric_1_1(&c, &a, &b) == 7 && !strcmp(fake->called, "fi_fabric@FABRIC_1.1") && fake->arguments[0] == &c &&
	      fake->arguments[1] == &a && fake->arguments[2] == &b, "the second");
	CHECK(fabric2_1_8(&b, &c, 1ULL << 40, &a) == 7 && !strcmp(fake->called, "fi_fabric2@FABRIC_1.8") &&
	      fake->arguments[0] == &b &&
	      fake->arguments[1] == &c && fake->arguments[2] == &a && fake->flags == 1ULL << 40, "fi_fabric2");
	CHECK(fake->opens == 1 && fake->version == FI_VERSION(1, 13) && !strcmp(fake->name, "mr_cache"),
	      "the cache is opened once");
	CHECK(fake->closes == !fake->open_error && fake->binds == !fake->open_error, "and closed");
}

static void monitor(void)
{
	struct fid_mem_monitor *m = fake->monitor;
	struct fi_ops_mem_monitor *ops = m->export_ops;
	char *p = map(4 * GRANULE), *q, *r;

	CHECK(ops->size == sizeof(*ops) && ops->valid(m, p, 1), "the monitor");
	CHECK(!ops->start(m), "starts");
	CHECK(!told(p, 4 * GRANULE), "of what was not asked about nothing is told");
	p = (char *)(((uintptr_t)map(16 * GRANULE) + GRANULE - 1) & -GRANULE);
	CHECK(!ops->subscribe(m, p, 0) && !ops->subscribe(m, p + 4 * GRANULE + 100, 2 * GRANULE - 100),
	      "two granules, and nothing");
	CHECK(!told(p, 4096) && !told(p + 4 * GRANULE - 4096, 4096), "what is below is not");
	CHECK(!told(p + 6 * GRANULE, 4096), "nor what is above");
	CHECK(told(p + 4 * GRANULE, 4096) && told(p + 6 * GRANULE - 4096, 4096), "what is in them is");
	CHECK(told(p + 2 * GRANULE, 3 * GRANULE), "and what reaches into them");
	CHECK(!told(p + 8 * GRANULE, 4 * GRANULE), "four granules above are not");
	CHECK(!ops->subscribe(m, p + 12 * GRANULE - 1, 2), "two bytes of two granules");
	CHECK(told(p + 11 * GRANULE, 4096) && told(p + 12 * GRANULE, 4096), "both");
	ops->unsubscribe(m, p + 12 * GRANULE - 1, 2);
	CHECK(told(p + 12 * GRANULE + 4096, 4096), "others may have asked about these: still told");
	p = map(MAPPED);
	q = p + (1UL << 34);
	q = (char *)((uintptr_t)q & -GRANULE);
	CHECK(!ops->subscribe(m, q, MAPPED - GRANULE), "nearly as much as there are bits for");
	ops->stop(m);
	r = map(GRANULE);
	CHECK(!told(r, GRANULE) && !told(q, GRANULE), "stopped");
	munmap(p, MAPPED);
	CHECK(!ops->start(m), "started again");
}

/* In a process of its own: from here on all is watched. */
static void too_large(void)
{
	struct fid_mem_monitor *m = fake->monitor;
	char *p;

	CHECK(!m->export_ops->start(m), "starts");
	p = map(GRANULE);
	CHECK(!told(p, GRANULE), "nothing is watched");
	p = map(MAPPED + 2 * GRANULE);
	p += -(uintptr_t)p & (GRANULE - 1);
	CHECK(!told(p, MAPPED), "so much of it is looked at");
	p = map(MAPPED + 2 * GRANULE);
	p += -(uintptr_t)p & (GRANULE - 1);
	CHECK(told(p, MAPPED + GRANULE), "and a granule more is not");
	CHECK(!m->export_ops->subscribe(m, NULL, MAPPED + 1), "one granule more than there are bits");
	p = map(GRANULE);
	CHECK(told(p, GRANULE), "all is watched");
}

static void absent(void)
{
	CHECK(fabric_1_0(NULL, NULL, NULL) == -ENOSYS && fabric_1_1(NULL, NULL, NULL) == -ENOSYS && fabric2_1_8(NULL, NULL, 0,
														NULL) == -ENOSYS,
	      "without libfabric there is nothing to go on to");
}

int main(int argc, char **argv)
{
	struct fake_fabric *(*get)(void) = NULL;
	void *library = NULL;

	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "absent")) {
		absent();
		return check_end(NULL);
	}
	library = argc > 2 ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) : NULL;
	get = library ? (struct fake_fabric *(*)(void))(uintptr_t)dlsym(library, "fake_fabric") : NULL;
	if (!CHECK(get != NULL, "a stand-in for libfabric"))
		return 1;
	fake = get();
	fake->open_error = strcmp(argv[1], "open-fails") ? 0 : -ENOSYS;
	fake->bind_error = strcmp(argv[1], "bind-fails") ? 0 : -EBUSY;
	calls();
	if (!strcmp(argv[1], "works"))
		monitor();
	if (!strcmp(argv[1], "too-large"))
		too_large();
	return check_end(NULL);
}
