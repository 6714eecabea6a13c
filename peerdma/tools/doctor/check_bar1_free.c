// SPDX-License-Identifier: MIT
/*
 * check_bar1_free.c - is there room left in BAR1?
 */
#include "doctor.h"
#include "base/tool.h"

static bool applies(const struct doctor *d)
{
	if (any_gpu_with(d, VENDOR_NVIDIA, MEMORY_BEHIND_BAR))
		return true;
	for (unsigned int i = 0; i < d->machine->count; i++) {
		if (device_is_softgpu(&d->machine->devices[i]) && device_concerned(d, i))
			return true;
	}
	return false;
}

static struct finding *say_gpu(struct doctor *d, enum verdict v, const struct gpu *g, int device)
{
	struct finding *f;

	if (device >= 0)
		return say_device(d, v, (unsigned int)device, WAYS_PCI);
	f = say(d, v, "%s", g->name);
	f->ways = WAYS_PCI;
	return f;
}

static void run(struct doctor *d)
{
	char used[32], total[32];
	struct finding *f;

	if (d->gpus_error) {
		f = say(d, VERDICT_UNKNOWN, "all GPUs");
		evidence(d, f, "NVML", "%s", d->gpus.why);
		consequence(d, f, "only the driver's library (libnvidia-ml.so.1) reports how full BAR1 is");
		remedy(d, f, driver_in_container(d) ?
		       "the driver is in its operator's container: add " DRIVER_ROOT "/usr/lib/x86_64-linux-gnu (or usr/lib64) to LD_LIBRARY_PATH" :
		       "install the driver's user-space libraries, or add their folder to LD_LIBRARY_PATH");
		return;
	}
	for (size_t i = 0; i < d->gpus.count; i++) {
		const struct gpu *g = &d->gpus.gpus[i];
		int device = *g->pci ? machine_find(d->machine, g->pci) : -1;

		if (device >= 0 && (!device_concerned(d, (unsigned int)device) ||
				    d->machine->devices[device].memory != MEMORY_BEHIND_BAR))
			continue;
		if (!g->has_bar1 || !g->total) {
			f = say_gpu(d, VERDICT_UNKNOWN, g, device);
			evidence(d, f, "NVML", "reports nothing about BAR1");
			consequence(d, f, "how full BAR1 is cannot be seen, as with MIG instances and virtual GPUs");
			continue;
		}
		f = say_gpu(d, g->used > g->total - g->total / 10 ? VERDICT_BROKEN : VERDICT_OK, g,
			    device);
		evidence(d, f, "NVML", "BAR1 %s used of %s", text_mib(g->used, used),
			 text_mib(g->total, total));
		if (f->verdict == VERDICT_BROKEN) {
			consequence(d, f, "less than a tenth of BAR1 is free: pins are about to fail with ENOMEM, or do so already");
			remedy(d, f, "'peerdma bar1' shows who holds it; limit registration caches, or make BAR1 larger");
		}
	}
}

const struct check check_bar1_free = { "bar1-free", "Room in BAR1", applies, run };
