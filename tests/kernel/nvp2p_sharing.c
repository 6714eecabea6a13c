// SPDX-License-Identifier: MIT
/* nvp2p_sharing.c - pins of several processes in one context; and BAR1 that pins do not share. */
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "nvp2p_rules.h"

/* ---- clients of a server ---- */

#define SERVER	12

/* What the two clients tell each other, in memory that both see. */
struct clients {
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

		NEED(at != MAP_FAILED);
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

/* Says how many checks have failed so far, and waits until it may go on. */
static void meet(int line)
{
	char go;

	fflush(stdout);
	NEED(write(line, &failures, sizeof(failures)) == sizeof(failures));
	if (read(line, &go, 1) != 1)
		_exit(1);
}

static void client(struct clients *all, int me, int line)
{
	int fd = sg_open(0);
	uint32_t ctx;

	failures = 0;
	NEED(fd >= 0 && join_server(fd));
	ctx = sg_ctx(fd);
	NEED(ctx && !sg_alloc(fd, ctx, 2 * PAGE64, &all->va[me]) && !sg_query(fd, all->va[me], &all->q[me]));
	meet(line);
	/* Its own, and by the tokens that both have the other's. */
	EXPECT(t_get(me, all->va[me], PAGE64).ret, 0);
	MUST_FAIL(t_get(2, all->va[!me], PAGE64), EINVAL, OUT_NULL);
	EXPECT(get_by(&all->q[me], 2, all->va[!me]).ret, 0);
	EXPECT(T(.op = T_PUT, .slot = 2, .token = all->q[me].p2p_token).ret, 0);
	meet(line);
}

static void heard(int line)
{
	int failed = 1;

	CHECK(read(line, &failed, sizeof(failed)) == sizeof(failed) && !failed, "%d failed in a client", failed);
}

static pid_t client_up(struct clients *all, int me, int *line)
{
	int ends[2];
	pid_t pid;

	NEED(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	fflush(stdout);
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		close(ends[0]);
		client(all, me, ends[1]);
		_exit(0);
	}
	close(ends[1]);
	*line = ends[0];
	heard(*line);
	return pid;
}

static void ended(pid_t pid)
{
	NEED(waitpid(pid, NULL, 0) == pid);
}

static void clients_of_a_server(struct gpu *g)
{
	struct clients *all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t mine = need_alloc(g, PAGE64);
	struct softgpu_query q;
	int line[2], i;
	pid_t pid[2];

	NEED(all != MAP_FAILED);
	NEED(!sg_query(g->fd, mine, &q));
	for (i = 0; i < 2; i++)
		pid[i] = client_up(all, i, &line[i]);
	CHECK(all->q[0].p2p_token == all->q[1].p2p_token && all->q[0].va_space_token == all->q[1].va_space_token &&
	      all->q[0].p2p_token != q.p2p_token, "tokens are not those of one context");
	CHECK(all->va[0] != all->va[1], "%#llx twice", (unsigned long long)all->va[0]);
	/* One after the other: they use one slot. */
	for (i = 0; i < 2; i++) {
		NEED(write(line[i], "", 1) == 1);
		heard(line[i]);
	}
	/* Whoever has the tokens, a client or not; and they reach the clients' memory only. */
	EXPECT(get_by(&all->q[0], 2, all->va[1]).ret, 0);
	MUST_FAIL(get_by(&all->q[0], 3, mine), EINVAL, OUT_NULL);
	MUST_FAIL(get_by(&q, 3, all->va[1]), EINVAL, OUT_NULL);

	/* One client ends: its pin alone. */
	NEED(write(line[0], "", 1) == 1);
	ended(pid[0]);
	EXPECT(t_state(0).callbacks_done, 1);
	EXPECT(t_state(1).callbacks_done, 0);
	EXPECT(t_state(2).callbacks_done, 0);
	MUST_FAIL(get_by(&all->q[0], 3, all->va[0]), EINVAL, OUT_NULL);
	EXPECT(get_by(&all->q[0], 3, all->va[1]).ret, 0);
	/* The last one is killed: all of its, and the tokens. */
	kill(pid[1], SIGKILL);
	ended(pid[1]);
	for (i = 1; i < 4; i++)
		EXPECT(t_state(i).callbacks_done, 1);
	MUST_FAIL(get_by(&all->q[0], 4, all->va[1]), EINVAL, OUT_NULL);
	close(line[0]);
	close(line[1]);
	munmap(all, sizeof(*all));
}

/* ---- BAR1 ---- */

static bool per_pin(void)
{
	FILE *f = fopen("/sys/module/softgpu/parameters/bar1_per_pin", "r");
	bool on = f && fgetc(f) == 'Y';

	if (f)
		fclose(f);
	return on;
}

static uint64_t used(struct gpu *g)
{
	struct softgpu_info info;

	NEED(!sg_info(g->fd, &info));
	return info.bar1_used;
}

/* As before CUDA 7: what two pins have in common is taken twice, and counts when it runs out. */
static void bar1_taken_anew(struct gpu *g)
{
	uint64_t va, before = used(g), room;
	struct softgpu_info info;
	int i;

	if (!per_pin()) {
		printf("skip: softgpu.ko was loaded without bar1_per_pin=1\n");
		return;
	}
	va = need_alloc(g, 4 * PAGE64);
	for (i = 0; i < 3; i++) {
		EXPECT(t_get(i, va, 4 * PAGE64).ret, 0);
		CHECK(used(g) == before + (i + 1) * 4 * PAGE64, "pin %d: %llu", i, (unsigned long long)used(g));
	}
	EXPECT(t_get(3, va + PAGE64, PAGE64).ret, 0);
	CHECK(used(g) == before + 13 * PAGE64, "%llu", (unsigned long long)used(g));
	for (i = 3; i >= 0; i--)
		EXPECT(t_put(i), 0);
	CHECK(used(g) == before, "%llu", (unsigned long long)used(g));

	NEED(!sg_info(g->fd, &info));
	room = info.bar1_total - info.bar1_used;
	va = need_alloc(g, room / 2 + PAGE64);
	EXPECT(t_get(0, va, room / 2 + PAGE64).ret, 0);
	MUST_FAIL(t_get(1, va, room / 2 + PAGE64), ENOMEM, OUT_NULL);
	EXPECT(t_get(1, va, room / 2 - PAGE64).ret, 0);
	MUST_FAIL(t_get(2, va, PAGE64), ENOMEM, OUT_NULL);
	EXPECT(sg_free(g->fd, va), 0);
	CHECK(used(g) == before, "%llu", (unsigned long long)used(g));
}

const struct test_case sharing_cases[] = {
	{ "sharing: clients of a server", clients_of_a_server },
	{ "sharing: BAR1 taken anew by each pin", bar1_taken_anew },
	{ NULL, NULL }
};
