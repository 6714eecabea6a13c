/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * rules.h - can one device reach the memory of another, and by which path?
 *
 * One table and one function, compiled into peerdma.ko and into `peerdma doctor', so that
 * both give the same verdict.  They are the rules of Linux's p2pdma, with two differences:
 *
 *  - Linux gives a client bus addresses below a switch, also where an IOMMU translates for
 *    it.  peerdma maps through the IOMMU, so that a revoked mapping ends.  Then each request
 *    goes up to the IOMMU and down again: the host bridge must forward it.
 *  - QEMU's host bridges forward what QEMU's own devices send each other.
 *
 * Struct pages of p2pdma are mapped by the kernel itself, which asks no one: for these the rules
 * are Linux's own.
 *
 *        host bridge              IOMMU, and the table below
 *          root port
 *            switch: upstream     BUS_ADDRESS: the paths meet in a port below the host
 *              downstream         bridge, and no port between redirects (ACS)
 *                device
 */
#ifndef PEERDMA_PATH_RULES_H
#define PEERDMA_PATH_RULES_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#endif

enum peerdma_path_verdict {
	/* Not in a PCI function's BAR: RAM or a device of the board.  Nothing to check. */
	PEERDMA_PATH_MACHINE,
	/* Requests carry the bus address of the BAR and never reach the host bridge. */
	PEERDMA_PATH_BUS_ADDRESS,
	/* Requests carry an IOVA, or without translation the CPU's physical address. */
	PEERDMA_PATH_THROUGH_HOST_BRIDGE,
	PEERDMA_PATH_NOT_SUPPORTED,
};

enum peerdma_path_reason {
	PEERDMA_REASON_MACHINE,
	/* BUS_ADDRESS */
	PEERDMA_REASON_SAME_FUNCTION,
	PEERDMA_REASON_SWITCH,
	/* THROUGH_HOST_BRIDGE */
	PEERDMA_REASON_PROCESSOR,
	PEERDMA_REASON_BRIDGE,
	PEERDMA_REASON_EMULATED,
	PEERDMA_REASON_LINUX,		/* only the kernel's own list has it */
	PEERDMA_REASON_OVERRIDE,	/* only the administrator says so */
	PEERDMA_REASON_VOUCHED,		/* only the provider's driver says so */
	/* NOT_SUPPORTED */
	PEERDMA_REASON_UNKNOWN_BRIDGE,
	PEERDMA_REASON_BRIDGES_APART,
	PEERDMA_REASON_PASSED_THROUGH,
	PEERDMA_REASON_ACS,
	PEERDMA_REASON_IOMMU,
	PEERDMA_REASON_NOT_PCI,
	PEERDMA_REASON_BAR_END,
	PEERDMA_REASON_DMA_RANGE,
	PEERDMA_REASON_BUS_LOST,	/* of pages only */
	PEERDMA_REASONS
};

struct peerdma_path_rule {
	enum peerdma_path_verdict verdict;
	const char *name;	/* for programs: "acs" */
	const char *text;	/* for people */
	const char *remedy;	/* the one setting to change; "" if supported */
};

/* Never NULL for a reason of the enum. */
const struct peerdma_path_rule *peerdma_path_rule(enum peerdma_path_reason reason);

/* Of the ACS control register: request redirect, completion redirect, egress control. */
#define PEERDMA_ACS_REDIRECT	0x002c

/*
 * What stands for a host bridge in lists of them: the first function on its root bus, if
 * that is number 00.0 or a root port.
 */
struct peerdma_host_bridge {
	bool found;
	unsigned int vendor, device, subvendor, subdevice;
};

#define PEERDMA_VENDOR_QEMU	0x1af4U	/* subsystem vendor of the devices that QEMU emulates */

struct peerdma_path_facts {
	bool same_function;	/* provider and client are one */
	bool common_port;	/* the paths meet below the host bridge */
	bool redirected;	/* ... and a port on the way sends requests past that, up */
	bool translated;	/* an IOMMU translates what the client addresses */
	bool emulated;		/* at least one of the two has the subsystem vendor above */
	bool same_bridge;
	bool amd;		/* an x86 processor by AMD; cpu_family is its family */
	unsigned int cpu_family;
	struct peerdma_host_bridge provider_bridge, client_bridge;
};

/* Pure: no locks, does not sleep. */
enum peerdma_path_reason peerdma_path_decide(const struct peerdma_path_facts *facts);
/* The same for memory that has struct pages of p2pdma, and is mapped by way of them. */
enum peerdma_path_reason peerdma_path_decide_pages(const struct peerdma_path_facts *facts);

/* The PCI functions of a machine, as far as the walk needs them. */
struct peerdma_path_tree {
	const void *context;
	/* The bridge above; NULL: none, the function is on a root bus. */
	const void *(*above)(const void *context, const void *function);
	bool (*redirects)(const void *context, const void *function);
};

/*
 * Fills same_function, common_port and redirected.  Returns the first function on the way
 * that redirects, or NULL.  Sleeps only if the tree's functions do.
 */
const void *peerdma_path_walk(const struct peerdma_path_tree *tree, const void *provider,
			      const void *client, struct peerdma_path_facts *facts);

#endif
