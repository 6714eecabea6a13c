// SPDX-License-Identifier: MIT
/*
 * nvp2p_wrong - makes each mistake that nvidia.ko names, through nvp2p_test.ko, and looks
 * for its words in the kernel's log: there, once, and no second time from this client.
 *
 *   nvp2p_wrong rules      the mistakes of single calls; the client is freshly loaded
 *   nvp2p_wrong CALL       the deadlock in get_pages, put_pages or dma_map_pages, with driver_lock=1;
 *                          the client is freshly loaded, for this is one mistake
 *   nvp2p_wrong leave      pins, and waits: for the client to be unloaded under that
 */
#include <pthread.h>
#include <sys/wait.h>
#include "nvp2p_rules.h"

static int log_fd = -1;

/* How many records since the last look hold these words, and the client's name. */
static int said(const char *words)
{
	char record[2048];
	ssize_t n;
	int count = 0;

	while ((n = read(log_fd, record, sizeof(record) - 1)) > 0 || (n < 0 && errno == EPIPE)) {
		if (n < 0)
			continue;
		record[n] = 0;
		count += strstr(record, "client nvp2p_test: ") && strstr(record, words);
	}
	return count;
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

static void puts_in_callback(struct gpu *g)
{
	in_callback(g, C_PUT);
}

static void keeps_table(struct gpu *g)
{
	in_callback(g, C_KEEP_TABLE);
}

static void frees_null(struct gpu *g)
{
	in_callback(g, C_FREE_NULL);
}

static void frees_live(struct gpu *g)
{
	uint64_t other = pinned(g, 1, 0);

	in_callback(g, C_FREE_OTHER);
	EXPECT(t_put(1), 0);
	EXPECT(sg_free(g->fd, other), 0);
}

static void *release_later(void *unused)
{
	nap_ms(200);
	T(.op = T_RELEASE);
	return unused;
}

static void takes_long(struct gpu *g)
{
	pthread_t id;

	NEED(!pthread_create(&id, NULL, release_later, NULL));
	in_callback(g, C_WAIT);
	pthread_join(id, NULL);
}

static void put_in_child(struct gpu *g)
{
	uint64_t va = pinned(g, 0, 0);
	pid_t pid = fork();

	NEED(pid >= 0);
	if (!pid)
		_exit(T(.op = T_PUT, .flags = W_KEEP).ret != 0);
	NEED(waitpid(pid, NULL, 0) == pid);
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
	void (*make)(struct gpu *g);
} mistakes[] = {
	{ "the client rounds both", unaligned },
	{ "put_pages in a free callback", puts_in_callback },
	{ "ends without free_page_table", keeps_table },
	{ "free_page_table(NULL)", frees_null },
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

static void rules(struct gpu *g)
{
	size_t i;

	for (i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		const struct mistake *m = &mistakes[i];
		int first, again;

		said("");
		m->make(g);
		first = said(m->words);
		m->make(g);
		again = said(m->words);
		CHECK(first == 1 && !again, "\"%s\": %d times at first, %d times again", m->words, first, again);
		printf("%s: %s\n", first == 1 && !again ? "ok" : "NOT OK", m->words);
	}
	right_and_named(g);
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

struct caller {
	struct nvp2p_test_call call;
	pthread_t id;
};

/* Once the callback runs, and so has the driver's lock. */
static void *caller_main(void *arg)
{
	struct caller *c = arg;
	int i;

	for (i = 0; i < 1000 && !t_state(0).callbacks; i++)
		nap_ms(5);
	t_call(&c->call);
	return NULL;
}

static void deadlock(struct gpu *g, const struct deadlock *d)
{
	struct caller caller = {
		.call = { .op = d->op, .slot = d->slot, .flags = W_CLIENT_LOCK | W_KEEP, .bdf = peer_bdf(0),
			  .va = need_alloc(g, PAGE64), .length = PAGE64 },
	};
	uint64_t va = pinned(g, 0, C_WAIT | d->on_callback);
	pthread_t releasing;

	said("");
	NEED(!pthread_create(&caller.id, NULL, caller_main, &caller));
	NEED(!pthread_create(&releasing, NULL, release_later, NULL));
	EXPECT(sg_free(g->fd, va), 0);
	pthread_join(caller.id, NULL);
	pthread_join(releasing, NULL);
	EXPECT(t_state(0).callbacks_done, 1);
	CHECK(said("for the driver's lock") == 1, "%s: a deadlock that is not named", d->call);
	printf("%s: a deadlock in %s is named, and ends\n", failures ? "NOT OK" : "ok", d->call);
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

	log_fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	NEED(t_open() && log_fd >= 0);
	lseek(log_fd, 0, SEEK_END);
	g = gpu_up(0);
	if (!strcmp(what, "leave")) {
		/* The client can be unloaded: only the GPU stays open. */
		NEED(!t_get(0, need_alloc(&g, PAGE64), PAGE64).ret);
		t_close();
		printf("left\n");
		fflush(stdout);
		pause();
	}
	if (!strcmp(what, "rules"))
		rules(&g);
	else
		NEED(deadlock_in(&g, what));
	T(.op = T_RESET);
	close(g.fd);
	return test_end("nvp2p_wrong");
}
