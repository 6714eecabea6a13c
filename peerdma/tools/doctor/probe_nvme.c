// SPDX-License-Identifier: MIT
/*
 * probe_nvme.c - asks a drive's driver to read straight into a GPU's memory, as a program can ask it
 * (O_DIRECT), and says what it answers.  A drive is only read from, never written to.
 *
 * The kernel gives a drive only memory that has page structs.  A GPU's BAR has them where its
 * driver publishes it as p2pdma memory, which NVIDIA's does not by default; softgpu's has them, for
 * page views, with pages=generic.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peerdma.h"
#include "probe.h"
#include "storage.h"

#define BLOCK 4096U

struct drive {
	char node[64];		/* "/dev/nvme0n1" */
	int fd;
	unsigned char *block;	/* the first of it */
	char why[160];
	const char *remedy;	/* for that */
};

/* The drive's first namespace that is a block device. */
static bool find_node(struct doctor *d, const struct device *nvme, char node[64])
{
	const char *controllers, *names;
	char path[192];

	snprintf(path, sizeof(path), PCI_DEVICES "%s/nvme", nvme->name);
	if (tree_list(d->tree, path, &controllers))
		return false;
	for (; *controllers; controllers = tree_next(controllers)) {
		unsigned int number, space;
		char rest;

		snprintf(path, sizeof(path), PCI_DEVICES "%s/nvme/%.32s", nvme->name, controllers);
		if (tree_list(d->tree, path, &names))
			continue;
		for (; *names; names = tree_next(names)) {
			if (sscanf(names, "nvme%un%u%c", &number, &space, &rest) == 2) {
				snprintf(node, 64, "/dev/nvme%un%u", number, space);
				return true;
			}
		}
	}
	return false;
}

static bool open_drive(struct doctor *d, const struct device *nvme, struct drive *drive)
{
	ssize_t n;

	if (!find_node(d, nvme, drive->node)) {
		snprintf(drive->why, sizeof(drive->why),
			 "no block device of it: is its driver nvme?");
		drive->remedy = "modprobe nvme, and see dmesg";
		return false;
	}
	drive->fd = open(drive->node, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (drive->fd < 0) {
		snprintf(drive->why, sizeof(drive->why), "%s: %s", drive->node, strerror(errno));
		drive->remedy = "run as root: only root may read a drive's blocks";
		return false;
	}
	drive->block = aligned_alloc(BLOCK, BLOCK);
	if (!drive->block) {
		d->no_memory = true;
		return false;
	}
	n = pread(drive->fd, drive->block, BLOCK, 0);
	if (n == BLOCK)
		return true;
	snprintf(drive->why, sizeof(drive->why), "%s, into memory of the host: %s", drive->node,
		 n < 0 ? strerror(errno) : "too short");
	drive->remedy = "see dmesg for the drive's errors";
	return false;
}

/* Reads into `to`, which is the GPU's memory, and looks with CUDA for what came.  The finding where data was moved, or NULL: why. */
static struct finding *attempt(struct doctor *d, struct probe *p, const struct drive *drive,
			       void *to, const char *subject, const char *way, char why[96])
{
	struct finding *f;
	ssize_t n;
	bool same;

	/* Not what the drive has. */
	for (unsigned int i = 0; i < BLOCK; i++)
		p->got[i] = (unsigned char)~drive->block[i];
	if (!probe_did(p, p->cuda.to_gpu(p->memory, p->got, BLOCK), "cuMemcpyHtoD")) {
		snprintf(why, 96, "%.90s", p->why);
		return NULL;
	}
	n = pread(drive->fd, to, BLOCK, 0);
	if (n != BLOCK) {
		snprintf(why, 96, "pread with O_DIRECT: %s", n < 0 ? strerror(errno) : "too short");
		return NULL;
	}
	if (!probe_did(p, p->cuda.to_host(p->got, p->memory, BLOCK), "cuMemcpyDtoH")) {
		snprintf(why, 96, "%.90s", p->why);
		return NULL;
	}
	same = !memcmp(p->got, drive->block, BLOCK);
	f = say(d, same ? VERDICT_OK : VERDICT_BROKEN, "%s, read from the drive", subject);
	if (same)
		moved_compared(d, subject, way, "read from the drive", BLOCK, 0, 0);
	else
		moved(d, subject, way, "read from the drive", BLOCK, MOVED_DIFFERS,
		      "not all bytes are the drive's");
	evidence(d, f, drive->node, "pread with O_DIRECT reports success");
	evidence(d, f, "data", same ? "all %u bytes are the drive's" :
		 "not all of %u bytes are the drive's", BLOCK);
	if (!same) {
		consequence(d, f, "data is lost on the way, although success is reported");
		remedy(d, f, "see the findings about the IOMMU and ACS, and dmesg (DMAR, AMD-Vi: page faults)");
	}
	return f;
}

/* As a program can have the GPU's memory. */
enum { BY_CUDA, BY_PAGES, BY_VIEW, ACCESSES };
static const struct {
	const char *name, *into;
} accesses[ACCESSES] = {
	[BY_CUDA] = { "CUDA's address", "into CUDA's address" },
	[BY_PAGES] = { "a page view", "into a page view" },
	[BY_VIEW] = { "the CPU's view", "into the CPU's view of BAR1" },
};

static void refused(struct doctor *d, const struct device *gpu, const struct drive *drive,
		    const char *subject, char why[ACCESSES][96])
{
	struct finding *f = say(d, VERDICT_UNKNOWN, "%s", subject);
	char path[128];

	for (int way = 0; way < ACCESSES; way++)
		moved(d, subject, accesses[way].name, "", 0, MOVED_NOT_TAKEN, why[way]);
	evidence(d, f, drive->node, "into memory of the host: read");
	for (int way = 0; way < ACCESSES; way++)
		evidence(d, f, accesses[way].into, "%s", why[way]);
	snprintf(path, sizeof(path), PCI_DEVICES "%s/p2pmem/size", gpu->name);
	evidence_file(d, f, path);
	if (storage_p2pmem(d, gpu)) {
		consequence(d, f, "a program cannot have this drive read into the GPU's memory: it has struct pages of p2pdma (p2pmem), but the kernel "
			    "or peerdma.ko refuses the path between the two");
		remedy(d, f, "see the finding about the peer-to-peer path");
		return;
	}
	consequence(d, f, "a program cannot have this drive read into the GPU's memory: Linux's nvme driver takes pages, which this memory has none "
		    "of (p2pmem), and no dma-bufs; whether a driver of the GPU's maker could do it for files was not tried");
	remedy(d, f, "gdscheck -p, and gdsio -V, move data so and compare it, where GPUDirect Storage is installed");
}

/* Where the memory is in this way; NULL and why. */
static void *memory_by(struct probe *p, int way, const char *pci, struct peerdma **ctx,
		       char why[96])
{
	void *view = NULL;
	char *base = NULL;

	if (way == BY_CUDA)
		return (void *)(uintptr_t)p->memory;
	if (way == BY_PAGES ? probe_pages(p, pci, ctx, &base) : probe_view(p, ctx, &view))
		return way == BY_PAGES ? base : view;
	snprintf(why, 96, "not tried: %.80s", peerdma_last_error());
	return NULL;
}

static void with_gpu(struct doctor *d, struct probe *p, const struct device *gpu,
		     const struct device *nvme, const struct drive *drive, const char *subject)
{
	char why[ACCESSES][96] = { "" };
	bool did = false;

	for (int way = 0; !did && way < ACCESSES; way++) {
		struct peerdma *ctx = NULL;
		void *to = memory_by(p, way, nvme->name, &ctx, why[way]);

		did = to && attempt(d, p, drive, to, subject, accesses[way].name, why[way]);
		peerdma_close(ctx);
	}
	if (!did)
		refused(d, gpu, drive, subject, why);
}

static void one(struct doctor *d, const struct device *gpu, const struct device *nvme)
{
	struct drive drive = { .fd = -1 };
	struct finding *f;
	char subject[64];
	struct probe p;

	snprintf(subject, sizeof(subject), "%s and %s", gpu->label, nvme->label);
	if (!probe_begin(&p)) {
		d->no_memory = true;
	} else if (!open_drive(d, nvme, &drive) || !probe_open_gpu(&p, gpu)) {
		f = say(d, VERDICT_UNKNOWN, "%s", subject);
		evidence(d, f, drive.remedy ? "drive" : "CUDA", "%s",
			 drive.remedy ? drive.why : p.why);
		consequence(d, f, "nothing was read from the drive into the GPU's memory");
		remedy(d, f, "%s", drive.remedy ? drive.remedy : "see that CUDA works here");
	} else {
		with_gpu(d, &p, gpu, nvme, &drive, subject);
		probe_close_gpu(&p);
	}
	probe_end(&p);
	free(drive.block);
	if (drive.fd >= 0)
		close(drive.fd);
}

static bool applies(const struct doctor *d)
{
	return d->probe && any_of_kind(d, DEVICE_NVME);
}

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->pair_count; i++) {
		const struct device *a = &d->machine->devices[d->pairs[i].a],
			*b = &d->machine->devices[d->pairs[i].b];
		const struct device *gpu = pair_gpu(d, &d->pairs[i]), *other = gpu == a ? b : a;

		if (gpu && other->kind == DEVICE_NVME)
			one(d, gpu, other);
	}
}

const struct check check_probe_nvme = { "probe-nvme", "Data read by an NVMe drive", applies, run };
