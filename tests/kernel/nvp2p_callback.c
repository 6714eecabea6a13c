// SPDX-License-Identifier: MIT
/* nvp2p_callback.c - the free callback: when, where, how often, and what may be done in it. */
#include <sys/syscall.h>
#include "nvp2p_rules.h"

#define WORD	0x5eed5eedu

static uint64_t pinned(struct gpu *g, int slot, uint32_t on_callback)
{
	uint64_t va = need_alloc(g, 2 * PAGE64);
	uint32_t word = WORD;

	MUST(!sg_copy(g->fd, g->ctx, va, PTR(&word), 4, SOFTGPU_OP_SYNC));
	t_on_callback(slot, on_callback);
	EXPECT(t_get(slot, va, 2 * PAGE64).ret, 0);
	return va;
}

/* It has run once, in this thread, with the memory still there. */
static void ran_here(int slot)
{
	struct nvp2p_test_call s = t_state(slot);

	CHECK(s.callbacks == 1 && s.callbacks_done == 1, "%u", s.callbacks);
	CHECK(s.callback_pid == (uint32_t)syscall(SYS_gettid), "in thread %u", s.callback_pid);
	CHECK(s.callback_word == WORD, "the memory had gone: %x", s.callback_word);
}

static void on_close(struct gpu *g)
{
	int other = sg_open(0);
	struct gpu second = { .fd = other, .ctx = sg_ctx(other), .window = g->window };

	MUST(other >= 0 && second.ctx);
	pinned(&second, 0, C_PEEK);
	pinned(g, 1, C_PEEK);
	close(other);
	ran_here(0);
	EXPECT(t_state(1).callbacks, 0);
	EXPECT(t_put(1), 0);
}

/* One of two allocations in a page is freed: the pin of the page stays until the last is. */
static void on_shared_page(struct gpu *g)
{
	uint64_t a = need_alloc(g, 64), b = need_alloc(g, 64);
	uint32_t done;

	EXPECT(t_get(0, a & ~(PAGE64 - 1), PAGE64).ret, 0);
	EXPECT(sg_free(g->fd, a), 0);
	done = t_state(0).callbacks_done;
	EXPECT(sg_free(g->fd, b), 0);
	CHECK(t_state(0).callbacks_done == 1, "%u, then %u", done, t_state(0).callbacks_done);
}

/* ---- other threads meanwhile ---- */

struct freeing {
	struct gpu *g;
	uint64_t va;
	int ret;
};

static void free_it(void *arg)
{
	struct freeing *f = arg;

	f->ret = sg_free(f->g->fd, f->va);
}

/* No lock of the provider's is held: other pins, and other memory, go on. */
static void others_go_on(struct gpu *g)
{
	struct freeing freeing = { .g = g };
	struct task task;
	uint64_t other = need_alloc(g, 4 * PAGE64), more;

	freeing.va = pinned(g, 0, C_WAIT);
	task_begin(&task, free_it, &freeing);
	CHECK(UNTIL(t_state(0).callbacks), "it never began");
	EXPECT(t_state(0).callbacks, 1);
	EXPECT(t_get(1, other, 4 * PAGE64).ret, 0);
	EXPECT(t_put(1), 0);
	EXPECT(t_get(1, other, 4 * PAGE64).ret, 0);
	EXPECT(sg_free(g->fd, other), 0);
	EXPECT(t_state(1).callbacks_done, 1);
	more = need_alloc(g, PAGE64);
	EXPECT(sg_free(g->fd, more), 0);
	/* Memory that is being freed cannot be pinned any more. */
	MUST_FAIL(t_get(2, freeing.va, PAGE64), EINVAL, OUT_NULL);
	CHECK(!task.over, "free did not wait for the callback");
	T(.op = T_RELEASE);
	task_end(&task);
	EXPECT(freeing.ret, 0);
}

/* ---- what a client does in it ---- */

static void put_in_callback(struct gpu *g)
{
	uint64_t va = pinned(g, 0, C_PUT);

	EXPECT(sg_free(g->fd, va), 0);
	EXPECT(t_state(0).callbacks_done, 1);
	EXPECT(t_state(0).callback_ret, 0);
}

const struct gpu_case callback_cases[] = {
	{ "callback: on close, for what that file made", on_close, t_reset },
	{ "callback: a page that two allocations share", on_shared_page, t_reset },
	{ "callback: others are not held up by it", others_go_on, t_reset },
	{ "callback: put in it is refused, not a deadlock", put_in_callback, t_reset },
	{ }
};
