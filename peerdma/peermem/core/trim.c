// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * trim.c - makes a table of the requested range from a client's table, whose pages may be
 * larger than the CPU's.
 */
#include <linux/log2.h>
#include <linux/mm.h>

#include "trim.h"

/* Appends to the table whose last entry is *last (NULL: it is empty). */
static void append(struct sg_table *to, struct scatterlist **last, dma_addr_t addr,
		   unsigned int len)
{
	struct scatterlist *sg = *last;

	if (sg && sg_dma_address(sg) + sg_dma_len(sg) == addr &&
	    sg_dma_len(sg) <= (UINT_MAX & PAGE_MASK) - len) {
		sg->length += len;
		sg_dma_len(sg) += len;
		return;
	}
	sg = sg ? sg_next(sg) : to->sgl;
	sg_set_page(sg, NULL, len, 0);
	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = len;
	to->nents++;
	*last = sg;
}

int peer_trim_table(struct sg_table *to, const struct sg_table *from, int nmap,
		    unsigned long addr, size_t size, unsigned long page_size)
{
	struct scatterlist *sg, *last = NULL;
	size_t skip, left, total = 0;
	int err, i;

	if (!from->sgl || nmap <= 0 || page_size < PAGE_SIZE || !is_power_of_2(page_size))
		return -EINVAL;
	skip = ALIGN_DOWN(addr, PAGE_SIZE) - ALIGN_DOWN(addr, page_size);
	left = PAGE_ALIGN(addr + size) - ALIGN_DOWN(addr, PAGE_SIZE);
	err = sg_alloc_table(to, nmap, GFP_KERNEL_ACCOUNT);
	if (err)
		return err;
	to->nents = 0;
	for_each_sg(from->sgl, sg, nmap, i) {
		size_t len, skipped;

		if (!sg || !PAGE_ALIGNED(sg_dma_address(sg) | sg_dma_len(sg)))
			goto invalid;
		skipped = min_t(size_t, skip, sg_dma_len(sg));
		len = min(sg_dma_len(sg) - skipped, left);
		if (len)
			append(to, &last, sg_dma_address(sg) + skipped, len);
		skip -= skipped;
		left -= len;
		total += sg_dma_len(sg);
	}
	/*
	 * A table of another length is of other pages than page_size says, and then it is not
	 * known where in it addr is.
	 */
	if (total != ALIGN(addr + size, page_size) - ALIGN_DOWN(addr, page_size))
		goto invalid;
	/* sg_next() stops here, too; sg_free_table() frees the unused entries by orig_nents. */
	sg_mark_end(last);
	return 0;

invalid:
	sg_free_table(to);
	return -EINVAL;
}
