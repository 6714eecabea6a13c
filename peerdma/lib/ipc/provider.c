// SPDX-License-Identifier: MIT
/*
 * provider.c - finds the provider of memory. GPU runtimes are asked before host.c, because to the
 * kernel GPU memory may look like a mapped file.
 */
#include <string.h>

#include "../base/component.h"
#include "../monitor/monitor.h"
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

/* Without a report of frees, export() needs a flag: frees.c. */
static void describe_frees(struct peerdma_component *c)
{
	char what[sizeof(c->why)];

	if (device_monitor_complete())
		return;
	strcpy(what, c->why);
	component_why(c, "%s; exports need PEERDMA_IPC_I_UNEXPORT, because nothing reports every free", what);
}

static void describe(const struct ipc_provider *provider, struct components *to)
{
	struct peerdma_component c = component(PEERDMA_COMPONENT_IPC, provider->name);

	/* Memory of CUDA is identified by cuda_query(). */
	if ((provider->cuda && cuda_ready()) || (provider->ready && provider->ready())) {
		component_off(&c, peerdma_last_error());
	} else {
		provider->describe(&c);
		if (provider != &ipc_host)
			describe_frees(&c);
	}
	components_add(to, &c);
}

void ipc_describe(struct components *to)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		describe(all[i], to);
}
