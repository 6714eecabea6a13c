// SPDX-License-Identifier: MIT
/* outside.c - monitors and subscribers of other libraries: peerdma_monitor.h. */
#include "../base/component.h"
#include "../internal.h"
#include "monitor.h"
#include "peerdma_monitor.h"

static bool known(uint32_t memory)
{
	return memory == PEERDMA_MEMORY_HOST || memory == PEERDMA_MEMORY_DEVICE;
}

static enum monitor_memory kind_of(uint32_t memory)
{
	return memory == PEERDMA_MEMORY_HOST ? MONITOR_HOST : MONITOR_DEVICE;
}

bool device_monitor_complete(void)
{
	return monitor_outside(MONITOR_DEVICE) || hooks_complete(loader_loads());
}

EXPORT int peerdma_monitor_start(uint32_t memory, const char *name)
{
	const char *is;

	if (!known(memory) || !name)
		return fail(-EINVAL, "peerdma_monitor_start: memory 0x%x, name %s: give PEERDMA_MEMORY_HOST or PEERDMA_MEMORY_DEVICE, and a name",
			    memory, name ? name : "NULL");
	is = monitor_outside_start(kind_of(memory), name);
	if (is)
		return fail(-EBUSY, "peerdma_monitor_start: %s: '%s' already monitors this kind of memory; start only one monitor",
			    name, is);
	return 0;
}

static int start_ucm(void)
{
	const char *is = monitor_outside(MONITOR_HOST);
	int ret;

	/*
	 * Check before ucm_begin(). ucm identifies handlers by their function, so undoing a second
	 * start would also remove the handlers of the first.
	 */
	if (is)
		return fail(-EBUSY, "peerdma_monitor_start_ucm: '%s' already monitors host memory; start only one monitor", is);
	ret = ucm_begin();
	return ret ? fail(ret, "peerdma_monitor_start_ucm: %s", peerdma_last_error()) :
		     peerdma_monitor_start(PEERDMA_MEMORY_HOST, "ucm");
}

EXPORT int peerdma_monitor_start_ucm(void)
{
	static bool starting;
	int ret;

	if (__atomic_exchange_n(&starting, true, __ATOMIC_ACQUIRE))
		return fail(-EBUSY, "peerdma_monitor_start_ucm: another thread is starting it; start only one monitor");
	ret = start_ucm();
	__atomic_store_n(&starting, false, __ATOMIC_RELEASE);
	return ret;
}

EXPORT void peerdma_monitor_notify(uint32_t memory, const void *ptr, size_t length, int after)
{
	const struct peerdma_hook_event event = {
		.kind = PEERDMA_HOOK_FREE,
		.after = !!after,
		.addr = (uintptr_t)ptr,
		.length = length,
		.call = "peerdma_monitor_notify",
	};

	if (!length)
		return;
	monitor_call(MONITOR_OUTSIDE, &event);
	if (memory & PEERDMA_MEMORY_HOST)
		monitor_call(MONITOR_HOST, &event);
	if (memory & PEERDMA_MEMORY_DEVICE)
		monitor_call(MONITOR_DEVICE, &event);
}

static int begin(uint32_t memory)
{
	int ret;

	if (memory == PEERDMA_MEMORY_HOST) {
		ret = host_monitor_begin();
		if (ret)
			return fail(ret, "%s; start a monitor of another library with peerdma_monitor_start()",
				    peerdma_last_error());
		return 0;
	}
	if (monitor_outside(MONITOR_DEVICE))
		return 0;
	ret = hooks_begin();
	if (ret)
		return ret < 0 ? ret : 0;
	return fail(-EOPNOTSUPP, "GPU memory is not monitored: libpeerdma-hooks is not in front of CUDA or HSA; preload it, or link "
		    "it before them");
}

EXPORT int peerdma_monitor_subscribe(uint32_t memory, peerdma_hook_fn fn, void *arg)
{
	int ret;

	if (!known(memory) || !fn)
		return fail(-EINVAL, "peerdma_monitor_subscribe: memory 0x%x%s: give PEERDMA_MEMORY_HOST or PEERDMA_MEMORY_DEVICE, and a function",
			    memory, fn ? "" : ", fn NULL");
	ret = begin(memory);
	if (!ret)
		ret = monitor_subscribe(kind_of(memory), fn, arg);
	return ret ? fail(ret, "peerdma_monitor_subscribe: %s", peerdma_last_error()) : 0;
}

EXPORT void peerdma_monitor_unsubscribe(uint32_t memory, peerdma_hook_fn fn, void *arg)
{
	if (known(memory) && fn)
		monitor_unsubscribe(kind_of(memory), fn, arg);
}

EXPORT const char *peerdma_monitor_name(uint32_t memory)
{
	const char *name;
	uint32_t was;

	if (memory == PEERDMA_MEMORY_HOST)
		return host_monitor_name();
	if (memory != PEERDMA_MEMORY_DEVICE)
		return NULL;
	was = attempt_begin();
	name = monitor_outside(MONITOR_DEVICE) ? monitor_outside(MONITOR_DEVICE) :
		hooks_begin() > 0 ? HOOKS_NAME : NULL;
	attempt_end(was, 0);
	return name;
}

/* Monitors of other libraries. */
static void describe(enum monitor_memory kind, const char *memory, struct components *to)
{
	const char *is = monitor_outside(kind);
	struct peerdma_component c;

	if (!is)
		return;
	c = component(PEERDMA_COMPONENT_MONITOR, is);
	component_why(&c, "%s: another library's, started by peerdma_monitor_start()", memory);
	components_add(to, &c);
}

void monitors_describe(struct components *to)
{
	hooks_describe(to);
	host_describe(to);
	describe(MONITOR_DEVICE, "GPU memory", to);
	describe(MONITOR_HOST, "host memory", to);
}
