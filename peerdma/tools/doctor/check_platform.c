// SPDX-License-Identifier: MIT
/*
 * check_platform.c - does NVIDIA stand for GPUDirect RDMA on this kind of processor?
 *
 * Its document: not supported on POWER8, though nothing turns it off there; guaranteed on no ARM64 platform in particular.
 */
#include <string.h>

#include "doctor.h"

static bool applies(const struct doctor *d)
{
	return any_gpu_of(d, VENDOR_NVIDIA) && !d->machine->tegra;
}

static void run(struct doctor *d)
{
	const struct machine *m = d->machine;
	bool power8 = m->arch == ARCH_POWER && strstr(m->cpu_vendor, "POWER8");
	struct finding *f = say(d, m->arch == ARCH_X86 ? VERDICT_OK : power8 ? VERDICT_BROKEN :
				VERDICT_UNKNOWN, "the processor");

	f->ways = WAYS_PCI;

	switch (m->arch) {
	case ARCH_X86:
		evidence(d, f, "/proc/cpuinfo", "%s: x86", m->cpu_vendor);
		return;
	case ARCH_ARM64:
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
		remedy(d, f, "ask the maker of the machine, and compare data after a transfer in each direction ('peerdma doctor --probe')");
}

const struct check check_platform = { "platform", "Kind of processor", applies, run };
