// SPDX-License-Identifier: MIT
/* provider.c - finds the provider of memory. GPU runtimes are asked first: to the kernel, GPU memory may look like a file's. */
#include "ipc.h"

int ipc_identify(const void *ptr, struct ipc_offer *offer)
{
	int ret = ipc_identify_cuda(ptr, offer);

	if (ret == -ENOENT)
		ret = ipc_identify_hsa(ptr, offer);
	return ret == -ENOENT ? ipc_identify_host(ptr, offer) : ret;
}

bool ipc_same_memory(const struct ipc_offer *a, const struct ipc_offer *b)
{
	return a->provider == b->provider && a->base == b->base && a->length == b->length && a->id == b->id && a->device == b->device &&
	       a->fd_offset == b->fd_offset;
}

int ipc_offer(const void *ptr, struct ipc_offer *offer)
{
	int capture, ret;

	offer->fd = -1;
	switch (offer->provider) {
	case IPC_HOST:
		return ipc_offer_host(ptr, offer);
	case IPC_CUDA:
	case IPC_CUDA_VMM:
	case IPC_CUDA_POOL:
		capture = cuda_capture_leave();
		ret = offer->provider == IPC_CUDA_POOL ? ipc_offer_pool(offer) : ipc_offer_cuda(offer);
		cuda_capture_return(capture);
		return ret;
	case IPC_HSA:
		return ipc_offer_hsa(offer);
	}
	return fail(-EINVAL, "no such provider");
}

const struct ipc_provider *ipc_provider(uint32_t id)
{
	static const struct ipc_provider *const all[] = { &ipc_host, &ipc_cuda, &ipc_cuda_vmm, &ipc_cuda_pool, &ipc_hsa };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i]->id == id)
			return all[i];
	}
	return NULL;
}

int ipc_provider_open(struct ipc_mapping *m, const struct ipc_reply *reply, int fd)
{
	int capture, ret;

	/* This may be the process's first question about CUDA's memory. */
	if (m->provider->id != IPC_HOST && m->provider->id != IPC_HSA)
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
