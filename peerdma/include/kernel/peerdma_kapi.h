/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * peerdma_kapi.h - peerdma for other drivers: pin memory, whoever's it is, map
 * it for your device, and be told in time when it goes away.
 *
 *	pin = peerdma_pin_user(addr, length, flags, &ops, priv);
 *	map = peerdma_map(pin, &pdev->dev, DMA_BIDIRECTIONAL);
 *	... program the device with map->sgt ...
 *	peerdma_unmap(map);
 *	peerdma_unpin(pin);
 *
 * Revocation.  When the memory goes away, ops->revoke runs once, in the thread
 * that frees it.  It must stop the device: when it returns, no DMA of yours may
 * be under way or start.  It may sleep, it should not take longer than your
 * hardware needs.  After it has returned, peerdma takes down the mappings
 * itself; the pin and mapping objects stay yours, and you still end each with
 * peerdma_unmap() and peerdma_unpin(), exactly once, later.
 *
 * Locks.  None of peerdma's is held while revoke runs, and you may hold your
 * own across every call here, including one that revoke takes, with two
 * exceptions.  peerdma_unpin() waits for a revoke of that pin under way.  And
 * peerdma_pin_user(), peerdma_pin_token() and peerdma_unpin() call the GPU's
 * driver, which may hold a lock of its own while it frees memory and has its
 * pins revoked (NVIDIA's does), and wait for each other there.  So do not hold
 * across these a lock that your revoke takes, and do not call them in a
 * revoke, of any pin.  Inside revoke call nothing of this header on that pin
 * but the peerdma_pin_* getters.
 *
 * All calls but the getters may sleep.
 */
#ifndef PEERDMA_KAPI_H
#define PEERDMA_KAPI_H

#include <linux/types.h>
#include <linux/scatterlist.h>
#include <linux/dma-direction.h>

struct device;
struct dma_buf;
struct module;
struct peerdma_pin;

struct peerdma_client_ops {
	struct module *owner;	/* THIS_MODULE: held for as long as the pin is */
	const char *name;	/* shown in debugfs and traces */
	/* NULL: the pin must be PERSISTENT or of host memory */
	void (*revoke)(struct peerdma_pin *pin, void *priv);
};

/* A pin made usable for one device.  Read-only for the caller. */
struct peerdma_mapping {
	struct peerdma_pin *pin;
	struct device *dev;
	enum dma_data_direction dir;
	/*
	 * Only DMA addresses and lengths are set (for_each_sgtable_dma_sg); they
	 * cover peerdma_pin_length() bytes in order, neighbours merged.  There are
	 * no struct pages to be had from it.
	 */
	struct sg_table sgt;
};

/*
 * Pins [addr, addr + length) of the current process.  flags: PEERDMA_PIN_* of
 * peerdma_ioctl.h.  ERR_PTR with the errnos given there; the same for _token,
 * which pins what the two tokens name, whoever's process it is.
 */
struct peerdma_pin *peerdma_pin_user(u64 addr, u64 length, u32 flags,
				     const struct peerdma_client_ops *ops, void *priv);
struct peerdma_pin *peerdma_pin_token(u64 token, u32 va_space, u64 addr, u64 length, u32 flags,
				      const struct peerdma_client_ops *ops, void *priv);

/*
 * Pins [offset, offset + length) of a dma-buf; length 0: all from there on.  flags: 0
 * or PEERDMA_PIN_READONLY.  The caller keeps his reference, and may drop it.
 *
 * The exporter revokes with the dma-buf's reservation lock held, and peerdma_map() and
 * peerdma_unmap() of such a pin take that lock.  So what is said above of
 * peerdma_unpin() holds for these two as well: hold no lock across them that your
 * revoke takes.  Your revoke must not take mmap_lock, nor wait for who may need it.
 */
struct peerdma_pin *peerdma_pin_dmabuf(struct dma_buf *dmabuf, u64 offset, u64 length, u32 flags,
				       const struct peerdma_client_ops *ops, void *priv);

/* Ends the pin.  Mappings must be gone.  From any process; waits for revoke. */
void peerdma_unpin(struct peerdma_pin *pin);

/* ERR_PTR: -ESTALE revoked, -EOPNOTSUPP no path between the two devices, -ENOMEM, -EINVAL. */
struct peerdma_mapping *peerdma_map(struct peerdma_pin *pin, struct device *dev,
				    enum dma_data_direction dir);
void peerdma_unmap(struct peerdma_mapping *map);

bool peerdma_pin_revoked(const struct peerdma_pin *pin);
u64 peerdma_pin_addr(const struct peerdma_pin *pin);	/* first pinned byte, page aligned */
u64 peerdma_pin_length(const struct peerdma_pin *pin);	/* bytes held */
u64 peerdma_pin_offset(const struct peerdma_pin *pin);	/* of the address asked for */
unsigned int peerdma_pin_page_shift(const struct peerdma_pin *pin);
const char *peerdma_pin_provider(const struct peerdma_pin *pin);
/*
 * CPU physical (for a GPU: BAR) address of a page, for diagnostics and CPU
 * views; 0 when the pin is revoked.  May sleep.
 */
phys_addr_t peerdma_pin_page(struct peerdma_pin *pin, u32 index);

#endif
