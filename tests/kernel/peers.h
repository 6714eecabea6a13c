/* SPDX-License-Identifier: MIT */
/* peers.h - the DMA cards of a virtual machine: QEMU's edu devices, 0 the first by its address. */
#ifndef PEERS_H
#define PEERS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* Its folder in /sys/bus/pci/devices; false where there is no such card. */
bool peer_name(int n, char name[NAME_MAX + 1]);
/* Bus, device and function, as struct nvp2p_test_call has them; 0 where there is no such card. */
uint32_t peer_bdf(int n);
/* An IOMMU translates what it accesses. */
bool peer_is_translated(int n);

#endif
