// SPDX-License-Identifier: MIT
/*
 * kills.c - a process is killed while it waits for its work: each such wait ends, with
 * nothing half done, and what the process had queued is dropped when its file is closed.
 */
#include "../cases.h"
#include "util.h"

#include <pthread.h>

#include "clients/clients.h"

#define WATCH_MS	60000
/* At a millisecond for each, they would take minutes: no machine is so slow. */
#define MANY		20000
#define SOON_S		10

static struct machine m;
static struct user u, exporter;
static int key, other_key;
static u64 flag, idle, import;
static u32 event;
static char host[4096];

static int setup(void **state)
{
	struct softgpu_event_create ec = { 0 };
	struct softgpu_ipc_export ex = { 0 };
	struct softgpu_ipc_open op = { 0 };

	machine_up(&m, 1, 64 * PAGE, 32 * PAGE, 0);
	user_up(&exporter, &m, 0, &other_key);
	user_up(&u, &m, 0, &key);
	assert_int_equal(mem_alloc(&u, PAGE, &flag), 0);
	assert_int_equal(mem_alloc(&u, PAGE, &idle), 0);
	assert_int_equal(fill(&u, 0, flag, PAGE, 0, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(enlist(&u, SOFTGPU_KIND_REGISTERED, HOST(host), sizeof(host)), 0);
	assert_int_equal(mem_alloc(&exporter, PAGE, &ex.va), 0);
	assert_int_equal(CALL(exporter.client, SOFTGPU_IPC_EXPORT, &ex), 0);
	op.ctx = u.ctx;
	op.id = ex.id;
	memcpy(op.key, ex.key, sizeof(op.key));
	assert_int_equal(CALL(u.client, SOFTGPU_IPC_OPEN, &op), 0);
	import = op.va;
	ec.ctx = u.ctx;
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_CREATE, &ec), 0);
	event = ec.event;
	return 0;
}

static int teardown(void **state)
{
	sg_kill(0);
	user_down(&u);
	user_down(&exporter);
	machine_down(&m);
	return 0;
}

FIXTURE(setup, teardown)

static void watch(void)
{
	struct softgpu_watch w = { .ctx = u.ctx, .va = flag, .result = flag + 64, .expected = 0x01010101,
				   .timeout_ms = WATCH_MS };

	MUST(!CALL(u.client, SOFTGPU_WATCH, &w));
}

/* The same for a stream that waits for a value, which has no end of its own. */
static void wait_value(void)
{
	struct softgpu_value v = { .ctx = u.ctx, .op = SOFTGPU_VALUE_EQ, .va = flag, .value = 0x01010101, .width = 4 };

	MUST(!CALL(u.client, SOFTGPU_VALUE, &v));
}

/* ---- calls that wait ---- */

static int ctx_sync(void)
{
	return CALL(u.client, SOFTGPU_CTX_SYNC, &(struct softgpu_handle){ .handle = u.ctx });
}

static int sync_stream(void)
{
	return CALL(u.client, SOFTGPU_STREAM_SYNC, &(struct softgpu_stream){ .ctx = u.ctx });
}

static int event_sync(void)
{
	struct softgpu_event e = { .event = event };

	return CALL(u.client, SOFTGPU_EVENT_SYNC, &e);
}

static int copy_sync(void)
{
	return copy(&u, 0, idle, HOST(host), sizeof(host), SOFTGPU_OP_SYNC);
}

static int fill_sync(void)
{
	return fill(&u, 0, idle, PAGE, 7, SOFTGPU_OP_SYNC);
}

static int free_memory(void)
{
	return mem_free(&u, idle);
}

static int unregister(void)
{
	return discharge(&u, HOST(host));
}

static int ipc_close(void)
{
	return CALL(u.client, SOFTGPU_IPC_CLOSE, &(struct softgpu_va){ .va = import });
}

/* A function that no stream has come to. */
static int host_func_next(void)
{
	return CALL(u.client, SOFTGPU_HOST_FUNC_NEXT, &(struct softgpu_host_func){ .ctx = u.ctx });
}

struct waiter {
	int (*call)(void);
	u64 self;	/* atomic, as the next */
	int over;
	int err;
};

static void *run_waiter(void *arg)
{
	struct waiter *w = arg;

	__atomic_store_n(&w->self, sg_thread_self(), __ATOMIC_SEQ_CST);
	w->err = w->call();
	__atomic_store_n(&w->over, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* Every waiter wakes up and looks whether it is the one that was killed. */
static void wake_all(void)
{
	struct sg_ctx *ctx;

	sg_mutex_lock(&m.sg->lock);
	sg_list_for_each(ctx, &m.sg->ctxs, struct sg_ctx, in_sg) {
		sg_cond_broadcast(&ctx->done);
		sg_cond_broadcast(&ctx->reached);
	}
	sg_cond_broadcast(&m.sg->ended);
	sg_mutex_unlock(&m.sg->lock);
}

static int killed_in(int (*call)(void))
{
	struct waiter w = { .call = call };
	pthread_t thread;
	time_t end;

	MUST(!pthread_create(&thread, NULL, run_waiter, &w));
	while (!__atomic_load_n(&w.self, __ATOMIC_SEQ_CST))
		usleep(100);
	usleep(5000);
	wake_all();
	usleep(1000);
	/* To be woken is not to be killed. */
	assert_false(__atomic_load_n(&w.over, __ATOMIC_SEQ_CST));
	sg_kill(__atomic_load_n(&w.self, __ATOMIC_SEQ_CST));
	for (end = time(NULL) + SOON_S; !__atomic_load_n(&w.over, __ATOMIC_SEQ_CST) && time(NULL) < end;) {
		wake_all();
		usleep(1000);
	}
	MUST(__atomic_load_n(&w.over, __ATOMIC_SEQ_CST));
	pthread_join(thread, NULL);
	sg_kill(0);
	return w.err;
}

static void every_wait_ends(void (*hold_up)(void))
{
	static int (*const calls[])(void) = {
		ctx_sync, sync_stream, event_sync, copy_sync, fill_sync, free_memory, unregister, ipc_close,
		host_func_next,
	};
	size_t i;

	hold_up();
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_RECORD, (&(struct softgpu_event){ .ctx = u.ctx, .event = event })), 0);
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		assert_int_equal(killed_in(calls[i]), -EINTR);
	/* What was to be freed is there, can be worked on, and is freed by the next who asks. */
	assert_int_equal(query(&u, idle).kind, SOFTGPU_KIND_DEVICE);
	assert_int_equal(query(&u, HOST(host)).kind, SOFTGPU_KIND_REGISTERED);
	assert_int_equal(query(&u, import).kind, SOFTGPU_KIND_IPC);
	dma_write(&m, &u, flag, 0x01010101);
	assert_int_equal(ctx_sync(), 0);
	assert_int_equal(fill_sync(), 0);
	assert_int_equal(free_memory(), 0);
	assert_int_equal(unregister(), 0);
	assert_int_equal(ipc_close(), 0);
}

CASE(for_a_watch)
{
	every_wait_ends(watch);
}

CASE(for_a_value)
{
	every_wait_ends(wait_value);
}

/* A free that waits for another context's work; then it is as if it had not been called. */
CASE(for_another_context)
{
	struct softgpu_ctx_create second = { 0 };
	u32 own = u.ctx;

	MUST(!CALL(u.client, SOFTGPU_CTX_CREATE, &second));
	u.ctx = second.ctx;
	wait_value();
	MUST(!fill(&u, 0, idle, PAGE, 1, 0));
	u.ctx = own;
	assert_int_equal(killed_in(free_memory), -EINTR);
	assert_int_equal(query(&u, idle).kind, SOFTGPU_KIND_DEVICE);
	assert_int_equal(fill_sync(), 0);
	dma_write(&m, &u, flag, 0x01010101);
	assert_int_equal(free_memory(), 0);
}

/* What an interrupted free has seen of the other context's streams is not what the next one finds. */
CASE(work_comes_between)
{
	struct softgpu_value v = { .op = SOFTGPU_VALUE_EQ, .va = flag, .value = 0x01010101, .width = 4 };
	struct softgpu_stream_create s = { .flags = SOFTGPU_STREAM_NON_BLOCKING };
	struct softgpu_ctx_create second = { 0 };
	struct softgpu_stream sync = { 0 };
	u32 own = u.ctx;

	MUST(!CALL(u.client, SOFTGPU_CTX_CREATE, &second));
	s.ctx = v.ctx = sync.ctx = second.ctx;
	MUST(!CALL(u.client, SOFTGPU_STREAM_CREATE, &s));
	sync.stream = s.stream;
	v.stream = s.stream;
	MUST(!CALL(u.client, SOFTGPU_VALUE, &v));
	v.stream = 0;
	MUST(!mem_alloc(&u, PAGE, &v.va));
	MUST(!CALL(u.client, SOFTGPU_VALUE, &v));
	u.ctx = second.ctx;
	MUST(!fill(&u, s.stream, idle, PAGE, 1, 0));
	u.ctx = own;
	assert_int_equal(killed_in(free_memory), -EINTR);
	u.ctx = second.ctx;
	MUST(!fill(&u, 0, idle, PAGE, 1, 0));
	u.ctx = own;
	dma_write(&m, &u, flag, 0x01010101);
	MUST(!CALL(u.client, SOFTGPU_STREAM_SYNC, &sync));
	assert_int_equal(killed_in(free_memory), -EINTR);
	dma_write(&m, &u, v.va, 0x01010101);
	assert_int_equal(free_memory(), 0);
}

/* The file is closed: queued work goes, and does not have its turn first. */
static void work_is_dropped(void (*hold_up)(void))
{
	time_t began;
	int i;

	for (i = 0; i < MANY; i++)
		hold_up();
	assert_int_equal(killed_in(ctx_sync), -EINTR);
	began = time(NULL);
	user_down(&u);
	assert_true(time(NULL) - began < SOON_S);
}

CASE(watches_are_dropped)
{
	work_is_dropped(watch);
}

CASE(values_are_dropped)
{
	work_is_dropped(wait_value);
}

MAIN(NULL, NULL)
