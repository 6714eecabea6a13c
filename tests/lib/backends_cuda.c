// SPDX-License-Identifier: MIT
/* backends_cuda.c - a GPU's memory without the kernel module: CUDA's own dma-bufs, and copies. */
#include <dlfcn.h>
#include <fcntl.h>

#include "../cases.h"
#include "backends.h"
#include "fake_cuda.h"
#include "fake_sys.h"
#include "peerdma_cache.h"

/* ---- dma-bufs of CUDA's ---- */

struct fake_cuda *cuda;

int reset_cuda(void **state)
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

int no_cuda(void **state)
{
	memset(cuda, 0, sizeof(*cuda));
	cuda->state = 3;
	return 0;
}

FIXTURE(reset_cuda, no_cuda)

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

CASE(dmabuf)
{
	struct peerdma_status s = { .size = sizeof(s) };
	struct peerdma_region *region;
	struct peerdma_mapping *m;
	struct peerdma *ctx;
	int before, fd, part;
	char *view;

	fake.pin_error = -ENXIO;	/* the module is there, without the GPU's */
	ctx = open_with(NULL, 0);
	before = files();
	assert_int_equal(peerdma_pin(ctx, memory + 100, 2 * PAGE, PEERDMA_DIRECT, NULL, &region), 0);
	is_of(region, "dmabuf", 1);
	assert_non_null(strstr(peerdma_why(region), "kernel: "));
	assert_int_equal(peerdma_status(region, &s), 0);
	assert_int_equal(s.by_id, 1);
	assert_int_equal(s.sync_memops, 1);
	assert_int_equal(s.flags & (PEERDMA_HOST | PEERDMA_DEVICE), PEERDMA_DEVICE);
	assert_true(s.pinned_addr == (uintptr_t)memory && s.pinned_length == 3 * PAGE);
	assert_int_equal(s.state, PEERDMA_STATE_LIVE);
	assert_false(peerdma_valid(region));	/* no notification vouches for it */

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

/* The module's driver does not pin it, and CUDA exports it. */
CASE(not_capable)
{
	struct peerdma_region *region;
	struct peerdma *ctx;

	fake.pin_error = -ENXIO;
	cuda->memory[0].context = NULL;		/* cuMemCreate()'s */
	ctx = open_with(NULL, 0);
	assert_int_equal(peerdma_pin(ctx, memory, PAGE, 0, NULL, &region), 0);
	is_of(region, "dmabuf", 1);
	assert_non_null(strstr(peerdma_why(region), "kernel: this memory is not capable of GPUDirect RDMA"));
	peerdma_close(ctx);
	ctx = open_with("kernel", 0);
	assert_int_equal(peerdma_pin(ctx, memory, PAGE, 0, NULL, &region), -ENXIO);
	says("give cuMemCreate() allocFlags.gpuDirectRDMACapable = 1, or use CUDA's dma-bufs (back-end 'dmabuf')");
	cuda->memory[0].rdma_capable = 1;
	assert_int_equal(peerdma_pin(ctx, memory, PAGE, 0, NULL, &region), -ENXIO);
	assert_null(strstr(peerdma_last_error(), "GPUDirect RDMA"));
	peerdma_close(ctx);
}

/* What is missing is a better back-end: why there is none is in the text. */
CASE(no_views)
{
	struct peerdma_region *region;
	struct peerdma *ctx;
	void *view;

	fake.open_error = -EACCES;
	cuda->no_views = 1;
	ctx = open_with(NULL, 0);
	assert_int_equal(peerdma_pin(ctx, memory, PAGE, 0, NULL, &region), 0);
	is_of(region, "dmabuf", 1);
	assert_int_equal(peerdma_cpu_view(region, &view), -EOPNOTSUPP);
	says("peerdma_cpu_view: this pin is of back-end 'dmabuf', which has no view for the CPU");
	says("the GPU's driver does not allow its dma-bufs to be mapped (Operation not permitted)");
	says("/dev/peerdma: this user may not open it");
	peerdma_close(ctx);
}

/* While the program records a graph. */
CASE(captured)
{
	struct peerdma_region *region;
	struct peerdma *ctx;
	int fd;

	fake.open_error = -ENOENT;
	cuda->capturing = 1;
	ctx = open_with(NULL, 0);
	assert_int_equal(peerdma_pin(ctx, memory, 2 * PAGE, PEERDMA_DIRECT, NULL, &region), 0);
	is_of(region, "dmabuf", 1);
	assert_int_equal(peerdma_export_dmabuf(region, 0, 0, &fd), 0);
	close(fd);
	assert_int_equal(peerdma_unpin(region), 0);
	cuda->export_error = 801;
	assert_int_equal(peerdma_pin(ctx, memory, 2 * PAGE, PEERDMA_STAGING, NULL, &region), 0);
	is_of(region, "staging", 0);
	assert_int_equal(peerdma_sync(region, 0, 0, PEERDMA_TO_DEVICE), 0);
	assert_int_equal(peerdma_unpin(region), 0);
	peerdma_close(ctx);
	assert_int_equal(cuda->capture_mode, 0);
}

/* CUDA exports only from the start of an allocation on: the pin begins there. */
CASE(from_the_start)
{
	struct peerdma_status s = { .size = sizeof(s) };
	struct peerdma_region *region;
	struct peerdma *ctx;
	int fd;

	fake.open_error = -ENOENT;
	cuda->from_start = 1;
	ctx = open_with(NULL, 0);
	assert_int_equal(peerdma_pin(ctx, memory + 3 * PAGE + 100, PAGE, PEERDMA_DIRECT, NULL, &region), 0);
	assert_int_equal(peerdma_status(region, &s), 0);
	assert_true(s.addr == (uintptr_t)memory + 3 * PAGE + 100 && s.length == PAGE);
	assert_true(s.pinned_addr == (uintptr_t)memory && s.pinned_length == 5 * PAGE);
	assert_int_equal(peerdma_export_dmabuf(region, 0, 0, &fd), 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), 5 * PAGE);
	close(fd);
	assert_int_equal(peerdma_unpin(region), 0);
	peerdma_close(ctx);
}

CASE(dmabuf_fails)
{
	static const struct {
		int cuda, error;
	} cases[] = { { 801, -EOPNOTSUPP }, { 1, -ENXIO }, { 201, -ENODEV }, { 2, -ENOMEM }, { 700, -EIO } };
	struct peerdma_region *region = (void *)1;
	struct peerdma *ctx = open_with("dmabuf", 0);
	int before = files();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cuda->export_error = cases[i].cuda;
		assert_int_equal(peerdma_pin(ctx, memory, 10, 0, NULL, &region), cases[i].error);
	}
	cuda->export_error = 0;
	assert_int_equal(peerdma_pin(ctx, memory + 15 * PAGE, PAGE + 1, 0, NULL, &region), -ENXIO);
	says("no allocation follows");
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
	assert_true(peerdma_valid(region));	/* it is of the memory, whichever call frees it */
	assert_int_equal(state_of(region), PEERDMA_STATE_LIVE);
	peerdma_close(ctx);
}

/* In a cache: each hit asks for the buffer id, and the host's memory beside it does not. */
CASE(by_id)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct peerdma_cached *a, *b;
	struct peerdma_cache *cache;
	struct peerdma *ctx = open_with("dmabuf,host", 0);
	int calls;

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

/* ---- a copy ---- */

CASE(staging)
{
	struct peerdma_region *region = (void *)1;
	struct peerdma_mapping *m;
	struct peerdma *ctx;
	unsigned long before = locked();
	char *view;
	int fd;

	fake.open_error = -ENOENT;
	cuda->export_error = 801;
	memset(memory, 'a', 16 * PAGE);
	ctx = open_with(NULL, 0);
	/* Never without being asked for, nor as the direct path. */
	assert_int_equal(peerdma_pin(ctx, memory, PAGE, 0, NULL, &region), -EOPNOTSUPP);
	says("dmabuf: this GPU");
	says("staging: is off unless asked for");
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
CASE(staging_mapped)
{
	struct peerdma *ctx = open_with("staging,kernel", 0);
	struct peerdma_region *region;
	struct peerdma_mapping *m;

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
