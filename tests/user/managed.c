// SPDX-License-Identifier: MIT
/* managed.c - advice about managed memory, and what can be asked about a range of it. */
#include "test.h"

#define A(name) CU_MEM_RANGE_ATTRIBUTE_##name
#define PAGE (64 * KIB)

static int ask(CUmem_range_attribute attribute, CUdeviceptr p, size_t n)
{
	int v = 12345;

	OK(cuMemRangeGetAttribute(&v, sizeof(v), attribute, p, n));
	return v;
}

CASE(nothing_said)
{
	CUdeviceptr p;

	OK(cuMemAllocManaged(&p, 4 * PAGE, CU_MEM_ATTACH_GLOBAL));
	assert_int_equal(ask(A(READ_MOSTLY), p, PAGE), 0);
	assert_int_equal(ask(A(PREFERRED_LOCATION), p, 4 * PAGE), CU_DEVICE_INVALID);
	assert_int_equal(ask(A(ACCESSED_BY), p, 1), CU_DEVICE_INVALID);
	assert_int_equal(ask(A(LAST_PREFETCH_LOCATION), p + 100, 1), CU_DEVICE_INVALID);
	assert_int_equal(ask(A(PREFERRED_LOCATION_TYPE), p, PAGE), CU_MEM_LOCATION_TYPE_INVALID);
	OK(cuMemFree(p));
	BAD(cuMemAdvise(p, PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
}

CASE(said)
{
	CUmem_range_attribute both[] = { A(READ_MOSTLY), A(PREFERRED_LOCATION) };
	int by[3] = { 7, 7, 7 }, mostly = 7, where = 7;
	size_t sizes[] = { sizeof(mostly), sizeof(where) };
	void *values[] = { &mostly, &where };
	CUdeviceptr p;

	OK(cuMemAllocManaged(&p, 4 * PAGE, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAdvise(p, 2 * PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	assert_int_equal(ask(A(READ_MOSTLY), p, 2 * PAGE), 1);
	assert_int_equal(ask(A(READ_MOSTLY), p, 2 * PAGE + 1), 0);
	OK(cuMemAdvise(p, PAGE, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0));
	assert_int_equal(ask(A(READ_MOSTLY), p, 1), 0);

	OK(cuMemAdvise(p, 4 * PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0));
	assert_int_equal(ask(A(PREFERRED_LOCATION), p, 4 * PAGE), 0);
	assert_int_equal(ask(A(PREFERRED_LOCATION_TYPE), p, 1), CU_MEM_LOCATION_TYPE_DEVICE);
	OK(cuMemAdvise(p + 3 * PAGE, PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
	assert_int_equal(ask(A(PREFERRED_LOCATION), p, 4 * PAGE), CU_DEVICE_INVALID);
	assert_int_equal(ask(A(PREFERRED_LOCATION), p + 3 * PAGE, 1), CU_DEVICE_CPU);
	OK(cuMemAdvise(p, 4 * PAGE, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 0));
	assert_int_equal(ask(A(PREFERRED_LOCATION), p, 4 * PAGE), CU_DEVICE_INVALID);

	OK(cuMemAdvise(p, PAGE, CU_MEM_ADVISE_SET_ACCESSED_BY, 0));
	OK(cuMemAdvise(p, PAGE, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU));
	OK(cuMemRangeGetAttribute(by, sizeof(by), A(ACCESSED_BY), p, PAGE));
	assert_true(by[0] == 0 && by[1] == CU_DEVICE_CPU && by[2] == CU_DEVICE_INVALID);
	assert_int_equal(ask(A(ACCESSED_BY), p, 2 * PAGE), CU_DEVICE_INVALID);

	OK(cuMemPrefetchAsync(p, 4 * PAGE, 0, NULL));
	assert_int_equal(ask(A(LAST_PREFETCH_LOCATION), p, 4 * PAGE), 0);
	OK(cuMemPrefetchAsync(p, 1, CU_DEVICE_CPU, NULL));
	assert_int_equal(ask(A(LAST_PREFETCH_LOCATION), p, PAGE), CU_DEVICE_CPU);
	assert_int_equal(ask(A(LAST_PREFETCH_LOCATION_ID), p + PAGE, PAGE), 0);

	OK(cuMemRangeGetAttributes(values, sizes, both, 2, p, PAGE));
	assert_true(mostly == 0 && where == CU_DEVICE_INVALID);
	OK(cuMemFree(p));
	/* the next one has been told nothing */
	OK(cuMemAllocManaged(&p, 4 * PAGE, CU_MEM_ATTACH_GLOBAL));
	assert_int_equal(ask(A(LAST_PREFETCH_LOCATION), p, PAGE), CU_DEVICE_INVALID);
	OK(cuMemFree(p));
}

CASE(wrong)
{
	CUdeviceptr p, device;
	char host[64];
	int v[2];

	OK(cuMemAllocManaged(&p, PAGE, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAlloc(&device, PAGE));
	BAD(cuMemRangeGetAttribute(v, sizeof(int), A(READ_MOSTLY), device, 16));
	BAD(cuMemRangeGetAttribute(v, sizeof(int), A(READ_MOSTLY), P(host), 16));
	BAD(cuMemRangeGetAttribute(v, sizeof(int), A(READ_MOSTLY), p, 0));
	BAD(cuMemRangeGetAttribute(v, sizeof(int), A(READ_MOSTLY), p, PAGE + 1));
	BAD(cuMemRangeGetAttribute(v, sizeof(int), A(READ_MOSTLY), p, (size_t)-1));
	BAD(cuMemRangeGetAttribute(v, 2 * sizeof(int), A(READ_MOSTLY), p, 16));
	BAD(cuMemRangeGetAttribute(v, 3, A(READ_MOSTLY), p, 16));
	BAD(cuMemRangeGetAttribute(v, 6, A(ACCESSED_BY), p, 16));
	BAD(cuMemRangeGetAttribute(NULL, sizeof(int), A(READ_MOSTLY), p, 16));
	BAD(cuMemRangeGetAttribute(v, sizeof(int), (CUmem_range_attribute)99, p, 16));
	BAD(cuMemAdvise(device, 16, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	BAD(cuMemAdvise(p, 16, (CUmem_advise)99, 0));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemAdvise(p, 16, CU_MEM_ADVISE_SET_ACCESSED_BY, 1000));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync(p, 16, 1000, NULL));
	OK(cuMemFree(device));
	OK(cuMemFree(p));
}

/* What the line of /proc/self/maps that p is in begins its path with. */
static bool is_mapped_from(CUdeviceptr p, const char *path)
{
	unsigned long long from, to;
	char line[4096];
	bool found = false;
	FILE *maps = fopen("/proc/self/maps", "r");

	assert_non_null(maps);
	while (!found && fgets(line, sizeof(line), maps)) {
		const char *name = strchr(line, '/');

		found = sscanf(line, "%llx-%llx", &from, &to) == 2 && p >= from && p < to && name &&
			!strncmp(name, path, strlen(path));
	}
	fclose(maps);
	return found;
}

/* A program that begins to watch allocations later finds those before by NVIDIA's device; without a driver it cannot. */
CASE(is_found_in_the_maps)
{
	CUdeviceptr p;
	void *host;

	if (getenv("SOFTGPU_INPROCESS"))
		skip();
	OK(cuMemAllocManaged(&p, 2 * PAGE, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemHostAlloc(&host, PAGE, 0));
	assert_true(is_mapped_from(p, "/dev/nvidia"));
	assert_true(is_mapped_from(p + 2 * PAGE - 1, "/dev/nvidia"));
	assert_false(is_mapped_from(P(host), "/dev/nvidia"));
	OK(cuMemFreeHost(host));
	OK(cuMemFree(p));
}

MAIN(gpu_setup, gpu_teardown)
