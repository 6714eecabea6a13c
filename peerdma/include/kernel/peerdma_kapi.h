/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * peerdma_kapi.h - peerdma for other drivers: pin memory of any provider, map
 * it for your device, and be called before it goes away.
 *
 *	pin = peerdma_pin_user(addr, length, flags, &ops, priv);
 *	map = peerdma_map(pin, &pdev->dev, DMA_BIDIRECTIONAL);
 *	... program the device with map->sgt ...
 *	peerdma_unmap(map);
 *	peerdma_unpin(pin);
 *
 * Revocation.  When the memory goes away, ops->revoke runs once, in the thread
 * that frees it (on a Tegra in a thread of peerdma's, which keeps the memory until then).  It must stop the device: when it returns, no DMA of your device
 * may be under way or start.  It may sleep, but should take no longer than your
 * hardware needs.  After it has returned, peerdma removes the mappings itself.
 * The pin and mapping objects stay yours: end each with peerdma_unmap() and
 * peerdma_unpin(), exactly once, later.
 *
 * Behind an IOMMU the addresses of a revoked mapping stay reserved until
 * peerdma_unmap(), or until your driver is unbound from the device: no other mapping
 * of the device gets them, and an access by them faults.  Exception: mappings made by
 * the provider's driver (Tegra, coherent GPUs of NVIDIA) or by the exporter of an
 * imported dma-buf, which may use the addresses again.
 *
 * Locks.  peerdma holds none while revoke runs.  Do not pin, map, unmap or unpin
 * while holding a lock that your revoke takes: these calls wait for a revoke under
 * way, or call the GPU's driver, which may hold a lock of its own while it frees
 * memory and revokes its pins (NVIDIA's does).  The same applies to a dma-buf's
 * reservation lock: a revocation takes those of the pin's dma-bufs.  Any other lock
 * is fine.  Your revoke may call the peerdma_pin_* getters of this header, nothing else.
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
	 * cover peerdma_pin_length() bytes in order, neighbours merged.  It has no
	 * struct pages.
	 */
	struct sg_table sgt;
};

/*
 * Pins [addr, addr + length) of the current process.  flags: PEERDMA_PIN_* of
 * peerdma_ioctl.h.  ERR_PTR with the errnos given there, and -EINTR: this process was
 * killed while it waited for the provider.  The same for _token, which pins the memory that
 * the two tokens name, of any process.
 */
struct peerdma_pin *peerdma_pin_user(u64 addr, u64 length, u32 flags,
				     const struct peerdma_client_ops *ops, void *priv);
struct peerdma_pin *peerdma_pin_token(u64 token, u32 va_space, u64 addr, u64 length, u32 flags,
				      const struct peerdma_client_ops *ops, void *priv);

/*
 * Pins [offset, offset + length) of a dma-buf; length 0: all from there on.  flags: 0
 * or PEERDMA_PIN_READONLY.  The caller keeps its reference to the dma-buf, and may drop it.
 * -EACCES: the dma-buf's file is open for reading only, and the pin is not READONLY.
 *
 * The exporter revokes with the dma-buf's reservation lock held, and peerdma_map() and
 * peerdma_unmap() of such a pin take that lock.  So hold no lock across these two that your
 * revoke takes, and no dma-buf's reservation lock.  Your revoke must not take mmap_lock, nor
 * wait for a thread that may need it.
 */
struct peerdma_pin *peerdma_pin_dmabuf(struct dma_buf *dmabuf, u64 offset, u64 length, u32 flags,
				       const struct peerdma_client_ops *ops, void *priv);

/* Ends the pin.  Unmap its mappings before.  Any process may call it; waits for a revoke under way. */
void peerdma_unpin(struct peerdma_pin *pin);

/*
 * ERR_PTR: -ESTALE: the pin is revoked; -EOPNOTSUPP: no path between the two devices (the
 * kernel's log has the reason and the remedy); -EDQUOT: the user of the pin has reached the
 * limit on mappings (module parameter max_mappings_per_user); -EPERM: the pin is READONLY and
 * the device would write; -EIO: the provider's driver does not map it (Tegra); -EINTR: this process
 * was killed, or, of a dma-buf, a signal arrived, while it waited; -ENOMEM; -EINVAL.
 *
 * When peerdma_unmap() returns, the device reaches nothing by these addresses.  An IOMMU in
 * lazy mode has been flushed.
 */
struct peerdma_mapping *peerdma_map(struct peerdma_pin *pin, struct device *dev,
				    enum dma_data_direction dir);
void peerdma_unmap(struct peerdma_mapping *map);

/*
 * The same, errnos included, for devices with page tables of their own, which need no sg_table: do not use
 * map->sgt.  Mapping contiguous device memory then costs the same at any length.
 */
struct peerdma_mapping *peerdma_map_runs(struct peerdma_pin *pin, struct device *dev,
					 enum dma_data_direction dir);
/*
 * The i-th run of addresses of a mapping, also of peerdma_map(): sets *addr to its first address and returns its length,
 * which has no limit; 0: there are no more.  Together they cover peerdma_pin_length() bytes in order.  While the pin is
 * being revoked, runs may disappear between two calls: check peerdma_pin_revoked() after the last call.  Never sleeps.
 */
u64 peerdma_mapping_run(const struct peerdma_mapping *map, u32 i, u64 *addr);

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
