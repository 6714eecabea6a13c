// SPDX-License-Identifier: MIT OR GPL-2.0
/* api_1.c - version 1.0: bus addresses, one per page. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/errno.h>
#include <linux/mm.h>
#include <linux/printk.h>
#include <drm/amd_rdma.h>
#include "amd.h"

static_assert(sizeof(struct amd_p2p_info) == sizeof(struct amd_info));

static int get_pages(uint64_t address, uint64_t length, struct pid *pid, struct amd_p2p_info **info,
		     void (*callback)(void *client_priv), void *priv)
{
	const struct amd_request request = {
		.address = address,
		.length = length,
		.pid = pid,
		.segment_max = PAGE_SIZE,
		.callback = callback,
		.data = priv,
	};
	int err;

	if (!info || amd_built_for_2(callback, priv))
		return -EINVAL;
	*info = NULL;
	if (!PAGE_ALIGNED(address | length)) {
		pr_err_ratelimited("get_pages(%#llx, %#llx): not whole pages; with version 1.0 the client must round\n",
				   address, length);
		return -EINVAL;
	}
	err = amd_get(&request, (struct amd_info **)info);
	return err == -ESRCH || err == -ENOENT ? -EINVAL : err;
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

const struct amd_rdma_interface *amd_api_1 = &api;
