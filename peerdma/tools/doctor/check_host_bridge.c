// SPDX-License-Identifier: MIT
/*
 * check_host_bridge.c - does the processor forward between its ports what devices send each other?
 */
#include <string.h>

#include "doctor.h"

static bool through_host(const struct pair *p)
{
	return p->path == PATH_PHB || p->path == PATH_NODE || p->path == PATH_SYS;
}

static bool applies(const struct doctor *d)
{
	for (unsigned int i = 0; i < d->pair_count; i++) {
		if (through_host(&d->pairs[i]))
			return !d->machine->virtual;
	}
	return false;
}

/* What Linux's p2pdma trusts: AMD's from Zen on, and Intel's server processors, by the model numbers of theirs. */
static bool intel_server(int model)
{
	static const int models[] = {
		0x2d, 0x3e, 0x3f, 0x4f,		/* Sandy Bridge-EP to Broadwell-EP: only below one host bridge */
		0x55, 0x6a, 0x6c, 0x8f, 0xcf,	/* Skylake-SP to Emerald Rapids */
		0xad, 0xae, 0xaf,		/* Granite Rapids, Sierra Forest */
	};

	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		if (models[i] == model)
			return true;
	}
	return false;
}

static void run(struct doctor *d)
{
	const struct machine *m = d->machine;
	struct finding *f;

	if (!*m->cpu_vendor || m->cpu_family < 0) {
		f = say(d, VERDICT_UNKNOWN, "the processor");
		evidence(d, f, "/proc/cpuinfo", "names no maker and family");
		consequence(d, f, "whether its host bridges forward between devices is known for some x86 processors only");
		remedy(d, f, "ask the maker, or compare data after a transfer in each direction");
		return;
	}
	if ((!strcmp(m->cpu_vendor, "AuthenticAMD") || !strcmp(m->cpu_vendor, "HygonGenuine")) && m->cpu_family >= 0x17) {
		f = say(d, VERDICT_OK, "the processor");
		evidence(d, f, "/proc/cpuinfo", "%s, family %d: Zen or later", m->cpu_vendor, m->cpu_family);
		return;
	}
	if (!strcmp(m->cpu_vendor, "GenuineIntel") && m->cpu_family == 6 && intel_server(m->cpu_model)) {
		f = say(d, VERDICT_OK, "the processor");
		evidence(d, f, "/proc/cpuinfo", "%s, family 6, model %d: a server's", m->cpu_vendor, m->cpu_model);
		return;
	}
	f = say(d, VERDICT_UNKNOWN, "the processor");
	evidence(d, f, "/proc/cpuinfo", "%s, family %d, model %d", m->cpu_vendor, m->cpu_family, m->cpu_model);
	consequence(d, f, "its host bridges are not among those known to forward between devices; Intel's client processors forward writes and "
		    "not reads");
	remedy(d, f, "compare data after a transfer in each direction before trusting it, or use slots below one switch");
}

const struct check check_host_bridge = { "host-bridge", "Host bridge", applies, run };
