// SPDX-License-Identifier: MIT
/* given.c - see given.h. */
#include <errno.h>
#include <pthread.h>
#include <search.h>

#include "base/fork_lock.h"
#include "given.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *tree;		/* lock: struct given, by address */
static unsigned int count;	/* lock to change; read without: 0 needs no search */

static int compare(const void *a, const void *b)
{
	return (a > b) - (a < b);
}

int given_add(struct given *given)
{
	void *node;

	pthread_mutex_lock(&lock);
	node = tsearch(given, &tree, compare);
	if (node)
		__atomic_store_n(&count, count + 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
	return node ? 0 : -ENOMEM;
}

struct given *given_take(const struct ibv_mr *mr)
{
	struct given **node, *given = NULL;

	if (!__atomic_load_n(&count, __ATOMIC_ACQUIRE))
		return NULL;
	pthread_mutex_lock(&lock);
	node = tfind(mr, &tree, compare);
	if (node) {
		given = *node;
		tdelete(mr, &tree, compare);
		__atomic_store_n(&count, count - 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
	return given;
}

bool given_has(const struct ibv_mr *mr)
{
	bool there;

	if (!__atomic_load_n(&count, __ATOMIC_ACQUIRE))
		return false;
	pthread_mutex_lock(&lock);
	there = tfind(mr, &tree, compare);
	pthread_mutex_unlock(&lock);
	return there;
}

HOLD_OVER_FORK(lock)
