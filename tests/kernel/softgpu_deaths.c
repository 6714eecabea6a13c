// SPDX-License-Identifier: MIT
/* softgpu_deaths.c - processes that are killed, and memory and files that go, while the GPU works for them. */
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include "patience.h"
#include "softgpu_uapi_test.h"
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

	NEED(host && !sg_alloc(g.fd, g.ctx, n, &va));
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
	struct softgpu_info before, after;
	int round;

	NEED(!sg_info(g->fd, &before));
	for (round = 0; round < 10; round++) {
		pid_t pid = fork();

		NEED(pid >= 0);
		if (!pid) {
			busy_child();
			_exit(0);
		}
		usleep(20000 + round * 15000);
		kill(pid, SIGKILL);
		NEED(waitpid(pid, NULL, 0) == pid);
	}
	/* Give the last reference time to go, wherever it is. */
	for (round = 0; round < 3000; round++) {
		NEED(!sg_info(g->fd, &after));
		if (after.vram_free == before.vram_free)
			break;
		usleep(20000);
	}
	CHECK(after.vram_free == before.vram_free, "%llu bytes of VRAM lost",
	      (unsigned long long)(before.vram_free - after.vram_free));
}

/* Memory vanishes under a copy: its context is dead, the machine is not. */
static void unmapped_in_mid_copy(struct gpu *g)
{
	size_t n = 16 << 20;
	uint64_t va;
	int round;

	for (round = 0; round < 5; round++) {
		void *host = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		uint32_t ctx = sg_ctx(g->fd);
		int err;

		NEED(host != MAP_FAILED && ctx && !sg_alloc(g->fd, ctx, n, &va));
		EXPECT(sg_copy(g->fd, ctx, PTR(host), va, n, 0), 0);
		usleep(round * 2000);
		munmap(host, n);
		err = sg_ctx_sync(g->fd, ctx);
		CHECK(err == 0 || err == EIO, "%d", err);
		EXPECT(sg_ctx_destroy(g->fd, ctx), 0);
	}
}

/* The file is closed while another thread is in a call on it. */
static void *syncing(void *arg)
{
	const struct gpu *g = arg;

	sg_ctx_sync(g->fd, g->ctx);
	return NULL;
}

static void closed_in_mid_call(struct gpu *g)
{
	size_t n = 8 << 20;
	char *host = malloc(n);
	int round, i;

	NEED(host);
	for (round = 0; round < 10; round++) {
		struct gpu h = { .fd = sg_open(0) };
		pthread_t thread;
		uint64_t va;

		h.ctx = sg_ctx(h.fd);
		NEED(h.ctx && !sg_alloc(h.fd, h.ctx, n, &va));
		for (i = 0; i < 4; i++)
			EXPECT(sg_copy(h.fd, h.ctx, va, PTR(host), n, 0), 0);
		NEED(!pthread_create(&thread, NULL, syncing, &h));
		close(h.fd);
		pthread_join(thread, NULL);
	}
	(void)g;
	free(host);
}

/* ---- who waits can be killed ---- */

#define WATCHES		1000
#define WATCH_MS	60000u
#define GONE_IN_S	10
#define NOBODY		65534

static struct stuck {
	struct gpu g;
	uint64_t flag, idle, result;
	uint32_t event;
	char host[4096] __attribute__((aligned(8)));
} stuck;

static void *in_ctx_sync(void *arg)
{
	sg_ctx_sync(stuck.g.fd, stuck.g.ctx);
	return arg;
}

static void *in_stream_sync(void *arg)
{
	struct softgpu_stream a = { .ctx = stuck.g.ctx };

	SG_CALL(stuck.g.fd, SOFTGPU_STREAM_SYNC, &a);
	return arg;
}

static void *in_event_sync(void *arg)
{
	struct softgpu_event a = { .event = stuck.event };

	SG_CALL(stuck.g.fd, SOFTGPU_EVENT_SYNC, &a);
	return arg;
}

static void *in_copy(void *arg)
{
	sg_copy(stuck.g.fd, stuck.g.ctx, stuck.idle, PTR(stuck.host), sizeof(stuck.host), SOFTGPU_OP_SYNC);
	return arg;
}

static void *in_free(void *arg)
{
	sg_free(stuck.g.fd, stuck.idle);
	return arg;
}

static void *in_unregister(void *arg)
{
	struct softgpu_va a = { .va = PTR(stuck.host) };

	SG_CALL(stuck.g.fd, SOFTGPU_HOST_UNREGISTER, &a);
	return arg;
}

static void *in_host_func_next(void *arg)
{
	struct softgpu_host_func a = { .ctx = stuck.g.ctx };

	SG_CALL(stuck.g.fd, SOFTGPU_HOST_FUNC_NEXT, &a);
	return arg;
}

static void *(*const waits[])(void *) = {
	in_ctx_sync, in_stream_sync, in_event_sync, in_copy, in_free, in_unregister, in_host_func_next,
};
#define NWAITS	(sizeof(waits) / sizeof(waits[0]))

/* Hours of work, and a thread in each call that waits for it.  Never returns. */
static void waits_for_hours(int ready)
{
	struct softgpu_host_register reg = { .va = PTR(stuck.host), .length = sizeof(stuck.host),
					     .kind = SOFTGPU_KIND_REGISTERED };
	struct softgpu_value value = { .op = SOFTGPU_VALUE_EQ, .va = PTR(stuck.host), .value = ~0ull, .width = 8 };
	struct softgpu_stream_create stream = { .flags = SOFTGPU_STREAM_NON_BLOCKING };
	struct softgpu_event_create ec = { 0 };
	struct softgpu_event record = { 0 };
	pthread_t thread;
	size_t i;

	NEED(!setgid(NOBODY) && !setuid(NOBODY));
	stuck.g = gpu_up(0);
	NEED(!sg_alloc(stuck.g.fd, stuck.g.ctx, PAGE64, &stuck.flag));
	NEED(!sg_alloc(stuck.g.fd, stuck.g.ctx, PAGE64, &stuck.idle));
	stuck.result = stuck.flag + 64;
	reg.ctx = ec.ctx = stuck.g.ctx;
	NEED(!SG_CALL(stuck.g.fd, SOFTGPU_HOST_REGISTER, &reg));
	NEED(!SG_CALL(stuck.g.fd, SOFTGPU_EVENT_CREATE, &ec));
	stuck.event = ec.event;
	for (i = 0; i < WATCHES; i++) {
		struct softgpu_watch w = { .ctx = stuck.g.ctx, .va = stuck.flag, .result = stuck.result,
					   .expected = 1, .timeout_ms = WATCH_MS };

		NEED(!SG_CALL(stuck.g.fd, SOFTGPU_WATCH, &w));
	}
	/* And a stream that waits for ever: nobody writes that word. */
	stream.ctx = value.ctx = stuck.g.ctx;
	NEED(!SG_CALL(stuck.g.fd, SOFTGPU_STREAM_CREATE, &stream));
	value.stream = stream.stream;
	NEED(!SG_CALL(stuck.g.fd, SOFTGPU_VALUE, &value));
	record.ctx = stuck.g.ctx;
	record.event = stuck.event;
	NEED(!SG_CALL(stuck.g.fd, SOFTGPU_EVENT_RECORD, &record));
	for (i = 0; i < NWAITS; i++)
		NEED(!pthread_create(&thread, NULL, waits[i], NULL));
	usleep(500000);
	NEED(write(ready, "x", 1) == 1);
	for (;;)
		pause();
}

/* False: it is still there after GONE_IN_S. */
static bool is_gone(pid_t pid)
{
	int i;

	for (i = 0; i < GONE_IN_S * 100 * patience(); i++) {
		pid_t got = waitpid(pid, NULL, WNOHANG);

		NEED(got >= 0);
		if (got == pid)
			return true;
		usleep(10000);
	}
	return false;
}

/* Starts a child that runs fn(), and waits until it has written a byte. */
static pid_t start(void (*fn)(int ready))
{
	int ready[2];
	char byte;
	pid_t pid;

	NEED(!pipe(ready));
	pid = fork();
	NEED(pid >= 0);
	if (!pid)
		fn(ready[1]);
	close(ready[1]);
	NEED(read(ready[0], &byte, 1) == 1);
	close(ready[0]);
	return pid;
}

static void killed_while_waiting(struct gpu *g)
{
	struct idle idle = idle_now(g->fd);
	pid_t pid = start(waits_for_hours);

	kill(pid, SIGKILL);
	CHECK(is_gone(pid), "still there %d s after SIGKILL", GONE_IN_S * patience());
	check_idle(g->fd, &idle, "a process was killed that waited for its work");
}

/* ---- and so can one whose memory does not come ---- */

/* Whether it is a word there that a stream waits for, or a page that is copied. */
static bool waits_for_word;

/*
 * A page that is not there until somebody answers for it, and nobody does: the copy's engine, or who looks at the
 * word, waits in its fault.
 */
static void waits_for_a_page(int socket)
{
	struct gpu g = gpu_up(0);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct softgpu_host_register host = { .length = PAGE64, .kind = SOFTGPU_KIND_REGISTERED };
	struct softgpu_value value = { .op = SOFTGPU_VALUE_EQ, .value = 1, .width = 8 };
	char *page = mmap(NULL, PAGE64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	uint64_t va;

	NEED(page != MAP_FAILED && fd >= 0 && !ioctl(fd, UFFDIO_API, &api));
	reg.range.start = PTR(page);
	reg.range.len = PAGE64;
	NEED(!ioctl(fd, UFFDIO_REGISTER, &reg));
	NEED(!sg_alloc(g.fd, g.ctx, PAGE64, &va));
	host.ctx = value.ctx = g.ctx;
	host.va = value.va = PTR(page);
	NEED(!SG_CALL(g.fd, SOFTGPU_HOST_REGISTER, &host));
	if (waits_for_word)
		NEED(!SG_CALL(g.fd, SOFTGPU_VALUE, &value));
	else
		NEED(!sg_copy(g.fd, g.ctx, va, PTR(page), PAGE64, 0));
	/* Once it is sent, the other side alone decides how long that takes. */
	send_fd(socket, fd);
	sg_ctx_sync(g.fd, g.ctx);
	_exit(0);
}

static void killed_in_fault(struct gpu *g)
{
	struct idle idle = idle_now(g->fd);
	struct uffd_msg message;
	int ends[2], uffd;
	uint64_t va;
	pid_t pid;

	NEED(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	pid = fork();
	NEED(pid >= 0);
	if (!pid)
		waits_for_a_page(ends[1]);
	uffd = receive_fd(ends[0]);
	NEED(read(uffd, &message, sizeof(message)) == sizeof(message));
	CHECK(message.event == UFFD_EVENT_PAGEFAULT, "%u", message.event);
	kill(pid, SIGKILL);
	CHECK(is_gone(pid), "still there %d s after SIGKILL", GONE_IN_S * patience());
	check_idle(g->fd, &idle, "a process was killed whose copy waited for a page");
	close(uffd);
	close(ends[0]);
	close(ends[1]);
	/* The engine is as good as before. */
	NEED(!sg_alloc(g->fd, g->ctx, PAGE64, &va));
	for (pid = 0; pid < 10; pid++)
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

/* Streams that wait for an event that is recorded often, behind a word that nobody writes.  Never returns. */
static void queues_much(int ready)
{
	struct softgpu_stream_create stream = { .flags = SOFTGPU_STREAM_NON_BLOCKING };
	struct softgpu_value value = { .op = SOFTGPU_VALUE_EQ, .value = 1, .width = 8 };
	struct softgpu_event_create ec = { 0 };
	struct softgpu_event event = { 0 };
	struct gpu g;
	uint64_t va;
	int i;

	NEED(!setgid(NOBODY) && !setuid(NOBODY));
	g = gpu_up(0);
	stream.ctx = ec.ctx = value.ctx = event.ctx = g.ctx;
	NEED(!sg_alloc(g.fd, g.ctx, PAGE64, &va));
	value.va = va;
	NEED(!SG_CALL(g.fd, SOFTGPU_EVENT_CREATE, &ec));
	event.event = ec.event;
	NEED(!SG_CALL(g.fd, SOFTGPU_STREAM_CREATE, &stream));
	value.stream = event.stream = stream.stream;
	NEED(!SG_CALL(g.fd, SOFTGPU_VALUE, &value));
	for (i = 0; i < RECORDS; i++)
		NEED(!SG_CALL(g.fd, SOFTGPU_EVENT_RECORD, &event));
	for (i = 0; i < MANY_STREAMS; i++) {
		NEED(!SG_CALL(g.fd, SOFTGPU_STREAM_CREATE, &stream));
		event.stream = stream.stream;
		NEED(!SG_CALL(g.fd, SOFTGPU_STREAM_WAIT, &event));
	}
	NEED(write(ready, "x", 1) == 1);
	for (;;)
		pause();
}

static void beside_much(struct gpu *g)
{
	struct idle idle = idle_now(g->fd);
	pid_t pid = start(queues_much);
	time_t begun;
	uint64_t va;
	int i;

	begun = time(NULL);
	for (i = 0; i < OPS && time(NULL) <= begun + OPS_IN_S; i++) {
		NEED(!sg_alloc(g->fd, g->ctx, PAGE64, &va));
		EXPECT(sg_copy(g->fd, g->ctx, va, PTR(stuck.host), sizeof(stuck.host), SOFTGPU_OP_SYNC), 0);
		EXPECT(sg_free(g->fd, va), 0);
	}
	CHECK(i == OPS, "another user's queue makes each operation take %ld ms", OPS_IN_S * 1000L / i);
	begun = time(NULL);
	kill(pid, SIGKILL);
	CHECK(is_gone(pid), "still there %d s after SIGKILL", GONE_IN_S * patience());
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
static void uses_unanswered(int ready)
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

	NEED(!setgid(NOBODY) && !setuid(NOBODY));
	NEED(!unanswered_begin(&page, PAGE64, unanswered->reads));
	unanswered->server = page.server;
	/* FUSE answers root's engines at once, but all wait for a page that is being read. */
	if (!fork()) {
		(void)*(volatile char *)page.memory;
		_exit(0);
	}
	while (!*unanswered->reads)
		usleep(1000);
	g = gpu_up(0);
	NEED(!sg_alloc(g.fd, g.ctx, PAGE64, &va));
	reg.ctx = stream.ctx = value.ctx = copy.ctx = g.ctx;
	reg.va = value.va = PTR(page.memory);
	NEED(!SG_CALL(g.fd, SOFTGPU_HOST_REGISTER, &reg));
	for (i = 0; i < UNANSWERED_STREAMS; i++) {
		NEED(!SG_CALL(g.fd, SOFTGPU_STREAM_CREATE, &stream));
		value.stream = copy.stream = streams[i] = stream.stream;
		copy.src = i % 2 ? va : PTR(page.memory);
		copy.dst = i % 2 ? PTR(page.memory) : va;
		NEED(!(i % 4 == 3 ? SG_CALL(g.fd, SOFTGPU_VALUE, &value) : SG_CALL(g.fd, SOFTGPU_COPY, &copy)));
	}
	NEED(write(ready, "x", 1) == 1);
	query.ctx = g.ctx;
	for (i = 0; query.stream = streams[i], SG_CALL(g.fd, SOFTGPU_STREAM_QUERY, &query) == EAGAIN; i = (i + 1) % UNANSWERED_STREAMS)
		usleep(1000);
	_exit(0);
}

/* Copies both ways, and a wait for a word: what needs engines, and who looks at words. */
static void copies_go_on(struct gpu *g)
{
	struct softgpu_host_register reg = { .ctx = g->ctx, .va = PTR(stuck.host), .length = sizeof(stuck.host),
					     .kind = SOFTGPU_KIND_REGISTERED };
	struct softgpu_value value = { .ctx = g->ctx, .op = SOFTGPU_VALUE_EQ, .va = PTR(stuck.host), .value = 1, .width = 8 };
	struct softgpu_va a = { .va = PTR(stuck.host) };
	uint64_t va;
	int i;

	NEED(!sg_alloc(g->fd, g->ctx, PAGE64, &va));
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
	pid_t pid;

	unanswered = mmap(NULL, sizeof(*unanswered), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(unanswered != MAP_FAILED);
	unanswered->reads = unanswered_counter();
	NEED(unanswered->reads);
	pid = start(uses_unanswered);
	copies_go_on(g);
	CHECK(!waitpid(pid, NULL, WNOHANG), "the other user's copies have ended");
	kill(pid, SIGKILL);
	/* Its server lives, so the page is still waited for; the process is not. */
	CHECK(is_gone(pid), "still there %d s after SIGKILL", GONE_IN_S * patience());
	check_idle(g->fd, &idle, "a process was killed whose copies waited for a page");
	copies_go_on(g);
	NEED(unanswered->server > 0 && !kill(unanswered->server, SIGKILL));
}

const struct test_case death_cases[] = {
	{ "kill -9 in the middle of copies", killed_in_mid_copy },
	{ "kill -9 in every call that waits", killed_while_waiting },
	{ "kill -9 while a copy waits for a page", killed_in_a_copy },
	{ "kill -9 while a word that is waited for waits for a page", killed_in_a_word },
	{ "copies while another user has much queued", beside_much },
	{ "copies while another user's wait for a page that never comes", beside_unanswered },
	{ "memory unmapped in the middle of a copy", unmapped_in_mid_copy },
	{ "a file closed in the middle of a call", closed_in_mid_call },
	{ NULL, NULL }
};
