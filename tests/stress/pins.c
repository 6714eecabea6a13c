// SPDX-License-Identifier: MIT
/* pins.c - pins of a child, and what is made from them: mappings, views, copies by a card. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "fpga_ioctl.h"
#include "peerdma_ioctl.h"
#include "touch.h"

#define SEGMENTS	256

/* ---- what there is ---- */

struct area *child_area(struct child *c, bool device)
{
	int first = rnd_below(&c->rnd, AREAS), i;

	for (i = 0; i < AREAS; i++) {
		struct area *a = &c->areas[(first + i) % AREAS];

		if (a->len && a->device == device)
			return a;
	}
	return NULL;
}

struct held *child_free_slot(struct child *c)
{
	int i;

	for (i = 0; i < PINS; i++)
		if (!c->pins[i].handle)
			return &c->pins[i];
	return NULL;
}

struct held *child_some_pin(struct child *c)
{
	int first = rnd_below(&c->rnd, PINS), i;

	for (i = 0; i < PINS; i++) {
		struct held *h = &c->pins[(first + i) % PINS];

		if (h->handle)
			return h;
	}
	return NULL;
}

static void drop_view(struct held *h)
{
	if (h->view)
		munmap((void *)h->view, h->view_length);
	h->view = NULL;
}

void child_forget(struct child *c, struct held *h)
{
	drop_view(h);
	if (h->dmabuf >= 0)
		close(h->dmabuf);
	memset(h, 0, sizeof(*h));
	h->dmabuf = -1;
}

/* ---- pins ---- */

/* Whose it became: where the CPU has the memory too, the host has it when no provider knows it. */
static bool is_device(struct child *c, uint32_t handle)
{
	struct peerdma_query_args q = { .handle = handle };

	return CALL(c->pd, PEERDMA_QUERY, &q) || q.flags & PEERDMA_PIN_DEVICE;
}

int child_pin(struct child *c, struct area *a, struct held *h)
{
	struct peerdma_pin_args p = { 0 };
	uint64_t token = 0;
	uint64_t at = rnd_chance(&c->rnd, 50) ? 0 : rnd_next(&c->rnd) % a->len;
	int err;

	p.addr = a->va + at;
	p.length = rnd_chance(&c->rnd, 50) ? a->len - at : 1 + rnd_next(&c->rnd) % (a->len - at);
	if (a->device && c->gpu.ops->tokens && rnd_chance(&c->rnd, 20))
		p.flags = PEERDMA_PIN_PERSISTENT;
	else if (a->device && c->gpu.ops->tokens && rnd_chance(&c->rnd, 15))
		child_expect(c, "tokens", c->gpu.ops->tokens(&c->gpu, a->va, &token,
							      &p.va_space_token));
	p.p2p_token = token;
	/* On a Tegra all memory is a device's, if it is not asked for as the host's. */
	if (rnd_chance(&c->rnd, 60) || (!a->device && c->gpu.ops->in_host))
		p.flags |= a->device ? PEERDMA_PIN_DEVICE : PEERDMA_PIN_HOST;
	if (rnd_chance(&c->rnd, 5))
		p.flags |= PEERDMA_PIN_READONLY;

	err = CALL(c->pd, PEERDMA_PIN, &p);
	/* Only peerdma_nvidia.ko knows persistent pins, and it may be out at the moment. */
	if (err == EOPNOTSUPP && c->churn && p.flags & PEERDMA_PIN_PERSISTENT)
		return err;
	/* Without the module that knows it, memory that the CPU sees is the host's to refuse. */
	if (err == EFAULT && c->churn && a->device && !(p.flags & PEERDMA_PIN_DEVICE))
		return err;
	if (child_allow(c, "pin", err, ENOSPC))
		return err;
	memset(h, 0, sizeof(*h));
	child_count(DID_PIN);
	h->handle = p.handle;
	h->slot = p.slot;
	h->generation = p.generation;
	h->made = ++c->pins_made;
	h->area = a;
	h->device = a->device && (p.flags & PEERDMA_PIN_DEVICE || is_device(c, p.handle));
	h->persistent = p.flags & PEERDMA_PIN_PERSISTENT;
	h->unsure = revoke_every && h->device && !h->persistent;
	/* Of the area's first byte; negative where the pin begins behind it. */
	h->offset = p.offset - at;
	h->length = p.pinned_length;
	h->dmabuf = -1;
	if (p.flags & PEERDMA_PIN_READONLY)
		a->busy = true;
	return 0;
}

void child_do_pin(struct child *c)
{
	struct area *a = child_area(c, rnd_chance(&c->rnd, 80));
	struct held *h = child_free_slot(c);

	if (a && h)
		child_pin(c, a, h);
}

int child_unpin(struct child *c, struct held *h)
{
	struct peerdma_handle_args p = { .handle = h->handle };
	uint64_t value;
	int err, sig;

	err = child_expect(c, "unpin", CALL(c->pd, PEERDMA_UNPIN, &p));
	if (!err)
		child_count(DID_UNPIN);
	if (!err && h->view) {
		sig = touch_read(h->view, &value);
		if (sig != SIGBUS)
			child_fail("a view answers with signal %d after unpin, not SIGBUS", sig);
	}
	child_forget(c, h);
	return err;
}

void child_do_unpin(struct child *c)
{
	struct held *h = child_some_pin(c);

	if (h)
		child_unpin(c, h);
}

/* ---- devices ---- */

static bool find_card(struct peerdma_map_args *m, uint32_t which)
{
	char path[64], link[256], *name;
	unsigned int slot, function;
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/class/misc/fpga%u/device", which);
	n = readlink(path, link, sizeof(link) - 1);
	if (n <= 0)
		return false;
	link[n] = 0;
	name = strrchr(link, '/');
	if (!name || sscanf(name, "/%x:%x:%x.%x", &m->domain, &m->bus, &slot, &function) != 4)
		return false;
	m->devfn = slot << 3 | function;
	return true;
}

/* For child_expect(). */
int child_may_be_stale(const struct held *h)
{
	return h->revoked || h->unsure ? ESTALE : 0;
}

int child_map(struct child *c, struct held *h)
{
	struct peerdma_segment segments[SEGMENTS];
	struct peerdma_map_args m = {
		.handle = h->handle,
		.flags = PEERDMA_MAP_TO_DEVICE,
		.segment_count = SEGMENTS,
		.segments = (uintptr_t)segments,
	};
	int err;

	if (!c->cards || !find_card(&m, rnd_below(&c->rnd, c->cards)))
		return ENODEV;
	err = CALL(c->pd, PEERDMA_MAP, &m);
	if (h->revoked && err != ESTALE && !c->race)
		child_fail("a revoked pin is mapped: %s", strerror(err));
	child_allow(c, "map", err, child_map_may(h, err));
	if (!err && m.mapping) {
		child_count(DID_MAP);
		if (h->mapping) {
			/* One to be taken back at once; the other stays. */
			struct peerdma_handle_args u = { .handle = m.mapping };

			child_expect(c, "unmap", CALL(c->pd, PEERDMA_UNMAP, &u));
		} else {
			h->mapping = m.mapping;
		}
	}
	return err;
}

void child_do_map(struct child *c)
{
	struct held *h = child_some_pin(c);
	struct peerdma_handle_args u;

	if (!h)
		return;
	if (!h->mapping) {
		child_map(c, h);
		return;
	}
	u.handle = h->mapping;
	h->mapping = 0;
	child_expect(c, "unmap", CALL(c->pd, PEERDMA_UNMAP, &u));
}

int child_fpga_copy(struct child *c)
{
	struct area *from = child_area(c, true), *to = child_area(c, rnd_chance(&c->rnd, 50));
	struct fpga_copy copy = { 0 };
	char path[32];
	int fd, err;

	if (!c->cards || !from || !to || from == to)
		return 0;
	snprintf(path, sizeof(path), "/dev/fpga%u", rnd_below(&c->rnd, c->cards));
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return child_expect(c, "opening the card", errno);
	copy.src = from->va;
	copy.dst = to->va;
	copy.length = from->len < to->len ? from->len : to->len;
	if (copy.length > 2000)
		copy.length = 2000;
	to->busy = true;
	err = CALL(fd, FPGA_COPY, &copy);
	close(fd);
	if (!err)
		child_count(DID_FPGA);
	return child_allow(c, "copy through the card", err,
			   revoke_every && err == ECANCELED ? ECANCELED : ENOSPC);
}

/* ---- the CPU's view ---- */

/* It is the dma-buf that is mapped, if its exporter lets it be. */
static int no_view(struct child *c, struct held *h)
{
	if (mmap(NULL, (size_t)getpagesize(), PROT_READ, MAP_SHARED, c->pd, PEERDMA_MMAP_PIN(h->handle)) != MAP_FAILED)
		child_fail("a pin of a dma-buf has a view");
	return child_allow(c, "view of a pin of a dma-buf", errno,
			   errno == ESTALE ? child_may_be_stale(h) : EOPNOTSUPP);
}

int child_view(struct child *c, struct held *h)
{
	/* READONLY pins, whose area is marked busy, are not for writing. */
	int prot = !h->area || h->area->busy ? PROT_READ : PROT_READ | PROT_WRITE;
	uint64_t page = (uint64_t)getpagesize();
	void *p;

	if (h->buffer)
		return no_view(c, h);
	if (h->view)
		return 0;
	h->view_length = h->length;
	if (rnd_chance(&c->rnd, 30))
		h->view_length = page * (1 + rnd_next(&c->rnd) % (h->length / page));
	h->view_of_dmabuf = h->dmabuf >= 0 && rnd_chance(&c->rnd, 50);
	p = mmap(NULL, h->view_length, prot,
		 MAP_SHARED, h->view_of_dmabuf ? h->dmabuf : c->pd,
		 h->view_of_dmabuf ? 0 : PEERDMA_MMAP_PIN(h->handle));
	if (p == MAP_FAILED)
		return child_allow(c, "view", errno, child_may_be_stale(h));
	child_count(DID_VIEW);
	h->view = p;
	return 0;
}

void child_touch(struct child *c, struct held *h)
{
	uint64_t value, tag;
	int sig;

	if (!h->view)
		return;
	sig = touch_read(h->view + rnd_next(&c->rnd) % (h->view_length / 8), &value);
	child_count(sig == SIGBUS ? DID_SIGBUS : DID_TOUCH);
	if (c->race || h->unsure)
		return;
	if (h->revoked != (sig == SIGBUS) || (sig && sig != SIGBUS))
		child_fail("a view of a %s pin answers with signal %d",
			   h->revoked ? "revoked" : "live", sig);
	/* The area's first word is in the view if the pin begins at or before it. */
	if (sig || !h->area || h->area->busy || h->offset + 8 > h->view_length ||
	    (int64_t)h->offset < 0 || h->offset % 8)
		return;
	sig = touch_read(h->view + h->offset / 8, &value);
	if (sig)
		child_fail("a live view raises signal %d", sig);
	if (h->area->known && value != h->area->tag)
		child_fail("another process wrote to this memory: %#llx is now %#llx",
			   (unsigned long long)h->area->tag, (unsigned long long)value);
	tag = rnd_next(&c->rnd);
	sig = touch_write(h->view + h->offset / 8, tag);
	if (sig)
		return;		/* a view for reading */
	h->area->tag = tag;
	h->area->known = true;
}

void child_do_view(struct child *c)
{
	struct held *h = child_some_pin(c);

	if (!h)
		return;
	child_view(c, h);
	child_touch(c, h);
	if (rnd_chance(&c->rnd, 30))
		drop_view(h);
}

