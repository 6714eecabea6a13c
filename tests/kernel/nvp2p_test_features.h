/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * nvp2p_test_features.h - what of the interface the nv-p2p.h at hand has, by its own
 * macros; for the rest stubs, so that nvp2p_test.c need not ask.
 */
#ifndef NVP2P_TEST_FEATURES_H
#define NVP2P_TEST_FEATURES_H

#include <linux/errno.h>
#include "nv-p2p.h"
#include "nvp2p_test.h"

/* What a stub answers: no provider does. */
#define NVP2P_TEST_ABSENT	(-EOPNOTSUPP)

#ifdef NVIDIA_P2P_CAP_GET_PAGES_PERSISTENT_API
#define HAS_PERSISTENT F_PERSISTENT
#define t_get_persistent	nvidia_p2p_get_pages_persistent
#define t_put_persistent	nvidia_p2p_put_pages_persistent
#else
#define HAS_PERSISTENT 0
static inline int t_get_persistent(u64 va, u64 length, struct nvidia_p2p_page_table **table,
				   u32 flags)
{
	return NVP2P_TEST_ABSENT;
}

static inline int t_put_persistent(u64 va, struct nvidia_p2p_page_table *table, u32 flags)
{
	return NVP2P_TEST_ABSENT;
}
#endif

/* Before that API a get without a callback was a persistent one. */
#ifdef NVIDIA_P2P_CAP_PERSISTENT_PAGES
#define HAS_NULL_CALLBACK F_NULL_CALLBACK
#else
#define HAS_NULL_CALLBACK 0
#endif

#ifdef NVIDIA_P2P_FLAGS_FORCE_BAR1_MAPPING
#define HAS_FORCE_BAR1 F_FORCE_BAR1
#else
#define HAS_FORCE_BAR1 0
#endif

#ifdef NVIDIA_P2P_PAGE_TABLE_FLAGS_CPU_CACHEABLE
#define HAS_TABLE_FLAGS F_TABLE_FLAGS
#define t_table_flags(table)	((table)->flags)
#else
#define HAS_TABLE_FLAGS 0
#define t_table_flags(table)	0
#endif

#ifdef NVIDIA_P2P_DMA_MAPPING_VERSION
#define HAS_DMA F_DMA
#define HEADER_MAPPING_VERSION	NVIDIA_P2P_DMA_MAPPING_VERSION
#define t_dma_map		nvidia_p2p_dma_map_pages
#define t_dma_unmap		nvidia_p2p_dma_unmap_pages
#define t_free_dma_mapping	nvidia_p2p_free_dma_mapping
#if NVIDIA_P2P_DMA_MAPPING_VERSION >= 0x00020003
#define HAS_MAPPING_PEER F_MAPPING_PEER
#define t_mapping_peer(mapping)	((mapping)->pci_dev)
#endif
#else
#define HAS_DMA 0
#define HEADER_MAPPING_VERSION	0
struct nvidia_p2p_dma_mapping {
	u32 version, page_size_type, entries;
	u64 *dma_addresses;
};

static inline int t_dma_map(struct pci_dev *peer, struct nvidia_p2p_page_table *table,
			    struct nvidia_p2p_dma_mapping **mapping)
{
	return NVP2P_TEST_ABSENT;
}

static inline int t_dma_unmap(struct pci_dev *peer, struct nvidia_p2p_page_table *table,
			      struct nvidia_p2p_dma_mapping *mapping)
{
	return NVP2P_TEST_ABSENT;
}

static inline int t_free_dma_mapping(struct nvidia_p2p_dma_mapping *mapping)
{
	return NVP2P_TEST_ABSENT;
}
#endif

#ifndef HAS_MAPPING_PEER
#define HAS_MAPPING_PEER 0
#define t_mapping_peer(mapping)	((struct pci_dev *)NULL)
#endif

#ifdef NVIDIA_P2P_RSYNC_DRIVER_VERSION
#define HAS_RSYNC F_RSYNC
#else
#define HAS_RSYNC 0
#endif

#ifdef NVIDIA_P2P_RSYNC_REG_INFO_VERSION
#define HAS_RSYNC_REGISTERS F_RSYNC_REGISTERS
static inline int t_get_rsync(void)
{
	nvidia_p2p_rsync_reg_info_t *info = NULL;

	return nvidia_p2p_get_rsync_registers(&info);
}

static inline int t_put_rsync(void)
{
	nvidia_p2p_put_rsync_registers(NULL);
	return 0;
}
#else
#define HAS_RSYNC_REGISTERS 0
static inline int t_get_rsync(void)
{
	return NVP2P_TEST_ABSENT;
}

static inline int t_put_rsync(void)
{
	return NVP2P_TEST_ABSENT;
}
#endif

#define NVP2P_TEST_FEATURES	(HAS_PERSISTENT | HAS_NULL_CALLBACK | HAS_FORCE_BAR1 | \
				 HAS_TABLE_FLAGS | HAS_DMA | HAS_MAPPING_PEER | HAS_RSYNC | \
				 HAS_RSYNC_REGISTERS)

/* What is of another major version has other fields: nothing past the version is read. */
#define t_table_readable(table) \
	((table)->version >> 16 == NVIDIA_P2P_PAGE_TABLE_VERSION >> 16)

#endif
