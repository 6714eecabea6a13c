// SPDX-License-Identifier: MIT
/*
 * soft.c - the back-end for softgpu's software GPU inside this process. It uses functions exported
 * by softgpu's libcuda (softgpu_inprocess.h), which it finds by dlsym(). No other libcuda has these
 * functions.
 *
 * Pins use aperture, and end when their memory is freed; then their views fault. No device can
 * reach the memory.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "base/component.h"

#define PAGE 65536ULL
#define PIN_PERSISTENT (1U << 0)

struct softgpu {
	int (*pin)(uint64_t va, uint64_t length, unsigned int flags, void (*revoked)(void *arg),
		   void *arg, struct softgpu_pin **pin);
	void (*unpin)(struct softgpu_pin *pin);
	int (*view)(struct softgpu_pin *pin, int writable, void **view);
	int (*view_at)(struct softgpu_pin *pin, int writable, void *view);
	void (*view_end)(struct softgpu_pin *pin, void *view);
};

static _Atomic(const struct softgpu *) published;	/* never changes once it is set */

/*
 * Loads softgpu's libcuda by its place relative to this library: as installed, or in the build
 * folder.
 */
static void *load_beside_us(void)
{
	static const char *const places[] = { "softgpu/libcuda.so.1",
					      "../../softgpu/user/libcuda.so.1" };
	char path[PATH_MAX];
	void *library = NULL;
	const char *end;
	Dl_info us;
	int n;

	if (!dladdr(&published, &us) || !us.dli_fname)
		return NULL;
	end = strrchr(us.dli_fname, '/');
	for (size_t i = 0; end && !library && i < sizeof(places) / sizeof(places[0]); i++) {
		n = snprintf(path, sizeof(path), "%.*s/%s", (int)(end - us.dli_fname), us.dli_fname,
			     places[i]);
		if (n > 0 && (size_t)n < sizeof(path))
			library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return library;
}

/*
 * A program with this back-end in PEERDMA_PROVIDER wants a software GPU. If no libcuda is loaded,
 * loads softgpu's, so that a later dlopen() by name finds it, and its cuInit() works without a
 * driver.
 */
static void prepare(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	void (*begin)(void);

	if (!library)
		library = load_beside_us();
	begin = library ? (void (*)(void))dlsym(library, "softgpu_inprocess_begin") : NULL;
	if (begin)
		begin();
	else if (library)
		dlclose(library);
}

static int soft_open(struct peerdma *ctx)
{
	(void)ctx;
	prepare();
	return 0;	/* libcuda may be loaded later */
}

/* NULL: libcuda is not loaded, or is not softgpu's. softgpu's stays loaded. */
static const struct softgpu *soft_find(void)
{
	const struct softgpu *found = atomic_load_explicit(&published, memory_order_acquire);
	struct softgpu *soft;
	void *library;

	if (found)
		return found;
	library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	if (!library)
		return NULL;
	soft = malloc(sizeof(*soft));
	if (soft) {
		soft->pin = dlsym(library, "softgpu_inprocess_pin");
		soft->unpin = dlsym(library, "softgpu_inprocess_unpin");
		soft->view = dlsym(library, "softgpu_inprocess_view");
		soft->view_end = dlsym(library, "softgpu_inprocess_view_end");
		soft->view_at = dlsym(library, "softgpu_inprocess_view_at");
		if (soft->pin && soft->unpin && soft->view && soft->view_at && soft->view_end &&
		    atomic_compare_exchange_strong(&published, &found, soft))
			return soft;
	}
	free(soft);
	dlclose(library);
	return found;
}

static int soft_ready(void)
{
	return soft_find() ? 0 : fail(-ENODEV, "no software GPU: this process has not loaded softgpu's libcuda.so.1; put softgpu's folder first "
				      "in LD_LIBRARY_PATH");
}

static void soft_describe(struct peerdma *ctx, struct peerdma_component *c)
{
	(void)ctx;
	component_file(c, (const void *)(uintptr_t)soft_find()->pin);
	component_why(c, "softgpu's software GPU is in this process; it has memory once the program has called cuInit()");
}

static void revoked(void *region)
{
	region_revoked(region);
}

static int soft_pin(struct peerdma_region *region)
{
	uint64_t from = region->addr & ~(PAGE - 1);
	unsigned int flags = region->flags & PEERDMA_PERSISTENT ? PIN_PERSISTENT : 0;
	int ret;

	if (region->flags & PEERDMA_HOST)
		return fail(-ENXIO, "has no host memory");
	ret = soft_ready();
	if (ret)
		return ret;
	region->offset = region->addr - from;
	region->page_size = PAGE;
	region->pinned_length = (region->offset + region->length + PAGE - 1) & ~(PAGE - 1);
	region->validity.slot = &region->word;
	region->provider = "softgpu";
	ret = soft_find()->pin(from, region->pinned_length, flags, revoked, region, &region->soft);
	switch (ret) {
	case 0:
		return 0;
	case -ENODEV:
		return fail(ret, "no software GPU in this process: call cuInit(), and see that SOFTGPU_INPROCESS is not 0; a forked child has none");
	case -EINVAL:
		return fail(-ENXIO, "this is not memory of the software GPU, or the range passes the end of its allocation");
	case -EACCES:
		return fail_not_capable(region);
	case -ENOSPC:
		return fail(ret, "the software GPU's aperture (BAR1) is full; SOFTGPU_BAR1_MIB sets its size");
	default:
		return fail(ret, "the software GPU is out of memory");
	}
}

/* Ends the pin's views first. */
static int soft_unpin(struct peerdma_region *region)
{
	views_free(region);
	soft_find()->unpin(region->soft);
	return 0;
}

static int soft_status(struct peerdma_region *region, struct peerdma_status *status)
{
	(void)region;
	status->flags |= PEERDMA_DEVICE;
	return 0;
}

static int view_result(int ret)
{
	switch (ret) {
	case 0:
		return 0;
	case -ESTALE:
		return fail(ret, "peerdma_cpu_view: the pin is revoked, its memory was freed");
	case -EOPNOTSUPP:
		return fail(ret, "peerdma_cpu_view: this system gives no memory that can be mapped twice (memfd_create)");
	default:
		return fail(ret, "peerdma_cpu_view: no address space or memory for it");
	}
}

static int soft_view(struct peerdma_region *region, bool writable, void **base)
{
	return view_result(soft_find()->view(region->soft, writable, base));
}

static int soft_view_at(struct peerdma_region *region, bool writable, void *base)
{
	return view_result(soft_find()->view_at(region->soft, writable, base));
}

static void soft_view_end(struct peerdma_region *region, void *base)
{
	soft_find()->view_end(region->soft, base);
}

const struct backend backend_soft = {
	.name = "soft",
	.direct = true,
	.ends = ENDS_BY_CALLBACK,
	.one_allocation = true,
	.view_is_memory = true,
	.open = soft_open,
	.ready = soft_ready,
	.describe = soft_describe,
	.early = prepare,
	.pin = soft_pin,
	.unpin = soft_unpin,
	.status = soft_status,
	.view = soft_view,
	.view_end = soft_view_end,
	.view_at = soft_view_at,
};
