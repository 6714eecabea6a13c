// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * made.c - the list of objects made from a pin, their orderly teardown, and the IOMMU
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
#include "made.h"
#include "path.h"

/* ---- one ---- */

static void made_free(struct kref *ref)
{
	struct peerdma_made *made = container_of(ref, struct peerdma_made, ref);
	struct peerdma_pin *pin = made->pin;

	peerdma_uncharge(made->account, made->ops->charge);
	made->ops->free(made);
	peerdma_pin_put(pin);
}

void peerdma_made_put(struct peerdma_made *made)
{
	kref_put(&made->ref, made_free);
}

int peerdma_made_enter(struct peerdma_made *made, struct peerdma_pin *pin,
		       const struct peerdma_made_ops *ops, struct peerdma_account *account)
{
	int err;

	lockdep_assert_held(&pin->lock);
	err = peerdma_charge(account, ops->charge);
	if (err)
		return err;
	made->account = account;
	kref_get(&pin->ref);
	made->pin = pin;
	made->ops = ops;
	made->stale = NULL;
	INIT_LIST_HEAD(&made->tables);
	made->pass = 0;
	made->gone = false;
	kref_init(&made->ref);
	list_add_tail(&made->node, &pin->made);
	return 0;
}

/* ---- the IOMMU forgets ---- */

void peerdma_made_stale(struct peerdma_made *made, struct device *dev)
{
	lockdep_assert_held(&made->pin->lock);
	if (!made->stale && peerdma_translated(dev))
		made->stale = get_device(dev);
}

static void forget_stale(struct peerdma_made *made)
{
	put_device(made->stale);
	made->stale = NULL;
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
static void flush_from(struct peerdma_pin *pin, struct peerdma_made *made)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(made->stale);
	struct iommu_iotlb_gather gather;

	iommu_iotlb_gather_init(&gather);
	list_for_each_entry_from(made, &pin->made, node) {
		if (made->stale && iommu_get_domain_for_dev(made->stale) == domain) {
			list_splice_init(&made->tables, peerdma_freelist(&gather));
			forget_stale(made);
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
	struct peerdma_made *made;

	list_for_each_entry(made, &pin->made, node)
		if (made->stale)
			flush_from(pin, made);
}

/* ---- an end ---- */

static void let_go(struct peerdma_made *made)
{
	if (made->ops->let_go)
		made->ops->let_go(made);
	else if (made->ops->down)
		made->ops->down(made);
}

void peerdma_made_down(struct peerdma_made *made)
{
	lockdep_assert_held(&made->pin->lock);
	made->ops->down(made);
	if (made->stale)
		flush_from(made->pin, made);
}

void peerdma_made_let_go(struct peerdma_made *made)
{
	lockdep_assert_held(&made->pin->lock);
	let_go(made);
	if (made->stale)
		flush_from(made->pin, made);
}

static void unlink(struct peerdma_made *made)
{
	list_del_init(&made->node);
	peerdma_made_put(made);
}

void peerdma_made_end(struct peerdma_made *made)
{
	struct peerdma_pin *pin = made->pin;

	lockdep_assert_held(&pin->lock);
	let_go(made);
	/* While the pin ends, one flush at the end serves all its objects. */
	if (made->stale && !pin->down && pin->state != PIN_LIVE) {
		made->gone = true;
		return;
	}
	if (made->stale)
		flush_from(pin, made);
	unlink(made);
}

/* ---- the end of all ---- */

/*
 * Returns the next object of this pass that has `stop', with a reference; drops the
 * reference to prev, the one before.
 */
static struct peerdma_made *next(struct peerdma_pin *pin, struct peerdma_made *prev, u32 pass)
{
	struct peerdma_made *made;

	mutex_lock(&pin->lock);
	/* Start from the beginning if prev has left the list. */
	made = prev && !list_empty(&prev->node) ? prev :
		list_entry(&pin->made, struct peerdma_made, node);
	list_for_each_entry_continue(made, &pin->made, node) {
		if (!made->ops->stop || made->pass == pass)
			continue;
		made->pass = pass;
		kref_get(&made->ref);
		goto unlock;
	}
	made = NULL;
unlock:
	mutex_unlock(&pin->lock);
	if (prev)
		peerdma_made_put(prev);
	return made;
}

/*
 * Only one thread at a time is here: the one that moves the pin out of LIVE, or later a
 * revoker that has waited for that thread (wait_down()).  There is at most one revoker.
 */
void peerdma_made_stop_all(struct peerdma_pin *pin, bool taken)
{
	struct peerdma_made *made = NULL;
	u32 pass = ++pin->pass;

	while ((made = next(pin, made, pass)))
		made->ops->stop(made);
	pass = ++pin->pass;
	while ((made = next(pin, made, pass)))
		if (made->ops->settle)
			made->ops->settle(made, taken);
}

void peerdma_made_down_all(struct peerdma_pin *pin)
{
	struct peerdma_made *made, *following;

	lockdep_assert_held(&pin->lock);
	list_for_each_entry(made, &pin->made, node)
		if (made->ops->down && !made->gone)
			made->ops->down(made);
	flush_all(pin);
	list_for_each_entry_safe(made, following, &pin->made, node)
		if (made->gone)
			unlink(made);
}
