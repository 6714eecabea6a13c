// SPDX-License-Identifier: MIT
/*
 * hook_frees.c - pins whose back-end reports no frees (status.by_id): libpeerdma-hooks reports
 * them, if it sees every free.
 *
 * Before a free of a known range, pins there end with their MRs.  After it, and after a
 * free of an unknown range, such as the end of a context, pins end whose buffer id has
 * changed.
 */
#include "backend.h"
#include "base/cancel.h"
#include "monitor/monitor.h"

static bool overlaps(const struct peerdma_region *r, const struct peerdma_hook_event *event)
{
	return r->addr - event->addr < event->length || event->addr - r->addr < r->length;
}

static bool concerned(const struct peerdma_region *r, const struct peerdma_hook_event *event)
{
	return !r->revoked && overlaps(r, event);
}

/* Lock.  What another thread is about to end has ended when this returns. */
static void wait_for_others(struct peerdma *ctx, const struct peerdma_hook_event *event)
{
	struct peerdma_region *r = ctx->told;

	while (r) {
		if (concerned(r, event) && r->telling) {
			cancel_safe_wait(&ctx->mrs_settled, &ctx->lock);
			r = ctx->told;	/* all may be others now */
		} else {
			r = r->told_next;
		}
	}
}

/* Lock.  None of them goes away before it is let go of. */
static struct peerdma_region *take(struct peerdma *ctx, const struct peerdma_hook_event *event)
{
	struct peerdma_region *chain = NULL;

	wait_for_others(ctx, event);
	for (struct peerdma_region *r = ctx->told; r; r = r->told_next) {
		if (!concerned(r, event))
			continue;
		r->telling = true;
		r->told_chain = chain;
		chain = r;
	}
	return chain;
}

static void tell(void *arg, const struct peerdma_hook_event *event)
{
	bool certain = event->kind == PEERDMA_HOOK_FREE && !event->after && event->length != UINT64_MAX;
	struct peerdma_region *chain, *next;
	struct peerdma *ctx = arg;

	if (!is_owner(ctx))
		return;
	pthread_mutex_lock(&ctx->lock);
	chain = take(ctx, event);
	pthread_mutex_unlock(&ctx->lock);
	for (; chain; chain = next) {
		next = chain->told_chain;
		if (certain || !region_still(chain))
			region_revoked(chain);
		pthread_mutex_lock(&ctx->lock);
		chain->telling = false;
		pthread_cond_broadcast(&ctx->mrs_settled);
		pthread_mutex_unlock(&ctx->lock);
	}
}

int told_begin(struct peerdma *ctx)
{
	bool needed = false;
	int ret;

	for (unsigned int i = 0; i < ctx->offer_count; i++)
		needed |= !ctx->offers[i].error && ctx->offers[i].backend->by_id;
	ret = needed ? hooks_begin() : 0;
	if (!ret && !(needed && monitor_outside(MONITOR_DEVICE)))
		return 0;
	if (ret >= 0)
		ret = monitor_subscribe(MONITOR_DEVICE, tell, ctx);
	ctx->hooked = !ret;
	return ret ? fail(ret, "peerdma_open: %s", peerdma_last_error()) : 0;
}

void told_end(struct peerdma *ctx)
{
	if (ctx->hooked)
		monitor_unsubscribe(MONITOR_DEVICE, tell, ctx);
	ctx->hooked = false;
}

void told_add(struct peerdma_region *region)
{
	struct peerdma *ctx = region->ctx;

	if (!ctx->hooked || !region->by_id || region->cached)
		return;
	region->told_link = &ctx->told;
	region->told_next = ctx->told;
	if (region->told_next)
		region->told_next->told_link = &region->told_next;
	ctx->told = region;
}

void told_remove(struct peerdma_region *region)
{
	if (!region->told_link)
		return;
	while (region->telling)
		cancel_safe_wait(&region->ctx->mrs_settled, &region->ctx->lock);
	*region->told_link = region->told_next;
	if (region->told_next)
		region->told_next->told_link = region->told_link;
	region->told_link = NULL;
}
