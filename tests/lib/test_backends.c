// SPDX-License-Identifier: MIT
/*
 * test_backends.c - which back-end gets a pin, and what is said of those that were
 * passed over; the kernel is a stand-in.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake_cuda.h"
#include "fake_sys.h"
#include "peerdma_cache.h"

#define PAGE 4096UL

static char *memory;	/* 64 pages */

static struct peerdma *open_with(const char *provider, unsigned int flags)
{
	struct peerdma *ctx = NULL;

	if (provider)
		setenv("PEERDMA_PROVIDER", provider, 1);
	else
		unsetenv("PEERDMA_PROVIDER");
	if (peerdma_open(&ctx, flags))
		fail_msg("%s", peerdma_last_error());
	return ctx;
}

static void is_of(struct peerdma_region *region, const char *backend, int direct)
{
	struct peerdma_status s = { .size = sizeof(s) };

	assert_int_equal(peerdma_status(region, &s), 0);
	assert_string_equal(s.backend, backend);
	assert_int_equal(s.direct, direct);
}

static void says(const char *text)
{
	if (!strstr(peerdma_last_error(), text))
		fail_msg("\"%s\" does not say \"%s\"", peerdma_last_error(), text);
}

static int reset(void **state)
{
	(void)state;
	fake_reset();
	return 0;
}

static void names(void **state)
{
	static const char *const bad[] = { "x", "kernel,x", "kernel,,host", ",", "kernel ", "Kernel", "kern", "kernels" };
	struct peerdma *ctx = (void *)1;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("PEERDMA_PROVIDER", bad[i], 1);
		assert_int_equal(peerdma_open(&ctx, 0), -EINVAL);
		says("PEERDMA_PROVIDER");
		assert_ptr_equal(ctx, (void *)1);
	}
	peerdma_close(open_with("", 0));		/* as if it were not there */
	peerdma_close(open_with("host,kernel", 0));
	peerdma_close(open_with("soft,host,soft,host", 0));
	assert_int_equal(fake.opens, fake.closes);
	assert_int_equal(fake.mmaps, fake.munmaps);
}

/* The best there is, and nothing to explain. */
static void best(void **state)
{
	struct peerdma *ctx = open_with(NULL, 0);
	struct peerdma_region *region;

	(void)state;
	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), 0);
	is_of(region, "kernel", 1);
	assert_string_equal(peerdma_why(region), "");
	peerdma_close(ctx);
	assert_int_equal(fake.unpins, 1);
}

static void next_best(void **state)
{
	struct peerdma_region *region, *other;
	const char *why;
	struct peerdma *ctx;

	(void)state;
	fake.open_error = -ENOENT;
	ctx = open_with(NULL, 0);
	assert_int_equal(peerdma_pin(ctx, memory, 10, PEERDMA_HOST, NULL, &region), 0);
	is_of(region, "host", 0);
	why = peerdma_why(region);
	assert_non_null(strstr(why, "kernel: "));
	assert_non_null(strstr(why, "modprobe peerdma"));
	/* The same reason is one text. */
	assert_int_equal(peerdma_pin(ctx, memory + PAGE, 10, PEERDMA_HOST, NULL, &other), 0);
	assert_ptr_equal(why, peerdma_why(other));
	assert_int_equal(peerdma_unpin(region), 0);
	assert_ptr_equal(why, peerdma_why(other));
	peerdma_close(ctx);

	/* It is there, but does not know the memory. */
	fake.open_error = 0;
	ctx = open_with(NULL, 0);
	fake.pin_error = -ENXIO;
	assert_int_equal(peerdma_pin(ctx, memory, 10, PEERDMA_HOST, NULL, &region), 0);
	is_of(region, "host", 0);
	assert_non_null(strstr(peerdma_why(region), "no provider knows it"));
	peerdma_close(ctx);
	assert_int_equal(fake.opens, fake.closes);
}

/* A back-end that could but for want of room is not passed over. */
static void no_room(void **state)
{
	static const int errors[] = { -ENOMEM, -ENOSPC, -EMFILE, -EFAULT, -ESTALE };
	struct peerdma *ctx = open_with(NULL, 0);
	struct peerdma_region *region = (void *)1;

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		fake.pin_error = errors[i];
		assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), errors[i]);
		assert_ptr_equal(region, (void *)1);
	}
	peerdma_close(ctx);
	fake.open_error = -EMFILE;
	assert_int_equal(peerdma_open(&ctx, 0), -EMFILE);
	says("/dev/peerdma");
	assert_int_equal(fake.opens, fake.closes);
}

/* Refused, and each is named. */
static void direct(void **state)
{
	struct peerdma_region *region = (void *)1;
	struct peerdma *ctx;

	(void)state;
	fake.open_error = -ENOENT;
	ctx = open_with("kernel,soft", 0);
	assert_true(peerdma_pin(ctx, memory, 10, PEERDMA_DIRECT, NULL, &region) < 0);
	assert_ptr_equal(region, (void *)1);
	says("kernel: /dev/peerdma");
	says("soft: ");
	says("host: refused");
	peerdma_close(ctx);

	ctx = NULL;
	setenv("PEERDMA_PROVIDER", "kernel,host", 1);
	assert_int_equal(peerdma_open(&ctx, PEERDMA_OPEN_DIRECT), -ENODEV);
	says("kernel: /dev/peerdma");
	says("host: refused");
	assert_null(ctx);

	fake.open_error = 0;
	ctx = open_with(NULL, PEERDMA_OPEN_DIRECT);
	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), 0);
	is_of(region, "kernel", 1);
	assert_int_equal(peerdma_unpin(region), 0);
	fake.pin_error = -ENXIO;
	assert_int_equal(peerdma_pin(ctx, memory, 10, PEERDMA_HOST, NULL, &region), -ENXIO);
	says("host: refused");
	peerdma_close(ctx);
}

/* Bytes of this process that are locked. */
static unsigned long locked(void)
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
static void overlapping(void **state)
{
	struct peerdma_region *regions[12] = { NULL };
	unsigned int first[12], count[12], held[64] = { 0 };
	struct peerdma *ctx = open_with("host", 0);
	unsigned long before = locked(), pages;
	uint32_t seed = 1;

	(void)state;
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
static void holes(void **state)
{
	struct peerdma *ctx = open_with("host", 0);
	struct peerdma_region *region, *other;
	unsigned long before = locked();
	char *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	munmap(p + 4 * PAGE, 4 * PAGE);
	assert_int_equal(peerdma_pin(ctx, p + PAGE, PAGE, 0, NULL, &other), 0);
	assert_int_equal(peerdma_pin(ctx, p, 8 * PAGE, 0, NULL, &region), -EFAULT);
	assert_int_equal(locked() - before, PAGE);
	assert_int_equal(peerdma_unpin(other), 0);
	assert_int_equal(locked(), before);
	/* Memory that went away while pinned is nobody's fault. */
	assert_int_equal(peerdma_pin(ctx, p, 4 * PAGE, 0, NULL, &region), 0);
	munmap(p, 4 * PAGE);
	assert_int_equal(peerdma_unpin(region), 0);
	assert_int_equal(locked(), before);
	peerdma_close(ctx);
}

/* As by the kernel: what devices may write is writable, or nothing stays locked. */
static void read_only(void **state)
{
	struct peerdma *ctx = open_with("host", 0);
	struct peerdma_region *region, *other;
	unsigned long before = locked();
	char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char *image = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);

	(void)state;
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

static void host_views(void **state)
{
	struct peerdma *ctx = open_with("host", 0);
	struct peerdma_region *region;
	struct peerdma_notice n = { .size = sizeof(n) };
	char *a, *b;

	(void)state;
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

/* ---- dma-bufs of CUDA's ---- */

static struct fake_cuda *cuda;

/* The first 16 pages are a GPU's. */
static int reset_cuda(void **state)
{
	struct fake_cuda *(*get)(void);
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	*(void **)&get = library ? dlsym(library, "fake_cuda") : NULL;
	if (!get)
		return -1;
	cuda = get();
	memset(cuda, 0, sizeof(*cuda));
	cuda->memory[0] = (struct fake_memory){
		.base = (uintptr_t)memory, .size = 16 * PAGE, .type = 2, .context = cuda, .id = 100,
	};
	return reset(state);
}

static int no_cuda(void **state)
{
	(void)state;
	memset(cuda, 0, sizeof(*cuda));
	cuda->state = 3;
	return 0;
}

static int files(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static uint32_t state_of(struct peerdma_region *region)
{
	struct peerdma_status s = { .size = sizeof(s) };

	assert_int_equal(peerdma_status(region, &s), 0);
	return s.state;
}

static void dmabuf(void **state)
{
	struct peerdma_status s = { .size = sizeof(s) };
	struct peerdma_region *region;
	struct peerdma_mapping *m;
	struct peerdma *ctx;
	int before, fd, part;
	char *view;

	(void)state;
	fake.pin_error = -ENXIO;	/* the module is there, without the GPU's */
	ctx = open_with(NULL, 0);
	before = files();
	assert_int_equal(peerdma_pin(ctx, memory + 100, 2 * PAGE, PEERDMA_DIRECT, NULL, &region), 0);
	is_of(region, "dmabuf", 1);
	assert_non_null(strstr(peerdma_why(region), "kernel: "));
	assert_int_equal(peerdma_status(region, &s), 0);
	assert_int_equal(s.by_id, 1);
	assert_int_equal(s.sync_memops, 1);
	assert_true(s.pinned_addr == (uintptr_t)memory && s.pinned_length == 3 * PAGE);
	assert_int_equal(s.state, PEERDMA_STATE_LIVE);
	assert_false(peerdma_valid(region));	/* nobody vouches for it */

	assert_int_equal(peerdma_export_dmabuf(region, 0, 0, &fd), 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), 3 * PAGE);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(peerdma_export_dmabuf(region, PAGE, PAGE, &part), 0);
	assert_int_equal(lseek(part, 0, SEEK_END), PAGE);
	close(part);
	assert_int_equal(peerdma_export_dmabuf(region, PAGE, 3 * PAGE, &part), -EINVAL);
	assert_int_equal(peerdma_export_dmabuf(region, 10, PAGE, &part), -EINVAL);
	assert_int_equal(peerdma_cpu_view(region, (void **)&view), 0);
	*view = 1;
	assert_int_equal(peerdma_map(region, "03:00.0", PEERDMA_TO_DEVICE, &m), -EOPNOTSUPP);

	cuda->memory[0].id++;		/* freed, and its address given out again */
	assert_int_equal(state_of(region), PEERDMA_STATE_REVOKED);
	assert_int_equal(peerdma_export_dmabuf(region, PAGE, PAGE, &part), -ESTALE);
	cuda->memory[0].size = 0;	/* freed */
	assert_int_equal(state_of(region), PEERDMA_STATE_REVOKED);
	assert_int_equal(peerdma_unpin(region), 0);
	close(fd);
	assert_int_equal(files(), before);
	peerdma_close(ctx);
}

static void dmabuf_fails(void **state)
{
	static const struct {
		int cuda, error;
	} cases[] = { { 801, -EOPNOTSUPP }, { 1, -ENXIO }, { 201, -ENODEV }, { 2, -ENOMEM }, { 700, -EIO } };
	struct peerdma_region *region = (void *)1;
	struct peerdma *ctx = open_with("dmabuf", 0);
	int before = files();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cuda->export_error = cases[i].cuda;
		assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), cases[i].error);
	}
	cuda->export_error = 0;
	assert_int_equal(peerdma_pin(ctx, memory + 15 * PAGE, PAGE + 1, 0, NULL, &region), -ENXIO);
	says("none follows");
	assert_int_equal(peerdma_pin(ctx, memory + 16 * PAGE, 10, 0, NULL, &region), -ENXIO);
	cuda->memory[0].managed = 1;
	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), -ENXIO);
	says("managed");
	cuda->memory[0].managed = 0;
	cuda->reallocate = 1;
	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), -ESTALE);
	assert_ptr_equal(region, (void *)1);
	assert_int_equal(files(), before);

	assert_int_equal(peerdma_pin(ctx, memory, 10, PEERDMA_PERSISTENT, NULL, &region), 0);
	cuda->memory[0].id++;
	assert_true(peerdma_valid(region));	/* it is of the memory, whoever frees it */
	assert_int_equal(state_of(region), PEERDMA_STATE_LIVE);
	peerdma_close(ctx);
}

/* In a cache: each hit asks for the buffer id, and the host's memory beside it does not. */
static void by_id(void **state)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct peerdma_cached *a, *b;
	struct peerdma_cache *cache;
	struct peerdma *ctx = open_with("dmabuf,host", 0);
	int calls;

	(void)state;
	assert_int_equal(peerdma_cache_open(ctx, NULL, &cache), 0);
	assert_int_equal(peerdma_cache_get(cache, memory + 20 * PAGE, 10, &a), 0);
	assert_int_equal(peerdma_cache_counters(cache, &c), 0);
	assert_false(c.monitors & PEERDMA_MONITOR_CHECK);
	calls = cuda->calls;
	assert_int_equal(peerdma_cache_get(cache, memory + 20 * PAGE, 10, &b), 0);
	assert_int_equal(cuda->calls, calls);
	assert_ptr_equal(a, b);

	assert_int_equal(peerdma_cache_get(cache, memory, 10, &a), 0);
	assert_int_equal(peerdma_cache_counters(cache, &c), 0);
	assert_true(c.monitors & PEERDMA_MONITOR_CHECK);
	assert_int_equal(c.checked, 1);
	calls = cuda->calls;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(peerdma_cache_get(cache, memory + 5, 5, &b), 0);
		assert_ptr_equal(a, b);
		peerdma_cache_put(cache, b);
	}
	assert_int_equal(cuda->calls, calls + 10);
	for (int i = 1; i <= 3; i++) {
		struct peerdma_cached *old = a;

		cuda->memory[0].id++;
		assert_int_equal(peerdma_cache_get(cache, memory, 10, &a), 0);
		assert_ptr_not_equal(a, old);
		assert_int_equal(state_of(a->registration), PEERDMA_STATE_LIVE);
		assert_int_equal(state_of(old->registration), PEERDMA_STATE_REVOKED);
		peerdma_cache_put(cache, old);
		assert_int_equal(peerdma_cache_counters(cache, &c), 0);
		assert_int_equal(c.stale, i);
	}
	cuda->memory[0].size = 0;
	assert_true(peerdma_cache_get(cache, memory, 10, &b) == 0);	/* what is there now is the host's */
	assert_ptr_not_equal(a, b);
	peerdma_cache_close(cache);
	peerdma_close(ctx);
}

/* ---- what errors say ---- */

static void begins(const char *text)
{
	const char *range = strstr(peerdma_last_error(), "): ");

	if (!range || strncmp(range + 3, text, strlen(text)) != 0)
		fail_msg("\"%s\" does not begin with \"%s\"", peerdma_last_error(), text);
}

/* The cause is the first sentence; what other back-ends have to say follows. */
static void cause_first(void **state)
{
	struct peerdma_region *region = (void *)1;
	void *hole = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct peerdma *ctx;

	(void)state;
	munmap(hole, 4 * PAGE);
	fake.open_error = -ENOENT;
	ctx = open_with(NULL, 0);
	assert_int_equal(peerdma_pin(ctx, hole, 10, 0, NULL, &region), -EFAULT);
	begins("host: part of the range has no memory behind it. Other back-ends: kernel: /dev/peerdma");
	assert_int_equal(peerdma_pin(ctx, memory + 20 * PAGE, 10, PEERDMA_HOST | PEERDMA_PERSISTENT, NULL, &region), -EOPNOTSUPP);
	begins("host: has no persistent pins. Other back-ends: kernel: ");
	cuda->export_error = 801;
	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), -EOPNOTSUPP);
	begins("dmabuf: this GPU");
	says(". Other back-ends: kernel: /dev/peerdma");
	peerdma_close(ctx);
	ctx = open_with("host", 0);
	assert_int_equal(peerdma_pin(ctx, hole, 10, 0, NULL, &region), -EFAULT);
	begins("part of the range has no memory behind it");
	assert_null(strstr(peerdma_last_error(), "Other"));
	peerdma_close(ctx);
	assert_ptr_equal(region, (void *)1);
}

/* peerdma.ko alone takes a GPU's address for the host's, at which there is nothing. */
static void no_provider(void **state)
{
	struct peerdma_region *region = (void *)1;
	struct peerdma *ctx = open_with("kernel", 0);

	(void)state;
	fake.pin_error = -EFAULT;
	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), -ENXIO);
	begins("no provider for this GPU memory is loaded; load it with 'modprobe peerdma_nvidia'");
	fake.pin_error = -ENXIO;
	assert_int_equal(peerdma_pin(ctx, memory, 10, PEERDMA_DEVICE, NULL, &region), -ENXIO);
	begins("no provider for this GPU memory is loaded");
	for (fake.pin_error = -EFAULT; fake.pin_error; fake.pin_error = fake.pin_error == -EFAULT ? -ENXIO : 0) {
		assert_int_equal(peerdma_pin(ctx, memory + 15 * PAGE, PAGE + 1, 0, NULL, &region), -ENXIO);
		begins("the range passes the end of its allocation, ");
	}
	fake.pin_error = -EFAULT;
	assert_int_equal(peerdma_pin(ctx, memory + 20 * PAGE, 10, 0, NULL, &region), -EFAULT);
	begins("part of the range has no memory behind it");
	peerdma_close(ctx);

	/* What is missing comes first, also where another back-end cannot for a reason of its own. */
	ctx = open_with(NULL, 0);
	cuda->export_error = 801;
	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), -ENXIO);
	begins("kernel: no provider for this GPU memory is loaded; load it with 'modprobe peerdma_nvidia' (as root). Other back-ends: dmabuf: ");
	cuda->export_error = 999;
	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), -EIO);
	begins("dmabuf: ");
	cuda->export_error = 0;
	assert_int_equal(peerdma_pin(ctx, memory + 15 * PAGE, PAGE + 1, 0, NULL, &region), -ENXIO);
	begins("kernel: the range passes the end of its allocation, ");
	says("; pin 4096 bytes at most");
	peerdma_close(ctx);

	/* And what comes after it is tried. */
	ctx = open_with("kernel,dmabuf", 0);
	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), 0);
	is_of(region, "dmabuf", 1);
	assert_non_null(strstr(peerdma_why(region), "modprobe peerdma_nvidia"));
	peerdma_close(ctx);
}

/* Without PEERDMA_HOST nobody gets the pages in which the host's copy happens to be. */
static void managed(void **state)
{
	struct peerdma_region *region = (void *)1;
	struct peerdma *ctx = open_with(NULL, 0);
	struct peerdma_cached *hold = (void *)1;
	struct peerdma_cache *cache;

	(void)state;
	cuda->memory[0].managed = 1;
	assert_int_equal(peerdma_cache_open(ctx, NULL, &cache), 0);
	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), -ENXIO);
	begins("kernel: this is managed memory");
	assert_int_equal(peerdma_cache_get(cache, memory, 10, &hold), -ENXIO);
	says("managed");
	assert_true(region == (void *)1 && hold == (void *)1);
	assert_int_equal(peerdma_pin(ctx, memory, 10, PEERDMA_HOST, NULL, &region), 0);
	is_of(region, "kernel", 1);
	peerdma_cache_close(cache);
	peerdma_close(ctx);
}

/* ---- a copy ---- */

static void staging(void **state)
{
	struct peerdma_region *region = (void *)1;
	struct peerdma_mapping *m;
	struct peerdma *ctx;
	unsigned long before = locked();
	char *view;
	int fd;

	(void)state;
	fake.open_error = -ENOENT;
	cuda->export_error = 801;
	memset(memory, 'a', 16 * PAGE);
	ctx = open_with(NULL, 0);
	/* Never without being asked for, nor as the direct path. */
	assert_int_equal(peerdma_pin(ctx, memory, PAGE, 0, NULL, &region), -EOPNOTSUPP);
	says("dmabuf: this GPU");
	says("staging: was not asked for");
	assert_int_equal(peerdma_pin(ctx, memory, PAGE, PEERDMA_STAGING | PEERDMA_DIRECT, NULL, &region), -EOPNOTSUPP);
	says("staging: refused");
	cuda->copy_error = 201;
	assert_int_equal(peerdma_pin(ctx, memory, PAGE, PEERDMA_STAGING, NULL, &region), -EIO);
	says("no current context");
	cuda->copy_error = 0;
	assert_ptr_equal(region, (void *)1);
	assert_int_equal(locked(), before);

	assert_int_equal(peerdma_pin(ctx, memory + 100, 2 * PAGE, PEERDMA_STAGING, NULL, &region), 0);
	is_of(region, "staging", 0);
	assert_non_null(strstr(peerdma_why(region), "kernel: "));
	assert_int_equal(locked() - before, 3 * PAGE);
	assert_false(peerdma_valid(region));
	assert_int_equal(peerdma_cpu_view(region, (void **)&view), 0);
	assert_true(view[0] == 'a' && view[2 * PAGE - 1] == 'a');

	memset(memory, 'b', 16 * PAGE);
	assert_int_equal(view[1], 'a');
	assert_int_equal(peerdma_sync(region, 1, 1, PEERDMA_TO_DEVICE), 0);
	assert_true(view[0] == 'a' && view[1] == 'b' && view[2] == 'a');
	view[2 * PAGE - 1] = 'c';
	assert_int_equal(peerdma_sync(region, 2 * PAGE - 1, 1, PEERDMA_FROM_DEVICE), 0);
	assert_true(memory[100 + 2 * PAGE - 1] == 'c' && memory[100] == 'b');
	assert_int_equal(peerdma_sync(region, 0, 0, PEERDMA_TO_DEVICE), 0);
	assert_true(view[0] == 'b' && view[2 * PAGE - 1] == 'c');
	assert_int_equal(peerdma_sync(region, 0, 2 * PAGE + 1, PEERDMA_TO_DEVICE), -EINVAL);
	assert_int_equal(peerdma_sync(region, 1, 0, PEERDMA_TO_DEVICE), -EINVAL);
	assert_int_equal(peerdma_sync(region, 0, 1, PEERDMA_TO_DEVICE | PEERDMA_FROM_DEVICE), -EINVAL);
	assert_int_equal(peerdma_map(region, "03:00.0", PEERDMA_TO_DEVICE, &m), -EOPNOTSUPP);
	assert_int_equal(peerdma_export_dmabuf(region, 0, 0, &fd), -EOPNOTSUPP);

	cuda->memory[0].id++;		/* another's memory is not written to */
	memset(view, 'd', PAGE);
	assert_int_equal(peerdma_sync(region, 0, 1, PEERDMA_FROM_DEVICE), -ESTALE);
	assert_int_equal(memory[100], 'b');
	assert_int_equal(state_of(region), PEERDMA_STATE_REVOKED);
	assert_int_equal(peerdma_unpin(region), 0);
	assert_int_equal(locked(), before);
	peerdma_close(ctx);
}

/* The copy is pinned by the kernel, where that has no way to the GPU's memory. */
static void staging_mapped(void **state)
{
	struct peerdma *ctx = open_with("staging,kernel", 0);
	struct peerdma_region *region;
	struct peerdma_mapping *m;

	(void)state;
	assert_int_equal(peerdma_pin(ctx, memory, PAGE, PEERDMA_STAGING, NULL, &region), 0);
	is_of(region, "staging", 0);
	assert_int_equal(peerdma_map(region, "03:00.0", PEERDMA_TO_DEVICE, &m), 0);
	assert_int_equal(fake.mappings, 1);
	assert_int_equal(peerdma_unmap(m), 0);
	assert_int_equal(fake.mappings, 0);
	fake.unpin_error = -EBUSY;
	assert_int_equal(peerdma_unpin(region), -EBUSY);
	fake.unpin_error = 0;
	assert_int_equal(peerdma_sync(region, 0, 0, PEERDMA_TO_DEVICE), 0);
	assert_int_equal(peerdma_unpin(region), 0);
	assert_int_equal(fake.unpins, 1);
	assert_int_equal(peerdma_pin(ctx, memory, PAGE, 0, NULL, &region), 0);
	is_of(region, "kernel", 1);
	assert_int_equal(peerdma_sync(region, 0, 0, PEERDMA_FROM_DEVICE), 0);	/* nothing to do */
	peerdma_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(names, reset),
		cmocka_unit_test_setup(best, reset),
		cmocka_unit_test_setup(next_best, reset),
		cmocka_unit_test_setup(no_room, reset),
		cmocka_unit_test_setup(direct, reset),
		cmocka_unit_test_setup(overlapping, reset),
		cmocka_unit_test_setup(holes, reset),
		cmocka_unit_test_setup(read_only, reset),
		cmocka_unit_test_setup(host_views, reset),
		cmocka_unit_test_setup_teardown(dmabuf, reset_cuda, no_cuda),
		cmocka_unit_test_setup_teardown(dmabuf_fails, reset_cuda, no_cuda),
		cmocka_unit_test_setup_teardown(by_id, reset_cuda, no_cuda),
		cmocka_unit_test_setup_teardown(cause_first, reset_cuda, no_cuda),
		cmocka_unit_test_setup_teardown(no_provider, reset_cuda, no_cuda),
		cmocka_unit_test_setup_teardown(managed, reset_cuda, no_cuda),
		cmocka_unit_test_setup_teardown(staging, reset_cuda, no_cuda),
		cmocka_unit_test_setup_teardown(staging_mapped, reset_cuda, no_cuda),
	};

	/* The stand-in first: a context for the software GPU takes what is there, or else loads softgpu's. */
	dlopen("libcuda.so.1", RTLD_NOW);
	memory = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 1;
	if (syscall(SYS_mlock, memory, 64 * PAGE)) {
		print_message("skipped: this process may not lock %lu bytes of memory (ulimit -l)\n", 64 * PAGE);
		return 77;
	}
	syscall(SYS_munlock, memory, 64 * PAGE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
