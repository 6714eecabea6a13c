// SPDX-License-Identifier: MIT
/*
 * test_errors.c - what the library gives the kernel in each call, and what it makes of each error that comes back; what
 * each call says of wrong arguments, and in a forked child. The kernel is a stand-in.
 */
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include "internal.h"	/* before cmocka, which has a fail() of its own */
#include "../cases.h"

#include "fake_cuda.h"
#include "fake_sys.h"
#include "peerdma_cache.h"
#include "peerdma_verbs.h"

#define PAGE 4096UL
#define N(array) (sizeof(array) / sizeof((array)[0]))

static char *memory;	/* 1 MiB */
static struct peerdma *ctx;
static struct peerdma_region *region;	/* in it, from byte 100 on, 1000 bytes */
static struct peerdma_mapping *mapping;
static struct fake_cuda *cuda;

static int setup(void **state)
{
	fake_reset();
	memset(cuda, 0, sizeof(*cuda));
	cuda->state = 3;
	if (peerdma_open(&ctx, 0) || peerdma_pin(ctx, memory + 100, 1000, 0, "cookie", &region))
		return -1;
	return peerdma_map(region, "03:00.0", PEERDMA_TO_DEVICE, &mapping);
}

static int teardown(void **state)
{
	peerdma_close(ctx);
	return fake.opens == fake.closes && fake.mmaps == fake.munmaps ? 0 : -1;
}

FIXTURE(setup, teardown)

static void says(const char *call, const char *text)
{
	const char *error = peerdma_last_error();

	if (strncmp(error, call, strlen(call)) != 0 || !strstr(error, text))
		fail_msg("\"%s\" does not begin with \"%s\" and say \"%s\"", error, call, text);
}

static int failed_with(int ret, int error, const char *call, const char *text)
{
	if (ret != error)
		fail_msg("%s: %d, not %d", call, ret, error);
	says(call, text);
	return 0;
}

/* ---- errors of the kernel ---- */

static int call_open(void)
{
	struct peerdma *none = (void *)1;
	int ret = peerdma_open(&none, 0);

	assert_ptr_equal(none, (void *)1);
	return ret;
}

static int call_pin(void)
{
	struct peerdma_region *none = (void *)1;
	int ret = peerdma_pin(ctx, memory, 10, 0, NULL, &none);

	assert_ptr_equal(none, (void *)1);
	return ret;
}

static int call_pin_readonly(void)
{
	struct peerdma_region *none = (void *)1;
	int ret = peerdma_pin(ctx, memory, 10, PEERDMA_PERSISTENT, NULL, &none);

	assert_ptr_equal(none, (void *)1);
	return ret;
}

static int call_pin_dmabuf(void)
{
	struct peerdma_region *none = (void *)1;
	int ret = peerdma_pin_dmabuf(ctx, 77, 0, PAGE, 0, NULL, &none);

	assert_ptr_equal(none, (void *)1);
	return ret;
}

static int call_unpin(void)
{
	return peerdma_unpin(region);
}

static int call_status(void)
{
	struct peerdma_status s = { .size = sizeof(s), .state = 77 };
	int ret = peerdma_status(region, &s);

	assert_int_equal(s.state, 77);
	return ret;
}

static int call_map(void)
{
	struct peerdma_mapping *none = (void *)1;
	int ret = peerdma_map(region, "03:00.0", PEERDMA_TO_DEVICE, &none);

	assert_ptr_equal(none, (void *)1);
	return ret;
}

static int call_unmap(void)
{
	return peerdma_unmap(mapping);
}

static int call_view(void)
{
	void *none = (void *)1;
	int ret = peerdma_cpu_view(region, &none);

	assert_ptr_equal(none, (void *)1);
	return ret;
}

static int call_export(void)
{
	int none = -7, ret = peerdma_export_dmabuf(region, 0, 0, &none);

	assert_int_equal(none, -7);
	return ret;
}

static int call_next_event(void)
{
	struct peerdma_notice n = { .size = sizeof(n), .reserved = 77 };
	int ret = peerdma_next_event(ctx, &n, 0);

	assert_int_equal(n.reserved, 77);
	return ret;
}

static const struct row {
	const char *name;	/* the text begins so */
	int (*call)(void);
	int *where, error, becomes;
	const char *says;
} rows[] = {
	{ "peerdma_open: /dev/peerdma: ", call_open, &fake.open_error, -ENOENT, -ENODEV, "modprobe peerdma" },
	{ "peerdma_open: /dev/peerdma: ", call_open, &fake.open_error, -ENXIO, -ENODEV, "modprobe peerdma" },
	{ "peerdma_open: /dev/peerdma: ", call_open, &fake.open_error, -ENODEV, -ENODEV, "modprobe peerdma" },
	{ "peerdma_open: /dev/peerdma: ", call_open, &fake.open_error, -EACCES, -EACCES, "group" },
	{ "peerdma_open: /dev/peerdma: ", call_open, &fake.open_error, -EPERM, -EACCES, "group" },
	{ "peerdma_open: /dev/peerdma: ", call_open, &fake.open_error, -EMFILE, -EMFILE, "RLIMIT_NOFILE" },
	{ "peerdma_open: /dev/peerdma: ", call_open, &fake.open_error, -ENFILE, -ENFILE, "fs.file-max" },
	{ "peerdma_open: /dev/peerdma: ", call_open, &fake.open_error, -ENOMEM, -ENOMEM, "out of memory" },
	{ "peerdma_open: /dev/peerdma: ", call_open, &fake.open_error, -EIO, -EIO, "cannot open: Input/output error" },
	{ "peerdma_open: /dev/peerdma: ", call_open, &fake.info_error, -ENOTTY, -EPROTO, "Inappropriate ioctl" },
	{ "peerdma_open: /dev/peerdma: ", call_open, &fake.generations_error, -ENOMEM, -ENOMEM,
		"generation page: out of memory" },
	{ "peerdma_open: /dev/peerdma: ", call_open, &fake.generations_error, -EAGAIN, -EAGAIN, "generation page: Resource" },

	{ "peerdma_pin: [", call_pin, &fake.pin_error, -EINVAL, -EINVAL, "give PEERDMA_HOST, PEERDMA_DEVICE or neither" },
	{ "peerdma_pin: [", call_pin, &fake.pin_error, -ENXIO, -ENXIO, "no loaded provider owns this memory" },
	{ "peerdma_pin: [", call_pin, &fake.pin_error, -EFAULT, -EFAULT, "PEERDMA_READONLY" },
	{ "peerdma_pin: [", call_pin, &fake.pin_error, -ENOMEM, -ENOMEM, "RLIMIT_MEMLOCK" },
	{ "peerdma_pin: [", call_pin, &fake.pin_error, -EDQUOT, -EDQUOT, "max_pins_per_user" },
	{ "peerdma_pin: [", call_pin, &fake.pin_error, -ENOBUFS, -ENOBUFS, "max_aperture_mib_per_user" },
	{ "peerdma_pin: [", call_pin, &fake.pin_error, -ENOSPC, -ENOSPC, "peerdma bar1" },
	{ "peerdma_pin: [", call_pin, &fake.pin_error, -EOPNOTSUPP, -EOPNOTSUPP, "cannot pin this memory" },
	{ "peerdma_pin: [", call_pin_readonly, &fake.pin_error, -EOPNOTSUPP, -EOPNOTSUPP, "no persistent pins" },
	{ "peerdma_pin: [", call_pin, &fake.pin_error, -ENFILE, -ENFILE, "reserved_pins" },
	{ "peerdma_pin: [", call_pin, &fake.pin_error, -ESTALE, -ESTALE, "the memory was freed meanwhile" },
	{ "peerdma_pin: [", call_pin, &fake.pin_error, -EINTR, -EINTR, "interrupted by a signal" },
	{ "peerdma_pin: [", call_pin, &fake.pin_error, -ENODEV, -ENODEV, "No such device" },

	{ "peerdma_pin_dmabuf: ", call_pin_dmabuf, &fake.pin_error, -EBADF, -EBADF, "descriptor 77 is no dma-buf" },
	{ "peerdma_pin_dmabuf: ", call_pin_dmabuf, &fake.pin_error, -ENXIO, -ENXIO, "lseek" },
	{ "peerdma_pin_dmabuf: ", call_pin_dmabuf, &fake.pin_error, -EINVAL, -EINVAL, "lseek" },
	{ "peerdma_pin_dmabuf: ", call_pin_dmabuf, &fake.pin_error, -ENOTTY, -EOPNOTSUPP, "does not import dma-bufs" },
	{ "peerdma_pin_dmabuf: ", call_pin_dmabuf, &fake.pin_error, -EFAULT, -EFAULT, "no memory behind it" },
	{ "peerdma_pin_dmabuf: ", call_pin_dmabuf, &fake.pin_error, -ENOMEM, -ENOMEM, "the device's driver is out of memory" },
	{ "peerdma_pin_dmabuf: ", call_pin_dmabuf, &fake.pin_error, -EDQUOT, -EDQUOT, "max_pins_per_user" },
	{ "peerdma_pin_dmabuf: ", call_pin_dmabuf, &fake.pin_error, -ENOBUFS, -ENOBUFS, "max_aperture_mib_per_user" },
	{ "peerdma_pin_dmabuf: ", call_pin_dmabuf, &fake.pin_error, -EOPNOTSUPP, -EOPNOTSUPP, "cannot pin this memory" },
	{ "peerdma_pin_dmabuf: ", call_pin_dmabuf, &fake.pin_error, -EBUSY, -EBUSY, "resource busy" },
	{ "peerdma_pin_dmabuf: ", call_pin_dmabuf, &fake.revoked_at_once, 1, -ESTALE, "taken away during the call" },

	{ "peerdma_unpin: handle 1: ", call_unpin, &fake.unpin_error, -EBUSY, -EBUSY, "resource busy" },
	{ "peerdma_unpin: handle 1: ", call_unpin, &fake.unpin_error, -ENOENT, -ENOENT, "No such file" },

	{ "peerdma_status: handle 1: ", call_status, &fake.query_error, -ENOENT, -ENOENT, "No such file" },
	{ "peerdma_status: handle 1: ", call_status, &fake.query_error, -EIO, -EIO, "Input/output" },

	{ "peerdma_map: 03:00.0: ", call_map, &fake.map_error, -ENODEV, -ENODEV, "lspci -k -s 03:00.0" },
	{ "peerdma_map: 03:00.0: ", call_map, &fake.map_error, -EPERM, -EPERM, "CAP_SYS_RAWIO" },
	{ "peerdma_map: 03:00.0: ", call_map, &fake.map_error, -EOPNOTSUPP, -EOPNOTSUPP, "no path from this device" },
	{ "peerdma_map: 03:00.0: ", call_map, &fake.map_error, -EIO, -EIO, "does not map this memory" },
	{ "peerdma_map: 03:00.0: ", call_map, &fake.map_error, -ESTALE, -ESTALE, "the pin is revoked" },
	{ "peerdma_map: 03:00.0: ", call_map, &fake.map_error, -EDQUOT, -EDQUOT, "max_mappings_per_user" },
	{ "peerdma_map: 03:00.0: ", call_map, &fake.map_error, -EINVAL, -EINVAL, "PEERDMA_FROM_DEVICE or both" },
	{ "peerdma_map: 03:00.0: ", call_map, &fake.map_error, -ENOMEM, -ENOMEM, "out of memory" },
	{ "peerdma_map: 03:00.0: ", call_map, &fake.map_error, -EFAULT, -EFAULT, "Bad address" },

	{ "peerdma_unmap: mapping 500: ", call_unmap, &fake.unmap_error, -ENOENT, -ENOENT, "No such file" },
	{ "peerdma_unmap: mapping 500: ", call_unmap, &fake.unmap_error, -EBUSY, -EBUSY, "resource busy" },

	{ "peerdma_cpu_view: ", call_view, &fake.view_error, -EOPNOTSUPP, -EOPNOTSUPP, "cannot reach" },
	{ "peerdma_cpu_view: ", call_view, &fake.view_error, -ESTALE, -ESTALE, "the pin is revoked" },
	{ "peerdma_cpu_view: ", call_view, &fake.view_error, -EDQUOT, -EDQUOT, "max_views_per_user" },
	{ "peerdma_cpu_view: ", call_view, &fake.view_error, -EACCES, -EACCES, "cannot map the pin: Permission denied" },
	{ "peerdma_cpu_view: ", call_view, &fake.view_error, -ENOMEM, -ENOMEM, "cannot map the pin: out of memory" },

	{ "peerdma_export_dmabuf: ", call_export, &fake.export_error, -EINVAL, -EINVAL, "within the 65536 pinned bytes" },
	{ "peerdma_export_dmabuf: ", call_export, &fake.export_error, -ESTALE, -ESTALE, "the pin is revoked" },
	{ "peerdma_export_dmabuf: ", call_export, &fake.export_error, -EDQUOT, -EDQUOT, "max_exports_per_user" },
	{ "peerdma_export_dmabuf: ", call_export, &fake.export_error, -EOPNOTSUPP, -EOPNOTSUPP, "cannot be exported" },
	{ "peerdma_export_dmabuf: ", call_export, &fake.export_error, -EMFILE, -EMFILE, "RLIMIT_NOFILE" },

	{ "peerdma_next_event: cannot read events: ", call_next_event, &fake.read_error, -EFAULT, -EFAULT, "Bad address" },
	{ "peerdma_next_event: cannot read events: ", call_next_event, &fake.short_read, 1, -EIO, "Input/output" },
	{ "peerdma_next_event: cannot wait: ", call_next_event, &fake.poll_error, -EINTR, -EINTR, "interrupted by a signal" },
	{ "peerdma_next_event: cannot wait: ", call_next_event, &fake.poll_error, -ENOMEM, -ENOMEM, "out of memory" },
	{ "peerdma_next_event: ", call_next_event, &fake.poll_error, 0, -EAGAIN, "no pin was revoked in 0 ms" },
};

/* None of them leaves anything behind or takes anything away: what was made before stays, and the calls work again. */
CASE(of_the_kernel)
{
	struct peerdma_status s = { .size = sizeof(s) };
	size_t n;

	for (size_t i = 0; i < N(rows); i++) {
		const struct row *r = &rows[i];
		int opened = fake.opens - fake.closes, mapped = fake.mmaps - fake.munmaps, live = 0, ret;

		*r->where = r->error;
		ret = r->call();
		*r->where = 0;
		if (ret != r->becomes)
			fail_msg("row %zu, %s: %d, not %d", i, r->name, ret, r->becomes);
		says(r->name, r->says);
		for (int h = 0; h < FAKE_PINS; h++)
			live += fake.pins[h].live;
		if (fake.opens - fake.closes != opened || fake.mmaps - fake.munmaps != mapped || live != 1)
			fail_msg("row %zu, %s: something is left", i, r->name);
	}
	assert_true(peerdma_valid(region));
	peerdma_ranges(mapping, &n);
	assert_int_equal(n, 1);
	fake.mappings_of = 1;
	assert_int_equal(peerdma_status(region, &s), 0);
	assert_int_equal(s.mappings, 1);
	assert_int_equal(peerdma_unmap(mapping), 0);
	assert_int_equal(fake.unmaps, 1);
	assert_int_equal(peerdma_unpin(region), 0);
}

/* ---- one of several pins ---- */

#define SEGMENTS 4
#define GPU_PAGE 65536UL

static struct peerdma_region *several;
static struct peerdma_mapping *over_all;

static int map_all(void)
{
	struct peerdma_mapping *m = (void *)1;
	int ret = peerdma_map(several, "03:00.0", PEERDMA_TO_DEVICE, &m);

	if (ret)
		assert_ptr_equal(m, (void *)1);
	else
		over_all = m;
	return ret;
}

static int unmap_all(void)
{
	return peerdma_unmap(over_all);
}

static int view_all(void)
{
	void *view = (void *)1;
	int ret = peerdma_cpu_view(several, &view);

	if (ret)
		assert_ptr_equal(view, (void *)1);
	else
		assert_int_equal(peerdma_cpu_view_end(several, view), 0);
	return ret;
}

static int status_of_all(void)
{
	struct peerdma_status s = { .size = sizeof(s) };
	int ret = peerdma_status(several, &s);

	if (!ret)
		assert_true(s.segments == SEGMENTS && s.state == PEERDMA_STATE_LIVE && s.exports == SEGMENTS * 5 && s.direct &&
			    s.notified &&
			    s.mappings <= 1 && !s.views && s.pinned_length == SEGMENTS * GPU_PAGE);
	return ret;
}

static int unpin_all(void)
{
	return peerdma_unpin(several);
}

/* Each of them in turn fails: the call says so and names itself, all is as before, and the next time it works. */
CASE(of_segments)
{
	static const struct {
		const char *name;
		int (*call)(void);
		unsigned long kernels;
		bool undone;		/* what came before it is taken back; else it stays done */
	} calls[] = {
		{ "peerdma_status: handle ", status_of_all, PEERDMA_QUERY, true },
		{ "peerdma_cpu_view: ", view_all, FAKE_VIEW, true },
		{ "peerdma_map: 03:00.0: ", map_all, PEERDMA_MAP, true },
		{ "peerdma_unmap: mapping ", unmap_all, PEERDMA_UNMAP, false },
		{ "peerdma_unpin: handle ", unpin_all, PEERDMA_UNPIN, false },
	};

	assert_int_equal(peerdma_unmap(mapping), 0);
	assert_int_equal(peerdma_unpin(region), 0);
	fake.device_memory = 1;
	fake.allocation = GPU_PAGE;
	fake.origin = (uintptr_t)memory;
	fake.exports_of = 5;
	cuda->state = 0;
	for (int i = 0; i < SEGMENTS; i++)
		cuda->memory[i] = (struct fake_memory){
			.base = (uintptr_t)memory + (size_t)i * GPU_PAGE, .size = GPU_PAGE, .type = 2, .context = cuda,
			.id = 7 + (uint64_t)i,
		};
	assert_int_equal(peerdma_pin(ctx, memory, SEGMENTS * GPU_PAGE, 0, NULL, &several), 0);
	for (size_t i = 0; i < N(calls); i++) {
		for (int nth = 1; nth <= SEGMENTS; nth++) {
			int maps = fake.mappings, mapped = fake.mmaps - fake.munmaps, ret;

			/* Of those that stay done the next is the first of the rest. */
			fake.nth_call = calls[i].kernels;
			fake.nth = calls[i].undone ? nth : nth == 1 ? 1 : 2;
			fake.nth_error = -EIO;
			ret = calls[i].call();
			fake.nth_call = 0;
			if (ret != -EIO)
				fail_msg("%s number %d: %d", calls[i].name, nth, ret);
			says(calls[i].name, "");
			if (calls[i].undone && (fake.mappings != maps || fake.mmaps - fake.munmaps != mapped))
				fail_msg("%s number %d: something is left", calls[i].name, nth);
			if (calls[i].kernels == PEERDMA_UNPIN)
				break;	/* all others have ended */
			if (calls[i].kernels == PEERDMA_UNMAP)
				assert_int_equal(fake.mappings, SEGMENTS - nth + 1);
		}
		assert_int_equal(calls[i].call(), 0);
	}
	assert_int_equal(fake.mappings, 0);
	for (int h = 0; h < FAKE_PINS; h++)
		assert_int_equal(fake.pins[h].live, 0);

	/* The pin of one of them: the others end. */
	for (int nth = 2; nth <= SEGMENTS + 1; nth++) {
		struct peerdma_region *none = (void *)1;

		fake.nth_call = PEERDMA_PIN;
		fake.nth = nth;		/* the first is of the whole */
		fake.nth_error = -EIO;
		failed_with(peerdma_pin(ctx, memory, SEGMENTS * GPU_PAGE, 0, NULL, &none), -EIO, "peerdma_pin: [",
			    "that the range spans: ");
		fake.nth_call = 0;
		assert_ptr_equal(none, (void *)1);
		for (int h = 0; h < FAKE_PINS; h++)
			assert_int_equal(fake.pins[h].live, 0);
	}
	cuda->state = 3;
}

/* ---- what the kernel gets, and what of its answer becomes the caller's ---- */

CASE(given)
{
	struct peerdma_status s = { .size = sizeof(s) };
	struct peerdma_region *r;
	struct peerdma_notice n = { .size = sizeof(n), .reserved = 77 };
	struct peerdma_mapping *m;
	char *view;
	int fd;

	assert_int_equal(peerdma_pin(ctx, memory + 65536 + 7, 3000, PEERDMA_READONLY | PEERDMA_HOST, "it", &r), 0);
	assert_true(fake.last_pin.addr == (uintptr_t)memory + 65536 + 7 && fake.last_pin.length == 3000);
	assert_int_equal(fake.last_pin.flags, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY);
	assert_true(!fake.last_pin.p2p_token && !fake.last_pin.va_space_token && !fake.last_pin.reserved);

	fake.mappings_of = 3;
	fake.views_of = 4;
	fake.exports_of = 5;
	memset((char *)&s + sizeof(s.size), 0xff, sizeof(s) - sizeof(s.size));
	assert_int_equal(peerdma_status(r, &s), 0);
	assert_int_equal(s.size, sizeof(s));
	assert_int_equal(s.state, PEERDMA_STATE_LIVE);
	assert_int_equal(s.flags, PEERDMA_HOST | PEERDMA_READONLY);
	assert_int_equal(s.page_size, 65536);
	assert_true(s.addr == (uintptr_t)memory + 65536 + 7 && s.length == 3000);
	assert_true(s.pinned_addr == (uintptr_t)memory + 65536 && s.pinned_length == 65536);
	assert_true(s.mappings == 3 && s.views == 4 && s.exports == 5);
	assert_true(!s.sync_memops && s.direct == 1 && !s.by_id && s.notified == 1 && s.segments == 1);
	assert_string_equal(s.provider, "host");
	assert_string_equal(s.backend, "kernel");
	for (size_t i = 0; i < N(s.reserved); i++)
		assert_int_equal(s.reserved[i], 0);

	assert_int_equal(peerdma_cpu_view(r, (void **)&view), 0);
	assert_true(fake.last_offset == PEERDMA_MMAP_PIN(2) && fake.last_length == 65536);
	assert_int_equal(fake.last_prot, PROT_READ);
	assert_int_equal((uintptr_t)view % PAGE, 7);
	assert_int_equal(peerdma_cpu_view_end(r, view), 0);
	assert_int_equal(peerdma_cpu_view(region, (void **)&view), 0);
	assert_int_equal(fake.last_prot, PROT_READ | PROT_WRITE);

	assert_int_equal(peerdma_map(r, "0001:c3:1f.6", PEERDMA_TO_DEVICE | PEERDMA_FROM_DEVICE, &m), 0);
	assert_true(fake.last_map.handle == 2 && fake.last_map.flags == (PEERDMA_MAP_TO_DEVICE | PEERDMA_MAP_FROM_DEVICE));
	assert_true(fake.last_map.domain == 1 && fake.last_map.bus == 0xc3 && fake.last_map.devfn == (0x1f << 3 | 6));
	assert_int_equal(peerdma_unmap(m), 0);

	assert_int_equal(peerdma_export_dmabuf(r, PAGE, 2 * PAGE, &fd), 0);
	assert_true(fake.last_export.handle == 2 && fake.last_export.offset == PAGE && fake.last_export.length == 2 * PAGE);
	assert_int_equal(fake.last_export.flags, 0);
	close(fd);

	fake_revoke(2);
	assert_int_equal(peerdma_next_event(ctx, &n, 0), 0);
	assert_true(n.region == r && !strcmp(n.cookie, "it") && n.addr == (uintptr_t)memory + 65536 + 7 && n.length == 3000);
	assert_int_equal(n.reserved, 0);
	assert_int_equal(peerdma_status(r, &s), 0);
	assert_int_equal(s.state, PEERDMA_STATE_REVOKED);
	assert_int_equal(peerdma_unpin(r), 0);

	assert_int_equal(peerdma_pin_dmabuf(ctx, 77, 8192 + 5, PAGE, PEERDMA_READONLY, "buf", &r), 0);
	assert_true(fake.last_dmabuf.fd == 77 && fake.last_dmabuf.offset == 8192 + 5 && fake.last_dmabuf.length == PAGE);
	assert_int_equal(fake.last_dmabuf.flags, PEERDMA_PIN_READONLY);
	assert_int_equal(fake.last_dmabuf.reserved, 0);
	assert_true(peerdma_valid(r));
	assert_int_equal(peerdma_status(r, &s), 0);
	assert_true(s.addr == 8192 + 5 && s.length == PAGE);
	assert_int_equal(peerdma_unpin(r), 0);
}

/* ---- waits ---- */

/* How long the kernel is asked to wait: what is left of it, when it was for nothing. */
CASE(waits)
{
	static const struct {
		int timeout, spurious, polls, first_from, first_to, last_from, last_to;
		const char *says;
	} cases[] = {
		{ 0, 0, 1, 0, 0, 0, 0, "in 0 ms" },
		{ -1, 0, 1, -1, -1, -1, -1, "in -1 ms" },
		{ -1, 3, 4, -1, -1, -1, -1, "in -1 ms" },
		{ 60000, 0, 1, 1, 60000, 1, 60000, "in 60000 ms" },
		{ 20, 1, 2, 1, 20, 0, 0, "in 20 ms" },		/* the time is over */
		{ 20, 4, 5, 1, 20, 0, 0, "in 20 ms" },
		{ 1, 1, 2, 0, 1, 0, 0, "in 1 ms" },
	};
	struct peerdma_notice n = { .size = sizeof(n) };

	for (size_t i = 0; i < N(cases); i++) {
		fake.spurious = cases[i].spurious;
		fake.polls = 0;
		assert_int_equal(peerdma_next_event(ctx, &n, cases[i].timeout), -EAGAIN);
		says("peerdma_next_event: no pin was revoked ", cases[i].says);
		assert_int_equal(fake.polls, cases[i].polls);
		assert_in_range(fake.first_timeout + 1, cases[i].first_from + 1, cases[i].first_to + 1);
		assert_in_range(fake.last_timeout + 1, cases[i].last_from + 1, cases[i].last_to + 1);
	}
	/* What is there needs no wait. */
	fake.polls = 0;
	fake_revoke(1);
	assert_int_equal(peerdma_next_event(ctx, &n, -1), 0);
	assert_int_equal(fake.polls, 0);
}

/* ---- wrong arguments ---- */

CASE(wrong_pins)
{
	static const struct {
		uintptr_t addr;
		size_t length;
		unsigned int flags;
		const char *says;
	} pins[] = {
		{ 4096, 10, 1U << 7, "unknown flags 0x80" },
		{ 4096, 10, 1U << 31, "unknown flags 0x80000000" },
		{ 4096, 10, PEERDMA_HOST | PEERDMA_STAGING, "not with PEERDMA_HOST" },
		{ 4096, 10, PEERDMA_HOST | PEERDMA_NO_SYNC_MEMOPS, "not with PEERDMA_HOST" },
		{ 4096, 10, PEERDMA_HOST | PEERDMA_DEVICE, "or neither" },
		{ 4096, 0, 0, "above 0" },
		{ UINTPTR_MAX, 2, 0, "past the end of the address space" },
		{ 4096, SIZE_MAX, 0, "past the end of the address space" },
		{ 1, SIZE_MAX, 0, "past the end of the address space" },
		{ UINTPTR_MAX, 1, 0, "past the end of the address space" },
		{ UINTPTR_MAX - 1, 1, 0, NULL },	/* for the kernel to say */
	};
	struct peerdma_region *none;

	fake.pin_error = -EFAULT;
	for (size_t i = 0; i < N(pins); i++)
		failed_with(peerdma_pin(ctx, (void *)pins[i].addr, pins[i].length, pins[i].flags, NULL, &none),
			    pins[i].says ? -EINVAL : -EFAULT, "peerdma_pin: ", pins[i].says ? pins[i].says : "");
	for (unsigned int bit = 0; bit < 32; bit++) {
		if (1U << bit != PEERDMA_READONLY)
			failed_with(peerdma_pin_dmabuf(ctx, 3, 0, PAGE, 1U << bit, NULL, &none), -EINVAL,
				    "peerdma_pin_dmabuf: flags",
				    "0 or PEERDMA_READONLY");
	}
}

CASE(wrong_others)
{
	struct peerdma_cache_options o = { .size = sizeof(o) };
	struct peerdma_status s = { .size = 4 };
	struct peerdma_notice n = { .size = 4 };
	struct peerdma *none = NULL;
	struct peerdma_cache *cache;
	struct peerdma_mapping *m;
	struct peerdma_region *readonly;
	void *view;

	for (unsigned int bit = 0; bit < 32; bit++) {
		if (!(1U << bit & (PEERDMA_OPEN_CUDA | PEERDMA_OPEN_DIRECT)))
			failed_with(peerdma_open(&none, 1U << bit), -EINVAL, "peerdma_open: ", "unknown flags");
	}
	failed_with(peerdma_status(region, &s), -EINVAL, "peerdma_status: ", "size field is 4");
	s.size = 4097;
	failed_with(peerdma_status(region, &s), -E2BIG, "peerdma_status: ", "size field is 4097");
	failed_with(peerdma_next_event(ctx, &n, 0), -EINVAL, "peerdma_next_event: ", "size field is 4");
	failed_with(peerdma_map(region, "nonsense", PEERDMA_TO_DEVICE, &m), -EINVAL, "peerdma_map: 'nonsense'", "0000:03:00.0");
	assert_int_equal(peerdma_cpu_view(region, &view), 0);
	failed_with(peerdma_cpu_view_end(region, (char *)view + 1), -EINVAL, "peerdma_cpu_view_end: ", "is not a view");
	failed_with(peerdma_cpu_view_end(region, NULL), -EINVAL, "peerdma_cpu_view_end: ", "is not a view");

	assert_int_equal(peerdma_pin(ctx, memory, 1000, PEERDMA_READONLY, NULL, &readonly), 0);
	for (unsigned int flags = 0; flags < 8; flags++) {
		if (flags != PEERDMA_TO_DEVICE && flags != PEERDMA_FROM_DEVICE)
			failed_with(peerdma_sync(region, 0, 0, flags), -EINVAL, "peerdma_sync: flags", "one of");
		if (flags != PEERDMA_TO_DEVICE)
			failed_with(peerdma_sync(readonly, 0, 0, flags), -EINVAL, "peerdma_sync: flags", "READONLY");
	}
	failed_with(peerdma_sync(region, 1, 0, PEERDMA_TO_DEVICE), -EINVAL, "peerdma_sync: [1, +0)", "1000 bytes");
	failed_with(peerdma_sync(region, 0, 1001, PEERDMA_TO_DEVICE), -EINVAL, "peerdma_sync: [0, +1001)", "1000 bytes");
	failed_with(peerdma_sync(region, 1000, 1, PEERDMA_TO_DEVICE), -EINVAL, "peerdma_sync: [1000, +1)", "1000 bytes");
	failed_with(peerdma_sync(region, 999, 2, PEERDMA_TO_DEVICE), -EINVAL, "peerdma_sync: [999, +2)", "1000 bytes");
	failed_with(peerdma_sync(region, 1, UINT64_MAX, PEERDMA_TO_DEVICE), -EINVAL, "peerdma_sync: [1, ", "1000 bytes");
	assert_int_equal(peerdma_sync(region, 999, 1, PEERDMA_TO_DEVICE), 0);
	assert_int_equal(peerdma_sync(region, 0, 1000, PEERDMA_FROM_DEVICE), 0);
	assert_int_equal(peerdma_sync(readonly, 0, 0, PEERDMA_TO_DEVICE), 0);

	o.flags = 1U << 31;
	failed_with(peerdma_cache_open(ctx, &o, &cache), -EINVAL, "peerdma_cache_", "flags");
	assert_int_equal(peerdma_unmap(NULL), 0);
	assert_int_equal(peerdma_verbs_end(ctx, NULL), 0);
	assert_string_equal(peerdma_why(region), "");
}

/* A child's call: that it is refused, by its name. */
static void refused(int ret, const char *call)
{
	char expected[128];

	snprintf(expected, sizeof(expected), "%s: this context was opened by a parent process", call);
	if (ret != -EPERM || strncmp(peerdma_last_error(), expected, strlen(expected)) != 0) {
		fprintf(stderr, "%s: %d, \"%s\"\n", call, ret, peerdma_last_error());
		_exit(1);
	}
}

static void child(struct peerdma_cache *cache, struct peerdma_cached *hold)
{
	struct peerdma_status s = { .size = sizeof(s) };
	struct peerdma_notice n = { .size = sizeof(n) };
	struct peerdma_region *r = NULL;
	const struct peerdma_mr *mr;
	struct peerdma_mapping *m;
	struct peerdma_cache *c;
	void *p = NULL;
	int fd;

	refused(peerdma_pin(ctx, memory, 10, 0, NULL, &r), "peerdma_pin");
	refused(peerdma_pin_dmabuf(ctx, 3, 0, PAGE, 0, NULL, &r), "peerdma_pin_dmabuf");
	refused(peerdma_status(region, &s), "peerdma_status");
	refused(peerdma_map(region, "03:00.0", PEERDMA_TO_DEVICE, &m), "peerdma_map");
	refused(peerdma_cpu_view(region, &p), "peerdma_cpu_view");
	refused(peerdma_cpu_view_end(region, p), "peerdma_cpu_view_end");
	refused(peerdma_export_dmabuf(region, 0, 0, &fd), "peerdma_export_dmabuf");
	refused(peerdma_sync(region, 0, 0, PEERDMA_TO_DEVICE), "peerdma_sync");
	refused(peerdma_next_event(ctx, &n, 0), "peerdma_next_event");
	refused(peerdma_event_fd(ctx), "peerdma_event_fd");
	refused(peerdma_verbs_mr(region, (void *)1, 0, &mr), "peerdma_verbs_mr");
	refused(peerdma_verbs_end(ctx, (void *)1), "peerdma_verbs_end");
	refused(peerdma_cache_open(ctx, NULL, &c), "peerdma_cache_open");
	refused(peerdma_cache_map(cache, hold, "03:00.0", PEERDMA_TO_DEVICE, &m), "peerdma_cache_map");
	if (peerdma_unmap(mapping) || peerdma_unpin(region) || fake.unmaps || fake.unpins)
		_exit(2);
	_exit(0);
}

CASE(in_a_child)
{
	struct peerdma_cache *cache;
	struct peerdma_cached *hold;
	pid_t pid;
	int status;

	assert_int_equal(peerdma_cache_open(ctx, NULL, &cache), 0);
	assert_int_equal(peerdma_cache_get(cache, memory, 10, &hold), 0);
	pid = fork();
	if (!pid)
		child(cache, hold);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	peerdma_cache_put(cache, hold);
	peerdma_cache_close(cache);
}

/* Device memory of which CUDA, which is there, knows nothing: another vendor's. */
CASE(of_another_provider)
{
	struct peerdma_status s = { .size = sizeof(s) };
	struct peerdma_region *r;

	fake.device_memory = 1;
	cuda->state = 0;
	assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &r), 0);
	assert_int_equal(peerdma_status(r, &s), 0);
	assert_true(!s.sync_memops && s.flags == PEERDMA_DEVICE);
	assert_int_equal(peerdma_unpin(r), 0);
	cuda->state = 3;
}

/* What is wrong with a cache's options is told of the call that was made. */
CASE(cache_of_pins)
{
	struct peerdma_cache_options options = { .size = sizeof(options), .flags = 1U << 31 };
	struct peerdma_cache *cache;

	assert_int_equal(peerdma_cache_open(ctx, &options, &cache), -EINVAL);
	assert_non_null(strstr(peerdma_last_error(), "peerdma_cache_open: flags 0x80000000: this kind of cache supports"));
}

/* A back-end that is named twice is there once, whichever it is. */
CASE_WITH(named_twice, NULL, NULL)
{
	struct peerdma *both = NULL;

	fake_reset();
	setenv("PEERDMA_PROVIDER", "kernel,kernel,host,host,kernel,staging,dmabuf,staging,dmabuf", 1);
	assert_int_equal(peerdma_open(&both, 0), 0);
	assert_int_equal(fake.opens, 1);
	peerdma_close(both);
	assert_int_equal(fake.closes, 1);
	setenv("PEERDMA_PROVIDER", "kernel", 1);
}

/* ---- descriptors of the library's own ---- */

/* A context whose notices come from the library needs one or two: with none left it is not opened, and leaves none. */
CASE_WITH(no_descriptors, NULL, NULL)
{
	struct rlimit was, now;
	struct peerdma *none = (void *)1;
	int first = dup(0);

	close(first);
	getrlimit(RLIMIT_NOFILE, &was);
	now = was;
	setenv("PEERDMA_PROVIDER", "host", 1);
	now.rlim_cur = (rlim_t)first;
	setrlimit(RLIMIT_NOFILE, &now);
	failed_with(peerdma_open(&none, 0), -EMFILE, "peerdma_open: ", "no descriptor for notices: this process has as many");
	assert_ptr_equal(none, (void *)1);
	setrlimit(RLIMIT_NOFILE, &was);
	assert_int_equal(dup(0), first);
	close(first);
	assert_int_equal(peerdma_open(&none, 0), 0);
	assert_int_equal(peerdma_event_fd(none), first);
	peerdma_close(none);
	assert_int_equal(dup(0), first);
	close(first);
	setenv("PEERDMA_PROVIDER", "kernel", 1);
}

/* ---- where the heap begins ---- */

/* Field 47 of /proc/self/stat; the name in it may have blanks and brackets. */
CASE_WITH(heap, NULL, NULL)
{
	char line[1024];
	size_t n = (size_t)sprintf(line, "1 (a) 9 (b) S");

	for (int field = 4; field <= 52; field++)
		n += (size_t)sprintf(line + n, " %d", 1000 + field);
	assert_int_equal(host_heap_start(line), 1047);
	*strstr(line, " 1048") = 0;
	assert_int_equal(host_heap_start(line), 1047);
	*strstr(line, " 1047") = 0;
	assert_true(host_heap_start(line) == UINTPTR_MAX);
	strcat(line, " 0 1");
	assert_true(host_heap_start(line) == UINTPTR_MAX);
	assert_true(host_heap_start("") == UINTPTR_MAX);
	assert_true(host_heap_start("1 (a) S") == UINTPTR_MAX);
}

int main(void)
{
	struct fake_cuda *(*get)(void);
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	int ret;

	*(void **)&get = library ? dlsym(library, "fake_cuda") : NULL;
	memory = aligned_alloc(65536, 1 << 20);
	if (!get || !memory)
		return 1;
	cuda = get();
	ret = cases_run(NULL, NULL);
	free(memory);
	return ret;
}
