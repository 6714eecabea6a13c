// SPDX-License-Identifier: MIT
/*
 * peer_clients.c - the peer-memory clients that an RDMA core lists, and whose memory they speak for.
 */
#include <stdio.h>
#include <string.h>

#include "adapters.h"

/* MLNX_OFED's core, and two of kernels and cores with a patch of their own. */
static const char *const folders[] = {
	"/sys/kernel/mm/memory_peers", "/sys/kernel/memory_peers", "/sys/memory_peers",
};

/* As they call themselves. */
static const struct {
	const char *name;
	unsigned int vendor;
} known[] = {
	{ "nv_mem", VENDOR_NVIDIA }, { "nv_mem_nc", VENDOR_NVIDIA }, { "amdkfd", VENDOR_AMD },
};

static void fill(struct doctor *d, const char *folder, const char *name, struct peer_client *out)
{
	char path[160];

	*out = (struct peer_client){ .folder = folder };
	tree_clean(out->name, sizeof(out->name), name, strlen(name));
	snprintf(path, sizeof(path), "%s/%.64s/version", folder, name);
	if (tree_word(d->tree, path, out->version, sizeof(out->version)))
		*out->version = 0;
	/* Listed by any name, with the project's for a version. */
	out->ours = !strcmp(out->version, "peerdma");
	for (size_t i = 0; !out->ours && i < sizeof(known) / sizeof(known[0]); i++) {
		if (!strcmp(name, known[i].name))
			out->vendor = known[i].vendor;
	}
}

bool peer_client(struct doctor *d, unsigned int n, struct peer_client *out)
{
	const char *names;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		if (tree_list(d->tree, folders[i], &names))
			continue;
		for (; *names; names = tree_next(names)) {
			if (n--)
				continue;
			fill(d, folders[i], names, out);
			return true;
		}
	}
	return false;
}

bool peer_client_of(struct doctor *d, unsigned int vendor, struct peer_client *out)
{
	for (unsigned int n = 0; peer_client(d, n, out); n++) {
		if (!out->ours && out->vendor == vendor)
			return true;
	}
	return false;
}

bool efa_takes_nvidia(struct doctor *d, const struct device *adapter, char path[128])
{
	char word[32];

	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *x = &d->machine->devices[i];

		if ((adapter && x != adapter) || strcmp(x->driver, "efa") ||
		    !device_concerned(d, i))
			continue;
		snprintf(path, 128, PCI_DEVICES "%s/p2p", x->name);
		if (!tree_word(d->tree, path, word, sizeof(word)) && !strncmp(word, "NVIDIA", 6))
			return true;
	}
	return false;
}

bool amd_can_register(struct doctor *d)
{
	char version[64];

	return kernel_at_least(d, 6, 6) != ANSWER_YES || module_loaded(d, PEER_CORE) ||
	       tree_word(d->tree, "/sys/module/mlx5_core/version", version, sizeof(version));
}

enum answer gpu_has_peer_client(struct doctor *d, const struct device *gpu, char why[160])
{
	struct peer_client client;
	char path[128];

	*why = 0;
	if (gpu->vendor == VENDOR_NVIDIA && efa_takes_nvidia(d, NULL, path))
		return ANSWER_YES;
	if (module_loaded(d, PEER_OURS))
		return ANSWER_YES;
	if (gpu->vendor == VENDOR_NVIDIA &&
	    (module_loaded(d, "nvidia_peermem") || module_loaded(d, "nv_peer_mem")))
		return ANSWER_YES;
	if (peer_client_of(d, gpu->vendor, &client))
		return ANSWER_YES;
	/* softgpu speaks as either maker's driver. */
	if (device_is_softgpu(gpu) &&
	    (module_loaded(d, "nvidia_peermem") || peer_client(d, 0, &client)))
		return ANSWER_YES;
	snprintf(why, 160, gpu->vendor == VENDOR_AMD && !amd_can_register(d) ?
		 "amdgpu's client cannot register with this core since Linux 6.6 (symbol_get() finds GPL symbols only)" :
		 "no peer-memory client for this GPU is loaded");
	return ANSWER_NO;
}
