// SPDX-License-Identifier: MIT
/*
 * hook_frees.c - pins whose back-end reports no frees (ENDS_UNREPORTED): libpeerdma-hooks reports
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
	struct peerdma_region *r = ctx->hooked_regions;

	while (r) {
		if (concerned(r, event) && r->ending) {
			cancel_safe_wait(&ctx->mrs_settled, &ctx->lock);
			r = ctx->hooked_regions;	/* all may be others now */
		} else {
			r = r->hooked_next;
		}
	}
}

/* Lock.  None of them goes away before it is let go of. */
static struct peerdma_region *take(struct peerdma *ctx, const struct peerdma_hook_event *event)
{
	struct peerdma_region *chain = NULL;

	wait_for_others(ctx, event);
	for (struct peerdma_region *r = ctx->hooked_regions; r; r = r->hooked_next) {
		if (!concerned(r, event))
			continue;
		r->ending = true;
		r->ending_next = chain;
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
		next = chain->ending_next;
		if (certain || !region_still(chain))
			region_revoked(chain);
		pthread_mutex_lock(&ctx->lock);
		chain->ending = false;
		pthread_cond_broadcast(&ctx->mrs_settled);
		pthread_mutex_unlock(&ctx->lock);
	}
}

int hook_frees_begin(struct peerdma *ctx)
{
	bool needed = false;
	int ret;

	for (unsigned int i = 0; i < ctx->offer_count; i++)
		needed |= !ctx->offers[i].error && ctx->offers[i].backend->ends == ENDS_UNREPORTED;
	ret = needed ? hooks_begin() : 0;
	if (!ret && !(needed && monitor_outside(MONITOR_DEVICE)))
		return 0;
	if (ret >= 0)
		ret = monitor_subscribe(MONITOR_DEVICE, tell, ctx);
	ctx->hooked = !ret;
	return ret ? fail(ret, "peerdma_open: %s", peerdma_last_error()) : 0;
}

void hook_frees_end(struct peerdma *ctx)
{
	if (ctx->hooked)
		monitor_unsubscribe(MONITOR_DEVICE, tell, ctx);
	ctx->hooked = false;
}

void hook_frees_add(struct peerdma_region *region)
{
	struct peerdma *ctx = region->ctx;

	if (!ctx->hooked || region->ends != ENDS_UNREPORTED || region->cached)
		return;
	region->hooked_link = &ctx->hooked_regions;
	region->hooked_next = ctx->hooked_regions;
	if (region->hooked_next)
		region->hooked_next->hooked_link = &region->hooked_next;
	ctx->hooked_regions = region;
}

void hook_frees_remove(struct peerdma_region *region)
{
	if (!region->hooked_link)
		return;
	while (region->ending)
		cancel_safe_wait(&region->ctx->mrs_settled, &region->ctx->lock);
	*region->hooked_link = region->hooked_next;
	if (region->hooked_next)
		region->hooked_next->hooked_link = region->hooked_link;
	region->hooked_link = NULL;
}
