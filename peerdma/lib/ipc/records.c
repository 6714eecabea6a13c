// SPDX-License-Identifier: MIT
/*
 * records.c - what this process shares with its importers, and the records of what it exports.
 *
 * A record is live while its slot in the shared pages is odd. Ending it is one exchange of that
 * word, which any thread may make inside free(); ipc_reap() does the rest.
 */
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../base/memory.h"
#include "../base/order.h"
#include "ipc.h"

int ipc_record_get(struct ipc *ipc, uint32_t *got)
{
	uint8_t key[IPC_KEY];
	uint32_t slot;
	struct ipc_record *r;
	int ret;

	ipc_reap(ipc);
	ret = ipc_random(key, sizeof(key));
	if (ret)
		return ret;
	slot = ipc->free;
	if (slot < IPC_SLOTS)
		ipc->free = ipc->records[slot].next;
	else if (ipc->high < IPC_SLOTS)
		slot = ipc->high;
	else
		return fail(-ENOSPC, "this process has %d exports and signals, the most that it can have; end some", IPC_SLOTS);
	r = &ipc->records[slot];
	memset(&r->what, 0, sizeof(*r) - offsetof(struct ipc_record, what));
	memcpy(r->key, key, sizeof(key));
	r->used = true;
	r->count = 1;
	r->offer.fd = -1;
	r->file = OWN_FD_NONE;
	if (slot == ipc->high)
		ipc->high++;
	*got = slot;
	return 0;
}

void ipc_record_publish(struct ipc *ipc, uint32_t slot)
{
	struct ipc_record *r = &ipc->records[slot];

	ipc_count(ipc, exports);
	r->generation = ipc_generation(ipc, slot) + 1;
	__atomic_store_n(&ipc->page->slot[slot], r->generation, __ATOMIC_SEQ_CST);
}

void ipc_record_name(const struct ipc *ipc, uint32_t slot, struct ipc_name *name)
{
	const struct ipc_record *r = &ipc->records[slot];

	memset(name, 0, sizeof(*name));
	name->what = (uint16_t)r->what;
	name->process = ipc->self;
	memcpy(name->key, r->key, IPC_KEY);
	name->uid = ipc->uid;
	name->pid = (uint32_t)getpid();
	name->slot = slot;
	name->generation = r->generation;
}

bool ipc_record_end(struct ipc *ipc, uint32_t slot, uint64_t generation)
{
	/* Importers see it before what the memory is used for next: the exchange alone is no fence on arm64. */
	if (!(generation & 1) || !ord_replace(&ipc->page->slot[slot], generation, generation + 1))
		return false;
	__atomic_fetch_sub(&ipc->counters.exports, 1, __ATOMIC_RELAXED);
	return true;
}

/*
 * A record is in a list at most once: the thread that sets `waits` adds it.  Another that finds it set may rely on it that what
 * it has done before is seen: `waits` is cleared before the record is looked at.
 */
void ipc_todo_add(struct ipc *ipc, enum ipc_todo what, uint32_t slot)
{
	struct ipc_record *r = &ipc->records[slot];
	uint32_t first = __atomic_load_n(&ipc->todo[what], __ATOMIC_RELAXED);

	if (__atomic_exchange_n(&r->todo[what].waits, 1, __ATOMIC_SEQ_CST))
		return;
	do
		r->todo[what].next = first;
	while (!__atomic_compare_exchange_n(&ipc->todo[what], &first, slot + 1, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
}

void ipc_wake(struct ipc *ipc)
{
	int error = errno;

	__atomic_fetch_add(&ipc->todos, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &ipc->todos, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = error;
}

uint32_t ipc_todo_take(struct ipc *ipc, enum ipc_todo what)
{
	return __atomic_exchange_n(&ipc->todo[what], 0, __ATOMIC_SEQ_CST);
}

bool ipc_todo_next(struct ipc *ipc, enum ipc_todo what, uint32_t *at, uint32_t *slot)
{
	struct ipc_record *r;

	if (!*at)
		return false;
	*slot = *at - 1;
	r = &ipc->records[*slot];
	*at = r->todo[what].next;
	__atomic_exchange_n(&r->todo[what].waits, 0, __ATOMIC_SEQ_CST);
	return true;
}

static void signal_put(struct ipc *ipc, const struct ipc_record *r)
{
	if (r->arena_number < IPC_ARENA_SIGNALS)
		ipc->arena_taken[r->arena_number / 64] &= ~(1ULL << r->arena_number % 64);
	else
		munmap(r->shared, memory_rounded(sizeof(*r->shared)));
}

static void pool_put(struct ipc *ipc, struct ipc_exported_pool *pool)
{
	struct ipc_exported_pool **at;

	if (--pool->records)
		return;
	for (at = &ipc->pools; *at != pool; at = &(*at)->next)
		;
	*at = pool->next;
	free(pool);
}

void ipc_reap_one(struct ipc *ipc, uint32_t slot)
{
	struct ipc_record *r = &ipc->records[slot];

	/* A process that has a signal open may still write to its line. */
	if (!r->used || ipc_generation(ipc, slot) & 1 || r->openers || r->pending)
		return;
	if (r->ranged)
		ranges_remove(&ipc->ranges[!!r->device], slot);
	if (r->pool)
		pool_put(ipc, r->pool);
	if (!r->offer.borrowed)
		own_fd_close(&r->file);
	if (r->shared)
		signal_put(ipc, r);
	__atomic_store_n(&r->length, 0, __ATOMIC_RELAXED);
	r->used = false;
	r->next = ipc->free;
	ipc->free = slot;
}

void ipc_record_left(struct ipc *ipc, uint32_t slot)
{
	ipc->records[slot].openers--;
	ipc_reap_one(ipc, slot);
}

void ipc_reap(struct ipc *ipc)
{
	uint32_t at = ipc_todo_take(ipc, IPC_REAP), slot;

	while (ipc_todo_next(ipc, IPC_REAP, &at, &slot))
		ipc_reap_one(ipc, slot);
}

void ipc_signal_changed(struct ipc_shared_signal *shared)
{
	uint32_t was = __atomic_load_n(&shared->changes, __ATOMIC_RELAXED);

	while (!__atomic_compare_exchange_n(&shared->changes, &was, (was + IPC_CHANGE) & ~IPC_SLEEPS, true, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
	if (was & IPC_SLEEPS)
		syscall(SYS_futex, &shared->changes, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
