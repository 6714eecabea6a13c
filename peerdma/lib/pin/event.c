// SPDX-License-Identifier: MIT
/*
 * event.c - reports revocations: peerdma_next_event(), peerdma_event_fd().
 *
 * The descriptor to poll is the kernel's file if only the kernel reports, a pipe that has
 * a byte while notices wait if only the library does, else one that has both.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"

/* ---- the context's descriptors ---- */

static bool calls_back(const struct peerdma *ctx)
{
	for (unsigned int i = 0; i < ctx->offer_count; i++) {
		if (!ctx->offers[i].error && ctx->offers[i].backend->ends == ENDS_BY_CALLBACK)
			return true;
	}
	return false;
}

static int both_in_one(struct peerdma *ctx)
{
	struct epoll_event in = { .events = EPOLLIN };
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd >= 0 && !epoll_ctl(fd, EPOLL_CTL_ADD, ctx->kernel.fd, &in) &&
	    !epoll_ctl(fd, EPOLL_CTL_ADD, ctx->notice[0].fd, &in)) {
		ctx->event_fd = fd;
		return 0;
	}
	if (fd >= 0)
		close(fd);
	return -errno;
}

int event_queue_open(struct peerdma *ctx)
{
	int ret = 0, ends[2];

	ctx->notice[0] = ctx->notice[1] = OWN_FD_NONE;
	ctx->event_fd = ctx->kernel.fd;
	if (ctx->kernel.fd >= 0 && !calls_back(ctx) && !ctx->hooked)
		return 0;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		ret = -errno;
	for (int i = 0; !ret && i < 2; i++)
		ctx->notice[i] = own_fd(ends[i]);
	if (!ret && ctx->kernel.fd < 0)
		ctx->event_fd = ctx->notice[0].fd;
	else if (!ret)
		ret = both_in_one(ctx);
	if (ret) {
		fail(ret, "peerdma_open: no descriptor for notices: %s", error_words(ret));
		event_queue_close(ctx);
	}
	return ret;
}

/* Whether the program has closed neither it nor the pipe. Epolls look alike; this one has the pipe already. */
static bool both_still(const struct peerdma *ctx)
{
	struct epoll_event in = { .events = 0 };

	if (!own_fd_still(&ctx->notice[0]))
		return false;
	if (epoll_ctl(ctx->event_fd, EPOLL_CTL_ADD, ctx->notice[0].fd, &in))
		return errno == EEXIST;
	epoll_ctl(ctx->event_fd, EPOLL_CTL_DEL, ctx->notice[0].fd, NULL);
	return false;
}

void event_queue_close(struct peerdma *ctx)
{
	if (ctx->event_fd != ctx->kernel.fd && ctx->event_fd != ctx->notice[0].fd && both_still(ctx))
		close(ctx->event_fd);
	own_fd_close(&ctx->notice[0]);
	own_fd_close(&ctx->notice[1]);
}

/* ---- the calls ---- */

static int next(struct peerdma *ctx, struct peerdma_notice *notice)
{
	int ret = ctx->notice[0].fd >= 0 && event_queue_take(ctx, notice) ? 0 : -EAGAIN;

	for (unsigned int i = 0; ret == -EAGAIN && i < ctx->offer_count; i++) {
		const struct offer *o = &ctx->offers[i];

		if (!o->error && o->backend->event)
			ret = o->backend->event(ctx, notice);
	}
	return ret;
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
	int ret = check_given("peerdma_next_event", "ctx", ctx, "out", out, NULL);

	if (!ret)
		ret = check_owner(ctx, "peerdma_next_event");
	if (!ret)
		ret = check_size("peerdma_next_event", out->size, NOTICE_FIRST);
	if (ret)
		return ret;
	memset(&notice, 0, sizeof(notice));
	notice.size = out->size;

	while ((ret = next(ctx, &notice))) {
		if (ret != -EAGAIN)
			return fail(ret, "peerdma_next_event: cannot read events: %s", error_words(ret));
		if (timeout_ms > 0) {
			int64_t left = deadline - now_ms();

			wait = left > 0 ? (int)left : 0;
		}
		if (ctx->notice[0].fd >= 0 && !own_fd_still(&ctx->notice[0]))
			return fail(-EBADF, "peerdma_next_event: the program has closed the descriptor that shows events, as a daemon "
				    "does; call peerdma_open() after that");
		ret = sys_poll_in(ctx->event_fd, wait);
		if (ret < 0)
			return fail(ret, "peerdma_next_event: cannot wait: %s", error_words(ret));
		if (!ret)
			return fail(-EAGAIN, "peerdma_next_event: no pin was revoked in %d ms", timeout_ms);
	}
	put_out(out, &notice, sizeof(notice));
	return 0;
}

EXPORT int peerdma_event_fd(const struct peerdma *ctx)
{
	int ret = check_given("peerdma_event_fd", "ctx", ctx, NULL);

	if (!ret)
		ret = check_owner(ctx, "peerdma_event_fd");
	return ret ? ret : ctx->event_fd;
}
