// SPDX-License-Identifier: MIT OR GPL-2.0
/* api_2.c - version 2.0: DMA addresses for the client's device. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/errno.h>
#include <drm/amd_rdma.h>
#include "amd.h"

static_assert(sizeof(struct amd_p2p_info) <= sizeof(struct amd_info));

static int get_pages(uint64_t address, uint64_t length, struct pid *pid, struct device *dma_dev,
		     struct amd_p2p_info **info, void (*callback)(void *client_priv), void *priv)
{
	const struct amd_request request = {
		.address = address,
		.length = length,
		.pid = pid,
		.dev = dma_dev,
		.callback = callback,
		.data = priv,
	};
	int err;

	if (amd_built_for_1(info))
		return -EINVAL;
	/* AMD's driver crashes without a device. */
	if (!info || !dma_dev)
		return -EINVAL;
	err = amd_get(&request, (struct amd_info **)info);
	switch (err) {
	case -ENOENT:
		/*
		 * AMD's driver returns 0, too: it checks another variable than the one with
		 * the error.
		 */
		return 0;
	case -ENOMEM:
	case -EIO:
		*info = NULL;
		break;
	}
	return err;
}

static int put_pages(struct amd_p2p_info **info)
{
	return amd_put((struct amd_info **)info);
}

static const struct amd_rdma_interface api = {
	.get_pages = get_pages,
	.put_pages = put_pages,
	.is_gpu_address = amd_is_gpu_address,
	.get_page_size = amd_get_page_size,
};

const struct amd_rdma_interface *amd_api_2 = &api;
