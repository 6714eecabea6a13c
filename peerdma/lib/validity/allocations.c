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

static bool grow(struct piece **pieces, size_t n)
{
	struct piece *bigger;

	if (n & (n - 1))	/* there is room up to the next power of two */
		return true;
	bigger = realloc(*pieces, (n ? 2 * n : 1) * sizeof(*bigger));
	if (bigger)
		*pieces = bigger;
	return bigger;
}

int pieces_find(struct peerdma_region *region, bool *holes)
{
	uint64_t end = region->addr + region->length, next;
	struct piece *pieces = NULL;
	struct peerdma_memory m;
	size_t n = 0;
	int ret = 0;

	for (uint64_t at = region->addr; at < end; at = next) {
		ret = ask(region, at, &m);
		if (!ret && !grow(&pieces, n))
			ret = fail(-ENOMEM, "out of memory");
		if (ret) {
			free(pieces);
			if (holes)
				*holes = n && ret == -ENXIO;
			return ret;
		}
		next = m.base + m.length < end ? m.base + m.length : end;
		pieces[n++] = (struct piece){ .addr = at, .length = next - at, .id = m.buffer_id,
					      .kind = (enum peerdma_kind)m.kind };
	}
	for (size_t i = 0; n > 1 && i < n; i++) {
		if (cuda_range(pieces[i].addr, &pieces[i].base, &pieces[i].size) != CUDA_KNOWN)
			pieces[i].size = 0;
	}
	free(region->pieces);
	region->pieces = pieces;
	region->piece_count = n;
	return 0;
}

/* The first that ends after the address. */
static size_t first_at(const struct peerdma_region *region, uint64_t addr)
{
	size_t from = 0, to = region->piece_count;

	while (from < to) {
		size_t i = (from + to) / 2;

		if (region->pieces[i].addr + region->pieces[i].length > addr)
			to = i;
		else
			from = i + 1;
	}
	return from;
}

bool pieces_still(const struct peerdma_region *region, uint64_t addr, uint64_t length)
{
	size_t i = first_at(region, addr);

	if (i == region->piece_count)
		return false;
	for (; i < region->piece_count && region->pieces[i].addr < addr + length; i++) {
		const struct piece *p = &region->pieces[i];

		/* Within what was asked for: other allocations may be where this one was. */
		if (!cuda_has_id(p->addr > addr ? p->addr : addr, p->id))
			return false;
	}
	return true;
}

bool pieces_there(const struct peerdma_region *region, uint64_t addr, uint64_t length)
{
	for (size_t i = 0; region->piece_count > 1 && i < region->piece_count; i++) {
		const struct piece *p = &region->pieces[i];
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
