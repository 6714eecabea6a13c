// SPDX-License-Identifier: MIT
/* Stands for the program of a reader of docs/softgpu-cuda.md. */
#include <cuda.h>

int main(void)
{
	CUcontext context;
	CUdeviceptr p;

	return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuMemAlloc(&p, 4096) || cuMemFree(p);
}
