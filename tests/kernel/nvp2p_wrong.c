// SPDX-License-Identifier: MIT
/*
 * nvp2p_wrong - makes each mistake that nvidia.ko names, through nvp2p_test.ko, and looks
 * for its words in the kernel's log: there, once, and no second time from this client.
 *
 *   nvp2p_wrong rules      the mistakes of single calls; the client is freshly loaded
 *   nvp2p_wrong CALL       the deadlock in get_pages, put_pages or dma_map_pages, with driver_lock=1;
 *                          the client is freshly loaded, for this is one mistake
 *   nvp2p_wrong late       frees a table twice in a callback that comes after its process, with
 *                          callback_late_ms; the client is freshly loaded
 *   nvp2p_wrong leave      pins, and waits: for the client to be unloaded under that
 */
#include "nvp2p_rules.h"

static int log_fd;

/* How many records since the last look hold these words, and the client's name. */
static int said(const char *words)
{
	return log_records(log_fd, "client nvp2p_test: ", words);
}

static uint64_t pinned(struct gpu *g, int slot, uint32_t on_callback)
{
	uint64_t va = need_alloc(g, PAGE64);

	t_on_callback(slot, on_callback);
	EXPECT(t_get(slot, va, PAGE64).ret, 0);
	return va;
}

/* ---- single calls ---- */

/* A free of the memory under a callback that does this. */
static void in_callback(struct gpu *g, uint32_t what)
{
	uint64_t va = pinned(g, 0, what);

	EXPECT(sg_free(g->fd, va), 0);
	EXPECT(t_state(0).callbacks_done, 1);
}

static void unaligned(struct gpu *g)
{
	EXPECT(t_get(0, need_alloc(g, PAGE64), 4096).ret, -EINVAL);
}

static void frees_live(struct gpu *g)
{
	uint64_t other = pinned(g, 1, 0);

	in_callback(g, C_FREE_OTHER);
	EXPECT(t_put(1), 0);
	EXPECT(sg_free(g->fd, other), 0);
}

static void release_later(void *unused)
{
	usleep(200000);
	T(.op = T_RELEASE);
}

static void takes_long(struct gpu *g)
{
	struct task task;

	task_begin(&task, release_later, NULL);
	in_callback(g, C_WAIT);
	task_end(&task);
}

static void put_in_child(struct gpu *g)
{
	uint64_t va = pinned(g, 0, 0);
	pid_t pid = fork();

	MUST(pid >= 0);
	if (!pid)
		_exit(T(.op = T_PUT, .flags = W_KEEP).ret != 0);
	MUST(waitpid(pid, NULL, 0) == pid);
	EXPECT(sg_free(g->fd, va), 0);
	EXPECT(t_state(0).callbacks_done, 1);
}

static void put_by_token(struct gpu *g)
{
	uint64_t va = pinned(g, 0, 0);

	EXPECT(T(.op = T_PUT, .flags = W_KEEP, .token = 7).ret, 0);
	EXPECT(sg_free(g->fd, va), 0);
}

static void put_as_plain(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);

	EXPECT(T(.op = T_GET_PERSISTENT, .va = va, .length = PAGE64).ret, 0);
	EXPECT(T(.op = T_PUT, .flags = W_KEEP).ret, 0);
	EXPECT(T(.op = T_PUT_PERSISTENT).ret, 0);
}

static const struct mistake {
	const char *words;
	void (*make)(struct gpu *g);	/* NULL: a callback that does what follows */
	uint32_t on_callback;
} mistakes[] = {
	{ "the client rounds both", unaligned },
	{ "put_pages in a free callback", .on_callback = C_PUT },
	{ "ends without free_page_table", .on_callback = C_KEEP_TABLE },
	{ "free_page_table(NULL)", .on_callback = C_FREE_NULL },
	{ "free_page_table of a live pin's table", frees_live },
	{ " took ", takes_long },
	{ "in another process", put_in_child },
	{ "by a token", put_by_token },
	{ "put_pages_persistent ends a persistent pin", put_as_plain },
};

/* What needs no words of its own: other calls in a callback, of which one has been named. */
static void right_and_named(struct gpu *g)
{
	static const uint32_t calls[] = { C_GET, C_PUT_OTHER, C_FREE_GARBAGE, 0 };
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		uint64_t other = pinned(g, 1, 0);

		in_callback(g, calls[i]);
		if (!(calls[i] & C_PUT_OTHER))
			EXPECT(t_put(1), 0);
		EXPECT(sg_free(g->fd, other), 0);
		CHECK(!said(""), "case %zu: there are words, and it was named or is right", i);
	}
}

static void make(struct gpu *g, const struct mistake *m)
{
	if (m->make)
		m->make(g);
	else
		in_callback(g, m->on_callback);
}

static void rules(struct gpu *g)
{
	size_t i;

	for (i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		const struct mistake *m = &mistakes[i];
		int first, again;

		said("");
		make(g, m);
		first = said(m->words);
		make(g, m);
		again = said(m->words);
		CHECK(first == 1 && !again, "\"%s\": %d times at first, %d times again", m->words, first, again);
		printf("%s: %s\n", first == 1 && !again ? "ok" : "NOT OK", m->words);
	}
	right_and_named(g);
}

/* ---- a callback after its process ---- */

static void late(void)
{
	pid_t pid = fork();

	MUST(pid >= 0);
	if (!pid) {
		struct gpu g = gpu_up(0);

		pinned(&g, 0, C_FREE_TWICE);
		_exit(0);
	}
	MUST(waitpid(pid, NULL, 0) == pid);
	CHECK(!t_state(0).callbacks, "the callback has come in time");
	CHECK(UNTIL(t_state(0).callbacks_done), "the callback has not come");
	CHECK(said("free_page_table a second time") == 1, "a second free in a late callback is not named");
	printf("%s: a second free in a late callback is named\n", check_counts.failures ? "NOT OK" : "ok");
}

/* ---- deadlocks ---- */

/* The call whose thread holds the client's lock; the callback wants that. */
static const struct deadlock {
	const char *call;
	uint32_t op, slot, on_callback;
} deadlocks[] = {
	{ "get_pages", T_GET, 1, C_NEXT_MUTEX },
	{ "put_pages", T_PUT, 0, C_CLIENT_MUTEX },
	{ "dma_map_pages", T_DMA_MAP, 0, C_CLIENT_MUTEX },
};

/* Once the callback runs, and so has the driver's lock. */
static void call_in_callback(void *arg)
{
	const struct nvp2p_test_call *c = arg;

	CHECK(UNTIL(t_state(0).callbacks));
	t_do(*c);
}

static void deadlock(struct gpu *g, const struct deadlock *d)
{
	struct nvp2p_test_call c = {
		.op = d->op, .slot = d->slot, .flags = W_CLIENT_LOCK | W_KEEP, .bdf = card_bdf(0),
		.va = need_alloc(g, PAGE64), .length = PAGE64,
	};
	uint64_t va = pinned(g, 0, C_WAIT | d->on_callback);
	struct task caller, releasing;

	said("");
	task_begin(&caller, call_in_callback, &c);
	task_begin(&releasing, release_later, NULL);
	EXPECT(sg_free(g->fd, va), 0);
	task_end(&caller);
	task_end(&releasing);
	EXPECT(t_state(0).callbacks_done, 1);
	CHECK(said("for the driver's lock") == 1, "%s: a deadlock that is not named", d->call);
	printf("%s: a deadlock in %s is named, and ends\n", check_counts.failures ? "NOT OK" : "ok", d->call);
}

static bool deadlock_in(struct gpu *g, const char *call)
{
	size_t i;

	for (i = 0; i < sizeof(deadlocks) / sizeof(deadlocks[0]); i++) {
		if (!strcmp(deadlocks[i].call, call)) {
			deadlock(g, &deadlocks[i]);
			return true;
		}
	}
	return false;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	struct gpu g;

	log_fd = log_open();
	MUST(t_open());
	g = gpu_up(0);
	if (!strcmp(what, "leave")) {
		/* The client can be unloaded: only the GPU stays open. */
		MUST(!t_get(0, need_alloc(&g, PAGE64), PAGE64).ret);
		close(nvp2p_client);
		printf("left\n");
		fflush(stdout);
		pause();
	}
	if (!strcmp(what, "rules"))
		rules(&g);
	else if (!strcmp(what, "late"))
		late();
	else
		MUST(deadlock_in(&g, what));
	T(.op = T_RESET);
	close(g.fd);
	return check_end("nvp2p_wrong");
}
