// SPDX-License-Identifier: MIT
/*
 * unmapped.c - which of libcuda's calls may be made about memory that another thread unmaps or frees at that moment. Uses
 * nothing of this project.
 *
 *	unmapped [SECONDS]	for each call; default: 10
 *
 * Each call is tried in a process of its own, by four threads. Meanwhile a fifth thread destroys the allocation that they
 * ask about (cuMemUnmap; cuMemFree; cuCtxDestroy), and makes another. The calls should return errors then; some calls of
 * NVIDIA's libcuda 580.159.04 sometimes end in a segmentation fault. Exit code: 0: none did; 1: one did, which is the
 * driver's fault; 2: CUDA does not start.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cuda_calls.h"

#define CHUNKS	8
#define GOES	6	/* which of them is unmapped and mapped */
#define THREADS	4

/* CUpointer_attribute */
enum { CONTEXT = 1, MEMORY_TYPE, BUFFER_ID = 7, IS_MANAGED, DEVICE_ORDINAL, RANGE_START = 11, RANGE_SIZE, RDMA_CAPABLE = 15,
       MAPPING_SIZE = 18, MAPPING_BASE };

static struct cuda_calls cu;
static int (*attributes)(unsigned int, int *, void **, gpu_ptr);
static int (*range)(gpu_ptr *, size_t *, gpu_ptr);
static int (*export)(int *, gpu_ptr, size_t, int, unsigned long long);
static void *context;
static struct cuda_prop prop = { .type = 1, .location_type = 1, .rdma_capable = 1 };
static size_t chunk;
static gpu_ptr base, leaving;
static int stop, device;
static void *doomed;	/* the context of what goes with it */
static enum way { UNMAP, FREE, DESTROY, WAYS } way;
static const char *const ways[WAYS] = { "cuMemUnmap", "cuMemFree", "cuCtxDestroy" };
static unsigned long asked, failed;

static gpu_ptr at(int i)
{
	return base + (size_t)i * chunk;
}

/* What the calls ask about. */
static gpu_ptr it(void)
{
	return __atomic_load_n(&leaving, __ATOMIC_RELAXED);
}

static int ask(gpu_ptr p, const int *list, unsigned int n)
{
	unsigned long long answers[8];
	void *data[8];
	int copy[8];

	memcpy(copy, list, n * sizeof(*list));
	for (unsigned int i = 0; i < n; i++)
		data[i] = &answers[i];
	return attributes(n, copy, data, p);
}

static int id(void)
{
	return ask(it(), (int[]){ BUFFER_ID }, 1);
}

static int id_alone(void)
{
	unsigned long long answer;

	return cu.cuPointerGetAttribute(&answer, BUFFER_ID, it());
}

static int several(void)
{
	return ask(it(), (int[]){ MEMORY_TYPE, IS_MANAGED, BUFFER_ID, DEVICE_ORDINAL, RANGE_START, RANGE_SIZE, CONTEXT }, 7);
}

static int mapping(void)
{
	return ask(it(), (int[]){ MAPPING_BASE, MAPPING_SIZE }, 2);
}

static int capable(void)
{
	return ask(it(), (int[]){ RDMA_CAPABLE }, 1);
}

static int several_beside(void)
{
	return ask(at(GOES - 1), (int[]){ MEMORY_TYPE, BUFFER_ID, MAPPING_BASE, MAPPING_SIZE, RDMA_CAPABLE }, 5);
}

static int address_range(void)
{
	gpu_ptr start;
	size_t size;

	return range(&start, &size, it());
}

static int export_of(gpu_ptr p, size_t size)
{
	int fd, error = export(&fd, p, size, 1, 0);

	if (!error)
		close(fd);
	return error;
}

static int export_it(void)
{
	return export_of(it(), chunk);
}

static int export_all(void)
{
	return export_of(base, CHUNKS * chunk);
}

static const struct call {
	const char *name;
	int (*make)(void);
	int mapped_only;
} calls[] = {
	{ "cuPointerGetAttributes, BUFFER_ID", id, 0 },
	{ "cuPointerGetAttribute, BUFFER_ID", id_alone, 0 },
	{ "cuPointerGetAttributes, seven", several, 0 },
	{ "cuPointerGetAttributes, MAPPING_BASE_ADDR and MAPPING_SIZE", mapping, 0 },
	{ "cuPointerGetAttributes, IS_GPU_DIRECT_RDMA_CAPABLE", capable, 0 },
	{ "cuMemGetAddressRange", address_range, 0 },
	{ "cuMemGetHandleForAddressRange, of it", export_it, 0 },
	{ "cuMemGetHandleForAddressRange, of it and what lies beside it", export_all, 1 },
	{ "cuPointerGetAttributes, five, of what lies beside it", several_beside, 1 },
};

static int map(int i)
{
	struct cuda_access access = { 1, prop.location_id, 3 };
	unsigned long long memory;

	return cu.cuMemCreate(&memory, chunk, &prop, 0) || cu.cuMemMap(at(i), chunk, 0, memory, 0) ||
	       cu.cuMemSetAccess(at(i), chunk, &access, 1) || cu.cuMemRelease(memory);
}

/* Ends the one, and makes the next; not 0: CUDA failed. */
static int replace(void)
{
	gpu_ptr p;

	switch (way) {
	case UNMAP:
		return cu.cuMemUnmap(it(), chunk) || map(GOES);
	case FREE:
		if (cu.cuMemFree_v2(it()))
			return 1;
		break;
	default:
		if (cu.cuCtxDestroy_v2(doomed) || cu.cuCtxCreate_v2(&doomed, 0, device))
			return 1;
	}
	if (cu.cuMemAlloc_v2(&p, chunk))
		return 1;
	__atomic_store_n(&leaving, p, __ATOMIC_RELAXED);
	return 0;
}

static void *asks(void *call)
{
	unsigned long n = 0, errors = 0;

	cu.cuCtxSetCurrent(context);
	for (; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); n++)
		errors += !!((const struct call *)call)->make();
	__atomic_add_fetch(&asked, n, __ATOMIC_RELAXED);
	__atomic_add_fetch(&failed, errors, __ATOMIC_RELAXED);
	return NULL;
}

static int start(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library || !cuda_calls_load(&cu) || cu.cuInit(0) || cu.cuDeviceGet(&device, 0) ||
	    cu.cuDevicePrimaryCtxRetain(&context, device) || cu.cuCtxSetCurrent(context))
		return 0;
	attributes = dlsym(library, "cuPointerGetAttributes");
	range = dlsym(library, "cuMemGetAddressRange_v2");
	export = dlsym(library, "cuMemGetHandleForAddressRange");
	prop.location_id = device;
	if (!attributes || !range || !export || cu.cuMemGetAllocationGranularity(&chunk, &prop, 0) ||
	    cu.cuMemAddressReserve(&base, CHUNKS * chunk, 0, 0, 0))
		return 0;
	for (int i = 0; i < CHUNKS; i++) {
		if (map(i))
			return 0;
	}
	leaving = at(GOES);
	if (way == DESTROY && cu.cuCtxCreate_v2(&doomed, 0, device))
		return 0;
	return way == UNMAP || !cu.cuMemAlloc_v2(&leaving, chunk);
}

/* In a child, which alone has CUDA. */
static int try(const struct call *call, time_t seconds)
{
	pthread_t threads[THREADS];
	time_t end = time(NULL) + seconds;
	unsigned long times = 0;

	if (!start())
		return 2;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, asks, (void *)(uintptr_t)call);
	for (; time(NULL) < end; times++) {
		if (replace())
			return 2;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%lu calls, of which %lu failed; it ended %lu times\n", asked, failed, times);
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	time_t seconds = argc > 1 ? strtol(argv[1], NULL, 10) : 10;
	int crashed = 0;

	if (argc > 2 || seconds < 1) {
		fprintf(stderr, "Usage: unmapped [SECONDS]\n");
		return 2;
	}
	for (size_t n = 0; n < WAYS * sizeof(calls) / sizeof(calls[0]); n++) {
		const struct call *call = &calls[n / WAYS];
		int status = -1;
		pid_t pid;

		way = n % WAYS;
		if (way != UNMAP && call->mapped_only)
			continue;
		printf("%s by %s: ", call->name, ways[way]);
		fflush(stdout);
		pid = fork();
		if (!pid)
			_exit(try(call, seconds));
		waitpid(pid, &status, 0);
		if (WIFSIGNALED(status)) {
			printf("crashed: %s\n", strsignal(WTERMSIG(status)));
			crashed = 1;
		} else if (status) {
			printf("CUDA does not start, or has no memory that can be mapped side by side\n");
			return 2;
		}
	}
	return crashed;
}
