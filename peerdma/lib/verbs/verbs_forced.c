// SPDX-License-Identifier: MIT
/* verbs_forced.c - see verbs_forced.h. */
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs.h"
#include "verbs_forced.h"

/* There was no room for the trial.  There may be for the next registration. */
static bool no_room(int error)
{
	return error == ENOMEM || error == ENOSPC || error == EDQUOT || error == ENOBUFS || error == EMFILE || error == ENFILE ||
	       error == EAGAIN || error == EINTR;
}

int verbs_forced(struct ibv_mr *(*reg)(struct ibv_pd *pd, void *addr, size_t length, int access), int (*dereg)(struct ibv_mr *mr),
		 struct ibv_pd *pd, int access)
{
	size_t length = (size_t)sysconf(_SC_PAGESIZE);
	struct ibv_mr *mr;
	void *page;
	int error;

	/* Memory that the MR writes is never pinned by force, and registering on demand pins nothing. */
	if (access & (VERBS_WRITES | VERBS_ON_DEMAND))
		return 0;
	page = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (page == MAP_FAILED)
		return -errno;
	errno = 0;
	mr = reg(pd, page, length, access);
	error = errno;
	if (mr)
		dereg(mr);
	munmap(page, length);
	return mr ? 1 : no_room(error) ? -error : 0;
}
