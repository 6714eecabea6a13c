// SPDX-License-Identifier: MIT OR GPL-2.0
/* kapi.c - the interface for other drivers: peerdma_kapi.h says what each call does. */
#include <linux/device.h>

#include "objects/map.h"
#include "providers/dmabuf.h"

static void revoked(struct peerdma_pin *pin)
{
	if (pin->ops->revoke)
		pin->ops->revoke(pin, pin->client_priv);
}

static const struct peerdma_owner_ops owner_ops = {
	.revoked = revoked,
};

/* Owns the pins of all drivers. */
static struct peerdma_owner drivers = {
	.ops = &owner_ops,
};

static struct peerdma_pin *new_pin(const struct peerdma_client_ops *ops, void *priv)
{
	struct peerdma_pin *pin = peerdma_pin_new(&drivers);

	if (IS_ERR(pin))
		return pin;
	pin->client = ops->name;
	pin->ops = ops;
	pin->client_priv = priv;
	return pin;
}

static __always_inline struct peerdma_pin *pin_by(u64 token, u32 va_space, u64 addr, u64 length,
						  u32 flags, const struct peerdma_client_ops *ops,
						  void *priv)
{
	struct peerdma_pin *pin;
	int err;

	if (!ops || !ops->name || !current->mm)
		return ERR_PTR(-EINVAL);
	pin = new_pin(ops, priv);
	if (IS_ERR(pin))
		return pin;
	pin->flags = flags;
	pin->addr = addr;
	pin->length = length;
	pin->token = token;
	pin->va_space = va_space;
	err = peerdma_pin_start(pin);
	if (err) {
		peerdma_pin_put(pin);
		return ERR_PTR(err);
	}
	if (!ops->revoke && peerdma_pin_revocable(pin)) {
		peerdma_pin_end(pin, false);
		return ERR_PTR(-EINVAL);
	}
	/* The caller runs code of this module, so it is loaded. */
	__module_get(ops->owner);
	return pin;
}

struct peerdma_pin *peerdma_pin_token(u64 token, u32 va_space, u64 addr, u64 length, u32 flags,
				      const struct peerdma_client_ops *ops, void *priv)
{
	return pin_by(token, va_space, addr, length, flags, ops, priv);
}
EXPORT_SYMBOL_GPL(peerdma_pin_token);

struct peerdma_pin *peerdma_pin_user(u64 addr, u64 length, u32 flags,
				     const struct peerdma_client_ops *ops, void *priv)
{
	return pin_by(0, 0, addr, length, flags, ops, priv);
}
EXPORT_SYMBOL_GPL(peerdma_pin_user);

struct peerdma_pin *peerdma_pin_dmabuf(struct dma_buf *dmabuf, u64 offset, u64 length, u32 flags,
				       const struct peerdma_client_ops *ops, void *priv)
{
	struct peerdma_pin *pin;
	int err;

	if (!ops || !ops->name || !ops->revoke)
		return ERR_PTR(-EINVAL);
	pin = new_pin(ops, priv);
	if (IS_ERR(pin))
		return pin;
	pin->flags = flags;
	pin->addr = offset;
	pin->length = length;
	err = peerdma_pin_start_dmabuf(pin, dmabuf);
	if (err) {
		peerdma_pin_put(pin);
		return ERR_PTR(err);
	}
	__module_get(ops->owner);
	return pin;
}
EXPORT_SYMBOL_GPL(peerdma_pin_dmabuf);

static bool has_maps(struct peerdma_pin *pin)
{
	struct peerdma_object *object;
	bool has = false;

	if (likely(list_empty_careful(&pin->objects)))
		return false;
	mutex_lock(&pin->lock);
	/* Those with `gone' set wait for the flush at the end of a revocation. */
	list_for_each_entry(object, &pin->objects, node)
		has |= peerdma_map_of(object) && !object->gone;
	mutex_unlock(&pin->lock);
	return has;
}

void peerdma_unpin(struct peerdma_pin *pin)
{
	const struct peerdma_client_ops *ops = pin->ops;

	/*
	 * A bug of the caller: the device loses its addresses all the same, but the mapping
	 * objects leak.
	 */
	WARN(has_maps(pin), "peerdma: %s unpins pin %u while it is mapped\n", ops->name, pin->id);
	WARN_ON(peerdma_pin_end(pin, false));
	module_put(ops->owner);
}
EXPORT_SYMBOL_GPL(peerdma_unpin);

static struct peerdma_mapping *map_by(struct peerdma_pin *pin, struct device *dev,
				      enum dma_data_direction dir,
				      const struct peerdma_object_ops *ops)
{
	struct peerdma_map *map = peerdma_map_make(pin, dev, dir, ops);

	if (map == ERR_PTR(-ERESTARTSYS))
		return ERR_PTR(-EINTR);
	return IS_ERR(map) ? ERR_CAST(map) : &map->pub;
}

struct peerdma_mapping *peerdma_map(struct peerdma_pin *pin, struct device *dev,
				    enum dma_data_direction dir)
{
	return map_by(pin, dev, dir, &peerdma_map_ops);
}
EXPORT_SYMBOL_GPL(peerdma_map);

struct peerdma_mapping *peerdma_map_runs(struct peerdma_pin *pin, struct device *dev,
					 enum dma_data_direction dir)
{
	return map_by(pin, dev, dir, &peerdma_runs_ops);
}
EXPORT_SYMBOL_GPL(peerdma_map_runs);

u64 peerdma_mapping_run(const struct peerdma_mapping *mapping, u32 i, u64 *addr)
{
	const struct peerdma_map *map = container_of(mapping, struct peerdma_map, pub);

	/* The end of the mapping leaves the addresses in place until the last reference is put. */
	if (i >= READ_ONCE(map->nsegs))
		return 0;
	*addr = map->segs[i].dma_addr;
	return map->segs[i].length;
}
EXPORT_SYMBOL_GPL(peerdma_mapping_run);

void peerdma_unmap(struct peerdma_mapping *mapping)
{
	struct peerdma_map *map = container_of(mapping, struct peerdma_map, pub);
	struct peerdma_pin *pin = mapping->pin;

	/*
	 * An extra reference: the mapping's must not be the last one, since it is put under
	 * the lock.
	 */
	kref_get(&pin->ref);
	peerdma_maps_lock(pin, NULL);
	peerdma_object_end(&map->object);
	peerdma_maps_unlock(pin);
	peerdma_pin_put(pin);
}
EXPORT_SYMBOL_GPL(peerdma_unmap);

bool peerdma_pin_revoked(const struct peerdma_pin *pin)
{
	/* Acquire: a caller that sees it revoked sees what the revoker wrote before. */
	return smp_load_acquire(&pin->state) != PIN_LIVE;
}
EXPORT_SYMBOL_GPL(peerdma_pin_revoked);

u64 peerdma_pin_addr(const struct peerdma_pin *pin)
{
	return pin->start;
}
EXPORT_SYMBOL_GPL(peerdma_pin_addr);

u64 peerdma_pin_length(const struct peerdma_pin *pin)
{
	return pin->pinned_length;
}
EXPORT_SYMBOL_GPL(peerdma_pin_length);

u64 peerdma_pin_offset(const struct peerdma_pin *pin)
{
	return pin->addr - pin->start;
}
EXPORT_SYMBOL_GPL(peerdma_pin_offset);

unsigned int peerdma_pin_page_shift(const struct peerdma_pin *pin)
{
	return pin->page_shift;
}
EXPORT_SYMBOL_GPL(peerdma_pin_page_shift);

const char *peerdma_pin_provider(const struct peerdma_pin *pin)
{
	return pin->provider->name;
}
EXPORT_SYMBOL_GPL(peerdma_pin_provider);

phys_addr_t peerdma_pin_page(struct peerdma_pin *pin, u32 index)
{
	phys_addr_t phys = 0;

	mutex_lock(&pin->lock);
	if (pin->state == PIN_LIVE && pin->provider->page &&
	    index < pin->pinned_length >> pin->page_shift)
		phys = pin->provider->page(pin, index);
	mutex_unlock(&pin->lock);
	return phys;
}
EXPORT_SYMBOL_GPL(peerdma_pin_page);
