// SPDX-License-Identifier: MIT
/*
 * dmabuf_promises.c - importers that promise to unmap soon after they are told to, as
 * since Linux 7.1: a commanded move gives them a limited time, keeps no other
 * importer waiting meanwhile, and names the one that is late.
 */
#include "dmabuf_kinds.h"

/* Nothing that is to be seen here takes that long; what hangs does, and fails. */
#define LONG_MS 600000

/* A move under way, with an importer that was told and has it mapped still. */
struct moving {
	uint64_t va;
	unsigned long long number;
	int dmabuf, im;
	struct task task;
	int err;
};

static void mover(void *arg)
{
	struct moving *m = arg;

	m->err = put(DEBUGFS "move", m->number);
}

static struct moving mapped_by_one(void)
{
	struct moving m = { .va = alloc(visible), .im = importer_open() };

	m.dmabuf = export(m.va);
	m.number = field(NUMBER);
	EXPECT(attach(m.im, m.dmabuf, IMPORTER_LAZY), 0);
	EXPECT(map(m.im), 0);
	return m;
}

static void wait_told(int im, uint32_t times)
{
	CHECK(UNTIL(importer_state(im).notified >= times));
}

static void move_begin(struct moving *m)
{
	EXPECT(put(TIMEOUT, LONG_MS), 0);
	task_begin(&m->task, mover, m);
	wait_told(m->im, 1);
	CHECK(importer_state(m->im).mapped, "not mapped any more");
}

static void unmap(int im)
{
	MUST(!importer_unmap(im));
}

static void end(const struct moving *m)
{
	close(m->im);
	close(m->dmabuf);
	EXPECT(sg_free_visible(g.fd, m->va), 0);
}

/* Meanwhile others find, make and end dma-bufs. */
static void in_time(void)
{
	struct moving m = mapped_by_one();
	uint64_t other = alloc(visible);

	move_begin(&m);
	CHECK(field(MOVES) == 0 && field(USERS) && field(LATE) == 0, "moved before it was unmapped");
	close(export(other));
	EXPECT(put(DEBUGFS "move", m.number + 100), ENOENT);
	unmap(m.im);
	task_end(&m.task);
	EXPECT(m.err, 0);
	CHECK(field(MOVES) == 1 && field(LATE) == 0, "%llu moves, %llu late", field(MOVES), field(LATE));
	EXPECT(map(m.im), 0);
	EXPECT(sg_free_visible(g.fd, other), 0);
	end(&m);
}

/* The exporter notifies an importer again that maps anew while another takes its time. */
static void anew(void)
{
	struct moving m = mapped_by_one();
	int prompt = importer_open();

	EXPECT(attach(prompt, m.dmabuf, IMPORTER_DYNAMIC), 0);
	EXPECT(map(prompt), 0);
	move_begin(&m);
	wait_told(prompt, 1);
	EXPECT(map(prompt), 0);
	unmap(m.im);
	task_end(&m.task);
	EXPECT(m.err, 0);
	CHECK(importer_state(prompt).notified == 2 && !importer_state(prompt).mapped, "%u calls", importer_state(prompt).notified);
	close(prompt);
	end(&m);
}

/* How often the kernel's log says, since the last look, that an importer keeps this dma-buf. */
static int named(int log, unsigned long long number)
{
	char text[64];

	snprintf(text, sizeof(text), "has not released dma-buf %llu within 50 ms", number);
	return log_records(log, text, "");
}

/* Named once, it keeps the memory where it is, freed or not. */
static void late(void)
{
	struct moving m = mapped_by_one();
	char *view = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, m.dmabuf, 0);
	int log = log_open();
	uint64_t vram;

	MUST(view != MAP_FAILED);
	fill(view, 40);
	EXPECT(put(TIMEOUT, 50), 0);
	EXPECT(put(DEBUGFS "move", m.number), EBUSY);
	CHECK(field(MOVES) == 0 && field(LATE) == 1, "%llu moves, %llu late", field(MOVES), field(LATE));
	CHECK(importer_state(m.im).notified == 1 && importer_state(m.im).mapped, "%u calls", importer_state(m.im).notified);
	EXPECT(put(DEBUGFS "evict", m.number), EBUSY);
	CHECK(field(EVICTIONS) == 0 && field(LATE) == 1 && !field(IN_SYSTEM), "%llu late", field(LATE));
	EXPECT(named(log, m.number), 1);
	vram = sg_need_info(g.fd).vram_free;
	EXPECT(sg_free_visible(g.fd, m.va), 0);
	CHECK(sg_need_info(g.fd).vram_free == vram, "given to others");
	CHECK(field(USERS) && field(PLACED) && filled(view, 40), "not where it was");
	unmap(m.im);
	CHECK(field(LATE) == 0, "%llu late, of none", field(LATE));
	EXPECT(put(DEBUGFS "move", m.number), 0);
	CHECK(filled(view, 40), "bytes are lost in a move");
	/* Another mapping is named anew. */
	EXPECT(map(m.im), 0);
	EXPECT(put(DEBUGFS "move", m.number), EBUSY);
	EXPECT(named(log, m.number), 1);
	munmap(view, LENGTH);
	close(log);
	close(m.im);
	close(m.dmabuf);
}

/* An importer that keeps it by its pin, looks at it, or cannot be notified, is not waited for. */
static void in_vain(void)
{
	struct moving m = mapped_by_one();
	struct importer_view v = { .fd = m.dmabuf };
	int other = importer_open();

	EXPECT(put(TIMEOUT, LONG_MS), 0);
	EXPECT(attach(other, m.dmabuf, IMPORTER_PINNING), 0);
	EXPECT(put(DEBUGFS "move", m.number), EBUSY);
	detach(other);
	MUST(!ioctl(other, IMPORTER_VMAP, &v));
	EXPECT(put(DEBUGFS "move", m.number), EBUSY);
	MUST(!ioctl(other, IMPORTER_VUNMAP));
	EXPECT(attach(other, m.dmabuf, IMPORTER_DEAF), 0);
	EXPECT(map(other), 0);
	EXPECT(put(DEBUGFS "move", m.number), EBUSY);
	CHECK(importer_state(m.im).notified == 0 && importer_state(other).notified == 0, "the exporter notified an importer");
	CHECK(field(LATE) == 0, "%llu late", field(LATE));
	/* Attached, it keeps nothing. */
	unmap(other);
	unmap(m.im);
	EXPECT(put(DEBUGFS "move", m.number), 0);
	close(other);
	end(&m);
}

/* A program that is killed does not wait any longer. */
static void killed(void)
{
	struct moving m = mapped_by_one();
	pid_t pid;

	EXPECT(put(TIMEOUT, LONG_MS), 0);
	pid = fork();
	MUST(pid >= 0);
	if (!pid)
		_exit(put(DEBUGFS "move", m.number));
	wait_told(m.im, 1);
	MUST(!kill(pid, SIGKILL));
	EXPECT(check_wait(pid, 60 * patience()), -SIGKILL);
	CHECK(field(MOVES) == 0 && field(LATE) == 0, "%llu moves, %llu late", field(MOVES), field(LATE));
	end(&m);
}

/* The importer was the last to have the dma-buf, which goes while its move is under way. */
static void gone(void)
{
	struct moving m = mapped_by_one();

	move_begin(&m);
	close(m.dmabuf);
	detach(m.im);
	task_end(&m.task);
	EXPECT(m.err, 0);
	CHECK(!movable(), "it is still there");
	close(m.im);
	EXPECT(sg_free_visible(g.fd, m.va), 0);
}

void promises(void)
{
	if (!importers_promise())
		return;
	in_time();
	anew();
	late();
	in_vain();
	killed();
	gone();
	EXPECT(put(TIMEOUT, 10000), 0);
}
