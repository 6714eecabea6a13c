// SPDX-License-Identifier: MIT
/* ends.c - races within a child, and how its life ends. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "child.h"
#include "peerdma_ioctl.h"

/* ---- two threads of one process ---- */

enum deed { FREE, DESTROY, CLOSE_PEERDMA, CLOSE_GPU, UNPIN_ALL, MOVE, REVOKE, DEEDS };

struct rival {
	struct child *c;
	enum deed deed;
	struct area *area;
	struct buffer *buffer;
	uint32_t handles[PINS];
	useconds_t delay;
	int pd;
};

static void *rival_main(void *arg)
{
	struct rival *r = arg;
	struct gpu_ops const *ops = r->c->gpu.ops;
	int i;

	usleep(r->delay);
	switch (r->deed) {
	case FREE:
		ops->free(&r->c->gpu, r->area->va);
		break;
	case DESTROY:
		ops->ctx_destroy(&r->c->gpu);
		break;
	case CLOSE_PEERDMA:
		close(r->pd);
		break;
	case CLOSE_GPU:
		ops->close(&r->c->gpu);
		break;
	case MOVE:
	case REVOKE:
		for (i = 0; i < 4; i++) {
			child_command(r->buffer, "move");
			usleep(r->delay / 4);
		}
		if (r->deed == REVOKE)
			child_command(r->buffer, "revoke");
		break;
	default:
		for (i = 0; i < PINS; i++) {
			struct peerdma_handle_args p = {
				.size = sizeof(p), .handle = r->handles[i],
			};

			ioctl(r->pd, PEERDMA_UNPIN, &p);
		}
	}
	return NULL;
}

/* Meanwhile: pins of that memory come and go. */
static void pin_on(struct child *c, struct area *a)
{
	int i, n = 2 + rnd_below(&c->rnd, 6);

	for (i = 0; i < n; i++) {
		struct held *h = child_free_slot(c);

		if (!h) {
			h = &c->pins[rnd_below(&c->rnd, PINS)];
			child_unpin(c, h);
		}
		if (child_pin(c, a, h))
			continue;
		child_view(c, h);
		child_touch(c, h);
		if (rnd_chance(&c->rnd, 40))
			child_map(c, h);
		child_touch(c, h);
		if (rnd_chance(&c->rnd, 60))
			child_unpin(c, h);
	}
}

/* From now on its pins may be gone at any time. */
static struct buffer *movable(struct child *c)
{
	int i, k;

	for (i = 0; i < BUFFERS; i++) {
		if (!c->buffers[i].live || !c->buffers[i].movable)
			continue;
		c->buffers[i].wild = true;
		for (k = 0; k < PINS; k++)
			if (c->pins[k].buffer == &c->buffers[i])
				c->pins[k].unsure = true;
		return &c->buffers[i];
	}
	return NULL;
}

void child_race(struct child *c)
{
	struct area *a = child_area(c, true);
	struct rival r = { .c = c, .area = a, .pd = c->pd };
	pthread_t thread;
	int i;

	if (!a)
		return;
	r.deed = rnd_below(&c->rnd, DEEDS);
	if (r.deed == CLOSE_GPU && !c->gpu.ops->close)
		r.deed = DESTROY;
	r.buffer = movable(c);
	if (!r.buffer && (r.deed == MOVE || r.deed == REVOKE))
		r.deed = UNPIN_ALL;
	r.delay = rnd_below(&c->rnd, 4000);
	for (i = 0; i < PINS; i++)
		r.handles[i] = c->pins[i].handle;
	child_count(DID_RACE);
	c->race = true;
	if (pthread_create(&thread, NULL, rival_main, &r))
		child_fail("no thread");
	if (r.deed == MOVE || r.deed == REVOKE || (r.buffer && rnd_chance(&c->rnd, 20)))
		child_pin_on_buffer(c, r.buffer);
	else if (rnd_chance(&c->rnd, c->fpga_percent))
		child_fpga_copy(c);
	else
		pin_on(c, a);
	pthread_join(thread, NULL);

	c->race = false;
	if (r.deed == CLOSE_PEERDMA)
		c->pd = -1;
	child_take_stock(c);
	if (r.deed == FREE)
		child_area_gone(c, a);
	else if (r.deed == DESTROY || r.deed == CLOSE_GPU)
		child_ctx_gone(c);
	if (r.deed == DESTROY)
		child_expect(c, "creation of a context", c->gpu.ops->ctx_create(&c->gpu));
	c->gpu_open = r.deed != CLOSE_GPU;
}

/* ---- endings ---- */

static void unpin_all(struct child *c)
{
	int i;

	for (i = 0; i < PINS && c->pd >= 0; i++)
		if (c->pins[i].handle)
			child_unpin(c, &c->pins[i]);
}

static void free_all(struct child *c)
{
	int i;

	for (i = 0; i < BUFFERS; i++)
		if (c->buffers[i].live)
			child_drop_buffer(c, &c->buffers[i]);

	for (i = 0; i < AREAS; i++) {
		struct area *a = &c->areas[i];

		if (!a->len || !a->device)
			continue;
		child_expect(c, "free at the end", c->gpu.ops->free(&c->gpu, a->va));
		child_area_gone(c, a);
	}
}

static void destroy_ctx(struct child *c)
{
	if (!c->gpu_open)
		return;
	child_expect(c, "destruction of the context", c->gpu.ops->ctx_destroy(&c->gpu));
	child_ctx_gone(c);
}

static void close_gpu(struct child *c)
{
	if (!c->gpu_open || !c->gpu.ops->close)
		return;
	c->gpu_open = false;
	c->gpu.ops->close(&c->gpu);
	child_ctx_gone(c);
}

static void close_peerdma(struct child *c)
{
	int i;

	if (c->pd >= 0)
		close(c->pd);
	c->pd = -1;
	/* Views and dma-bufs may be left: they outlive the file. */
	for (i = 0; i < PINS && rnd_chance(&c->rnd, 50); i++)
		if (c->pins[i].handle)
			child_forget(c, &c->pins[i]);
}

static void end_orderly(struct child *c)
{
	unpin_all(c);
	free_all(c);
	destroy_ctx(c);
	close_gpu(c);
	close_peerdma(c);
}

static void end_free_first(struct child *c)
{
	free_all(c);
	unpin_all(c);
}

static void end_ctx_first(struct child *c)
{
	destroy_ctx(c);
	unpin_all(c);
	close_peerdma(c);
}

static void end_peerdma_first(struct child *c)
{
	close_peerdma(c);
	free_all(c);
	destroy_ctx(c);
	close_gpu(c);
}

static void end_gpu_first(struct child *c)
{
	close_gpu(c);
	unpin_all(c);
	close_peerdma(c);
}

static void end_abruptly(struct child *c)
{
}

static void end_killed(struct child *c)
{
	raise(SIGKILL);
}

/*
 * The heir has all open files, but it is not the owner of GPU memory, and views
 * are not inherited.  It may end pins.
 */
static void be_heir(struct child *c)
{
	int i;

	child_count(DID_HEIR);
	usleep(rnd_below(&c->rnd, 10000));
	for (i = 0; i < PINS && c->pd >= 0; i++) {
		struct peerdma_query_args q = {
			.size = sizeof(q), .handle = c->pins[i].handle,
		};

		if (!c->pins[i].handle)
			continue;
		ioctl(c->pd, PEERDMA_QUERY, &q);
		if (rnd_chance(&c->rnd, 40)) {
			struct peerdma_handle_args p = {
				.size = sizeof(p), .handle = c->pins[i].handle,
			};

			ioctl(c->pd, PEERDMA_UNPIN, &p);
		}
	}
	/* Pins of the owner's memory are not for it to make, but host memory is the child's, too. */
	for (i = 0; i < AREAS && c->pd >= 0; i++) {
		struct peerdma_pin_args p = {
			.size = sizeof(p), .addr = c->areas[i].va, .length = c->areas[i].len,
			.flags = PEERDMA_PIN_DEVICE,
		};

		if (c->areas[i].len && c->areas[i].device && !c->gpu.ops->in_host &&
		    !ioctl(c->pd, PEERDMA_PIN, &p))
			child_fail("a child of the owner could pin its memory");
	}
	if (c->pd >= 0 && rnd_chance(&c->rnd, 30))
		close(c->pd);
	if (rnd_chance(&c->rnd, 30))
		raise(SIGKILL);
	_exit(0);
}

static void end_fork(struct child *c)
{
	struct rnd theirs = rnd_of(rnd_next(&c->rnd), 1);
	pid_t pid = fork();

	if (!pid) {
		c->rnd = theirs;
		strncat(child_name, ", its heir", sizeof(child_name) - strlen(child_name) - 1);
		be_heir(c);
	}
	usleep(rnd_below(&c->rnd, 10000));
	/* The heir may end pins now: whether they are live is not known. */
	c->race = true;
	if (rnd_chance(&c->rnd, 30))
		free_all(c);
	if (rnd_chance(&c->rnd, 30))
		destroy_ctx(c);
	if (rnd_chance(&c->rnd, 30))
		unpin_all(c);
}

int child_end(struct child *c)
{
	static void (*const ends[])(struct child *c) = {
		end_orderly, end_free_first, end_ctx_first, end_peerdma_first, end_gpu_first,
		end_abruptly, end_killed, end_fork, end_fork,
	};

	ends[rnd_below(&c->rnd, sizeof(ends) / sizeof(ends[0]))](c);
	return 0;
}
