// SPDX-License-Identifier: MIT
/*
 * event.c - revocations: as the kernel tells them, and as back-ends in this process do.
 *
 * What is polled is the kernel's file if only the kernel tells, else a counter that
 * is raised while notices wait here, else both in one.
 */
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"

/* ---- the context's descriptors ---- */

static bool tells_here(const struct peerdma *ctx)
{
	for (unsigned int i = 0; i < ctx->offer_count; i++) {
		if (!ctx->offers[i].error && ctx->offers[i].backend->tells)
			return true;
	}
	return false;
}

static int both_in_one(struct peerdma *ctx)
{
	struct epoll_event in = { .events = EPOLLIN };
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd >= 0 && !epoll_ctl(fd, EPOLL_CTL_ADD, ctx->kernel.fd, &in) &&
	    !epoll_ctl(fd, EPOLL_CTL_ADD, ctx->notice_fd, &in)) {
		ctx->event_fd = fd;
		return 0;
	}
	if (fd >= 0)
		close(fd);
	return -errno;
}

int notices_open(struct peerdma *ctx)
{
	int ret = 0;

	ctx->notice_fd = -1;
	ctx->event_fd = ctx->kernel.fd;
	if (ctx->kernel.fd >= 0 && !tells_here(ctx) && !ctx->hooked)
		return 0;
	ctx->notice_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ctx->notice_fd < 0)
		ret = -errno;
	else if (ctx->kernel.fd < 0)
		ctx->event_fd = ctx->notice_fd;
	else
		ret = both_in_one(ctx);
	if (ret) {
		fail(ret, "peerdma_open: no descriptor for notices: %s", error_words(ret));
		notices_close(ctx);
	}
	return ret;
}

void notices_close(struct peerdma *ctx)
{
	if (ctx->event_fd != ctx->kernel.fd && ctx->event_fd != ctx->notice_fd)
		close(ctx->event_fd);
	if (ctx->notice_fd >= 0)
		close(ctx->notice_fd);
}

/* ---- the queue of this process ---- */

void notice_put(struct peerdma_region *region)
{
	struct peerdma *ctx = region->ctx;
	bool first = !ctx->notices;

	region->notice_waits = true;
	region->notice_next = NULL;
	*ctx->notices_end = region;
	ctx->notices_end = &region->notice_next;
	if (first)
		eventfd_write(ctx->notice_fd, 1);
}

void notice_forget(struct peerdma_region *region)
{
	struct peerdma *ctx = region->ctx;
	struct peerdma_region **link = &ctx->notices;
	eventfd_t count;

	if (!region->notice_waits)
		return;
	while (*link != region)
		link = &(*link)->notice_next;
	*link = region->notice_next;
	if (!*link)
		ctx->notices_end = link;
	region->notice_waits = false;
	if (!ctx->notices)
		eventfd_read(ctx->notice_fd, &count);
}

void region_revoked(struct peerdma_region *region)
{
	struct peerdma *ctx = region->ctx;

	/* First of all: what is read after this was not pinned. */
	__atomic_store_n(&region->word, region->validity.generation + 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&ctx->lock);
	if (!region->revoked) {
		__atomic_store_n(&region->revoked, true, __ATOMIC_RELEASE);
		if (region->published)
			notice_put(region);
	}
	pthread_mutex_unlock(&ctx->lock);
	mrs_end(region, true);
}

static bool notice_take(struct peerdma *ctx, struct peerdma_notice *notice)
{
	struct peerdma_region *region;

	pthread_mutex_lock(&ctx->lock);
	region = ctx->notices;
	if (region) {
		notice_fill(notice, region);
		notice_forget(region);
	}
	pthread_mutex_unlock(&ctx->lock);
	return region;
}

/* ---- the calls ---- */

void notice_fill(struct peerdma_notice *notice, struct peerdma_region *region)
{
	notice->region = region;
	notice->cookie = region->cookie;
	notice->addr = region->addr;
	notice->length = region->length;
}

static int next(struct peerdma *ctx, struct peerdma_notice *notice)
{
	if (ctx->notice_fd >= 0 && notice_take(ctx, notice))
		return 0;
	return ctx->kernel.fd >= 0 ? kernel_event(ctx, notice) : -EAGAIN;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

EXPORT int peerdma_next_event(struct peerdma *ctx, struct peerdma_notice *out, int timeout_ms)
{
	struct peerdma_notice notice;
	int64_t deadline = timeout_ms > 0 ? now_ms() + timeout_ms : 0;
	int wait = timeout_ms;
	int ret = check_owner(ctx, "peerdma_next_event");

	if (!ret)
		ret = check_size("peerdma_next_event", out->size, NOTICE_FIRST);
	if (ret)
		return ret;
	memset(&notice, 0, sizeof(notice));
	notice.size = out->size;

	while ((ret = next(ctx, &notice))) {
		if (ret != -EAGAIN)
			return fail(ret, "peerdma_next_event: cannot read events: %s", strerror(-ret));
		if (timeout_ms > 0) {
			int64_t left = deadline - now_ms();

			wait = left > 0 ? (int)left : 0;
		}
		ret = sys_poll_in(ctx->event_fd, wait);
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

	return ret ? ret : ctx->event_fd;
}
