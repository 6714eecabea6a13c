// SPDX-License-Identifier: MIT
/*
 * tegra_conform.c - does this provider of Tegra's nvidia_p2p_* keep the rules?
 *
 *	tegra_conform [--only RULE]
 *
 * A row for each: the rule, what was done, what was expected and what was seen.  Needs
 * tegra_test.ko, which calls the provider, libcuda.so.1, and root.  Exit code: 0 all
 * rules are kept, 1 some are not, 2 it could not be tried.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#include "now.h"
#include "tegra/tegra_test.h"

#define PAGE 4096UL
#define LENGTH (16 * PAGE)
enum { BIDIRECTIONAL, TO_DEVICE, FROM_DEVICE, NONE };	/* enum dma_data_direction */

/* cudaDevAttrCanUseHostPointerForRegisteredMem: the device's pointers are the host's. */
static bool host_pointers;
static const char *only;
static unsigned int kept, broken;
static CUcontext context;

static void row(const char *rule, const char *what, long long expected, long long seen)
{
	if (only && strcmp(only, rule) != 0)
		return;
	printf("%-5s %-4s %-78s %8lld %8lld\n", expected == seen ? "ok" : "FAIL", rule, what, expected, seen);
	if (expected == seen)
		kept++;
	else
		broken++;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	printf("tegra_conform: %s: %s\n", what, strerror(errno));
	exit(2);
}

static int client(void)
{
	int fd = open("/dev/tegra_test", O_RDWR | O_CLOEXEC);

	must(fd >= 0, "/dev/tegra_test, of tegra_test.ko");
	return fd;
}

static char *alloc(size_t length, unsigned int flags)
{
	void *p = NULL;

	must(!cuMemHostAlloc(&p, length, flags), "cuMemHostAlloc");
	return p;
}

/* What get_pages is to be given for p. */
static uint64_t pinned(const void *p)
{
	CUdeviceptr device;

	return host_pointers || cuMemHostGetDevicePointer(&device, (void *)p, 0) ? (uintptr_t)p : device;
}

/* Each gives 0 or -errno. */
static int get_at(int fd, uint64_t vaddr, uint64_t size, uint32_t flags, struct tegra_get *g)
{
	*g = (struct tegra_get) { .vaddr = vaddr, .size = size, .flags = flags };
	return ioctl(fd, TEGRA_GET, g) ? -errno : 0;
}

static int get(int fd, const void *p, uint64_t size, uint32_t flags, struct tegra_get *g)
{
	struct tegra_get own;

	return get_at(fd, pinned(p), size, flags, g ? g : &own);
}

static int map(int fd, uint32_t direction, struct tegra_map *m)
{
	struct tegra_map own;

	if (!m)
		m = &own;
	*m = (struct tegra_map) { .direction = direction };
	return ioctl(fd, TEGRA_MAP, m) ? -errno : 0;
}

static int simple(int fd, unsigned long call)
{
	return ioctl(fd, call) ? -errno : 0;
}

static struct tegra_state state(int fd)
{
	struct tegra_state s = { 0 };

	must(!ioctl(fd, TEGRA_STATE, &s), "TEGRA_STATE");
	return s;
}

/* ---- 1: get_pages ---- */

static void get_rules(void)
{
	char *p = alloc(LENGTH - 100, 0), *plain;
	struct tegra_get g;
	CUdeviceptr device, alias;
	int fd = client();

	row("1", "get_pages of a whole cudaHostAlloc", 0, get(fd, p, LENGTH, 0, &g));
	row("1", "the table's version, major", 1, g.version >> 16);
	row("1", "its page_size is NVIDIA_P2P_PAGE_SIZE_4KB", 0, g.page_size);
	row("1", "its entries, of 4 KiB", LENGTH / PAGE, g.entries);
	row("1", "its size", LENGTH, (long long)g.table_size);
	row("1", "put_pages", 0, simple(fd, TEGRA_PUT));
	row("1", "get_pages of one page in its middle", 0, get(fd, p + PAGE, PAGE, 0, &g));
	row("1", "its entries", 1, g.entries);
	simple(fd, TEGRA_PUT);
	row("1", "an address that is no multiple of 4 KiB", -EINVAL, get(fd, p + 512, PAGE, 0, &g));
	row("1", "*page_table after it is NULL", 1, g.null_table);
	row("1", "a length that is no multiple of 4 KiB", -EINVAL, get(fd, p, PAGE + 512, 0, NULL));
	row("1", "a length of 0", -EINVAL, get(fd, p, 0, 0, NULL));
	row("1", "a range that wraps", -EINVAL, get(fd, p, -PAGE, 0, NULL));
	row("1", "no callback", -EINVAL, get(fd, p, PAGE, TEGRA_NO_CALLBACK, NULL));
	row("1", "an address where nothing is", -EFAULT, get(fd, (void *)0x10000, PAGE, 0, NULL));

	plain = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(plain != MAP_FAILED && !munmap(plain + PAGE, PAGE), "mmap");
	row("1", "a range whose last page is not there", -EFAULT, get(fd, plain, 2 * PAGE, 0, NULL));
	row("1", "memory that CUDA does not know", 0, get(fd, plain, PAGE, 0, NULL));
	simple(fd, TEGRA_PUT);
	must(!mprotect(plain, PAGE, PROT_READ), "mprotect");
	row("1", "memory that the process may not write", -EFAULT, get(fd, plain, PAGE, 0, NULL));
	munmap(plain, PAGE);
	must(!cuMemAlloc(&device, LENGTH), "cuMemAlloc");
	row("1", "memory of cudaMalloc", -EFAULT, get(fd, (void *)(uintptr_t)device, PAGE, 0, NULL));
	cuMemFree(device);
	must(!cuMemHostGetDevicePointer(&alias, p, 0), "cuMemHostGetDevicePointer");
	row("1", "the pointer of cudaHostGetDevicePointer is the host's, by the attribute", host_pointers, alias == (uintptr_t)p);
	row("1", "get_pages of cudaHostGetDevicePointer's", 0, get_at(fd, alias, LENGTH, 0, &g));
	simple(fd, TEGRA_PUT);
	row("1", "get_pages of the host's", 0, get_at(fd, (uintptr_t)p, PAGE, 0, &g));
	simple(fd, TEGRA_PUT);
	cuMemFreeHost(p);
	row("1", "memory that was freed", -EFAULT, get(fd, p, PAGE, 0, NULL));
	close(fd);
}

/* ---- 2: the end of a pin ---- */

static int die_in_child(void *p, int fd)
{
	pid_t child = fork();
	int status = 0;

	(void)p;
	if (!child) {
		CUdeviceptr alias;
		struct tegra_get g;
		CUcontext ctx;
		CUdevice device;
		void *own;

		/* A process of its own: what it pins goes with it. */
		if (cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate(&ctx, 0, device) ||
		    cuMemHostAlloc(&own, LENGTH, 0) || cuMemHostGetDevicePointer(&alias, own, 0) ||
		    get_at(fd, alias, LENGTH, 0, &g) || map(fd, BIDIRECTIONAL, NULL))
			_exit(1);
		kill(getpid(), 9);
	}
	waitpid(child, &status, 0);
	return WIFSIGNALED(status) ? 0 : -1;
}

static void end_rules(void)
{
	char *p = alloc(LENGTH, 0);
	struct tegra_state s;
	CUcontext second = NULL;
	CUdevice device;
	int fd = client(), other = client();

	must(!get(fd, p, LENGTH, 0, NULL), "get_pages");
	row("2", "put_pages", 0, simple(fd, TEGRA_PUT));
	row("2", "calls the callback, which frees the table", 1, state(fd).callbacks);
	row("2", "a second put_pages of the same table", -EINVAL, simple(fd, TEGRA_PUT));
	row("2", "calls nothing", 1, state(fd).callbacks);
	close(fd);

	fd = client();
	must(!get(fd, p, LENGTH, 0, NULL) && !get(other, p + PAGE, PAGE, 0, NULL), "get_pages");
	must(!map(fd, BIDIRECTIONAL, NULL), "dma_map_pages");
	cuMemFreeHost(p);
	row("2", "cudaFreeHost calls the callback of a pin", 1, state(fd).callbacks);
	row("2", "and of every other pin of that memory", 1, state(other).callbacks);
	row("2", "put_pages after it", -EINVAL, simple(fd, TEGRA_PUT));
	row("2", "free_page_table after it", -EINVAL, simple(fd, TEGRA_FREE_TABLE));
	close(other);
	close(fd);

	fd = client();
	must(!cuDeviceGet(&device, 0) && !cuCtxCreate(&second, 0, device), "cuCtxCreate");
	p = alloc(LENGTH, 0);
	must(!get(fd, p, LENGTH, 0, NULL), "get_pages");
	cuCtxDestroy(second);
	row("2", "the end of its context calls the callback", 1, state(fd).callbacks);
	cuCtxSetCurrent(context);
	close(fd);

	p = alloc(LENGTH, 0);
	fd = client();
	must(!get(fd, p, LENGTH, TEGRA_PUT_INSIDE, NULL), "get_pages");
	row("2", "put_pages, whose callback calls put_pages", 0, simple(fd, TEGRA_PUT));
	s = state(fd);
	row("2", "the inner one is refused", -EINVAL, s.put_inside);
	row("2", "and no callback runs twice", 1, s.callbacks);
	close(fd);

	fd = client();
	must(!get(fd, p, LENGTH, TEGRA_KEEP_TABLE | TEGRA_KEEP_MAPPING, NULL), "get_pages");
	must(!map(fd, BIDIRECTIONAL, NULL), "dma_map_pages");
	row("2", "free_page_table of a table that is pinned", -EINVAL, simple(fd, TEGRA_FREE_TABLE));
	row("2", "put_pages, whose callback frees nothing", 0, simple(fd, TEGRA_PUT));
	row("2", "put_pages after the callback", -EINVAL, simple(fd, TEGRA_PUT));
	/* So late, softgpu says so. */
	usleep(1200000);
	row("2", "put_pages long after it", -EINVAL, simple(fd, TEGRA_PUT));
	row("2", "free_page_table after it", 0, simple(fd, TEGRA_FREE_TABLE));
	row("2", "a second one", -EINVAL, simple(fd, TEGRA_FREE_TABLE));
	close(fd);

	/* A table that is not freed is named when the module goes; tests/vm/tegra.sh looks. */
	fd = client();
	must(!get(fd, p, LENGTH, TEGRA_KEEP_TABLE | TEGRA_LEAK_TABLE, NULL), "get_pages");
	row("2", "put_pages, whose callback frees nothing, nor does the caller", 0, simple(fd, TEGRA_PUT));
	close(fd);
	fd = client();
	must(!get(fd, p, LENGTH, TEGRA_FREE_INSIDE, NULL), "get_pages");
	row("2", "put_pages, whose callback frees the table itself", 0, simple(fd, TEGRA_PUT));
	row("2", "put_pages after it", -EINVAL, simple(fd, TEGRA_PUT));
	close(fd);
	cuMemFreeHost(p);
}

/* ---- 2: which changes of the process's memory call back ---- */

static int fork_and_write(void *p)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	*(volatile char *)p = 3;
	return waitpid(child, NULL, 0) == child ? 0 : -1;
}

static int unmap_first(void *p)
{
	return munmap(p, PAGE);
}

static int unmap_last(void *p)
{
	return munmap((char *)p + LENGTH - PAGE, PAGE);
}

static int discard(void *p)
{
	return madvise(p, LENGTH, MADV_DONTNEED);
}

static int forbid(void *p)
{
	return mprotect(p, LENGTH, PROT_READ);
}

static int move_it(void *p)
{
	return mremap(p, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, (char *)p + LENGTH) == MAP_FAILED ? -1 : 0;
}

static int replace(void *p)
{
	return mmap(p, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p ? 0 : -1;
}

static int write_to_it(void *p)
{
	memset(p, 1, LENGTH);
	return 0;
}

/* Any memory of the process's.  Until the client frees the table, the pages are used for nothing else. */
static void change_rules(void)
{
	static const struct {
		const char *what;
		int (*change)(void *p);
		unsigned int callbacks;
	} changes[] = {
		{ "a write by the process: callbacks", write_to_it, 0 },
		{ "munmap() of the pin's first page", unmap_first, 1 },
		{ "munmap() of its last page alone", unmap_last, 0 },
		{ "madvise(MADV_DONTNEED)", discard, 1 },
		{ "mprotect()", forbid, 1 },
		{ "mremap()", move_it, 1 },
		{ "mmap(MAP_FIXED) over it", replace, 1 },
		{ "fork(), of private memory", fork_and_write, 1 },
	};

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		char *p = mmap(NULL, 2 * LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *seen;
		int fd = client(), inside = client();

		must(p != MAP_FAILED, "mmap");
		memset(p, 42, LENGTH);
		must(!get(fd, p, LENGTH, TEGRA_KEEP_TABLE, NULL) && !get(inside, p, LENGTH, TEGRA_FREE_INSIDE, NULL), "get_pages");
		must(!changes[i].change(p), changes[i].what);
		row("2", changes[i].what, changes[i].callbacks, state(fd).callbacks);
		row("2", "the same, with a callback that frees the table", changes[i].callbacks, state(inside).callbacks);
		seen = mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, fd, 0);
		must(seen != MAP_FAILED, "mmap of /dev/tegra_test");
		row("2", "the pages are what they were", changes[i].change == write_to_it ? 1 : 42, seen[LENGTH - 1]);
		munmap(seen, LENGTH);
		munmap(p, 2 * LENGTH);
		close(inside);
		close(fd);
	}
}

/* ---- 3: for a device ---- */

static void dma_rules(void)
{
	char *p = alloc(LENGTH, 0);
	struct tegra_map m;
	int fd = client();

	row("3", "dma_map_pages of no table", -EINVAL, map(fd, BIDIRECTIONAL, NULL));
	must(!get(fd, p, LENGTH, 0, NULL), "get_pages");
	for (uint32_t direction = BIDIRECTIONAL; direction <= FROM_DEVICE; direction++) {
		static const char *const names[] = {
			"dma_map_pages, DMA_BIDIRECTIONAL", "dma_map_pages, DMA_TO_DEVICE", "dma_map_pages, DMA_FROM_DEVICE",
		};

		row("3", names[direction], 0, map(fd, direction, &m));
		row("3", "its version, major", 1, m.version >> 16);
		row("3", "its runs cover the table", LENGTH, (long long)m.length);
		row("3", "there are no more than pages", 1, m.entries >= 1 && m.entries <= LENGTH / PAGE);
		row("3", "dma_unmap_pages", 0, simple(fd, TEGRA_UNMAP));
	}
	row("3", "dma_map_pages, DMA_NONE", -EINVAL, map(fd, NONE, NULL));
	row("3", "dma_unmap_pages of no mapping", -EINVAL, simple(fd, TEGRA_UNMAP));
	must(!map(fd, BIDIRECTIONAL, NULL), "dma_map_pages");
	cuMemFreeHost(p);
	row("3", "dma_unmap_pages after the callback", -EINVAL, simple(fd, TEGRA_UNMAP));
	row("3", "dma_map_pages after the callback", -EINVAL, map(fd, BIDIRECTIONAL, NULL));
	close(fd);
}

/* ---- 4: what a program maps ---- */

static void protection(unsigned int flags, bool combined, const char *what)
{
	bool right = !(flags & CU_MEMHOSTALLOC_WRITECOMBINED) == !combined;
	char *p = alloc(LENGTH, flags), *view;
	struct tegra_get g;
	int fd = client();

	must(!get(fd, p, LENGTH, 0, &g), "get_pages");
	if (host_pointers)
		row("4", "the program's own area says how it was allocated: write-combined",
		    !!(flags & CU_MEMHOSTALLOC_WRITECOMBINED), g.combined);
	view = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, combined ? PAGE : 0);
	must(view != MAP_FAILED, "mmap of /dev/tegra_test");
	view[5] = 77;
	row("4", what, right ? 0 : -EINVAL, map(fd, BIDIRECTIONAL, NULL));
	row("4", "the same bytes are seen", 77, p[5]);
	simple(fd, TEGRA_UNMAP);
	/* A call while the address space is changing checks nothing. */
	if (!right) {
		struct tegra_map busy = { .direction = BIDIRECTIONAL, .busy = 1 };

		row("4", "the same while mmap_lock is taken: no waiting", 0, ioctl(fd, TEGRA_MAP, &busy) ? -errno : 0);
		simple(fd, TEGRA_UNMAP);
	}
	munmap(view, LENGTH);
	row("4", "dma_map_pages once that is unmapped", 0, map(fd, BIDIRECTIONAL, NULL));
	close(fd);
	cuMemFreeHost(p);
}

static void protection_rules(void)
{
	protection(0, false, "cudaHostAllocDefault, mapped with vm_page_prot as it is");
	protection(0, true, "cudaHostAllocDefault, mapped write-combined: caught");
	protection(CU_MEMHOSTALLOC_WRITECOMBINED, true, "cudaHostAllocWriteCombined, mapped write-combined");
	protection(CU_MEMHOSTALLOC_WRITECOMBINED, false, "cudaHostAllocWriteCombined, mapped as it is: caught");
}

/* ---- 5: what softgpu does on demand, where this is softgpu ---- */

#define KNOBS "/sys/kernel/debug/softgpu/chaos/"

static void knob(const char *name, const char *value)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), KNOBS "%s", name);
	fd = open(path, O_WRONLY);
	must(fd >= 0 && write(fd, value, strlen(value)) > 0, path);
	close(fd);
}

static unsigned int callbacks_within(int fd, int ms)
{
	for (; ms && !state(fd).callbacks; ms--)
		usleep(1000);
	return state(fd).callbacks;
}

static void chaos_rules(void)
{
	char *p = alloc(LENGTH, 0);
	int fd = client(), other = client();
	double began;

	if (access(KNOBS, F_OK))
		return;
	knob("fail_pin", "2");
	row("5", "fail_pin=2: the first pin", 0, get(fd, p, LENGTH, 0, NULL));
	row("5", "fail_pin=2: the second", -ENOMEM, get(other, p, LENGTH, 0, NULL));
	row("5", "and the third", 0, get(other, p, LENGTH, 0, NULL));
	simple(other, TEGRA_PUT);
	simple(fd, TEGRA_PUT);
	close(fd);
	close(other);
	fd = client();
	knob("callback_delay_ms", "300");
	must(!get(fd, p, LENGTH, 0, NULL), "get_pages");
	began = now();
	row("5", "callback_delay_ms=300: put_pages", 0, simple(fd, TEGRA_PUT));
	row("5", "has taken that long", 1, now() - began >= 0.3);
	knob("callback_delay_ms", "0");
	close(fd);
	fd = client();
	knob("revoke_every", "1");
	row("5", "revoke_every=1: a pin", 0, get(fd, p, LENGTH, 0, NULL));
	row("5", "it is revoked, its memory stays allocated: callbacks", 1, callbacks_within(fd, 10000));
	knob("revoke_every", "0");
	p[0] = 1;
	close(fd);
	fd = client();
	row("5", "the memory is pinned again", 0, get(fd, p, LENGTH, 0, NULL));
	row("5", "and that pin stays", 0, callbacks_within(fd, 200));
	close(fd);
	cuMemFreeHost(p);
}

int main(int argc, char **argv)
{
	CUdevice device = 0;
	int attribute = 0, fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[1], "--only"))
		only = argv[2];
	else if (argc > 1)
		return fprintf(stderr, "usage: tegra_conform [--only RULE]\n"), 2;
	/* Before this process has used CUDA: the child does, for itself. */
	fd = client();
	must(!die_in_child(NULL, fd), "a process that pins and is killed");
	row("2", "a killed process's pin: its callback", 1, state(fd).callbacks);
	close(fd);
	must(!cuInit(0) && !cuDeviceGet(&device, 0) && !cuCtxCreate(&context, 0, device), "CUDA");
	must(!cuDeviceGetAttribute(&attribute, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, device),
	     "the attribute");
	host_pointers = attribute;
	attribute = 0;
	must(!cuDeviceGetAttribute(&attribute, CU_DEVICE_ATTRIBUTE_INTEGRATED, device), "the attribute");
	row("1", "the GPU is integrated (cudaDevAttrIntegrated)", 1, attribute);
	get_rules();
	end_rules();
	change_rules();
	dma_rules();
	protection_rules();
	chaos_rules();
	printf("%u rules kept, %u broken\n", kept, broken);
	return broken ? 1 : kept ? 0 : 2;
}
