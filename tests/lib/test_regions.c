// SPDX-License-Identifier: MIT
/*
 * test_regions.c - contexts, pins, mappings, views and notices on a stand-in
 * for the kernel.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include "internal.h"	/* before cmocka, which has a fail() of its own */
#include "../cases.h"

#include "fake_cuda.h"
#include "fake_sys.h"

static char *memory;	/* 1 MiB */
static struct peerdma *ctx;

static int setup(void **state)
{
	fake_reset();
	return peerdma_open(&ctx, 0);
}

static int teardown(void **state)
{
	peerdma_close(ctx);
	if (fake.opens != fake.closes || fake.mmaps != fake.munmaps) {
		print_error("left open: %d files, %d maps\n", fake.opens - fake.closes, fake.mmaps - fake.munmaps);
		return -1;
	}
	return 0;
}

FIXTURE(setup, teardown)

static struct peerdma_region *pin(void *cookie)
{
	struct peerdma_region *region = NULL;

	assert_int_equal(peerdma_pin(ctx, memory + 100, 1000, 0, cookie, &region), 0);
	return region;
}

CASE_WITH(opening, NULL, NULL)
{
	struct peerdma *c = (void *)1;

	fake_reset();
	fake.open_error = -ENOENT;
	assert_int_equal(peerdma_open(&c, 0), -ENODEV);
	assert_non_null(strstr(peerdma_last_error(), "/dev/peerdma"));
	assert_non_null(strstr(peerdma_last_error(), "modprobe peerdma"));
	fake.open_error = -EACCES;
	assert_int_equal(peerdma_open(&c, 0), -EACCES);
	fake.open_error = -EMFILE;
	assert_int_equal(peerdma_open(&c, 0), -EMFILE);
	assert_int_equal(peerdma_open(&c, 0x80), -EINVAL);
	fake.open_error = 0;
	fake.abi = 99;
	assert_int_equal(peerdma_open(&c, 0), -EPROTO);
	assert_non_null(strstr(peerdma_last_error(), "99"));
	assert_int_equal(fake.opens, fake.closes);
	assert_ptr_equal(c, (void *)1);
	peerdma_close(NULL);
}

CASE(one_pin)
{
	struct peerdma_status s = { .size = sizeof(s) };
	struct peerdma_region *region = pin(NULL);
	char *view, *second;

	assert_true(peerdma_valid(region));
	assert_int_equal(peerdma_status(region, &s), 0);
	assert_int_equal(s.state, PEERDMA_STATE_LIVE);
	assert_true(s.addr == (uintptr_t)memory + 100);
	assert_int_equal(s.pinned_addr % s.page_size, 0);
	assert_int_equal(s.pinned_length % s.page_size, 0);
	assert_true(s.pinned_addr <= s.addr && s.addr + s.length <= s.pinned_addr + s.pinned_length);
	assert_string_equal(s.provider, "host");
	assert_int_equal(s.sync_memops, 0);

	assert_int_equal(peerdma_cpu_view(region, (void **)&view), 0);
	assert_int_equal(peerdma_cpu_view(region, (void **)&second), 0);
	assert_ptr_not_equal(view, second);
	assert_int_equal((uintptr_t)view % 4096, ((uintptr_t)memory + 100) % 4096);
	memset(view, 1, 1000);
	assert_int_equal(peerdma_cpu_view_end(region, view + 1), -EINVAL);
	assert_int_equal(peerdma_cpu_view_end(region, view), 0);
	assert_int_equal(peerdma_cpu_view_end(region, view), -EINVAL);
	/* The second one goes with the pin. */
	assert_int_equal(peerdma_unpin(region), 0);
	assert_int_equal(fake.unpins, 1);
	assert_int_equal(peerdma_unpin(NULL), 0);
}

CASE(pin_fails)
{
	static const struct {
		int error;
		const char *says;
	} cases[] = {
		{ -ENXIO, "provider" }, { -EFAULT, "no memory" }, { -ENOMEM, "RLIMIT_MEMLOCK" }, { -ENOSPC, "peerdma bar1" },
		{ -EOPNOTSUPP, "provider" }, { -ENFILE, "1048576 pins" }, { -EINVAL, "length" }, { -ESTALE, "freed" },
	};
	struct peerdma_region *region = (void *)1;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake.pin_error = cases[i].error;
		assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), cases[i].error);
		assert_non_null(strstr(peerdma_last_error(), cases[i].says));
	}
	fake.pin_error = 0;
	assert_int_equal(peerdma_pin(ctx, memory, 10, 1U << 9, NULL, &region), -EINVAL);
	assert_ptr_equal(region, (void *)1);
}

/* The error's text, by the user's id, is this, or ends so. */
static void says(const char *format)
{
	const char *text = peerdma_last_error();
	char expected[512];

	snprintf(expected, sizeof(expected), format, getuid());
	if (strlen(text) < strlen(expected) || strcmp(text + strlen(text) - strlen(expected), expected) != 0)
		fail_msg("'%s' does not end with '%s'", text, expected);
}

CASE(at_a_quota)
{
	struct peerdma_region *region = pin(NULL), *none = NULL;
	struct peerdma_mapping *m;
	void *view;
	int fd;

	fake.info = (struct peerdma_info){
		.user_pins = 65536, .max_user_pins = 65536, .user_mappings = 7, .max_user_mappings = 8, .user_views = 3,
		.max_user_views = 3, .user_exports = 1, .max_user_exports = 1, .user_aperture = 6 << 20,
		.max_user_aperture = 8 << 20, .user_locked = 5 << 20,
	};
	fake.pin_error = fake.map_error = fake.view_error = fake.export_error = -EDQUOT;
	for (fake.old = 0; fake.old < 2; fake.old++) {
		assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &none), -EDQUOT);
		says(fake.old ? "): user %u has as many pins as one user may have: unpin some, or raise peerdma's module "
				"parameter max_pins_per_user" :
		     "): user %u has 65536 pins, and one user may have 65536: unpin some, or raise peerdma's module "
		     "parameter max_pins_per_user");
		assert_int_equal(peerdma_map(region, "03:00.0", PEERDMA_TO_DEVICE, &m), -EDQUOT);
		says(fake.old ? "03:00.0: user %u has as many mappings for devices as one user may have: unmap some, or raise "
				"peerdma's module parameter max_mappings_per_user" :
		     "03:00.0: user %u has 7 mappings for devices, and one user may have 8: unmap some, or raise "
		     "peerdma's module parameter max_mappings_per_user");
		assert_int_equal(peerdma_cpu_view(region, &view), -EDQUOT);
		says(fake.old ? "peerdma_cpu_view: user %u has as many CPU views as one user may have: end some, or raise "
				"peerdma's module parameter max_views_per_user" :
		     "peerdma_cpu_view: user %u has 3 CPU views, and one user may have 3: end some, or raise "
		     "peerdma's module parameter max_views_per_user");
		assert_int_equal(peerdma_export_dmabuf(region, 0, 0, &fd), -EDQUOT);
		says(fake.old ? "peerdma_export_dmabuf: user %u has as many exported dma-bufs as one user may have: close some, or "
				"raise peerdma's module parameter max_exports_per_user" :
		     "peerdma_export_dmabuf: user %u has 1 exported dma-bufs, and one user may have 1: close some, or "
		     "raise peerdma's module parameter max_exports_per_user");
	}
	assert_int_equal(peerdma_unpin(region), 0);
}

CASE(at_the_aperture)
{
	struct peerdma_region *none = NULL;

	fake.info = (struct peerdma_info){ .user_aperture = 6 << 20, .max_user_aperture = 8 << 20 };
	fake.pin_error = -ENOBUFS;
	assert_int_equal(peerdma_pin(ctx, memory, 4 << 20, 0, NULL, &none), -ENOBUFS);
	says("user %u has 6291456 bytes of device memory pinned, this pin of 4194304 bytes would make it more than the 8388608 "
	     "that one user may have: unpin some, or raise peerdma's module parameter max_aperture_mib_per_user");
	fake.old = 1;
	assert_int_equal(peerdma_pin(ctx, memory, 4 << 20, 0, NULL, &none), -ENOBUFS);
	says("user %u would have more device memory pinned than one user may have: unpin some, or raise peerdma's module "
	     "parameter max_aperture_mib_per_user");
}

CASE(at_locked_memory)
{
	struct peerdma_region *none = NULL;

	fake.info.user_locked = 8 << 20;
	fake.pin_error = -ENOMEM;
	assert_int_equal(peerdma_pin(ctx, memory + 4095, 2, 0, NULL, &none), -ENOMEM);
	says("user %u has 8388608 bytes of host memory pinned, in all processes together, and 8192 more are above "
	     "RLIMIT_MEMLOCK, 8388608 bytes: unpin some, or raise the limit ('ulimit -l')");
	/* There is room for one page more. */
	fake.info.user_locked = (8 << 20) - 4096;
	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &none), -ENOMEM);
	says("user %u has locked as much memory as RLIMIT_MEMLOCK allows, 8388608 bytes ('ulimit -l'), of which peerdma's "
	     "pins are 8384512; or the kernel is out of memory");
	fake.memlock = UINT64_MAX;
	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &none), -ENOMEM);
	says("the kernel is out of memory (RLIMIT_MEMLOCK does not limit this process)");
	assert_int_equal(peerdma_pin(ctx, memory, 10, PEERDMA_DEVICE, NULL, &none), -ENOMEM);
	says("the kernel or the device's driver is out of memory; or the generations of thousands of pins, or memory pinned "
	     "on a Tegra, take more than RLIMIT_MEMLOCK ('ulimit -l')");
}

CASE(unpin_fails)
{
	struct peerdma_region *region = pin(&ctx);
	struct peerdma_notice n = { .size = sizeof(n) };

	fake.unpin_error = -EBUSY;
	assert_int_equal(peerdma_unpin(region), -EBUSY);
	assert_true(peerdma_valid(region));
	fake_revoke(1);		/* and it still gets its notice */
	assert_int_equal(peerdma_next_event(ctx, &n, 0), 0);
	assert_ptr_equal(n.region, region);
	fake.unpin_error = 0;
	assert_int_equal(peerdma_unpin(region), 0);
}

CASE(mappings)
{
	static const char *const bad[] = {
		"", "x", "03:00", "03:00.0 ", "03:00.8", "03:20.0", "0000:03:00.0:1", " 03:00.0", "-3:00.0", "0x3:00.0",
		"123456789:03:00.0", "0000:03:00.0.0",
	};
	struct peerdma_region *region = pin(NULL);
	const struct peerdma_range *r;
	struct peerdma_mapping *m;
	size_t n;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (peerdma_map(region, bad[i], PEERDMA_TO_DEVICE, &m) != -EINVAL)
			fail_msg("accepted '%s'", bad[i]);
	}
	assert_int_equal(peerdma_map(region, "10000:c3:1f.7", PEERDMA_TO_DEVICE, &m), 0);
	assert_int_equal(fake.last_domain, 0x10000);
	assert_int_equal(fake.last_bus, 0xc3);
	assert_int_equal(fake.last_devfn, 0xff);
	assert_int_equal(peerdma_unmap(m), 0);
	fake.segments = 1000;	/* more than the library guesses */
	assert_int_equal(peerdma_map(region, "03:00.0", PEERDMA_FROM_DEVICE, &m), 0);
	assert_int_equal(fake.last_domain, 0);
	r = peerdma_ranges(m, &n);
	assert_int_equal(n, 1000);
	assert_int_equal(r[999].addr, 0x1000000 + 999 * 0x20000);
	assert_int_equal(fake.mappings, 1);
	assert_int_equal(peerdma_map(region, "03:00.0", PEERDMA_FROM_DEVICE, &m), 0);
	assert_int_equal(peerdma_unmap(m), 0);
	assert_int_equal(peerdma_unmap(NULL), 0);
	fake.map_error = -EPERM;
	assert_int_equal(peerdma_map(region, "03:00.0", PEERDMA_FROM_DEVICE, &m), -EPERM);
	assert_non_null(strstr(peerdma_last_error(), "CAP_SYS_RAWIO"));
	assert_int_equal(peerdma_unpin(region), 0);	/* with the first one still there */
}

/* What is revoked before its caller has it was freed during the call: its notice would name a region that the caller does not know. */
CASE(revoked_at_once)
{
	struct peerdma_notice n = { .size = sizeof(n) };
	struct peerdma_region *r = NULL;

	fake.revoked_at_once = 1;
	assert_int_equal(peerdma_pin(ctx, memory, 100, 0, NULL, &r), -ESTALE);
	assert_non_null(strstr(peerdma_last_error(), "freed during the call"));
	assert_null(r);
	assert_int_equal(fake.unpins, 1);
	assert_int_equal(peerdma_next_event(ctx, &n, 0), -EAGAIN);
	assert_int_equal(peerdma_pin(ctx, memory, 100, 0, NULL, &r), 0);
	assert_int_equal(peerdma_unpin(r), 0);
}

/* A handle is given out again: its events are the new pin's, and not of memory that was a region. */
CASE(handles_come_back)
{
	struct peerdma_notice n = { .size = sizeof(n) };
	struct peerdma_region *r;
	void *volatile blocks[32];	/* else the compiler does without */

	assert_int_equal(peerdma_pin(ctx, memory, 10, PEERDMA_HOST, NULL, &r), 0);
	assert_int_equal(peerdma_unpin(r), 0);
	for (int i = 0; i < 32; i++)	/* one of them is where that was, with what is left of it */
		blocks[i] = malloc(sizeof(struct peerdma_region));
	assert_int_equal(peerdma_pin(ctx, memory, 10, PEERDMA_HOST, NULL, &r), 0);
	fake_revoke(r->kernel.handle);
	assert_int_equal(peerdma_next_event(ctx, &n, 0), 0);
	assert_ptr_equal(n.region, r);
	assert_int_equal(peerdma_unpin(r), 0);
	for (int i = 0; i < 32; i++)
		free(blocks[i]);
}

CASE(notices)
{
	struct peerdma_notice n = { .size = sizeof(n) };
	struct peerdma_region *a = pin("a"), *b = pin("b"), *c = pin("c");

	assert_int_equal(peerdma_next_event(ctx, &n, 0), -EAGAIN);
	assert_int_equal(peerdma_next_event(ctx, &n, 20), -EAGAIN);
	fake_revoke(2);
	fake_revoke(1);
	assert_false(peerdma_valid(a));
	assert_false(peerdma_valid(b));
	assert_true(peerdma_valid(c));
	assert_int_equal(peerdma_next_event(ctx, &n, -1), 0);
	assert_ptr_equal(n.region, b);
	assert_string_equal(n.cookie, "b");
	assert_true(n.addr == (uintptr_t)memory + 100);

	/* a is unpinned while its event is read, and its handle is another's at once. */
	fake.keep_events = 1;
	assert_int_equal(peerdma_unpin(a), 0);
	a = pin("new");
	assert_true(peerdma_valid(a));
	assert_int_equal(peerdma_next_event(ctx, &n, 0), -EAGAIN);
	n.size = 4;
	assert_int_equal(peerdma_next_event(ctx, &n, 0), -EINVAL);
	assert_int_equal(peerdma_event_fd(ctx), 1000);
	/* The rest is left to close. */
}

/* Not unpinned, and a child that has the file open too: close ends the pins all the same. */
CASE_WITH(closing, NULL, NULL)
{
	struct peerdma *c;
	struct peerdma_region *a, *b;

	fake_reset();
	assert_int_equal(peerdma_open(&c, 0), 0);
	assert_int_equal(peerdma_pin(c, memory, 10, 0, NULL, &a), 0);
	assert_int_equal(peerdma_pin(c, memory, 10, 0, NULL, &b), 0);
	peerdma_close(c);
	assert_int_equal(fake.unpins, 2);
}

#define ROUNDS 3000
static int stale;	/* pins that were revoked before their caller had them */

static void *pins_and_unpins(void *failures)
{
	char *view;

	for (int i = 0; i < ROUNDS; i++) {
		struct peerdma_status s = { .size = sizeof(s) };
		struct peerdma_region *r;
		struct peerdma_mapping *m;
		int ret;

		while ((ret = peerdma_pin(ctx, memory + i, 1000, 0, failures, &r)) == -ESTALE)
			__atomic_add_fetch(&stale, 1, __ATOMIC_RELAXED);
		if (ret || peerdma_status(r, &s) ||
		    (s.state == PEERDMA_STATE_REVOKED && peerdma_valid(r)) ||
		    peerdma_map(r, "03:00.0", PEERDMA_TO_DEVICE, &m) || peerdma_cpu_view(r, (void **)&view) ||
		    (i % 2 && peerdma_unmap(m)) || (i % 3 && peerdma_cpu_view_end(r, view)) || peerdma_unpin(r))
			__atomic_add_fetch((int *)failures, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void *revokes(void *stop)
{
	for (uint32_t i = 0; !__atomic_load_n((int *)stop, __ATOMIC_ACQUIRE); i++)
		fake_revoke(1 + i % 6);
	return NULL;
}

/* For ThreadSanitizer above all. */
CASE(threads)
{
	struct peerdma_notice n = { .size = sizeof(n) };
	pthread_t workers[3], revoker;
	int failures = 0, stop = 0, bad = 0;

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&workers[i], NULL, pins_and_unpins, &failures), 0);
	assert_int_equal(pthread_create(&revoker, NULL, revokes, &stop), 0);
	for (int i = 0; i < ROUNDS; i++) {
		int ret = peerdma_next_event(ctx, &n, 0);

		bad += ret ? ret != -EAGAIN : n.cookie != &failures;
	}
	for (int i = 0; i < 3; i++)
		pthread_join(workers[i], NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(revoker, NULL);
	assert_int_equal(failures, 0);
	assert_int_equal(bad, 0);
	assert_int_equal(fake.unpins, 3 * ROUNDS + stale);
}

CASE(sync_memops)
{
	struct peerdma_status s = { .size = sizeof(s) };
	struct fake_cuda *(*get)(void), *cuda;
	struct peerdma_region *region;
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	assert_non_null(library);
	*(void **)&get = dlsym(library, "fake_cuda");
	assert_non_null(get);
	cuda = get();
	cuda->state = 0;
	cuda->memory[0] = (struct fake_memory){ .base = (uintptr_t)memory, .size = 65536, .type = 2, .context = cuda };
	fake.device_memory = 1;

	assert_int_equal(peerdma_pin(ctx, memory, 10, PEERDMA_NO_SYNC_MEMOPS, NULL, &region), 0);
	assert_int_equal(cuda->memory[0].sync_memops, 0);
	assert_int_equal(peerdma_unpin(region), 0);
	region = pin(NULL);
	assert_int_equal(cuda->memory[0].sync_memops, 1);
	assert_int_equal(peerdma_status(region, &s), 0);
	assert_int_equal(s.sync_memops, 1);
	assert_int_equal(peerdma_unpin(region), 0);

	cuda->memory[0].no_sync_memops = 1;		/* pinned, and the status says what it lacks */
	region = pin(NULL);
	assert_int_equal(peerdma_status(region, &s), 0);
	assert_int_equal(s.sync_memops, 0);
	assert_int_equal(peerdma_unpin(region), 0);

	cuda->state = 999;
	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), -EIO);
	assert_non_null(strstr(peerdma_last_error(), "999"));
	assert_int_equal(fake.pins[1].live, 0);		/* nothing is left behind */
	fake.device_memory = 0;				/* host memory: CUDA is not asked */
	region = pin(NULL);
	assert_int_equal(peerdma_unpin(region), 0);
	cuda->state = 3;
}

static int child(struct peerdma_region *region, void *view)
{
	struct peerdma_status s = { .size = sizeof(s) };
	struct peerdma_notice n = { .size = sizeof(n) };
	struct peerdma_region *r;
	struct peerdma_mapping *m;
	struct peerdma *own;
	void *p;
	int fd;

	if (peerdma_pin(ctx, memory, 10, 0, NULL, &r) != -EPERM || peerdma_status(region, &s) != -EPERM ||
	    peerdma_map(region, "03:00.0", PEERDMA_TO_DEVICE, &m) != -EPERM || peerdma_cpu_view(region, &p) != -EPERM ||
	    peerdma_cpu_view_end(region, view) != -EPERM || peerdma_export_dmabuf(region, 0, 0, &fd) != -EPERM ||
	    peerdma_next_event(ctx, &n, 0) != -EPERM || peerdma_event_fd(ctx) != -EPERM)
		return 1;
	if (!strstr(peerdma_last_error(), "parent"))
		return 2;
	if (!peerdma_valid(region))
		return 3;
	/* What the child has put where the parent's view was is the child's. */
	view = (void *)((uintptr_t)view & ~4095UL);
	p = mmap(view, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (p != view)
		return 7;
	if (peerdma_unpin(region))
		return 4;
	if (mprotect(p, 4096, PROT_READ))
		return 8;
	peerdma_close(ctx);
	if (fake.unpins)
		return 5;	/* the parent's pin was ended */
	if (peerdma_open(&own, 0) || peerdma_pin(own, memory, 10, 0, NULL, &r) || peerdma_unpin(r))
		return 6;
	peerdma_close(own);
	return 0;
}

CASE(forked)
{
	struct peerdma_region *region = pin(NULL), *other = pin(NULL);
	void *view;
	int status;
	pid_t pid;

	assert_int_equal(peerdma_cpu_view(region, &view), 0);
	pid = fork();
	if (!pid)
		_exit(child(region, view));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(peerdma_valid(region));
	assert_true(peerdma_valid(other));
	memset(view, 2, 1000);
	assert_int_equal(peerdma_unpin(region), 0);
}

int main(void)
{
	int ret;

	memory = aligned_alloc(65536, 1 << 20);
	ret = cases_run(NULL, NULL);
	free(memory);
	return ret;
}
