// SPDX-License-Identifier: MIT OR GPL-2.0
/* kapi.c - peerdma for other drivers: peerdma_kapi.h says what each call does. */
#include <linux/device.h>

#include "pin.h"

struct peerdma_pin *peerdma_pin_token(u64 token, u32 va_space, u64 addr, u64 length, u32 flags,
				      const struct peerdma_client_ops *ops, void *priv)
{
	struct peerdma_pin *pin;
	int err;

	if (!ops || !ops->name || !current->mm)
		return ERR_PTR(-EINVAL);
	pin = peerdma_pin_new(NULL);
	if (IS_ERR(pin))
		return pin;
	pin->flags = flags;
	pin->addr = addr;
	pin->length = length;
	pin->token = token;
	pin->va_space = va_space;
	pin->ops = ops;
	pin->client_priv = priv;
	err = peerdma_pin_start(pin);
	if (err) {
		peerdma_pin_abandon(pin);
		return ERR_PTR(err);
	}
	if (!ops->revoke && peerdma_pin_revocable(pin)) {
		peerdma_pin_end(pin, NULL);
		return ERR_PTR(-EINVAL);
	}
	/* The caller is in its code, so that is there. */
	__module_get(ops->owner);
	return pin;
}
EXPORT_SYMBOL_GPL(peerdma_pin_token);

struct peerdma_pin *peerdma_pin_user(u64 addr, u64 length, u32 flags,
				     const struct peerdma_client_ops *ops, void *priv)
{
	return peerdma_pin_token(0, 0, addr, length, flags, ops, priv);
}
EXPORT_SYMBOL_GPL(peerdma_pin_user);

struct peerdma_pin *peerdma_pin_dmabuf(struct dma_buf *dmabuf, u64 offset, u64 length, u32 flags,
				       const struct peerdma_client_ops *ops, void *priv)
{
	struct peerdma_pin *pin;
	int err;

	if (!ops || !ops->name || !ops->revoke)
		return ERR_PTR(-EINVAL);
	pin = peerdma_pin_new(NULL);
	if (IS_ERR(pin))
		return pin;
	pin->flags = flags;
	pin->addr = offset;
	pin->length = length;
	pin->ops = ops;
	pin->client_priv = priv;
	err = peerdma_pin_start_dmabuf(pin, dmabuf);
	if (err) {
		peerdma_pin_abandon(pin);
		return ERR_PTR(err);
	}
	__module_get(ops->owner);
	return pin;
}
EXPORT_SYMBOL_GPL(peerdma_pin_dmabuf);

void peerdma_unpin(struct peerdma_pin *pin)
{
	const struct peerdma_client_ops *ops = pin->ops;

	/*
	 * Wrong of the caller, on whom alone it depends, so no lock: the device's
	 * addresses go all the same, the objects leak.
	 */
	WARN(!list_empty(&pin->maps), "peerdma: %s unpins handle %u, which is mapped\n",
	     ops->name, pin->handle);
	WARN_ON(!peerdma_pin_end(pin, NULL));
	module_put(ops->owner);
}
EXPORT_SYMBOL_GPL(peerdma_unpin);

struct peerdma_mapping *peerdma_map(struct peerdma_pin *pin, struct device *dev,
				    enum dma_data_direction dir)
{
	struct peerdma_map *map;
	int err = peerdma_maps_lock(pin, dev, dir);

	if (err)
		return ERR_PTR(err);
	map = peerdma_map_create(pin, dev, dir, 0, pin->pinned_length);
	peerdma_maps_unlock(pin);
	return IS_ERR(map) ? ERR_CAST(map) : &map->pub;
}
EXPORT_SYMBOL_GPL(peerdma_map);

void peerdma_unmap(struct peerdma_mapping *mapping)
{
	struct peerdma_map *map = container_of(mapping, struct peerdma_map, pub);
	struct peerdma_pin *pin = mapping->pin;

	peerdma_maps_lock(pin, NULL, DMA_NONE);
	peerdma_map_destroy(map);
	peerdma_maps_unlock(pin);
}
EXPORT_SYMBOL_GPL(peerdma_unmap);

bool peerdma_pin_revoked(const struct peerdma_pin *pin)
{
	/* Acquire: who sees it revoked sees what the revoker wrote before. */
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
	if (pin->state == PIN_LIVE && pin->provider->page && index < pin->pinned_length >> pin->page_shift)
		phys = pin->provider->page(pin, index);
	mutex_unlock(&pin->lock);
	return phys;
}
EXPORT_SYMBOL_GPL(peerdma_pin_page);
