// SPDX-License-Identifier: MIT
/*
 * check_peerdma.c - peerdma's own modules.
 */
#include <string.h>

#include "doctor.h"
#include "base/tool.h"

static void run(struct doctor *d)
{
	struct tree_node n;
	char version[64];
	struct finding *f;
	bool provider;

	if (!module_loaded(d, "peerdma")) {
		f = say(d, VERDICT_OK, "peerdma.ko");
		evidence(d, f, "/sys/module/peerdma", "not there: not loaded");
		consequence(d, f, "nothing but peerdma's own programs and drivers needs it");
		return;
	}
	provider = module_loaded(d, "peerdma_nvidia");
	if (!tree_word(d->tree, "/sys/module/peerdma/version", version, sizeof(version)) &&
	    strcmp(version, TOOL_VERSION)) {
		f = say(d, VERDICT_BROKEN, "peerdma.ko");
		evidence(d, f, "/sys/module/peerdma/version", "%s, and this command is %s", version,
			 TOOL_VERSION);
		consequence(d, f, "the module is of another release than the programs");
		remedy(d, f, "install both of one release; rmmod and modprobe peerdma");
	} else if (!provider) {
		f = say(d, VERDICT_BROKEN, "peerdma.ko");
		evidence(d, f, "/sys/module", "peerdma is loaded, peerdma_nvidia is not");
		consequence(d, f, "no provider: peerdma.ko can pin host memory only");
		remedy(d, f, "modprobe peerdma_nvidia");
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
