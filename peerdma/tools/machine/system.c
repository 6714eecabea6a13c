// SPDX-License-Identifier: MIT
/*
 * system.c - what a machine is as a whole: its processor, whether a hypervisor runs it, whether it
 * hides its memory from one.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tool.h"
#include "machine.h"

#define CPUINFO		"/proc/cpuinfo"

static bool cpu_line(const char *line, size_t length, void *arg)
{
	static const char *const wanted[] = { "vendor_id", "cpu family", "model\t", "flags",
					      "CPU implementer", "CPU part", "cpu\t" };
	unsigned int *seen = arg;

	(void)length;
	for (unsigned int i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (!strncmp(line, wanted[i], strlen(wanted[i])) && !(*seen & 1U << i)) {
			*seen |= 1U << i;	/* of the first processor: they are all alike */
			return true;
		}
	}
	return false;
}

static const char *value_of(const char *data, const char *key)
{
	const char *s = strstr(data, key);

	s = s ? strchr(s, ':') : NULL;
	return s ? s + 1 + strspn(s + 1, " ") : NULL;
}

static bool has_flag(const char *data, const char *flag)
{
	const char *s = value_of(data, "flags"), *end;
	size_t length = strlen(flag);

	if (!s)
		return false;
	end = s + strcspn(s, "\n");
	for (s = strstr(s, flag); s && s < end; s = strstr(s + 1, flag)) {
		if (s[-1] == ' ' && (s[length] == ' ' || s[length] == '\n' || !s[length]))
			return true;
	}
	return false;
}

static int number_of(const char *data, const char *key, int base)
{
	const char *s = value_of(data, key);

	return s && isdigit((unsigned char)*s) ? (int)strtol(s, NULL, base) : -1;
}

static void read_names(struct machine *m, const char *data)
{
	const char *s = value_of(data, "vendor_id");

	m->arch = s ? ARCH_X86 : strstr(data, "CPU implementer") ? ARCH_ARM64 : ARCH_UNKNOWN;
	if (!s) {
		s = value_of(data, "cpu\t");
		if (s && !strncmp(s, "POWER", 5))
			m->arch = ARCH_POWER;
		else
			s = NULL;
	}
	if (s)
		tree_clean(m->cpu_vendor, sizeof(m->cpu_vendor), s, strcspn(s, "\n"));
}

static void set_confidential(struct machine *m, enum confidential is, const char *source,
			     const char *value)
{
	if (m->confidential)
		return;
	m->confidential = is;
	snprintf(m->confidential_source, sizeof(m->confidential_source), "%s", source);
	snprintf(m->confidential_value, sizeof(m->confidential_value), "%s", value);
}

/*
 * A guest's own flag, or AMD's, which a hypervisor shows only to a guest that has the feature.  On a
 * host they say what the processor can do.
 */
static void confidential_flags(struct machine *m, const char *data)
{
	static const char *const amd[] = { "sev_snp", "sev_es", "sev" };

	if (has_flag(data, "tdx_guest"))
		set_confidential(m, CONFIDENTIAL_GUEST, CPUINFO, "tdx_guest");
	for (size_t i = 0; m->virtual && i < sizeof(amd) / sizeof(amd[0]); i++) {
		if (has_flag(data, amd[i]))
			set_confidential(m, CONFIDENTIAL_GUEST, CPUINFO, amd[i]);
	}
}

static void read_processor(struct machine *m)
{
	unsigned int seen = 0;
	const char *data;

	m->cpu_family = m->cpu_model = m->cpu_part = -1;
	if (tree_lines(m->tree, CPUINFO, cpu_line, &seen, &data, NULL) || strlen(data) > 65536)
		return;
	read_names(m, data);
	m->cpu_family = number_of(data, "cpu family", 10);
	m->cpu_model = number_of(data, "model\t", 10);
	m->cpu_part = number_of(data, "CPU part", 16);
	m->virtual = has_flag(data, "hypervisor");
	confidential_flags(m, data);
}

static void read_nodes(struct machine *m)
{
	const char *names;

	if (tree_list(m->tree, "/sys/devices/system/node", &names))
		return;
	for (; *names; names = tree_next(names)) {
		if (!strncmp(names, "node", 4) && isdigit((unsigned char)names[4]))
			m->nodes++;
	}
}

/* Processors other than x86 have no flag for it: the firmware's words, by maker and product. */
static bool named_virtual(const struct machine *m)
{
	static const struct {
		const char *vendor, *product;	/* beginnings; "" any */
	} known[] = {
		{ "QEMU", "" }, { "", "KVM" }, { "Red Hat", "KVM" }, { "VMware", "" },
		{ "Xen", "" }, { "Microsoft Corporation", "Virtual Machine" },
		{ "Google", "Google Compute Engine" }, { "OpenStack", "" }, { "innotek", "" },
		{ "Amazon EC2", "" }, { "Alibaba Cloud", "" },
	};

	/* Clouds lend whole machines, too. */
	if (strstr(m->product, "metal"))
		return false;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (!strncmp(m->vendor, known[i].vendor, strlen(known[i].vendor)) &&
		    !strncmp(m->product, known[i].product, strlen(known[i].product)))
			return true;
	}
	return false;
}

/* Devices that the drivers of confidential guests make, and their hosts' setting. */
static void confidential_files(struct machine *m)
{
	static const char *const guest[] = {
		"/sys/class/misc/sev-guest", "/sys/class/misc/tdx_guest",
	};
	static const char snp[] = "/sys/module/kvm_amd/parameters/sev_snp";
	struct tree_node node;
	char word[8];

	for (size_t i = 0; i < sizeof(guest) / sizeof(guest[0]); i++) {
		if (tree_exists(m->tree, guest[i]))
			set_confidential(m, CONFIDENTIAL_GUEST, guest[i], "there");
	}
	if (!tree_node(m->tree, "/dev/sev-guest", &node) ||
	    !tree_node(m->tree, "/dev/tdx_guest", &node))
		set_confidential(m, CONFIDENTIAL_GUEST, "/dev", "sev-guest or tdx_guest");
	if (!m->virtual && !tree_word(m->tree, snp, word, sizeof(word)) && *word == 'Y')
		set_confidential(m, CONFIDENTIAL_SNP_HOST, snp, "Y");
}

void system_read(struct machine *m)
{
	struct tree *t = m->tree;
	struct tree_node node;
	const char *data;
	size_t length;
	char word[64];

	tree_word(t, "/proc/sys/kernel/osrelease", m->release, sizeof(m->release));
	tree_word(t, "/sys/class/dmi/id/sys_vendor", m->vendor, sizeof(m->vendor));
	tree_word(t, "/sys/class/dmi/id/product_name", m->product, sizeof(m->product));
	read_processor(m);
	if (!tree_word(t, "/sys/hypervisor/type", word, sizeof(word)) || named_virtual(m))
		m->virtual = true;
	if (!tree_read(t, "/proc/device-tree/compatible", &data, &length)) {
		m->tegra = memmem(data, length, "nvidia,tegra", strlen("nvidia,tegra"));
		m->virtual |= !!memmem(data, length, "linux,dummy-virt",
				       strlen("linux,dummy-virt"));
	}
	/* Its kernels are called so: "6.6.87.2-microsoft-standard-WSL2". */
	m->wsl = strstr(m->release, "microsoft") || !tree_node(t, "/dev/dxg", &node);
	m->virtual |= m->wsl;
	confidential_files(m);
	read_nodes(m);
	m->container = in_container(t);
}
