// SPDX-License-Identifier: MIT
/* ops.c - what a child does while it lives. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "peerdma_ioctl.h"
#include "touch.h"

#define PAGE64		0x10000ULL
#define GENERATIONS	1024	/* slots that a child looks at */

/* ---- allocations ---- */

static uint64_t some_length(struct child *c)
{
	static const uint64_t lengths[] = {
		100, 4096, PAGE64, PAGE64, 3 * PAGE64, 200000, 1 << 20, 4 << 20,
	};

	/* Now and then one that does not fit. */
	if (rnd_chance(&c->rnd, 2))
		return 512ULL << 20;
	return lengths[rnd_below(&c->rnd, sizeof(lengths) / sizeof(lengths[0]))];
}

static void do_alloc(struct child *c)
{
	struct area *a = NULL;
	int i, err = 0;

	for (i = 0; i < AREAS && !a; i++)
		if (!c->areas[i].len)
			a = &c->areas[i];
	if (!a)
		return;
	memset(a, 0, sizeof(*a));
	a->device = rnd_chance(&c->rnd, 80);
	a->len = some_length(c);
	if (a->device) {
		err = c->gpu.ops->alloc(&c->gpu, a->len, &a->va);
		child_allow(c, "allocation of GPU memory", err, ENOSPC);
		/* Pages of its own come zeroed; shared ones do not. */
		a->known = a->len >= PAGE64;
	} else {
		void *p;

		a->len = a->len > 1 << 20 ? 1 << 20 : (a->len + 4095) & ~4095ULL;
		p = mmap(NULL, a->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			err = ENOMEM;
		a->va = (uintptr_t)p;
		a->known = true;
	}
	if (err)
		a->len = 0;
	else
		child_count(DID_ALLOC);
}

/* Pins of a Tegra's memory are revoked at once, and taken down by another thread of the kernel. */
static void wait_for_bridge(void)
{
	for (int ms = 0, ending = 1; ending && ms < 10000; ms++) {
		FILE *f = fopen("/sys/module/peerdma_tegra/parameters/ending", "r");

		if (!f || fscanf(f, "%d", &ending) != 1)
			ending = 0;
		if (f)
			fclose(f);
		if (ending)
			usleep(1000);
	}
}

void child_check_revoked(struct child *c, struct held *h)
{
	struct peerdma_query_args q = { .handle = h->handle };
	uint64_t value;
	int err, sig;

	if (c->gpu.ops->in_host)
		wait_for_bridge();
	h->revoked = true;
	child_count(DID_REVOKED);
	err = CALL(c->pd, PEERDMA_QUERY, &q);
	if (err || q.state != PEERDMA_STATE_REVOKED || q.mappings)
		child_fail("pin %u of freed memory, the child's pin %u of %u, view %p: query says %s, state %u, %u mappings, of [%#llx, +%#llx), flags %#x",
			   h->handle, h->made, c->pins_made, (void *)h->view, strerror(err), q.state, q.mappings, (unsigned long long)q.addr,
			   (unsigned long long)q.length, q.flags);
	if (h->slot < GENERATIONS && c->generations && c->generations[h->slot] == h->generation)
		child_fail("pin %u of freed memory: its generation is the same", h->handle);
	if (h->view) {
		sig = touch_read(h->view, &value);
		if (sig != SIGBUS)
			child_fail("a view of freed memory answers with signal %d, not SIGBUS", sig);
	}
}

void child_area_gone(struct child *c, struct area *a)
{
	int i;

	for (i = 0; i < PINS; i++) {
		struct held *h = &c->pins[i];

		if (!h->handle || h->area != a)
			continue;
		h->area = NULL;
		/* A small allocation shares its page with others, which may keep the pin. */
		if (!h->device || h->persistent)
			continue;
		if (c->pd >= 0 && !c->race && a->len >= PAGE64)
			child_check_revoked(c, h);
		else
			h->unsure = true;
	}
	a->len = 0;
}

static void do_free(struct child *c)
{
	struct area *a = child_area(c, rnd_chance(&c->rnd, 80));
	int err = 0;

	if (!a)
		return;
	/* A context whose copy meets memory that is gone is lost, as on a GPU. */
	if (a->queued)
		child_expect(c, "waiting for copies", c->gpu.ops->sync(&c->gpu));
	if (a->device)
		err = c->gpu.ops->free(&c->gpu, a->va);
	else
		munmap((void *)(uintptr_t)a->va, a->len);
	if (!child_expect(c, "free", err))
		child_count(DID_FREE);
	child_area_gone(c, a);
}

void child_ctx_gone(struct child *c)
{
	int i;

	/* Slabs of small allocations are gone with the context, so their pins are, too. */
	for (i = 0; i < AREAS; i++) {
		if (!c->areas[i].len || !c->areas[i].device)
			continue;
		if (c->areas[i].len < PAGE64)
			c->areas[i].len = PAGE64;
		child_area_gone(c, &c->areas[i]);
	}
}

static void do_ctx(struct child *c)
{
	child_expect(c, "destruction of the context", c->gpu.ops->ctx_destroy(&c->gpu));
	child_ctx_gone(c);
	child_expect(c, "creation of a context", c->gpu.ops->ctx_create(&c->gpu));
}

/* ---- the rest ---- */

/* It is a dma-buf already. */
static void no_export(struct child *c, struct held *h)
{
	struct peerdma_export_args e = { .handle = h->handle };
	int err = CALL(c->pd, PEERDMA_EXPORT, &e);

	if (!err)
		child_fail("a pin of a dma-buf was exported");
	child_allow(c, "export of a pin of a dma-buf", err, err == ESTALE ? child_may_be_stale(h) : EOPNOTSUPP);
}

static void do_export(struct child *c)
{
	struct held *h = child_some_pin(c);
	struct peerdma_export_args e = { 0 };

	if (!h)
		return;
	if (h->buffer) {
		no_export(c, h);
		return;
	}
	if (h->dmabuf >= 0) {
		close(h->dmabuf);
		h->dmabuf = -1;
		return;
	}
	e.handle = h->handle;
	/* A dma-buf is made of whole pages of the CPU; a revoked pin has none. */
	if (!child_allow(c, "export", CALL(c->pd, PEERDMA_EXPORT, &e), child_may_be_stale(h))) {
		h->dmabuf = e.fd;
		child_count(DID_EXPORT);
	}
}

static void do_copy(struct child *c)
{
	struct area *from = child_area(c, rnd_chance(&c->rnd, 70)), *to = child_area(c, true);
	bool sync = rnd_chance(&c->rnd, 30);
	uint64_t length;

	if (!from || !to || from == to)
		return;
	length = from->len < to->len ? from->len : to->len;
	to->busy = true;
	from->queued |= !from->device && !sync;
	child_count(DID_COPY);
	child_expect(c, "copy", c->gpu.ops->copy(&c->gpu, to->va, from->va, length, sync));
}

static void do_events(struct child *c)
{
	struct peerdma_event events[PINS];
	ssize_t n = read(c->pd, events, sizeof(events));
	int i, k;

	if (n < 0 && errno != EAGAIN)
		child_expect(c, "reading events", errno);
	for (k = 0; k < n / (ssize_t)sizeof(events[0]); k++) {
		for (i = 0; i < PINS; i++) {
			struct held *h = &c->pins[i];

			if (h->handle != events[k].handle || h->generation != events[k].generation)
				continue;
			if (h->told)
				child_fail("two events for pin %u", h->handle);
			h->told = true;
			child_count(DID_EVENT);
		}
	}
	for (i = 0; i < PINS; i++)
		if (c->pins[i].handle && !c->pins[i].unsure &&
		    c->pins[i].told != c->pins[i].revoked)
			child_fail("pin %u: revoked %d, event %d", c->pins[i].handle,
				   c->pins[i].revoked, c->pins[i].told);
}

/* The CPU cannot reach GPU memory by its device address. */
static void do_device_address(struct child *c)
{
	struct area *a = child_area(c, true);
	uint64_t value;
	int sig;

	if (!a || c->gpu.ops->in_host)
		return;
	sig = touch_read((const uint64_t *)(uintptr_t)(a->va & ~7ULL), &value);
	if (sig != SIGSEGV)
		child_fail("a load from a device address answers with signal %d", sig);
}

/* Its handle has gone to a later pin: another thread has ended it. */
static bool is_replaced(const struct child *c, const struct held *h)
{
	int i;

	for (i = 0; i < PINS; i++)
		if (c->pins[i].handle == h->handle && c->pins[i].made > h->made)
			return true;
	return false;
}

void child_take_stock(struct child *c)
{
	struct peerdma_event event;
	int i;

	while (c->pd >= 0 && read(c->pd, &event, sizeof(event)) == sizeof(event))
		;
	for (i = 0; i < PINS; i++) {
		struct held *h = &c->pins[i];
		struct peerdma_query_args q = { .handle = h->handle };

		if (!h->handle)
			continue;
		if (c->pd < 0 || is_replaced(c, h) || CALL(c->pd, PEERDMA_QUERY, &q)) {
			child_forget(c, h);
			continue;
		}
		h->revoked = q.state == PEERDMA_STATE_REVOKED;
		h->told = h->revoked;
	}
}

void child_step(struct child *c)
{
	static const struct {
		void (*op)(struct child *c);
		uint32_t weight;
	} ops[] = {
		{ do_alloc, 17 }, { do_free, 7 }, { child_do_pin, 19 }, { child_do_unpin, 8 }, { child_do_map, 12 },
		{ child_do_view, 12 }, { do_export, 5 }, { do_copy, 4 }, { do_events, 4 },
		{ do_device_address, 2 }, { do_ctx, 1 }, { child_do_buffer, 9 },
	};
	uint32_t n = rnd_below(&c->rnd, 100), i;

	for (i = 0; n >= ops[i].weight; i++)
		n -= ops[i].weight;
	ops[i].op(c);
}
