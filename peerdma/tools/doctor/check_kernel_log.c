// SPDX-License-Identifier: MIT
/*
 * check_kernel_log.c - errors since boot that only the kernel's log has: DMA that an IOMMU
 * stopped, a GPU's errors, paths that p2pdma refused, errors of a bus, modules that did not load.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_log.h"

/* Messages of one kind about one device. */
struct hit {
	const struct trouble *trouble;
	int device;			/* -1: they name none */
	int gpu;			/* in whose BAR the blocked address is; -1: in none's */
	unsigned int count;
	const char *last;
	size_t length;
};

struct hits {
	struct hit *hits;
	unsigned int count, room;
};

static void count(struct doctor *d, struct hits *h, const struct hit *new)
{
	for (unsigned int i = 0; i < h->count; i++) {
		struct hit *old = &h->hits[i];

		if (old->trouble != new->trouble || old->device != new->device ||
		    old->gpu != new->gpu)
			continue;
		old->count++;
		old->last = new->last;
		old->length = new->length;
		return;
	}
	if (h->count == h->room) {
		unsigned int room = h->room ? h->room * 2 : 16;
		struct hit *bigger = realloc(h->hits, room * sizeof(bigger[0]));

		if (!bigger) {
			d->no_memory = true;
			return;
		}
		h->hits = bigger;
		h->room = room;
	}
	h->hits[h->count] = *new;
	h->hits[h->count++].count = 1;
}

/* The GPU in whose BAR the address is that an IOMMU has blocked. */
static int gpu_at(const struct doctor *d, const char *line, size_t length)
{
	const struct machine *m = d->machine;
	uint64_t address;

	if (!log_fault(line, length, &address))
		return -1;
	for (unsigned int i = 0; i < m->count; i++) {
		const struct device *g = &m->devices[i];

		for (unsigned int bar = 0; g->kind == DEVICE_GPU && bar < PCI_BARS; bar++) {
			const struct pci_bar *b = &g->bars.bars[bar];

			if (g->has_bars && b->length && !b->unset && address >= b->start &&
			    address - b->start < b->length && device_concerned(d, i))
				return (int)i;
		}
	}
	return -1;
}

static void look(struct doctor *d, struct hits *h, const char *line, size_t length)
{
	struct hit hit = { .trouble = trouble_of(line, length), .device = -1, .gpu = -1,
			   .last = line, .length = length };
	int devices[LOG_NAMES_MAX];
	unsigned int n;

	if (!hit.trouble)
		return;
	if (hit.trouble->subject) {
		count(d, h, &hit);
		return;
	}
	if (hit.trouble->fault)
		hit.gpu = gpu_at(d, line, length);
	n = log_devices(d->machine, line, length, devices);
	for (unsigned int i = 0; i < n; i++) {
		hit.device = devices[i];
		if (device_concerned(d, (unsigned int)hit.device) || hit.gpu >= 0)
			count(d, h, &hit);
	}
}

static bool is_pair(const struct doctor *d, int a, int b)
{
	for (unsigned int i = 0; i < d->pair_count; i++) {
		const struct pair *p = &d->pairs[i];

		if (((int)p->a == a && (int)p->b == b) || ((int)p->a == b && (int)p->b == a))
			return true;
	}
	return false;
}

/* "CARD0", or of what is in no matrix the address and the name. */
static const char *name_of(const struct device *x, char buf[160])
{
	if (*x->label)
		return x->label;
	snprintf(buf, 160, "%s (%s)", x->name, x->title);
	return buf;
}

/* A device whose DMA was to reach a GPU's memory, and did not.  Of a pair that is no path here it counts by itself. */
static struct finding *say_missed(struct doctor *d, const struct hit *h)
{
	const struct machine *m = d->machine;
	const struct device *g = &m->devices[h->gpu];
	char buf[160];
	const char *name = name_of(&m->devices[h->device], buf);
	struct finding *f = say(d, VERDICT_BROKEN, "%s and %s", name, g->label);

	if (is_pair(d, h->device, h->gpu)) {
		f->device = h->device;
		f->other = h->gpu;
		f->ways = WAYS_PCI;
	}
	evidence(d, f, "resource", "the address is in a BAR of %s", g->name);
	consequence(d, f, "the IOMMU has blocked DMA of %s to the memory of %s: that data is lost, even if the driver saw success",
		    name, g->label);
	remedy(d, f, "have the driver of %s use the addresses that the mapping gave (nvidia_p2p_dma_map_pages, dma_map_*), not physical ones%s",
	       name, m->confidential == CONFIDENTIAL_SNP_HOST ? "" : "; or boot with iommu=pt");
	return f;
}

static struct finding *say_trouble(struct doctor *d, const struct hit *h)
{
	const struct trouble *t = h->trouble;
	struct finding *f;

	if (t->subject) {
		/* All such messages are of NVIDIA's driver and of modules that call it. */
		f = say_maker(d, t->verdict, VENDOR_NVIDIA, t->ways, "%s", t->subject);
	} else {
		f = say_device(d, t->verdict, (unsigned int)h->device, t->ways);
	}
	consequence(d, f, "%s", t->consequence);
	if (t->remedy && t->hardware)
		remedy_owner(d, f, "another machine: this one's hardware has errors", "%s", t->remedy);
	else if (t->remedy && t->fault && d->machine->confidential == CONFIDENTIAL_SNP_HOST)
		remedy(d, f, "%.*s", (int)(strstr(t->remedy, "; or boot") - t->remedy), t->remedy);
	else if (t->remedy)
		remedy(d, f, "%s", t->remedy);
	return f;
}

static void tell(struct doctor *d, const struct hit *h)
{
	struct finding *f = h->gpu >= 0 ? say_missed(d, h) : say_trouble(d, h);

	evidence(d, f, TREE_LOG, "%.*s", h->length < 200 ? (int)h->length : 200, h->last);
	if (h->count > 1)
		evidence(d, f, TREE_LOG, "%s%u such messages since the kernel was booted",
			 h->count == LOG_LINES_KEPT ? "at least " : "", h->count);
}

/* By device, then by what it is. */
static int by_device(const void *a, const void *b)
{
	const struct hit *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return x->trouble < y->trouble ? -1 : x->trouble > y->trouble;
}

/* Those of peer-memory clients are told with them. */
static void refused_modules(struct doctor *d)
{
	static const struct {
		const char *module, *lacks;
	} modules[] = {
		{ "gdrdrv", "gdrcopy does not work" },
		{ "nvidia_fs", "GPUDirect Storage goes through host memory, or by the kernel's p2pdma" },
	};
	char line[200];

	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		struct finding *f;

		if (!log_module_failed(d, modules[i].module, line))
			continue;
		f = say(d, VERDICT_BROKEN, "%s", modules[i].module);
		f->ways = WAYS_ALL;
		f->device = NO_DEVICE;
		evidence(d, f, TREE_LOG, "%s", line);
		consequence(d, f, "it was built for another release of the driver or the kernel, and did not load: %s", modules[i].lacks);
		remedy(d, f, "build it again for this kernel and this driver (dkms install), and modprobe %s", modules[i].module);
	}
}

static void unreadable(struct doctor *d, int error)
{
	struct finding *f = say(d, VERDICT_UNKNOWN, "this machine");

	evidence(d, f, TREE_LOG, "%s", strerror(-error));
	consequence(d, f, "not known whether the kernel has logged blocked DMA or GPU errors");
	remedy(d, f, error == -ENOENT && !tree_is_live(d->tree) ? "capture the machine anew" :
	       error == -ENOENT ? "pass " TREE_LOG " into the container" :
	       "run as root: kernel.dmesg_restrict keeps the log from others");
}

static void run(struct doctor *d)
{
	unsigned int before = d->count, kept = 0;
	struct hits h = { 0 };
	struct finding *f;
	const char *data;
	int ret = kernel_log(d, &data);

	if (ret) {
		unreadable(d, ret);
		return;
	}
	for (const char *line = data; *line; kept++) {
		size_t length = strcspn(line, "\n");

		look(d, &h, line, length);
		line += length + (line[length] == '\n');
	}
	if (h.count)
		qsort(h.hits, h.count, sizeof(h.hits[0]), by_device);
	for (unsigned int i = 0; i < h.count; i++)
		tell(d, &h.hits[i]);
	free(h.hits);
	refused_modules(d);
	if (d->count > before)
		return;
	f = say(d, VERDICT_OK, "this machine");
	if (kept)
		evidence(d, f, TREE_LOG, "%u messages, none about these devices", kept);
	else
		evidence(d, f, TREE_LOG, "no such message");
}

const struct check check_kernel_log = { "kernel-log", "What the kernel has noticed", NULL, run };
