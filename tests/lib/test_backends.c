// SPDX-License-Identifier: MIT
/*
 * test_backends.c - which back-end gets a pin, and what is said of those that were
 * passed over; the kernel is a stand-in.
 */
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../cases.h"
#include "backends.h"
#include "fake_cuda.h"
#include "fake_sys.h"
#include "peerdma_cache.h"

char *memory;

struct peerdma *open_with(const char *provider, unsigned int flags)
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

void is_of(struct peerdma_region *region, const char *backend, int direct)
{
	struct peerdma_status s = { .size = sizeof(s) };

	assert_int_equal(peerdma_status(region, &s), 0);
	assert_string_equal(s.backend, backend);
	assert_int_equal(s.direct, direct);
}

void says(const char *text)
{
	if (!strstr(peerdma_last_error(), text))
		fail_msg("\"%s\" does not say \"%s\"", peerdma_last_error(), text);
}

int reset(void **state)
{
	fake_reset();
	return 0;
}

FIXTURE(reset, NULL)

CASE(names)
{
	static const char *const bad[] = { "x", "kernel,x", "kernel,,host", ",", "kernel ", "Kernel", "kern", "kernels" };
	struct peerdma *ctx = (void *)1;

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
CASE(best)
{
	struct peerdma *ctx = open_with(NULL, 0);
	struct peerdma_region *region;

	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), 0);
	is_of(region, "kernel", 1);
	assert_string_equal(peerdma_why(region), "");
	peerdma_close(ctx);
	assert_int_equal(fake.unpins, 1);
}

/* What a pin has not is told with the reason why it has no better back-end, if there is one. */
static void cannot(struct peerdma_region *region)
{
	char text[2048];
	int fd;

	snprintf(text, sizeof(text), "peerdma_export_dmabuf: this pin is of back-end 'host', which has no dma-bufs%s%s%s",
		 *peerdma_why(region) ? " (" : "", peerdma_why(region), *peerdma_why(region) ? ")" : "");
	assert_int_equal(peerdma_export_dmabuf(region, 0, 0, &fd), -EOPNOTSUPP);
	assert_string_equal(peerdma_last_error(), text);
}

CASE(next_best)
{
	struct peerdma_region *region, *other;
	const char *why;
	struct peerdma *ctx;

	fake.open_error = -ENOENT;
	ctx = open_with(NULL, 0);
	assert_int_equal(peerdma_pin(ctx, memory, 10, PEERDMA_HOST, NULL, &region), 0);
	is_of(region, "host", 0);
	why = peerdma_why(region);
	assert_non_null(strstr(why, "kernel: "));
	assert_non_null(strstr(why, "modprobe peerdma"));
	cannot(region);
	/* The same reason is one text. */
	assert_int_equal(peerdma_pin(ctx, memory + PAGE, 10, PEERDMA_HOST, NULL, &other), 0);
	assert_ptr_equal(why, peerdma_why(other));
	assert_int_equal(peerdma_unpin(region), 0);
	assert_ptr_equal(why, peerdma_why(other));
	peerdma_close(ctx);
	ctx = open_with("host", 0);
	assert_int_equal(peerdma_pin(ctx, memory, 10, PEERDMA_HOST, NULL, &region), 0);
	assert_string_equal(peerdma_why(region), "");
	cannot(region);
	peerdma_close(ctx);

	/* It is there, but does not know the memory. */
	fake.open_error = 0;
	ctx = open_with(NULL, 0);
	fake.pin_error = -ENXIO;
	assert_int_equal(peerdma_pin(ctx, memory, 10, PEERDMA_HOST, NULL, &region), 0);
	is_of(region, "host", 0);
	assert_non_null(strstr(peerdma_why(region), "no loaded provider owns this memory"));
	peerdma_close(ctx);
	assert_int_equal(fake.opens, fake.closes);
}

/* A back-end that could but for want of room is not passed over. */
CASE(no_room)
{
	static const int errors[] = { -ENOMEM, -ENOSPC, -EMFILE, -EFAULT, -ESTALE };
	struct peerdma *ctx = open_with(NULL, 0);
	struct peerdma_region *region = (void *)1;

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
CASE(direct)
{
	struct peerdma_region *region = (void *)1;
	struct peerdma *ctx;

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

/* ---- what errors say ---- */

static void begins(const char *text)
{
	const char *range = strstr(peerdma_last_error(), "): ");

	if (!range || strncmp(range + 3, text, strlen(text)) != 0)
		fail_msg("\"%s\" does not begin with \"%s\"", peerdma_last_error(), text);
}

/* The cause is the first sentence; what other back-ends have to say follows. */
CASE_WITH(cause_first, reset_cuda, no_cuda)
{
	struct peerdma_region *region = (void *)1;
	void *hole = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct peerdma *ctx;

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
	says("; host: ");
	peerdma_close(ctx);
	ctx = open_with("host", 0);
	assert_int_equal(peerdma_pin(ctx, hole, 10, 0, NULL, &region), -EFAULT);
	begins("part of the range has no memory behind it");
	assert_null(strstr(peerdma_last_error(), "Other"));
	peerdma_close(ctx);
	assert_ptr_equal(region, (void *)1);
}

/* peerdma.ko alone takes a GPU's address for the host's, at which there is nothing. */
CASE_WITH(no_provider, reset_cuda, no_cuda)
{
	struct peerdma_region *region = (void *)1;
	struct peerdma *ctx = open_with("kernel", 0);

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

/* Without PEERDMA_HOST no caller gets the pages in which the host's copy happens to be. */
CASE_WITH(managed, reset_cuda, no_cuda)
{
	struct peerdma_region *region = (void *)1;
	struct peerdma *ctx = open_with(NULL, 0);
	struct peerdma_cached *hold = (void *)1;
	struct peerdma_cache *cache;

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

int main(void)
{
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
	return cases_run(NULL, NULL);
}
