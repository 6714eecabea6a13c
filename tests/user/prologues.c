// SPDX-License-Identifier: MIT
/*
 * prologues.c - the first instructions of the functions that interposers patch, CUDA's and HSA's.
 *
 * Two tests: every function begins with 12 bytes of instructions that can be moved; and
 * the patch itself, as an interposer does it: 12 bytes of a jump over the function, the
 * original ones run elsewhere.  Real drivers are not looked at: theirs have their own.
 */
#include <dlfcn.h>
#include <sys/mman.h>

#include "hsa/hsa.h"
#include "test.h"

#define FAR_JUMP 12

#if defined(__x86_64__)

static const char *const names[] = {
	"cuMemAlloc", "cuMemAlloc_v2", "cuMemAllocManaged", "cuMemAllocPitch", "cuMemAllocPitch_v2", "cuMemMap",
	"cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuModuleGetGlobal", "cuModuleGetGlobal_v2",
	"cuLibraryGetGlobal", "cuMemFree", "cuMemFree_v2", "cuMemFreeHost", "cuMemUnmap", "cuMemFreeAsync",
	"hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free",
};
#define NAMES (sizeof(names) / sizeof(names[0]))

/* The length of an instruction that has no address in it; 0: not one of those that are known. */
static size_t movable(const unsigned char *code)
{
	if (code[0] >= 0x50 && code[0] <= 0x57)
		return 1;				/* push */
	if (code[0] == 0x41 && code[1] >= 0x50 && code[1] <= 0x57)
		return 2;				/* push of a newer register */
	if (!memcmp(code, "\x48\x89\xe5", 3))
		return 3;				/* mov %rsp, %rbp */
	if (!memcmp(code, "\x48\x81\xec", 3))
		return 7;				/* sub $imm32, %rsp */
	return 0;
}

static unsigned char *code_of(const char *name)
{
	unsigned char *code = dlsym(RTLD_DEFAULT, name);

	if (!code)
		fail_msg("%s is not there", name);
	return code;
}

/* How many bytes of whole instructions make up the patch's place; 0: one of them cannot be moved. */
static size_t room(const unsigned char *code)
{
	size_t size = 0, n;

	while (size < FAR_JUMP) {
		n = movable(code + size);
		if (!n)
			return 0;
		size += n;
	}
	return size;
}

CASE(beginnings)
{
	for (size_t i = 0; i < NAMES; i++) {
		const unsigned char *code = code_of(names[i]);

		if (!room(code))
			fail_msg("%s begins with %02x %02x %02x %02x %02x %02x %02x %02x", names[i], code[0],
				 code[1], code[2], code[3], code[4], code[5], code[6], code[7]);
		for (size_t j = 0; j < i; j++)
			assert_ptr_not_equal(code, code_of(names[j]));
	}
}

static void jump(unsigned char *at, const void *to)
{
	uint64_t addr = (uintptr_t)to;

	memcpy(at, "\x48\xb8", 2);		/* mov $addr, %rax; jmp *%rax */
	memcpy(at + 2, &addr, 8);
	memcpy(at + 10, "\xff\xe0", 2);
}

/* Where the patched bytes went: at `orig' is the function as it was. */
struct patch {
	unsigned char *code, *orig, was[32];
	size_t size;
};

static void make_writable(void *at, bool writable)
{
	uintptr_t page = (uintptr_t)at & ~(uintptr_t)4095;

	assert_int_equal(mprotect((void *)page, 8192, PROT_READ | PROT_EXEC | (writable ? PROT_WRITE : 0)), 0);
}

static void patch(struct patch *p, const char *name, const void *hook)
{
	p->code = code_of(name);
	p->size = room(p->code);
	p->orig = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p->orig, MAP_FAILED);
	memcpy(p->was, p->code, p->size);
	memcpy(p->orig, p->code, p->size);
	jump(p->orig + p->size, p->code + p->size);
	make_writable(p->code, true);
	jump(p->code, hook);
	make_writable(p->code, false);
}

static void unpatch(const struct patch *p)
{
	make_writable(p->code, true);
	memcpy(p->code, p->was, p->size);
	make_writable(p->code, false);
	munmap(p->orig, 4096);
}

static struct patch p_alloc, p_alloc_v2, p_map;
static int allocs, maps;

static CUresult my_alloc(CUdeviceptr *dptr, size_t bytesize)
{
	allocs++;
	return ((CUresult (*)(CUdeviceptr *, size_t))(uintptr_t)p_alloc.orig)(dptr, bytesize);
}

static CUresult my_alloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	allocs += 100;
	return ((CUresult (*)(CUdeviceptr *, size_t))(uintptr_t)p_alloc_v2.orig)(dptr, bytesize);
}

static CUresult my_map(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		       unsigned long long flags)
{
	maps++;
	return ((CUresult (*)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))
		(uintptr_t)p_map.orig)(ptr, size, offset, handle, flags);
}

/* The plain function and the versioned one are patched both, and a call meets one patch. */
CASE(patched)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = CU_MEM_LOCATION_TYPE_DEVICE,
	};
	CUresult (*plain)(CUdeviceptr *, size_t) = (CUresult (*)(CUdeviceptr *, size_t))(uintptr_t)code_of("cuMemAlloc");
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p, q, w;
	size_t g;

	patch(&p_alloc, "cuMemAlloc", my_alloc);
	patch(&p_alloc_v2, "cuMemAlloc_v2", my_alloc_v2);
	patch(&p_map, "cuMemMap", my_map);

	OK(plain(&p, 100));
	assert_int_equal(allocs, 1);
	OK(cuMemAlloc_v2(&q, 100));
	assert_int_equal(allocs, 101);
	BAD(cuMemAlloc_v2(&q, 0));
	OK(cuMemFree(p));
	OK(cuMemFree(q));
	OK(cuMemAllocPitch(&p, &g, 100, 2, 4));		/* the library does not meet them itself */
	assert_int_equal(allocs, 201);
	OK(cuMemFree(p));

	OK(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	OK(cuMemCreate(&handle, g, &prop, 0));
	OK(cuMemAddressReserve(&w, g, 0, 0, 0));
	OK(cuMemMap(w, g, 0, handle, 0));		/* five arguments arrive */
	assert_int_equal(maps, 1);
	BAD(cuMemMap(w, g, 0, handle, 1));
	OK(cuMemUnmap(w, g));
	OK(cuMemAddressFree(w, g));
	OK(cuMemRelease(handle));

	unpatch(&p_map);
	unpatch(&p_alloc_v2);
	unpatch(&p_alloc);
	OK(cuMemAlloc(&p, 100));
	assert_int_equal(allocs, 201);
	OK(cuMemFree(p));
}

int main(void)
{
	const char *text;

	/* A call, so that the library is linked. */
	hsa_status_string(HSA_STATUS_SUCCESS, &text);
	if (cuInit(0) == CUDA_SUCCESS && !on_softgpu())
		skip_program("not a software GPU");
	return cases_run(gpu_setup, gpu_teardown);
}

#else

int main(void)
{
	skip_program("the instructions are x86-64's");
}

#endif
