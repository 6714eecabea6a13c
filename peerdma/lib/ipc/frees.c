// SPDX-License-Identifier: MIT
/*
 * frees.c - ends exports when their memory is freed.
 *
 * A free is reported before it happens (peerdma_monitor.h), in the thread that frees. freed() then
 * ends each export of that memory by one store that importers see. It takes no lock and allocates
 * nothing. Then the free runs. The event after the free calls recheck_export(): an export of that
 * memory that is still live was made after the free began.
 */
#include <string.h>

#include "../monitor/monitor.h"
#include "ipc.h"
#include "peerdma_monitor.h"

/*
 * Whether a call whose event has no address can free memory of this provider. A context's end frees
 * memory of cuMemAlloc(). Memory of modules cannot be exported. Pools belong to the process, and
 * destroying or trimming a pool leaves its allocations.
 */
static bool may_free(const char *call, uint32_t provider)
{
	static const char *const others[] = { "cuModule", "cuLibrary", "cuMemPool" };

	if (!call)
		return true;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (!strncmp(call, others[i], strlen(others[i])))
			return false;
	}
	if (!strncmp(call, "hsa_", 4))
		return provider == IPC_HSA;
	return provider == IPC_CUDA || strncmp(call, "cu", 2);
}

static void recheck_export(struct ipc *ipc, uint32_t slot, uint64_t generation, uint32_t provider);

/*
 * Ends an export because of a free. The reaper thread closes the descriptor later. False: the
 * export had already ended.
 */
static bool end_freed(struct ipc *ipc, uint32_t slot, uint64_t generation)
{
	if (!ipc_record_end(ipc, slot, generation))
		return false;
	ipc_count(ipc, ended);
	ipc_todo_add(ipc, IPC_REAP, slot);
	return true;
}

static void freed(void *arg, const struct peerdma_hook_event *event)
{
	bool device = arg, all = device && !event->addr && event->length == UINT64_MAX, any = false;
	struct ranges_place place = { 0 };
	struct ipc *ipc = ipc_there();
	uint64_t last = event->addr + event->length - 1;
	uint32_t slot;

	if (event->kind != PEERDMA_HOOK_FREE || !event->length || !ipc ||
	    !__atomic_load_n(&ipc->page, __ATOMIC_ACQUIRE))
		return;
	if (last < event->addr)
		last = UINT64_MAX;
	while ((slot = ranges_next(&ipc->ranges[device], event->addr, last, &place)) !=
	       RANGES_NONE) {
		const struct ipc_record *r = &ipc->records[slot];
		uint64_t generation = ipc_generation(ipc, slot), base, length;
		uint32_t provider = __atomic_load_n(&r->device, __ATOMIC_RELAXED);

		/*
		 * The record may have been reused since ranges_next(). Compare its memory again. If
		 * it is reused after that, its generation differs.
		 */
		if (!(generation & 1) || !!provider != device ||
		    (all && !may_free(event->call, provider)))
			continue;
		base = __atomic_load_n(&r->base, __ATOMIC_RELAXED);
		length = __atomic_load_n(&r->length, __ATOMIC_RELAXED);
		if (!length || base > last || event->addr >= base + length)
			continue;
		if (event->after)
			recheck_export(ipc, slot, generation, provider);
		else
			any |= end_freed(ipc, slot, generation);
	}
	if (any)
		ipc_wake(ipc);
}

int ipc_watch_frees(struct ipc *ipc, bool device)
{
	static int device_arg;
	int ret;

	if (__atomic_load_n(&ipc->watched[device], __ATOMIC_ACQUIRE))
		return device && !device_monitor_complete() ?
		       fail(-EOPNOTSUPP, "libpeerdma-hooks does not see every free any more; see peerdma_hooks_report(), or pass "
			    "PEERDMA_IPC_I_UNEXPORT and end exports yourself") : 0;
	ret = peerdma_monitor_subscribe(device ? PEERDMA_MEMORY_DEVICE : PEERDMA_MEMORY_HOST, freed,
					device ? &device_arg : NULL);
	if (!ret && device && !device_monitor_complete())
		ret = fail(-EOPNOTSUPP, "libpeerdma-hooks does not see every free in this process; see peerdma_hooks_report()");
	if (ret)
		return fail(ret == -ENOMEM ? ret : -EOPNOTSUPP,
			    "nothing reports when the memory is freed (%s); pass "
			    "PEERDMA_IPC_I_UNEXPORT if you call peerdma_ipc_unexport() before you free it",
			    peerdma_last_error());
	__atomic_store_n(&ipc->watched[device], true, __ATOMIC_RELEASE);
	return 0;
}

/*
 * Called after a free. A record that still has the memory was made after the free began. It may
 * describe the freed memory, or a newer allocation at the same address.
 */
static void recheck_export(struct ipc *ipc, uint32_t slot, uint64_t generation, uint32_t provider)
{
	const struct ipc_record *r = &ipc->records[slot];
	struct ipc_offer now = { .fd = -1 };
	uint64_t base = __atomic_load_n(&r->base, __ATOMIC_RELAXED),
		 id = __atomic_load_n(&r->id, __ATOMIC_RELAXED);
	uint32_t was;
	bool gone;

	if (!provider) {
		/*
		 * Host memory cannot be identified inside munmap() or free(): the reaper thread
		 * does it.
		 */
		ipc_todo_add(ipc, IPC_RECHECK, slot);
		ipc_wake(ipc);
		return;
	}
	/* HSA has no buffer ids. So the export ends, even if its memory is newer than the free. */
	was = attempt_begin();
	gone = !id || ipc_cuda.identify((void *)(uintptr_t)base, &now) || now.id != id;
	attempt_end(was, 0);
	if (gone && end_freed(ipc, slot, generation))
		ipc_wake(ipc);
}

void ipc_recheck(struct ipc *ipc)
{
	uint32_t at = ipc_todo_take(ipc, IPC_RECHECK), slot;
	struct ipc_offer was, now;

	while (ipc_todo_next(ipc, IPC_RECHECK, &at, &slot)) {
		struct ipc_record *r = &ipc->records[slot];
		uint64_t generation;
		bool host;

		pthread_mutex_lock(&ipc->lock);
		generation = ipc_generation(ipc, slot);
		was = r->offer;
		/* The record may have been reused since the free, for example for a signal. */
		host = r->what == IPC_MEMORY && !r->device;
		pthread_mutex_unlock(&ipc->lock);
		if (!host || was.borrowed ||
		    (!ipc_host.identify((void *)(uintptr_t)was.base, &now) &&
		     ipc_same_memory(&was, &now)))
			continue;
		end_freed(ipc, slot, generation);
	}
}
