// SPDX-License-Identifier: MIT
/* trial.c - tests whether a monitor of host memory reports the calls for a page. */
#include <sys/mman.h>
#include <unistd.h>

#include "../internal.h"
#include "monitor.h"

struct seen {
	uintptr_t page;
	unsigned int events;
};

static void count(void *arg, const struct peerdma_hook_event *event)
{
	struct seen *seen = arg;

	if (event->addr == seen->page && !event->after)
		seen->events++;
}

/* Emulators and tools that translate code may not notice that the code was changed. */
int monitor_try_host(void)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	struct seen seen = { 0, 0 };
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ret;

	if (page == MAP_FAILED)
		return fail(-ENOMEM, "out of memory");
	seen.page = (uintptr_t)page;
	ret = monitor_subscribe(MONITOR_HOST, count, &seen);
	madvise(page, size, MADV_DONTNEED);
	/* fails, because the addresses overlap, but must be seen */
	mremap(page, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, page);
	munmap(page, size);
	if (ret)
		return ret;
	monitor_unsubscribe(MONITOR_HOST, count, &seen);
	return seen.events >= 3 ? 0 :
				  fail(-EOPNOTSUPP, "munmap(), mremap() or madvise() is not seen");
}
