// SPDX-License-Identifier: MIT
/* softgpu_deaths.c - processes that are killed, and memory and files that go, while the GPU works for them. */
#include <linux/userfaultfd.h>
#include "sgraw.h"
#include "unanswered.h"

/* ---- in mid copy, in mid call ---- */

/* Gives the engines work until it is killed. */
static void busy_child(void)
{
	struct gpu g = gpu_up(0);
	size_t n = 8 << 20;
	char *host = malloc(n);
	uint64_t va;
	int i;

	MUST(host && !sg_alloc(g.fd, g.ctx, n, &va));
	for (i = 0; ; i++) {
		if (sg_copy(g.fd, g.ctx, va, PTR(host), n, 0) ||
		    sg_copy(g.fd, g.ctx, PTR(host), va, n, 0))
			break;
		if (i == 20)
			sg_ctx_sync(g.fd, g.ctx);
		i %= 20;
	}
}

static void killed_in_mid_copy(struct gpu *g)
{
	struct idle idle = idle_now(g->fd);
	int round;

	for (round = 0; round < 10; round++) {
		pid_t pid = fork();

		MUST(pid >= 0);
		if (!pid) {
			busy_child();
			_exit(0);
		}
		usleep(20000 + round * 15000);
		kill(pid, SIGKILL);
		MUST(waitpid(pid, NULL, 0) == pid);
	}
	check_idle(g->fd, &idle, "processes were killed in the middle of copies");
}

/* Memory vanishes under a copy: its context is dead, the machine is not. */
static void unmapped_in_mid_copy(struct gpu *g)
{
	size_t n = 16 << 20;
	uint64_t va;
	int round;

	for (round = 0; round < 5; round++) {
		void *host = anonymous(n);
		uint32_t ctx = sg_ctx(g->fd);
		int err;

		MUST(ctx && !sg_alloc(g->fd, ctx, n, &va));
		EXPECT(sg_copy(g->fd, ctx, PTR(host), va, n, 0), 0);
		usleep(round * 2000);
		munmap(host, n);
		err = sg_ctx_sync(g->fd, ctx);
		CHECK(err == 0 || err == EIO, "%d", err);
		EXPECT(sg_ctx_destroy(g->fd, ctx), 0);
	}
}

/* The file is closed while another thread is in a call on it. */
static void syncing(void *arg)
{
	const struct gpu *g = arg;

	sg_ctx_sync(g->fd, g->ctx);
}

static void closed_in_mid_call(struct gpu *g)
{
	size_t n = 8 << 20;
	char *host = malloc(n);
	int round, i;

	MUST(host);
	for (round = 0; round < 10; round++) {
		struct gpu h = { .fd = sg_open(0) };
		struct task task;
		uint64_t va;

		h.ctx = sg_ctx(h.fd);
		MUST(h.ctx && !sg_alloc(h.fd, h.ctx, n, &va));
		for (i = 0; i < 4; i++)
			EXPECT(sg_copy(h.fd, h.ctx, va, PTR(host), n, 0), 0);
		task_begin(&task, syncing, &h);
		close(h.fd);
		task_end(&task);
	}
	free(host);
}

/* ---- a process that waits can be killed ---- */

#define WATCHES		1000
#define WATCH_MS	60000u
#define GONE_IN_S	10
#define USER		65534

static struct stuck {
	struct gpu g;
	uint64_t flag, idle, result;
	uint32_t event;
	char host[4096] __attribute__((aligned(8)));
} stuck;

static void in_ctx_sync(void *unused)
{
	sg_ctx_sync(stuck.g.fd, stuck.g.ctx);
}

static void in_copy(void *unused)
{
	sg_copy(stuck.g.fd, stuck.g.ctx, stuck.idle, PTR(stuck.host), sizeof(stuck.host), SOFTGPU_OP_SYNC);
}

static void in_free(void *unused)
{
	sg_free(stuck.g.fd, stuck.idle);
}

/* A thread in an ioctl. */
#define IN(name, nr, type, ...)							\
	static void name(void *unused)						\
	{									\
		struct type a_ = { __VA_ARGS__ };				\
										\
		SG_CALL(stuck.g.fd, nr, &a_);					\
	}

IN(in_stream_sync, SOFTGPU_STREAM_SYNC, softgpu_stream, .ctx = stuck.g.ctx)
IN(in_event_sync, SOFTGPU_EVENT_SYNC, softgpu_event, .event = stuck.event)
IN(in_unregister, SOFTGPU_HOST_UNREGISTER, softgpu_va, .va = PTR(stuck.host))
IN(in_host_func_next, SOFTGPU_HOST_FUNC_NEXT, softgpu_host_func, .ctx = stuck.g.ctx)

static void (*const waits[])(void *) = {
	in_ctx_sync, in_stream_sync, in_event_sync, in_copy, in_free, in_unregister, in_host_func_next,
};
#define NWAITS	(sizeof(waits) / sizeof(waits[0]))

/* Hours of work, and a thread in each call that waits for it.  Never returns. */
static int waits_for_hours(int ready, void *unused)
{
	struct softgpu_host_register reg = { .va = PTR(stuck.host), .length = sizeof(stuck.host),
					     .kind = SOFTGPU_KIND_REGISTERED };
	struct softgpu_value value = { .op = SOFTGPU_VALUE_EQ, .va = PTR(stuck.host), .value = ~0ull, .width = 8 };
	struct softgpu_stream_create stream = { .flags = SOFTGPU_STREAM_NON_BLOCKING };
	struct softgpu_event_create ec = { 0 };
	struct softgpu_event record = { 0 };
	static struct task tasks[NWAITS];
	size_t i;

	MUST(!setgid(USER) && !setuid(USER));
	stuck.g = gpu_up(0);
	MUST(!sg_alloc(stuck.g.fd, stuck.g.ctx, PAGE64, &stuck.flag));
	MUST(!sg_alloc(stuck.g.fd, stuck.g.ctx, PAGE64, &stuck.idle));
	stuck.result = stuck.flag + 64;
	reg.ctx = ec.ctx = stuck.g.ctx;
	MUST(!SG_CALL(stuck.g.fd, SOFTGPU_HOST_REGISTER, &reg));
	MUST(!SG_CALL(stuck.g.fd, SOFTGPU_EVENT_CREATE, &ec));
	stuck.event = ec.event;
	for (i = 0; i < WATCHES; i++) {
		struct softgpu_watch w = { .ctx = stuck.g.ctx, .va = stuck.flag, .result = stuck.result,
					   .expected = 1, .timeout_ms = WATCH_MS };

		MUST(!SG_CALL(stuck.g.fd, SOFTGPU_WATCH, &w));
	}
	/* And a stream that waits for ever: that word is never written. */
	stream.ctx = value.ctx = stuck.g.ctx;
	MUST(!SG_CALL(stuck.g.fd, SOFTGPU_STREAM_CREATE, &stream));
	value.stream = stream.stream;
	MUST(!SG_CALL(stuck.g.fd, SOFTGPU_VALUE, &value));
	record.ctx = stuck.g.ctx;
	record.event = stuck.event;
	MUST(!SG_CALL(stuck.g.fd, SOFTGPU_EVENT_RECORD, &record));
	for (i = 0; i < NWAITS; i++)
		task_begin(&tasks[i], waits[i], NULL);
	usleep(500000);
	say(ready);
	for (;;)
		pause();
}

/* Within GONE_IN_S. */
static void kill_it(struct process *p)
{
	kill(p->pid, SIGKILL);
	EXPECT(finish_within(p, GONE_IN_S), -SIGKILL);
}

/* Starts a child that runs the function, and waits until it says so. */
static struct process start(int (*function)(int ready, void *unused))
{
	struct process p = begin(function, NULL);

	MUST(hear(p.peer));
	return p;
}

static void killed_while_waiting(struct gpu *g)
{
	struct idle idle = idle_now(g->fd);
	struct process p = start(waits_for_hours);

	kill_it(&p);
	check_idle(g->fd, &idle, "a process was killed that waited for its work");
}

/* ---- and so can one whose memory does not come ---- */

/* Whether it is a word there that a stream waits for, or a page that is copied. */
static bool waits_for_word;

/*
 * A page that is not there until its userfaultfd answers, which it never does: the copy's engine, or the thread
 * that looks at the word, waits in its fault.
 */
static int waits_for_a_page(int socket, void *unused)
{
	struct gpu g = gpu_up(0);
	struct softgpu_host_register host = { .length = PAGE64, .kind = SOFTGPU_KIND_REGISTERED };
	struct softgpu_value value = { .op = SOFTGPU_VALUE_EQ, .value = 1, .width = 8 };
	int fd;
	char *page = absent_memory(PAGE64, &fd);
	uint64_t va;

	MUST(!sg_alloc(g.fd, g.ctx, PAGE64, &va));
	host.ctx = value.ctx = g.ctx;
	host.va = value.va = PTR(page);
	MUST(!SG_CALL(g.fd, SOFTGPU_HOST_REGISTER, &host));
	if (waits_for_word)
		MUST(!SG_CALL(g.fd, SOFTGPU_VALUE, &value));
	else
		MUST(!sg_copy(g.fd, g.ctx, va, PTR(page), PAGE64, 0));
	/* Once it is sent, the other side alone decides how long that takes. */
	pass(socket, fd);
	sg_ctx_sync(g.fd, g.ctx);
	return 0;
}

static void killed_in_fault(struct gpu *g)
{
	struct idle idle = idle_now(g->fd);
	struct uffd_msg message;
	struct process p = begin(waits_for_a_page, NULL);
	int uffd = receive(p.peer);
	uint64_t va;

	MUST(read(uffd, &message, sizeof(message)) == sizeof(message));
	CHECK(message.event == UFFD_EVENT_PAGEFAULT, "%u", message.event);
	kill_it(&p);
	check_idle(g->fd, &idle, "a process was killed whose copy waited for a page");
	close(uffd);
	/* The engine is as good as before. */
	MUST(!sg_alloc(g->fd, g->ctx, PAGE64, &va));
	for (int i = 0; i < 10; i++)
		EXPECT(sg_copy(g->fd, g->ctx, va, PTR(stuck.host), sizeof(stuck.host), SOFTGPU_OP_SYNC), 0);
}

static void killed_in_a_copy(struct gpu *g)
{
	waits_for_word = false;
	killed_in_fault(g);
}

static void killed_in_a_word(struct gpu *g)
{
	waits_for_word = true;
	killed_in_fault(g);
}

/* ---- and no user makes the others wait ---- */

#define RECORDS		20000
#define MANY_STREAMS	4000
#define OPS		50
#define OPS_IN_S	10

/* Streams that wait for an event that is recorded often, behind a word that is never written.  Never returns. */
static int queues_much(int ready, void *unused)
{
	struct softgpu_stream_create stream = { .flags = SOFTGPU_STREAM_NON_BLOCKING };
	struct softgpu_value value = { .op = SOFTGPU_VALUE_EQ, .value = 1, .width = 8 };
	struct softgpu_event_create ec = { 0 };
	struct softgpu_event event = { 0 };
	struct gpu g;
	uint64_t va;
	int i;

	MUST(!setgid(USER) && !setuid(USER));
	g = gpu_up(0);
	stream.ctx = ec.ctx = value.ctx = event.ctx = g.ctx;
	MUST(!sg_alloc(g.fd, g.ctx, PAGE64, &va));
	value.va = va;
	MUST(!SG_CALL(g.fd, SOFTGPU_EVENT_CREATE, &ec));
	event.event = ec.event;
	MUST(!SG_CALL(g.fd, SOFTGPU_STREAM_CREATE, &stream));
	value.stream = event.stream = stream.stream;
	MUST(!SG_CALL(g.fd, SOFTGPU_VALUE, &value));
	for (i = 0; i < RECORDS; i++)
		MUST(!SG_CALL(g.fd, SOFTGPU_EVENT_RECORD, &event));
	for (i = 0; i < MANY_STREAMS; i++) {
		MUST(!SG_CALL(g.fd, SOFTGPU_STREAM_CREATE, &stream));
		event.stream = stream.stream;
		MUST(!SG_CALL(g.fd, SOFTGPU_STREAM_WAIT, &event));
	}
	say(ready);
	for (;;)
		pause();
}

static void beside_much(struct gpu *g)
{
	struct idle idle = idle_now(g->fd);
	struct process p = start(queues_much);
	time_t begun;
	uint64_t va;
	int i;

	begun = time(NULL);
	for (i = 0; i < OPS && time(NULL) <= begun + OPS_IN_S; i++) {
		MUST(!sg_alloc(g->fd, g->ctx, PAGE64, &va));
		EXPECT(sg_copy(g->fd, g->ctx, va, PTR(stuck.host), sizeof(stuck.host), SOFTGPU_OP_SYNC), 0);
		EXPECT(sg_free(g->fd, va), 0);
	}
	CHECK(i == OPS, "another user's queue makes each operation take %ld ms", OPS_IN_S * 1000L / i);
	begun = time(NULL);
	kill_it(&p);
	printf("# killed with much queued: gone after %ld s\n", (long)(time(NULL) - begun));
	check_idle(g->fd, &idle, "a process was killed that had queued much");
}

/* More than there are engines. */
#define UNANSWERED_STREAMS	8

static struct {
	volatile uint32_t *reads;
	pid_t server;
} *unanswered;

/*
 * A copy from and to a page that never comes in each of many streams, and a word there.  Returns
 * only if one of them ends.
 */
static int uses_unanswered(int ready, void *unused)
{
	struct softgpu_host_register reg = { .length = PAGE64, .kind = SOFTGPU_KIND_REGISTERED };
	struct softgpu_stream_create stream = { .flags = SOFTGPU_STREAM_NON_BLOCKING };
	struct softgpu_value value = { .op = SOFTGPU_VALUE_EQ, .value = 1, .width = 8 };
	struct softgpu_copy copy = { .width = PAGE64, .height = 1 };
	uint32_t streams[UNANSWERED_STREAMS];
	struct softgpu_stream query = { 0 };
	struct unanswered page;
	struct gpu g;
	uint64_t va;
	int i;

	MUST(!setgid(USER) && !setuid(USER));
	MUST(!unanswered_begin(&page, PAGE64, unanswered->reads));
	unanswered->server = page.server;
	/* FUSE answers root's engines at once, but all wait for a page that is being read. */
	if (!fork()) {
		(void)*(volatile char *)page.memory;
		_exit(0);
	}
	while (!*unanswered->reads)
		usleep(1000);
	g = gpu_up(0);
	MUST(!sg_alloc(g.fd, g.ctx, PAGE64, &va));
	reg.ctx = stream.ctx = value.ctx = copy.ctx = g.ctx;
	reg.va = value.va = PTR(page.memory);
	MUST(!SG_CALL(g.fd, SOFTGPU_HOST_REGISTER, &reg));
	for (i = 0; i < UNANSWERED_STREAMS; i++) {
		MUST(!SG_CALL(g.fd, SOFTGPU_STREAM_CREATE, &stream));
		value.stream = copy.stream = streams[i] = stream.stream;
		copy.src = i % 2 ? va : PTR(page.memory);
		copy.dst = i % 2 ? PTR(page.memory) : va;
		MUST(!(i % 4 == 3 ? SG_CALL(g.fd, SOFTGPU_VALUE, &value) : SG_CALL(g.fd, SOFTGPU_COPY, &copy)));
	}
	say(ready);
	query.ctx = g.ctx;
	for (i = 0; query.stream = streams[i], SG_CALL(g.fd, SOFTGPU_STREAM_QUERY, &query) == EAGAIN; i = (i + 1) % UNANSWERED_STREAMS)
		usleep(1000);
	return 0;
}

/* Copies both ways, and a wait for a word: work for the engines, and for the thread that looks at words. */
static void copies_go_on(struct gpu *g)
{
	struct softgpu_host_register reg = { .ctx = g->ctx, .va = PTR(stuck.host), .length = sizeof(stuck.host),
					     .kind = SOFTGPU_KIND_REGISTERED };
	struct softgpu_value value = { .ctx = g->ctx, .op = SOFTGPU_VALUE_EQ, .va = PTR(stuck.host), .value = 1, .width = 8 };
	struct softgpu_va a = { .va = PTR(stuck.host) };
	uint64_t va;
	int i;

	MUST(!sg_alloc(g->fd, g->ctx, PAGE64, &va));
	for (i = 0; i < 10; i++) {
		EXPECT(sg_copy(g->fd, g->ctx, va, PTR(stuck.host), sizeof(stuck.host), SOFTGPU_OP_SYNC), 0);
		EXPECT(sg_copy(g->fd, g->ctx, PTR(stuck.host), va, sizeof(stuck.host), SOFTGPU_OP_SYNC), 0);
	}
	*(uint64_t *)(void *)stuck.host = 1;
	EXPECT(SG_CALL(g->fd, SOFTGPU_HOST_REGISTER, &reg), 0);
	EXPECT(SG_CALL(g->fd, SOFTGPU_VALUE, &value), 0);
	EXPECT(sg_ctx_sync(g->fd, g->ctx), 0);
	EXPECT(SG_CALL(g->fd, SOFTGPU_HOST_UNREGISTER, &a), 0);
	EXPECT(sg_free(g->fd, va), 0);
}

static void beside_unanswered(struct gpu *g)
{
	struct idle idle = idle_now(g->fd);
	struct process p;

	unanswered = shared_memory(sizeof(*unanswered));
	unanswered->reads = unanswered_counter();
	p = start(uses_unanswered);
	copies_go_on(g);
	CHECK(is_alive(&p), "the other user's copies have ended");
	/* Its server lives, so the page is still waited for; the process is not. */
	kill_it(&p);
	check_idle(g->fd, &idle, "a process was killed whose copies waited for a page");
	copies_go_on(g);
	MUST(unanswered->server > 0 && !kill(unanswered->server, SIGKILL));
}

const struct gpu_case death_cases[] = {
	{ "kill -9 in the middle of copies", killed_in_mid_copy },
	{ "kill -9 in every call that waits", killed_while_waiting },
	{ "kill -9 while a copy waits for a page", killed_in_a_copy },
	{ "kill -9 while a word that is waited for waits for a page", killed_in_a_word },
	{ "copies while another user has much queued", beside_much },
	{ "copies while another user's wait for a page that never comes", beside_unanswered },
	{ "memory unmapped in the middle of a copy", unmapped_in_mid_copy },
	{ "a file closed in the middle of a call", closed_in_mid_call },
	{ }
};
