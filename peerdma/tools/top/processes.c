// SPDX-License-Identifier: MIT
/*
 * processes.c - the registration caches of running processes, as `peerdma cache` finds them.
 */
#include <errno.h>
#include <string.h>

#include "../remote_cache.h"
#include "top.h"

static int add(struct top_sample *s, const struct remote_process *r)
{
	struct top_process *p = top_process(s, r->pid, r->comm);

	if (!p)
		return -ENOMEM;
	p->caches = r->caches.count;
	for (size_t i = 0; i < r->caches.count; i++) {
		const struct peerdma_cache_counters *c = &r->caches.caches[i].counters;

		top_count(&p->counts, TOP_GETS, c->gets);
		top_count(&p->counts, TOP_HITS, c->hits);
		top_count(&p->counts, TOP_ENDED, c->invalidations + c->stale);
	}
	return 0;
}

int top_read_caches(const struct tool *tool, struct top_sample *s)
{
	struct remote_processes all;
	int ret;

	/* What is in the memory of processes is not in a captured tree. */
	if (*tool->root)
		return 0;
	ret = remote_processes_read(0, &all);
	if (ret == -ENOMEM)
		return ret;
	if (ret)
		return top_missing(s, "registration caches: /proc: %s", strerror(-ret));
	for (size_t i = 0; !ret && i < all.count; i++)
		ret = add(s, &all.processes[i]);
	if (!ret && all.refused)
		ret = top_missing(s, "registration caches: %zu processes may be looked at only by root or their owner", all.refused);
	if (!ret && all.unread_count)
		ret = top_missing(s, "registration caches: those of %zu processes cannot be read; 'peerdma cache' lists these", all.unread_count);
	remote_processes_free(&all);
	return ret;
}
