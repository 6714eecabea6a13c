// SPDX-License-Identifier: MIT
/*
 * check_rdma.c - the RDMA stack: is there one, whose is it, and does it take dma-buf?
 */
#include "adapters.h"

static bool applies(const struct doctor *d)
{
	return any_of_kind(d, DEVICE_NIC);
}

static void run(struct doctor *d)
{
	const char *names = "";
	char why[160], version[64];
	struct finding *f;
	unsigned int count = 0;

	if (!tree_list(d->tree, "/sys/class/infiniband", &names)) {
		for (const char *s = names; *s; s = tree_next(s))
			count++;
	}
	if (!count) {
		f = say(d, VERDICT_BROKEN, "this machine");
		evidence(d, f, "/sys/class/infiniband", module_loaded(d, "ib_core") ? "no device" :
			 "not there: ib_core is not loaded");
		consequence(d, f, "no network adapter offers RDMA here");
		remedy(d, f, "load the adapter's RDMA driver (modprobe mlx5_ib, efa, irdma...); an Ethernet adapter without RDMA cannot do it");
		return;
	}
	f = say(d, VERDICT_OK, "this machine");
	evidence(d, f, "/sys/class/infiniband", "%u device%s", count, count == 1 ? "" : "s");
	if (!tree_word(d->tree, "/sys/module/mlx5_core/version", version, sizeof(version)))
		evidence(d, f, "/sys/module/mlx5_core/version", "%s: MLNX_OFED or DOCA", version);
	else
		evidence(d, f, "/sys/module/ib_core",
			 "no version of its own: the kernel's own stack");

	if (!any_gpu_of(d, VENDOR_NVIDIA) && !any_gpu_of(d, VENDOR_AMD))
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
		evidence_file(d, f, "/proc/sys/kernel/osrelease");
		consequence(d, f,
			    "not known whether adapters can take the GPU's memory as dma-buf");
		remedy(d, f, "see that /proc/kallsyms, the kernel's config and /proc/driver/nvidia/version can be read here");
		break;
	}
}

const struct check check_rdma = { "rdma", "RDMA stack", applies, run };
