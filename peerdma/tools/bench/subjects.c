// SPDX-License-Identifier: MIT
/*
 * subjects.c - the memory that is measured, host and GPU, and the back-end that pins it.
 * softgpu's libcuda says what it is by its device's name.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "gpu.h"

static void gpu_find(struct bench *b)
{
	const char *off = getenv("PEERDMA_CUDA");

	if (off && !strcmp(off, "off")) {
		snprintf(b->why_no_gpu, sizeof(b->why_no_gpu), "PEERDMA_CUDA=off");
		return;
	}
	b->gpu = gpu_open(false, b->why_no_gpu, sizeof(b->why_no_gpu));
	snprintf(b->gpu_name, sizeof(b->gpu_name), "%s", gpu.name);
	b->software = !strncmp(b->gpu_name, "softgpu", strlen("softgpu"));
}

void subjects_open(struct bench *b)
{
	gpu_find(b);
	if (peerdma_open(&b->ctx, 0)) {
		b->ctx = NULL;
		snprintf(b->why_not, sizeof(b->why_not), "%s", peerdma_last_error());
	}
}

void subjects_close(struct bench *b)
{
	peerdma_close(b->ctx);
}

void *subject_alloc(bool device, size_t length)
{
	uint64_t address;
	void *p;

	/* Which context is current is each thread's own. */
	if (device)
		return gpu.set_current(gpu.context) || gpu.alloc(&address, length) ? NULL :
		       (void *)(uintptr_t)address;
	p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
		 -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

void subject_free(bool device, void *p, size_t length)
{
	if (device)
		gpu.free((uintptr_t)p);
	else
		munmap(p, length);
}

void subject_provider(struct bench *b, bool device, struct peerdma_region *region)
{
	char *provider = device ? b->device_provider : b->host_provider;
	struct peerdma_status status = { .size = sizeof(status) };

	if (!*provider && !peerdma_status(region, &status))
		snprintf(provider, sizeof(b->host_provider), "%s", status.provider);
}
