// SPDX-License-Identifier: MIT
/*
 * event.c - revocations, as they are told by the kernel.
 */
#include <search.h>
#include <string.h>
#include <time.h>

#include "internal.h"

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* Fills in the notice, unless the pin was unpinned between its event and now; its handle may even be another's by then. */
static bool notice_from(struct peerdma *ctx, const struct peerdma_event *event, struct peerdma_notice *notice)
{
	struct peerdma_region key = { .handle = event->handle }, **found, *region = NULL;

	pthread_mutex_lock(&ctx->lock);
	found = tfind(&key, &ctx->by_handle, by_handle);
	if (found && (*found)->slot == event->slot && (*found)->validity.generation == event->generation) {
		region = *found;
		notice->region = region;
		notice->cookie = region->cookie;
		notice->addr = region->addr;
		notice->length = region->length;
	}
	pthread_mutex_unlock(&ctx->lock);
	return region;
}

EXPORT int peerdma_next_event(struct peerdma *ctx, struct peerdma_notice *out, int timeout_ms)
{
	struct peerdma_notice notice;
	struct peerdma_event event;
	int64_t deadline = timeout_ms > 0 ? now_ms() + timeout_ms : 0;
	int wait = timeout_ms;
	int ret = check_owner(ctx, "peerdma_next_event");

	if (!ret)
		ret = check_size("peerdma_next_event", out->size, NOTICE_FIRST);
	if (ret)
		return ret;
	memset(&notice, 0, sizeof(notice));
	notice.size = out->size;

	for (;;) {
		ret = sys_read(ctx->fd, &event, sizeof(event));
		if (ret == sizeof(event)) {
			if (event.type == PEERDMA_EVENT_REVOKED && notice_from(ctx, &event, &notice))
				break;
			continue;
		}
		if (ret != -EAGAIN)
			return fail(ret < 0 ? ret : -EIO, "peerdma_next_event: cannot read events: %s",
				    ret < 0 ? strerror(-ret) : "a short read");
		if (timeout_ms > 0) {
			int64_t left = deadline - now_ms();

			wait = left > 0 ? (int)left : 0;
		}
		ret = sys_poll_in(ctx->fd, wait);
		if (ret < 0)
			return fail(ret, "peerdma_next_event: cannot wait: %s", strerror(-ret));
		if (!ret)
			return fail(-EAGAIN, "peerdma_next_event: no pin was revoked in %d ms", timeout_ms);
	}
	put_out(out, &notice, sizeof(notice));
	return 0;
}

EXPORT int peerdma_event_fd(const struct peerdma *ctx)
{
	int ret = check_owner(ctx, "peerdma_event_fd");

	return ret ? ret : ctx->fd;
}
