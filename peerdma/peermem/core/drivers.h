/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* drivers.h - which RDMA devices may get peers' memory, and by which function. */
#ifndef PEER_CORE_DRIVERS_H
#define PEER_CORE_DRIVERS_H

struct device;
struct ib_device;

/* IB_PEER_MEM_* of the module that drives it, when that calls the kernel's own ib_umem_get(). */
unsigned long peer_driver_flags(const struct ib_device *ibdev);

/* The PCI function that does its DMA, or NULL. */
struct device *peer_bus_device(const struct ib_device *ibdev);

#endif
