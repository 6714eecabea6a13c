// SPDX-License-Identifier: MIT
/*
 * check_reach.c - does peerdma.ko map the GPU's memory for its peers?  By the same rules as the
 * module's own check, and so with the same verdict; and does the path take a detour (ACS)?
 */
#include <string.h>

#include "doctor.h"

static bool applies(const struct doctor *d)
{
	return d->pair_count;
}

static const char *verdict_text(enum peerdma_path_verdict verdict)
{
	static const char *const words[] = { "machine", "bus-address", "through-host-bridge",
					     "not-supported" };

	return words[verdict];
}

static void evidence_bridge(struct doctor *d, struct finding *f, int first)
{
	const struct device *x = first < 0 ? NULL : &d->machine->devices[first];

	if (x)
		evidence(d, f, "host bridge", "%s: %04x:%04x, subsystem %04x:%04x", x->name,
			 x->vendor, x->device, x->subvendor, x->subdevice);
	else
		evidence(d, f, "host bridge",
			 "neither a function 00.0 nor a root port comes first on the root bus");
}

#define BRIDGES_MAX 32

static void evidence_acs(struct doctor *d, struct finding *f, const struct pair *p)
{
	const struct machine *m = d->machine;
	int on_way[2 * BRIDGES_MAX + 3];
	unsigned int n = path_bridges(m, p->a, p->meet, on_way, BRIDGES_MAX), redirecting = 0;

	n += path_bridges(m, p->b, p->meet, on_way + n, BRIDGES_MAX);
	on_way[n++] = p->meet;
	on_way[n++] = (int)p->a;
	on_way[n++] = (int)p->b;
	for (unsigned int i = 0; i < n; i++) {
		const struct device *x = &m->devices[on_way[i]];

		if (x->acs != ACS_REDIRECT)
			continue;
		redirecting++;
		evidence(d, f, "ACS control", "%s: %#06x (redirects)", x->name, x->acs_control);
	}
	if (!redirecting)
		evidence(d, f, "ACS control",
			 "nothing on the path redirects (%u functions checked)", n);
}

/* What comes of it that the rules do not allow this path. */
enum refusal {
	/* By peerdma.ko, or by the GPU's driver by Linux's rules, which are much the same */
	REFUSED,
	UP_TO_NVIDIA,		/* its driver has rules of its own, by which peerdma.ko goes */
	OVERRIDDEN,
};

#define OVERRIDE	"/sys/module/peerdma/parameters/path_override"

static enum refusal refusal_of(struct doctor *d, const struct device *gpu)
{
	char word[16];

	if (!tree_word(d->tree, OVERRIDE, word, sizeof(word)) && !strcmp(word, "any"))
		return OVERRIDDEN;
	return gpu->vendor == VENDOR_NVIDIA ||
	       (device_is_softgpu(gpu) && module_loaded(d, "nvidia")) ? UP_TO_NVIDIA : REFUSED;
}

static void refused(struct doctor *d, struct finding *f, const struct peerdma_path_rule *rule,
		    enum refusal how)
{
	static const char *const what[] = {
		"peerdma.ko refuses to map the GPU's memory for that device (EOPNOTSUPP)",
		"NVIDIA's driver, which peerdma.ko asks, may map the GPU's memory all the same; then data may be lost",
		"peerdma.ko maps the GPU's memory all the same, and data may be lost",
	};

	if (how == OVERRIDDEN)
		evidence(d, f, OVERRIDE, "any");
	consequence(d, f, "%s; %s", rule->text, what[how]);
	remedy(d, f, "%s", rule->remedy);
}

static void one(struct doctor *d, const struct pair *p)
{
	const struct machine *m = d->machine;
	bool second = m->devices[p->a].kind != DEVICE_GPU && m->devices[p->b].kind == DEVICE_GPU;
	unsigned int provider = second ? p->b : p->a, client = second ? p->a : p->b;
	const struct peerdma_path_rule *rule;
	enum refusal how = refusal_of(d, &m->devices[provider]);
	bool refuses;
	struct reach r;
	struct finding *f;

	machine_reach(m, provider, client, &r);
	rule = peerdma_path_rule(r.reason);
	refuses = rule->verdict == PEERDMA_PATH_NOT_SUPPORTED;
	f = say_pair(d, !r.known || (refuses && how != REFUSED) ? VERDICT_UNKNOWN :
		     refuses ? VERDICT_BROKEN : r.facts.redirected ? VERDICT_SLOW :
		     r.unread >= 0 ? VERDICT_UNKNOWN : VERDICT_OK, p, WAYS_PCI);
	if (r.known)
		evidence(d, f, "peerdma.ko's rules", "%s (%s): %s", verdict_text(rule->verdict),
			 rule->name, rule->text);
	if (r.facts.common_port)
		evidence_acs(d, f, p);
	if (!r.known || rule->verdict != PEERDMA_PATH_BUS_ADDRESS) {
		evidence_bridge(d, f, r.provider_bridge);
		if (!r.facts.same_bridge)
			evidence_bridge(d, f, r.client_bridge);
	}
	if (r.unread >= 0)
		evidence(d, f, "config", "only the first bytes of %s can be read",
			 m->devices[r.unread].name);
	if (!*m->devices[provider].host || !*m->devices[client].host) {
		consequence(d, f, "not known where the devices are on the PCI bus");
	} else if (!r.known || (r.unread >= 0 && !refuses && !r.facts.redirected)) {
		consequence(d, f,
			    r.unread >= 0 ?
			    "only root can read whether functions on the path redirect (ACS)" :
			    "not known whether an IOMMU translates for the device");
		remedy(d, f, r.unread >= 0 ? "run 'peerdma doctor' as root" :
		       "see the finding about the IOMMU");
	} else if (refuses) {
		refused(d, f, rule, how);
	} else if (r.facts.redirected) {
		consequence(d, f, "traffic between the devices goes up to the processor and back, instead of through the switch only");
		remedy(d, f, "boot with pci=disable_acs_redir= and the functions that --json names, separated by semicolons; not on a machine "
		       "that gives devices to guests it does not trust");
	}
}

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->pair_count; i++)
		one(d, &d->pairs[i]);
}

const struct check check_reach = { "reach", "Peer-to-peer path", applies, run };
