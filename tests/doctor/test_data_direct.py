#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Data Direct: which function of an adapter a coherent GPU's dma-buf goes to."""

import os
import unittest

import machines
from findings import Findings

CX8 = (0x15b3, 0x1023)


class DataDirect(Findings):
    check = "data-direct"

    def grace(self, driver="580.95.05", adapters=1):
        """An adapter at the processor, and its second function below the GPU's switch."""
        m = machines.Machine(self.folder(), "6.14.0-1015-nvidia-64k")
        m.put("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n")
        up = m.port("0008:01:00.0", m.port("0008:00:00.0", "pci0008:00", 4), 5)
        m.gpu("0008:03:00.0", m.port("0008:02:00.0", up, 6), ids=(0x10de, 0x2941))
        for n in range(adapters):
            m.device(f"000{n}:01:00.0", m.port(f"000{n}:00:00.0", f"pci000{n}:00", 4), CX8, 0x020700, driver="mlx5_core",
                     known_as=(f"infiniband/mlx5_{n}",))
            m.device(f"0008:{4 + n:02x}:00.0", m.port(f"0008:02:{1 + n:02x}.0", up, 6), (0x15b3, 0x2100), 0x088000,
                     driver="mlx5_ib")
        machines.software(m, adapters)
        m.nvidia(driver)
        return m

    def test_pair(self):
        self.assertEqual(self.found(self.grace()), {})
        for word in ("GPU0", "the second function of NIC0 (mlx5_0)", "CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE", "0008:04:00.0"):
            self.assertIn(word, self.words)

    def test_several(self):
        """Which is whose, only the driver knows."""
        self.assertEqual(self.found(self.grace(adapters=2)), {})
        for word in ("0008:04:00.0", "0008:05:00.0", "mlx5dv_get_data_direct_sysfs_path() says which"):
            self.assertIn(word, self.words)
        self.assertNotIn("mlx5_0", self.words)

    def test_no_driver(self):
        m = self.grace()
        os.unlink(f"{m.path}/sys/devices/{m.where['0008:04:00.0']}/driver")
        self.assertEqual(self.found(m), {})
        self.assertIn("Linux 6.12", self.words)

    def test_old_release(self):
        self.assertEqual(self.found(self.grace("565.77")), {})
        self.assertIn("since release 570", self.words)

    def test_elsewhere(self):
        self.assertEqual((self.found(machines.server(self.folder(), per_socket=1)), self.words), ({}, "[]"))


if __name__ == "__main__":
    unittest.main()
