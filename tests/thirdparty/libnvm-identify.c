// SPDX-License-Identifier: MIT
/*
 * An NVMe controller writes into GPU memory, through libnvm's kernel module.
 *
 *   libnvm-identify /dev/libnvm0 [EXPECTED-SERIAL]
 *
 * The admin queue is in host memory, mapped by the module, and driven from
 * here.  The controller is asked to identify itself three times: into host
 * memory, into GPU memory, and, after a second allocation was freed under a live
 * mapping, into the first once more.  Both answers must be the same.
 *
 * The ioctls' header is that of the checkout, found by -I.
 */
#define _CUDA
#include <stdint.h>
#include <stddef.h>
#include <ioctl.h>

#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE		4096u
#define GPU_PAGE	65536u
#define ENTRIES		16u
#define IDENTIFY_SIZE	4096u

/* NVMe registers, by offset in words of 32 bits. */
#define REG_CC		(0x14 / 4)
#define REG_CSTS	(0x1c / 4)
#define REG_AQA		(0x24 / 4)
#define REG_ASQ		(0x28 / 4)
#define REG_ACQ		(0x30 / 4)
#define REG_SQ0_TAIL	(0x1000 / 4)
#define REG_CQ0_HEAD	(0x1004 / 4)	/* the doorbells' stride is 4 in QEMU */

struct nvme {
	int fd;
	volatile uint32_t *regs;
	uint32_t *sq;			/* ENTRIES commands of 64 bytes */
	volatile uint32_t *cq;		/* ENTRIES completions of 16 bytes */
	uint32_t tail, head, phase;
};

static void fail(const char *what, int error)
{
	fprintf(stderr, "libnvm-identify: %s: %s\n", what, error ? strerror(error) : "wrong");
	exit(1);
}

static void cuda(CUresult result, const char *what)
{
	const char *name = "unknown";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fprintf(stderr, "libnvm-identify: %s: %s\n", what, name);
	exit(1);
}

static int map(const struct nvme *nvme, unsigned long how, uint64_t addr, uint64_t *bus)
{
	struct nvm_ioctl_map request = { .vaddr_start = addr, .n_pages = 1, .ioaddrs = bus };

	return ioctl(nvme->fd, how, &request) ? errno : 0;
}

static int unmap(const struct nvme *nvme, uint64_t addr)
{
	return ioctl(nvme->fd, NVM_UNMAP_MEMORY, &addr) ? errno : 0;
}

static void *host_page(const struct nvme *nvme, uint64_t *bus)
{
	void *page = NULL;
	int error = posix_memalign(&page, PAGE, PAGE);

	if (error)
		fail("no memory", error);
	memset(page, 0, PAGE);
	error = map(nvme, NVM_MAP_HOST_MEMORY, (uintptr_t)page, bus);
	if (error)
		fail("mapping host memory", error);
	return page;
}

static void wait_ready(const struct nvme *nvme, uint32_t ready)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	for (int i = 0; i < 10000; i++) {
		if ((nvme->regs[REG_CSTS] & 1) == ready)
			return;
		nanosleep(&pause, NULL);
	}
	fail("the controller does not become ready", ETIMEDOUT);
}

static void start(struct nvme *nvme)
{
	uint64_t sq_bus, cq_bus;

	nvme->sq = host_page(nvme, &sq_bus);
	nvme->cq = host_page(nvme, &cq_bus);
	nvme->phase = 1;
	nvme->regs[REG_CC] = 0;
	wait_ready(nvme, 0);
	nvme->regs[REG_AQA] = (ENTRIES - 1) << 16 | (ENTRIES - 1);
	nvme->regs[REG_ASQ] = (uint32_t)sq_bus;
	nvme->regs[REG_ASQ + 1] = (uint32_t)(sq_bus >> 32);
	nvme->regs[REG_ACQ] = (uint32_t)cq_bus;
	nvme->regs[REG_ACQ + 1] = (uint32_t)(cq_bus >> 32);
	nvme->regs[REG_CC] = 4u << 20 | 6u << 16 | 1;	/* entries of 16 and 64 bytes, enable */
	wait_ready(nvme, 1);
}

/* Identify Controller: 4 KiB to a bus address. */
static void identify(struct nvme *nvme, uint64_t bus)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	uint32_t *command = nvme->sq + 16 * nvme->tail;
	volatile uint32_t *done = nvme->cq + 4 * nvme->head;
	int i;

	memset(command, 0, 64);
	command[0] = 0x06 | (nvme->tail + 1) << 16;
	command[6] = (uint32_t)bus;
	command[7] = (uint32_t)(bus >> 32);
	command[10] = 1;
	nvme->tail = (nvme->tail + 1) % ENTRIES;
	__sync_synchronize();
	nvme->regs[REG_SQ0_TAIL] = nvme->tail;

	for (i = 0; i < 10000 && (done[3] >> 16 & 1) != nvme->phase; i++)
		nanosleep(&pause, NULL);
	if ((done[3] >> 16 & 1) != nvme->phase)
		fail("Identify does not complete", ETIMEDOUT);
	if (done[3] >> 17) {
		fprintf(stderr, "libnvm-identify: Identify ended with status 0x%x\n", done[3] >> 17);
		exit(1);
	}
	nvme->head = (nvme->head + 1) % ENTRIES;
	nvme->phase ^= !nvme->head;
	nvme->regs[REG_CQ0_HEAD] = nvme->head;
}

/* GPU memory that covers a whole GPU page, which is cleared. */
static CUdeviceptr gpu_page(CUdeviceptr *whole)
{
	CUdeviceptr page;

	cuda(cuMemAlloc(whole, 2 * GPU_PAGE), "cuMemAlloc");
	page = (*whole + GPU_PAGE - 1) / GPU_PAGE * GPU_PAGE;
	cuda(cuMemsetD8(page, 0xee, GPU_PAGE), "cuMemsetD8");
	cuda(cuCtxSynchronize(), "cuCtxSynchronize");
	return page;
}

static void compare(CUdeviceptr page, const unsigned char *expected, const char *what)
{
	static unsigned char got[GPU_PAGE];

	cuda(cuMemcpyDtoH(got, page, GPU_PAGE), "cuMemcpyDtoH");
	if (memcmp(got, expected, IDENTIFY_SIZE))
		fail(what, 0);
	for (size_t i = IDENTIFY_SIZE; i < GPU_PAGE; i++)
		if (got[i] != 0xee)
			fail("GPU memory beyond the 4 KiB", 0);
}

int main(int argc, char **argv)
{
	struct nvme nvme = { .fd = -1 };
	CUdeviceptr whole, page, other, other_page;
	uint64_t host_bus, gpu_bus, other_bus;
	unsigned char *expected;
	CUcontext context;
	CUdevice device;
	int error;

	if (argc < 2) {
		fprintf(stderr, "usage: libnvm-identify /dev/libnvm0 [EXPECTED-SERIAL]\n");
		return 2;
	}
	nvme.fd = open(argv[1], O_RDWR);
	if (nvme.fd < 0)
		fail(argv[1], errno);
	nvme.regs = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, nvme.fd, 0);
	if (nvme.regs == MAP_FAILED)
		fail("mapping the controller's registers", errno);

	cuda(cuInit(0), "cuInit");
	cuda(cuDeviceGet(&device, 0), "cuDeviceGet");
	cuda(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	cuda(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	page = gpu_page(&whole);

	start(&nvme);
	expected = host_page(&nvme, &host_bus);
	identify(&nvme, host_bus);
	printf("host memory: the controller says \"%.40s\", serial \"%.20s\"\n", expected + 24, expected + 4);
	if (argc > 2 && memcmp(expected + 4, argv[2], strlen(argv[2])))
		fail("the serial number", 0);

	error = map(&nvme, NVM_MAP_DEVICE_MEMORY, page, &gpu_bus);
	if (error)
		fail("mapping GPU memory", error);
	identify(&nvme, gpu_bus);
	compare(page, expected, "what the controller wrote to GPU memory");
	printf("GPU memory: the same 4 KiB at 0x%llx, through bus address 0x%llx\n",
	       (unsigned long long)page, (unsigned long long)gpu_bus);

	/* Freed under a live mapping: the module's callback takes it down. */
	other_page = gpu_page(&other);
	error = map(&nvme, NVM_MAP_DEVICE_MEMORY, other_page, &other_bus);
	if (error)
		fail("mapping more GPU memory", error);
	cuda(cuMemFree(other), "cuMemFree under a mapping");
	error = unmap(&nvme, other_page);
	if (error != EINVAL)
		fail("unmapping what was revoked gives no EINVAL", error);
	printf("revoked: the module forgot the mapping of 0x%llx\n", (unsigned long long)other_page);

	cuda(cuMemsetD8(page, 0xee, GPU_PAGE), "cuMemsetD8");
	cuda(cuCtxSynchronize(), "cuCtxSynchronize");
	identify(&nvme, gpu_bus);
	compare(page, expected, "what the controller wrote after another mapping was revoked");
	nvme.regs[REG_CC] = 0;
	wait_ready(&nvme, 0);

	error = unmap(&nvme, page);
	if (error)
		fail("unmapping GPU memory", error);
	if (unmap(&nvme, (uintptr_t)expected) || unmap(&nvme, (uintptr_t)nvme.sq) ||
	    unmap(&nvme, (uintptr_t)nvme.cq))
		fail("unmapping host memory", errno);
	cuda(cuMemFree(whole), "cuMemFree");
	puts("done");
	return 0;
}
