// SPDX-License-Identifier: MIT
/*
 * check_kernel_log.c - errors since boot that only the kernel's log has: DMA that an IOMMU
 * stopped, a GPU's errors, paths that p2pdma refused, errors of a bus.
 */
#include <errno.h>
#include <string.h>

#include "doctor.h"

static const struct trouble {
	const char *words;
	const char *also;	/* words that must be there, too; NULL: none */
	enum verdict verdict;
	const char *consequence, *remedy;
} troubles[] = {
	{ "Request device [", "fault addr", VERDICT_BROKEN,
	  "the IOMMU has blocked DMA of this device: that data is lost, even if the driver saw success",
	  "have its driver use the addresses that the mapping gave (nvidia_p2p_dma_map_pages, dma_map_*), not physical ones; "
	  "or boot with iommu=pt" },
	{ "IO_PAGE_FAULT", NULL, VERDICT_BROKEN,
	  "the IOMMU has blocked DMA of this device: that data is lost, even if the driver saw success",
	  "have its driver use the addresses that the mapping gave (nvidia_p2p_dma_map_pages, dma_map_*), not physical ones; "
	  "or boot with iommu=pt" },
	{ "NVRM: Xid", "): 79,", VERDICT_BROKEN,
	  "the GPU has fallen off the bus: nothing reaches its memory until the next boot",
	  "look at its power, seat and temperature, and reboot" },
	{ "NVRM: Xid", NULL, VERDICT_UNKNOWN,
	  "the GPU had an error: transfers under way then have failed or ended; not known whether it still lasts",
	  "look the Xid's number up in NVIDIA's list" },
	{ "ACS redirect is set", NULL, VERDICT_SLOW,
	  "the kernel's p2pdma has refused a path, because ACS redirects it through the "
	 "host bridge",
	  "boot with the pci=disable_acs_redir= that the kernel's next message names" },
	{ "used for peer-to-peer DMA", NULL, VERDICT_SLOW,
	  "the kernel's p2pdma has refused a path: its users (NVMe with a GPU, "
	 "dma-buf between drivers) copy through the host or fail",
	 "use devices below one switch: peerdma topo" },
	{ "severity=Uncorrect", NULL, VERDICT_BROKEN, "the device's link had errors that lost data",
	  "reseat or replace the device, its riser or cable; see dmesg for the whole report" },
	{ "severity=Correct", NULL, VERDICT_SLOW,
	  "the device's link has errors, and repeats transfers",
	  "reseat or replace the device, its riser or cable" },
};
#define TROUBLES	(sizeof(troubles) / sizeof(troubles[0]))
#define LINES_KEPT	2000U

static const struct trouble *trouble_of(const char *line, size_t length)
{
	for (size_t i = 0; i < TROUBLES; i++) {
		const struct trouble *t = &troubles[i];

		if (memmem(line, length, t->words, strlen(t->words)) &&
		    (!t->also || memmem(line, length, t->also, strlen(t->also))))
			return t;
	}
	return NULL;
}

/* Nothing else of the log goes into a bundle. */
static bool keep(const char *line, size_t length, void *arg)
{
	unsigned int *kept = arg;

	return *kept < LINES_KEPT && trouble_of(line, length) && ++*kept;
}

/* "0000:03:00.0", or "03:00.0", or Xid's "PCI:0000:03:00": not as the end of a longer number. */
static bool names_device(const char *line, size_t length, const struct device *d)
{
	const char *shorter = d->name + strcspn(d->name, ":"), *at;
	char xid[PCI_NAME_MAX + 8] = "(PCI:";

	shorter += *shorter == ':';
	strncat(xid, d->name, strcspn(d->name, "."));
	strcat(xid, ")");
	if (memmem(line, length, d->name, strlen(d->name)) ||
	    memmem(line, length, xid, strlen(xid)))
		return true;
	at = memmem(line, length, shorter, strlen(shorter));
	return at && at > line && at[-1] == '[' && !strncmp(d->name, "0000:", 5);
}

static void look(struct doctor *d, const char *data, const struct trouble *t,
		 const struct device *device)
{
	const char *last = NULL;
	unsigned int count = 0;
	size_t last_length = 0;
	struct finding *f;

	for (const char *line = data; *line;) {
		size_t length = strcspn(line, "\n");

		if (names_device(line, length, device) && trouble_of(line, length) == t) {
			count++;
			last = line;
			last_length = length;
		}
		line += length + (line[length] == '\n');
	}
	if (!count)
		return;
	f = say_device(d, t->verdict, (unsigned int)(device - d->machine->devices), WAYS_PCI);
	evidence(d, f, TREE_LOG, "%.*s", last_length < 200 ? (int)last_length : 200, last);
	if (count > 1)
		evidence(d, f, TREE_LOG, "%s%u such messages since the kernel was booted",
			 count == LINES_KEPT ? "at least " : "", count);
	consequence(d, f, "%s", t->consequence);
	remedy(d, f, "%s", t->remedy);
}

static void run(struct doctor *d)
{
	unsigned int before = d->count, kept = 0;
	struct finding *f;
	const char *data;
	int ret = tree_log(d->tree, keep, &kept, &data);

	if (ret) {
		f = say(d, VERDICT_UNKNOWN, "this machine");
		evidence(d, f, TREE_LOG, "%s", strerror(-ret));
		consequence(d, f,
			    "not known whether the kernel has logged blocked DMA or GPU errors");
		remedy(d, f, ret == -ENOENT && !tree_is_live(d->tree) ? "capture the machine anew" :
		       ret == -ENOENT ? "pass " TREE_LOG
		       " into the container, or look on the host: dmesg | grep -e Xid -e DMAR" :
		       "run as root: kernel.dmesg_restrict keeps the log from others");
		return;
	}
	for (unsigned int i = 0; i < d->machine->count; i++) {
		for (size_t t = 0; device_concerned(d, i) && t < TROUBLES; t++)
			look(d, data, &troubles[t], &d->machine->devices[i]);
	}
	if (d->count > before)
		return;
	f = say(d, VERDICT_OK, "this machine");
	if (kept)
		evidence(d, f, TREE_LOG, "%u error messages, none about these devices", kept);
	else
		evidence(d, f, TREE_LOG, "no such message");
}

const struct check check_kernel_log = { "kernel-log", "What the kernel has noticed", NULL, run };
