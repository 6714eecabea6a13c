// SPDX-License-Identifier: MIT
/*
 * ways.c - what a way between two devices needs: an exporter, an importer, and what is between.
 * A new way, or a new kind of peer, is a function here and a line in the table at the end.
 */
#include <stdio.h>
#include <string.h>

#include "adapters.h"
#include "paths.h"
#include "storage.h"

static void fact(struct way_fact *out, enum way_state state, const char *why, const char *remedy)
{
	*out = (struct way_fact){ .state = state, .remedy = remedy, .finding = -1 };
	snprintf(out->why, sizeof(out->why), "%s", why ? why : "");
}

static enum way_state state_of(enum answer a)
{
	return a == ANSWER_YES ? STATE_WORKS : a == ANSWER_NO ? STATE_FAILS : STATE_UNKNOWN;
}

static const struct device *gpu_of(const struct doctor *d, const struct path *p)
{
	return &d->machine->devices[p->gpu];
}

static const struct device *peer_of(const struct doctor *d, const struct path *p)
{
	return p->peer < 0 ? NULL : &d->machine->devices[p->peer];
}

static bool peer_is(const struct doctor *d, const struct path *p, enum device_kind kind)
{
	return p->peer >= 0 && peer_of(d, p)->kind == kind;
}

/* A driver of its own, which may ask the GPU's driver for memory. */
static bool card_with_driver(const struct doctor *d, const struct path *p)
{
	return peer_is(d, p, DEVICE_CARD) && *peer_of(d, p)->driver;
}

typedef void (*ask_adapter)(struct doctor *d, const struct adapter *a, struct adapter_answer *out);

/* The best of the RDMA devices that the adapter has. */
static void of_adapter(struct doctor *d, const struct path *p, ask_adapter ask,
		       struct way_fact *out)
{
	struct adapter_answer answer;
	const char *names = "";
	struct adapter a;

	fact(out, STATE_FAILS, "the adapter has no RDMA device", NULL);
	if (tree_list(d->tree, INFINIBAND, &names))
		return;
	for (bool first = true; *names; names = tree_next(names)) {
		adapter_read(d, names, &a);
		if (a.function != peer_of(d, p) || !a.given)
			continue;
		ask(d, &a, &answer);
		if (!first && state_of(answer.answer) <= out->state)
			continue;
		fact(out, state_of(answer.answer), answer.answer == ANSWER_YES ? NULL : answer.why,
		     answer.remedy);
		first = false;
	}
}

static void worse(struct way_fact *out, const struct way_fact *than)
{
	if (than->state < out->state)
		*out = *than;
}

static void dmabuf(struct doctor *d, const struct path *p, struct way_fact *out)
{
	struct way_fact import;
	char why[160];

	if (p->peer >= 0 && !peer_is(d, p, DEVICE_NIC) && !card_with_driver(d, p))
		return;
	/* AMD's driver exports the processor's pages, too. */
	if (gpu_of(d, p)->memory == MEMORY_UNIFIED && gpu_of(d, p)->vendor != VENDOR_AMD)
		return;
	fact(out, state_of(gpu_exports_dmabuf(d, gpu_of(d, p), why)), why, NULL);
	if (!peer_is(d, p, DEVICE_NIC))
		return;
	of_adapter(d, p, adapter_dmabuf, &import);
	worse(out, &import);
}

static void peermem(struct doctor *d, const struct path *p, struct way_fact *out)
{
	struct way_fact import;
	char why[160];

	if (!peer_is(d, p, DEVICE_NIC) || gpu_of(d, p)->memory == MEMORY_UNIFIED)
		return;
	fact(out, state_of(gpu_has_peer_client(d, gpu_of(d, p), why)), why, NULL);
	of_adapter(d, p, adapter_peer, &import);
	worse(out, &import);
}

/* A drive takes it by nvidia-fs, where GPUDirect Storage is a matter at all. */
static void nvidia_p2p(struct doctor *d, const struct path *p, struct way_fact *out)
{
	const struct device *gpu = gpu_of(d, p);
	bool offers = !strcmp(gpu->driver, "nvidia") ||
		(device_is_softgpu(gpu) &&
		 (module_loaded(d, "nvidia") || module_loaded(d, "amdgpu")));
	bool drive = peer_is(d, p, DEVICE_NVME);

	if (gpu->memory == MEMORY_UNIFIED)
		return;
	if (p->peer >= 0 && !card_with_driver(d, p) && !(drive && storage_wanted(d)))
		return;
	if (gpu->vendor != VENDOR_NVIDIA && !device_is_softgpu(gpu))
		return;
	if (!offers)
		fact(out, STATE_FAILS, "the GPU's driver is not loaded", NULL);
	else if (drive && !module_loaded(d, "nvidia_fs"))
		fact(out, STATE_FAILS, "nvidia-fs is not loaded",
		     "modprobe nvidia-fs, or use p2pdma");
	else
		fact(out, STATE_WORKS, NULL, NULL);
}

static void p2pdma(struct doctor *d, const struct path *p, struct way_fact *out)
{
	char file[128], has;

	if ((!peer_is(d, p, DEVICE_NVME) && !peer_is(d, p, DEVICE_GPU)) ||
	    gpu_of(d, p)->memory == MEMORY_UNIFIED)
		return;
	if (gpu_of(d, p)->vendor == VENDOR_NVIDIA && peer_is(d, p, DEVICE_GPU)) {
		fact(out, STATE_UNKNOWN, "NVIDIA's driver connects its GPUs itself, by NVLink or PCI Express",
		     "nvidia-smi topo -p2p r");
		return;
	}
	has = kernel_config(d, "PCI_P2PDMA", file);
	if (has != 'y')
		fact(out, has == 'n' ? STATE_FAILS : STATE_UNKNOWN, has == 'n' ?
		     "the kernel is built without PCI_P2PDMA" : "the kernel's configuration cannot be read", NULL);
	/* What else NVIDIA's needs, the findings about storage say. */
	else if (gpu_of(d, p)->vendor == VENDOR_AMD ||
		 (gpu_of(d, p)->vendor == VENDOR_NVIDIA && peer_is(d, p, DEVICE_NVME)))
		fact(out, STATE_WORKS, NULL, NULL);
	else if (device_is_softgpu(gpu_of(d, p)) && storage_p2pmem(d, gpu_of(d, p)))
		fact(out, STATE_WORKS, NULL, NULL);
	else
		fact(out, STATE_FAILS, "the GPU's driver gives the kernel no struct pages of its memory",
		     device_is_softgpu(gpu_of(d, p)) ? "load softgpu with pages=p2pdma" : NULL);
}

/* Memory that the processor addresses as its own, on a NUMA node of the GPU: any driver that takes user memory takes it. */
static void coherent(struct doctor *d, const struct path *p, struct way_fact *out)
{
	const struct device *gpu = gpu_of(d, p);

	if (gpu->memory != MEMORY_COHERENT)
		return;
	if (gpu->memory_node >= 0)
		fact(out, STATE_WORKS, NULL, NULL);
	else
		fact(out, STATE_FAILS, "the driver gives the kernel no NUMA node of the GPU's memory (numa_status)", NULL);
}

/* There is always this one: with a copy, unless the GPU's memory is the processor's. */
static void host(struct doctor *d, const struct path *p, struct way_fact *out)
{
	if (gpu_of(d, p)->memory == MEMORY_UNIFIED)
		fact(out, STATE_WORKS, NULL, NULL);
	else if (p->peer >= 0)
		fact(out, STATE_SLOW, "a copy in host memory (staging)", NULL);
}

void way_find(struct doctor *d, const struct path *p, enum way way, struct way_fact *out)
{
	typedef void (*finder)(struct doctor *d, const struct path *p, struct way_fact *out);
	static const finder finders[WAYS] = {
		[WAY_DMABUF] = dmabuf, [WAY_PEERMEM] = peermem, [WAY_NVP2P] = nvidia_p2p,
		[WAY_P2PDMA] = p2pdma, [WAY_COHERENT] = coherent, [WAY_HOST] = host,
	};

	*out = (struct way_fact){ .state = STATE_NOT_APPLICABLE, .finding = -1 };
	finders[way](d, p, out);
}
