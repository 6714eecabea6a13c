// SPDX-License-Identifier: MIT
/*
 * fabric.c - libpeerdma's monitor of host memory, for libfabric's registration caches.
 *
 *	LD_PRELOAD=libpeerdma-fabric.so.0 PROGRAM
 *
 * libfabric imports a monitor through its own interface (fi_ext.h, "System memory monitor import
 * extension"), between its initialization, which sets its own, and the first domain. That is
 * when the program calls fi_fabric(). FI_MR_CACHE_MONITOR then has no effect on host memory; GPU
 * memory stays with libfabric's own monitors.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_ext.h>

#include "peerdma.h"
#include "peerdma_monitor.h"

/*
 * Which memory libfabric has asked about, by hash; it never takes a subscription back. Events of
 * other memory must not reach it: they may come from a malloc() inside libfabric
 * that runs under the very lock which its notify() takes.
 */
#define GRANULE_SHIFT	16
#define GRANULES	(1UL << 20)
#define WORD_BITS	(8 * sizeof(unsigned long))

static unsigned long watched[GRANULES / WORD_BITS];	/* atomic */
/* atomic: a range has more granules than the map */
static int everything;

static int start(struct fid_mem_monitor *monitor);
static void stop(struct fid_mem_monitor *monitor);
static int subscribe(struct fid_mem_monitor *monitor, const void *addr, size_t length);
static void unsubscribe(struct fid_mem_monitor *monitor, const void *addr, size_t length);
static bool valid(struct fid_mem_monitor *monitor, const void *addr, size_t length);

static struct fi_ops_mem_monitor ops = {
	.size = sizeof(ops),
	.start = start,
	.stop = stop,
	.subscribe = subscribe,
	.unsubscribe = unsubscribe,
	.valid = valid,
};
static struct fid_mem_monitor ours = { .fid = { .fclass = FI_CLASS_MEM_MONITOR },
				       .export_ops = &ops };

/* The first and the last granule of a range; false: it has as many as the map, or more. */
static bool granules(uint64_t addr, uint64_t length, uint64_t *first, uint64_t *last)
{
	*first = addr >> GRANULE_SHIFT;
	*last = (addr + length - 1) >> GRANULE_SHIFT;
	return *last - *first < GRANULES;
}

static bool is_watched(uint64_t addr, uint64_t length)
{
	uint64_t first, last;

	if (!length)
		return false;
	if (__atomic_load_n(&everything, __ATOMIC_ACQUIRE) ||
	    !granules(addr, length, &first, &last))
		return true;
	for (uint64_t g = first; g <= last; g++) {
		uint64_t i = g % GRANULES;

		if (__atomic_load_n(&watched[i / WORD_BITS], __ATOMIC_ACQUIRE) >> i % WORD_BITS & 1)
			return true;
	}
	return false;
}

static int subscribe(struct fid_mem_monitor *monitor, const void *addr, size_t length)
{
	uint64_t first, last;

	(void)monitor;
	if (!length)
		return 0;
	if (!granules((uintptr_t)addr, length, &first, &last)) {
		__atomic_store_n(&everything, 1, __ATOMIC_RELEASE);
		return 0;
	}
	for (uint64_t g = first; g <= last; g++) {
		uint64_t i = g % GRANULES;

		__atomic_fetch_or(&watched[i / WORD_BITS], 1UL << i % WORD_BITS, __ATOMIC_RELEASE);
	}
	return 0;
}

static void unsubscribe(struct fid_mem_monitor *monitor, const void *addr, size_t length)
{
	/* Others may have subscribed to the same granules */
	(void)monitor, (void)addr, (void)length;
}

/* Every change was notified. */
static bool valid(struct fid_mem_monitor *monitor, const void *addr, size_t length)
{
	(void)monitor, (void)addr, (void)length;
	return true;
}

static void freed(void *arg, const struct peerdma_hook_event *event)
{
	(void)arg;
	if (event->kind == PEERDMA_HOOK_FREE && is_watched(event->addr, event->length))
		ours.import_ops->notify(&ours, (const void *)(uintptr_t)event->addr, event->length);
}

static int start(struct fid_mem_monitor *monitor)
{
	int ret = peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, freed, NULL);

	(void)monitor;
	if (ret)
		fprintf(stderr, "peerdma-fabric: libfabric's caches are off: %s\n",
			peerdma_last_error());
	return ret;
}

static void stop(struct fid_mem_monitor *monitor)
{
	(void)monitor;
	peerdma_monitor_unsubscribe(PEERDMA_MEMORY_HOST, freed, NULL);
}

typedef int (*open_call)(uint32_t version, const char *name, void *attr, size_t attr_len,
			 uint64_t flags, struct fid **fid, void *context);

static void *libfabric;		/* once, as the next */

static void import(void)
{
	open_call open;
	struct fid *cache;
	int ret;

	libfabric = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD);
	open = libfabric ? (open_call)dlsym(libfabric, "fi_open") : NULL;
	if (!open)
		return;
	ret = open(FI_VERSION(1, 13), "mr_cache", NULL, 0, 0, &cache, NULL);
	if (!ret) {
		ret = cache->ops->bind(cache, &ours.fid, 0);
		cache->ops->close(cache);
	}
	if (ret)
		fprintf(stderr, "peerdma-fabric: libfabric keeps its own monitor: %s\n",
			strerror(-ret));
}

/* libfabric's function of that version, with our monitor imported. */
static void *behind(const char *name, const char *version)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, import);
	return libfabric ? dlvsym(libfabric, name, version) : NULL;
}

/* ---- In front of libfabric: each version goes on to the same one, whatever its structs are. ---- */

#define EXPORT __attribute__((visibility("default")))
#define VERSIONED(function, symbol) __asm__(".symver " #function "," symbol)

typedef int (*fabric_call)(void *attr, void *fabric, void *context);
typedef int (*fabric2_call)(void *info, void *fabric, uint64_t flags, void *context);

VERSIONED(fabric_1_0, "fi_fabric@FABRIC_1.0");
EXPORT int fabric_1_0(void *attr, void *fabric, void *context)
{
	fabric_call call = (fabric_call)behind("fi_fabric", "FABRIC_1.0");

	return call ? call(attr, fabric, context) : -ENOSYS;
}

VERSIONED(fabric_1_1, "fi_fabric@@FABRIC_1.1");
EXPORT int fabric_1_1(void *attr, void *fabric, void *context)
{
	fabric_call call = (fabric_call)behind("fi_fabric", "FABRIC_1.1");

	return call ? call(attr, fabric, context) : -ENOSYS;
}

VERSIONED(fabric2_1_8, "fi_fabric2@@FABRIC_1.8");
EXPORT int fabric2_1_8(void *info, void *fabric, uint64_t flags, void *context)
{
	fabric2_call call = (fabric2_call)behind("fi_fabric2", "FABRIC_1.8");

	return call ? call(info, fabric, flags, context) : -ENOSYS;
}
