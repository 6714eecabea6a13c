// SPDX-License-Identifier: MIT
/*
 * removal.c - a GPU is taken out while a program uses it and another one.
 *
 * In process the core is asked to; on the module the PCI device is removed,
 * which takes root and cannot be undone here, so it is asked for: --really.
 */
#include <ctype.h>

#include "test.h"
#include "inprocess.h"
#include "sg.h"

static bool really;

/* Takes away the GPU that CUDA knows by this number; false: cannot be done here. */
static bool take_out(int gpu)
{
	char bus_id[20], path[80];
	FILE *f;

	if (getenv("SOFTGPU_INPROCESS")) {
		sg_gpu_remove(softgpu_inprocess_core(), gpu);
		return true;
	}
	OK(cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), gpu));
	for (char *c = bus_id; *c; c++)
		*c = tolower((unsigned char)*c);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/remove", bus_id);
	f = really ? fopen(path, "w") : NULL;
	if (!f)
		return false;
	fputs("1", f);
	return fclose(f) == 0;
}

CASE(removal)
{
	const CUresult gone = CUDA_ERROR_DEVICE_UNAVAILABLE;
	CUdeviceptr here, there, lost, p, q;
	unsigned int type;
	size_t free, total;
	CUmemoryPool pool, its;
	CUcontext ctx;
	CUstream s;
	CUevent e;
	char buf[16] = "still here";
	void *h;
	int n;

	OK(cuDeviceGetCount(&n));
	if (n < 2 || !on_softgpu())
		skip();
	OK(cuMemAlloc(&here, 100));
	OK(cuMemcpyHtoD(here, buf, sizeof(buf)));
	OK(cuCtxCreate(&ctx, 0, 1));
	OK(cuMemAlloc(&there, 100 * KIB));
	OK(cuMemHostAlloc(&h, 100, 0));
	OK(cuStreamCreate(&s, 0));
	OK(cuEventCreate(&e, 0));
	OK(cuMemAllocAsync(&lost, 100 * KIB, s));	/* and never freed */
	OK(cuMemcpyDtoD(there, here, sizeof(buf)));
	OK(cuCtxSynchronize());
	if (!take_out(1)) {
		print_message("a GPU can be taken out with --really, by root, in a virtual machine\n");
		OK(cuCtxDestroy(ctx));
		OK(cuMemFree(here));
		skip();
	}

	/* nothing works on it, and nothing hangs or crashes */
	FAILS(gone, cuMemAlloc(&p, 100));
	FAILS(gone, cuMemGetInfo(&free, &total));
	FAILS(gone, cuCtxSynchronize());
	FAILS(gone, cuStreamSynchronize(s));
	FAILS(gone, cuEventRecord(e, s));
	FAILS(gone, cuStreamCreate(&s, 0));
	assert_true(cuMemcpyDtoH(buf, there, sizeof(buf)) != CUDA_SUCCESS);
	BAD(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, there));
	BAD(cuMemFree(there));
	cuMemFreeHost(h);
	cuEventDestroy(e);
	FAILS(gone, cuDevicePrimaryCtxRetain(&(CUcontext) { 0 }, 1));

	/* the other one does not notice */
	OK(cuCtxPushCurrent(test_context()));
	memset(buf, 0, sizeof(buf));
	OK(cuMemcpyDtoH(buf, here, sizeof(buf)));
	assert_string_equal(buf, "still here");
	OK(cuMemAlloc(&p, 100));
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	OK(cuMemHostAlloc(&h, 100, 0));
	OK(cuMemcpyDtoDAsync(p, P(h), 100, NULL));
	OK(cuMemFreeHost(h));
	OK(cuMemFree(p));
	/* its memory may be where the lost one was */
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemAllocAsync(&p, 100 * KIB, NULL));
	OK(cuMemAllocAsync(&q, 100 * KIB, NULL));
	print_message("%#llx was lost, %#llx and %#llx are new\n", lost, p, q);
	OK(cuPointerGetAttribute(&its, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
	assert_ptr_equal(its, pool);
	OK(cuPointerGetAttribute(&its, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, q));
	assert_ptr_equal(its, pool);
	OK(cuMemFreeAsync(p, NULL));
	OK(cuMemFree(q));
	OK(cuMemFree(here));
	OK(cuCtxSynchronize());
	OK(cuCtxPopCurrent(NULL));
	cuCtxDestroy(ctx);
	OK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
	really = argc > 1 && !strcmp(argv[1], "--really");
	return cases_run(gpu_setup, gpu_teardown);
}
