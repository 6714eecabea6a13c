// SPDX-License-Identifier: MIT
/*
 * test_path_rules.c - which paths are allowed, on drawn machines.  The verdicts of Linux's
 * p2pdma were read off Linux 6.1 in virtual machines (one switch: distance 4; root ports:
 * -1, and allowed with an AMD Zen processor), or follow from its list of host bridges.
 */
#include "../cases.h"
#include "path/rules.h"

/*
 * One machine: functions by number, 0 is none.
 *
 *   1 root port --- 2 upstream --- 3 downstream --- 4 device, 10 its second function
 *                        |-------- 5 downstream --- 6 device
 *   7 root port --- 8 device
 *   9 integrated device
 */
static const unsigned char parents[] = { 0, 0, 1, 2, 3, 2, 5, 0, 7, 0, 3 };

static const void *node(unsigned int n)
{
	return n ? &parents[n] : NULL;
}

static unsigned int number(const void *function)
{
	return (unsigned int)((const unsigned char *)function - parents);
}

static const void *above(const void *context, const void *function)
{
	return node(parents[number(function)]);
}

static bool redirects(const void *context, const void *function)
{
	return *(const unsigned int *)context >> number(function) & 1;
}

struct way {
	unsigned int provider, client, redirecting;	/* bits of functions with ACS redirect */
	bool same, common, redirected;
	unsigned int by;
};

CASE(test_walk)
{
	static const struct way ways[] = {
		{ 4, 4, 0, true, true, false, 0 },
		{ 4, 6, 0, false, true, false, 0 },
		{ 6, 4, 0, false, true, false, 0 },
		{ 4, 10, 0, false, true, false, 0 },
		{ 4, 8, 0, false, false, false, 0 },
		{ 8, 9, 0, false, false, false, 0 },
		/* Each port on the way counts, the one where they meet and the ends too. */
		{ 4, 6, 1 << 3, false, true, true, 3 },
		{ 4, 6, 1 << 5, false, true, true, 5 },
		{ 4, 6, 1 << 2, false, true, true, 2 },
		{ 4, 6, 1 << 4, false, true, true, 4 },
		{ 4, 10, 1 << 10, false, true, true, 10 },
		{ 4, 4, 1 << 4, true, true, true, 4 },
		{ 4, 6, 1 << 3 | 1 << 5, false, true, true, 3 },
		/* The port above where they meet does not, and those of others neither. */
		{ 4, 6, 1 << 1 | 1 << 7 | 1 << 8, false, true, false, 0 },
		{ 4, 10, 1 << 2 | 1 << 5, false, true, false, 0 },
		/* Through the host bridge anyway: not asked. */
		{ 4, 8, 1 << 3 | 1 << 7, false, false, false, 0 },
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		const struct way *w = &ways[i];
		struct peerdma_path_tree tree = { &w->redirecting, above, redirects };
		struct peerdma_path_facts facts;
		const void *by;

		memset(&facts, 0x55, sizeof(facts));
		by = peerdma_path_walk(&tree, node(w->provider), node(w->client), &facts);
		if (facts.same_function != w->same || facts.common_port != w->common ||
		    facts.redirected != w->redirected || by != node(w->by))
			fail_msg("way %zu (%u to %u)", i, w->provider, w->client);
	}
}

#define REAL(n)		{ .found = true, .vendor = 0x8086, .device = (n) }
#define ROOT_PORT	{ .found = true, .vendor = 0x1b36, .device = 0x000c }
#define Q35		{ .found = true, .vendor = 0x8086, .device = 0x29c0, .subvendor = 0x1af4, .subdevice = 0x1100 }
#define ARM_VIRT	{ .found = true, .vendor = 0x1b36, .device = 0x0008, .subvendor = 0x1af4, .subdevice = 0x1100 }

#define BUS	PEERDMA_PATH_BUS_ADDRESS
#define THROUGH	PEERDMA_PATH_THROUGH_HOST_BRIDGE
#define NONE	PEERDMA_PATH_NOT_SUPPORTED

struct example {
	const char *name;
	struct peerdma_path_facts facts;
	enum peerdma_path_verdict verdict;
	enum peerdma_path_reason reason;
	/* What p2pdma of Linux says, where it says something else. */
	bool linux_differs;
	enum peerdma_path_verdict in_linux;
};

static const struct example examples[] = {
	{ "one switch, IOMMU off", { .common_port = true, .same_bridge = true, .provider_bridge = REAL(0x1234) },
	  BUS, PEERDMA_REASON_SWITCH, false, 0 },
	{ "one switch, IOMMU off, QEMU", { .common_port = true, .same_bridge = true, .provider_bridge = Q35, .emulated = true },
	  BUS, PEERDMA_REASON_SWITCH, false, 0 },
	{ "its own memory", { .same_function = true, .common_port = true, .same_bridge = true },
	  BUS, PEERDMA_REASON_SAME_FUNCTION, false, 0 },
	{ "its own memory, by way of an IOMMU", { .same_function = true, .common_port = true, .same_bridge = true, .translated = true },
	  NONE, PEERDMA_REASON_IOMMU, true, BUS },
	{ "one switch that redirects, bridge unknown", { .common_port = true, .redirected = true, .same_bridge = true,
	  .provider_bridge = REAL(0x1234) }, NONE, PEERDMA_REASON_ACS, false, 0 },
	{ "one switch that redirects, bridge known", { .common_port = true, .redirected = true, .same_bridge = true,
	  .provider_bridge = REAL(0x09a2) }, THROUGH, PEERDMA_REASON_BRIDGE, false, 0 },
	{ "one switch that redirects, bridge known for its own ports", { .common_port = true, .redirected = true, .same_bridge = true,
	  .provider_bridge = REAL(0x2f00) }, THROUGH, PEERDMA_REASON_BRIDGE, false, 0 },
	/* The trap: bus addresses would be lost in QEMU, and escape the IOMMU on real machines. */
	{ "one switch, translating IOMMU, QEMU", { .common_port = true, .same_bridge = true, .translated = true, .provider_bridge = Q35,
	  .emulated = true }, THROUGH, PEERDMA_REASON_EMULATED, true, BUS },
	{ "one switch, translating IOMMU, bridge known", { .common_port = true, .same_bridge = true, .translated = true,
	  .provider_bridge = REAL(0x2030) }, THROUGH, PEERDMA_REASON_BRIDGE, true, BUS },
	{ "one switch, translating IOMMU, bridge unknown", { .common_port = true, .same_bridge = true, .translated = true,
	  .provider_bridge = REAL(0x1234) }, NONE, PEERDMA_REASON_IOMMU, true, BUS },
	{ "one switch that redirects, translating IOMMU", { .common_port = true, .redirected = true, .same_bridge = true,
	  .translated = true, .provider_bridge = REAL(0x1234) }, NONE, PEERDMA_REASON_ACS, false, 0 },

	{ "root ports, bridge unknown", { .same_bridge = true, .provider_bridge = REAL(0x1234) },
	  NONE, PEERDMA_REASON_UNKNOWN_BRIDGE, false, 0 },
	{ "root ports, nothing first on the root bus", { .same_bridge = true }, NONE, PEERDMA_REASON_UNKNOWN_BRIDGE, false, 0 },
	{ "root ports, bridge unknown, translating IOMMU", { .same_bridge = true, .translated = true, .provider_bridge = REAL(0x1234) },
	  NONE, PEERDMA_REASON_UNKNOWN_BRIDGE, false, 0 },
	{ "root ports, q35 without QEMU's numbers", { .same_bridge = true, .emulated = true, .provider_bridge = REAL(0x29c0) },
	  NONE, PEERDMA_REASON_UNKNOWN_BRIDGE, false, 0 },
	{ "root ports, QEMU", { .same_bridge = true, .emulated = true, .provider_bridge = Q35 },
	  THROUGH, PEERDMA_REASON_EMULATED, true, NONE },
	{ "root ports, QEMU, translating IOMMU", { .same_bridge = true, .emulated = true, .translated = true, .provider_bridge = Q35 },
	  THROUGH, PEERDMA_REASON_EMULATED, true, NONE },
	{ "root ports, QEMU's Arm board", { .same_bridge = true, .emulated = true, .provider_bridge = ARM_VIRT },
	  THROUGH, PEERDMA_REASON_EMULATED, true, NONE },
	{ "root ports, QEMU, both passed through", { .same_bridge = true, .provider_bridge = Q35 },
	  NONE, PEERDMA_REASON_PASSED_THROUGH, false, 0 },
	{ "root ports, QEMU with a Zen processor", { .same_bridge = true, .amd = true, .cpu_family = 0x17, .provider_bridge = Q35 },
	  THROUGH, PEERDMA_REASON_PROCESSOR, false, 0 },
	{ "two sockets, QEMU", { .emulated = true, .provider_bridge = ROOT_PORT, .client_bridge = ROOT_PORT },
	  THROUGH, PEERDMA_REASON_EMULATED, true, NONE },

	{ "two bridges, both known", { .provider_bridge = REAL(0x2030), .client_bridge = REAL(0x2033) },
	  THROUGH, PEERDMA_REASON_BRIDGE, false, 0 },
	{ "two bridges, one unknown", { .provider_bridge = REAL(0x2030), .client_bridge = REAL(0x1234) },
	  NONE, PEERDMA_REASON_UNKNOWN_BRIDGE, false, 0 },
	{ "two bridges, the other unknown", { .provider_bridge = REAL(0x1234), .client_bridge = REAL(0x2030) },
	  NONE, PEERDMA_REASON_UNKNOWN_BRIDGE, false, 0 },
	{ "two bridges, one of which forwards within itself only", { .provider_bridge = REAL(0x2030), .client_bridge = REAL(0x3c00) },
	  NONE, PEERDMA_REASON_BRIDGES_APART, false, 0 },
	{ "one such bridge", { .same_bridge = true, .provider_bridge = REAL(0x3c01) }, THROUGH, PEERDMA_REASON_BRIDGE, false, 0 },
	{ "AMD since Zen, two bridges", { .amd = true, .cpu_family = 0x19 }, THROUGH, PEERDMA_REASON_PROCESSOR, false, 0 },
	{ "AMD before Zen", { .amd = true, .cpu_family = 0x15, .same_bridge = true, .provider_bridge = { .found = true, .vendor = 0x1022,
	  .device = 0x1450 } }, NONE, PEERDMA_REASON_UNKNOWN_BRIDGE, false, 0 },
	{ "another maker's family 0x17", { .cpu_family = 0x17, .same_bridge = true }, NONE, PEERDMA_REASON_UNKNOWN_BRIDGE, false, 0 },
	{ "Google's", { .same_bridge = true, .provider_bridge = { .found = true, .vendor = 0x1ae0, .device = 0xabcd } },
	  THROUGH, PEERDMA_REASON_BRIDGE, false, 0 },
};

/* The rule of p2pdma, by the facts of the same examples, without what is ours. */
static enum peerdma_path_verdict rule_of_linux(struct peerdma_path_facts facts)
{
	enum peerdma_path_reason reason;

	facts.emulated = false;
	if (facts.common_port && !facts.redirected)
		return BUS;
	facts.translated = false;
	reason = peerdma_path_decide(&facts);
	return peerdma_path_rule(reason)->verdict;
}

/*
 * Of memory with struct pages of p2pdma Linux's word is taken, but for the trap: QEMU loses what is
 * sent to bus addresses below a switch, where an IOMMU translates.
 */
CASE(test_pages)
{
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		const struct example *e = &examples[i];
		enum peerdma_path_reason reason = peerdma_path_decide_pages(&e->facts);
		const struct peerdma_path_rule *rule = peerdma_path_rule(reason);
		bool trap = e->facts.emulated && e->facts.translated && e->facts.common_port && !e->facts.redirected;

		if (rule->verdict != (trap ? NONE : e->linux_differs ? e->in_linux : e->verdict) ||
		    (reason == PEERDMA_REASON_BUS_LOST) != trap)
			fail_msg("%s: %s", e->name, rule->name);
		/* It does not know QEMU's bridges, nor what peerdma.ko does with an IOMMU. */
		if (reason == PEERDMA_REASON_EMULATED || reason == PEERDMA_REASON_PASSED_THROUGH || reason == PEERDMA_REASON_IOMMU)
			fail_msg("%s: %s", e->name, rule->name);
		if (e->facts.redirected && rule->verdict == NONE && reason != PEERDMA_REASON_ACS)
			fail_msg("%s: %s", e->name, rule->name);
	}
}

CASE(test_verdicts)
{
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		const struct example *e = &examples[i];
		enum peerdma_path_reason reason = peerdma_path_decide(&e->facts);
		const struct peerdma_path_rule *rule = peerdma_path_rule(reason);

		if (reason != e->reason || rule->verdict != e->verdict)
			fail_msg("%s: %s", e->name, rule->name);
		if (rule_of_linux(e->facts) != (e->linux_differs ? e->in_linux : e->verdict))
			fail_msg("%s: p2pdma says something else", e->name);
	}
}

/* Every bridge of Linux 7.2's list, at one host bridge and at two. */
CASE(test_list)
{
	static const struct { unsigned int device; bool apart; } intel[] = {
		{ 0x3c00, false }, { 0x3c01, false }, { 0x2f00, false }, { 0x2f01, false }, { 0x2030, true }, { 0x2031, true },
		{ 0x2032, true }, { 0x2033, true }, { 0x2020, true }, { 0x09a2, true }, { 0x0b25, true }, { 0x0cfe, true },
		{ 0x11fb, true }, { 0x1212, true }, { 0x1216, true }, { 0x4940, true }, { 0x4942, true }, { 0x4944, true },
		{ 0x4946, true }, { 0x4948, true },
	};

	for (size_t i = 0; i < sizeof(intel) / sizeof(intel[0]); i++) {
		struct peerdma_path_facts facts = { .provider_bridge = REAL(intel[i].device), .client_bridge = REAL(intel[i].device) };

		if (peerdma_path_decide(&facts) != (intel[i].apart ? PEERDMA_REASON_BRIDGE : PEERDMA_REASON_BRIDGES_APART))
			fail_msg("8086:%04x, two bridges", intel[i].device);
		facts.same_bridge = true;
		if (peerdma_path_decide(&facts) != PEERDMA_REASON_BRIDGE)
			fail_msg("8086:%04x", intel[i].device);
		facts.provider_bridge.vendor = 0x8087;
		if (peerdma_path_decide(&facts) != PEERDMA_REASON_UNKNOWN_BRIDGE)
			fail_msg("8087:%04x", intel[i].device);
	}
}

CASE(test_rules)
{
	for (int i = 0; i < PEERDMA_REASONS; i++) {
		const struct peerdma_path_rule *rule = peerdma_path_rule((enum peerdma_path_reason)i);

		assert_true(rule->name && *rule->name && rule->text && *rule->text && rule->remedy);
		/* A refused caller learns what to change; no other has to. */
		assert_int_equal(rule->verdict == NONE, *rule->remedy != 0);
	}
}

MAIN(NULL, NULL)
