// SPDX-License-Identifier: MIT
/*
 * check_acs.c - do switch ports send peer-to-peer traffic up to the processor (ACS)?
 */
#include "doctor.h"

static bool applies(const struct doctor *d)
{
	for (unsigned int i = 0; i < d->pair_count; i++) {
		if (d->pairs[i].meet >= 0)
			return true;
	}
	return false;
}

#define BRIDGES_MAX 32

static void one(struct doctor *d, const struct pair *p)
{
	const struct machine *m = d->machine;
	const struct device *a = &m->devices[p->a], *b = &m->devices[p->b], *redirects = NULL, *unknown = NULL;
	int bridges[2 * BRIDGES_MAX];
	unsigned int n = path_bridges(m, p->a, p->meet, bridges, BRIDGES_MAX);
	struct finding *f;

	n += path_bridges(m, p->b, p->meet, bridges + n, BRIDGES_MAX);
	for (unsigned int i = 0; i < n; i++) {
		const struct device *bridge = &m->devices[bridges[i]];

		if (bridge->acs == ACS_REDIRECT)
			redirects = redirects ? redirects : bridge;
		else if (bridge->acs == ACS_UNKNOWN)
			unknown = unknown ? unknown : bridge;
	}
	if (redirects) {
		f = say(d, VERDICT_SLOW, "%s and %s", a->label, b->label);
		for (unsigned int i = 0; i < n; i++) {
			const struct device *bridge = &m->devices[bridges[i]];

			if (bridge->acs == ACS_REDIRECT)
				evidence(d, f, "ACS control", "%s: %#06x (redirects)", bridge->name, bridge->acs_control);
		}
		consequence(d, f, "what the devices send each other goes up to the processor and down again instead of through the switch; "
			    "where the processor does not forward it, it is lost");
		remedy(d, f, "turn ACS off in the firmware, or after each boot: for the switch ports named by --json, "
		       "setpci -s PORT ECAP_ACS+6.w=0000; not on a machine that gives devices to guests it does not trust");
	} else if (unknown) {
		f = say(d, VERDICT_UNKNOWN, "%s and %s", a->label, b->label);
		evidence(d, f, "config", "of %s no more than the first bytes can be read", unknown->name);
		consequence(d, f, "whether switch ports redirect (ACS) stands in what only root may read");
		remedy(d, f, "run 'peerdma doctor' as root");
	} else {
		f = say(d, VERDICT_OK, "%s and %s", a->label, b->label);
		evidence(d, f, "ACS control", "no bridge between them redirects (%u looked at)", n);
	}
}

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->pair_count; i++) {
		if (d->pairs[i].meet >= 0)
			one(d, &d->pairs[i]);
	}
}

const struct check check_acs = { "acs", "ACS on the way", applies, run };
