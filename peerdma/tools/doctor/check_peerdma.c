// SPDX-License-Identifier: MIT
/*
 * check_peerdma.c - peerdma's own modules.
 */
#include <string.h>

#include "doctor.h"
#include "base/tool.h"

/* The module by which peerdma.ko pins this GPU's memory; NULL: none is needed, or none is known. */
static const char *provider_of(struct doctor *d, const struct device *gpu)
{
	if (gpu->memory == MEMORY_UNIFIED)
		return NULL;
	if (gpu->vendor == VENDOR_AMD)
		return "peerdma_amd";
	/* softgpu speaks as either maker's driver. */
	if (device_is_softgpu(gpu) && module_loaded(d, "amdgpu") && !module_loaded(d, "nvidia"))
		return "peerdma_amd";
	return gpu->vendor == VENDOR_NVIDIA || device_is_softgpu(gpu) ? "peerdma_nvidia" : NULL;
}

/* The first such module that is needed and not loaded. */
static const char *lacking(struct doctor *d)
{
	if (d->machine->tegra)
		return module_loaded(d, "peerdma_tegra") ? NULL : "peerdma_tegra";
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *x = &d->machine->devices[i];
		const char *provider = x->kind == DEVICE_GPU && device_concerned(d, i) ?
				       provider_of(d, x) : NULL;

		if (provider && !module_loaded(d, provider))
			return provider;
	}
	return NULL;
}

static void run(struct doctor *d)
{
	struct tree_node n;
	char version[64];
	struct finding *f;
	const char *provider;

	if (!module_loaded(d, "peerdma")) {
		f = say(d, VERDICT_OK, "peerdma.ko");
		evidence(d, f, "/sys/module/peerdma", "not there: not loaded");
		consequence(d, f, "nothing but peerdma's own programs and drivers needs it");
		return;
	}
	provider = lacking(d);
	if (!tree_word(d->tree, "/sys/module/peerdma/version", version, sizeof(version)) &&
	    strcmp(version, TOOL_VERSION)) {
		f = say(d, VERDICT_BROKEN, "peerdma.ko");
		evidence(d, f, "/sys/module/peerdma/version", "%s, and this command is %s", version,
			 TOOL_VERSION);
		consequence(d, f, "the module is of another release than the programs");
		remedy(d, f, "install both of one release; rmmod and modprobe peerdma");
	} else if (provider) {
		f = say(d, VERDICT_BROKEN, "peerdma.ko");
		evidence(d, f, "/sys/module", "peerdma is loaded, %s is not", provider);
		consequence(d, f, "without this provider peerdma.ko cannot pin the GPU's memory");
		remedy(d, f, "modprobe %s", provider);
	} else {
		int ret = tree_node(d->tree, "/dev/peerdma", &n);

		f = say(d, !ret && n.usable ? VERDICT_OK : VERDICT_BROKEN, "peerdma.ko");
		evidence(d, f, "/dev/peerdma", "%s", ret ? strerror(-ret) :
			 n.usable ? "there, and this user may use it" :
			 n.refused ? "forbidden by the device cgroup of this process" :
			 "not for this user");
		if (ret || !n.usable) {
			consequence(d, f, "programs cannot pin through it");
			remedy(d, f, "see that udev made the node, with rights for this user; in a container, pass it in");
		}
	}
}

const struct check check_peerdma = { "peerdma", "peerdma's modules", NULL, run };
