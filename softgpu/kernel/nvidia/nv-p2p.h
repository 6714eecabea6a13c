/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * nv-p2p.h - functions of a GPU driver that let the device of a third-party kernel driver
 * read and write GPU memory.
 *
 * The names, values, layouts and rules are those of NVIDIA's interface of the
 * same name; the text is this project's.  A client written for one compiles
 * against the other and sees the same structs: every size and offset is
 * asserted at the end.  Where a rule is stated "as in" something, that is where
 * the fact is from:
 *
 *   [guide]  NVIDIA, "Developing a Linux Kernel Module using GPUDirect RDMA"
 *   [ogk]    the behaviour of NVIDIA's open kernel modules, release 595
 *   [here]   where this provider differs on purpose, and why
 *
 * Common to all calls
 *
 *   - They may sleep: process context, no spinlock held, interrupts on.
 *   - NVIDIA's driver holds a lock of its own around calls and around callbacks.  So
 *     a lock that a client's callback takes must not be held across any call.
 *     [here: without nvidia.ko's parameter driver_lock=1 that lock is not there, and
 *     such a client only deadlocks in a put of the very pin whose callback runs.]
 *   - None but free_page_table and free_dma_mapping is for callbacks [guide].
 *   - A mistake that the caller makes is logged, once per client (kernel module), with
 *     the rule that it breaks [here].
 *   - 0 is success, else a negative errno:
 *       -EINVAL    an argument is malformed, or nothing such is there
 *       -ENOMEM    kernel memory or BAR1 space has run out
 *       -ENOTSUPP  (524) this GPU, or this provider, does not do that
 *       -EBUSY     something of the kind is registered already
 *       -ENODEV    the GPU has gone
 *       -EIO       anything else
 *   - GPU memory is pinned in pages of 64 KiB: addresses and lengths given to
 *     get_pages are multiples of that; the caller rounds.
 */
#ifndef _NV_P2P_H_
#define _NV_P2P_H_

#ifdef __KERNEL__
#include <linux/types.h>
#include <linux/build_bug.h>
#include <linux/stddef.h>
#else
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#endif

struct pci_dev;

/* ---- versions: major in the upper half, minor in the lower ---- */

#define NVIDIA_P2P_UNINITIALIZED	0x0

#define NVIDIA_P2P_MAJOR_VERSION_MASK	0xffff0000
#define NVIDIA_P2P_MINOR_VERSION_MASK	0x0000ffff

#define NVIDIA_P2P_MAJOR_VERSION(v)	(((v) & NVIDIA_P2P_MAJOR_VERSION_MASK) >> 16)
#define NVIDIA_P2P_MINOR_VERSION(v)	((v) & NVIDIA_P2P_MINOR_VERSION_MASK)

#define NVIDIA_P2P_MAJOR_VERSION_MATCHES(p, v) \
	(NVIDIA_P2P_MAJOR_VERSION((p)->version) == NVIDIA_P2P_MAJOR_VERSION(v))

/* Same major, and the struct at hand is at least as new as the one asked for. */
#define NVIDIA_P2P_VERSION_COMPATIBLE(p, v) \
	(NVIDIA_P2P_MAJOR_VERSION_MATCHES(p, v) && \
	 NVIDIA_P2P_MINOR_VERSION((p)->version) >= NVIDIA_P2P_MINOR_VERSION(v))

/* The provider has get_pages_persistent and put_pages_persistent. */
#define NVIDIA_P2P_CAP_GET_PAGES_PERSISTENT_API

#define NVIDIA_P2P_GPU_UUID_LEN		16

/* ---- mailboxes (Fermi): kept for the layouts, unused ---- */

enum nvidia_p2p_architecture {
	NVIDIA_P2P_ARCHITECTURE_TESLA = 0,
	NVIDIA_P2P_ARCHITECTURE_FERMI = 1,
	NVIDIA_P2P_ARCHITECTURE_CURRENT = NVIDIA_P2P_ARCHITECTURE_FERMI,
};

enum nvidia_p2p_params_address_index {
	NVIDIA_P2P_PARAMS_ADDRESS_INDEX_GPU = 0,
	NVIDIA_P2P_PARAMS_ADDRESS_INDEX_THIRD_PARTY_DEVICE = 1,
	NVIDIA_P2P_PARAMS_ADDRESS_INDEX_MAX = NVIDIA_P2P_PARAMS_ADDRESS_INDEX_THIRD_PARTY_DEVICE,
};

union nvidia_p2p_mailbox_addresses {
	struct {
		uint64_t wmb_addr;
		uint64_t wmb_data;
		uint64_t rreq_addr;
		uint64_t rcomp_addr;
		uint64_t reserved[2];
	} fermi;
};

#define NVIDIA_P2P_PARAMS_VERSION	0x00010001

struct nvidia_p2p_params {
	uint32_t version;
	uint32_t architecture;
	union nvidia_p2p_mailbox_addresses addresses[NVIDIA_P2P_PARAMS_ADDRESS_INDEX_MAX + 1];
};
typedef struct nvidia_p2p_params nvidia_p2p_params_t;

/* ---- page tables: what get_pages gives ---- */

enum nvidia_p2p_page_size_type {
	NVIDIA_P2P_PAGE_SIZE_4KB = 0,
	NVIDIA_P2P_PAGE_SIZE_64KB = 1,
	NVIDIA_P2P_PAGE_SIZE_128KB = 2,
	NVIDIA_P2P_PAGE_SIZE_COUNT = 3,
};

struct nvidia_p2p_page {
	uint64_t physical_address;	/* the CPU's physical address of the page, in BAR1 */
	union nvidia_p2p_request_registers {
		struct {
			uint32_t wreqmb_h;
			uint32_t rreqmb_h;
			uint32_t rreqmb_0;
			uint32_t reserved[3];
		} fermi;
	} registers;			/* zero */
};
typedef struct nvidia_p2p_page nvidia_p2p_page_t;

#define NVIDIA_P2P_PAGE_TABLE_VERSION	0x00020000
#define NVIDIA_P2P_PAGE_TABLE_VERSION_COMPATIBLE(p) \
	NVIDIA_P2P_VERSION_COMPATIBLE(p, NVIDIA_P2P_PAGE_TABLE_VERSION)

/*
 * flags: the CPU maps the pages cached, not write-combined (GPUs with coherent
 * links; here: VRAM in system memory).
 */
#define NVIDIA_P2P_PAGE_TABLE_FLAGS_CPU_CACHEABLE	0x1

/* Read-only to clients.  Lives until put, or until the free callback has returned. */
struct nvidia_p2p_page_table {
	uint32_t version;		/* NVIDIA_P2P_PAGE_TABLE_VERSION */
	uint32_t page_size;		/* enum nvidia_p2p_page_size_type: always 64KB */
	struct nvidia_p2p_page **pages;
	uint32_t entries;
	uint8_t *gpu_uuid;		/* NVIDIA_P2P_GPU_UUID_LEN bytes */
	uint32_t flags;
};
typedef struct nvidia_p2p_page_table nvidia_p2p_page_table_t;

/* ---- DMA mappings: what dma_map_pages gives ---- */

#define NVIDIA_P2P_DMA_MAPPING_VERSION	0x00020003
#define NVIDIA_P2P_DMA_MAPPING_VERSION_COMPATIBLE(p) \
	NVIDIA_P2P_VERSION_COMPATIBLE(p, NVIDIA_P2P_DMA_MAPPING_VERSION)

/* Read-only to clients. */
struct nvidia_p2p_dma_mapping {
	uint32_t version;		/* NVIDIA_P2P_DMA_MAPPING_VERSION */
	enum nvidia_p2p_page_size_type page_size_type;
	uint32_t entries;		/* as in the page table */
	uint64_t *dma_addresses;	/* one per page; no two need be adjacent */
	void *private;			/* the provider's */
	struct pci_dev *pci_dev;	/* whose addresses these are */
};
typedef struct nvidia_p2p_dma_mapping nvidia_p2p_dma_mapping_t;

/* ---- rsync (POWER9 only) ---- */

#define NVIDIA_P2P_RSYNC_DRIVER_VERSION	0x00010001
#define NVIDIA_P2P_RSYNC_DRIVER_VERSION_COMPATIBLE(p) \
	NVIDIA_P2P_VERSION_COMPATIBLE(p, NVIDIA_P2P_RSYNC_DRIVER_VERSION)

struct nvidia_p2p_rsync_driver {
	uint32_t version;
	int (*get_relaxed_ordering_mode)(int *mode, void *data);
	void (*put_relaxed_ordering_mode)(int mode, void *data);
	void (*wait_for_rsync)(struct pci_dev *gpu, void *data);
};
typedef struct nvidia_p2p_rsync_driver nvidia_p2p_rsync_driver_t;

#define NVIDIA_P2P_RSYNC_REG_INFO_VERSION	0x00020001
#define NVIDIA_P2P_RSYNC_REG_INFO_VERSION_COMPATIBLE(p) \
	NVIDIA_P2P_VERSION_COMPATIBLE(p, NVIDIA_P2P_RSYNC_REG_INFO_VERSION)

struct nvidia_p2p_rsync_reg {
	void *ptr;
	size_t size;
	struct pci_dev *ibmnpu;
	struct pci_dev *gpu;
	uint32_t cluster_id;
	uint32_t socket_id;
};
typedef struct nvidia_p2p_rsync_reg nvidia_p2p_rsync_reg_t;

struct nvidia_p2p_rsync_reg_info {
	uint32_t version;
	nvidia_p2p_rsync_reg_t *regs;
	size_t entries;
};
typedef struct nvidia_p2p_rsync_reg_info nvidia_p2p_rsync_reg_info_t;

/* ---- pinning ---- */

/*
 * Pins [virtual_address, virtual_address + length) of a process's GPU memory
 * and gives its pages.
 *
 * p2p_token, va_space: both as returned by cuPointerGetAttribute(P2P_TOKENS), and then any
 * process may call; or both 0, and then the memory is that of the calling process (of
 * current->tgid; its mm does not matter).
 *
 * The range is multiples of 64 KiB and lies in one allocation (an allocation is
 * rounded up to pages: what shares the last page is pinned along with it).
 * Ranges may overlap other pins; the same page has the same address in each.
 *
 * free_callback(data) runs once if the memory goes away first - free, unmap,
 * context destroy, close, exit, device removal - synchronously, in the thread
 * that does that, perhaps one with current->mm NULL, and perhaps before this
 * call has returned to its caller: *page_table is written before the callback
 * can run.  While it runs the memory, the table and all DMA mappings are valid;
 * when it has returned the provider unmaps and frees them all.  So the callback
 * must, before returning, stop every DMA and drop every CPU mapping.  In it only
 * free_page_table and free_dma_mapping may be called [guide].  It does not run
 * for a pin that put_pages has ended.
 *
 * On failure *page_table is NULL, except that -EINVAL for a NULL callback or an
 * unaligned range leaves it untouched [ogk].
 *
 * -EINVAL  free_callback NULL (found first); unaligned, then empty range; not
 *          GPU memory of that process or token (host and managed memory
 *          included; in softgpu's strict mode managed memory is pinned, as a
 *          copy that misleads), not mapped, or more than one allocation;
 *          made by cuMemCreate() without gpuDirectRDMACapable; unknown token
 * -EIO     p2p_token without va_space
 * -ENOMEM  BAR1, or kernel memory, is exhausted
 * -ENODEV  the GPU was removed
 */
int nvidia_p2p_get_pages(uint64_t p2p_token, uint32_t va_space, uint64_t virtual_address,
			 uint64_t length, struct nvidia_p2p_page_table **page_table,
			 void (*free_callback)(void *data), void *data);

/*
 * Ends a pin: pages, table, and DMA mappings still made from it are gone on
 * return.  Waits while the pin's callback runs in another thread, and no
 * callback starts afterwards.
 *
 * The table's address says which pin, and is never dereferenced unless it is one.
 * It is looked for [ogk]:
 *   p2p_token 0      among the pins of the calling process's memory
 *   p2p_token not 0  among those of the memory of the token's context, also from another process
 * va_space and virtual_address are not looked at.
 *
 * 0        always [ogk]: also for a pin that its callback has ended, and
 *          for what is not found.  A live pin that is not found stays, with its
 *          callback armed, until the memory goes: so after a last close in a forked
 *          child without tokens, with a wrong token, and for a persistent pin.  For NULL
 *          before release 610.
 * -EINVAL  NULL, from release 610 on (softgpu.ko's parameter driver)
 *
 * From inside the pin's own callback it does nothing.  [here: NVIDIA's driver
 * deadlocks.]
 *
 * A client that is unloaded with callbacks armed is logged, and they are not called.
 * [here: NVIDIA's driver calls the code that is gone.]
 */
int nvidia_p2p_put_pages(uint64_t p2p_token, uint32_t va_space, uint64_t virtual_address,
			 struct nvidia_p2p_page_table *page_table);

/* get_pages_persistent flags */
#define NVIDIA_P2P_FLAGS_DEFAULT		0
#define NVIDIA_P2P_FLAGS_FORCE_BAR1_MAPPING	1	/* coherent GPUs only */

/*
 * Pins without a callback: the pages and their addresses stay, across free,
 * context destroy and the end of the process, until put_pages_persistent.  Only
 * memory of the calling process.  Rules of the range and of *page_table as in
 * get_pages.
 *
 * Unknown flags are ignored [ogk].
 *
 * -EINVAL    as in get_pages
 * -ENOTSUPP  FORCE_BAR1_MAPPING, and the GPU is no coherent one (parameter coherent=1, and
 *            VRAM in system memory): it has no other way than BAR1.  On a coherent one such
 *            a pin's table is without CPU_CACHEABLE, and is not mapped for peers.
 *            [here: its pages are the same ones, and others take room in BAR1, too]
 * -ENOMEM, -ENODEV  as in get_pages
 */
int nvidia_p2p_get_pages_persistent(uint64_t virtual_address, uint64_t length,
				    struct nvidia_p2p_page_table **page_table, uint32_t flags);

/*
 * Ends a persistent pin, from any process.  flags must be 0.
 *
 * 0        also for NULL before release 610
 * -EINVAL  NULL from release 610 on; flags, whatever the table; not a live persistent pin
 *          [here: NVIDIA's driver reads what it is given]
 */
int nvidia_p2p_put_pages_persistent(uint64_t virtual_address,
				    struct nvidia_p2p_page_table *page_table, uint32_t flags);

/*
 * The free callback must call this for its table [guide].  It does nothing, ignores its
 * argument and returns 0: the provider frees the table [ogk].
 */
int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *page_table);

/* ---- DMA ---- */

/*
 * Makes the pages reachable by `peer`: one DMA address per page, through peer's
 * IOMMU where there is one.  Each call makes a mapping of its own; a table may
 * have any number, for any peers.  Ends with dma_unmap_pages, or with the pin.
 *
 * -EINVAL    a NULL argument; page_table is no live pin, or its callback runs
 * -ENOTSUPP  peer cannot reach this GPU over PCI; a pin with FORCE_BAR1_MAPPING
 * -ENOMEM    kernel memory
 * -EIO       a page is outside the GPU's BAR, or peer cannot address it.  The last
 *            64 KiB of the BAR count as outside [ogk]
 * Every failure sets *dma_mapping to NULL (where dma_mapping is not NULL).
 */
int nvidia_p2p_dma_map_pages(struct pci_dev *peer, struct nvidia_p2p_page_table *page_table,
			     struct nvidia_p2p_dma_mapping **dma_mapping);

/*
 * Ends one mapping; its device's DMA must have stopped.
 *
 * 0        also when the mapping, or its pin, has ended already; and for another peer
 *          than the mapping's, which it ends all the same, and warns [ogk]
 * -EINVAL  a NULL argument
 */
int nvidia_p2p_dma_unmap_pages(struct pci_dev *peer, struct nvidia_p2p_page_table *page_table,
			       struct nvidia_p2p_dma_mapping *dma_mapping);

/* As nvidia_p2p_free_page_table(), for a mapping: does nothing, returns 0. */
int nvidia_p2p_free_dma_mapping(struct nvidia_p2p_dma_mapping *dma_mapping);

/* ---- kept for the symbols: no GPU of this kind exists here ---- */

/* -ENOTSUPP, always. */
int nvidia_p2p_init_mapping(uint64_t p2p_token, struct nvidia_p2p_params *params,
			    void (*destroy_callback)(void *data), void *data);
int nvidia_p2p_destroy_mapping(uint64_t p2p_token);

/*
 * Registers the driver that orders peer writes (POWER9).  It is remembered and
 * never called.
 *
 * -EINVAL  NULL, incompatible version, or a NULL function
 * -EBUSY   one is registered, or a GPU is open
 */
int nvidia_p2p_register_rsync_driver(nvidia_p2p_rsync_driver_t *driver, void *data);

/* Takes the arguments of register; anything else is ignored. */
void nvidia_p2p_unregister_rsync_driver(nvidia_p2p_rsync_driver_t *driver, void *data);

/* -ENODEV, always; put ignores its argument. */
int nvidia_p2p_get_rsync_registers(nvidia_p2p_rsync_reg_info_t **reg_info);
void nvidia_p2p_put_rsync_registers(nvidia_p2p_rsync_reg_info_t *reg_info);

/* ---- the layouts, for 64-bit machines ---- */

#ifdef __LP64__

#define NV_P2P_SIZE(type, size) \
	static_assert(sizeof(type) == (size), "size of " #type)
#define NV_P2P_AT(type, member, offset) \
	static_assert(offsetof(type, member) == (offset), "offset of " #type "." #member)

NV_P2P_SIZE(union nvidia_p2p_mailbox_addresses, 48);
NV_P2P_AT(union nvidia_p2p_mailbox_addresses, fermi.wmb_addr, 0);
NV_P2P_AT(union nvidia_p2p_mailbox_addresses, fermi.wmb_data, 8);
NV_P2P_AT(union nvidia_p2p_mailbox_addresses, fermi.rreq_addr, 16);
NV_P2P_AT(union nvidia_p2p_mailbox_addresses, fermi.rcomp_addr, 24);
NV_P2P_AT(union nvidia_p2p_mailbox_addresses, fermi.reserved, 32);

NV_P2P_SIZE(struct nvidia_p2p_params, 104);
NV_P2P_AT(struct nvidia_p2p_params, version, 0);
NV_P2P_AT(struct nvidia_p2p_params, architecture, 4);
NV_P2P_AT(struct nvidia_p2p_params, addresses, 8);

NV_P2P_SIZE(struct nvidia_p2p_page, 32);
NV_P2P_AT(struct nvidia_p2p_page, physical_address, 0);
NV_P2P_AT(struct nvidia_p2p_page, registers, 8);
NV_P2P_AT(struct nvidia_p2p_page, registers.fermi.wreqmb_h, 8);
NV_P2P_AT(struct nvidia_p2p_page, registers.fermi.rreqmb_h, 12);
NV_P2P_AT(struct nvidia_p2p_page, registers.fermi.rreqmb_0, 16);
NV_P2P_AT(struct nvidia_p2p_page, registers.fermi.reserved, 20);

NV_P2P_SIZE(enum nvidia_p2p_page_size_type, 4);
NV_P2P_SIZE(struct nvidia_p2p_page_table, 40);
NV_P2P_AT(struct nvidia_p2p_page_table, version, 0);
NV_P2P_AT(struct nvidia_p2p_page_table, page_size, 4);
NV_P2P_AT(struct nvidia_p2p_page_table, pages, 8);
NV_P2P_AT(struct nvidia_p2p_page_table, entries, 16);
NV_P2P_AT(struct nvidia_p2p_page_table, gpu_uuid, 24);
NV_P2P_AT(struct nvidia_p2p_page_table, flags, 32);

NV_P2P_SIZE(struct nvidia_p2p_dma_mapping, 40);
NV_P2P_AT(struct nvidia_p2p_dma_mapping, version, 0);
NV_P2P_AT(struct nvidia_p2p_dma_mapping, page_size_type, 4);
NV_P2P_AT(struct nvidia_p2p_dma_mapping, entries, 8);
NV_P2P_AT(struct nvidia_p2p_dma_mapping, dma_addresses, 16);
NV_P2P_AT(struct nvidia_p2p_dma_mapping, private, 24);
NV_P2P_AT(struct nvidia_p2p_dma_mapping, pci_dev, 32);

NV_P2P_SIZE(struct nvidia_p2p_rsync_driver, 32);
NV_P2P_AT(struct nvidia_p2p_rsync_driver, version, 0);
NV_P2P_AT(struct nvidia_p2p_rsync_driver, get_relaxed_ordering_mode, 8);
NV_P2P_AT(struct nvidia_p2p_rsync_driver, put_relaxed_ordering_mode, 16);
NV_P2P_AT(struct nvidia_p2p_rsync_driver, wait_for_rsync, 24);

NV_P2P_SIZE(struct nvidia_p2p_rsync_reg, 40);
NV_P2P_AT(struct nvidia_p2p_rsync_reg, ptr, 0);
NV_P2P_AT(struct nvidia_p2p_rsync_reg, size, 8);
NV_P2P_AT(struct nvidia_p2p_rsync_reg, ibmnpu, 16);
NV_P2P_AT(struct nvidia_p2p_rsync_reg, gpu, 24);
NV_P2P_AT(struct nvidia_p2p_rsync_reg, cluster_id, 32);
NV_P2P_AT(struct nvidia_p2p_rsync_reg, socket_id, 36);

NV_P2P_SIZE(struct nvidia_p2p_rsync_reg_info, 24);
NV_P2P_AT(struct nvidia_p2p_rsync_reg_info, version, 0);
NV_P2P_AT(struct nvidia_p2p_rsync_reg_info, regs, 8);
NV_P2P_AT(struct nvidia_p2p_rsync_reg_info, entries, 16);

#undef NV_P2P_SIZE
#undef NV_P2P_AT

#endif /* __LP64__ */

#endif
