// SPDX-License-Identifier: MIT
/*
 * allocations.c - the allocations that make up a range of GPU memory. A framework that maps memory
 * side by side (PyTorch's expandable segments) may have tens of allocations behind one pointer, and
 * each may be freed at another time.
 *
 * NVIDIA's libcuda (580.159.04) reads an allocation without a lock when it is queried, and may
 * crash if another thread unmaps the allocation at that moment. A program does not free the memory
 * that its own call names, but it may free other parts of a cache's region. So the library queries
 * CUDA for the memory that the call names. For the other parts it uses only cuMemGetAddressRange(),
 * which was never seen to crash (docs/real-gpu.md). That call shows whether an allocation exists,
 * but not whether it is the same one.
 */
#include <stdlib.h>

#include "internal.h"

static int unknown(uint64_t at, const struct peerdma_region *region, enum cuda_answer answer)
{
	if (at != region->addr)
		return fail(-ENXIO,
			    "the range passes the end of its allocation, and no allocation follows at offset %llu; pin %llu "
			    "bytes at most",
			    (unsigned long long)(at - region->addr),
			    (unsigned long long)(at - region->addr));
	if (answer == CUDA_ABSENT)
		return fail(-ENODEV, "this process does not use CUDA");
	return fail(-ENXIO, "this is not CUDA memory");
}

/* Queries the allocation at `at`. base and length describe the whole allocation. */
static int query(const struct peerdma_region *region, uint64_t at, struct peerdma_memory *m)
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

	if (n & (n - 1))	/* the array always has room up to the next power of two */
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
		ret = query(region, at, &m);
		if (!ret && !grow(&found, n))
			ret = fail(-ENOMEM, "out of memory");
		if (ret) {
			free(found);
			if (holes)
				*holes = n && ret == -ENXIO;
			return ret;
		}
		next = m.base + m.length < end ? m.base + m.length : end;
		found[n++] = (struct allocation){ .addr = at,
						  .length = next - at,
						  .id = m.buffer_id,
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

/* The index of the first allocation that ends after the address. */
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

		/*
		 * Query an address inside the requested range: other allocations may be at this
		 * one's other addresses.
		 */
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
		if (answer == CUDA_UNKNOWN ||
		    (answer == CUDA_KNOWN && (base != p->base || size != p->size)))
			return false;
	}
	return true;
}
