// SPDX-License-Identifier: MIT
/*
 * check_gpu_initiated.c - RDMA that the GPU starts by itself, without the CPU: IBGDA of NVSHMEM, GDAKI
 * of DOCA.  Few machines are there for it, so all is notes, unless --need gpu-initiated asks.
 */
#include <string.h>

#include "nvidia_params.h"
#include "wanted.h"

#define NAME	"gpu-initiated"
#define KEYS	"options nvidia NVreg_EnableStreamMemOPs=1 NVreg_RegistryDwords=\"PeerMappingOverride=1;\" in /etc/modprobe.d, " \
		"a new initramfs, and boot again"

static bool applies(const struct doctor *d)
{
	return wanted_check(d->wanted, NAME) ||
	       (any_gpu_apart(d, VENDOR_NVIDIA) && any_of_kind(d, DEVICE_NIC));
}

/* On no way: RDMA that the CPU starts works without all this. */
static struct finding *say_initiated(struct doctor *d, enum verdict v, const char *subject)
{
	return say(d, wanted_check(d->wanted, NAME) ? v : VERDICT_OK, "%s", subject);
}

static void evidence_value(struct doctor *d, struct finding *f, const char *name, enum answer there,
			   uint64_t value)
{
	if (there == ANSWER_YES)
		evidence(d, f, NVIDIA_PARAMS, "%s: %u", name, (unsigned int)value);
	else
		evidence(d, f, NVIDIA_PARAMS, there == ANSWER_NO ? "no %s" :
			 "cannot be read: %s is not known", name);
}

/* May processes other than root's map an adapter's registers for the GPU? */
static void doorbells(struct doctor *d)
{
	static const char name[] = "PeerMappingOverride";
	uint64_t value = 0;
	enum answer there = nvidia_registry(d, name, &value);
	/* NVSHMEM asks for it on x86 only. */
	bool on = (there == ANSWER_YES && value) || d->machine->arch == ARCH_ARM64;
	struct finding *f = say_initiated(d, on ? VERDICT_OK : there == ANSWER_UNKNOWN ?
					  VERDICT_UNKNOWN : VERDICT_BROKEN, "doorbells");

	evidence_value(d, f, name, there, value);
	if (on)
		return;
	consequence(d, f, "%sGPUs ring an adapter's doorbells for root only: else NVSHMEM from 3.4.5 on lets the CPU ring them, and older ones refuse",
		    there == ANSWER_UNKNOWN ? "not known whether it is so: " : "");
	remedy(d, f, "%s", KEYS);
}

/* NVSHMEM's makers ask for it; the stream calls of CUDA 12 do without. */
static void stream_operations(struct doctor *d)
{
	static const char name[] = "EnableStreamMemOPs";
	uint64_t value = 0;
	enum answer there = nvidia_param(d, name, &value);
	bool on = there == ANSWER_YES && value;
	struct finding *f = say_initiated(d, on ? VERDICT_OK : VERDICT_UNKNOWN,
					  "stream memory operations");

	evidence_value(d, f, name, there, value);
	if (on)
		return;
	consequence(d, f, "not known whether the programs here do without: those of CUDA 12 and later need no parameter for them, but "
		    "NVSHMEM asks for it");
	remedy(d, f, "%s", KEYS);
}

static void gdrcopy(struct doctor *d)
{
	struct finding *f = say(d, VERDICT_OK, "gdrcopy");

	if (module_loaded(d, "gdrdrv")) {
		evidence_file(d, f, "/sys/module/gdrdrv/version");
		return;
	}
	evidence(d, f, "/sys/module/gdrdrv", "not there: not loaded");
	consequence(d, f, "where the CPU rings the doorbells, NVSHMEM before 3.4.5 needs it");
}

/* A GPU whose addresses an IOMMU translates reaches doorbells that are mapped for it only. */
static void mapped_doorbells(struct doctor *d, unsigned int gpu)
{
	static const char name[] = "DmaRemapPeerMmio";
	uint64_t value = 0;
	enum answer there = nvidia_param(d, name, &value);
	/* Without the parameter it is an older driver, which adds a fixed offset. */
	bool on = there == ANSWER_YES && value;
	struct finding *f = say_initiated(d, on ? VERDICT_OK : there == ANSWER_UNKNOWN ?
					  VERDICT_UNKNOWN : VERDICT_BROKEN,
					  d->machine->devices[gpu].label);

	evidence(d, f, "IOMMU", "translating for %s", d->machine->devices[gpu].name);
	evidence_value(d, f, name, there, value);
	if (on)
		return;
	consequence(d, f, "%sthe driver gives the GPU the doorbells' physical addresses, which the IOMMU does not know",
		    there == ANSWER_UNKNOWN ? "not known whether it is so: " : "");
	remedy(d, f, "options nvidia NVreg_DmaRemapPeerMmio=1 in /etc/modprobe.d (the default), or boot with iommu=pt");
}

static bool any_mlx5(const struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *x = &d->machine->devices[i];

		if (x->kind == DEVICE_NIC && device_concerned(d, i) &&
		    !strcmp(x->driver, "mlx5_core"))
			return true;
	}
	return false;
}

static void adapters(struct doctor *d)
{
	bool has = any_mlx5(d);
	struct finding *f = say_initiated(d, has ? VERDICT_OK : VERDICT_UNKNOWN, "adapters");

	evidence(d, f, PCI_DEVICES, has ? "mlx5_core has one" : "mlx5_core has none");
	if (has)
		return;
	consequence(d, f, "not known whether GPUs can drive these adapters: IBGDA and GDAKI are for ConnectX and BlueField");
	remedy(d, f, "use a ConnectX or BlueField adapter, or RDMA that the CPU starts");
}

static void run(struct doctor *d)
{
	struct finding *f;

	if (!any_gpu_of(d, VENDOR_NVIDIA)) {
		f = say_initiated(d, VERDICT_UNKNOWN, "GPUs");
		evidence(d, f, PCI_DEVICES, "no GPU of NVIDIA's");
		consequence(d, f, "not known whether other makers' GPUs start RDMA here");
		remedy(d, f, "see what the maker's library needs (rocSHMEM: its GDA back-ends)");
		return;
	}
	adapters(d);
	doorbells(d);
	stream_operations(d);
	gdrcopy(d);
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *g = &d->machine->devices[i];

		if (g->kind == DEVICE_GPU && g->vendor == VENDOR_NVIDIA && device_concerned(d, i) &&
		    g->iommu == IOMMU_TRANSLATING)
			mapped_doorbells(d, i);
	}
}

const struct check check_gpu_initiated = { NAME, "RDMA by the GPU itself", applies, run };
