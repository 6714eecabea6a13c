// SPDX-License-Identifier: MIT
/* hostfunc.c - functions that streams call on the CPU: in which order they are handed out, and what ends them. */
#include "world.h"

#include <pthread.h>

static u64 word;

static int setup(void **state)
{
	machine_up(&m, 1, 64 * PAGE, 32 * PAGE, 0);
	user_up(&u, &m, 0, &key);
	word = 0;
	MUST(!enlist(&u, SOFTGPU_KIND_REGISTERED, HOST(&word), sizeof(word)));
	return 0;
}

FIXTURE(setup, teardown)

static int func(u32 stream, u64 id)
{
	struct softgpu_host_func a = { .ctx = u.ctx, .stream = stream, .id = id };

	return CALL(u.client, SOFTGPU_HOST_FUNC, &a);
}

static int next(u64 *id, u32 *error)
{
	struct softgpu_host_func a = { .ctx = u.ctx, .id = ~0ull };
	int err = CALL(u.client, SOFTGPU_HOST_FUNC_NEXT, &a);

	*id = a.id;
	*error = a.error;
	return err;
}

static int done(u64 id)
{
	return CALL(u.client, SOFTGPU_HOST_FUNC_DONE, (&(struct softgpu_host_func){ .ctx = u.ctx, .id = id }));
}

static void waits_for_word(u32 stream)
{
	struct softgpu_value v = {
		.ctx = u.ctx, .stream = stream, .op = SOFTGPU_VALUE_EQ, .va = HOST(&word), .value = 1, .width = 8,
	};

	MUST(!CALL(u.client, SOFTGPU_VALUE, &v));
}

static void set_word(void)
{
	__atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
}

/* The next is this one, and its stream has not faulted. */
static void comes(u64 want)
{
	u32 error;
	u64 id;

	assert_int_equal(next(&id, &error), 0);
	assert_int_equal(id, want);
	assert_int_equal(error, 0);
}

CASE(in_order)
{
	u32 s = stream_new(&u);

	assert_int_equal(func(s, 1), 0);
	assert_int_equal(func(s, 2), 0);
	comes(1);
	assert_int_equal(stream_query(&u, s), -EAGAIN);
	assert_int_equal(done(2), -ENOENT);	/* not handed out yet */
	assert_int_equal(done(1), 0);
	assert_int_equal(done(1), -ENOENT);
	comes(2);
	assert_int_equal(done(2), 0);
	assert_int_equal(stream_sync(&u, s), 0);
}

/* A stream that is not that far holds up no other stream's functions. */
CASE(streams_apart)
{
	u32 s = stream_new(&u), t = stream_new(&u);

	waits_for_word(s);
	assert_int_equal(func(s, 1), 0);
	assert_int_equal(func(t, 2), 0);
	comes(2);
	set_word();
	comes(1);	/* also while the other's runs */
	assert_int_equal(done(1), 0);
	assert_int_equal(stream_sync(&u, s), 0);
	assert_int_equal(stream_query(&u, t), -EAGAIN);
	assert_int_equal(done(2), 0);
	assert_int_equal(stream_sync(&u, t), 0);
}

/* Blocking streams and the default stream wait for one another's functions. */
CASE(default_stream)
{
	u32 s = stream_blocking(&u);

	assert_int_equal(func(s, 1), 0);
	assert_int_equal(func(0, 2), 0);
	assert_int_equal(func(s, 3), 0);
	for (u64 id = 1; id <= 3; id++) {
		comes(id);
		assert_int_equal(done(id), 0);
	}
	assert_int_equal(stream_sync(&u, 0), 0);
}

CASE(refused)
{
	struct softgpu_host_func a = { .ctx = u.ctx, .error = 1 };
	u32 nr[] = { SOFTGPU_HOST_FUNC, SOFTGPU_HOST_FUNC_NEXT, SOFTGPU_HOST_FUNC_DONE };

	for (int i = 0; i < 3; i++) {
		a.size = sizeof(a);
		a.ctx = u.ctx;
		a.error = 1;
		assert_int_equal(sg_call(u.client, _IOC_NR(nr[i]), &a, sizeof(a)), -EINVAL);
		a.error = 0;
		a.ctx = u.ctx + 1000;
		assert_int_equal(sg_call(u.client, _IOC_NR(nr[i]), &a, sizeof(a)), -ENOENT);
	}
	assert_int_equal(func(u.ctx, 1), -ENOENT);	/* a handle, but no stream */
	assert_int_equal(done(0), -ENOENT);
}

/* What the caller could not be told is handed out again, before what came after it. */
CASE(not_delivered)
{
	struct softgpu_host_func a = { .size = sizeof(a), .ctx = u.ctx };
	u32 s = stream_new(&u), t = stream_new(&u);

	assert_int_equal(func(s, 1), 0);
	comes(1);
	assert_int_equal(func(t, 2), 0);
	a.id = 1;
	assert_true(sg_call_answers(_IOC_NR(SOFTGPU_HOST_FUNC_NEXT)));
	sg_call_undo(u.client, _IOC_NR(SOFTGPU_HOST_FUNC_NEXT), &a);
	assert_int_equal(done(1), -ENOENT);
	comes(1);
	comes(2);
	a.ctx = u.ctx + 1000;
	sg_call_undo(u.client, _IOC_NR(SOFTGPU_HOST_FUNC_NEXT), &a);
	assert_int_equal(done(2), 0);
	assert_int_equal(done(1), 0);
}

/* Behind a fault they are handed out as failed, and hold up nothing. */
CASE(after_a_fault)
{
	u32 s = stream_new(&u), t = stream_new(&u), error;
	u64 id, va;

	assert_int_equal(func(t, 1), 0);
	comes(1);		/* it runs when the fault comes */
	assert_int_equal(mem_alloc(&u, PAGE, &va), 0);
	waits_for_word(s);
	assert_int_equal(copy(&u, s, va, 64, 8, 0), 0);	/* host memory that is not there */
	assert_int_equal(func(s, 2), 0);
	assert_int_equal(func(s, 3), 0);
	set_word();
	for (u64 want = 2; want <= 3; want++) {
		assert_int_equal(next(&id, &error), 0);
		assert_int_equal(id, want);
		assert_int_equal(error, EIO);
	}
	assert_int_equal(done(3), 0);
	assert_int_equal(done(1), 0);
	assert_int_equal(func(s, 4), -EIO);
	/* one is still known; it goes with its context */
}

static void destroy_ctx(void)
{
	MUST(!CALL(u.client, SOFTGPU_CTX_DESTROY, &(struct softgpu_handle){ .handle = u.ctx }));
}

static void remove_gpu(void)
{
	sg_gpu_remove(m.sg, 0);
}

static void (*what_ends)(void);

static void *ends_soon(void *arg)
{
	usleep(20000);
	what_ends();
	return arg;
}

/* A thread waits for a function when that ends what it waits in. */
static void ends_while_waiting(void (*ends)(void), int want)
{
	pthread_t thread;
	u32 error;
	u64 id;

	what_ends = ends;
	MUST(!pthread_create(&thread, NULL, ends_soon, NULL));
	assert_int_equal(next(&id, &error), want);
	pthread_join(thread, NULL);
}

/* With the context go its calls: run, reached, queued; and who waits for one learns it. */
CASE(context_ends)
{
	u32 s = stream_new(&u), t = stream_new(&u), error;
	u64 id;

	assert_int_equal(func(s, 1), 0);
	comes(1);
	assert_int_equal(func(s, 2), 0);
	assert_int_equal(func(t, 3), 0);
	comes(3);
	assert_int_equal(func(t, 4), 0);
	ends_while_waiting(destroy_ctx, -ENOENT);
	assert_int_equal(done(1), -ENOENT);
	assert_int_equal(next(&id, &error), -ENOENT);
	u.ctx = 0;
}

CASE(gpu_goes)
{
	u32 s = stream_new(&u);

	assert_int_equal(func(s, 1), 0);
	comes(1);
	assert_int_equal(func(s, 2), 0);
	ends_while_waiting(remove_gpu, -ENODEV);
	assert_int_equal(done(1), -ENODEV);
}

/* A client that closes its file leaves nothing, whatever it was about. */
CASE(client_goes)
{
	u32 s = stream_new(&u);

	assert_int_equal(func(s, 1), 0);
	comes(1);
	assert_int_equal(func(s, 2), 0);
	assert_int_equal(func(0, 3), 0);
	user_down(&u);
	assert_int_equal(stats_of(&m, 0).objects, 0);
}

/* More than a program can run at once are not handed out. */
CASE(too_many)
{
	u32 s = stream_new(&u), error;
	u64 id, va = mem_new(&u, PAGE);

	waits_for_word(s);
	assert_int_equal(copy(&u, s, va, 64, 8, 0), 0);
	/* behind a fault no function holds up the next */
	for (u64 i = 0; i < SOFTGPU_MAX_FUNCS + 2; i++)
		assert_int_equal(func(s, i), 0);
	set_word();
	for (u64 i = 0; i < SOFTGPU_MAX_FUNCS; i++)
		assert_int_equal(next(&id, &error), 0);
	assert_int_equal(next(&id, &error), -EBUSY);
	assert_int_equal(done(7), 0);
	assert_int_equal(next(&id, &error), 0);
	assert_int_equal(id, SOFTGPU_MAX_FUNCS);
	assert_int_equal(next(&id, &error), -EBUSY);
}

/* Strict mode: a function may be what others wait for, so what was held back before it goes. */
CASE(strict)
{
	u32 s = stream_new(&u);
	u64 va;

	CHAOS(&m, .strict = true);
	assert_int_equal(mem_alloc(&u, PAGE, &va), 0);
	assert_int_equal(fill(&u, s, va, PAGE, 5, 0), 0);
	assert_int_equal(func(s, 1), 0);
	comes(1);
	assert_int_equal(done(1), 0);
	assert_int_equal(stream_sync(&u, s), 0);
}

MAIN(NULL, NULL)
