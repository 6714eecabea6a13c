// SPDX-License-Identifier: MIT
/*
 * test_query.c - peerdma_query() against a stand-in for libcuda.so.1, which is
 * loaded in the course of the test, as a program that uses CUDA late does.
 * The order of the tests matters.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include "../cases.h"
#include "fake_cuda.h"
#include "peerdma.h"
#include "peerdma_copy.h"

#define WINDOW (1UL << 20)

static char variable[64];
static struct fake_cuda *cuda;
static char *window;	/* addresses as CUDA reserves them: not readable */

static struct peerdma_memory query(const void *p)
{
	struct peerdma_memory m = { .size = sizeof(m) };

	assert_int_equal(peerdma_query(NULL, p, &m), 0);
	assert_int_equal(m.size, sizeof(m));
	return m;
}

static uint32_t kind(const void *p)
{
	return query(p).kind;
}

CASE(host_memory)
{
	char on_stack[64], *heap = malloc(64), *big = malloc(64 << 20);
	char *file = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct peerdma_memory m;

	memset(on_stack, 0, sizeof(on_stack));
	assert_int_equal(kind(on_stack), PEERDMA_KIND_HOST);
	assert_int_equal(kind(heap), PEERDMA_KIND_HOST);
	assert_int_equal(kind(big + (32 << 20)), PEERDMA_KIND_HOST);
	assert_int_equal(kind(variable), PEERDMA_KIND_HOST);
	assert_int_equal(kind("a constant"), PEERDMA_KIND_HOST);
	assert_int_equal(kind(file + 4095), PEERDMA_KIND_HOST);
	m = query(on_stack);
	assert_int_equal(m.device, -1);
	assert_int_equal(m.buffer_id, 0);
	assert_string_equal(m.pci, "");
	munmap(file, 4096);
	free(heap);
	free(big);
}

CASE(no_memory)
{
	char *gone = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_int_equal(kind(NULL), PEERDMA_KIND_UNKNOWN);
	assert_int_equal(kind((void *)8), PEERDMA_KIND_UNKNOWN);
	assert_int_equal(kind((void *)UINTPTR_MAX), PEERDMA_KIND_UNKNOWN);
	assert_int_equal(kind((void *)0xffff800000000000), PEERDMA_KIND_UNKNOWN);
	assert_int_equal(kind(window), PEERDMA_KIND_UNKNOWN);
	assert_int_equal(kind(gone), PEERDMA_KIND_HOST);
	munmap(gone, 4096);
	assert_int_equal(kind(gone), PEERDMA_KIND_UNKNOWN);
}

CASE(struct_sizes)
{
	struct {
		struct peerdma_memory m;
		char later[8];
	} longer;
	struct peerdma_memory m = { .size = sizeof(m) - 1 };

	assert_int_equal(peerdma_query(NULL, &m, &m), -EINVAL);
	assert_non_null(strstr(peerdma_last_error(), "size"));
	m.size = 0;
	assert_int_equal(peerdma_query(NULL, &m, &m), -EINVAL);

	memset(&longer, 0xff, sizeof(longer));
	longer.m.size = sizeof(longer);
	assert_int_equal(peerdma_query(NULL, &m, &longer.m), 0);
	assert_int_equal(longer.m.kind, PEERDMA_KIND_HOST);
	assert_int_equal(longer.later[0], 0);
	assert_int_equal(longer.later[7], 0);
}

static void *in_thread(void *shared)
{
	char on_stack[64];
	uintptr_t *result = shared;

	memset(on_stack, 1, sizeof(on_stack));
	result[0] = kind(on_stack);
	result[1] = kind(result);	/* another thread's stack */
	return NULL;
}

CASE(threads)
{
	uintptr_t result[2] = { 99, 99 };
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, in_thread, result), 0);
	pthread_join(thread, NULL);
	assert_int_equal(result[0], PEERDMA_KIND_HOST);
	assert_int_equal(result[1], PEERDMA_KIND_HOST);
}

/* From here on the library is there. */
CASE(load)
{
	struct fake_cuda *(*get)(void);
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	assert_non_null(library);
	*(void **)&get = dlsym(library, "fake_cuda");
	assert_non_null(get);	/* else a real libcuda was found */
	cuda = get();
}

CASE(before_cuinit)
{
	int calls = cuda->calls;

	assert_int_equal(kind(window), PEERDMA_KIND_UNKNOWN);
	assert_true(cuda->calls > calls);	/* it was noticed, and asked */
	host_memory(NULL);
	no_memory(NULL);
}

static struct fake_memory *add(size_t slot, size_t offset, size_t size, unsigned int type)
{
	struct fake_memory *m = &cuda->memory[slot];

	memset(m, 0, sizeof(*m));
	m->base = (uintptr_t)window + offset;
	m->size = size;
	m->type = type;
	m->context = m;
	m->id = 900 + slot;
	m->device = 3;
	return m;
}

CASE(device_memory)
{
	struct peerdma_memory m;

	cuda->state = 0;
	add(0, 0, 65536, 2);
	m = query(window + 40000);
	assert_int_equal(m.kind, PEERDMA_KIND_DEVICE);
	assert_int_equal(m.base, (uintptr_t)window);
	assert_int_equal(m.length, 65536);
	assert_int_equal(m.buffer_id, 900);
	assert_int_equal(m.device, 3);
	assert_int_equal(m.flags, PEERDMA_MEMORY_CUDA | PEERDMA_MEMORY_PINNABLE);
	assert_string_equal(m.pci, "0000:a3:00.0");	/* as sysfs spells it */
	assert_int_equal(kind(window + 65535), PEERDMA_KIND_DEVICE);
	assert_int_equal(kind(window + 65536), PEERDMA_KIND_UNKNOWN);
	host_memory(NULL);
	cuda->memory[0].size = 0;	/* freed */
	assert_int_equal(kind(window + 40000), PEERDMA_KIND_UNKNOWN);
	no_memory(NULL);
}

CASE(other_kinds)
{
	struct fake_memory *f;
	struct peerdma_memory m;

	f = add(1, 0x10000, 0x10000, 2);
	f->managed = 1;
	f->context = NULL;
	m = query(window + 0x10001);
	assert_int_equal(m.kind, PEERDMA_KIND_MANAGED);
	assert_int_equal(m.flags, PEERDMA_MEMORY_CUDA);

	f->type = 1;	/* managed memory that is in host memory now */
	assert_int_equal(kind(window + 0x10001), PEERDMA_KIND_MANAGED);

	add(2, 0x20000, 0x1000, 1);
	m = query(window + 0x20fff);
	assert_int_equal(m.kind, PEERDMA_KIND_HOST);
	assert_int_equal(m.flags, PEERDMA_MEMORY_CUDA | PEERDMA_MEMORY_PINNABLE);
	assert_int_equal(m.length, 0x1000);
	assert_int_equal(m.device, -1);

	f = add(3, 0x40000, 0x40000, 2);	/* two mappings in one reservation */
	f->context = NULL;
	f->mapping_base = f->base + 0x20000;
	f->mapping_size = 0x20000;
	m = query(window + 0x60000);
	assert_int_equal(m.kind, PEERDMA_KIND_DEVICE);
	assert_int_equal(m.flags, PEERDMA_MEMORY_CUDA | PEERDMA_MEMORY_VMM);
	assert_int_equal(m.base, (uintptr_t)window + 0x60000);
	assert_int_equal(m.length, 0x20000);

	cuda->old = 1;	/* then the reservation is all that is known */
	m = query(window + 0x60000);
	assert_int_equal(m.kind, PEERDMA_KIND_DEVICE);
	assert_int_equal(m.length, 0x40000);
	cuda->old = 0;

	f = add(4, 0x80000, 0x10000, 2);
	f->context = NULL;
	f->pool = f;
	assert_int_equal(query(window + 0x80000).flags, PEERDMA_MEMORY_CUDA | PEERDMA_MEMORY_POOL);
}

/* Threads' stacks are host memory for CUDA, too. */
CASE(threads_with_cuda)
{
	threads(NULL);
}

/* What cuMemCreate() and pools made may be pinned if CUDA says so; of what cuMemAlloc() made that is known. */
CASE(pinnable)
{
	struct fake_memory *f = add(5, 0xa0000, 0x10000, 2);

	assert_int_equal(query(window + 0xa0000).flags, PEERDMA_MEMORY_CUDA | PEERDMA_MEMORY_PINNABLE);
	f->context = NULL;
	f->rdma_capable = 1;
	assert_int_equal(query(window + 0xa0000).flags, PEERDMA_MEMORY_CUDA | PEERDMA_MEMORY_VMM | PEERDMA_MEMORY_PINNABLE);
	f->rdma_capable = 2;		/* another bit says nothing */
	assert_int_equal(query(window + 0xa0000).flags, PEERDMA_MEMORY_CUDA | PEERDMA_MEMORY_VMM);
	f->pool = f;
	assert_int_equal(query(window + 0xa0000).flags, PEERDMA_MEMORY_CUDA | PEERDMA_MEMORY_POOL);
	f->rdma_capable = 1;
	assert_int_equal(query(window + 0xa0000).flags, PEERDMA_MEMORY_CUDA | PEERDMA_MEMORY_POOL | PEERDMA_MEMORY_PINNABLE);
	f->managed = 1;
	assert_int_equal(query(window + 0xa0000).flags, PEERDMA_MEMORY_CUDA);
}

/* A GPU's address on the bus: asked for once, unless that fails; and at all, however many GPUs there are. */
CASE(addresses_of_gpus)
{
	struct fake_memory *f = add(6, 0xb0000, 0x10000, 2);

	f->device = 5;
	cuda->device_error = 101;
	assert_string_equal(query(window + 0xb0000).pci, "");
	cuda->device_error = 0;
	cuda->pci_error = 101;
	assert_string_equal(query(window + 0xb0000).pci, "");
	cuda->pci_error = 0;
	assert_string_equal(query(window + 0xb0000).pci, "0000:a5:00.0");
	cuda->pci_error = 101;
	assert_string_equal(query(window + 0xb0000).pci, "0000:a5:00.0");
	cuda->pci_error = 0;
	for (int device = 0; device < 70; device++) {
		char expected[32];

		snprintf(expected, sizeof(expected), "0000:%02x:00.0", 0xa0 + device);
		f->device = device;
		for (int i = 0; i < 2; i++) {
			assert_int_equal(query(window + 0xb0000).device, device);
			assert_string_equal(query(window + 0xb0000).pci, expected);
		}
	}
	cuda->memory[6].size = 0;
}

/* What CUDA's error means: it is not there, the memory is not its own, or it has failed. */
CASE(each_error)
{
	static const int unknown[] = { 1, 3, 4, 100, 201 }, failures[] = { 2, 101, 304, 700, 719, 800, 801, 999 };
	struct peerdma_memory m = { .size = sizeof(m), .kind = 77 };
	char text[64];

	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		cuda->state = unknown[i];
		m = query(window + 100);
		assert_int_equal(m.kind, PEERDMA_KIND_UNKNOWN);
		assert_int_equal(m.flags, 0);
		assert_int_equal(m.device, -1);
	}
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		cuda->state = failures[i];
		assert_int_equal(peerdma_query(NULL, window, &m), -EIO);
		snprintf(text, sizeof(text), "failed with CUDA error %d;", failures[i]);
		assert_non_null(strstr(peerdma_last_error(), text));
		assert_int_equal(strncmp(peerdma_last_error(), "peerdma_query: ", 15), 0);
	}
	cuda->state = 0;
}

CASE(flushes)
{
	static const struct {
		int context, ordering_error, ordering, options_error, options, flush, scope, ret, flushed;
		const char *says;
	} cases[] = {
		{ .options = 1, .scope = 100, .flushed = 1 }, { .options = 1, .scope = 200, .flushed = 1 },
		{ .options = 3, .scope = 200, .flushed = 1 },
		{ .ordering = 100, .options = 1, .scope = 100 }, { .ordering = 200, .options = 1, .scope = 100 },
		{ .ordering = 200, .scope = 200 },		/* it keeps the order by itself */
		{ .ordering = 100, .options = 1, .scope = 200, .flushed = 1 },
		{ .ordering = 99, .options = 1, .scope = 100, .flushed = 1 },
		{ .ordering_error = 1, .ordering = 200, .options = 1, .scope = 200, .flushed = 1 },
		{ .options = 2, .scope = 100, .ret = -EOPNOTSUPP, .says = "cannot flush" },
		{ .options = 0, .scope = 100, .ret = -EOPNOTSUPP, .says = "cannot flush" },
		{ .options_error = 1, .options = 1, .scope = 100, .ret = -EOPNOTSUPP, .says = "cannot flush" },
		{ .options = 1, .flush = 801, .scope = 100, .ret = -EOPNOTSUPP, .flushed = 1, .says = "cannot flush" },
		{ .options = 1, .flush = 700, .scope = 100, .ret = -EIO, .flushed = 1, .says = "failed with CUDA error 700" },
		{ .context = 201, .options = 1, .scope = 100, .ret = -ENODEV, .says = "no current context" },
		{ .context = 3, .options = 1, .scope = 100, .ret = -ENODEV, .says = "no CUDA" },
		{ .context = 4, .options = 1, .scope = 100, .ret = -ENODEV, .says = "no CUDA" },
		{ .context = 719, .options = 1, .scope = 100, .ret = -EIO, .says = "CUDA error 719" },
		{ .options = 1, .scope = 0, .ret = -EINVAL, .says = "0 is neither" },
		{ .options = 1, .scope = 99, .ret = -EINVAL, .says = "99 is neither" },
		{ .options = 1, .scope = 101, .ret = -EINVAL, .says = "101 is neither" },
		{ .options = 1, .scope = 201, .ret = -EINVAL, .says = "201 is" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int ret;

		cuda->context_error = cases[i].context;
		cuda->ordering_error = cases[i].ordering_error;
		cuda->ordering = cases[i].ordering;
		cuda->options_error = cases[i].options_error;
		cuda->options = cases[i].options;
		cuda->flush_error = cases[i].flush;
		cuda->flushes = cuda->device_asked = 0;
		ret = peerdma_flush_inbound(cases[i].scope);
		if (ret != cases[i].ret || cuda->flushes != cases[i].flushed)
			fail_msg("case %zu: %d, %d flushes", i, ret, cuda->flushes);
		if (cases[i].flushed)
			assert_true(cuda->flush_target == 0 && cuda->flush_scope == cases[i].scope && cuda->device_asked == 107);
		if (ret && (strncmp(peerdma_last_error(), "peerdma_flush_inbound: ", 23) ||
			    !strstr(peerdma_last_error(), cases[i].says)))
			fail_msg("case %zu: \"%s\"", i, peerdma_last_error());
	}
}

CASE(cuda_fails)
{
	struct peerdma_memory m = { .size = sizeof(m), .kind = 77 };

	cuda->state = 700;	/* CUDA_ERROR_ILLEGAL_ADDRESS: the context is dead */
	assert_int_equal(peerdma_query(NULL, window, &m), -EIO);
	assert_non_null(strstr(peerdma_last_error(), "700"));
	assert_int_equal(m.kind, 77);
	assert_int_equal(kind(variable), PEERDMA_KIND_HOST);	/* certain without CUDA */
	cuda->state = 0;
}

static int in_child(int (*check)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(check());
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* 0, or the number of what is wrong. */
static int child(void)
{
	int calls = cuda->calls;
	char on_stack[16] = "", *big = malloc(64 << 20);

	memset(big, 1, 4096);
	if (kind(on_stack) != PEERDMA_KIND_HOST)
		return 1;
	if (kind(big + 100) != PEERDMA_KIND_HOST)
		return 2;
	if (kind(window + 0x80000) != PEERDMA_KIND_UNKNOWN)
		return 3;	/* the parent's GPU memory */
	if (cuda->calls != calls)
		return 4;	/* the parent's CUDA was called */
	free(big);
	return 0;
}

static int grandchild(void)
{
	int ret = child(), status;
	pid_t pid = fork();

	if (!pid)
		_exit(child());
	waitpid(pid, &status, 0);
	return ret ? ret : WEXITSTATUS(status);
}

CASE(forked)
{
	assert_int_equal(kind(window + 0x80000), PEERDMA_KIND_DEVICE);
	assert_int_equal(in_child(child), 0);
	assert_int_equal(in_child(grandchild), 0);
	assert_int_equal(kind(window + 0x80000), PEERDMA_KIND_DEVICE);
}

int main(void)
{
	window = mmap(NULL, WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (window == MAP_FAILED)
		return 1;
	return cases_run(NULL, NULL);
}
