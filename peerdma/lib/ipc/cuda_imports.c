// SPDX-License-Identifier: MIT
/*
 * cuda_imports.c - the pools of other processes that this process has imported.
 *
 * Imported pools belong to the process: they stay when contexts end. The second import of a pool returns the handle of the
 * first one. Each import keeps a descriptor, until cuMemPoolDestroy() was called as often as the pool was imported; these
 * calls fail while memory of the pool is imported. So a pool is imported once for all memory of it.
 *
 * NVIDIA's driver (580) may fail when the last import of a pool is destroyed while other threads copy or synchronize,
 * whatever memory: one of ten busy threads then ends the process by an assertion, or waits forever. With CUDA alone this
 * happens once in 300 to 50,000 destructions, depending on how busy the threads are. It never happened in 835,000 with the
 * other threads idle, nor in 300,000 of imports that were not the last (tests/gpu/pool_destroyed.c). So a pool stays
 * imported when its last memory is unmapped, but not forever: the GPU's memory of the pool stays allocated meanwhile, even
 * if the exporter has destroyed the pool, or has ended.
 *
 * An importer cannot tell by the descriptor alone that it has the pool already, so exporters number their pools. CUDA may
 * give the handle of a destroyed pool to another pool. But exported memory is allocated, which keeps its pool: a pool has
 * its number for as long as an export of it is live, and may have another number later. Then it is imported again, and has
 * the same handle here.
 */
#include <errno.h>
#include <stdlib.h>

#include "cuda.h"
#include "ipc.h"

#define UNUSED_NS	10000000000ULL
#define UNUSED_MOST	16	/* in the process: each has a descriptor */

static struct ipc_pool *find(const struct ipc_exporter *exporter, uint64_t number, const void *handle)
{
	struct ipc_pool *p = exporter->pools;

	while (p && (handle ? p->handle != handle : p->number != number))
		p = p->next;
	return p;
}

CUresult ipc_cuda_pool_get(struct ipc *ipc, struct ipc_exporter *exporter, uint64_t number, int fd, struct ipc_pool **pool)
{
	struct ipc_pool *p = find(exporter, number, NULL), *made = NULL;
	bool import = !p;
	void *handle;
	CUresult r;

	if (import) {
		made = calloc(1, sizeof(*made));
		if (!made)
			return CUDA_ERROR_OUT_OF_MEMORY;
		r = ipc_cuda_api()->pool_from_shareable(&handle, (void *)(intptr_t)fd, CUDA_HANDLE_POSIX_FD, 0);
		if (r) {
			free(made);
			return r;
		}
		p = find(exporter, 0, handle);
	}
	pthread_mutex_lock(&ipc->lock);
	if (p) {
		if (!p->users)
			__atomic_fetch_sub(&ipc->pools_unused, 1, __ATOMIC_RELAXED);
	} else {
		p = made;
		made = NULL;
		p->handle = handle;
		p->next = exporter->pools;
		exporter->pools = p;
		exporter->refs++;
	}
	if (import) {
		p->number = number;
		p->imports++;
	}
	p->users++;
	pthread_mutex_unlock(&ipc->lock);
	free(made);
	*pool = p;
	return 0;
}

void ipc_cuda_pool_put(struct ipc *ipc, struct ipc_pool *pool)
{
	unsigned int left;

	pthread_mutex_lock(&ipc->lock);
	left = --pool->users;
	if (!left) {
		pool->unused_since = now_ns();
		__atomic_fetch_add(&ipc->pools_unused, 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&ipc->lock);
	while (!left && pool->imports > 1 && !ipc_cuda_api()->pool_destroy(pool->handle))
		pool->imports--;
}

/* lock: one that is not to stay imported. */
static struct ipc_pool *due(const struct ipc *ipc, bool all, struct ipc_exporter **of)
{
	struct ipc_pool *oldest = NULL;
	unsigned int unused = 0;
	uint64_t now = 0;

	for (struct ipc_exporter *exporter = ipc->exporters; exporter; exporter = exporter->next) {
		for (struct ipc_pool *p = exporter->pools; p; p = p->next) {
			if (p->users)
				continue;
			if (!now)
				now = now_ns();
			if (all || now - p->unused_since >= UNUSED_NS || ipc_exporter_live(exporter, 0, 0) == -EOWNERDEAD) {
				*of = exporter;
				return p;
			}
			unused++;
			if (!oldest || p->unused_since < oldest->unused_since) {
				oldest = p;
				*of = exporter;
			}
		}
	}
	return unused > UNUSED_MOST ? oldest : NULL;
}

void ipc_cuda_pools_end(struct ipc *ipc, bool all)
{
	struct ipc_exporter *exporter = NULL;
	struct ipc_pool *pool, **at;
	int capture;

	while (__atomic_load_n(&ipc->pools_unused, __ATOMIC_RELAXED) && due(ipc, all, &exporter)) {
		pthread_mutex_unlock(&ipc->lock);
		capture = cuda_capture_leave();
		pthread_mutex_lock(&ipc->pools_lock);
		pthread_mutex_lock(&ipc->lock);
		pool = due(ipc, all, &exporter);	/* another thread may use it again, or have ended it */
		if (pool) {
			for (at = &exporter->pools; *at != pool; at = &(*at)->next)
				;
			*at = pool->next;
			__atomic_fetch_sub(&ipc->pools_unused, 1, __ATOMIC_RELAXED);
		}
		pthread_mutex_unlock(&ipc->lock);
		/* A pool that CUDA does not destroy stays: there is no remedy. */
		for (; pool && pool->imports; pool->imports--)
			ipc_cuda_api()->pool_destroy(pool->handle);
		free(pool);
		pthread_mutex_unlock(&ipc->pools_lock);
		cuda_capture_return(capture);
		pthread_mutex_lock(&ipc->lock);
		if (pool)
			ipc_exporter_put(ipc, exporter, false);
	}
	if (!all)
		return;
	/* Another thread may be at one. */
	pthread_mutex_unlock(&ipc->lock);
	pthread_mutex_lock(&ipc->pools_lock);
	pthread_mutex_unlock(&ipc->pools_lock);
	pthread_mutex_lock(&ipc->lock);
}
