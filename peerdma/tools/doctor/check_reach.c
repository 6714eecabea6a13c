// SPDX-License-Identifier: MIT
/*
 * check_reach.c - does peerdma.ko map the GPU's memory for its peers?  By the same rules as the
 * module's own check, and so with the same verdict; and does the path take a detour (ACS)?  And
 * does the kernel itself, if the memory has struct pages of p2pdma?
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
	/* The same, and what is below a virtual machine its provider has decided */
	UP_TO_PROVIDER,
	OVERRIDDEN,
};

#define OVERRIDE	"/sys/module/peerdma/parameters/path_override"

static enum refusal refusal_of(struct doctor *d, const struct device *gpu)
{
	char word[16];

	if (!tree_word(d->tree, OVERRIDE, word, sizeof(word)) && !strcmp(word, "any"))
		return OVERRIDDEN;
	if (gpu->vendor == VENDOR_NVIDIA)
		return d->machine->virtual ? UP_TO_PROVIDER : UP_TO_NVIDIA;
	return device_is_softgpu(gpu) && module_loaded(d, "nvidia") ? UP_TO_NVIDIA : REFUSED;
}

static void refused(struct doctor *d, struct finding *f, const struct peerdma_path_rule *rule,
		    enum refusal how)
{
	static const char *const what[] = {
		[REFUSED] = "peerdma.ko refuses to map the GPU's memory for that device (EOPNOTSUPP)",
		[UP_TO_NVIDIA] = "NVIDIA's driver, which peerdma.ko asks, may map the GPU's memory all the same; then data may be lost",
		[UP_TO_PROVIDER] = ("NVIDIA's driver maps the GPU's memory all the same, and whether data arrives the provider of this virtual "
				    "machine has decided: compare bytes after a transfer ('peerdma doctor --probe')"),
		[OVERRIDDEN] = "peerdma.ko maps the GPU's memory all the same, and data may be lost",
	};

	if (how == OVERRIDDEN)
		evidence(d, f, OVERRIDE, "any");
	consequence(d, f, "%s; %s", rule->text, what[how]);
	if (how == UP_TO_PROVIDER)
		return;
	if (!strncmp(rule->remedy, "move ", 5))
		remedy_owner(d, f, "devices below one PCIe switch", "%s", rule->remedy);
	else
		remedy(d, f, "%s", rule->remedy);
}

/* Of a path that the rules allow, or do not know. */
enum reach_verdict {
	REACH_UNKNOWN, REACH_REFUSED, REACH_DETOUR, REACH_DIRECT, REACH_UNREAD, REACH_SNP, REACH_OK,
};

static enum reach_verdict judge(const struct doctor *d, const struct reach *r)
{
	enum peerdma_path_verdict rule = peerdma_path_rule(r->reason)->verdict;

	if (r->passes_translated)
		return REACH_DIRECT;
	if (!r->known)
		return REACH_UNKNOWN;
	if (rule == PEERDMA_PATH_NOT_SUPPORTED)
		return REACH_REFUSED;
	if (rule == PEERDMA_PATH_THROUGH_HOST_BRIDGE &&
	    d->machine->confidential == CONFIDENTIAL_SNP_HOST)
		return REACH_SNP;
	if (r->facts.redirected)
		return REACH_DETOUR;
	return r->unread >= 0 ? REACH_UNREAD : REACH_OK;
}

static enum verdict verdict_of(enum reach_verdict v, enum refusal how)
{
	switch (v) {
	case REACH_REFUSED:
		return how == REFUSED ? VERDICT_BROKEN :
		       how == UP_TO_PROVIDER ? VERDICT_OK : VERDICT_UNKNOWN;
	case REACH_DETOUR:
		return VERDICT_SLOW;
	case REACH_DIRECT:
	case REACH_OK:
		return VERDICT_OK;
	default:
		return VERDICT_UNKNOWN;
	}
}

static void evidence_rules(struct doctor *d, struct finding *f, const struct pair *p,
			   const struct reach *r)
{
	const struct peerdma_path_rule *rule = peerdma_path_rule(r->reason);

	if (r->known)
		evidence(d, f, "peerdma.ko's rules", "%s (%s): %s", verdict_text(rule->verdict),
			 rule->name, rule->text);
	if (r->facts.common_port)
		evidence_acs(d, f, p);
	if (!r->known || rule->verdict != PEERDMA_PATH_BUS_ADDRESS) {
		evidence_bridge(d, f, r->provider_bridge);
		if (!r->facts.same_bridge)
			evidence_bridge(d, f, r->client_bridge);
	}
	if (r->unread >= 0)
		evidence(d, f, "config", "only the first bytes of %s can be read",
			 d->machine->devices[r->unread].name);
}

static void not_known(struct doctor *d, struct finding *f, const struct reach *r, bool placed)
{
	if (!placed) {
		consequence(d, f, "not known where the devices are on the PCI bus");
		return;
	}
	consequence(d, f, r->unread >= 0 ? "only root can read whether functions on the path redirect (ACS)" :
		    "not known whether an IOMMU translates for the device");
	remedy(d, f, r->unread >= 0 ? "run 'peerdma doctor' as root" :
	       "see the finding about the IOMMU");
}

static void detour(struct doctor *d, struct finding *f)
{
	consequence(d, f, "traffic between the devices goes up to the processor and back, instead of through the switch only");
	remedy(d, f, "boot with pci=disable_acs_redir= and the functions that --json names, separated by semicolons; not on a machine "
	       "that gives devices to guests it does not trust");
}

/*
 * Has p2pdma another answer for what it maps itself? Not said of what takes none of its pages, nor
 * of the trap below a switch, which is a check of its own.
 */
static bool pages_differ(struct doctor *d, const struct pair *p, unsigned int client,
			 const struct reach *r, enum reach_verdict v)
{
	enum device_kind kind = d->machine->devices[client].kind;
	bool supported = peerdma_path_rule(r->pages)->verdict != PEERDMA_PATH_NOT_SUPPORTED;
	char file[128];

	return (kind == DEVICE_NVME || kind == DEVICE_GPU) && p->path != PATH_SELF && r->known &&
	       (v != REACH_REFUSED) != supported &&
	       kernel_config(d, "PCI_P2PDMA", file) == 'y';
}

static void say_pages(struct doctor *d, const struct pair *p, const struct reach *r)
{
	const struct peerdma_path_rule *rule = peerdma_path_rule(r->pages);
	bool supported = rule->verdict != PEERDMA_PATH_NOT_SUPPORTED;
	struct finding *f;

	if (r->pages == PEERDMA_REASON_BUS_LOST)
		return;
	f = say_pair(d, supported ? VERDICT_OK : VERDICT_BROKEN, p, WAY(WAY_P2PDMA));
	evidence(d, f, "Linux's p2pdma", "%s (%s): %s", verdict_text(rule->verdict), rule->name,
		 rule->text);
	evidence_bridge(d, f, r->provider_bridge);
	if (supported)
		return;
	consequence(d, f, "%s: the kernel maps no struct pages of the one's memory for the other, and transfers fail (EINVAL)",
		    rule->text);
	if (!strncmp(rule->remedy, "move ", 5))
		remedy_owner(d, f, "devices below one PCIe switch", "%s", rule->remedy);
	else
		remedy(d, f, "%s", rule->remedy);
}

static void one(struct doctor *d, const struct pair *p)
{
	const struct machine *m = d->machine;
	bool second = m->devices[p->a].kind != DEVICE_GPU && m->devices[p->b].kind == DEVICE_GPU;
	unsigned int provider = second ? p->b : p->a, client = second ? p->a : p->b;
	enum refusal how = refusal_of(d, &m->devices[provider]);
	enum reach_verdict v;
	struct reach r;
	struct finding *f;
	bool differ;

	machine_reach(m, provider, client, &r);
	v = judge(d, &r);
	differ = pages_differ(d, p, client, &r, v);
	f = say_pair(d, verdict_of(v, how), p, differ ? WAYS_PCI & ~WAY(WAY_P2PDMA) : WAYS_PCI);
	evidence_rules(d, f, p, &r);
	switch (v) {
	case REACH_UNKNOWN:
	case REACH_UNREAD:
		not_known(d, f, &r, *m->devices[provider].host && *m->devices[client].host);
		break;
	case REACH_REFUSED:
		refused(d, f, peerdma_path_rule(r.reason), how);
		break;
	case REACH_DETOUR:
		detour(d, f);
		break;
	case REACH_DIRECT:
		evidence(d, f, "ATS", "%s: on", m->devices[client].name);
		consequence(d, f, "what ACS redirects are untranslated requests; the device translates its own (ATS), and the ports let these "
			    "pass by the short way, as on a host of virtual machines");
		break;
	case REACH_SNP:
		consequence(d, f, "the host bridge checks each access for SEV-SNP; not known whether it lets one device's access to another pass");
		remedy(d, f, "%scompare bytes after a transfer ('peerdma doctor --probe')",
		       r.facts.common_port ? "" : "use devices below one switch, or ");
		break;
	case REACH_OK:
		break;
	}
	if (differ)
		say_pages(d, p, &r);
}

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->pair_count; i++) {
		if (pair_is_pci(d, &d->pairs[i]))
			one(d, &d->pairs[i]);
	}
}

const struct check check_reach = { "reach", "Peer-to-peer path", applies, run };
