// SPDX-License-Identifier: MIT
/*
 * event_queue.c - revocations reported by back-ends in this process: the queue in which their
 * notices wait for peerdma_next_event().
 */
#include <unistd.h>

#include "backend.h"
#include "base/cancel.h"

void notice_fill(struct peerdma_notice *notice, struct peerdma_region *region)
{
	notice->region = region;
	notice->cookie = region->cookie;
	notice->addr = region->addr;
	notice->length = region->length;
}

void event_queue_add(struct peerdma_region *region)
{
	struct peerdma *ctx = region->ctx;
	bool first = !ctx->queue;
	ssize_t written = 0;
	int was;

	region->queued = true;
	region->queue_next = NULL;
	*ctx->queue_end = region;
	ctx->queue_end = &region->queue_next;
	if (!first)
		return;
	was = cancel_off();
	/* This thread frees memory: it writes into no other file of the program's. */
	if (own_fd_still(&ctx->notice[1]))
		written = write(ctx->notice[1].fd, "", 1);
	(void)written;
	cancel_back(was);
}

void event_queue_remove(struct peerdma_region *region)
{
	struct peerdma *ctx = region->ctx;
	struct peerdma_region **link = &ctx->queue;
	ssize_t got = 0;
	char byte;
	int was;

	if (!region->queued)
		return;
	while (*link != region)
		link = &(*link)->queue_next;
	*link = region->queue_next;
	if (!*link)
		ctx->queue_end = link;
	region->queued = false;
	if (ctx->queue)
		return;
	was = cancel_off();
	if (own_fd_still(&ctx->notice[0]))
		got = read(ctx->notice[0].fd, &byte, 1);
	(void)got;
	cancel_back(was);
}

bool event_queue_take(struct peerdma *ctx, struct peerdma_notice *notice)
{
	struct peerdma_region *region;

	pthread_mutex_lock(&ctx->lock);
	region = ctx->queue;
	if (region) {
		notice_fill(notice, region);
		event_queue_remove(region);
	}
	pthread_mutex_unlock(&ctx->lock);
	return region;
}

/* Lock.  Whether it has MRs to be ended. */
static bool revoked_locked(struct peerdma_region *region)
{
	if (!region->revoked) {
		__atomic_store_n(&region->revoked, true, __ATOMIC_RELEASE);
		if (region->published)
			event_queue_add(region);
	}
	return region->published;
}

void region_revoked(struct peerdma_region *region)
{
	struct peerdma_region *whole = region->whole;
	int (*mrs_end)(struct peerdma_region *region, bool over);
	struct peerdma *ctx = region->ctx;
	bool mrs = false;
	uint32_t was;

	/* First of all: what is read after this was not pinned. */
	__atomic_store_n(&region->word, region->validity.generation + 1, __ATOMIC_RELEASE);
	if (whole)
		__atomic_store_n(&whole->word, whole->validity.generation + 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&ctx->lock);
	revoked_locked(region);
	if (whole)
		mrs = revoked_locked(whole);
	mrs_end = ctx->mrs_end;
	pthread_mutex_unlock(&ctx->lock);
	if (!mrs_end)
		return;
	/* This thread frees memory, and asked for nothing that could fail. */
	was = attempt_begin();
	if (!whole)
		mrs_end(region, true);
	else if (mrs)
		mrs_end(whole, true);
	attempt_end(was, 0);
}
