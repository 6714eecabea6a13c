// SPDX-License-Identifier: MIT
/*
 * ucm.c - uses UCX's libucm.so.0 as a source of events of host memory, if the process has loaded
 * it. Names, numbers and types are those of <ucm/api/ucm.h> since UCX 1.5.
 *
 * ucm reports an unmapping before it happens (VM_UNMAPPED), inside malloc() and free(), while it
 * holds its own lock for reading. It reports munmap() again after the call: handlers with a
 * priority above 0 run after it.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "../internal.h"
#include "monitor.h"

#define UCM_MUNMAP	(1 << 1)
#define UCM_VM_UNMAPPED	(1 << 17)
#define BEFORE		(-1000)
#define BEHIND		1000

union ucm_event {
	struct {
		int result;
		void *address;
		size_t size;
	} munmap;
	struct {
		void *address;
		size_t size;
	} unmapped;
};

typedef void (*ucm_callback)(int type, union ucm_event *event, void *arg);

static void notify(uint32_t after, const void *address, size_t size)
{
	const struct peerdma_hook_event event = {
		.kind = PEERDMA_HOOK_FREE,
		.after = after,
		.call = "ucm",
		.addr = (uintptr_t)address,
		.length = size,
	};

	monitor_call(MONITOR_HOST, &event);
}

static void unmapped(int type, union ucm_event *event, void *arg)
{
	(void)type;
	(void)arg;
	notify(0, event->unmapped.address, event->unmapped.size);
}

static void was_unmapped(int type, union ucm_event *event, void *arg)
{
	(void)type;
	(void)arg;
	notify(1, event->munmap.address, event->munmap.size);
}

int ucm_begin(void)
{
	int (*set)(int events, int priority, ucm_callback fn, void *arg);
	void (*unset)(int events, ucm_callback fn, void *arg);
	void *library = dlopen("libucm.so.0", RTLD_LAZY | RTLD_NOLOAD);
	int ret;

	set = library ? dlsym(library, "ucm_set_event_handler") : NULL;
	unset = library ? dlsym(library, "ucm_unset_event_handler") : NULL;
	if (!set || !unset)
		return fail(-ENODEV, "libucm.so.0: this process has not loaded it; load it before the call, or leave host memory to "
			    "libpeerdma's own monitor");
	ret = set(UCM_VM_UNMAPPED, BEFORE, unmapped, NULL);
	if (!ret)
		ret = set(UCM_MUNMAP, BEHIND, was_unmapped, NULL);
	if (ret)
		fail(-EOPNOTSUPP, "libucm.so.0: ucm_set_event_handler() failed: %d; see that UCX_MEM_EVENTS is not 'n'", ret);
	else if (!monitor_try_host())
		return 0;
	unset(UCM_VM_UNMAPPED, unmapped, NULL);
	unset(UCM_MUNMAP, was_unmapped, NULL);
	return -EOPNOTSUPP;
}
