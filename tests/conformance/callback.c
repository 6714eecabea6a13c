// SPDX-License-Identifier: MIT
/* callback.c - 1.8: the free callback, and what put_pages does while it runs (1.7). */
#include "conform.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORD	0x5eed0005u

static gpu_ptr pinned(int slot, uint32_t on_callback)
{
	gpu_ptr p = cuda_alloc(BLOCK);

	cuda_write(p, WORD);
	T(.op = T_ON_CALLBACK, .slot = slot, .value = on_callback);
	pin(slot, p, BLOCK);
	return p;
}

/* After `what`: one callback has run, with the memory and the tables as they were. */
static void ran(const char *what, int slot)
{
	struct nvp2p_test_call s = t_state(slot);

	judge(s.callbacks == 1 && s.callbacks_done == 1, "1.8", what, "one callback, ended", "%u, %u ended", s.callbacks,
	      s.callbacks_done);
	if (!s.callbacks_done)
		return;
	judge(s.callback_word == WORD && s.callback_valid, "1.8", "  in it: memory and table", "as before", "%s, %s",
	      s.callback_word == WORD ? "memory as before" : "other memory",
	      s.callback_valid ? "table as before" : "another table");
}

static void on_free(void)
{
	gpu_ptr p = pinned(0, C_PEEK | C_FREE_PAGE_TABLE | C_FREE_DMA_MAPPING);
	struct nvp2p_test_call s;

	cuda_free(p);
	ran("cuMemFree under a pin", 0);
	s = t_state(0);
	judge(s.callback_pid == (uint32_t)syscall(SYS_gettid), "1.8", "  its thread", "the one that frees", "%s",
	      s.callback_pid == (uint32_t)syscall(SYS_gettid) ? "that one" : "another");
	judge(!s.callback_frees || (!(features & F_DMA) && s.callback_frees == (uint32_t)-95), "1.8",
	      "  free_page_table and free_dma_mapping in it", "0", "%s", errname((int)s.callback_frees));
}

static void on_free_of_several(void)
{
	gpu_ptr p = cuda_alloc(BLOCK);
	unsigned int done = 0;

	for (int i = 0; i < 4; i++)
		pin(i, p + i * KIB64, KIB64);
	pin(4, p, BLOCK);
	t_put(2);
	cuda_free(p);
	for (int i = 0; i < 5; i++)
		done += t_state(i).callbacks_done;
	judge(done == 4 && !t_state(2).callbacks, "1.8", "cuMemFree under five pins, one of them put before", "one each for four",
	      "%u, and %u for that one", done, t_state(2).callbacks);
}

static void on_context_destroy(void)
{
	void *ctx;

	if (cuda.cuCtxCreate_v2(&ctx, 0, (int)options.gpu)) {
		row(NA, "1.8", "cuCtxDestroy under a pin", "one callback", "cuCtxCreate_v2 fails");
		return;
	}
	pinned(0, C_PEEK);
	cuda.cuCtxDestroy_v2(ctx);
	ran("cuCtxDestroy under a pin", 0);
}

static void pin_and_exit(void *arg)
{
	(void)arg;
	cuda_up();
	pinned(0, C_PEEK);
}

static void on_exit_of_process(void)
{
	if (in_child(pin_and_exit, NULL))
		ran("exit under a pin", 0);
	else
		row(FAIL, "1.8", "exit under a pin", "an end", "it broke off");
}

static void on_kill(void)
{
	int ready[2], status;
	char c = 0;
	pid_t pid;

	if (pipe(ready))
		exit(2);
	pid = fork();
	if (!pid) {
		cuda_up();
		pinned(0, C_PEEK);
		if (write(ready[1], &c, 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1) {
		row(FAIL, "1.8", "kill -9 under a pin", "an end", "it broke off");
		return;
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	ran("kill -9 under a pin", 0);
}

static void not_for_persistent(void)
{
	gpu_ptr p = cuda_alloc(BLOCK);

	if (T(.op = T_GET_PERSISTENT, .va = p, .length = BLOCK).ret)
		exit(2);
	cuda_free(p);
	judge(!t_state(0).callbacks, "1.8", "cuMemFree under a persistent pin", "no callback", "%u", t_state(0).callbacks);
	T(.op = T_PUT_PERSISTENT);
}

/* ---- other threads meanwhile ---- */

struct thread {
	pthread_t id;
	gpu_ptr p;
	int done, ret;
};

static void *free_main(void *arg)
{
	struct thread *t = arg;

	t->ret = cuda.cuMemFree_v2(t->p);
	__atomic_store_n(&t->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *put_main(void *arg)
{
	struct thread *t = arg;

	t->ret = t_put(0);
	__atomic_store_n(&t->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static bool begun(int slot)
{
	for (int i = 0; i < 4000 && !t_state(slot).callbacks; i++)
		nap_ms(5);
	return t_state(slot).callbacks;
}

static void put_waits(void)
{
	struct thread freeing = { .p = pinned(0, C_WAIT) }, putting = { .done = 0 };
	bool early;

	if (pthread_create(&freeing.id, NULL, free_main, &freeing))
		exit(2);
	if (!begun(0)) {
		row(FAIL, "1.8", "cuMemFree in another thread", "a callback", "none in 20 s");
		return;
	}
	if (pthread_create(&putting.id, NULL, put_main, &putting))
		exit(2);
	/* A driver that does not wait is done by then, or this time is not caught. */
	nap_ms(200);
	early = __atomic_load_n(&putting.done, __ATOMIC_ACQUIRE);
	judge(!early, "1.7", "put_pages while the callback runs in another thread", "waits for it", "%s",
	      early ? "it did not" : "it did");
	early = __atomic_load_n(&freeing.done, __ATOMIC_ACQUIRE);
	judge(!early, "1.8", "cuMemFree while the callback runs", "waits for it", "%s", early ? "it did not" : "it did");
	T(.op = T_RELEASE);
	pthread_join(putting.id, NULL);
	pthread_join(freeing.id, NULL);
	judge(!putting.ret || putting.ret == -22, "1.7", "put_pages after that wait", "0 (older drivers: -EINVAL)", "%s",
	      errname(putting.ret));
	judge(t_state(0).callbacks == 1, "1.8", "callbacks in all", "1", "%u", t_state(0).callbacks);
}

/* Free against put, many times: each pin ends by one of them. */
static void races(void)
{
	unsigned int by_callback = 0, wrong = 0;
	const unsigned int rounds = 100;

	for (unsigned int i = 0; i < rounds; i++) {
		struct thread freeing = { .p = pinned(0, 0) }, putting = { .done = 0 };
		unsigned int callbacks;

		if (pthread_create(&freeing.id, NULL, free_main, &freeing) ||
		    pthread_create(&putting.id, NULL, put_main, &putting))
			exit(2);
		pthread_join(freeing.id, NULL);
		pthread_join(putting.id, NULL);
		callbacks = t_state(0).callbacks;
		wrong += callbacks > 1 || callbacks != t_state(0).callbacks_done || freeing.ret;
		by_callback += callbacks;
		T(.op = T_RESET);
	}
	judge(!wrong, "1.8", "cuMemFree against put_pages, 100 times", "each pin ends once", "%u wrong; %u by callback", wrong,
	      by_callback);
}

/* ---- a client's own lock ---- */

static int stop;

static void *map_main(void *arg)
{
	unsigned int *mapped = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		struct nvp2p_test_call c = T(.op = T_DMA_MAP, .bdf = options.peer, .flags = W_CLIENT_LOCK);

		if (!c.ret) {
			(*mapped)++;
			T(.op = T_DMA_UNMAP, .flags = W_CLIENT_LOCK);
		}
	}
	return NULL;
}

static void own_lock(void)
{
	unsigned int mapped = 0, stuck = 0, callbacks = 0;
	pthread_t id;

	if (pthread_create(&id, NULL, map_main, &mapped))
		exit(2);
	for (int i = 0; i < 30; i++) {
		gpu_ptr p = pinned(0, C_CLIENT_LOCK);

		nap_ms(1);
		cuda_free(p);
		callbacks += t_state(0).callbacks_done;
		stuck |= t_state(0).stuck;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(id, NULL);
	judge(!stuck && callbacks == 30, "1.8", "a client's mutex across dma_map_pages, taken in the callback", "no deadlock",
	      "%s; %u callbacks, %u mappings", stuck ? "a deadlock" : "none", callbacks, mapped);
}

/* What the provider takes down itself when the callback has returned. */
static void sweeps(void)
{
	gpu_ptr p = cuda_alloc(BLOCK);
	uint64_t dma;

	if (!pin_mapped("1.8", "a callback with a DMA mapping left", p, &dma))
		return;
	T(.op = T_ON_CALLBACK, .value = C_FREE_DMA_MAPPING | C_FREE_PAGE_TABLE);
	cuda_free(p);
	judge(t_state(0).callback_valid, "1.8", "in the callback: a DMA mapping that was made", "as before", "%s",
	      t_state(0).callback_valid ? "as before" : "not so");
	leads_nowhere("1.8", "after it the DMA mapping is gone", dma);
}

static void not_tried(void)
{
	row(NA, "1.8", "put_pages, dma_map and dma_unmap in the callback", "the client must not", "deadlocks NVIDIA's: not tried");
}

const struct group callback_groups[] = {
	{ "1.8", "the callback on cuMemFree", .run = on_free },
	{ "1.8", "one callback for each pin", .run = on_free_of_several },
	{ "1.8", "the callback on cuCtxDestroy", .run = on_context_destroy },
	{ "1.8", "the callback on exit", .run = on_exit_of_process, .no_cuda = true },
	{ "1.8", "the callback on kill -9", .run = on_kill, .no_cuda = true },
	{ "1.8", "no callback for persistent pins", .run = not_for_persistent, .needs = F_PERSISTENT },
	{ "1.7", "put_pages waits for the callback", .run = put_waits },
	{ "1.8", "cuMemFree against put_pages", .run = races },
	{ "1.8", "a client's own lock", .run = own_lock, .needs = F_DMA, .needs_peer = true },
	{ "1.8", "DMA mappings and the callback", .run = sweeps, .needs = F_DMA, .needs_peer = true },
	{ "1.8", "what must not be done in it", .run = not_tried, .no_cuda = true },
	{ 0 }
};
