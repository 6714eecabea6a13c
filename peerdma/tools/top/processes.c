// SPDX-License-Identifier: MIT
/*
 * processes.c - the registration caches of running processes, as `peerdma cache` finds them.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

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
	struct remote_process process;
	struct dirent *entry;
	size_t refused = 0;
	uint64_t pid;
	int ret = 0;
	DIR *proc;

	/* What is in the memory of processes is not in a captured tree. */
	if (*tool->root)
		return 0;
	proc = opendir("/proc");
	if (!proc)
		return top_missing(s, "registration caches: /proc: %s", strerror(errno));
	while (!ret && (entry = readdir(proc))) {
		if (!text_u64(entry->d_name, strlen(entry->d_name), &pid) || pid == (uint64_t)getpid())
			continue;
		switch (remote_process_read(pid, 0, &process)) {
		case 0:
			ret = add(s, &process);
			remote_process_free(&process);
			break;
		case -EACCES:
			refused++;
			break;
		case -ENOMEM:
			ret = -ENOMEM;
			break;
		}
	}
	closedir(proc);
	if (!ret && refused)
		ret = top_missing(s, "registration caches: %zu processes may be looked at only by root or their owner", refused);
	return ret;
}
