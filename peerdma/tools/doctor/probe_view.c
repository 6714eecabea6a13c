// SPDX-License-Identifier: MIT
/*
 * probe_view.c - the CPU writes to a GPU's memory through its BAR and reads it, beside CUDA's own
 * copies, and compares: what every pin rests on, with no peer in it.  And the memory as a dma-buf:
 * the GPU driver's half of that way; the other is the importer's.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "peerdma.h"
#include "peerdma_copy.h"
#include "peerdma_file.h"
#include "probe.h"

#define DMA_BUF_FD 1	/* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */

static void judge(struct doctor *d, const struct probe *p, const struct device *gpu,
		  const char *what, bool compared)
{
	unsigned int first = 0, wrong = compared ? probe_differ(p, &first) : 0;
	struct finding *f = say(d, !compared ? VERDICT_UNKNOWN : wrong ? VERDICT_BROKEN :
				VERDICT_OK, "%s, %s by the CPU through BAR1", gpu->label, what);
	char between[40];

	snprintf(between, sizeof(between), "%s and the CPU", gpu->label);
	if (compared)
		moved_compared(d, between, "BAR1", what, PROBE_LENGTH, wrong, first);
	else
		moved(d, between, "BAR1", what, PROBE_LENGTH, MOVED_NOT_COMPARED, p->why);
	if (!compared) {
		evidence(d, f, "cuMemcpy", "%s", p->why);
		consequence(d, f, "the data could not be compared");
	} else if (wrong) {
		evidence(d, f, "data", "%u of %u bytes differ, the first at %u", wrong,
			 PROBE_LENGTH, first);
		consequence(d, f, "BAR1 does not show the memory that CUDA uses: other devices cannot reach it either");
		remedy(d, f, "see the findings about BARs, and dmesg; reload the GPU's driver");
	} else {
		evidence(d, f, "data", "all %u bytes arrived as sent", PROBE_LENGTH);
	}
}

static void through_view(struct doctor *d, struct probe *p, const struct device *gpu, void *view)
{
	bool compared;

	probe_fill(p->sent, 5);
	peerdma_copy_to_view(view, p->sent, PROBE_LENGTH);
	peerdma_view_fence();
	memset(p->got, 0, PROBE_LENGTH);
	compared = probe_did(p, p->cuda.to_host(p->got, p->memory, PROBE_LENGTH), "cuMemcpyDtoH");
	judge(d, p, gpu, "written", compared);

	probe_fill(p->sent, 6);
	compared = probe_did(p, p->cuda.to_gpu(p->memory, p->sent, PROBE_LENGTH), "cuMemcpyHtoD");
	memset(p->got, 0, PROBE_LENGTH);
	if (compared)
		peerdma_copy_from_view(p->got, view, PROBE_LENGTH);
	judge(d, p, gpu, "read", compared);
}

bool probe_view(const struct probe *p, struct peerdma **ctx, void **view)
{
	struct peerdma_region *region = NULL;

	return !peerdma_open(ctx, PEERDMA_OPEN_CUDA | PEERDMA_OPEN_DIRECT) &&
	       !peerdma_pin(*ctx, (void *)(uintptr_t)p->memory, PROBE_MEMORY, PEERDMA_DEVICE, NULL,
			    &region) &&
	       !peerdma_cpu_view(region, view);
}

bool probe_pages(const struct probe *p, const char *pci, struct peerdma **ctx, char **base)
{
	struct peerdma_status status = { .size = sizeof(status) };
	struct peerdma_region *region = NULL;
	void *view;
	int fd;

	if (peerdma_open(ctx, PEERDMA_OPEN_CUDA | PEERDMA_OPEN_DIRECT) ||
	    peerdma_pin(*ctx, (void *)(uintptr_t)p->memory, PROBE_MEMORY, PEERDMA_DEVICE, NULL,
			&region) ||
	    peerdma_status(region, &status) || peerdma_page_view(region, 0, 0, 0, pci, &fd))
		return false;
	view = mmap(NULL, status.pinned_length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	*base = view == MAP_FAILED ? NULL : (char *)view + (p->memory - status.pinned_addr);
	return *base;
}

static void cpu_view(struct doctor *d, struct probe *p, const struct device *gpu)
{
	struct peerdma *ctx = NULL;
	void *view = NULL;
	struct finding *f;

	if (!probe_view(p, &ctx, &view)) {
		f = say(d, VERDICT_UNKNOWN, "%s, by the CPU through BAR1", gpu->label);
		evidence(d, f, "libpeerdma", "%s", peerdma_last_error());
		consequence(d, f, "whether BAR1 leads to the GPU's memory was not tried");
		remedy(d, f, "modprobe -a peerdma peerdma_nvidia");
	} else {
		through_view(d, p, gpu, view);
	}
	peerdma_close(ctx);
}

static void dma_buf(struct doctor *d, struct probe *p, const struct device *gpu)
{
	bool told = p->cuda.get_handle;
	struct finding *f;
	int fd = -1;

	if (told)
		told = probe_did(p, p->cuda.get_handle(&fd, p->memory, PROBE_MEMORY, DMA_BUF_FD, 0),
				 "cuMemGetHandleForAddressRange");
	else
		snprintf(p->why, sizeof(p->why),
			 "libcuda.so.1 has no cuMemGetHandleForAddressRange");
	f = say(d, told ? VERDICT_OK : VERDICT_UNKNOWN, "%s, as a dma-buf", gpu->label);
	if (told) {
		evidence(d, f, "cuMemGetHandleForAddressRange", "a dma-buf of %lld bytes",
			 (long long)lseek(fd, 0, SEEK_END));
		consequence(d, f, "the GPU's driver can export it; only an importing driver can show that a device can use it");
		close(fd);
	} else {
		evidence(d, f, "CUDA", "%s", p->why);
		consequence(d, f, "network adapters need a peer-memory client (nvidia-peermem) to reach this GPU");
	}
}

static void one(struct doctor *d, const struct device *gpu)
{
	struct finding *f;
	struct probe p;

	if (!probe_begin(&p)) {
		d->no_memory = true;
	} else if (probe_open_gpu(&p, gpu)) {
		cpu_view(d, &p, gpu);
		dma_buf(d, &p, gpu);
		probe_close_gpu(&p);
	} else {
		f = say(d, VERDICT_UNKNOWN, "%s, by the CPU through BAR1", gpu->label);
		evidence(d, f, "probe", "%s", p.why);
		consequence(d, f, "no data was moved");
		remedy(d, f, "see that CUDA works here");
	}
	probe_end(&p);
}

static bool applies(const struct doctor *d)
{
	return d->probe && any_of_kind(d, DEVICE_GPU);
}

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		if (d->machine->devices[i].kind == DEVICE_GPU && device_concerned(d, i))
			one(d, &d->machine->devices[i]);
	}
}

const struct check check_probe_view = { "probe-view", "A GPU's memory, tried without a peer",
					applies, run };
