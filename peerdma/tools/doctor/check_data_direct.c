// SPDX-License-Identifier: MIT
/*
 * check_data_direct.c - Data Direct: adapters with a second function, through which they reach a
 * coherent GPU's memory over PCI Express instead of through the processor.  Which of an adapter's
 * functions a dma-buf goes to, the program chooses; nothing here is wrong.
 */
#include <stdio.h>
#include <string.h>

#include "doctor.h"

#define MELLANOX	0x15b3U
#define DATA_DIRECT	0x2100U
#define CONNECTX8	0x1023U

static bool is_data_direct(const struct device *x)
{
	return x->vendor == MELLANOX && x->device == DATA_DIRECT;
}

static bool applies(const struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		if (is_data_direct(&d->machine->devices[i]))
			return true;
	}
	return false;
}

/* -1: none is below the same bridges. */
static int nearest(const struct doctor *d, unsigned int function, enum device_kind kind)
{
	enum path_class best = PATH_SYS;
	int nearest = -1, meet;

	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *x = &d->machine->devices[i];
		enum path_class path;

		if (x->kind != kind || i == function || is_data_direct(x) || !*x->label)
			continue;
		path = path_between(d->machine, function, i, &meet);
		if (path < best && path <= PATH_PHB) {
			best = path;
			nearest = (int)i;
		}
	}
	return nearest;
}

/* The driver asks the firmware whose function it is; outside of it that is certain of an only one. */
static int adapter_of(const struct doctor *d, unsigned int function)
{
	unsigned int adapters = 0, functions = 0;
	int adapter = -1;

	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *x = &d->machine->devices[i];

		functions += is_data_direct(x);
		if (x->vendor == MELLANOX && x->device == CONNECTX8 && x->kind == DEVICE_NIC) {
			adapters++;
			adapter = (int)i;
		}
	}
	return functions == 1 && adapters == 1 ? adapter : nearest(d, function, DEVICE_NIC);
}

static void name(const struct doctor *d, int i, const char *unknown, char out[96])
{
	const struct device *x = i < 0 ? NULL : &d->machine->devices[i];

	if (!x)
		snprintf(out, 96, "%s", unknown);
	else
		snprintf(out, 96, "%s (%s)", x->label, *x->known_as ? x->known_as : x->name);
}

static void one(struct doctor *d, unsigned int i)
{
	const struct device *x = &d->machine->devices[i];
	char gpu[96], adapter[96];
	struct driver_release r;
	struct finding *f;

	name(d, nearest(d, i, DEVICE_GPU), "a GPU that is not near it", gpu);
	name(d, adapter_of(d, i), "an adapter (mlx5dv_get_data_direct_sysfs_path() says which)", adapter);
	f = say(d, VERDICT_OK, "%s", x->name);
	evidence(d, f, PCI_DEVICES, "%s: 15b3:2100, driver %s", x->name,
		 *x->driver ? x->driver : "none");
	evidence(d, f, "nearest", "%s", gpu);
	nvidia_release(d, &r);
	if (!*x->driver) {
		consequence(d, f, "the second function of %s has no driver: dma-bufs of coherent GPUs go through the processor; mlx5_ib has it "
			    "since Linux 6.12 and in DOCA-OFED", adapter);
	} else if (r.known && r.major < 570) {
		evidence(d, f, NVIDIA_VERSION, "%s", r.text);
		consequence(d, f, "NVIDIA's driver exports dma-bufs for PCI Express since release 570: those here go through the processor");
	} else {
		consequence(d, f, "it is the second function of %s: a dma-buf that CUDA exports with CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE, "
			    "and that mlx5dv_reg_dmabuf_mr() registers with its Data Direct flag, goes there; others go to the first, through the "
			    "processor", adapter);
	}
}

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		if (is_data_direct(&d->machine->devices[i]))
			one(d, i);
	}
}

const struct check check_data_direct = { "data-direct", "Data Direct", applies, run };
