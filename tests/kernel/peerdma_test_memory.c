// SPDX-License-Identifier: MIT
/*
 * peerdma_test_memory.c - whose memory the tests are about, by the calls that they
 * know, libcuda's: cudaHostAlloc()'s on a Tegra, dmabuf_mover.ko's dma-bufs, and the
 * process's own.  What is different is a fact that the tests ask for.
 */
#include <dlfcn.h>

#include "dmabuf_mover.h"
#include "peerdma_test_gpu.h"

/* No work is queued on it. */
static int nothing(void)
{
	return 0;
}

static int write_here(unsigned long long dst, const void *src, size_t size)
{
	memcpy((void *)(uintptr_t)dst, src, size);
	return 0;
}

static int read_here(void *dst, unsigned long long src, size_t size)
{
	memcpy(dst, (void *)(uintptr_t)src, size);
	return 0;
}

/* ---- Tegra ---- */

static int (*host_alloc)(void **p, size_t size, unsigned int flags);
static int (*host_device)(unsigned long long *va, void *p, unsigned int flags);
static int (*host_free)(void *p);
#define CU_HOST_POINTER 4

static int tegra_alloc(unsigned long long *va, size_t size)
{
	void *p = NULL;

	return host_alloc(&p, size, 0) ?: host_device(va, p, 0);
}

/* Pins are taken down after their memory has gone, by another thread. */
static void tegra_settle(void)
{
	while (file_number("/sys/module/peerdma_tegra/parameters/ending") > 0)
		usleep(1000);
}

static int tegra_free(unsigned long long va)
{
	void *p = NULL;
	int error = cu.PointerGetAttribute(&p, CU_HOST_POINTER, va) ?: host_free(p);

	tegra_settle();
	return error;
}

static const char *tegra_open(void)
{
	const char *why = nvidia_open();
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	if (why)
		return why;
	*(void **)&host_alloc = dlsym(lib, "cuMemHostAlloc");
	*(void **)&host_device = dlsym(lib, "cuMemHostGetDevicePointer_v2");
	*(void **)&host_free = dlsym(lib, "cuMemFreeHost");
	cu.MemAlloc = tegra_alloc;
	cu.MemFree = tegra_free;
	return host_alloc && host_device && host_free ? NULL : "libcuda.so.1 lacks functions";
}

/* ---- the process's own ---- */

#define PIECES 1024
static struct piece {
	size_t length;
	int fd;			/* dma-bufs */
	uint32_t number;
} pieces[PIECES];
static unsigned int npieces;

/* A page before it says how long it is; so it is in no other's range. */
static int own_alloc(unsigned long long *va, size_t size)
{
	size_t *p = (void *)anonymous(PAGE + size);

	*p = PAGE + size;
	*va = (uintptr_t)p + PAGE;
	memset((void *)(uintptr_t)*va, 0, size);
	return 0;
}

static int own_free(unsigned long long va)
{
	size_t *p = (void *)(uintptr_t)(va - PAGE);

	return munmap(p, *p);
}

static const char *own_open(void)
{
	cu = (struct cuda){
		.CtxSynchronize = nothing, .MemAlloc = own_alloc, .MemFree = own_free,
		.MemcpyHtoD = write_here, .MemcpyDtoH = read_here,
	};
	return NULL;
}

/* ---- dma-bufs: an address is a piece's number, and an offset in it ---- */

#define PIECE_SHIFT 34

static struct piece *piece_of(uint64_t va)
{
	return &pieces[(va >> PIECE_SHIFT) - 1];
}

static uint64_t offset_of(uint64_t va)
{
	return va & ((1ULL << PIECE_SHIFT) - 1);
}

static int dmabuf_alloc(unsigned long long *va, size_t size)
{
	struct mover_create c = { .size = sizeof(c), .length = size };
	int mover = open("/dev/dmabuf_mover", O_RDWR | O_CLOEXEC), error;

	if (mover < 0 || npieces == PIECES)
		return 1;
	error = ioctl(mover, MOVER_CREATE, &c);
	close(mover);
	if (error)
		return 1;
	pieces[npieces++] = (struct piece){ .length = size, .fd = c.fd, .number = c.number };
	*va = (uint64_t)npieces << PIECE_SHIFT;
	return 0;
}

/* Its exporter takes it away.  The descriptor stays until the process ends. */
static int dmabuf_free(unsigned long long va)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/kernel/debug/dmabuf_mover/%u", piece_of(va)->number);
	return write_text(path, "revoke");
}

static char *dmabuf_mmap(unsigned long long va)
{
	return mmap(NULL, piece_of(va)->length, PROT_READ | PROT_WRITE, MAP_SHARED, piece_of(va)->fd, 0);
}

static int dmabuf_write(unsigned long long dst, const void *src, size_t size)
{
	char *p = dmabuf_mmap(dst);

	if (p == MAP_FAILED)
		return 1;
	memcpy(p + offset_of(dst), src, size);
	return munmap(p, piece_of(dst)->length);
}

static int dmabuf_read(void *dst, unsigned long long src, size_t size)
{
	char *p = dmabuf_mmap(src);

	if (p == MAP_FAILED)
		return 1;
	memcpy(dst, p + offset_of(src), size);
	return munmap(p, piece_of(src)->length);
}

static const char *dmabuf_open(void)
{
	cu = (struct cuda){
		.CtxSynchronize = nothing, .MemAlloc = dmabuf_alloc, .MemFree = dmabuf_free,
		.MemcpyHtoD = dmabuf_write, .MemcpyDtoH = dmabuf_read,
	};
	return access("/dev/dmabuf_mover", F_OK) ? "dmabuf_mover.ko is not loaded" : NULL;
}

static int pin_dmabuf(int fd, uint64_t va, size_t length, uint32_t flags, struct peerdma_pin_args *a)
{
	struct peerdma_pin_dmabuf_args d = {
		.size = sizeof(d), .flags = flags, .fd = piece_of(va)->fd, .offset = offset_of(va), .length = length,
	};
	int ret = ioctl(fd, PEERDMA_PIN_DMABUF_FD, &d);

	*a = (struct peerdma_pin_args){
		.handle = d.handle, .page_shift = d.page_shift, .slot = d.slot, .generation = d.generation,
		.offset = d.page_offset, .pinned_length = d.pinned_length,
	};
	return ret;
}

/* ---- which ---- */

static const struct gpu_facts all[] = {
	{ .provider = "nvidia", .open = nvidia_open, .page_shift = 16, .can_persist = true, .has_contexts = true,
	  .put_delay = "nvidia", .kind = PEERDMA_PIN_DEVICE, .pins = ENDED_BY_FREE,
	  .has_address = true, .has_view = true, .too_long = ENXIO, .gone = ENXIO },
	{ .provider = "amd", .open = hip_open,
	  .put_delay = "amdgpu", .kind = PEERDMA_PIN_DEVICE, .pins = ENDED_BY_FREE,
	  .has_address = true, .has_view = true, .too_long = ENXIO, .gone = ENXIO },
	{ .provider = "tegra", .open = tegra_open, .has_contexts = true, .in_host = true, .any_memory = true,
	  .no_turns = true, .settle = tegra_settle,
	  .put_delay = "nvidia_p2p", .kind = PEERDMA_PIN_DEVICE, .pins = ENDED_BY_FREE,
	  .has_address = true, .has_view = true, .too_long = ENXIO, .gone = ENXIO },
	{ .provider = "dmabuf", .open = dmabuf_open, .in_host = true,
	  .kind = PEERDMA_PIN_DEVICE | PEERDMA_PIN_DMABUF, .pins = ENDED_IF_MAPPED, .too_long = ENXIO },
	{ .provider = "host", .open = own_open, .in_host = true,
	  .kind = PEERDMA_PIN_HOST, .pins = STAY,
	  .has_address = true, .has_view = true, .too_long = EFAULT, .gone = EFAULT },
};

const struct gpu_facts *gpu_facts = all;

bool memory_open(const char **why)
{
	const char *name = getenv("PEERDMA_TEST_PROVIDER");

	for (size_t i = 0; name && i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].provider, name))
			gpu_facts = &all[i];
	*why = gpu_facts->open();
	return !*why;
}

int gpu_pin(int fd, uint64_t va, size_t length, uint32_t flags, struct peerdma_pin_args *a)
{
	if (gpu_facts->kind & PEERDMA_PIN_DMABUF)
		return pin_dmabuf(fd, va, length, flags, a);
	return pin_va(fd, va, length, gpu_facts->kind | flags, a);
}
