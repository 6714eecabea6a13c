// SPDX-License-Identifier: MIT
/*
 * export.c - the exports of this process.
 *
 * The order of an export: publish() makes the record visible to frees, so a free ends it (frees.c).
 * Then the memory is identified again. Then the handle is returned, if no free has ended the
 * record. If a free began before publish(), the event after that free finds the record.
 */
#include <stdlib.h>
#include <string.h>

#include "ipc.h"

/* Caller holds ipc->lock. Returns the live export of this allocation. IPC_SLOTS: none. */
static uint32_t find(struct ipc *ipc, const struct ipc_offer *offer)
{
	const struct ranges *ranges = &ipc->ranges[offer->provider != IPC_HOST];
	struct ranges_place place = { 0 };
	uint32_t slot;

	while ((slot = ranges_next(ranges, offer->base, offer->base, &place)) != RANGES_NONE) {
		if (ipc_generation(ipc, slot) & 1 &&
		    ipc_same_memory(&ipc->records[slot].offer, offer))
			return slot;
	}
	return IPC_SLOTS;
}

/* Describes the allocation at ptr. *block: it comes from peerdma_ipc_alloc(). */
static int identify(struct ipc *ipc, const void *ptr, struct ipc_offer *offer, bool *block)
{
	uint64_t p = (uintptr_t)ptr;
	bool imported;

	*offer = (struct ipc_offer) { .provider = IPC_HOST, .fd = -1 };
	pthread_mutex_lock(&ipc->lock);
	imported = ipc_imported(ipc, p);
	*block = ipc_block_at(ipc, p, &offer->base, &offer->length);
	pthread_mutex_unlock(&ipc->lock);
	if (imported)
		return fail(-EEXIST, "%p: another process's memory, which this one opened; let its owner export it", ptr);
	return *block ? 0 : ipc_identify(ptr, offer);
}

/* Caller holds ipc->lock. From here on a free ends the record. No other process has its key yet. */
static int publish(struct ipc *ipc, const struct ipc_offer *offer, unsigned int flags,
		   uint32_t *slot)
{
	struct ipc_record *r;
	int ret = ipc_record_get(ipc, slot);

	if (ret)
		return ret;
	r = &ipc->records[*slot];
	r->what = IPC_MEMORY;
	r->flags = flags;
	r->offer = *offer;
	__atomic_store_n(&r->device, offer->provider == IPC_HOST ? 0 : offer->provider,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&r->id, offer->id, __ATOMIC_RELAXED);
	__atomic_store_n(&r->base, offer->base, __ATOMIC_RELAXED);
	__atomic_store_n(&r->length, offer->length, __ATOMIC_RELAXED);
	ranges_insert(&ipc->ranges[offer->provider != IPC_HOST], *slot, offer->base,
		      offer->base + offer->length - 1);
	r->ranged = true;
	ipc_record_publish(ipc, *slot);
	return 0;
}

static void name_of(struct ipc *ipc, uint32_t slot, uint64_t offset, uint64_t length,
		    const struct ipc_id *boot, struct peerdma_ipc_handle *handle)
{
	struct ipc_name name;

	ipc_record_name(ipc, slot, &name);
	name.boot = *boot;
	name.offset = offset;
	name.length = length;
	ipc_handle_make(&name, handle);
}

static int fail_freed(const void *ptr)
{
	return fail(-ENXIO, "%p: the memory was freed meanwhile", ptr);
}

/* Identifies the memory again, now that a free would end the export. 0: it is the same memory. */
static int check_same(struct ipc *ipc, const void *ptr, const struct ipc_offer *was)
{
	struct ipc_offer now;
	bool block;
	int ret = identify(ipc, ptr, &now, &block);

	/* The query failed for lack of resources, which says nothing about the memory. */
	if (ret == -EMFILE || ret == -ENFILE || ret == -ENOMEM || ret == -ENODEV)
		return ret;
	return !ret && !block && ipc_same_memory(&now, was) ? 0 : fail_freed(ptr);
}

/*
 * Caller holds ipc->lock, which peerdma_ipc_free() takes, too: the block cannot be freed meanwhile.
 */
static int export_block(struct ipc *ipc, const void *ptr, struct ipc_offer *offer,
			unsigned int flags, uint32_t *slot)
{
	const struct own_fd *file = ipc_block_file(ipc, offer->base);
	int ret;

	if (!file)
		return fail_freed(ptr);
	if (!own_fd_still(file))
		return fail(-EBADF, "%p: the program has closed the descriptor of this memory, as a daemon does; allocate it after that", ptr);
	offer->fd = file->fd;
	offer->borrowed = true;
	ret = publish(ipc, offer, flags, slot);
	if (!ret)
		ipc->records[*slot].file = *file;
	return ret;
}

/*
 * Caller holds ipc->lock. Finds the pool with CUDA's handle. If no live export uses the handle, the
 * pool gets a new number, because the handle may have belonged to another pool. 0, or -ENOMEM with
 * text.
 */
static int pool_of(struct ipc *ipc, uint64_t handle, struct ipc_exported_pool **pool)
{
	struct ipc_exported_pool *p;

	/* Records that frees have ended must not keep the pool's old number. */
	ipc_reap(ipc);
	for (p = ipc->pools; p && p->pool != handle; p = p->next)
		;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return fail(-ENOMEM, "%s", error_words(-ENOMEM));
		*p = (struct ipc_exported_pool) { .next = ipc->pools, .pool = handle, .number = ++ipc->pool_numbers };
		ipc->pools = p;
	}
	p->records++;
	*pool = p;
	return 0;
}

/* Caller holds ipc->lock; released while the provider is called. */
static int export_new(struct ipc *ipc, const void *ptr, struct ipc_offer *offer, unsigned int flags,
		      uint32_t *slot)
{
	struct ipc_record *r;
	uint64_t generation;
	int ret = publish(ipc, offer, flags, slot);

	if (ret)
		return ret;
	r = &ipc->records[*slot];
	r->pending = true;
	generation = r->generation;
	pthread_mutex_unlock(&ipc->lock);
	ret = check_same(ipc, ptr, offer);
	if (!ret)
		ret = ipc_offer(ptr, offer);
	pthread_mutex_lock(&ipc->lock);
	r->pending = false;
	if (!ret && offer->pool) {
		ret = pool_of(ipc, offer->pool, &r->pool);
		offer->pool_number = ret ? 0 : r->pool->number;
	}
	r->offer = *offer;
	r->file = own_fd(offer->fd);
	pthread_cond_broadcast(&ipc->settled);
	if (!ret && ipc_generation(ipc, *slot) == generation)
		return 0;
	ipc_record_end(ipc, *slot, generation);
	ipc_reap_one(ipc, *slot);
	return ret ? ret : fail_freed(ptr);
}

/* Caller holds ipc->lock; may be released meanwhile. */
static int export_locked(struct ipc *ipc, const void *ptr, struct ipc_offer *offer, bool block,
			 unsigned int flags, uint32_t *slot)
{
	/* Another thread may be exporting the same memory: wait until it succeeds or fails. */
	for (*slot = find(ipc, offer); *slot < IPC_SLOTS && ipc->records[*slot].pending;
	     *slot = find(ipc, offer))
		cancel_safe_wait(&ipc->settled, &ipc->lock);
	if (*slot == IPC_SLOTS)
		return block ? export_block(ipc, ptr, offer, flags, slot) :
			       export_new(ipc, ptr, offer, flags, slot);
	if (ipc->records[*slot].flags != flags)
		return fail(-EINVAL, "flags %#x: the allocation is exported with %#x, and all its exports need the same flags", flags,
			    ipc->records[*slot].flags);
	ipc->records[*slot].count++;
	return 0;
}

static int export(const void *ptr, size_t length, unsigned int flags,
		  struct peerdma_ipc_handle *handle)
{
	struct ipc *ipc = ipc_get();
	struct ipc_offer offer;
	struct ipc_id boot;
	uint64_t offset;
	uint32_t slot;
	bool block;
	int ret;

	ret = ipc ? identify(ipc, ptr, &offer, &block) : -ENOMEM;
	if (ret)
		return ret;
	offset = (uintptr_t)ptr - offer.base;
	if (offset + length > offer.length)
		return fail(-ENXIO, "[%p, +%zu) passes the end of its allocation, [%#llx, +%llu)",
			    ptr, length, (unsigned long long)offer.base,
			    (unsigned long long)offer.length);
	if (!block && !(flags & PEERDMA_IPC_I_UNEXPORT))
		ret = ipc_watch_frees(ipc, offer.provider != IPC_HOST);
	if (!ret)
		ret = ipc_boot(ipc, &boot);
	if (ret)
		return ret;
	offer.any_user = flags & PEERDMA_IPC_ANY_USER;

	pthread_mutex_lock(&ipc->lock);
	ret = ipc_page_open(ipc);
	if (!ret)
		ret = export_locked(ipc, ptr, &offer, block, flags, &slot);
	if (!ret)
		name_of(ipc, slot, offset, length, &boot, handle);
	pthread_mutex_unlock(&ipc->lock);
	return ret;
}

EXPORT int peerdma_ipc_export(const void *ptr, size_t length, unsigned int flags,
			      struct peerdma_ipc_handle *handle)
{
	uint32_t texts;
	int was, ret = check_given("peerdma_ipc_export", "handle", handle, NULL);

	if (ret)
		return ret;
	if (flags & ~(PEERDMA_IPC_ANY_USER | PEERDMA_IPC_I_UNEXPORT) || !length ||
	    (uintptr_t)ptr + length < (uintptr_t)ptr)
		return fail(-EINVAL, "peerdma_ipc_export: %s",
			    !length ? "the length is 0" :
			    flags & ~(PEERDMA_IPC_ANY_USER | PEERDMA_IPC_I_UNEXPORT) ?
				      "unknown flags; set those of peerdma_ipc.h only" :
				      "the range passes the end of addresses");
	was = cancel_off();
	texts = attempt_begin();
	ret = attempt_end(texts, export(ptr, length, flags, handle));
	cancel_back(was);
	return ret ? fail(ret, "peerdma_ipc_export: %s", peerdma_last_error()) : 0;
}

static bool made_by_parent(const struct ipc *ipc, const struct ipc_id *process)
{
	for (; ipc; ipc = ipc->parent) {
		if (ipc->page && !memcmp(&ipc->self, process, sizeof(*process)))
			return true;
	}
	return false;
}

EXPORT int peerdma_ipc_unexport(const struct peerdma_ipc_handle *handle)
{
	struct ipc *ipc;
	struct ipc_name name;
	int ret = check_given("peerdma_ipc_unexport", "handle", handle, NULL), was;

	if (ret)
		return ret;
	ret = ipc_handle_parse(handle, sizeof(*handle), IPC_MEMORY, &name);
	if (ret)
		return fail(ret, "peerdma_ipc_unexport: %s", peerdma_last_error());
	was = cancel_off();
	ipc = ipc_get();
	ret = -EINVAL;
	if (ipc && made_by_parent(ipc->parent, &name.process)) {
		ret = 0;
	} else if (ipc && ipc->page && !memcmp(&ipc->self, &name.process, sizeof(name.process))) {
		pthread_mutex_lock(&ipc->lock);
		if (name.slot < ipc->high && name.generation & 1 &&
		    name.generation <= ipc_generation(ipc, name.slot)) {
			struct ipc_record *r = &ipc->records[name.slot];

			ret = 0;
			if (ipc_generation(ipc, name.slot) == name.generation &&
			    r->what == IPC_MEMORY && !--r->count) {
				ipc_record_end(ipc, name.slot, name.generation);
				ipc_reap_one(ipc, name.slot);
			}
		}
		pthread_mutex_unlock(&ipc->lock);
	}
	cancel_back(was);
	if (ret)
		return fail(ret, "peerdma_ipc_unexport: this process has no export of this handle");
	return 0;
}
