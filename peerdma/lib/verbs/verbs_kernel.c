// SPDX-License-Identifier: MIT
/*
 * verbs_kernel.c - see verbs_kernel.h.
 *
 * ibv_cmd_reg_dmabuf_mr() has been in libibverbs since rdma-core 34, for providers of the
 * same release. Later releases gave it a last argument, a provider's own attributes, which
 * may be NULL; earlier ones do not look at it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "../base/fork_lock.h"
#include "verbs_kernel.h"

/* struct verbs_mr, as libibverbs and its providers know it. */
struct verbs_mr {
	void *context, *pd, *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
	int type, access;
};

struct made {
	struct verbs_mr mr;	/* first */
	struct made *next;
};

typedef int (*reg_call)(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access,
			struct verbs_mr *mr, void *attributes);
typedef int (*dereg_call)(struct verbs_mr *mr);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct made *all;	/* lock; looked at without it only whether it is empty */

struct ibv_mr *verbs_kernel_reg_dmabuf(void *library, struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				       int fd, int access)
{
	reg_call reg = (reg_call)dlsym(library, "ibv_cmd_reg_dmabuf_mr");
	struct made *made;
	int error;

	if (!reg || !dlsym(library, "ibv_cmd_dereg_mr")) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	made = calloc(1, sizeof(*made));
	if (!made)
		return NULL;
	error = reg(pd, offset, length, iova, fd, access, &made->mr, NULL);
	if (error) {
		free(made);
		/* The kernel's word for a method that the driver does not have. */
		errno = error == EPROTONOSUPPORT ? EOPNOTSUPP : error;
		return NULL;
	}
	/* libibverbs leaves to its caller what a provider would fill in. */
	made->mr.context = *(void **)pd;
	made->mr.pd = pd;
	made->mr.access = access;
	pthread_mutex_lock(&lock);
	made->next = all;
	__atomic_store_n(&all, made, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
	return (struct ibv_mr *)made;
}

static struct made **place(const void *mr)
{
	struct made **at = &all;

	while (*at && *at != mr)
		at = &(*at)->next;
	return at;
}

bool verbs_kernel_dereg(void *library, struct ibv_mr *mr, int *error)
{
	struct made **at, *made;
	dereg_call dereg;

	if (!__atomic_load_n(&all, __ATOMIC_ACQUIRE))
		return false;
	pthread_mutex_lock(&lock);
	made = *place(mr);
	pthread_mutex_unlock(&lock);
	if (!made)
		return false;
	dereg = (dereg_call)dlsym(library, "ibv_cmd_dereg_mr");
	*error = dereg(&made->mr);
	if (*error)
		return true;
	pthread_mutex_lock(&lock);
	at = place(mr);
	__atomic_store_n(at, made->next, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
	free(made);
	return true;
}

/* A forked child deregisters its copies: it has the list as it is between two changes. */
HOLD_OVER_FORK(lock)
