// SPDX-License-Identifier: MIT
/*
 * allocations.c - the allocations that a range of GPU memory is made of.  A framework that
 * maps memory side by side (PyTorch's expandable segments) has tens of them behind one
 * pointer, and each ends at a time of its own.
 *
 * NVIDIA's libcuda (580.159.04) looks at an allocation without a lock when it is asked about
 * it, and may crash if another thread unmaps it at that moment.  A program does not free what
 * a call of its own names, but may free the rest of a cache's region.  So CUDA is asked about
 * what the call names; about the rest only by cuMemGetAddressRange(), which was never seen to
 * crash (docs/real-gpu.md).  It tells whether an allocation is there, not which.
 */
#include <stdlib.h>

#include "internal.h"

static int unknown(uint64_t at, const struct peerdma_region *region, enum cuda_answer answer)
{
	if (at != region->addr)
		return fail(-ENXIO, "the range passes the end of its allocation, and no allocation follows at offset %llu; pin %llu "
			    "bytes at most", (unsigned long long)(at - region->addr), (unsigned long long)(at - region->addr));
	if (answer == CUDA_ABSENT)
		return fail(-ENODEV, "this process does not use CUDA");
	return fail(-ENXIO, "this is not CUDA memory");
}

/* The allocation at `at': base and length are the whole allocation's. */
static int ask(const struct peerdma_region *region, uint64_t at, struct peerdma_memory *m)
{
	const void *ptr = (const void *)(uintptr_t)at;
	enum cuda_answer answer;
	int error = 0;

	*m = (struct peerdma_memory){ .size = sizeof(*m) };
	answer = cuda_query(ptr, m, &error);
	if (answer == CUDA_FAILED)
		return fail(-EIO, "cuPointerGetAttributes failed with CUDA error %d", error);
	if (answer != CUDA_KNOWN && !hsa_query(ptr, m))
		return unknown(at, region, answer);
	if (m->kind == PEERDMA_KIND_HOST || at - m->base >= m->length)
		return fail(-ENXIO, "pins GPU memory only, and this is host memory");
	return 0;
}

static bool grow(struct allocation **found, size_t n)
{
	struct allocation *bigger;

	if (n & (n - 1))	/* there is room up to the next power of two */
		return true;
	bigger = realloc(*found, (n ? 2 * n : 1) * sizeof(*bigger));
	if (bigger)
		*found = bigger;
	return bigger;
}

int allocations_find(struct peerdma_region *region, bool *holes)
{
	uint64_t end = region->addr + region->length, next;
	struct allocation *found = NULL;
	struct peerdma_memory m;
	size_t n = 0;
	int ret = 0;

	for (uint64_t at = region->addr; at < end; at = next) {
		ret = ask(region, at, &m);
		if (!ret && !grow(&found, n))
			ret = fail(-ENOMEM, "out of memory");
		if (ret) {
			free(found);
			if (holes)
				*holes = n && ret == -ENXIO;
			return ret;
		}
		next = m.base + m.length < end ? m.base + m.length : end;
		found[n++] = (struct allocation){ .addr = at, .length = next - at, .id = m.buffer_id,
						  .kind = (enum peerdma_kind)m.kind };
	}
	for (size_t i = 0; n > 1 && i < n; i++) {
		if (cuda_range(found[i].addr, &found[i].base, &found[i].size) != CUDA_KNOWN)
			found[i].size = 0;
	}
	free(region->allocations);
	region->allocations = found;
	region->allocation_count = n;
	return 0;
}

/* The first that ends after the address. */
static size_t first_at(const struct peerdma_region *region, uint64_t addr)
{
	size_t from = 0, to = region->allocation_count;

	while (from < to) {
		size_t i = (from + to) / 2;

		if (region->allocations[i].addr + region->allocations[i].length > addr)
			to = i;
		else
			from = i + 1;
	}
	return from;
}

bool allocations_valid(const struct peerdma_region *region, uint64_t addr, uint64_t length)
{
	size_t i = first_at(region, addr);

	if (i == region->allocation_count)
		return false;
	for (; i < region->allocation_count && region->allocations[i].addr < addr + length; i++) {
		const struct allocation *p = &region->allocations[i];

		/* Within what was asked for: other allocations may be where this one was. */
		if (!cuda_has_id(p->addr > addr ? p->addr : addr, p->id))
			return false;
	}
	return true;
}

bool allocations_present(const struct peerdma_region *region, uint64_t addr, uint64_t length)
{
	for (size_t i = 0; region->allocation_count > 1 && i < region->allocation_count; i++) {
		const struct allocation *p = &region->allocations[i];
		uint64_t base, size;
		enum cuda_answer answer;

		if (!p->size || (p->addr < addr + length && p->addr + p->length > addr))
			continue;
		answer = cuda_range(p->addr, &base, &size);
		if (answer == CUDA_UNKNOWN || (answer == CUDA_KNOWN && (base != p->base || size != p->size)))
			return false;
	}
	return true;
}
