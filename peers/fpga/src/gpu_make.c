// SPDX-License-Identifier: MIT
/* gpu_make.c - whose memory an argument names. */
#include <string.h>

#include "gpu.h"

const struct gpu_make make_nvidia = {
	.name = "nvidia", .alloc = "cuMemAlloc", .free = "cuMemFree",
	.pin = "nvidia_p2p_get_pages, nvidia_p2p_dma_map_pages", .in_bar = true,
};

const struct gpu_make make_amd = {
	.name = "amd", .alloc = "hipMalloc", .free = "hipFree", .pin = "amd_rdma_interface's get_pages", .in_bar = true,
};

const struct gpu_make make_tegra = {
	.name = "tegra", .alloc = "cuMemHostAlloc", .free = "cuMemFreeHost", .pin = "Tegra's nvidia_p2p_get_pages",
};

const struct gpu_make *gpu_make(const char *text, const char **rest)
{
	static const struct gpu_make *const makes[] = { &make_nvidia, &make_amd, &make_tegra };

	for (size_t i = 0; i < sizeof(makes) / sizeof(makes[0]); i++) {
		size_t length = strlen(makes[i]->name);

		if (!strncmp(text, makes[i]->name, length) && (!text[length] || text[length] == ':')) {
			*rest = text + length + (text[length] == ':');
			return makes[i];
		}
	}
	return NULL;
}
