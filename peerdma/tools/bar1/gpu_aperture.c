// SPDX-License-Identifier: MIT
/* gpu_aperture.c - finds a GPU's aperture among its PCI resources, and what pins hold of it. */
#include <errno.h>
#include <string.h>

#include "gpu_aperture.h"

/* The end of what pins hold, from the start of the range. */
static uint64_t last_held(const struct aperture *a)
{
	uint64_t last = 0;

	for (size_t i = 0; i < a->count; i++) {
		const struct owner *o = &a->owners[i];
		const struct phys_range *r = &o->ranges[o->count - 1];

		if (r->start + r->length - a->range.start > last)
			last = r->start + r->length - a->range.start;
	}
	return last;
}

/* An aperture that is smaller than its PCI resource is at its start, as far as pins do not show otherwise. */
static int aperture_of(const struct gpu *gpu, const struct phys_range *resource,
		       const struct pins_table *pins, struct gpu_aperture *v)
{
	struct phys_range range = *resource;
	int ret = aperture_fill(&v->aperture, resource, pins);

	if (ret || !gpu->has_bar1 || !gpu->total || gpu->total >= resource->length)
		return ret;
	v->scattered = last_held(&v->aperture) > gpu->total;
	if (v->scattered)
		return 0;
	aperture_free(&v->aperture);
	range.length = gpu->total;
	return aperture_fill(&v->aperture, &range, pins);
}

int gpu_aperture_fill(const char *root, const struct gpu *gpu, const struct pins_table *pins,
		      struct gpu_aperture *v)
{
	struct pci_resources resources;
	struct phys_range range;
	int ret;

	memset(v, 0, sizeof(*v));
	v->bar = -1;
	if (!*gpu->pci) {
		v->why = "the GPU's PCI address is not known";
		return 0;
	}
	ret = pci_read_resources(root, gpu->pci, &resources);
	if (ret == -ENOMEM)
		return ret;
	if (ret) {
		v->why = ret == -EBADMSG ?
			"its resource file in /sys/bus/pci/devices is malformed" :
			 ret == -ENOENT ? "it is not in /sys/bus/pci/devices" :
			 "its resource file in /sys/bus/pci/devices cannot be read";
		return 0;
	}
	v->bar = pci_aperture(&resources, gpu->total);
	if (v->bar < 0) {
		v->why = "it has no prefetchable memory BAR";
		return 0;
	}
	range.start = resources.bars[v->bar].start;
	range.length = resources.bars[v->bar].length;
	return aperture_of(gpu, &range, pins, v);
}
