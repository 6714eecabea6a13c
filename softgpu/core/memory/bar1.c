// SPDX-License-Identifier: MIT
/* bar1.c - counts the use of the BAR1 aperture: the distinct pages of all pins. */
#include "memory.h"

/*
 * Calls step on the pin count of each 64 KiB page of [offset, offset + len); returns the
 * sum of its results.
 */
static u64 each_page(struct sg_mem *mem, u64 offset, u64 len, u64 (*step)(u32 *count))
{
	u32 *counts = mem->gpu->page_pins;
	u64 sum = 0;

	while (len) {
		u64 run, at = sg_mem_vram_at(mem, offset, &run), i;

		if (run > len)
			run = len;
		for (i = 0; i < run / SG_PAGE_SIZE; i++)
			sum += step(&counts[at / SG_PAGE_SIZE + i]);
		offset += run;
		len -= run;
	}
	return sum;
}

static u64 is_new(u32 *count)
{
	return !*count;
}

static u64 take(u32 *count)
{
	return !(*count)++;
}

static u64 give(u32 *count)
{
	SG_WARN_ON(!*count);
	return !--(*count);
}

/* Returns the free bytes of the aperture; chaos may have made it smaller than what is in use. */
static u64 bar1_room(const struct sg_gpu *gpu)
{
	u64 limit = gpu->sg->chaos.bar1_limit, size = gpu->desc.bar1_size;
	u64 used = gpu->desc.bar1_reserved + gpu->bar1_used;

	if (limit && limit < size)
		size = limit;
	return size > used ? size - used : 0;
}

int sg_bar1_take_locked(struct sg_mem *mem, u64 offset, u64 len)
{
	struct sg_gpu *gpu = mem->gpu;
	u64 room = bar1_room(gpu), fresh;

	if (mem->system)
		return 0;
	/* The number of pages not counted yet matters only if room is short. */
	if (len > room && (gpu->desc.bar1_per_pin ||
			   each_page(mem, offset, len, is_new) * SG_PAGE_SIZE > room))
		return -ENOSPC;
	fresh = each_page(mem, offset, len, take) * SG_PAGE_SIZE;
	gpu->bar1_used += gpu->desc.bar1_per_pin ? len : fresh;
	return 0;
}

void sg_bar1_give_locked(struct sg_mem *mem, u64 offset, u64 len)
{
	struct sg_gpu *gpu = mem->gpu;
	u64 last;

	if (mem->system)
		return;
	last = each_page(mem, offset, len, give) * SG_PAGE_SIZE;
	gpu->bar1_used -= gpu->desc.bar1_per_pin ? len : last;
}
