/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* drivers.h - which RDMA devices may get peer memory, and the PCI function that does their DMA. */
#ifndef PEER_CORE_DRIVERS_H
#define PEER_CORE_DRIVERS_H

struct device;
struct ib_device;

/*
 * IB_PEER_MEM_* flags for a device whose driver calls the kernel's own ib_umem_get(), by
 * the name of that driver's module.
 */
unsigned long peer_driver_flags(const struct ib_device *ibdev);

/* The PCI function that does its DMA, or NULL. */
struct device *peer_bus_device(const struct ib_device *ibdev);

#endif
