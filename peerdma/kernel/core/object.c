// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * object.c - the list of objects made from a pin, their orderly teardown, and the IOMMU
 * flush.
 *
 * By default Linux unmaps lazily: the IOMMU's TLB drops an address some milliseconds after
 * the DMA API has unmapped it.  Until then the device can still reach memory that its owner
 * may have given to someone else.  So every function that takes addresses away flushes
 * before it returns: at once for one mapping, or once for each IOMMU domain for all
 * mappings of a pin that ends.
 */
#include <linux/device.h>
#include <linux/iommu.h>

#include "compat.h"
#include "object.h"
#include "path.h"
#include "pin_table.h"

/* ---- one ---- */

static void object_free(struct kref *ref)
{
	struct peerdma_object *object = container_of(ref, struct peerdma_object, ref);
	struct peerdma_pin *pin = object->pin;

	peerdma_uncharge(object->account, object->ops->charge);
	object->ops->free(object);
	peerdma_pin_put(pin);
}

void peerdma_object_put(struct peerdma_object *object)
{
	kref_put(&object->ref, object_free);
}

int peerdma_object_enter(struct peerdma_object *object, struct peerdma_pin *pin,
			 const struct peerdma_object_ops *ops, struct peerdma_account *account)
{
	int err;

	lockdep_assert_held(&pin->lock);
	err = peerdma_charge(account, ops->charge);
	if (err)
		return err;
	object->account = account;
	kref_get(&pin->ref);
	object->pin = pin;
	object->ops = ops;
	object->stale = NULL;
	INIT_LIST_HEAD(&object->tables);
	object->pass = 0;
	object->gone = false;
	kref_init(&object->ref);
	list_add_tail(&object->node, &pin->objects);
	return 0;
}

/* ---- the IOMMU forgets ---- */

void peerdma_object_stale(struct peerdma_object *object, struct device *dev)
{
	lockdep_assert_held(&object->pin->lock);
	if (!object->stale && peerdma_translated(dev))
		object->stale = get_device(dev);
}

static void forget_stale(struct peerdma_object *object)
{
	put_device(object->stale);
	object->stale = NULL;
}

/* Frees page tables that the IOMMU has forgotten, which only its driver can do. */
static void free_tables(struct iommu_domain *domain, struct iommu_iotlb_gather *gather)
{
	if (list_empty(peerdma_freelist(gather)))
		return;
	/* The driver also flushes a range, which must not be empty. */
	gather->start = 0;
	gather->end = PAGE_SIZE - 1;
	gather->pgsize = PAGE_SIZE;
	iommu_iotlb_sync(domain, gather);
}

/*
 * Flushes the domain of this object's device, and marks this and all later objects of the
 * same domain as flushed.
 */
static void flush_from(struct peerdma_pin *pin, struct peerdma_object *object)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(object->stale);
	struct iommu_iotlb_gather gather;

	iommu_iotlb_gather_init(&gather);
	list_for_each_entry_from(object, &pin->objects, node) {
		if (object->stale && iommu_get_domain_for_dev(object->stale) == domain) {
			list_splice_init(&object->tables, peerdma_freelist(&gather));
			forget_stale(object);
		}
	}
	/* No domain: the device was removed, and its domain with it. */
	if (domain && domain->type & __IOMMU_DOMAIN_PAGING) {
		iommu_flush_iotlb_all(domain);
		free_tables(domain, &gather);
		atomic64_inc(&peerdma_stats.flushes);
	}
}

static void flush_all(struct peerdma_pin *pin)
{
	struct peerdma_object *object;

	list_for_each_entry(object, &pin->objects, node)
		if (object->stale)
			flush_from(pin, object);
}

/* ---- an end ---- */

static void let_go(struct peerdma_object *object)
{
	if (object->ops->let_go)
		object->ops->let_go(object);
	else if (object->ops->down)
		object->ops->down(object);
}

void peerdma_object_down(struct peerdma_object *object)
{
	lockdep_assert_held(&object->pin->lock);
	object->ops->down(object);
	if (object->stale)
		flush_from(object->pin, object);
}

void peerdma_object_let_go(struct peerdma_object *object)
{
	lockdep_assert_held(&object->pin->lock);
	let_go(object);
	if (object->stale)
		flush_from(object->pin, object);
}

static void unlink(struct peerdma_object *object)
{
	list_del_init(&object->node);
	peerdma_object_put(object);
}

void peerdma_object_end(struct peerdma_object *object)
{
	struct peerdma_pin *pin = object->pin;

	lockdep_assert_held(&pin->lock);
	let_go(object);
	/* While the pin ends, one flush at the end serves all its objects. */
	if (object->stale && !pin->down && pin->state != PIN_LIVE) {
		object->gone = true;
		return;
	}
	if (object->stale)
		flush_from(pin, object);
	unlink(object);
}

/* ---- the end of all ---- */

/*
 * Returns the next object of this pass that has `stop', with a reference; drops the
 * reference to prev, the one before.
 */
static struct peerdma_object *next(struct peerdma_pin *pin, struct peerdma_object *prev, u32 pass)
{
	struct peerdma_object *object;

	mutex_lock(&pin->lock);
	/* Start from the beginning if prev has left the list. */
	object = prev && !list_empty(&prev->node) ? prev :
		list_entry(&pin->objects, struct peerdma_object, node);
	list_for_each_entry_continue(object, &pin->objects, node) {
		if (!object->ops->stop || object->pass == pass)
			continue;
		object->pass = pass;
		kref_get(&object->ref);
		goto unlock;
	}
	object = NULL;
unlock:
	mutex_unlock(&pin->lock);
	if (prev)
		peerdma_object_put(prev);
	return object;
}

/*
 * Only one thread at a time is here: the one that moves the pin out of LIVE, or later a
 * revoker that has waited for that thread (wait_down()).  There is at most one revoker.
 */
void peerdma_object_stop_all(struct peerdma_pin *pin, bool taken)
{
	struct peerdma_object *object = NULL;
	u32 pass = ++pin->pass;

	while ((object = next(pin, object, pass)))
		object->ops->stop(object);
	pass = ++pin->pass;
	while ((object = next(pin, object, pass)))
		if (object->ops->settle)
			object->ops->settle(object, taken);
}

void peerdma_object_down_all(struct peerdma_pin *pin)
{
	struct peerdma_object *object, *following;

	lockdep_assert_held(&pin->lock);
	list_for_each_entry(object, &pin->objects, node)
		if (object->ops->down && !object->gone)
			object->ops->down(object);
	flush_all(pin);
	list_for_each_entry_safe(object, following, &pin->objects, node)
		if (object->gone)
			unlink(object);
}
