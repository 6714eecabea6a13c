// SPDX-License-Identifier: MIT
/* frees.c - which work a free waits for, and memory that a stream frees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "util.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include "sg_int.h"

static struct machine m;
static struct user u, second, far;	/* a process's two contexts on GPU 0, and one on GPU 1 */
static int key;
static u64 idle;			/* memory of the second context */
static u64 word;

static int setup(void **state)
{
	struct softgpu_ctx_create c = { 0 };

	(void)state;
	machine_up(&m, 2, 64 * PAGE, 32 * PAGE, 0);
	user_up(&u, &m, 0, &key);
	user_up(&far, &m, 1, &key);
	MUST(!CALL(u.client, SOFTGPU_CTX_CREATE, &c));
	second = u;
	second.ctx = c.ctx;
	word = 0;
	MUST(!enlist(&u, SOFTGPU_KIND_REGISTERED, HOST(&word), sizeof(word)));
	MUST(!mem_alloc(&second, PAGE, &idle));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	user_down(&u);
	user_down(&far);
	machine_down(&m);
	return 0;
}

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

	(void)arg;
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
static void other_contexts(void **state)
{
	struct user *const others[] = { &second, &far };
	pthread_t thread;
	u64 host = 0;

	(void)state;
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
static void unrelated(void **state)
{
	(void)state;
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

static void other_dies(void **state)
{
	(void)state;
	other_ends(false);
}

static void other_goes(void **state)
{
	(void)state;
	other_ends(true);
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

static u64 vram_free(void)
{
	struct sg_gpu_stats stats;

	MUST(!sg_gpu_stats(m.sg, 0, &stats));
	return stats.vram_free;
}

/* Memory of no context is gone for the program at once, and back when the stream has come to it. */
static void pools(void **state)
{
	u64 before = vram_free(), va = pool_memory(&u, PAGE);
	struct tpin pin = { 0 };

	(void)state;
	assert_int_equal(tpin_get(&pin, &u, va, PAGE, false), 0);
	waits_for_word(&u, 0);
	assert_int_equal(fill(&u, 0, va, PAGE, 7, 0), 0);
	assert_int_equal(free_async(&u, 0, va), 0);
	assert_int_equal(query(&u, va).kind, SOFTGPU_KIND_NONE);
	assert_int_equal(fill(&u, 0, va, PAGE, 7, 0), -EFAULT);
	assert_int_equal(copy(&second, 0, idle, va, PAGE, 0), -EFAULT);
	assert_int_equal(free_async(&u, 0, va), -EFAULT);
	assert_int_equal(mem_free(&u, va), -ENOENT);
	assert_true(before - vram_free() == PAGE);
	assert_int_equal(tpin_count(&pin.callbacks), 0);
	set_word();
	assert_int_equal(sync_ctx(&u), 0);
	assert_int_equal(tpin_count(&pin.callbacks), 1);
	assert_true(vram_free() == before);
	assert_int_equal(tpin_put(&pin, &u, false), -ENOENT);
}

/* Memory of a context stays what it was until then. */
static void plain(void **state)
{
	u64 before = vram_free(), va;

	(void)state;
	MUST(!mem_alloc(&u, PAGE, &va));
	waits_for_word(&u, 0);
	assert_int_equal(free_async(&u, 0, va), 0);
	assert_int_equal(query(&u, va).kind, SOFTGPU_KIND_DEVICE);
	assert_int_equal(fill(&second, 0, va, PAGE, 7, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(free_async(&u, 0, va), -EFAULT);
	set_word();
	assert_int_equal(sync_ctx(&u), 0);
	assert_int_equal(query(&u, va).kind, SOFTGPU_KIND_NONE);
	assert_true(vram_free() == before);
	assert_int_equal(mem_free(&u, va), -ENOENT);
}

/* It goes with its context before the stream of another one comes to it, and other memory comes to its place: that stays. */
static void anothers_memory(void **state)
{
	u64 came;

	(void)state;
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
static void stream_ends(void **state)
{
	u64 before = vram_free(), va;

	(void)state;
	va = pool_memory(&u, PAGE);
	waits_for_word(&second, 0);
	assert_int_equal(free_async(&second, 0, va), 0);
	MUST(!CALL(u.client, SOFTGPU_CTX_DESTROY, &(struct softgpu_handle){ .handle = second.ctx }));
	assert_true(vram_free() == before + PAGE);	/* the second context's memory, too */
	va = pool_memory(&u, PAGE);
	waits_for_word(&far, 0);
	MUST(!copy(&far, 0, HOST(&key), 64, 8, 0));
	assert_int_equal(free_async(&far, 0, va), 0);
	set_word();
	assert_int_equal(sync_ctx(&far), -EIO);
	assert_true(vram_free() == before + PAGE);
}

static void refused(void **state)
{
	struct softgpu_mem_free_async a = { .ctx = u.ctx, .va = idle, .flags = 1 };

	(void)state;
	assert_int_equal(CALL(u.client, SOFTGPU_MEM_FREE_ASYNC, &a), -EINVAL);
	assert_int_equal(free_async(&u, u.ctx, idle), -ENOENT);	/* a handle, but no stream */
	assert_int_equal(free_async(&u, 0, idle + 8), -EFAULT);
	assert_int_equal(free_async(&u, 0, 0), -EFAULT);
	assert_int_equal(free_async(&u, 0, HOST(&word)), -EFAULT);	/* registered host memory */
}

int main(void)
{
#define T(name)	cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(other_contexts), T(unrelated), T(other_dies), T(other_goes), T(pools), T(plain), T(anothers_memory), T(stream_ends), T(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
