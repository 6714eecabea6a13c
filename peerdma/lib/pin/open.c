// SPDX-License-Identifier: MIT
/*
 * open.c - contexts: peerdma_open(), peerdma_close().
 */
#include <stdlib.h>

#include "backend.h"

struct peerdma *context_new(unsigned int flags)
{
	struct peerdma *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	pthread_mutex_init(&ctx->lock, NULL);
	pthread_cond_init(&ctx->mrs_settled, NULL);
	ctx->process = process_id();
	ctx->flags = flags;
	ctx->kernel.fd = -1;
	ctx->queue_end = &ctx->queue;
	return ctx;
}

void context_free(struct peerdma *ctx)
{
	pthread_cond_destroy(&ctx->mrs_settled);
	pthread_mutex_destroy(&ctx->lock);
	free(ctx);
}

static int open_context(struct peerdma **out, unsigned int flags)
{
	struct peerdma *ctx;
	int ret;

	ret = check_given("peerdma_open", "ctx", out, NULL);
	if (ret)
		return ret;
	if (flags & ~(PEERDMA_OPEN_CUDA | PEERDMA_OPEN_DIRECT))
		return fail(-EINVAL, "peerdma_open: unknown flags 0x%x", flags);
	if (flags & PEERDMA_OPEN_CUDA) {
		ret = cuda_load();
		if (ret)
			return ret;
	}

	ctx = context_new(flags);
	if (!ctx)
		return fail(-ENOMEM, "peerdma_open: out of memory");
	ret = backends_open(ctx);
	if (ret)
		goto err_free;
	ret = hook_frees_begin(ctx);
	if (!ret)
		ret = event_queue_open(ctx);
	if (ret)
		goto err_close;
	*out = ctx;
	return 0;

err_close:
	hook_frees_end(ctx);
	backends_close(ctx, true);
err_free:
	context_free(ctx);
	return ret;
}

EXPORT int peerdma_open(struct peerdma **out, unsigned int flags)
{
	uint32_t was = attempt_begin();

	return attempt_end(was, open_context(out, flags));
}

/*
 * Ends each pin by an unpin, because a forked child may keep the file open. In such a child, only
 * the child's copies are freed. The child takes no lock, because it may have inherited the lock
 * from a thread that does not exist in the child. It needs none: the caller is the last user of the
 * context.
 */
EXPORT void peerdma_close(struct peerdma *ctx)
{
	struct peerdma_region *region;
	uint32_t was;
	bool owner;

	if (!ctx)
		return;
	was = attempt_begin();
	owner = is_owner(ctx);
	hook_frees_end(ctx);
	while ((region = ctx->regions)) {
		if (owner) {
			/* Another thread may be revoking it. */
			pthread_mutex_lock(&ctx->lock);
			region->published = false;
			event_queue_remove(region);
			pthread_mutex_unlock(&ctx->lock);
			mrs_end(region, false);
			/* -EBUSY: the last close of the file ends it */
			region->backend->unpin(region);
		}
		ctx->regions = region->next;
		region_free(region);
	}
	event_queue_close(ctx);
	backends_close(ctx, owner);
	if (owner) {
		pthread_cond_destroy(&ctx->mrs_settled);
		pthread_mutex_destroy(&ctx->lock);
	}
	free(ctx);
	attempt_end(was, 0);
}
