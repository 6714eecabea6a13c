// SPDX-License-Identifier: MIT
/* nvp2p_sharing.c - pins of several processes in one context; and BAR1 that pins do not share. */
#include "nvp2p_rules.h"

/* ---- clients of a server ---- */

#define SERVER	12

/* What the two clients tell each other, in memory that both see. */
struct clients {
	int next;		/* client to be started */
	uint64_t va[2];
	struct softgpu_query q[2];
};

/* A window where no other client has one. */
static bool join_server(int fd)
{
	struct softgpu_window w = { .length = 1ULL << 30, .server = SERVER };
	int tries, err = EEXIST;

	for (tries = 0; tries < 3 && err == EEXIST; tries++) {
		char *at = mmap(NULL, w.length + PAGE64, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		MUST(at != MAP_FAILED);
		w.base = (PTR(at) + PAGE64 - 1) & ~(PAGE64 - 1);
		err = SG_CALL(fd, SOFTGPU_WINDOW, &w);
	}
	return !err;
}

static struct nvp2p_test_call get_by(const struct softgpu_query *tokens, int slot, uint64_t va)
{
	return T(.op = T_GET, .slot = slot, .token = tokens->p2p_token, .va_space = tokens->va_space_token,
		 .va = va, .length = PAGE64);
}

/* Another step: those before it held, or the process ends. */
static void meet(int peer)
{
	if (check_counts.failures)
		_exit(1);
	say(peer);
	if (!hear(peer))
		_exit(1);
}

static int client(int peer, void *arg)
{
	struct clients *all = arg;
	int me = all->next, fd = sg_open(0);
	uint32_t ctx;

	MUST(fd >= 0 && join_server(fd));
	ctx = sg_ctx(fd);
	MUST(ctx && !sg_alloc(fd, ctx, 2 * PAGE64, &all->va[me]) && !sg_query(fd, all->va[me], &all->q[me]));
	meet(peer);
	/* Its own, and by the tokens that both have the other's. */
	EXPECT(t_get(me, all->va[me], PAGE64).ret, 0);
	MUST_FAIL(t_get(2, all->va[!me], PAGE64), EINVAL, OUT_NULL);
	EXPECT(get_by(&all->q[me], 2, all->va[!me]).ret, 0);
	EXPECT(T(.op = T_PUT, .slot = 2, .token = all->q[me].p2p_token).ret, 0);
	meet(peer);
	return 0;
}

static void clients_of_a_server(struct gpu *g)
{
	struct clients *all = shared_memory(sizeof(*all));
	uint64_t mine = need_alloc(g, PAGE64);
	struct process p[2];
	struct softgpu_query q;
	int i;

	MUST(!sg_query(g->fd, mine, &q));
	for (i = 0; i < 2; i++) {
		all->next = i;
		p[i] = begin(client, all);
		CHECK(hear(p[i].peer));
	}
	CHECK(all->q[0].p2p_token == all->q[1].p2p_token && all->q[0].va_space_token == all->q[1].va_space_token &&
	      all->q[0].p2p_token != q.p2p_token, "tokens are not those of one context");
	CHECK(all->va[0] != all->va[1], "%#llx twice", (unsigned long long)all->va[0]);
	/* One after the other: they use one slot. */
	for (i = 0; i < 2; i++) {
		say(p[i].peer);
		CHECK(hear(p[i].peer));
	}
	/* A process that has the tokens is enough, client or not; and they reach the clients' memory only. */
	EXPECT(get_by(&all->q[0], 2, all->va[1]).ret, 0);
	MUST_FAIL(get_by(&all->q[0], 3, mine), EINVAL, OUT_NULL);
	MUST_FAIL(get_by(&q, 3, all->va[1]), EINVAL, OUT_NULL);

	/* One client ends: its pin alone. */
	say(p[0].peer);
	EXPECT(finish(&p[0]), 0);
	EXPECT(t_state(0).callbacks_done, 1);
	EXPECT(t_state(1).callbacks_done, 0);
	EXPECT(t_state(2).callbacks_done, 0);
	MUST_FAIL(get_by(&all->q[0], 3, all->va[0]), EINVAL, OUT_NULL);
	EXPECT(get_by(&all->q[0], 3, all->va[1]).ret, 0);
	/* The last one is killed: all of its, and the tokens. */
	kill(p[1].pid, SIGKILL);
	EXPECT(finish(&p[1]), -SIGKILL);
	for (i = 1; i < 4; i++)
		EXPECT(t_state(i).callbacks_done, 1);
	MUST_FAIL(get_by(&all->q[0], 4, all->va[1]), EINVAL, OUT_NULL);
	munmap(all, sizeof(*all));
}

/* ---- BAR1 ---- */

static uint64_t used(struct gpu *g)
{
	return sg_need_info(g->fd).bar1_used;
}

/* As before CUDA 7: what two pins have in common is taken twice, and counts when it runs out. */
static void bar1_taken_anew(struct gpu *g)
{
	uint64_t va, before = used(g), room;
	struct softgpu_info info;
	int i;

	if (!module_is("softgpu", "bar1_per_pin")) {
		printf("skip: softgpu.ko was loaded without bar1_per_pin=1\n");
		return;
	}
	va = need_alloc(g, 4 * PAGE64);
	for (i = 0; i < 3; i++) {
		EXPECT(t_get(i, va, 4 * PAGE64).ret, 0);
		CHECK(used(g) == before + (i + 1) * 4 * PAGE64);
	}
	EXPECT(t_get(3, va + PAGE64, PAGE64).ret, 0);
	CHECK(used(g) == before + 13 * PAGE64);
	for (i = 3; i >= 0; i--)
		EXPECT(t_put(i), 0);
	CHECK(used(g) == before);

	info = sg_need_info(g->fd);
	room = info.bar1_total - info.bar1_used;
	va = need_alloc(g, room / 2 + PAGE64);
	EXPECT(t_get(0, va, room / 2 + PAGE64).ret, 0);
	MUST_FAIL(t_get(1, va, room / 2 + PAGE64), ENOMEM, OUT_NULL);
	EXPECT(t_get(1, va, room / 2 - PAGE64).ret, 0);
	MUST_FAIL(t_get(2, va, PAGE64), ENOMEM, OUT_NULL);
	EXPECT(sg_free(g->fd, va), 0);
	CHECK(used(g) == before);
}

const struct gpu_case sharing_cases[] = {
	{ "sharing: clients of a server", clients_of_a_server, t_reset },
	{ "sharing: BAR1 taken anew by each pin", bar1_taken_anew, t_reset },
	{ }
};
