// SPDX-License-Identifier: MIT
/* gpu_make.c - the kinds of memory, by name. */
#include <cuda.h>
#include <string.h>

#include "gpu.h"

#define TEGRA								\
	.provider = "tegra", .calls = CALLS_CUDA_HOST, .free = "cuMemFreeHost",	\
	.pin = "Tegra's nvidia_p2p_get_pages", .later = true
#define IMPORTED							\
	.provider = "dmabuf", .pin = "dma_buf_map_attachment", .in_bar = true, .outlives = true

const struct gpu_make make_nvidia = {
	.name = "nvidia", .provider = "nvidia", .alloc = "cuMemAlloc", .free = "cuMemFree",
	.pin = "nvidia_p2p_get_pages, nvidia_p2p_dma_map_pages", .in_bar = true,
};

static const struct gpu_make others[] = {
	{ .name = "amd", .provider = "amd", .calls = CALLS_HIP, .alloc = "hipMalloc", .free = "hipFree",
	  .pin = "amd_rdma_interface's get_pages", .in_bar = true },
	{ .name = "tegra", TEGRA, .alloc = "cuMemHostAlloc" },
	{ .name = "tegra-wc", TEGRA, .alloc = "cuMemHostAlloc(WRITECOMBINED)", .flags = CU_MEMHOSTALLOC_WRITECOMBINED },
	{ .name = "dmabuf", IMPORTED, .export = EXPORT_CUDA, .alloc = "cuMemAlloc and its dma-buf", .free = "cuMemFree" },
	{ .name = "amd-dmabuf", IMPORTED, .calls = CALLS_HIP, .export = EXPORT_HSA, .alloc = "hipMalloc and its dma-buf",
	  .free = "hipFree" },
	{ .name = "host", .provider = "host", .calls = CALLS_NONE, .alloc = "mmap", .free = "munmap",
	  .pin = "pin_user_pages", .outlives = true },
};

static bool is_named(const struct gpu_make *make, const char *text, const char **rest)
{
	size_t length = strlen(make->name);

	if (strncmp(text, make->name, length) || (text[length] && text[length] != ':'))
		return false;
	*rest = text + length + (text[length] == ':');
	return true;
}

const struct gpu_make *gpu_make(const char *text, const char **rest)
{
	if (is_named(&make_nvidia, text, rest))
		return &make_nvidia;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (is_named(&others[i], text, rest))
			return &others[i];
	return NULL;
}
