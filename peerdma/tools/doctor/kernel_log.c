// SPDX-License-Identifier: MIT
/*
 * kernel_log.c - see kernel_log.h.
 *
 * The texts of NVIDIA's messages are those of open-gpu-kernel-modules 595.45.04 (kernel-open/nvidia/nv-p2p.c and nv-dmabuf.c,
 * kernel-open/nvidia-peermem/nvidia-peermem.c, src/nvidia/src/kernel/gpu/bus/arch/hopper/kern_bus_gh100.c), gdrdrv's those of
 * gdrcopy 2.5 (src/gdrdrv/gdrdrv.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pci.h"
#include "kernel_log.h"

#define BLOCKED		"the IOMMU has blocked DMA of this device: that data is lost, even if the driver saw success"
#define OWN_ADDRESSES	"have its driver use the addresses that the mapping gave (nvidia_p2p_dma_map_pages, dma_map_*), not physical ones; " \
			"or boot with iommu=pt"

const struct trouble troubles[] = {
	{ "Request device [", { "fault addr" }, VERDICT_BROKEN, WAYS_PCI, .fault = true,
	  .consequence = BLOCKED, .remedy = OWN_ADDRESSES },
	{ "IO_PAGE_FAULT", { NULL }, VERDICT_BROKEN, WAYS_PCI, .fault = true,
	  .consequence = BLOCKED, .remedy = OWN_ADDRESSES },
	{ "F_TRANSLATION", { "client:" }, VERDICT_BROKEN, WAYS_PCI, .fault = true,
	  .consequence = BLOCKED, .remedy = OWN_ADDRESSES },
	{ "NVRM: Xid", { "): 79," }, VERDICT_BROKEN, WAYS_ALL, .hardware = true,
	  .consequence = "the GPU has fallen off the bus: nothing reaches its memory until the next boot",
	  .remedy = "look at its power, seat and temperature, and reboot" },
	/* NVIDIA's "XID Errors": what the programs on a GPU do wrong, and the end of those that met another's error */
	{ "NVRM: Xid", { "): 13,", "): 31,", "): 43,", "): 45,", "): 68,", "): 69," }, VERDICT_OK,
	  WAYS_PCI,
	  .consequence = "a program on the GPU had an error and ended; the GPU works on" },
	{ "NVRM: Xid", { NULL }, VERDICT_UNKNOWN, WAYS_PCI,
	  .consequence = "the GPU had an error: transfers under way then have failed or ended; not known whether it still lasts",
	  .remedy = "look the Xid's number up in NVIDIA's list" },
	{ "NVRM: ", { "address or length are not aligned", "address not aligned" }, VERDICT_OK,
	  WAY(WAY_NVP2P),
	  .subject = "NVIDIA's driver",
	  .consequence = "a driver asked for GPU memory that does not begin and end at a multiple of 64 KiB: that pin failed with "
			 "\"Invalid argument\"",
	  .remedy = "update the program or driver that asked, or have it round addresses and lengths to 64 KiB" },
	{ "NVRM: ", { "The peer DMA address" }, VERDICT_BROKEN, WAY(WAY_P2PDMA),
	  .subject = "NVIDIA's driver",
	  .consequence = "GPUs do not reach each other over PCI Express: the IOMMU gave a GPU's BAR1 an address that the driver does not take; "
			 "cudaDeviceEnablePeerAccess() fails",
	  .remedy = "boot with iommu=pt, so that devices use the addresses of the bus" },
	{ "NVRM: ", { "topology not supported for dma-buf" }, VERDICT_UNKNOWN, WAY(WAY_DMABUF),
	  .subject = "NVIDIA's driver",
	  .consequence = "it has refused an importer of a GPU's dma-buf, for the path between them; the message does not say which device it was",
	  .remedy = "use devices near each other: peerdma topo" },
	{ "NVRM: ", { "importer unable to handle MMIO" }, VERDICT_OK, WAY(WAY_DMABUF),
	  .subject = "NVIDIA's driver",
	  .consequence = "it has refused a driver that takes only dma-bufs with struct pages" },
	/* nv_peer_memory's issue 112: drivers before R510, but for R470 since May 2021 */
	{ "nv_get_p2p_free_callback", { "invalid page_table" }, VERDICT_UNKNOWN, WAY(WAY_PEERMEM),
	  .subject = "the peer-memory client",
	  .consequence = "memory was freed while its registration ended, which releases of NVIDIA's driver before 510 do not bear",
	  .remedy = "update NVIDIA's driver" },
	{ "NVRM: Invalid page table allocation", { NULL }, VERDICT_OK, WAY(WAY_NVP2P),
	  .subject = "NVIDIA's driver",
	  .consequence = "a driver asked for more memory at a time than there is: that call failed" },
	{ "gdrdrv:", { "No address space left for BAR1" }, VERDICT_OK, WAY(WAY_NVP2P),
	  .subject = "gdrdrv",
	  .consequence = "BAR1 was full when a program pinned memory for gdrcopy",
	  .remedy = "'peerdma bar1' shows who holds it" },
	{ "gdrdrv:", { "failed [ret", "page-aligned" }, VERDICT_OK, WAY(WAY_NVP2P),
	  .subject = "gdrdrv",
	  .consequence = "a program's pin or mapping for gdrcopy failed" },
	{ "ACS redirect is set", { NULL }, VERDICT_SLOW, WAYS_PCI,
	  .consequence = "the kernel's p2pdma has refused a path, because ACS redirects it through the "
			 "host bridge",
	  .remedy = "boot with the pci=disable_acs_redir= that the kernel's next message names" },
	{ "used for peer-to-peer DMA", { NULL }, VERDICT_SLOW, WAYS_PCI,
	  .consequence = "the kernel's p2pdma has refused a path: its users (NVMe with a GPU, "
			 "dma-buf between drivers) copy through the host or fail",
	  .remedy = "use devices below one switch: peerdma topo" },
	{ "severity=Uncorrect", { NULL }, VERDICT_BROKEN, WAYS_PCI, .hardware = true,
	  .consequence = "the device's link had errors that lost data",
	  .remedy = "reseat or replace the device, its riser or cable; see dmesg for the whole report" },
	{ "severity=Correct", { NULL }, VERDICT_SLOW, WAYS_PCI, .hardware = true,
	  .consequence = "the device's link has errors, and repeats transfers",
	  .remedy = "reseat or replace the device, its riser or cable" },
	{ .words = NULL },
};

static bool has(const char *line, size_t length, const char *words)
{
	return memmem(line, length, words, strlen(words));
}

static bool fits(const struct trouble *t, const char *line, size_t length)
{
	if (!has(line, length, t->words))
		return false;
	for (size_t i = 0; t->also[i]; i++) {
		if (has(line, length, t->also[i]))
			return true;
	}
	return !t->also[0];
}

const struct trouble *trouble_of(const char *line, size_t length)
{
	for (const struct trouble *t = troubles; t->words; t++) {
		if (fits(t, line, length))
			return t;
	}
	return NULL;
}

/* ---- what else is asked of the log ---- */

/* Modules that are built for symbols of others: the kernel refuses one that was built for other ones. */
static const char *const built_for_others[] = {
	"nvidia_peermem", "nv_peer_mem", "gdrdrv", "nvidia_fs",
};
#define ENCRYPTION	"Memory Encryption Features active"

static bool is_refusal(const char *line, size_t length, const char *module)
{
	char prefix[48];

	snprintf(prefix, sizeof(prefix), "%s: ", module);
	return has(line, length, prefix) &&
	       (has(line, length, "disagrees about version of symbol") ||
		has(line, length, "Unknown symbol"));
}

static bool keep(const char *line, size_t length, void *arg)
{
	unsigned int *kept = arg;
	bool wanted = trouble_of(line, length) || has(line, length, ENCRYPTION);

	for (size_t i = 0; i < sizeof(built_for_others) / sizeof(built_for_others[0]); i++)
		wanted |= is_refusal(line, length, built_for_others[i]);
	return wanted && *kept < LOG_LINES_KEPT && ++*kept;
}

int kernel_log(struct doctor *d, const char **data)
{
	unsigned int kept = 0;

	return tree_log(d->tree, keep, &kept, data);
}

bool log_module_failed(struct doctor *d, const char *module, char out[200])
{
	const char *data;
	bool any = false;

	if (module_loaded(d, module) || kernel_log(d, &data))
		return false;
	for (const char *line = data; *line;) {
		size_t length = strcspn(line, "\n");

		/* The first one names the symbol that matters; those after it follow from that. */
		if (!any && is_refusal(line, length, module)) {
			tree_clean(out, 200, line, length);
			any = true;
		}
		line += length + (line[length] == '\n');
	}
	return any;
}

bool log_encrypted_guest(struct doctor *d, char out[64])
{
	const char *data, *s;

	if (kernel_log(d, &data))
		return false;
	s = strstr(data, ENCRYPTION);
	s = s ? strchr(s, ':') : NULL;
	if (!s)
		return false;
	s += 1 + strspn(s + 1, " ");
	tree_clean(out, 64, s, strcspn(s, "\n"));
	/* "AMD SME" alone is a host's. */
	return strstr(out, "SEV") || strstr(out, "TDX");
}

/* ---- whom a message names ---- */

#define ADDRESS		"0123456789abcdefABCDEF:."

/* "0000:03:00.0" anywhere, "[03:00.0]" or "=03:00.0", and Xid's "PCI:0000:03:00". */
static bool address_at(const char *line, const char *token, size_t length, char out[PCI_NAME_MAX])
{
	char text[40];
	const char *s = token;

	while (length && strchr(":.", *s))
		s++, length--;
	while (length && strchr(":.", s[length - 1]))
		length--;
	if (length < 7 || length > 20)
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)length, s);
	if (pci_name(text, out) && !strcmp(text, out))
		return true;
	/* The token begins with the C of "PCI" in no case: I is no digit. */
	if (s - line > 4 && !memcmp(s - 4, "PCI:", 4))
		snprintf(text, sizeof(text), "%.*s.0", (int)length, s);
	else if (s > line && (s[-1] == '[' || s[-1] == '='))
		snprintf(text, sizeof(text), "0000:%.*s", (int)length, s);
	else
		return false;
	return pci_name(text, out) && !strcmp(text, out);
}

unsigned int log_devices(const struct machine *m, const char *line, size_t length,
			 int out[LOG_NAMES_MAX])
{
	char name[PCI_NAME_MAX];
	unsigned int n = 0;

	for (const char *s = line, *end = line + length; s < end && n < LOG_NAMES_MAX;) {
		size_t token = strspn(s, ADDRESS);

		if (token > (size_t)(end - s))
			token = (size_t)(end - s);
		if (token && memchr(s, ':', token) && address_at(line, s, token, name)) {
			int device = machine_find(m, name);
			bool before = device < 0;

			for (unsigned int i = 0; i < n; i++)
				before |= out[i] == device;
			if (!before)
				out[n++] = device;
		}
		s += token ? token : 1;
	}
	return n;
}

bool log_fault(const char *line, size_t length, uint64_t *address)
{
	/* Intel's, AMD's, ARM's */
	static const char *const words[] = { "fault addr ", "address=", "iova: " };
	char *end, digits[32];
	const char *s;
	ptrdiff_t left;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		s = memmem(line, length, words[i], strlen(words[i]));
		if (!s)
			continue;
		s += strlen(words[i]);
		left = line + length - s;
		snprintf(digits, sizeof(digits), "%.*s", (int)(left < 31 ? left : 31), s);
		*address = strtoull(digits, &end, 16);
		return end != digits;
	}
	return false;
}
