// SPDX-License-Identifier: MIT
/*
 * nvp2p_stress - pins against everything that ends them, at random: processes
 * that allocate, pin, map for DMA, copy, free, destroy contexts, close, fork,
 * exit, and are killed, in any order, with several threads each.  What must
 * hold: nothing is left at the end, and every pin that a program still had when
 * it went got exactly one callback.
 *
 *   nvp2p_stress [ROUNDS [SEED]]
 */
#include "nvp2p_client.h"
#include "peerdma_test_card.h"
#include "sgraw.h"

#define THREADS		3
#define SLOTS_EACH	8	/* slots that one thread may use */
#define BUFFERS		8
#define STEPS		40

/* Operations may fail here: slots are taken or empty, memory has gone. */
static int t_call(struct nvp2p_test_call *c)
{
	return ioctl(nvp2p_client, NVP2P_TEST_CALL, c) ? -errno : c->ret;
}

struct worker {
	struct gpu *g;
	uint64_t seed;
	int first_slot;
	uint32_t bdf;
	struct task task;
};

struct buffer {
	uint64_t va, pages;
};

static void pin_something(struct worker *w, const struct buffer *b)
{
	uint64_t first = rnd(&w->seed) % b->pages;
	struct nvp2p_test_call c = {
		.op = T_GET, .slot = w->first_slot + rnd(&w->seed) % SLOTS_EACH,
		.va = b->va + first * PAGE64,
		.length = (1 + rnd(&w->seed) % (b->pages - first)) * PAGE64,
	};
	int err = t_call(&c);

	/* EBUSY: the slot is taken. */
	CHECK(err == 0 || err == -EBUSY || err == -ENOMEM, "get: %d", err);
	if (!err && w->bdf && rnd(&w->seed) % 2) {
		c = (struct nvp2p_test_call){ .op = T_DMA_MAP, .slot = c.slot, .bdf = w->bdf };
		err = t_call(&c);
		CHECK(err == 0, "dma_map: %d", err);
	}
}

static void put_something(struct worker *w)
{
	struct nvp2p_test_call c = {
		.op = T_PUT, .slot = w->first_slot + rnd(&w->seed) % SLOTS_EACH,
	};

	CHECK(t_call(&c) == 0, "put: %d", c.ret);
}

static void work(void *arg)
{
	struct worker *w = arg;
	struct buffer buffers[BUFFERS] = { 0 };
	static char host[1 << 18];
	int step;

	for (step = 0; step < STEPS; step++) {
		struct buffer *b = &buffers[rnd(&w->seed) % BUFFERS];
		uint64_t what = rnd(&w->seed) % 10;

		if (!b->va) {
			b->pages = 1 + rnd(&w->seed) % 16;
			if (sg_alloc(w->g->fd, w->g->ctx, b->pages * PAGE64, &b->va))
				b->va = 0;
		} else if (what < 4) {
			pin_something(w, b);
		} else if (what < 6) {
			put_something(w);
		} else if (what < 8) {
			EXPECT(sg_copy(w->g->fd, w->g->ctx, b->va, PTR(host), PAGE64, 0), 0);
		} else {
			EXPECT(sg_free(w->g->fd, b->va), 0);
			b->va = 0;
		}
	}
}

/* A program's life; how it ends is up to the seed. */
static void life(uint64_t seed, uint32_t bdf)
{
	struct gpu g = gpu_up(0);
	struct worker workers[THREADS];
	int i;

	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .g = &g, .seed = seed * 31 + i + 1,
					      .first_slot = i * SLOTS_EACH, .bdf = bdf };
		task_begin(&workers[i].task, work, &workers[i]);
	}
	for (i = 0; i < THREADS; i++)
		task_end(&workers[i].task);
	switch (seed % 5) {
	case 0:
		EXPECT(sg_ctx_destroy(g.fd, g.ctx), 0);
		break;
	case 1:
		close(g.fd);
		break;
	case 2:
		/* A child that lives longer has no say in it but keeps the file. */
		if (!fork()) {
			usleep(20000);
			_exit(0);
		}
		break;
	case 3:
		raise(SIGKILL);
	}
	_exit(check_counts.failures ? 1 : 0);
}

static bool one_round(uint64_t seed, uint32_t bdf)
{
	pid_t pid = fork();
	int status, end;

	MUST(pid >= 0);
	if (!pid)
		life(seed, bdf);
	/* Some are killed in the middle. */
	if (seed % 7 == 0) {
		usleep(rnd(&seed) % 60000);
		kill(pid, SIGKILL);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	end = check_status(status);
	return !end || end == -SIGKILL;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 200, round;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 2654435761u | 1;
	struct idle idle;
	uint32_t bdf;
	int info_fd;

	info_fd = sg_open(0);
	if (info_fd < 0 || !t_open())
		check_skip("load softgpu.ko, nvidia.ko and nvp2p_test.ko first");
	bdf = card_bdf(0);	/* 0: no DMA mappings */
	idle = idle_now(info_fd);
	printf("%d rounds, seed %llu, %s\n", rounds, (unsigned long long)seed,
	       bdf ? "with DMA mappings" : "no DMA card");
	for (round = 0; round < rounds; round++) {
		uint64_t this_seed = rnd(&seed);
		char name[64];

		snprintf(name, sizeof(name), "round %d (seed %llu)", round,
			 (unsigned long long)this_seed);
		CHECK(one_round(this_seed, bdf), "%s: the program failed", name);
		check_idle(info_fd, &idle, name);
		t_reset();
		if (check_counts.failures)
			break;
	}
	return check_end("nvp2p_stress");
}
