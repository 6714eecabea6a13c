// SPDX-License-Identifier: MIT
/*
 * reach.c - the facts that ../../path/rules.h decides by, from what sysfs says.  In the kernel
 * peerdma/kernel/core/path.c gathers the same.
 */
#include <string.h>

#include "machine.h"

struct walk {
	const struct machine *machine;
	bool unread_redirects;		/* what is taken for ACS that could not be read */
	int *unread;
};

static const void *above(const void *context, const void *function)
{
	const struct walk *w = context;
	const struct device *x = function;

	return x->parent < 0 ? NULL : &w->machine->devices[x->parent];
}

static bool redirects(const void *context, const void *function)
{
	const struct walk *w = context;
	const struct device *x = function;

	if (x->acs != ACS_UNKNOWN)
		return x->acs == ACS_REDIRECT;
	*w->unread = (int)(x - w->machine->devices);
	return w->unread_redirects;
}

/* The first function on the device's root bus, if it is number 00.0 or a root port. */
static int first_function(const struct machine *m, const struct device *of)
{
	for (unsigned int i = 0; i < m->count; i++) {
		const struct device *x = &m->devices[i];
		size_t length = strlen(x->name);

		if (x->parent >= 0 || strcmp(x->host, of->host))
			continue;
		/* In a domain of its own (Hyper-V) the device is first itself, and stands for no bridge. */
		if (x == of && x->kind != DEVICE_BRIDGE)
			return -1;
		if (length > 4 && !strcmp(x->name + length - 4, "00.0"))
			return (int)i;
		/* The port's type may not have been readable. */
		if (x->port == PORT_ROOT || (x->kind == DEVICE_BRIDGE && x->port == PORT_UNKNOWN))
			return (int)i;
		return -1;
	}
	return -1;
}

static struct peerdma_host_bridge host_bridge(const struct machine *m, int first)
{
	struct peerdma_host_bridge b = { .found = first >= 0 };

	if (b.found) {
		b.vendor = m->devices[first].vendor;
		b.device = m->devices[first].device;
		b.subvendor = m->devices[first].subvendor;
		b.subdevice = m->devices[first].subdevice;
	}
	return b;
}

/* Of the ACS control register: translated requests take the short way. */
#define DIRECT_TRANSLATED	0x40

/* Every function on the way that redirects lets translated requests pass, and the client's are. */
static bool passes_translated(const struct machine *m, unsigned int provider, unsigned int client)
{
	const unsigned int ends[] = { provider, client };
	int meet;

	path_between(m, provider, client, &meet);
	if (meet < 0 || !m->devices[client].ats)
		return false;
	for (unsigned int e = 0; e < 2; e++) {
		for (int up = (int)ends[e]; up >= 0; up = m->devices[up].parent) {
			const struct device *x = &m->devices[up];

			if (x->acs == ACS_REDIRECT && !(x->acs_control & DIRECT_TRANSLATED))
				return false;
			if (up == meet)
				break;
		}
	}
	return true;
}

static enum peerdma_path_verdict verdict_of(enum peerdma_path_reason reason)
{
	return peerdma_path_rule(reason)->verdict;
}

void machine_reach(const struct machine *m, unsigned int provider, unsigned int client,
		   struct reach *out)
{
	const struct device *a = &m->devices[provider], *b = &m->devices[client];
	struct walk walk = { .machine = m, .unread = &out->unread };
	struct peerdma_path_tree tree = { &walk, above, redirects };
	struct peerdma_path_facts *facts = &out->facts;
	bool iommu_unread = b->iommu == IOMMU_UNKNOWN;

	memset(out, 0, sizeof(*out));
	out->unread = -1;
	out->provider_bridge = first_function(m, a);
	out->client_bridge = first_function(m, b);
	facts->provider_bridge = host_bridge(m, out->provider_bridge);
	facts->client_bridge = host_bridge(m, out->client_bridge);
	facts->same_bridge = !strcmp(a->host, b->host);
	facts->emulated = a->subvendor == PEERDMA_VENDOR_QEMU ||
		b->subvendor == PEERDMA_VENDOR_QEMU;
	facts->amd = !strcmp(m->cpu_vendor, "AuthenticAMD");
	facts->cpu_family = m->cpu_family < 0 ? 0 : (unsigned int)m->cpu_family;
	facts->translated = b->iommu == IOMMU_TRANSLATING;
	peerdma_path_walk(&tree, a, b, facts);
	out->reason = peerdma_path_decide(facts);
	out->pages = peerdma_path_decide_pages(facts);
	out->passes_translated = facts->redirected && passes_translated(m, provider, client);
	out->known = *a->host && *b->host;
	/* Four cases at most; a fact that could not be read matters only if they differ. */
	for (unsigned int turn = 1; turn < 4; turn++) {
		struct peerdma_path_facts other = *facts;

		if ((turn & 1 && out->unread < 0) || (turn & 2 && !iommu_unread))
			continue;
		if (turn & 1) {
			walk.unread_redirects = true;
			peerdma_path_walk(&tree, a, b, &other);
		}
		if (turn & 2)
			other.translated = true;
		if (verdict_of(peerdma_path_decide(&other)) != verdict_of(out->reason))
			out->known = false;
	}
}
