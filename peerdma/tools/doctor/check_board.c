// SPDX-License-Identifier: MIT
/*
 * check_board.c - is it a board for which NVIDIA offers GPUDirect RDMA?
 */
#include <string.h>

#include "paths.h"

static bool applies(const struct doctor *d)
{
	return any_gpu_apart(d, VENDOR_NVIDIA);
}

/* NVML's name, that of pci.ids, or the driver's own: where its library is not installed.  NULL: none is there. */
static const char *name_of(struct doctor *d, const struct device *g, const char **source,
			   char model[64])
{
	*source = "NVML";
	for (size_t i = 0; !d->gpus_error && i < d->gpus.count; i++) {
		if (!strcmp(d->gpus.gpus[i].pci, g->name) && *d->gpus.gpus[i].name)
			return d->gpus.gpus[i].name;
	}
	*source = "pci.ids";
	if (strchr(g->title, '['))
		return g->title;
	*source = "/proc/driver/nvidia/gpus";
	return nvidia_information(d->tree, g, "Model", model, 64) ? model : NULL;
}

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *g = &d->machine->devices[i];
		const char *source, *name;
		char model[64];
		struct finding *f;

		if (g->kind != DEVICE_GPU || g->vendor != VENDOR_NVIDIA ||
		    g->memory == MEMORY_UNIFIED || !path_of_gpu(d, i))
			continue;
		name = name_of(d, g, &source, model);
		if (!name && g->memory == MEMORY_COHERENT) {
			f = say_device(d, VERDICT_OK, i, WAYS_PCI);
			evidence(d, f, "coherent link", "%04x:%04x: a data-centre board", g->vendor,
				 g->device);
		} else if (!name) {
			f = say_device(d, VERDICT_UNKNOWN, i, WAYS_PCI);
			evidence(d, f, "name", "neither NVML nor pci.ids nor the driver names it");
			consequence(d, f, "not known whether this board has GPUDirect RDMA: consumer boards (GeForce) do not");
			remedy(d, f,
			       "install the driver's user-space libraries, or the package pci.ids");
		} else if (strstr(name, "GeForce") || strstr(name, "TITAN")) {
			f = say_device(d, VERDICT_BROKEN, i, WAYS_PCI);
			evidence(d, f, source, "%s", name);
			consequence(d, f, "NVIDIA offers GPUDirect RDMA on data-centre and workstation boards only: here pinning fails with \"Invalid "
				    "argument\", without a reason");
			remedy(d, f, "use a data-centre or RTX workstation board, or stage through host memory");
		} else {
			f = say_device(d, VERDICT_OK, i, WAYS_PCI);
			evidence(d, f, source, "%s", name);
		}
	}
}

const struct check check_board = { "board", "Kind of board", applies, run };
