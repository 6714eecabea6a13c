// SPDX-License-Identifier: MIT
/*
 * picoevb-kernels.c - the one GPU kernel of jetson-rdma-picoevb's rdma-cuda, computed by the CPU: softgpu
 * runs none.  It has the functions of CUDA's runtime that a program compiled by nvcc calls for kernels.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

struct dim3 {
	unsigned int x, y, z;
};

static const void *stub;	/* the program's address for the kernel */
static struct {
	struct dim3 grid, block;
	size_t shared;
	void *stream;
} launch;

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *thread_id,
			    void *block_id, void *block, void *grid, int *wraps);
unsigned int __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void *stream);
cudaError_t __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream);
cudaError_t cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block, void **args, size_t shared, void *stream);
/* CUDA 13 asks for the kernel first, and launches what it got. */
cudaError_t __cudaGetKernel(const void **kernel, const void *function);
cudaError_t __cudaLaunchKernel(const void *kernel, struct dim3 grid, struct dim3 block, void **args, size_t shared, void *stream);
char __cudaInitModule(void **handle);

void **__cudaRegisterFatBinary(void *binary)
{
	static void *handle;

	handle = binary;
	return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
	(void)handle;
}

char __cudaInitModule(void **handle)
{
	(void)handle;
	return 1;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *thread_id,
			    void *block_id, void *block, void *grid, int *wraps)
{
	(void)handle, (void)device, (void)limit, (void)thread_id, (void)block_id, (void)block, (void)grid, (void)wraps;
	if (!strcmp(name, "fill_surface"))
		stub = host;
}

unsigned int __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void *stream)
{
	launch.grid = grid;
	launch.block = block;
	launch.shared = shared;
	launch.stream = stream;
	return 0;
}

cudaError_t __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream)
{
	*grid = launch.grid;
	*block = launch.block;
	*shared = launch.shared;
	*(void **)stream = launch.stream;
	return cudaSuccess;
}

/* Rows of 1024 words: the position of each, of 16 bits each way, and the second argument. */
cudaError_t cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block, void **args, size_t shared, void *stream)
{
	unsigned int width = grid.x * block.x, height = grid.y * block.y;
	void *output = *(void **)args[0];
	uint32_t mask = *(uint32_t *)args[1];
	size_t size = (size_t)width * height * sizeof(uint32_t);
	uint32_t *words = malloc(size);
	cudaError_t result;

	(void)shared, (void)stream;
	if (function != stub || width != 1024 || !words) {
		fprintf(stderr, "not the kernel of rdma-cuda\n");
		exit(3);
	}
	for (uint32_t y = 0; y < height; y++)
		for (uint32_t x = 0; x < width; x++)
			words[y * width + x] = (y << 16 | x) ^ mask;
	result = cudaMemcpy(output, words, size, cudaMemcpyDefault);
	free(words);
	return result;
}

cudaError_t __cudaGetKernel(const void **kernel, const void *function)
{
	*kernel = function;
	return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(const void *kernel, struct dim3 grid, struct dim3 block, void **args, size_t shared, void *stream)
{
	return cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}
