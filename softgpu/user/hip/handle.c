// SPDX-License-Identifier: MIT
/* handle.c - see hip_int.h. A handle is the address of its struct; a tree has those that exist. */
#include <search.h>

#include "hip_int.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *handles;	/* a tree (tsearch) */

static int compare(const void *a, const void *b)
{
	return (uintptr_t)a < (uintptr_t)b ? -1 : a != b;
}

bool hip_handle_add(struct hip_handle *handle, enum hip_handle_kind kind)
{
	void *node;

	handle->kind = kind;
	handle->refs = 1;
	pthread_mutex_lock(&lock);
	node = tsearch(handle, &handles, compare);
	pthread_mutex_unlock(&lock);
	return node;
}

/* Caller holds the lock. */
static struct hip_handle *find(const void *ptr, enum hip_handle_kind kind)
{
	struct hip_handle **node = tfind(ptr, &handles, compare);

	return node && (*node)->kind == kind ? *node : NULL;
}

void *hip_handle_get(const void *ptr, enum hip_handle_kind kind)
{
	struct hip_handle *handle;

	pthread_mutex_lock(&lock);
	handle = find(ptr, kind);
	if (handle)
		handle->refs++;
	pthread_mutex_unlock(&lock);
	return handle;
}

bool hip_handle_take(const void *ptr, enum hip_handle_kind kind)
{
	struct hip_handle *handle;

	pthread_mutex_lock(&lock);
	handle = find(ptr, kind);
	if (handle)
		tdelete(handle, &handles, compare);
	pthread_mutex_unlock(&lock);
	return handle;
}

bool hip_handle_put(struct hip_handle *handle)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = !--handle->refs;
	pthread_mutex_unlock(&lock);
	return last;
}
