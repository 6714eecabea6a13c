// SPDX-License-Identifier: MIT
/*
 * buffers.c - dma-bufs in a child's hands: dmabuf_mover.ko's, which it moves and
 * revokes itself, and those that softgpu makes of GPU memory, which stay.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "dmabuf_mover.h"
#include "peerdma_ioctl.h"
#include "touch.h"

static void control_path(const struct buffer *b, char *path, size_t size)
{
	snprintf(path, size, "/sys/kernel/debug/dmabuf_mover/%u", b->number);
}

int child_command(const struct buffer *b, const char *command)
{
	char path[64];
	int fd, err;

	control_path(b, path, sizeof(path));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	err = write(fd, command, strlen(command)) < 0 ? errno : 0;
	close(fd);
	return err;
}

static long told(const struct buffer *b, const char *name)
{
	char path[64], line[256];
	size_t n = strlen(name);
	long value = -1;
	FILE *f;

	control_path(b, path, sizeof(path));
	f = fopen(path, "re");
	if (!f)
		child_fail("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, n) && line[n] == ' ')
			value = atol(line + n);
	fclose(f);
	return value;
}

/* ---- their beginning and end ---- */

static int make_movable(struct child *c, struct buffer *b)
{
	struct mover_create m = { .length = (uint64_t)getpagesize() * (1 + rnd_below(&c->rnd, 64)) };
	int mover = open("/dev/dmabuf_mover", O_RDWR | O_CLOEXEC), err;
	void *p;

	if (mover < 0)
		return errno;
	err = CALL(mover, MOVER_CREATE, &m);
	close(mover);
	if (err)
		return err;
	p = mmap(NULL, m.length, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
	if (p == MAP_FAILED)
		child_fail("mmap of a dma-buf: %s", strerror(errno));
	*b = (struct buffer){ .live = true, .movable = true, .fd = m.fd, .number = m.number, .len = m.length, .bytes = p };
	b->tag = rnd_next(&c->rnd);
	b->bytes[0] = b->tag;
	return 0;
}

static int make_of_gpu(struct child *c, struct buffer *b)
{
	struct area *a = child_area(c, true);
	int err;

	if (!a || !c->gpu.ops->export)
		return ENOENT;
	*b = (struct buffer){ .len = (a->len + 4095) & ~4095ULL };
	err = c->gpu.ops->export(&c->gpu, a->va & ~4095ULL, b->len, &b->fd);
	/* A small one's page is shared with others: the range may be of two. */
	if (!child_allow(c, "dma-buf of GPU memory", err, a->len < 0x10000 && err == EINVAL ? EINVAL : ENOSPC))
		b->live = true;
	return err;
}

int child_make_buffer(struct child *c, struct buffer *b, bool movable)
{
	int err = movable ? make_movable(c, b) : make_of_gpu(c, b);

	if (movable)
		child_expect(c, "a dma-buf of dmabuf_mover", err);
	if (!err)
		child_count(DID_BUFFER);
	return err;
}

static void check_bytes(struct buffer *b)
{
	uint64_t value;
	int sig = touch_read(b->bytes, &value);

	if (b->wild)
		return;
	if (sig != (b->revoked ? SIGBUS : 0))
		child_fail("a %s dma-buf's mmap answers with signal %d", b->revoked ? "revoked" : "live", sig);
	if (!sig && value != b->tag)
		child_fail("a dma-buf had %#llx and has %#llx", (unsigned long long)b->tag, (unsigned long long)value);
}

void child_drop_buffer(struct child *c, struct buffer *b)
{
	int i;

	if (b->movable) {
		check_bytes(b);
		if (told(b, "late") || told(b, "stale"))
			child_fail("dma-buf %u: %ld importers were late, %ld wrote to memory that they had let go of",
				   b->number, told(b, "late"), told(b, "stale"));
		munmap((void *)b->bytes, b->len);
	}
	close(b->fd);
	/* Its pins keep it. */
	for (i = 0; i < PINS; i++)
		if (c->pins[i].buffer == b) {
			c->pins[i].buffer = &c->dropped;
			c->pins[i].unsure |= b->revoked;
		}
	memset(b, 0, sizeof(*b));
}

/* ---- pins of them ---- */

int child_pin_buffer(struct child *c, struct buffer *b, struct held *h)
{
	struct peerdma_pin_dmabuf_args p = { .fd = b->fd };
	int err;

	if (rnd_chance(&c->rnd, 50)) {
		p.offset = rnd_next(&c->rnd) % b->len;
		p.length = rnd_next(&c->rnd) % (b->len - p.offset);
	}
	if (rnd_chance(&c->rnd, 10))
		p.flags = PEERDMA_PIN_READONLY;
	err = CALL(c->pd, PEERDMA_PIN_DMABUF_FD, &p);
	if (child_expect(c, "pin of a dma-buf", err))
		return err;
	memset(h, 0, sizeof(*h));
	child_count(DID_PIN_BUFFER);
	h->handle = p.handle;
	h->slot = p.slot;
	h->generation = p.generation;
	h->made = ++c->pins_made;
	h->device = true;
	h->buffer = b;
	h->unsure = b->wild;
	h->length = p.pinned_length;
	h->dmabuf = -1;
	return 0;
}

/*
 * What took the memory away has returned: each pin that was mapped is over.  Where the
 * card's driver comes and goes, mappings end with it, and then a pin may be without.
 */
static void check_gone(struct child *c, const struct buffer *b)
{
	int i;

	for (i = 0; i < PINS && c->pd >= 0; i++) {
		struct held *h = &c->pins[i];

		if (!h->handle || h->buffer != b || !h->mapping || h->unsure || h->revoked)
			continue;
		if (c->churn)
			h->unsure = true;
		else
			child_check_revoked(c, h);
	}
}

/* Refusals and what is ordered for later: what comes of the buffer's pins is not known any more. */
static void let_loose(struct child *c, struct buffer *b)
{
	static const char *const orders[] = {
		"refuse pin", "refuse map", "refuse attach 2", "refuse map 1 12", "delay 1", "at attach move", "at pin move",
		"at map move", "at map revoke", "after map move", "after map revoke", "after unmap move", "at detach revoke",
	};
	int i, err;

	b->wild = true;
	for (i = 0; i < PINS; i++)
		if (c->pins[i].buffer == b)
			c->pins[i].unsure = true;
	err = child_command(b, orders[rnd_below(&c->rnd, sizeof(orders) / sizeof(orders[0]))]);
	if (err)
		child_fail("an order for a dma-buf: %s", strerror(err));
}

static void do_command(struct child *c, struct buffer *b)
{
	bool move = rnd_chance(&c->rnd, 60);
	int err;

	if (!b->movable)
		return;
	if (rnd_chance(&c->rnd, 30)) {
		let_loose(c, b);
		return;
	}
	err = child_command(b, move ? "move" : "revoke");
	child_count(move ? DID_MOVE : DID_REVOKE);
	if (b->wild) {
		if (err && err != ENODEV && err != EBUSY)
			child_fail("%s of a dma-buf: %s", move ? "move" : "revoke", strerror(err));
		b->revoked |= !move;
		return;
	}
	/* peerdma pins what it may, and then the mover must not move it; but it may always take it away. */
	if (err != (b->revoked ? ENODEV : 0) && !(move && err == EBUSY))
		child_fail("%s of a dma-buf: %s", move ? "move" : "revoke", strerror(err));
	b->revoked |= !move;
	if (!err)
		check_gone(c, b);
	check_bytes(b);
}

static struct buffer *some_buffer(struct child *c)
{
	return &c->buffers[rnd_below(&c->rnd, BUFFERS)];
}

void child_do_buffer(struct child *c)
{
	struct buffer *b = some_buffer(c);
	struct held *h = child_free_slot(c);

	if (!b->live)
		child_make_buffer(c, b, rnd_chance(&c->rnd, 70));
	else if (rnd_chance(&c->rnd, 15))
		child_drop_buffer(c, b);
	else if (rnd_chance(&c->rnd, 50))
		do_command(c, b);
	else if (h)
		child_pin_buffer(c, b, h);
}

/* Pins of it come and go while another thread moves it and takes it away. */
void child_pin_on_buffer(struct child *c, struct buffer *b)
{
	int i, n = 2 + rnd_below(&c->rnd, 8);

	for (i = 0; i < n; i++) {
		struct held *h = child_free_slot(c);

		if (!h) {
			h = &c->pins[rnd_below(&c->rnd, PINS)];
			child_unpin(c, h);
		}
		if (child_pin_buffer(c, b, h))
			continue;
		h->unsure = true;
		child_map(c, h);
		if (rnd_chance(&c->rnd, 70))
			child_unpin(c, h);
	}
}

/* For child_allow(): what a map of this pin may answer. */
int child_map_may(const struct held *h, int err)
{
	if (h->buffer && h->unsure && (err == EOPNOTSUPP || err == ENOMEM))
		return err;
	if (h->buffer && h->buffer->revoked)
		return ESTALE;
	return child_may_be_stale(h);
}
