// SPDX-License-Identifier: MIT
/*
 * check_path.c - how far is each GPU from its nearest peers?  The three situations of NVIDIA's document.
 */
#include "adapters.h"

static bool applies(const struct doctor *d)
{
	return d->pair_count;
}

/* The GPU's memory is not reached over PCI: how far its PCI function is means little. */
static void another_way(struct doctor *d, const struct pair *p)
{
	struct finding *f = say_pair(d, VERDICT_OK, p, WAYS_ALL);
	const struct device *gpu = pair_gpu(d, p);

	evidence(d, f, "memory", "%s: %s", gpu->label,
		 gpu->memory == MEMORY_UNIFIED ? "the processor's own" :
		 "at the end of a coherent link to the processor");
	consequence(d, f, "the other device reaches it as it reaches host memory, not peer to peer over PCI Express");
}

static void far_away(struct doctor *d, struct finding *f, const struct pair *p)
{
	const struct device *a = &d->machine->devices[p->a], *b = &d->machine->devices[p->b];

	switch (p->path) {
	case PATH_PHB:
		consequence(d, f, "works through the processor's host bridge, at less bandwidth than through a switch, above all for "
			    "reads");
		remedy(d, f, "if there is a slot below the same PCIe switch as the GPU, move the other device there");
		break;
	case PATH_NODE:
		consequence(d, f, "works between host bridges of one processor, at less bandwidth than through a switch, above all "
			    "for reads");
		remedy(d, f, "if there is a slot below the same PCIe switch or root port as the GPU, move the other device there");
		break;
	case PATH_SYS:
		consequence(d, f, "the path crosses the link between processors: very slow, and on some machines not reliable");
		remedy(d, f, "move the device to a slot of the GPU's NUMA node (%s is on node %d, %s on node %d), or stage through host memory",
		       a->label, a->numa, b->label, b->numa);
		break;
	case PATH_UNKNOWN:
		consequence(d, f, "the firmware does not say on which NUMA node they are");
		remedy(d, f, "look for NUMA or proximity settings in the firmware, or measure");
		break;
	default:
		break;
	}
}

/* A nearer peer is there and cannot work: making it work is better than moving devices. */
static void passed_over(struct doctor *d, struct finding *f, const struct pair *p)
{
	const struct machine *m = d->machine;
	const struct device *near = &m->devices[p->passed], *gpu = &m->devices[p->a];
	char why[160] = "no driver", change[160] = "modprobe nvme; if that fails, dmesg says why";
	int meet;

	if (near->kind == DEVICE_NIC)
		adapter_can_work(d, near, why, change);
	evidence(d, f, "nearer", "%s (%s): %s", near->label, near->name, why);
	consequence(d, f, "%s's transfers take a longer path (%s) than to %s, which is nearer (%s) and cannot work: %s",
		    gpu->label, path_name(p->path), near->label,
		    path_name(path_between(m, p->a, (unsigned int)p->passed, &meet)), why);
	remedy(d, f, "for %s: %s", near->label, change);
}

static void one(struct doctor *d, const struct pair *p)
{
	const struct machine *m = d->machine;
	const struct device *a = &m->devices[p->a], *b = &m->devices[p->b];
	struct finding *f;
	/* A hypervisor may draw a flat bus over switches, and switches over sockets. */
	bool hidden = m->virtual && p->path != PATH_SELF;

	if (!pair_is_pci(d, p)) {
		another_way(d, p);
		return;
	}
	/* How far it is does not decide whether it works. */
	f = say_pair(d, hidden || p->path <= PATH_PXB || p->path == PATH_UNKNOWN ? VERDICT_OK :
		     VERDICT_SLOW, p, WAYS_PCI);
	evidence(d, f, "path", "%s: %s", path_name(p->path), path_words(p->path));
	evidence(d, f, PCI_DEVICES, "%s below %s, %s below %s", a->name, *a->host ? a->host : "?",
		 b->name, *b->host ? b->host : "?");
	if (p->passed >= 0) {
		passed_over(d, f, p);
		return;
	}
	if (hidden) {
		consequence(d, f, "a virtual machine's PCI topology may differ from that of the machine below: the real distance cannot be seen");
		remedy(d, f, "measure: ib_write_bw --use_cuda=0 between the devices of a pair, and compare pairs");
		return;
	}
	far_away(d, f, p);
}

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->pair_count; i++)
		one(d, &d->pairs[i]);
}

const struct check check_path = { "path", "Path", applies, run };
