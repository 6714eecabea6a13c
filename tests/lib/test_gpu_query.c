// SPDX-License-Identifier: MIT
/*
 * test_gpu_query.c - peerdma_query() against a libcuda that works: NVIDIA's on
 * a machine with a GPU, or softgpu's.  No kernel module of peerdma's is needed.
 * Exit code 77: there is no CUDA, or it has no device.
 */
#include <sys/mman.h>

#include "cuda_calls.h"
#include "peerdma.h"
#include "checks.h"

#define MIB (1UL << 20)

static struct cuda_calls cu;
static char variable[64];
static char pci[32];

static struct peerdma_memory query(gpu_ptr p)
{
	struct peerdma_memory m = { .size = sizeof(m) };
	int ret = peerdma_query(NULL, (void *)(uintptr_t)p, &m);

	if (ret) {
		CHECK(0, "query of %#llx: %d", p, ret);
		m.kind = 99;
	}
	return m;
}

static uint32_t kind(const void *p)
{
	return query((uintptr_t)p).kind;
}

static void hosts(const char *when)
{
	char on_stack[16], *heap = malloc(100), *big = malloc(64 * MIB);
	char *reserved = mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(on_stack, 0, sizeof(on_stack));
	CHECK(kind(on_stack) == PEERDMA_KIND_HOST, "%s: the stack is the host's", when);
	CHECK(kind(heap) == PEERDMA_KIND_HOST, "%s: the heap", when);
	CHECK(kind(big + 32 * MIB) == PEERDMA_KIND_HOST, "%s: a big buffer", when);
	CHECK(kind(variable) == PEERDMA_KIND_HOST, "%s: a variable", when);
	CHECK(kind("constant") == PEERDMA_KIND_HOST, "%s: a constant", when);
	CHECK(kind(NULL) == PEERDMA_KIND_UNKNOWN, "%s: NULL is not known", when);
	CHECK(kind(reserved) == PEERDMA_KIND_UNKNOWN, "%s: reserved addresses", when);
	munmap(reserved, MIB);
	free(heap);
	free(big);
}

static void device_memory(void)
{
	struct peerdma_memory m, n;
	gpu_ptr p, q;

	if (!CHECK(!cu.cuMemAlloc_v2(&p, MIB + 1000), "cuMemAlloc"))
		return;
	m = query(p + 500000);
	CHECK(m.kind == PEERDMA_KIND_DEVICE, "cuMemAlloc's, in the middle: a GPU's (kind %u)", m.kind);
	CHECK(m.base == p && m.length >= MIB + 1000, "its allocation: %#llx + %llu, asked for %#llx + %lu",
	      (unsigned long long)m.base, (unsigned long long)m.length, p, MIB + 1000);
	CHECK(m.device == 0 && !strcmp(m.pci, pci), "its device: %d, %s (CUDA says %s)", m.device, m.pci, pci);
	CHECK(m.flags == (PEERDMA_MEMORY_CUDA | PEERDMA_MEMORY_PINNABLE), "its flags: %#x", m.flags);
	CHECK(m.buffer_id != 0, "its buffer id: %llu", (unsigned long long)m.buffer_id);
	cu.cuMemFree_v2(p);
	m = query(p + 500000);
	CHECK(m.kind == PEERDMA_KIND_UNKNOWN, "freed: not known (kind %u)", m.kind);
	cu.cuMemAlloc_v2(&q, MIB + 1000);
	n = query(q);
	CHECK(n.kind == PEERDMA_KIND_DEVICE && n.buffer_id != m.buffer_id && n.buffer_id, "the next has another id: %llu",
	      (unsigned long long)n.buffer_id);
	cu.cuMemFree_v2(q);

	cu.cuMemAlloc_v2(&p, 100);
	cu.cuMemAlloc_v2(&q, 100);
	m = query(p);
	n = query(q);
	CHECK(m.base == p && n.base == q && m.buffer_id != n.buffer_id && m.length < MIB,
	      "two small ones are two: %#llx + %llu, %#llx + %llu", (unsigned long long)m.base,
	      (unsigned long long)m.length, (unsigned long long)n.base, (unsigned long long)n.length);
	cu.cuMemFree_v2(p);
	cu.cuMemFree_v2(q);
}

static void host_kinds(void)
{
	struct peerdma_memory m;
	gpu_ptr p;
	void *h;

	if (!cu.cuMemAllocManaged(&p, MIB, 1)) {
		m = query(p + 4000);
		CHECK(m.kind == PEERDMA_KIND_MANAGED, "cuMemAllocManaged's is managed (kind %u)", m.kind);
		CHECK(!(m.flags & PEERDMA_MEMORY_PINNABLE), "and cannot be pinned");
		CHECK(m.base == p && m.length >= MIB, "its allocation");
		memset((void *)(uintptr_t)p, 1, MIB);
		CHECK(kind((void *)(uintptr_t)p) == PEERDMA_KIND_MANAGED, "also when the CPU has touched it");
		cu.cuMemFree_v2(p);
	} else {
		printf("# no managed memory here\n");
	}
	if (CHECK(!cu.cuMemHostAlloc(&h, MIB, 0), "cuMemHostAlloc")) {
		m = query((uintptr_t)h + 5000);
		CHECK(m.kind == PEERDMA_KIND_HOST && m.flags & PEERDMA_MEMORY_CUDA, "its memory is the host's, and CUDA's");
		CHECK(m.base == (uintptr_t)h && m.length >= MIB, "its allocation: %#llx + %llu",
		      (unsigned long long)m.base, (unsigned long long)m.length);
		cu.cuMemFreeHost(h);
	}
	h = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!cu.cuMemHostRegister_v2(h, MIB, 0)) {
		m = query((uintptr_t)h + 5000);
		CHECK(m.kind == PEERDMA_KIND_HOST && m.flags & PEERDMA_MEMORY_CUDA, "registered memory likewise");
		cu.cuMemHostUnregister(h);
	}
	CHECK(kind(h) == PEERDMA_KIND_HOST, "and after that the host's");
	munmap(h, MIB);
}

static void pool(void)
{
	struct peerdma_memory m;
	gpu_ptr p;

	if (!cu.cuMemAllocAsync || cu.cuMemAllocAsync(&p, MIB, NULL)) {
		printf("# no stream-ordered pools here\n");
		return;
	}
	cu.cuStreamSynchronize(NULL);
	m = query(p + 1000);
	CHECK(m.kind == PEERDMA_KIND_DEVICE, "cuMemAllocAsync's is a GPU's");
	CHECK((m.flags & ~PEERDMA_MEMORY_PINNABLE) == (PEERDMA_MEMORY_CUDA | PEERDMA_MEMORY_POOL), "from a pool (flags %#x)", m.flags);
	CHECK(p - m.base < m.length, "its allocation: %#llx + %llu, pointer %#llx", (unsigned long long)m.base,
	      (unsigned long long)m.length, p);
	cu.cuMemFreeAsync(p, NULL);
	cu.cuStreamSynchronize(NULL);
}

/* As a framework's expandable segment: two mapped, and reserved addresses behind them. */
static void range_of_two(gpu_ptr p, size_t granule)
{
	struct peerdma_memory m[4] = { { .size = sizeof(m[0]) } };
	size_t n = 0;
	int ret = peerdma_query_range(NULL, (void *)(uintptr_t)(p + 4096), 2 * granule, m, 4, &n);

	CHECK(!ret && n == 3, "a range over both and past them: %zu pieces", n);
	CHECK(m[0].base == p + 4096 && m[0].length == granule - 4096 && m[0].kind == PEERDMA_KIND_DEVICE, "the first's rest");
	CHECK(m[1].base == p + granule && m[1].length == granule && m[1].buffer_id != m[0].buffer_id &&
	      m[1].flags & PEERDMA_MEMORY_VMM, "all of the second");
	CHECK(m[2].base == p + 2 * granule && m[2].length == 4096 && m[2].kind == PEERDMA_KIND_UNKNOWN, "what is not mapped");
	m[0].size = sizeof(m[0]);
	m[1].kind = 77;
	CHECK(!peerdma_query_range(NULL, (void *)(uintptr_t)p, 2 * granule, m, 1, &n) && n == 2 && m[1].kind == 77,
	      "room for one of two");
	CHECK(!peerdma_query_range(NULL, (void *)(uintptr_t)p, granule, NULL, 0, &n) && n == 1, "only counted");
}

static void ranges(void)
{
	struct peerdma_memory m[2] = { { .size = sizeof(m[0]) } };
	char *big = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t n = 0;
	int ret = peerdma_query_range(NULL, big + 5, 40 * MIB, m, 2, &n);

	CHECK(!ret && n == 1 && m[0].kind == PEERDMA_KIND_HOST &&
	      m[0].base == (uintptr_t)big + 5 && m[0].length == 40 * MIB && m[0].flags == PEERDMA_MEMORY_PINNABLE,
	      "a range of the host is one piece (%zu)", n);
	CHECK(peerdma_query_range(NULL, big, 0, m, 2, &n) == -EINVAL, "%s", peerdma_last_error());
	CHECK(peerdma_query_range(NULL, big, SIZE_MAX, m, 2, &n) == -EINVAL, "%s", peerdma_last_error());
	m[0].size = 8;
	CHECK(peerdma_query_range(NULL, big, MIB, m, 2, &n) == -EINVAL, "%s", peerdma_last_error());
	munmap(big, 64 * MIB);
}

static void vmm(void)
{
	struct cuda_prop prop = { .type = 1, .location_type = 1, .rdma_capable = 1 };
	struct cuda_access access = { 1, 0, 3 };
	unsigned long long first, second;
	struct peerdma_memory m, n;
	size_t granule;
	gpu_ptr p;

	if (!cu.cuMemCreate || cu.cuMemGetAllocationGranularity(&granule, &prop, 1) ||
	    cu.cuMemCreate(&first, granule, &prop, 0) || cu.cuMemCreate(&second, granule, &prop, 0)) {
		printf("# no virtual memory management here\n");
		return;
	}
	CHECK(!cu.cuMemAddressReserve(&p, 3 * granule, 0, 0, 0), "cuMemAddressReserve");
	CHECK(query(p).kind == PEERDMA_KIND_UNKNOWN, "reserved and not mapped: not known (kind %u)", query(p).kind);
	CHECK(!cu.cuMemMap(p, granule, 0, first, 0) && !cu.cuMemMap(p + granule, granule, 0, second, 0) &&
	      !cu.cuMemSetAccess(p, 2 * granule, &access, 1), "two mapped side by side");
	m = query(p + 5);
	n = query(p + granule + 5);
	CHECK(m.kind == PEERDMA_KIND_DEVICE && m.flags == (PEERDMA_MEMORY_CUDA | PEERDMA_MEMORY_VMM | PEERDMA_MEMORY_PINNABLE),
	      "mapped memory is a GPU's (kind %u, flags %#x)", m.kind, m.flags);
	CHECK(m.base == p && m.length == granule, "the first mapping: %#llx + %llu of %#llx + %zu",
	      (unsigned long long)m.base, (unsigned long long)m.length, p, granule);
	CHECK(n.base == p + granule && n.length == granule, "the second: %#llx + %llu",
	      (unsigned long long)n.base, (unsigned long long)n.length);
	CHECK(m.buffer_id != n.buffer_id, "buffer ids %llu and %llu", (unsigned long long)m.buffer_id,
	      (unsigned long long)n.buffer_id);
	CHECK(query(p + 2 * granule).kind == PEERDMA_KIND_UNKNOWN, "past them: not known (kind %u)",
	      query(p + 2 * granule).kind);
	range_of_two(p, granule);
	cu.cuMemUnmap(p, 2 * granule);
	cu.cuMemRelease(first);
	cu.cuMemRelease(second);
	CHECK(query(p).kind == PEERDMA_KIND_UNKNOWN, "unmapped: not known (kind %u)", query(p).kind);
	cu.cuMemAddressFree(p, 3 * granule);
}

static int child(gpu_ptr p)
{
	char on_stack[16] = "", *big = malloc(64 * MIB);
	int ret;

	ret = kind(on_stack) == PEERDMA_KIND_HOST && kind(big + MIB) == PEERDMA_KIND_HOST &&
	      query(p).kind == PEERDMA_KIND_UNKNOWN;
	free(big);
	return !ret;
}

static void forked(void)
{
	gpu_ptr p;
	int status = -1;
	pid_t pid;

	cu.cuMemAlloc_v2(&p, MIB);
	pid = fork();
	if (!pid)
		_exit(child(p));
	waitpid(pid, &status, 0);
	CHECK(status == 0, "a forked child: host memory is the host's, the parent's GPU memory is not known");
	CHECK(query(p).kind == PEERDMA_KIND_DEVICE, "the parent goes on");
	cu.cuMemFree_v2(p);
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* Over 20 ms: an emulated machine is a thousand times slower than a real one. */
static double ns_per_call(gpu_ptr p, int ours)
{
	struct peerdma_memory m = { .size = sizeof(m) };
	double begin = now_ns(), end;
	long n = 0;
	int type;

	do {
		for (int i = 0; i < 100; i++) {
			if (ours)
				peerdma_query(NULL, (void *)(uintptr_t)p, &m);
			else
				cu.cuPointerGetAttribute(&type, 2, p);
		}
		n += 100;
		end = now_ns();
	} while (end - begin < 20e6);
	return (end - begin) / n;
}

/* Figures, not checks: a shared machine is no place to hold a clock to a limit. */
static void figures(void)
{
	char on_stack[16] = "", *big = malloc(64 * MIB), *heap = malloc(100);
	gpu_ptr p;

	cu.cuMemAlloc_v2(&p, MIB);
	printf("# ns per call, cuPointerGetAttribute(MEMORY_TYPE) and peerdma_query(): stack %.1f %.1f, heap %.1f %.1f, "
	       "big host buffer %.1f %.1f, device %.1f %.1f\n",
	       ns_per_call((uintptr_t)on_stack, 0), ns_per_call((uintptr_t)on_stack, 1),
	       ns_per_call((uintptr_t)heap, 0), ns_per_call((uintptr_t)heap, 1),
	       ns_per_call((uintptr_t)big, 0), ns_per_call((uintptr_t)big, 1), ns_per_call(p, 0), ns_per_call(p, 1));
	cu.cuMemFree_v2(p);
	free(big);
	free(heap);
}

int main(void)
{
	int count, device;
	void *context;

	hosts("without CUDA");
	if (!cuda_calls_load(&cu)) {
		printf("no libcuda.so.1\n");
		return check_counts.failures ? 1 : 77;
	}
	hosts("before cuInit()");
	if (cu.cuInit(0) || cu.cuDeviceGetCount(&count) || !count) {
		printf("libcuda.so.1 has no device\n");
		return check_counts.failures ? 1 : 77;
	}
	hosts("without a context");
	if (cu.cuDeviceGet(&device, 0) || cu.cuDevicePrimaryCtxRetain(&context, device) || cu.cuCtxSetCurrent(context) ||
	    cu.cuDeviceGetPCIBusId(pci, sizeof(pci), device)) {
		CHECK(0, "a context");
		return 1;
	}
	for (char *c = pci; *c; c++)
		*c = *c >= 'A' && *c <= 'F' ? *c + 'a' - 'A' : *c;
	hosts("with CUDA");
	device_memory();
	host_kinds();
	ranges();
	pool();
	vmm();
	forked();
	figures();
	return check_end(NULL);
}
