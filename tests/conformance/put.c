// SPDX-License-Identifier: MIT
/* put.c - 1.7: put_pages; the table's address is a key, and nothing else. */
#include "conform.h"

#include <stdlib.h>

static void puts_quietly(const char *what, int ret)
{
	judge(!ret || ret == -22, "1.7", what, "0 (older drivers: -EINVAL)", "%s", errname(ret));
}

static void keys(void)
{
	static const uint64_t garbage[] = { 8, 0xffff888000000000ULL, 0xdead000000000100ULL };
	gpu_ptr p = cuda_alloc(BLOCK);
	uint64_t pointer;
	int worst = 0, null = T(.op = T_PUT, .flags = W_NULL_TABLE).ret;

	judge(!null || null == -22, "1.7", "put_pages of NULL", "0 (from release 610 on: -EINVAL)", "%s", errname(null));
	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		int ret = T(.op = T_PUT, .flags = W_GARBAGE_TABLE, .value = garbage[i]).ret;

		worst = worst ? worst : ret;
	}
	puts_quietly("put_pages of garbage: it is not dereferenced", worst);
	pin(0, p, BLOCK);
	pointer = t_state(0).pointer;
	puts_quietly("put_pages of an address near a live table", T(.op = T_PUT, .flags = W_GARBAGE_TABLE,
								   .value = pointer + 8).ret);
	returns("1.7", "put_pages", 0, t_put(0));
	puts_quietly("put_pages of that table again", T(.op = T_PUT, .flags = W_STALE_TABLE).ret);
	cuda_free(p);
	judge(!t_state(0).callbacks, "1.7", "cuMemFree after put_pages", "no callback", "%u", t_state(0).callbacks);
	p = cuda_alloc(BLOCK);
	pin(0, p, BLOCK);
	cuda_free(p);
	puts_quietly("put_pages after the callback has ended the pin", T(.op = T_PUT, .flags = W_STALE_TABLE).ret);
}

/* In the module's slot the table stays: it may not have been ended. */
static int put_by(uint64_t token)
{
	return T(.op = T_PUT, .flags = W_KEEP, .token = token).ret;
}

static void put_here(void *arg)
{
	const uint64_t *token = arg;

	exit(put_by(*token) ? 3 : 0);
}

/* A put that finds nothing: 0, and the pin goes with its memory. */
static void leaves(const char *what, uint64_t token, bool in_other)
{
	gpu_ptr p = cuda_alloc(BLOCK);
	bool zero;

	pin(0, p, BLOCK);
	zero = in_other ? in_child(put_here, &token) : !put_by(token);
	judge(zero, "1.7", what, "0", "%s", zero ? "0" : "another");
	cuda_free(p);
	judge(t_state(0).callbacks == 1, "1.7", "  the pin stays: cuMemFree afterwards", "one callback", "%u", t_state(0).callbacks);
}

static void elsewhere(void)
{
	uint64_t token;
	uint32_t va_space, callbacks;
	gpu_ptr p;

	leaves("put_pages from another process", 0, true);
	leaves("put_pages by a token that no process has", 7, false);
	p = cuda_alloc(BLOCK);
	if (!cuda_tokens(p, &token, &va_space)) {
		row(NA, "1.7", "put_pages from another process, by its token", "0", "this driver has no tokens");
		return;
	}
	pin(0, p, BLOCK);
	judge(in_child(put_here, &token), "1.7", "put_pages from another process, by its token", "0", "see the next row");
	T(.op = T_FORGET);
	cuda_free(p);
	callbacks = t_state(0).callbacks;
	judge(!callbacks, "1.7", "  the pin has ended: cuMemFree afterwards", "no callback", "%u", callbacks);
}

/* What put frees besides: DMA mappings that the client left. */
static void sweeps(void)
{
	gpu_ptr p = cuda_alloc(BLOCK);
	uint64_t dma;

	if (!pin_mapped("1.7", "put_pages with a DMA mapping left", p, &dma))
		return;
	returns("1.7", "put_pages with a DMA mapping left", 0, t_put(0));
	leads_nowhere("1.7", "the mapping goes with the pin", dma);
}

const struct group put_groups[] = {
	{ "1.7", "tables as keys", .run = keys },
	{ "1.7", "put_pages from another process", .run = elsewhere },
	{ "1.7", "put_pages frees DMA mappings", .run = sweeps, .needs = F_DMA, .needs_peer = true },
	{ 0 }
};
