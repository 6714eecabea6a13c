// SPDX-License-Identifier: MIT
/* order_schedule.c - see order_schedule.h. */
#include "base/index.h"
#include "../check.h"
#include "order_schedule.h"
#include "orders.h"
#include "schedule.h"

#undef index_floor
#undef index_remove
#define BUFFER 64

struct entry {
	volatile void *p;	/* NULL: the key `value` is out of the index, which said `number` of it */
	size_t size;
	uint64_t value;
	uint32_t number;
};

static struct {
	struct entry entries[BUFFER];
	int first, count;
	struct sg_mutex mutex;
	struct sg_cond filled;
} buffers[ORDER_THREADS];

static struct sg_mutex lock;		/* there is one cache */
static struct sg_cond settled;
static int acting = -1, drainers;
bool order_broken_fence;
bool order_others = true;
bool order_fence_fails;

int order_self(void)
{
	if (acting >= 0)
		return acting;
	return sched_self() > drainers ? sched_self() - drainers : 0;
}

void order_act_as(int thread)
{
	acting = thread;
}

/* Who has a buffer: not the main thread, unless it acts as one; nothing is reordered then. */
static bool buffered(void)
{
	return acting < 0 && order_self() > 0;
}

static void put_memory(volatile void *p, size_t size, uint64_t value)
{
	if (size == 8)
		*(volatile uint64_t *)p = value;
	else if (size == 4)
		*(volatile uint32_t *)p = (uint32_t)value;
	else
		MUST(!"a size that is stored");
}

static uint64_t get_memory(const volatile void *p, size_t size)
{
	MUST(size == 8 || size == 4);
	return size == 8 ? *(const volatile uint64_t *)p : *(const volatile uint32_t *)p;
}

static void drain_one(int t)
{
	struct entry *e = &buffers[t].entries[buffers[t].first];

	if (e->p)
		put_memory(e->p, e->size, e->value);
	buffers[t].first = (buffers[t].first + 1) % BUFFER;
	buffers[t].count--;
}

static void drain(int t)
{
	while (buffers[t].count)
		drain_one(t);
}

static void drain_own(void)
{
	if (buffered())
		drain(order_self());
}

void order_drainer(void *arg)
{
	int t = (int)(intptr_t)arg;

	for (;;) {
		sched_mutex_lock(&buffers[t].mutex);
		while (!buffers[t].count)
			sched_cond_wait(&buffers[t].filled, &buffers[t].mutex);
		sched_mutex_unlock(&buffers[t].mutex);
		sched_yield_here();
		if (buffers[t].count)
			drain_one(t);
	}
}

void order_reset(int threads)
{
	drainers = threads;
	memset(buffers, 0, sizeof(buffers));
	memset(&lock, 0, sizeof(lock));
	acting = -1;
}

void order_settle(void)
{
	for (int t = 0; t < ORDER_THREADS; t++)
		drain(t);
}

uint64_t order_load(const volatile void *p, size_t size)
{
	sched_yield_here();
	if (buffered()) {
		int t = order_self();

		for (int i = buffers[t].count; i--;) {
			const struct entry *e = &buffers[t].entries[(buffers[t].first + i) % BUFFER];

			if (e->p == p) {
				MUST(e->size == size);
				return e->value;
			}
		}
	}
	return get_memory(p, size);
}

static void buffer(struct entry e)
{
	int t = order_self();

	if (buffers[t].count == BUFFER)
		drain_one(t);
	buffers[t].entries[(buffers[t].first + buffers[t].count) % BUFFER] = e;
	if (!buffers[t].count++)
		sched_cond_broadcast(&buffers[t].filled);
}

/*
 * No other thread sees a store into the thread's own buffer: before it no other thread runs.  Before the thread's next
 * step they are, with all the choices that they had here, and one more: to let the store out.
 */
void order_store(volatile void *p, size_t size, uint64_t value)
{
	if (buffered()) {
		buffer((struct entry){ .p = p, .size = size, .value = value });
		return;
	}
	sched_yield_here();
	put_memory(p, size, value);
}

int order_index_remove(struct index *index, uint64_t key)
{
	struct index_place place = { 0 };
	uint32_t number = index_floor(index, &place, key);

	if (buffered() && number != INDEX_NONE && place.key == key)
		buffer((struct entry){ .value = key, .number = number });
	return index_remove(index, key);
}

/* What another thread has taken out is found until its buffer is empty of that. */
uint32_t order_index_floor(const struct index *index, struct index_place *place, uint64_t x)
{
	uint32_t number = index_floor(index, place, x);

	for (int t = 1; t < ORDER_THREADS && buffered(); t++) {
		for (int i = 0; i < buffers[t].count && t != order_self(); i++) {
			const struct entry *e = &buffers[t].entries[(buffers[t].first + i) % BUFFER];

			if (e->p || e->value > x || (number != INDEX_NONE && e->value <= place->key))
				continue;
			number = e->number;
			place->key = e->value;
		}
	}
	return number;
}

bool order_replace(volatile void *p, size_t size, uint64_t from, uint64_t to)
{
	sched_yield_here();
	drain_own();
	if (get_memory(p, size) != from)
		return false;
	put_memory(p, size, to);
	return true;
}

void order_fence(void)
{
	sched_yield_here();
	drain_own();
}

/* As the kernel does: every thread that runs makes a fence at some time during the call. */
bool ord_fence_others(void)
{
	if (order_fence_fails)
		return false;
	for (int t = 0; t < ORDER_THREADS && !order_broken_fence; t++) {
		sched_yield_here();
		drain(t);
	}
	return true;
}

bool ord_fence_others_works(void)
{
	return order_others;
}

void order_lock(pthread_mutex_t *m)
{
	(void)m;
	if (acting >= 0)
		return;
	sched_mutex_lock(&lock);
	drain_own();
}

void order_unlock(pthread_mutex_t *m)
{
	(void)m;
	if (acting >= 0)
		return;
	drain_own();
	sched_mutex_unlock(&lock);
}

void order_wait(void)
{
	drain_own();
	sched_cond_wait(&settled, &lock);
}

void order_wake_all(void)
{
	sched_cond_broadcast(&settled);
}
