// SPDX-License-Identifier: MIT
/*
 * reserved.c - what the CPU finds at the GPU's addresses: a private mapping that forbids every access,
 * as NVIDIA's driver reserves them.  So the kernel reads nothing there, but by force it puts pages of
 * zeros there, which are not the GPU's memory: as RDMA's core did before Linux 6.2.
 */
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "test.h"

#define PLACES	4

/* Device memory, small and large; reserved addresses, mapped and not. */
static CUdeviceptr places[PLACES];
static CUmemGenericAllocationHandle handle;
static size_t granularity;

static void make_places(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemAccessDesc access = { prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

	OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	OK(cuMemAlloc(&places[0], 4096));
	OK(cuMemAlloc(&places[1], 8 * MIB));
	OK(cuMemAddressReserve(&places[2], 2 * granularity, 0, 0, 0));
	OK(cuMemCreate(&handle, granularity, &prop, 0));
	OK(cuMemMap(places[2], granularity, 0, handle, 0));
	OK(cuMemSetAccess(places[2], granularity, &access, 1));
	places[3] = places[2] + granularity;
}

static void drop_places(void)
{
	OK(cuMemUnmap(places[2], granularity));
	OK(cuMemRelease(handle));
	OK(cuMemAddressFree(places[2], 2 * granularity));
	OK(cuMemFree(places[1]));
	OK(cuMemFree(places[0]));
}

/* The line of /proc/self/maps: private, without rights, and of no file. */
static bool is_reserved(CUdeviceptr at)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long long from, to, offset, inode;
	char line[512], rights[8], device[16], name[256];
	bool good = false;

	while (maps && fgets(line, sizeof(line), maps)) {
		name[0] = 0;
		if (sscanf(line, "%llx-%llx %7s %llx %15s %llu %255s", &from, &to, rights, &offset, device, &inode, name) < 6 ||
		    at < from || at >= to)
			continue;
		good = !strcmp(rights, "---p") && !inode && !name[0];
		if (!good)
			print_error("%s", line);
	}
	if (maps)
		fclose(maps);
	return good;
}

CASE(mapping)
{
	make_places();
	for (int i = 0; i < PLACES; i++)
		assert_true(is_reserved(places[i]));
	drop_places();
}

static void child_looks(void *arg)
{
	for (int i = 0; i < PLACES; i++) {
		if (!is_reserved(places[i]))
			_exit(1);
	}
}

/* A child has the reservation, too: nothing else of it comes to stand there. */
CASE(in_a_child)
{
	make_places();
	assert_int_equal(in_child(child_looks, NULL), 0);
	drop_places();
}

CASE(asked_politely)
{
	char byte = 1;

	make_places();
	for (int i = 0; i < PLACES; i++) {
		struct iovec mine = { &byte, 1 }, theirs = { (void *)places[i], 1 };
		void *page = (void *)(places[i] & ~(CUdeviceptr)(sysconf(_SC_PAGESIZE) - 1));

		assert_int_equal(process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0), -1);
		assert_int_equal(errno, EFAULT);
		/* sanitizers make the function do nothing */
		assert_int_equal(syscall(SYS_mlock, page, 1), -1);
		assert_int_equal(errno, ENOMEM);
		syscall(SYS_munlock, page, 1);
	}
	drop_places();
}

CASE(by_force)
{
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	unsigned char byte;

	assert_true(mem >= 0);
	make_places();
	for (int i = 0; i < 3; i++)
		OK(cuMemsetD8(places[i], 0x11, 4096));
	OK(cuCtxSynchronize());
	for (int i = 0; i < PLACES; i++) {
		byte = 0xff;
		if (pread(mem, &byte, 1, (off_t)places[i]) != 1) {
			/* Linux 6.12 and later can be told to forbid it (proc_mem.force_override). */
			print_message("not by force on this machine: %s\n", strerror(errno));
			break;
		}
		assert_int_equal(byte, 0);
		byte = 0x22;
		if (pwrite(mem, &byte, 1, (off_t)places[i]) != 1)
			print_message("not written by force on this machine: %s\n", strerror(errno));
		/* What is there now is the host's alone. */
		if (i < 3) {
			OK(cuMemcpyDtoH(&byte, places[i], 1));
			assert_int_equal(byte, 0x11);
		}
	}
	drop_places();
	close(mem);
}

/* Host memory comes to stand where such pages are, and the reservation where that was. */
CASE(host_memory_between)
{
	volatile char *host;
	void *p;

	for (int i = 0; i < 3; i++) {
		OK(cuMemHostAlloc(&p, MIB, 0));
		host = p;
		assert_int_equal(host[0], 0);
		host[0] = 5;
		OK(cuMemFreeHost(p));
	}
	if (on_softgpu())
		assert_true(is_reserved(P(p)));
}

MAIN(gpu_setup, gpu_teardown)
