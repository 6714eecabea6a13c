// SPDX-License-Identifier: MIT
/*
 * check_rdma.c - the RDMA stack: is there one, whose is it, and does it take dma-buf?
 */
#include <string.h>

#include "adapters.h"

static bool applies(const struct doctor *d)
{
	return any_of_kind(d, DEVICE_NIC);
}

/* An adapter that is made for RDMA, and has no RDMA device.  Others are none of these pages' concern. */
static void lacking(struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *nic = &d->machine->devices[i];
		struct finding *f;

		if (nic->kind != DEVICE_NIC || nic->rdma != RDMA_LACKS || !device_concerned(d, i))
			continue;
		f = say_device(d, VERDICT_BROKEN, i, WAYS_RDMA);
		evidence(d, f, "driver", "%s, and no RDMA device (" PCI_DEVICES "%s/infiniband)",
			 *nic->driver ? nic->driver : "none", nic->name);
		consequence(d, f, "the adapter is made for RDMA, and offers none");
		remedy(d, f, "modprobe %s; if that fails, dmesg says why", adapter_module(nic));
	}
}

static void run(struct doctor *d)
{
	const char *names = "";
	char why[160], version[64];
	struct finding *f;
	unsigned int count = 0;

	lacking(d);
	if (!tree_list(d->tree, RDMA_DEVICES, &names)) {
		for (const char *s = names; *s; s = tree_next(s))
			count++;
	}
	if (!count) {
		f = say(d, VERDICT_OK, "this machine");
		evidence(d, f, RDMA_DEVICES, module_loaded(d, "ib_core") ? "no device" :
			 "not there: ib_core is not loaded");
		consequence(d, f, "no network adapter offers RDMA here: GPU memory goes to the network through host memory");
		return;
	}
	f = say(d, VERDICT_OK, "this machine");
	evidence(d, f, RDMA_DEVICES, "%u device%s", count, count == 1 ? "" : "s");
	if (!tree_word(d->tree, "/sys/module/mlx5_core/version", version, sizeof(version)))
		evidence(d, f, "/sys/module/mlx5_core/version", "%s: MLNX_OFED or DOCA", version);
	else
		evidence(d, f, "/sys/module/ib_core",
			 "no version of its own: the kernel's own stack");

	if (!any_gpu_apart(d, VENDOR_NVIDIA) && !any_gpu_apart(d, VENDOR_AMD))
		return;
	switch (dmabuf_works(d, why)) {
	case ANSWER_YES:
		f = say(d, VERDICT_OK, "GPU memory as dma-buf");
		evidence(d, f, "/proc/kallsyms", "ib_umem_dmabuf_get");
		break;
	case ANSWER_NO:
		/* A fact: whether anything is broken the finding about peer memory says. */
		f = say(d, VERDICT_OK, "GPU memory as dma-buf");
		evidence(d, f, "dma-buf", "%s", why);
		consequence(d, f, "ibv_reg_dmabuf_mr() does not work here: adapters need a peer-memory client");
		break;
	case ANSWER_UNKNOWN:
		f = say(d, VERDICT_UNKNOWN, "GPU memory as dma-buf");
		f->ways = WAY(WAY_DMABUF);
		evidence_file(d, f, "/proc/sys/kernel/osrelease");
		consequence(d, f,
			    "not known whether adapters can take the GPU's memory as dma-buf");
		remedy(d, f, "see that /proc/kallsyms, the kernel's config and /proc/driver/nvidia/version can be read here");
		break;
	}
}

const struct check check_rdma = { "rdma", "RDMA stack", applies, run };
