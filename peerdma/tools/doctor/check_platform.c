// SPDX-License-Identifier: MIT
/*
 * check_platform.c - does NVIDIA stand for GPUDirect RDMA on this kind of processor?
 *
 * Its document: not supported on POWER8, though nothing turns it off there; guaranteed on no ARM64 platform in particular.
 * Grace is its own processor.
 */
#include <string.h>

#include "doctor.h"

static bool applies(const struct doctor *d)
{
	return any_gpu_apart(d, VENDOR_NVIDIA) && !d->machine->tegra;
}

#define NEOVERSE_V2	0xd4f		/* other makers use this core, too */

/* Grace, by its core and NVIDIA's root ports; or by a GPU that is on Grace only. */
static bool is_grace(const struct doctor *d)
{
	const struct machine *m = d->machine;

	if (m->arch != ARCH_ARM64)
		return false;
	for (unsigned int i = 0; i < m->count && m->cpu_part == NEOVERSE_V2; i++) {
		if (m->devices[i].kind == DEVICE_BRIDGE && m->devices[i].vendor == VENDOR_NVIDIA &&
		    m->devices[i].parent < 0)
			return true;
	}
	return any_gpu_with(d, VENDOR_NVIDIA, MEMORY_COHERENT);
}

static void run(struct doctor *d)
{
	const struct machine *m = d->machine;
	bool power8 = m->arch == ARCH_POWER && strstr(m->cpu_vendor, "POWER8"), grace = is_grace(d);
	struct finding *f = say(d, m->arch == ARCH_X86 || grace ? VERDICT_OK :
				power8 ? VERDICT_BROKEN :
				VERDICT_UNKNOWN, "the processor");

	f->ways = WAYS_PCI;

	switch (m->arch) {
	case ARCH_X86:
		evidence(d, f, "/proc/cpuinfo", "%s: x86", m->cpu_vendor);
		return;
	case ARCH_ARM64:
		if (grace) {
			evidence(d, f, "/proc/cpuinfo", "ARM64, of NVIDIA's own make: Grace");
			return;
		}
		evidence(d, f, "/proc/cpuinfo", "CPU implementer: ARM64");
		consequence(d, f, "NVIDIA does not guarantee GPUDirect RDMA on any particular ARM64 platform: it may work, fail or "
			    "lose data");
		break;
	case ARCH_POWER:
		evidence(d, f, "/proc/cpuinfo", "%s", m->cpu_vendor);
		consequence(d, f, power8 ? "NVIDIA does not support GPUDirect RDMA on POWER8; nothing turns it off, so it may seem to "
			    "work" :
			    "NVIDIA's document excludes POWER8 and says nothing of other POWER processors");
		break;
	default:
		evidence(d, f, "/proc/cpuinfo", "names no known processor");
		consequence(d, f, "not known whether NVIDIA supports GPUDirect RDMA on it");
	}
	if (power8)
		remedy(d, f, "stage through host memory");
	else
		remedy(d, f, "%scompare data after a transfer in each direction ('peerdma doctor --probe')",
		       m->virtual ? "" : "ask the maker of the machine, and ");
}

const struct check check_platform = { "platform", "Kind of processor", applies, run };
