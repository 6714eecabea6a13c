// SPDX-License-Identifier: MIT
/*
 * waits.c - who waits for whom.  One side is in the middle of something and takes
 * its time; the other must not come back before that is over.  No assertion is
 * about time: a slow machine only makes it likelier that a mistake is not seen.
 */
#include "../cases.h"
#include "util.h"

#include <pthread.h>
#include <sched.h>

#include "clients/clients.h"

#define A_WHILE_US	30000

static struct machine m;
static struct user u, sibling;
static int key;

/* Something that takes its time. */
static struct slow {
	int begun, over;
} slow;

static void be_slow(void)
{
	__atomic_store_n(&slow.begun, 1, __ATOMIC_SEQ_CST);
	usleep(A_WHILE_US);
	__atomic_store_n(&slow.over, 1, __ATOMIC_SEQ_CST);
}

static void until_begun(void)
{
	while (!__atomic_load_n(&slow.begun, __ATOMIC_SEQ_CST))
		sched_yield();
}

static bool is_over(void)
{
	return __atomic_load_n(&slow.over, __ATOMIC_SEQ_CST);
}

static int slow_copy(void *cookie, void *local, u64 addr, u64 len, bool to_process)
{
	be_slow();
	return 0;
}

static const struct sg_host_ops slow_host = { .copy = slow_copy };

static int setup(void **state)
{
	slow = (struct slow){ 0 };
	machine_up(&m, 1, 64 * PAGE, 32 * PAGE, 0);
	user_up(&u, &m, 0, &key);
	user_up(&sibling, &m, 0, &key);
	return 0;
}

static int teardown(void **state)
{
	user_down(&u);
	user_down(&sibling);
	machine_down(&m);
	return 0;
}

FIXTURE(setup, teardown)

/* ---- work ---- */

/* A client whose copies to and from the process are slow, with one of them under way. */
static void copying(struct user *w, u64 *va, u32 stream)
{
	w->client->ops = &slow_host;
	assert_int_equal(mem_alloc(w, PAGE, va), 0);
	assert_int_equal(copy(w, stream, PAGE, *va, 64, 0), 0);
	until_begun();
}

CASE(free_for_copies)
{
	u64 va;

	copying(&u, &va, 0);
	assert_int_equal(mem_free(&u, va), 0);
	assert_true(is_over());
}

CASE(destroy_for_copies)
{
	u64 va;

	copying(&u, &va, 0);
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_DESTROY, (&(struct softgpu_handle){ .handle = u.ctx })), 0);
	assert_true(is_over());
}

CASE(close_for_copies)
{
	u64 va;

	copying(&u, &va, 0);
	user_down(&u);
	assert_true(is_over());
}

/* Work on `second` is done after what was queued on `first` before it. */
static void in_order(u32 first, u32 second)
{
	u64 va;

	slow = (struct slow){ 0 };
	copying(&u, &va, first);
	assert_int_equal(fill(&u, second, va + 512, 64, 0, SOFTGPU_OP_SYNC), 0);
	assert_true(is_over());
}

CASE(default_stream)
{
	struct softgpu_stream_create sc = { .ctx = u.ctx };

	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_CREATE, &sc), 0);
	in_order(0, sc.stream);
	in_order(sc.stream, 0);
}

static void *sync_stream(void *arg)
{
	int err = CALL(sibling.client, SOFTGPU_STREAM_SYNC, (&(struct softgpu_stream){ .ctx = u.ctx, .stream = *(u32 *)arg }));

	MUST(err == 0 || err == -ENOENT);
	return NULL;
}

/* A stream that is destroyed while a thread waits for it, and then its context is: it ends once. */
CASE(a_stream_ends_once)
{
	struct softgpu_stream_create sc = { 0 };
	struct softgpu_stream s;
	pthread_t waiter;
	u64 va;
	int i;

	for (i = 0; i < 10; i++) {
		if (i)
			user_up(&u, &m, 0, &key);
		slow = (struct slow){ 0 };
		sc.ctx = u.ctx;
		assert_int_equal(CALL(u.client, SOFTGPU_STREAM_CREATE, &sc), 0);
		s = (struct softgpu_stream){ .ctx = u.ctx, .stream = sc.stream };
		copying(&u, &va, sc.stream);
		MUST(!pthread_create(&waiter, NULL, sync_stream, &sc.stream));
		usleep(A_WHILE_US / 10);
		assert_int_equal(CALL(u.client, SOFTGPU_STREAM_DESTROY, &s), 0);
		user_down(&u);
		pthread_join(waiter, NULL);
		/* Its handle, too, ended once: the tree of handles is whole. */
		assert_int_equal(mem_alloc(&sibling, PAGE, &va), 0);
		assert_int_equal(mem_free(&sibling, va), 0);
	}
}

/* ---- pins ---- */

struct wpin {
	struct sg_pin pin;
	void (*on_callback)(struct wpin *w);
	void (*on_unmap)(struct wpin *w);
	void (*on_free)(struct wpin *w);
	u64 va;
	int callbacks, unmaps, frees;
	bool held;
};

static void callback(struct sg_pin *pin)
{
	struct wpin *w = container_of(pin, struct wpin, pin);

	w->callbacks++;
	if (w->on_callback)
		w->on_callback(w);
}

static void unmap(struct sg_pin *pin)
{
	struct wpin *w = container_of(pin, struct wpin, pin);

	w->unmaps++;
	if (w->on_unmap)
		w->on_unmap(w);
}

static void release(struct sg_pin *pin)
{
	struct wpin *w = container_of(pin, struct wpin, pin);

	w->frees++;
	if (w->on_free)
		w->on_free(w);
}

static const struct sg_pin_ops ops = { callback, unmap, release };

static int get(struct wpin *w, u64 va, bool persistent)
{
	struct sg_pin_who who = { .proc_key = &key };

	return sg_pin_get(m.sg, &w->pin, &ops, &who, va, PAGE, persistent);
}

static void slow_pin(struct wpin *w)
{
	be_slow();
}

static void *put_it(void *arg)
{
	struct wpin *w = arg;

	MUST(!sg_pin_put(m.sg, &w->pin, false));
	return NULL;
}

CASE(free_for_put)
{
	struct wpin w = { .on_unmap = slow_pin };
	pthread_t putter;
	u64 va = mem_new(&u, PAGE);

	assert_int_equal(get(&w, va, false), 0);
	MUST(!pthread_create(&putter, NULL, put_it, &w));
	until_begun();
	assert_int_equal(mem_free(&u, va), 0);
	assert_true(is_over());
	pthread_join(putter, NULL);
	assert_int_equal(w.callbacks, 0);
	assert_int_equal(w.unmaps, 1);
}

static void *destroy_ctx(void *arg)
{
	MUST(!CALL(sibling.client, SOFTGPU_CTX_DESTROY, &(struct softgpu_handle){ .handle = *(u32 *)arg }));
	return NULL;
}

CASE(close_for_destroy)
{
	struct wpin w = { .on_callback = slow_pin };
	pthread_t destroyer;
	u64 va = mem_new(&u, PAGE);

	assert_int_equal(get(&w, va, false), 0);
	MUST(!pthread_create(&destroyer, NULL, destroy_ctx, &u.ctx));
	until_begun();
	user_down(&u);
	assert_true(is_over());
	pthread_join(destroyer, NULL);
}

/* The core's lock can be taken, sooner or later. */
static bool core_is_free(void)
{
	int i;

	for (i = 0; i < 60000; i++) {
		if (!pthread_mutex_trylock(&m.sg->lock.m)) {
			pthread_mutex_unlock(&m.sg->lock.m);
			return true;
		}
		usleep(1000);
	}
	return false;
}

static void not_while_held(struct wpin *w)
{
	MUST(!__atomic_load_n(&w->held, __ATOMIC_SEQ_CST));
	MUST(core_is_free());
}

static void *remove_gpu(void *arg)
{
	sg_gpu_remove(m.sg, 0);
	return NULL;
}

CASE(removal_for_holds)
{
	struct wpin w = { .on_unmap = not_while_held, .held = true };
	pthread_t remover;
	u64 va = mem_new(&u, PAGE);

	assert_int_equal(get(&w, va, true), 0);
	assert_ptr_equal(sg_pin_hold(m.sg, &w.pin), &w.pin);
	MUST(!pthread_create(&remover, NULL, remove_gpu, NULL));
	usleep(A_WHILE_US);
	__atomic_store_n(&w.held, false, __ATOMIC_SEQ_CST);
	sg_pin_unhold(&w.pin);
	pthread_join(remover, NULL);
	assert_int_equal(w.unmaps, 1);
	assert_int_equal(sg_pin_put(m.sg, &w.pin, true), 0);
	assert_int_equal(w.unmaps, 1);
}

/* ---- one that is ending is not taken by another call ---- */

static void get_again(struct wpin *w)
{
	w->on_free = NULL;
	MUST(!get(w, w->va, false));
}

static void *free_it(void *arg)
{
	MUST(!mem_free(&u, *(u64 *)arg));
	return NULL;
}

/* Of this process's main thread, between the word that it is about to wait and its waiting. */
static bool asleep(void)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	file = fopen(path, "r");
	MUST(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
	fclose(file);
	return state == 'S';
}

static int putting;

static void until_put_waits(struct wpin *w)
{
	__atomic_store_n(&slow.begun, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&putting, __ATOMIC_SEQ_CST) || !asleep())
		usleep(100);
}

/* While a put waits for a callback the pin ends, and its storage is the next one's. */
CASE(put_of_an_earlier_pin)
{
	struct wpin w;
	pthread_t freer;
	u64 va;
	int i;

	for (i = 0; i < 10; i++) {
		slow = (struct slow){ 0 };
		putting = 0;
		w = (struct wpin){ .on_callback = until_put_waits, .on_free = get_again };
		assert_int_equal(mem_alloc(&u, PAGE, &va), 0);
		assert_int_equal(mem_alloc(&u, PAGE, &w.va), 0);
		assert_int_equal(get(&w, va, false), 0);
		MUST(!pthread_create(&freer, NULL, free_it, &va));
		until_begun();
		__atomic_store_n(&putting, 1, __ATOMIC_SEQ_CST);
		assert_int_equal(sg_pin_put(m.sg, &w.pin, false), -ENOENT);
		pthread_join(freer, NULL);
		assert_int_equal(sg_pin_put(m.sg, &w.pin, false), 0);
		assert_int_equal(mem_free(&u, w.va), 0);
	}
}

static void revoke_again(struct wpin *w)
{
	MUST(w->callbacks == 1);
	MUST(sg_pin_revoke(m.sg, w->pin.serial) == -ENOENT);
}

CASE(chosen_while_it_ends)
{
	struct wpin w = { .on_callback = revoke_again, .on_unmap = revoke_again };
	u64 va = mem_new(&u, PAGE);

	assert_int_equal(get(&w, va, false), 0);
	assert_int_equal(sg_pin_revoke(m.sg, w.pin.serial), 0);
	assert_int_equal(w.frees, 1);
}

/* An engine looks for a victim, and there is none: one pin is ending, the other persistent. */
static void chaos_looks_for_one(struct wpin *w)
{
	struct sg_chaos chaos = { .revoke_every = 1 };
	struct sg_gpu_stats st;
	struct wpin persistent = { 0 };
	bool due = true;

	MUST(w->callbacks == 1);
	sg_chaos_set(m.sg, &chaos);
	MUST(!get(&persistent, w->va, true));
	while (due) {
		sched_yield();
		sg_mutex_lock(&m.sg->lock);
		due = m.sg->gpus[0]->revoke_due;
		sg_mutex_unlock(&m.sg->lock);
	}
	chaos.revoke_every = 0;
	sg_chaos_set(m.sg, &chaos);
	MUST(!sg_gpu_stats(m.sg, 0, &st) && st.revocations == 1);
	MUST(!sg_pin_put(m.sg, &persistent.pin, true));
}

CASE(chaos_finds_none)
{
	struct wpin w = { .on_callback = chaos_looks_for_one };
	u64 va = mem_new(&u, PAGE);

	assert_int_equal(mem_alloc(&u, PAGE, &w.va), 0);
	assert_int_equal(get(&w, va, false), 0);
	assert_int_equal(mem_free(&u, va), 0);
	assert_int_equal(w.frees, 1);
}

static void alloc_small(struct wpin *w)
{
	MUST(!mem_alloc(&u, 512, &w->va));
}

/* The page of small allocations that is on its way out takes no new ones. */
CASE(dying_slab)
{
	struct wpin w = { .on_callback = alloc_small };
	u64 va = mem_new(&u, 512);

	assert_int_equal(get(&w, va & ~(PAGE - 1), false), 0);
	assert_int_equal(mem_free(&u, va), 0);
	assert_int_equal(w.callbacks, 1);
	assert_int_not_equal(w.va & ~(PAGE - 1), va & ~(PAGE - 1));
	assert_int_equal(mem_free(&u, w.va), 0);
}

MAIN(NULL, NULL)
