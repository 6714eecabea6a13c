// SPDX-License-Identifier: MIT
#include <string.h>
#include <unistd.h>

#include "surface.h"

static uint64_t host_bytes;
static uint64_t cpu_bytes;

static void *host(const struct surface *s)
{
	return (void *)(uintptr_t)s->addr;
}

struct place surface_place(const struct surface *s)
{
	return s->exported.dmabuf ? s->exported : (struct place){ .addr = s->addr };
}

static bool surface_of_gpu(struct surface *s, struct why *why)
{
	struct why ignored;

	if (!gpu_alloc(s->gpu, s->length, &s->addr, why))
		return false;
	if (!s->gpu->make->export ||
	    gpu_export(s->gpu, s->addr, s->length, &s->exported.dmabuf, &s->exported.addr, why))
		return true;
	surface_end(s, &ignored);
	return false;
}

bool surface_new(struct surface *s, const struct gpu *gpu, size_t length, struct why *why)
{
	*s = (struct surface){ .gpu = gpu, .length = length };
	if (gpu)
		return surface_of_gpu(s, why);
	s->addr = (uintptr_t)buffer_alloc(length);
	if (!s->addr) {
		why_set(why, "no host memory for %zu bytes", length);
		return false;
	}
	host_bytes += length;
	return true;
}

bool surface_end(struct surface *s, struct why *why)
{
	uint64_t addr = s->addr;

	if (!addr)
		return true;
	if (!s->gpu) {
		buffer_free(host(s), s->length);
		host_bytes -= s->length;
	}
	s->addr = 0;
	/* Importers of the dma-buf keep the memory. */
	if (s->exported.dmabuf)
		close(s->exported.dmabuf);
	s->exported = (struct place){ 0 };
	return !s->gpu || gpu_free(s->gpu, addr, why);
}

bool surface_write(const struct surface *s, const void *from, struct why *why)
{
	if (s->gpu)
		return gpu_write(s->gpu, s->addr, from, s->length, why);
	memcpy(host(s), from, s->length);
	cpu_bytes += s->length;
	return true;
}

bool surface_read(const struct surface *s, void *to, struct why *why)
{
	if (s->gpu)
		return gpu_read(s->gpu, to, s->addr, s->length, why);
	memcpy(to, host(s), s->length);
	cpu_bytes += s->length;
	return true;
}

uint64_t surface_host_bytes(void)
{
	return host_bytes;
}

uint64_t surface_cpu_bytes(void)
{
	return cpu_bytes;
}
