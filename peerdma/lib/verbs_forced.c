// SPDX-License-Identifier: MIT
/* verbs_forced.c - see verbs_forced.h. */
#include <sys/mman.h>
#include <unistd.h>

#include "verbs.h"
#include "verbs_forced.h"

bool verbs_forced(struct ibv_mr *(*reg)(struct ibv_pd *pd, void *addr, size_t length, int access),
		  int (*dereg)(struct ibv_mr *mr), struct ibv_pd *pd, int access)
{
	size_t length = (size_t)sysconf(_SC_PAGESIZE);
	struct ibv_mr *mr;
	void *page;

	/* Memory that the MR writes is never pinned by force, and registering on demand pins nothing. */
	if (access & (VERBS_WRITES | VERBS_ON_DEMAND))
		return false;
	page = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (page == MAP_FAILED)
		return false;	/* nor is there memory for the MR */
	mr = reg(pd, page, length, access);
	if (mr)
		dereg(mr);
	munmap(page, length);
	return mr;
}
