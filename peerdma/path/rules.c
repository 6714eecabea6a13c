// SPDX-License-Identifier: MIT OR GPL-2.0
/* rules.c - the table of host bridges that are known to forward, and what follows from it. */
#include "rules.h"

#define COUNT(array)	(sizeof(array) / sizeof((array)[0]))
#define ANY		0x10000U

enum {
	SAME_BRIDGE	= 1 << 0,	/* forwards between its own ports only */
	EMULATED	= 1 << 1,	/* of QEMU: forwards for QEMU's own devices */
};

#define VENDOR_INTEL	0x8086U
#define VENDOR_GOOGLE	0x1ae0U
#define VENDOR_REDHAT	0x1b36U		/* QEMU's own functions */
#define SUBDEVICE_QEMU	0x1100U

static const struct known {
	unsigned int vendor, device, flags;
} bridges[] = {
	/* Intel: Sandy Bridge-EP and Haswell-EP, with their successors. */
	{ VENDOR_INTEL, 0x3c00, SAME_BRIDGE },
	{ VENDOR_INTEL, 0x3c01, SAME_BRIDGE },
	{ VENDOR_INTEL, 0x2f00, SAME_BRIDGE },
	{ VENDOR_INTEL, 0x2f01, SAME_BRIDGE },
	/* Skylake-SP: the root ports A to D stand for the bridge. */
	{ VENDOR_INTEL, 0x2030, 0 },
	{ VENDOR_INTEL, 0x2031, 0 },
	{ VENDOR_INTEL, 0x2032, 0 },
	{ VENDOR_INTEL, 0x2033, 0 },
	{ VENDOR_INTEL, 0x2020, 0 },
	/* Ice Lake-SP and later. */
	{ VENDOR_INTEL, 0x09a2, 0 },
	/* Accelerators that sit first on root buses of Sapphire Rapids and later: DSA, IAA, QAT. */
	{ VENDOR_INTEL, 0x0b25, 0 },
	{ VENDOR_INTEL, 0x0cfe, 0 },
	{ VENDOR_INTEL, 0x11fb, 0 },
	{ VENDOR_INTEL, 0x1212, 0 },
	{ VENDOR_INTEL, 0x1216, 0 },
	{ VENDOR_INTEL, 0x4940, 0 },
	{ VENDOR_INTEL, 0x4942, 0 },
	{ VENDOR_INTEL, 0x4944, 0 },
	{ VENDOR_INTEL, 0x4946, 0 },
	{ VENDOR_INTEL, 0x4948, 0 },
	{ VENDOR_GOOGLE, ANY, 0 },
	/* QEMU: root ports and the bridge of its Arm boards. */
	{ VENDOR_REDHAT, ANY, EMULATED },
	/* Its q35 and i440fx.  Real hardware of these numbers has other subsystem numbers. */
	{ VENDOR_INTEL, 0x29c0, EMULATED },
	{ VENDOR_INTEL, 0x1237, EMULATED },
};

static const struct known *find(const struct peerdma_host_bridge *bridge)
{
	bool qemu = bridge->vendor == VENDOR_REDHAT ||
		(bridge->subvendor == PEERDMA_VENDOR_QEMU && bridge->subdevice == SUBDEVICE_QEMU);
	size_t i;

	if (!bridge->found)
		return NULL;
	for (i = 0; i < COUNT(bridges); i++) {
		if (bridges[i].vendor == bridge->vendor &&
		    (bridges[i].device == ANY || bridges[i].device == bridge->device) &&
		    (qemu || !(bridges[i].flags & EMULATED)))
			return &bridges[i];
	}
	return NULL;
}

/* Do the host bridges carry a request from the client to the provider? */
static enum peerdma_path_reason through(const struct peerdma_path_facts *facts)
{
	const struct known *a = find(&facts->provider_bridge);
	const struct known *b = facts->same_bridge ? a : find(&facts->client_bridge);

	/* AMD since Zen. */
	if (facts->amd && facts->cpu_family >= 0x17)
		return PEERDMA_REASON_PROCESSOR;
	if (!a || !b)
		return PEERDMA_REASON_UNKNOWN_BRIDGE;
	if (!facts->same_bridge && (a->flags | b->flags) & SAME_BRIDGE)
		return PEERDMA_REASON_BRIDGES_APART;
	if (!((a->flags | b->flags) & EMULATED))
		return PEERDMA_REASON_BRIDGE;
	return facts->emulated ? PEERDMA_REASON_EMULATED : PEERDMA_REASON_PASSED_THROUGH;
}

enum peerdma_path_reason peerdma_path_decide(const struct peerdma_path_facts *facts)
{
	enum peerdma_path_reason reason;

	if (facts->common_port && !facts->redirected && !facts->translated)
		return facts->same_function ? PEERDMA_REASON_SAME_FUNCTION : PEERDMA_REASON_SWITCH;
	reason = through(facts);
	if (!facts->common_port ||
	    peerdma_path_rule(reason)->verdict != PEERDMA_PATH_NOT_SUPPORTED)
		return reason;
	/* It is the detour that fails, and that can be turned off. */
	return facts->redirected ? PEERDMA_REASON_ACS : PEERDMA_REASON_IOMMU;
}

/*
 * Linux has no rule for QEMU's bridges, and gives bus addresses below a switch also where an IOMMU
 * translates.  A real switch carries those to the peer.  QEMU's lets its IOMMU translate them,
 * and the data is lost.
 */
enum peerdma_path_reason peerdma_path_decide_pages(const struct peerdma_path_facts *facts)
{
	enum peerdma_path_reason reason;

	if (facts->common_port && !facts->redirected) {
		if (facts->translated && facts->emulated)
			return PEERDMA_REASON_BUS_LOST;
		return facts->same_function ? PEERDMA_REASON_SAME_FUNCTION : PEERDMA_REASON_SWITCH;
	}
	reason = through(facts);
	if (reason == PEERDMA_REASON_EMULATED || reason == PEERDMA_REASON_PASSED_THROUGH)
		reason = PEERDMA_REASON_UNKNOWN_BRIDGE;
	if (facts->redirected && peerdma_path_rule(reason)->verdict == PEERDMA_PATH_NOT_SUPPORTED)
		return PEERDMA_REASON_ACS;
	return reason;
}

static const void *meet(const struct peerdma_path_tree *tree, const void *a, const void *b)
{
	const void *other;

	for (; a; a = tree->above(tree->context, a)) {
		for (other = b; other; other = tree->above(tree->context, other)) {
			if (a == other)
				return a;
		}
	}
	return NULL;
}

/* The functions at both ends count too, as in Linux: those of several functions may have ACS. */
const void *peerdma_path_walk(const struct peerdma_path_tree *tree, const void *provider,
			      const void *client, struct peerdma_path_facts *facts)
{
	const void *top = meet(tree, provider, client), *at;

	facts->same_function = provider == client;
	facts->common_port = top;
	facts->redirected = false;
	if (!top)
		return NULL;
	facts->redirected = true;
	for (at = provider; at != top; at = tree->above(tree->context, at)) {
		if (tree->redirects(tree->context, at))
			return at;
	}
	for (at = client; at != top; at = tree->above(tree->context, at)) {
		if (tree->redirects(tree->context, at))
			return at;
	}
	if (tree->redirects(tree->context, top))
		return top;
	facts->redirected = false;
	return NULL;
}

static const struct peerdma_path_rule rules[PEERDMA_REASONS] = {
	[PEERDMA_REASON_MACHINE] = {
		PEERDMA_PATH_MACHINE, "machine", "not in a PCI device's BAR", "",
	},
	[PEERDMA_REASON_SAME_FUNCTION] = {
		PEERDMA_PATH_BUS_ADDRESS, "same-function", "the device's own memory", "",
	},
	[PEERDMA_REASON_SWITCH] = {
		PEERDMA_PATH_BUS_ADDRESS, "switch", "below one port, and no port redirects", "",
	},
	[PEERDMA_REASON_PROCESSOR] = {
		PEERDMA_PATH_THROUGH_HOST_BRIDGE, "processor",
		"the processor's host bridges are known to forward (AMD since Zen)", "",
	},
	[PEERDMA_REASON_BRIDGE] = {
		PEERDMA_PATH_THROUGH_HOST_BRIDGE, "bridge", "the host bridge is known to forward", "",
	},
	[PEERDMA_REASON_EMULATED] = {
		PEERDMA_PATH_THROUGH_HOST_BRIDGE, "emulated", "QEMU's host bridge forwards", "",
	},
	[PEERDMA_REASON_LINUX] = {
		PEERDMA_PATH_THROUGH_HOST_BRIDGE, "linux", "Linux's p2pdma allows it", "",
	},
	[PEERDMA_REASON_OVERRIDE] = {
		PEERDMA_PATH_THROUGH_HOST_BRIDGE, "override", "path_override=any allows it", "",
	},
	[PEERDMA_REASON_VOUCHED] = {
		PEERDMA_PATH_THROUGH_HOST_BRIDGE, "vouched", "the driver of the memory allows it", "",
	},
	[PEERDMA_REASON_UNKNOWN_BRIDGE] = {
		PEERDMA_PATH_NOT_SUPPORTED, "unknown-bridge",
		"the host bridge is not known to forward between devices",
		"move both devices below one PCIe switch",
	},
	[PEERDMA_REASON_BRIDGES_APART] = {
		PEERDMA_PATH_NOT_SUPPORTED, "bridges-apart",
		"the devices are below different host bridges, which forward only between their own ports",
		"move both devices below one host bridge",
	},
	[PEERDMA_REASON_PASSED_THROUGH] = {
		PEERDMA_PATH_NOT_SUPPORTED, "passed-through",
		"both devices are passed through by the hypervisor, which hides the path between them",
		"if the host is known to forward, load peerdma with path_override=any",
	},
	[PEERDMA_REASON_ACS] = {
		PEERDMA_PATH_NOT_SUPPORTED, "acs",
		"a port redirects requests (ACS) to a host bridge that is not known to forward them",
		"boot with pci=disable_acs_redir=PORT, unless devices are given to untrusted guests",
	},
	[PEERDMA_REASON_IOMMU] = {
		PEERDMA_PATH_NOT_SUPPORTED, "iommu",
		"the IOMMU translates for the client, above a host bridge that is not known to forward",
		"boot with iommu=pt",
	},
	[PEERDMA_REASON_NOT_PCI] = {
		PEERDMA_PATH_NOT_SUPPORTED, "not-pci", "the client is not a PCI device",
		"let a PCI device do the transfer",
	},
	[PEERDMA_REASON_BAR_END] = {
		PEERDMA_PATH_NOT_SUPPORTED, "bar-end", "the memory is not all in one BAR",
		"report this as a bug of the GPU's driver",
	},
	[PEERDMA_REASON_DMA_RANGE] = {
		PEERDMA_PATH_NOT_SUPPORTED, "dma-range",
		"the client's host bridge does not let the address in (dma-ranges)",
		"move both devices below one PCIe switch",
	},
	[PEERDMA_REASON_BUS_LOST] = {
		PEERDMA_PATH_NOT_SUPPORTED, "bus-lost",
		"Linux's p2pdma uses bus addresses below a switch, and QEMU's IOMMU translates them all the same",
		"boot with iommu=pt",
	},
};

const struct peerdma_path_rule *peerdma_path_rule(enum peerdma_path_reason reason)
{
	return &rules[reason];
}
