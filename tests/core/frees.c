// SPDX-License-Identifier: MIT
/* frees.c - which work a free waits for, and memory that a stream frees. */
#include "../cases.h"
#include "util.h"

#include <pthread.h>
#include <sched.h>
#include "clients/clients.h"

static struct machine m;
static struct user u, second, far;	/* a process's two contexts on GPU 0, and one on GPU 1 */
static int key;
static u64 idle;			/* memory of the second context */
static u64 word;

static int setup(void **state)
{
	struct softgpu_ctx_create c = { 0 };

	machine_up(&m, 2, 64 * PAGE, 32 * PAGE, 0);
	user_up(&u, &m, 0, &key);
	user_up(&far, &m, 1, &key);
	MUST(!CALL(u.client, SOFTGPU_CTX_CREATE, &c));
	second = u;
	second.ctx = c.ctx;
	word = 0;
	MUST(!enlist(&far, SOFTGPU_KIND_REGISTERED, HOST(&word), sizeof(word)));
	MUST(!mem_alloc(&second, PAGE, &idle));
	return 0;
}

static int teardown(void **state)
{
	user_down(&u);
	user_down(&far);
	machine_down(&m);
	return 0;
}

FIXTURE(setup, teardown)

static void waits_for_word(struct user *who, u32 stream)
{
	struct softgpu_value v = {
		.ctx = who->ctx, .stream = stream, .op = SOFTGPU_VALUE_EQ, .va = HOST(&word), .value = 1, .width = 8,
	};

	MUST(!CALL(who->client, SOFTGPU_VALUE, &v));
}

static void set_word(void)
{
	__atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
}

static int sync_ctx(struct user *who)
{
	return CALL(who->client, SOFTGPU_CTX_SYNC, &(struct softgpu_handle){ .handle = who->ctx });
}

static u64 freed;
static int over;

static void *free_it(void *arg)
{
	void *ret = (void *)(intptr_t)mem_free(&u, freed);

	__atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
	return ret;
}

static pthread_t start_free(void)
{
	pthread_t thread;

	over = 0;
	MUST(!pthread_create(&thread, NULL, free_it, NULL));
	return thread;
}

/* It has not returned until now, has by the end, and freed the memory. */
static void waited(pthread_t thread)
{
	void *ret;

	usleep(20000);
	assert_false(__atomic_load_n(&over, __ATOMIC_SEQ_CST));
	set_word();
	pthread_join(thread, &ret);
	assert_null(ret);
	assert_int_equal(query(&u, freed).kind, SOFTGPU_KIND_NONE);
}

/* Each kind of work of another context that uses the memory: it is done, and then the memory goes. */
CASE(other_contexts)
{
	struct user *const others[] = { &second, &far };
	pthread_t thread;
	u64 host = 0;

	for (u32 kind = 0; kind < 9; kind++) {
		struct user *who = others[kind == 2];
		struct softgpu_watch watch = { .ctx = second.ctx, .timeout_ms = 1 };
		struct softgpu_value value = { .ctx = second.ctx, .op = SOFTGPU_VALUE_WRITE, .width = 8 };
		struct softgpu_copy rows = { .ctx = second.ctx, .width = 8, .height = 3, .dst_pitch = PAGE / 2, .src_pitch = 64 };

		word = 0;
		MUST(!mem_alloc(&u, 2 * PAGE, &freed));
		MUST(!fill(&u, 0, freed, 2 * PAGE, kind + 1, SOFTGPU_OP_SYNC));
		waits_for_word(who, 0);
		switch (kind) {
		case 0:
			MUST(!copy(who, 0, freed, idle, 8, 0));
			break;
		case 1:
			MUST(!copy(who, 0, idle, freed + 2 * PAGE - 8, 8, 0));
			break;
		case 2:		/* of another GPU */
			MUST(!copy(who, 0, HOST(&host), freed, 8, 0));
			break;
		case 3:
			MUST(!fill(who, 0, freed, 8, 1, 0));
			break;
		case 4:
			value.va = freed;
			MUST(!CALL(u.client, SOFTGPU_VALUE, &value));
			break;
		case 5:
			watch.va = idle;
			watch.result = freed + 64;
			MUST(!CALL(u.client, SOFTGPU_WATCH, &watch));
			break;
		case 6:
			watch.va = freed + 64;
			watch.result = idle;
			MUST(!CALL(u.client, SOFTGPU_WATCH, &watch));
			break;
		case 7:		/* the last row alone lies in it */
			rows.dst = freed - PAGE;
			rows.src = idle;
			if (query(&u, freed - PAGE).kind != SOFTGPU_KIND_DEVICE)
				rows.dst = freed;
			MUST(!CALL(u.client, SOFTGPU_COPY, &rows));
			break;
		default:	/* work behind it does not matter */
			MUST(!copy(who, 0, idle, freed, 8, 0));
			MUST(!fill(who, 0, idle, 8, 1, 0));
			break;
		}
		thread = start_free();
		waited(thread);
		assert_int_equal(sync_ctx(who), 0);
		if (kind == 2)
			assert_true(host == 0x0303030303030303ull);
	}
}

/* Work of other contexts that does not use the memory holds up nothing. */
CASE(unrelated)
{
	MUST(!mem_alloc(&u, 2 * PAGE, &freed));
	waits_for_word(&second, 0);
	MUST(!fill(&second, 0, idle, PAGE, 1, 0));
	waits_for_word(&far, 0);
	assert_int_equal(mem_free(&u, freed), 0);
	set_word();
	assert_int_equal(sync_ctx(&second), 0);
}

/* The other context dies, or goes, while the free waits for its work. */
static void other_ends(bool goes)
{
	pthread_t thread;
	void *ret;

	MUST(!mem_alloc(&u, PAGE, &freed));
	waits_for_word(&second, 0);
	if (!goes)
		MUST(!copy(&second, 0, idle, 64, 8, 0));	/* an address in the zero page faults */
	MUST(!copy(&second, 0, freed, idle, 8, 0));
	thread = start_free();
	usleep(20000);
	assert_false(__atomic_load_n(&over, __ATOMIC_SEQ_CST));
	if (goes)
		MUST(!CALL(u.client, SOFTGPU_CTX_DESTROY, &(struct softgpu_handle){ .handle = second.ctx }));
	else
		set_word();
	pthread_join(thread, &ret);
	assert_null(ret);
	if (!goes)
		assert_int_equal(sync_ctx(&second), -EIO);
}

CASE(other_dies)
{
	other_ends(false);
}

CASE(other_goes)
{
	other_ends(true);
}

/* One job of thousands uses the memory: the free waits for it, and for none behind it. */
CASE(many_jobs)
{
	struct softgpu_stream_create apart = { .ctx = second.ctx, .flags = SOFTGPU_STREAM_NON_BLOCKING };
	struct softgpu_host_func func = { .ctx = second.ctx };
	pthread_t thread;
	void *ret;
	int i;

	MUST(!CALL(u.client, SOFTGPU_STREAM_CREATE, &apart));
	func.stream = apart.stream;
	MUST(!mem_alloc(&u, PAGE, &freed));
	waits_for_word(&second, apart.stream);
	for (i = 0; i < 5000; i++)
		MUST(!fill(&second, apart.stream, i == 3000 ? freed : idle, 8, 1, 0));
	MUST(!CALL(u.client, SOFTGPU_HOST_FUNC, &func));	/* which is not taken until the free is over */
	thread = start_free();
	usleep(20000);
	assert_false(__atomic_load_n(&over, __ATOMIC_SEQ_CST));
	set_word();
	pthread_join(thread, &ret);
	assert_null(ret);
	MUST(!CALL(u.client, SOFTGPU_HOST_FUNC_NEXT, &func));
	MUST(!CALL(u.client, SOFTGPU_HOST_FUNC_DONE, &func));
	assert_int_equal(sync_ctx(&second), 0);
}

/* While the free waits, its memory goes with its context, and other memory comes to its place: work on that is none of its business. */
CASE(others_come)
{
	struct softgpu_stream_create apart = { .ctx = second.ctx, .flags = SOFTGPU_STREAM_NON_BLOCKING };
	struct softgpu_value never = { .ctx = second.ctx, .op = SOFTGPU_VALUE_EQ, .value = 77, .width = 8 };
	pthread_t thread;
	void *ret;
	u64 came;

	MUST(!CALL(u.client, SOFTGPU_STREAM_CREATE, &apart));
	MUST(!mem_alloc(&u, PAGE, &freed));
	waits_for_word(&second, 0);
	MUST(!fill(&second, 0, freed, 8, 1, 0));
	thread = start_free();
	usleep(20000);
	MUST(!CALL(u.client, SOFTGPU_CTX_DESTROY, &(struct softgpu_handle){ .handle = u.ctx }));
	MUST(!mem_alloc(&second, PAGE, &came));
	assert_true(came == freed);
	never.va = came;
	never.stream = apart.stream;
	MUST(!CALL(u.client, SOFTGPU_VALUE, &never));
	set_word();
	pthread_join(thread, &ret);
	assert_int_equal((intptr_t)ret, -ENOENT);
}

static int in_callback, may_return;

static void linger(struct tpin *t)
{
	__atomic_store_n(&in_callback, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&may_return, __ATOMIC_SEQ_CST))
		sched_yield();
}

/* A context ends while pins of its memory are being revoked: who asks whose they are finds no context that is gone. */
CASE(context_of_pins)
{
	struct tpin first = { .on_callback = linger }, next = { 0 };
	struct sg_pin_who who = { .proc_key = &key };
	pthread_t thread;

	who.p2p_token = query(&second, idle).p2p_token;
	in_callback = may_return = 0;
	MUST(!mem_alloc(&u, PAGE, &freed));
	MUST(!tpin_get(&first, &u, freed, PAGE, false));
	MUST(!tpin_get(&next, &u, freed, PAGE, false));
	thread = start_free();
	while (!__atomic_load_n(&in_callback, __ATOMIC_SEQ_CST))
		sched_yield();
	MUST(!CALL(u.client, SOFTGPU_CTX_DESTROY, &(struct softgpu_handle){ .handle = u.ctx }));
	assert_false(sg_pin_is_of(&next.pin, &who));
	__atomic_store_n(&may_return, 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	assert_int_equal(tpin_count(&next.callbacks), 1);
}

/* ---- memory that a stream frees ---- */

static int free_async(struct user *who, u32 stream, u64 va)
{
	struct softgpu_mem_free_async a = { .ctx = who->ctx, .stream = stream, .va = va };

	return CALL(who->client, SOFTGPU_MEM_FREE_ASYNC, &a);
}

static u64 pool_memory(struct user *who, u64 len)
{
	struct softgpu_mem_alloc a = { .length = len };

	MUST(!CALL(who->client, SOFTGPU_MEM_ALLOC, &a));
	return a.va;
}

/* Memory of no context is gone for the program at once, and back when the stream has come to it. */
CASE(pools)
{
	u64 before = stats_of(&m, 0).vram_free, va = pool_memory(&u, PAGE);
	struct tpin pin = { 0 };

	assert_int_equal(tpin_get(&pin, &u, va, PAGE, false), 0);
	waits_for_word(&u, 0);
	assert_int_equal(fill(&u, 0, va, PAGE, 7, 0), 0);
	assert_int_equal(free_async(&u, 0, va), 0);
	assert_int_equal(query(&u, va).kind, SOFTGPU_KIND_NONE);
	assert_int_equal(fill(&u, 0, va, PAGE, 7, 0), -EFAULT);
	assert_int_equal(copy(&second, 0, idle, va, PAGE, 0), -EFAULT);
	assert_int_equal(free_async(&u, 0, va), -EFAULT);
	assert_int_equal(mem_free(&u, va), -ENOENT);
	assert_true(before - stats_of(&m, 0).vram_free == PAGE);
	assert_int_equal(tpin_count(&pin.callbacks), 0);
	set_word();
	assert_int_equal(sync_ctx(&u), 0);
	assert_int_equal(tpin_count(&pin.callbacks), 1);
	assert_true(stats_of(&m, 0).vram_free == before);
	assert_int_equal(tpin_put(&pin, &u, false), -ENOENT);
}

/* What else a program could do with it. */
CASE(hidden)
{
	struct softgpu_set_attr set = { .attr = SOFTGPU_ATTR_SYNC_MEMOPS, .value = 1 };
	struct softgpu_value write = { .ctx = u.ctx, .op = SOFTGPU_VALUE_WRITE, .width = 8 };
	struct softgpu_ipc_export export = { 0 };

	set.va = write.va = export.va = pool_memory(&u, PAGE);
	waits_for_word(&u, 0);
	assert_int_equal(free_async(&u, 0, set.va), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_VALUE, &write), -EFAULT);
	assert_int_equal(CALL(u.client, SOFTGPU_SET_ATTR, &set), -ENOENT);
	assert_int_equal(CALL(u.client, SOFTGPU_IPC_EXPORT, &export), -ENOENT);
	set_word();
	assert_int_equal(sync_ctx(&u), 0);
}

static pthread_t revoked_in;

static void note_thread(struct tpin *t)
{
	revoked_in = pthread_self();
	/* a client may work on the very stream */
	MUST(!fill(&u, 0, freed, 8, 1, SOFTGPU_OP_SYNC));
}

/* Clients are called by threads of the process, not by engines, which others need. */
CASE(in_the_process)
{
	struct tpin pin = { .on_callback = note_thread };

	for (int busy = 0; busy < 2; busy++) {
		u64 va = pool_memory(&u, PAGE);

		MUST(!mem_alloc(&u, PAGE, &freed));
		MUST(!tpin_get(&pin, &u, va, PAGE, false));
		if (busy)
			waits_for_word(&u, 0);
		assert_int_equal(free_async(&u, 0, va), 0);
		assert_int_equal(tpin_count(&pin.callbacks), !busy);	/* at once if nothing is before it */
		set_word();
		assert_int_equal(sync_ctx(&u), 0);
		assert_int_equal(tpin_count(&pin.callbacks), 1);
		assert_true(pthread_equal(revoked_in, pthread_self()));
		assert_int_equal(mem_free(&u, freed), 0);
		word = 0;
	}
}

static void *set_soon(void *arg)
{
	usleep(20000);
	set_word();
	return arg;
}

/* An allocation that finds no room waits, if it is told to, and if there is something to wait for. */
CASE(room)
{
	struct softgpu_mem_alloc a = { .length = 48 * PAGE, .flags = SOFTGPU_ALLOC_WAIT };
	pthread_t thread;

	waits_for_word(&second, 0);
	MUST(!CALL(u.client, SOFTGPU_MEM_ALLOC, &a));
	assert_int_equal(CALL(u.client, SOFTGPU_MEM_ALLOC, &a), -ENOSPC);
	assert_int_equal(free_async(&second, 0, a.va), 0);
	a.flags = 0;
	assert_int_equal(CALL(u.client, SOFTGPU_MEM_ALLOC, &a), -ENOSPC);
	a.flags = SOFTGPU_ALLOC_WAIT;
	MUST(!pthread_create(&thread, NULL, set_soon, NULL));
	assert_int_equal(CALL(u.client, SOFTGPU_MEM_ALLOC, &a), 0);
	pthread_join(thread, NULL);
	a.flags = 2;
	assert_int_equal(CALL(u.client, SOFTGPU_MEM_ALLOC, &a), -EINVAL);
	a.flags = 0;
	a.reserved = 1;
	assert_int_equal(CALL(u.client, SOFTGPU_MEM_ALLOC, &a), -EINVAL);
}

/* Memory of a context stays what it was until then. */
CASE(plain)
{
	u64 before = stats_of(&m, 0).vram_free, va;

	MUST(!mem_alloc(&u, PAGE, &va));
	waits_for_word(&u, 0);
	assert_int_equal(free_async(&u, 0, va), 0);
	assert_int_equal(query(&u, va).kind, SOFTGPU_KIND_DEVICE);
	assert_int_equal(fill(&second, 0, va, PAGE, 7, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(free_async(&u, 0, va), -EFAULT);
	set_word();
	assert_int_equal(sync_ctx(&u), 0);
	assert_int_equal(query(&u, va).kind, SOFTGPU_KIND_NONE);
	assert_true(stats_of(&m, 0).vram_free == before);
	assert_int_equal(mem_free(&u, va), -ENOENT);
}

/* It goes with its context before the stream of another one comes to it, and other memory comes to its place: that stays. */
CASE(anothers_memory)
{
	u64 came;

	waits_for_word(&u, 0);
	assert_int_equal(free_async(&u, 0, idle), 0);
	MUST(!CALL(u.client, SOFTGPU_CTX_DESTROY, &(struct softgpu_handle){ .handle = second.ctx }));
	MUST(!mem_alloc(&u, PAGE, &came));
	assert_true(came == idle);
	set_word();
	assert_int_equal(sync_ctx(&u), 0);
	assert_int_equal(query(&u, came).kind, SOFTGPU_KIND_DEVICE);
	assert_int_equal(mem_free(&u, came), 0);
}

/* Also where the stream's context is dead, or goes. */
CASE(stream_ends)
{
	u64 before = stats_of(&m, 0).vram_free, va;

	va = pool_memory(&u, PAGE);
	waits_for_word(&second, 0);
	assert_int_equal(free_async(&second, 0, va), 0);
	MUST(!CALL(u.client, SOFTGPU_CTX_DESTROY, &(struct softgpu_handle){ .handle = second.ctx }));
	assert_true(stats_of(&m, 0).vram_free == before + PAGE);	/* the second context's memory, too */
	va = pool_memory(&u, PAGE);
	waits_for_word(&far, 0);
	MUST(!copy(&far, 0, HOST(&key), 64, 8, 0));
	assert_int_equal(free_async(&far, 0, va), 0);
	set_word();
	assert_int_equal(sync_ctx(&far), -EIO);
	assert_true(stats_of(&m, 0).vram_free == before + PAGE);
}

/* What was opened in a context is closed by IPC_CLOSE alone; without one, each open by one free. */
CASE(imports)
{
	static int exporters_key;
	struct softgpu_ipc_open in_ctx, without = { 0 };
	struct softgpu_ipc_export e = { 0 };
	struct user exporter;

	user_up(&exporter, &m, 0, &exporters_key);
	MUST(!mem_alloc(&exporter, PAGE, &e.va));
	MUST(!CALL(exporter.client, SOFTGPU_IPC_EXPORT, &e));
	without.id = e.id;
	memcpy(without.key, e.key, sizeof(e.key));
	in_ctx = without;
	in_ctx.ctx = u.ctx;
	MUST(!CALL(u.client, SOFTGPU_IPC_OPEN, &in_ctx));
	assert_int_equal(free_async(&u, 0, in_ctx.va), -EFAULT);
	assert_int_equal(CALL(u.client, SOFTGPU_IPC_CLOSE, &(struct softgpu_va){ .va = in_ctx.va }), 0);
	for (int i = 0; i < 2; i++)
		MUST(!CALL(u.client, SOFTGPU_IPC_OPEN, &without));
	waits_for_word(&u, 0);
	assert_int_equal(free_async(&u, 0, without.va), 0);
	assert_int_equal(query(&u, without.va).kind, SOFTGPU_KIND_IPC);
	assert_int_equal(free_async(&u, 0, without.va), 0);
	assert_int_equal(query(&u, without.va).kind, SOFTGPU_KIND_NONE);
	assert_int_equal(free_async(&u, 0, without.va), -EFAULT);
	set_word();
	assert_int_equal(sync_ctx(&u), 0);
	assert_int_equal(query(&exporter, e.va).kind, SOFTGPU_KIND_DEVICE);
	user_down(&exporter);
}

CASE(refused)
{
	struct softgpu_mem_free_async a = { .ctx = u.ctx, .va = idle, .flags = 1 };

	assert_int_equal(CALL(u.client, SOFTGPU_MEM_FREE_ASYNC, &a), -EINVAL);
	assert_int_equal(free_async(&u, u.ctx, idle), -ENOENT);	/* a handle, but no stream */
	assert_int_equal(free_async(&u, 0, idle + 8), -EFAULT);
	assert_int_equal(free_async(&u, 0, 0), -EFAULT);
	assert_int_equal(free_async(&u, 0, HOST(&word)), -EFAULT);	/* registered host memory */
}

MAIN(NULL, NULL)
