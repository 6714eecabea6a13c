// SPDX-License-Identifier: MIT
/*
 * dmabuf_promises.c - importers that promise to unmap soon after they are told to, as
 * since Linux 7.1: a commanded move gives them a limited time, keeps nobody else
 * waiting meanwhile, and names who is late.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "dmabuf_kinds.h"

/* Nothing that is to be seen here takes that long; what hangs does, and fails. */
#define LONG_MS 600000

/* A move under way, with an importer that was told and has it mapped still. */
struct moving {
	uint64_t va;
	unsigned long long number;
	int dmabuf, im;
	pthread_t thread;
	int err;
};

static void *mover(void *arg)
{
	struct moving *m = arg;

	m->err = put(DEBUGFS "move", m->number);
	return NULL;
}

static struct moving mapped_by_one(void)
{
	struct moving m = { .va = alloc(visible), .im = importer() };

	m.dmabuf = export(m.va);
	m.number = field(NUMBER);
	EXPECT(attach(m.im, m.dmabuf, IMPORTER_LAZY), 0);
	EXPECT(map(m.im), 0);
	return m;
}

static void wait_told(int im, uint32_t times)
{
	while (state(im).notified < times)
		usleep(1000);
}

static void begin(struct moving *m)
{
	EXPECT(put(TIMEOUT, LONG_MS), 0);
	NEED(!pthread_create(&m->thread, NULL, mover, m));
	wait_told(m->im, 1);
	CHECK(state(m->im).mapped, "not mapped any more");
}

static void unmap(int im)
{
	NEED(!ioctl(im, IMPORTER_UNMAP));
}

static void end(const struct moving *m)
{
	close(m->im);
	close(m->dmabuf);
	free_visible(m->va);
}

/* Meanwhile others find, make and end dma-bufs. */
static void in_time(void)
{
	struct moving m = mapped_by_one();
	uint64_t other = alloc(visible);

	begin(&m);
	CHECK(field(MOVES) == 0 && field(USERS) && field(LATE) == 0, "moved before it was unmapped");
	close(export(other));
	EXPECT(put(DEBUGFS "move", m.number + 100), ENOENT);
	unmap(m.im);
	NEED(!pthread_join(m.thread, NULL));
	EXPECT(m.err, 0);
	CHECK(field(MOVES) == 1 && field(LATE) == 0, "%llu moves, %llu late", field(MOVES), field(LATE));
	EXPECT(map(m.im), 0);
	free_visible(other);
	end(&m);
}

/* Who maps anew while another takes his time is told again. */
static void anew(void)
{
	struct moving m = mapped_by_one();
	int prompt = importer();

	EXPECT(attach(prompt, m.dmabuf, IMPORTER_DYNAMIC), 0);
	EXPECT(map(prompt), 0);
	begin(&m);
	wait_told(prompt, 1);
	EXPECT(map(prompt), 0);
	unmap(m.im);
	NEED(!pthread_join(m.thread, NULL));
	EXPECT(m.err, 0);
	CHECK(state(prompt).notified == 2 && !state(prompt).mapped, "%u calls", state(prompt).notified);
	close(prompt);
	end(&m);
}

/* How often the kernel's log says, from where it was opened on, that somebody keeps this dma-buf. */
static int named(int log, unsigned long long number)
{
	char line[8192], text[64];
	int n = 0;
	ssize_t got;

	snprintf(text, sizeof(text), "has not released dma-buf %llu within 50 ms", number);
	/* EPIPE: lines were lost; those that follow are there. */
	while ((got = read(log, line, sizeof(line) - 1)) > 0 || (got < 0 && errno == EPIPE)) {
		if (got < 0)
			continue;
		line[got] = 0;
		n += strstr(line, text) != NULL;
	}
	return n;
}

/* Named once, it keeps the memory where it is, freed or not. */
static void late(void)
{
	struct moving m = mapped_by_one();
	char *view = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, m.dmabuf, 0);
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct softgpu_info before = { 0 }, after = { 0 };

	NEED(view != MAP_FAILED && log >= 0);
	NEED(lseek(log, 0, SEEK_END) >= 0);
	fill(view, 40);
	EXPECT(put(TIMEOUT, 50), 0);
	EXPECT(put(DEBUGFS "move", m.number), EBUSY);
	CHECK(field(MOVES) == 0 && field(LATE) == 1, "%llu moves, %llu late", field(MOVES), field(LATE));
	CHECK(state(m.im).notified == 1 && state(m.im).mapped, "%u calls", state(m.im).notified);
	EXPECT(put(DEBUGFS "evict", m.number), EBUSY);
	CHECK(field(EVICTIONS) == 0 && field(LATE) == 1 && !field(IN_SYSTEM), "%llu late", field(LATE));
	EXPECT(named(log, m.number), 1);
	NEED(!SG_CALL(g.fd, SOFTGPU_INFO, &before));
	free_visible(m.va);
	NEED(!SG_CALL(g.fd, SOFTGPU_INFO, &after));
	CHECK(before.vram_free == after.vram_free, "given to others");
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

/* Who keeps it by his pin, looks at it, or cannot be told, is not waited for. */
static void in_vain(void)
{
	struct moving m = mapped_by_one();
	struct importer_view v = { .fd = m.dmabuf };
	int other = importer();

	EXPECT(put(TIMEOUT, LONG_MS), 0);
	EXPECT(attach(other, m.dmabuf, IMPORTER_PINNING), 0);
	EXPECT(put(DEBUGFS "move", m.number), EBUSY);
	detach(other);
	NEED(!ioctl(other, IMPORTER_VMAP, &v));
	EXPECT(put(DEBUGFS "move", m.number), EBUSY);
	NEED(!ioctl(other, IMPORTER_VUNMAP));
	EXPECT(attach(other, m.dmabuf, IMPORTER_DEAF), 0);
	EXPECT(map(other), 0);
	EXPECT(put(DEBUGFS "move", m.number), EBUSY);
	CHECK(state(m.im).notified == 0 && state(other).notified == 0, "somebody was told");
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
	char command[80];
	int status;
	pid_t pid;

	EXPECT(put(TIMEOUT, LONG_MS), 0);
	snprintf(command, sizeof(command), "exec echo %llu >" DEBUGFS "move", m.number);
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	wait_told(m.im, 1);
	NEED(!kill(pid, SIGKILL) && waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status), "status %#x", status);
	CHECK(field(MOVES) == 0 && field(LATE) == 0, "%llu moves, %llu late", field(MOVES), field(LATE));
	end(&m);
}

/* The importer was the last to have the dma-buf, which goes while its move is under way. */
static void gone(void)
{
	struct moving m = mapped_by_one();

	begin(&m);
	close(m.dmabuf);
	detach(m.im);
	NEED(!pthread_join(m.thread, NULL));
	EXPECT(m.err, 0);
	CHECK(!movable(), "it is still there");
	close(m.im);
	free_visible(m.va);
}

void promises(void)
{
	int im = importer();
	bool promised = ioctl(im, IMPORTER_PROMISES) == 1;

	close(im);
	if (!promised)
		return;
	in_time();
	anew();
	late();
	in_vain();
	killed();
	gone();
	EXPECT(put(TIMEOUT, 10000), 0);
}
