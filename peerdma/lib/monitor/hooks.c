// SPDX-License-Identifier: MIT
/*
 * hooks.c - finds libpeerdma-hooks (peerdma_hooks.h) if the process has loaded it before CUDA or
 * HSA. It is not linked: the program preloads it or links it.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "../base/component.h"
#include "../internal.h"
#include "monitor.h"

struct hooks {
	unsigned int (*report)(struct peerdma_hook_report *reports, unsigned int n);
	int (*active)(void);
	int (*subscribe)(peerdma_hook_fn fn, void *arg);
	void (*unsubscribe)(peerdma_hook_fn fn, void *arg);
	const uint64_t *(*making)(void);	/* NULL: an older release */
};

static bool find(struct hooks *h)
{
	h->active = dlsym(RTLD_DEFAULT, "peerdma_hooks_active");
	h->subscribe = dlsym(RTLD_DEFAULT, "peerdma_hooks_subscribe");
	h->unsubscribe = dlsym(RTLD_DEFAULT, "peerdma_hooks_unsubscribe");
	h->report = dlsym(RTLD_DEFAULT, "peerdma_hooks_report");
	h->making = dlsym(RTLD_DEFAULT, "peerdma_hooks_making");
	return h->report && h->active && h->subscribe && h->unsubscribe;
}

enum place { ABSENT, BEHIND, IN_FRONT };

/* Where the hooks are, seen from CUDA and HSA. */
static enum place find_place(struct hooks *h)
{
	return !find(h) ? ABSENT : h->active() ? IN_FRONT : BEHIND;
}

/*
 * The library has one subscription in the process, which is never removed. It forwards events to
 * all its subscribers.
 */
static void forward_event(void *arg, const struct peerdma_hook_event *event)
{
	(void)arg;
	monitor_call(MONITOR_DEVICE, event);
}

int hooks_begin(void)
{
	static _Atomic bool subscribed;
	static char mine;
	struct hooks h;
	int ret;

	if (find_place(&h) != IN_FRONT)
		return 0;
	if (atomic_load(&subscribed))
		return 1;
	ret = h.subscribe(forward_event, &mine);
	if (ret)
		return fail(ret, "libpeerdma-hooks: accepts no subscription: %s; "
			    "run without it, or with the one of this release", strerror(-ret));
	/*
	 * If another thread subscribed first, events arrived twice until here, which does no harm.
	 */
	if (atomic_exchange(&subscribed, true))
		h.unsubscribe(forward_event, &mine);
	return 1;
}

/*
 * Whether the hooks see every call that they watch. Otherwise *missed is the first that they miss,
 * or NULL if there is nothing to see.
 */
static bool see_all(const char **missed)
{
	struct peerdma_hook_report reports[PEERDMA_HOOKS_MAX];
	unsigned int n, seen = 0;
	struct hooks h;

	*missed = NULL;
	n = find(&h) ? h.report(reports, PEERDMA_HOOKS_MAX) : 0;
	if (n > PEERDMA_HOOKS_MAX)
		return false;
	for (unsigned int i = 0; i < n; i++) {
		if (reports[i].missed & PEERDMA_HOOK_ABSENT)
			continue;
		if (reports[i].missed) {
			*missed = reports[i].call;
			return false;
		}
		seen += !!reports[i].ways;
	}
	return seen;
}

bool hooks_see_all(void)
{
	const char *missed;

	return see_all(&missed);
}

/*
 * Checks again after each dlopen(), because the new library may have been loaded before the hooks
 * in symbol order.
 */
bool hooks_complete(uint64_t loads)
{
	/* number of loaded libraries at the last check; the result in bit 0 */
	static _Atomic uint64_t known;
	uint64_t now = loads << 1, before = atomic_load(&known);

	if (!before || (before & ~1ULL) != now || !now) {
		before = now | hooks_see_all();
		atomic_store(&known, before);
	}
	return before & 1;
}

/* ---- calls that create addresses of CUDA ---- */

struct order {
	uintptr_t hooks, cuda;
	int first;		/* 1: the hooks, 2: CUDA, 0: neither was found yet */
};

static bool is_in(const struct dl_phdr_info *info, uintptr_t p)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && p - info->dlpi_addr - ph->p_vaddr < ph->p_memsz)
			return true;
	}
	return false;
}

static int in_order(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct order *o = arg;

	(void)size;
	o->first = is_in(info, o->hooks) ? 1 : is_in(info, o->cuda) ? 2 : 0;
	return o->first;
}

/*
 * The loader lists libraries in the order of loading. If the hooks were loaded after CUDA, other
 * code may have fetched CUDA's functions before, unseen by the hooks.
 */
static bool came_first(const void *hooks)
{
	struct order o = { .hooks = (uintptr_t)hooks };
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (!library)
		return false;
	o.cuda = (uintptr_t)dlsym(library, "cuInit");
	dlclose(library);
	dl_iterate_phdr(in_order, &o);
	return o.first == 1;
}

const uint64_t *hooks_making(void)
{
	struct hooks h;

	if (!find(&h) || !h.making || !h.active() ||
	    !came_first((const void *)(uintptr_t)h.making) || !hooks_see_all())
		return NULL;
	return h.making();
}

/* ---- what there is ---- */

void hooks_describe(struct components *to)
{
	struct peerdma_component c = component(PEERDMA_COMPONENT_MONITOR, HOOKS_NAME);
	enum place place;
	const char *missed;
	struct hooks h;

	place = find_place(&h);
	if (place != ABSENT)
		component_file(&c, (const void *)(uintptr_t)h.active);
	if (hooks_begin() < 0)
		component_off(&c, peerdma_last_error());
	else if (place == ABSENT)
		component_off(&c, "GPU memory: this process has not loaded libpeerdma-hooks; preload it, or link it before CUDA and HSA");
	else if (place == BEHIND)
		component_off(&c, "GPU memory: it is loaded, but behind CUDA or HSA; preload it, or link it before them");
	else if (see_all(&missed))
		component_why(&c, "GPU memory: reports every free");
	else if (missed)
		component_why(&c, "GPU memory: reports frees, but misses some calls, of %s for example; PEERDMA_HOOKS=report "
			      "prints which", missed);
	else
		component_why(&c, "GPU memory: reports frees once the program has loaded CUDA or HSA");
	components_add(to, &c);
}
