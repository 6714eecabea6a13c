// SPDX-License-Identifier: MIT
/* memory.c - see memory.h. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/fork_lock.h"
#include "memory.h"
#include "peerdma_cache.h"
#include "peerdma_verbs.h"

/* Calls of libibverbs are no points of cancellation, and a thread that ended in one of these would leave the lock locked. */

/* The process's own. A forked child opens another: its parent's is of no use to it. */
static struct peerdma *context;		/* lock */
static struct peerdma_cache *cache;	/* lock */
static pid_t opened_by;			/* lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool memory_cached(void)
{
	const char *asked = getenv("PEERDMA_VERBS_CACHE");

	return asked && *asked && strcmp(asked, "0");
}

bool memory_is_gpu(const void *addr)
{
	struct peerdma_memory memory = { .size = sizeof(memory) };

	return !peerdma_query(NULL, addr, &memory) && memory.kind == PEERDMA_KIND_DEVICE;
}

/* Lock. */
static int open_anew(void)
{
	int ret;

	if (opened_by == getpid())
		return 0;
	ret = peerdma_open(&context, 0);
	if (ret)
		return ret;
	if (memory_cached()) {
		ret = peerdma_cache_open(context, NULL, &cache);
		if (ret) {
			peerdma_close(context);
			return ret;
		}
	}
	opened_by = getpid();
	return 0;
}

static int opened(struct peerdma **ctx, struct peerdma_cache **of)
{
	int was = cancel_off(), ret;

	pthread_mutex_lock(&lock);
	ret = open_anew();
	*ctx = context;
	*of = cache;
	pthread_mutex_unlock(&lock);
	cancel_back(was);
	return ret;
}

/* Also copies what libibverbs has behind an MR: ibv_bind_mw() reads it. */
static struct ibv_mr *give(struct given *given, const struct peerdma_mr *mr, void *addr,
			   size_t length)
{
	memcpy(given, mr->verbs, offsetof(struct given, region));
	given->mr.addr = addr;
	given->mr.length = length;
	return given_add(given) ? NULL : &given->mr;
}

static struct ibv_mr *failed(int ret, struct given *given)
{
	free(given);
	errno = -ret;
	return NULL;
}

/* Finds or makes what the MR is of. */
static int hold(struct given *given, struct peerdma *ctx, void *addr, size_t length)
{
	if (given->cache)
		return peerdma_cache_get(given->cache, addr, length, &given->hold);
	/* Not PEERDMA_READONLY: whatever the access, the kernel's RDMA core maps dma-bufs in both directions. */
	return peerdma_pin(ctx, addr, length, PEERDMA_DEVICE, given, &given->region);
}

struct ibv_mr *memory_reg(struct ibv_pd *pd, void *addr, size_t length, int access, bool cached)
{
	struct given *given = calloc(1, sizeof(*given));
	const struct peerdma_mr *mr;
	struct peerdma *ctx;
	struct ibv_mr *out;
	int ret;

	if (!given)
		return NULL;
	ret = opened(&ctx, &given->cache);
	if (!cached)
		given->cache = NULL;
	if (!ret)
		ret = hold(given, ctx, addr, length);
	if (ret)
		return failed(ret, given);
	ret = given->hold ? peerdma_cache_mr(given->cache, given->hold, pd, access, &mr) :
			    peerdma_verbs_mr(given->region, pd, access, &mr);
	out = ret ? NULL : give(given, mr, addr, length);
	if (out)
		return out;
	memory_dereg(given);
	return failed(ret ? ret : -ENOMEM, given);
}

int memory_dereg(struct given *given)
{
	int ret = 0;

	if (given->hold)
		peerdma_cache_put(given->cache, given->hold);
	else
		ret = peerdma_unpin(given->region);
	return -ret;
}

int memory_leave(struct ibv_pd *pd)
{
	int was = cancel_off(), ret = 0;

	pthread_mutex_lock(&lock);
	if (cache && opened_by == getpid())
		ret = peerdma_verbs_end(context, pd);
	pthread_mutex_unlock(&lock);
	cancel_back(was);
	return -ret;
}

HOLD_OVER_FORK(lock)
