// SPDX-License-Identifier: MIT
/* backends_host.c - host memory that the library itself locks. */
#include <fcntl.h>
#include <sys/mman.h>

#include "../cases.h"
#include "backends.h"

FIXTURE(reset, NULL)

unsigned long locked(void)
{
	unsigned long kib = ~0UL;
	char line[128];
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmLck: %lu kB", &kib);
	if (f)
		fclose(f);
	return kib * 1024;
}

/* Pins that overlap, at random: what is locked is what any of them holds. */
CASE(overlapping)
{
	struct peerdma_region *regions[12] = { NULL };
	unsigned int first[12], count[12], held[64] = { 0 };
	struct peerdma *ctx = open_with("host", 0);
	unsigned long before = locked(), pages;
	uint32_t seed = 1;

	for (int round = 0; round < 2000; round++) {
		unsigned int i = (seed = seed * 1664525 + 1013904223) >> 16;
		unsigned int which = i % 12;

		if (regions[which]) {
			assert_int_equal(peerdma_unpin(regions[which]), 0);
			regions[which] = NULL;
			for (unsigned int p = 0; p < count[which]; p++)
				held[first[which] + p]--;
		} else {
			first[which] = i / 12 % 60;
			count[which] = 1 + i % 4;
			assert_int_equal(peerdma_pin(ctx, memory + first[which] * PAGE + 5, count[which] * PAGE - 5, 0, NULL,
						     &regions[which]), 0);
			for (unsigned int p = 0; p < count[which]; p++)
				held[first[which] + p]++;
		}
		pages = 0;
		for (unsigned int p = 0; p < 64; p++)
			pages += held[p] > 0;
		assert_int_equal(locked() - before, pages * PAGE);
	}
	peerdma_close(ctx);
	assert_int_equal(locked(), before);
}

/* Half of the range is not there: nothing is locked, also not what others hold no more. */
CASE(holes)
{
	struct peerdma *ctx = open_with("host", 0);
	struct peerdma_region *region, *other;
	unsigned long before = locked();
	char *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(p + 4 * PAGE, 4 * PAGE);
	assert_int_equal(peerdma_pin(ctx, p + PAGE, PAGE, 0, NULL, &other), 0);
	assert_int_equal(peerdma_pin(ctx, p, 8 * PAGE, 0, NULL, &region), -EFAULT);
	assert_int_equal(locked() - before, PAGE);
	assert_int_equal(peerdma_unpin(other), 0);
	assert_int_equal(locked(), before);
	/* Memory that went away while pinned is no error. */
	assert_int_equal(peerdma_pin(ctx, p, 4 * PAGE, 0, NULL, &region), 0);
	munmap(p, 4 * PAGE);
	assert_int_equal(peerdma_unpin(region), 0);
	assert_int_equal(locked(), before);
	peerdma_close(ctx);
}

/* As by the kernel: what devices may write is writable, or nothing stays locked. */
CASE(read_only)
{
	struct peerdma *ctx = open_with("host", 0);
	struct peerdma_region *region, *other;
	unsigned long before = locked();
	char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char *image = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);

	assert_ptr_not_equal(image, MAP_FAILED);
	assert_int_equal(mprotect(p + PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(peerdma_pin(ctx, p + PAGE, PAGE, PEERDMA_READONLY, NULL, &other), 0);
	assert_int_equal(peerdma_pin(ctx, p + PAGE, 10, 0, NULL, &region), -EFAULT);
	assert_non_null(strstr(peerdma_last_error(), "read-only"));
	assert_int_equal(peerdma_pin(ctx, p, 4 * PAGE, 0, NULL, &region), -EFAULT);
	assert_int_equal(peerdma_pin(ctx, image, PAGE, 0, NULL, &region), -EFAULT);
	assert_int_equal(locked() - before, PAGE);
	assert_int_equal(peerdma_pin(ctx, p + 2 * PAGE, 2 * PAGE, 0, NULL, &region), 0);
	assert_int_equal(peerdma_unpin(region), 0);
	assert_int_equal(peerdma_pin(ctx, image, PAGE, PEERDMA_READONLY, NULL, &region), 0);
	assert_int_equal(peerdma_unpin(region), 0);
	assert_int_equal(peerdma_unpin(other), 0);
	assert_int_equal(locked(), before);
	close(file);
	munmap(image, PAGE);
	munmap(p, 4 * PAGE);
	peerdma_close(ctx);
}

CASE(host_views)
{
	struct peerdma *ctx = open_with("host", 0);
	struct peerdma_region *region;
	struct peerdma_notice n = { .size = sizeof(n) };
	char *a, *b;

	assert_int_equal(peerdma_pin(ctx, memory + 100, 10, 0, NULL, &region), 0);
	assert_int_equal(peerdma_cpu_view(region, (void **)&a), 0);
	assert_int_equal(peerdma_cpu_view(region, (void **)&b), 0);
	assert_ptr_equal(a, memory + 100);
	assert_ptr_equal(b, a);
	assert_int_equal(peerdma_cpu_view_end(region, a), 0);
	assert_int_equal(peerdma_cpu_view_end(region, a), 0);
	assert_int_equal(peerdma_cpu_view_end(region, a), -EINVAL);
	assert_int_equal(peerdma_next_event(ctx, &n, 1), -EAGAIN);
	assert_true(peerdma_event_fd(ctx) >= 0);
	assert_true(peerdma_valid(region));
	peerdma_close(ctx);
}
