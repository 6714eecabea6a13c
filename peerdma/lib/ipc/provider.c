// SPDX-License-Identifier: MIT
/*
 * provider.c - finds the provider of memory. GPU runtimes are asked before host.c, because to the
 * kernel GPU memory may look like a mapped file.
 */
#include "ipc.h"

static const struct ipc_provider *const all[] = { &ipc_cuda, &ipc_cuda_vmm, &ipc_cuda_pool,
						  &ipc_hsa, &ipc_host };

int ipc_identify(const void *ptr, struct ipc_offer *offer)
{
	int ret = -ENOENT;

	for (size_t i = 0; ret == -ENOENT && i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i]->identify)
			ret = all[i]->identify(ptr, offer);
	}
	return ret;
}

const struct ipc_provider *ipc_provider(uint32_t id)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i]->id == id)
			return all[i];
	}
	return NULL;
}

int ipc_offer(const void *ptr, struct ipc_offer *offer)
{
	const struct ipc_provider *provider = ipc_provider(offer->provider);
	int capture, ret;

	offer->fd = -1;
	if (!provider->cuda)
		return provider->offer(ptr, offer);
	capture = cuda_capture_leave();
	ret = provider->offer(ptr, offer);
	cuda_capture_return(capture);
	return ret;
}

int ipc_provider_open(struct ipc_mapping *m, const struct ipc_reply *reply, int fd)
{
	int capture, ret;

	/* cuda.c may not have been initialized yet in this process. */
	if (m->provider->cuda)
		cuda_there();
	capture = cuda_capture_leave();
	ret = m->provider->open(m, reply, fd);
	cuda_capture_return(capture);
	return ret;
}

int ipc_provider_close(struct ipc_mapping *m)
{
	int capture = cuda_capture_leave(), ret = m->provider->close(m);

	cuda_capture_return(capture);
	return ret;
}
