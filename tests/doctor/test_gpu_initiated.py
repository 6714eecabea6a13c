#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""RDMA that GPUs start: notes on any machine, verdicts with `--need gpu-initiated`."""

import os
import unittest

import machines
from findings import Findings

NEED = ("--need", "gpu-initiated")


class GpuInitiated(Findings):
    check = "gpu-initiated"

    def server(self, keys="PeerMappingOverride=1;", stream=1, remap=1, **more):
        m = machines.server(self.folder(), sockets=1, per_socket=1, **more)
        m.module("gdrdrv", "2.5")
        return m.put("proc/driver/nvidia/params", f"EnableStreamMemOPs: {stream}\nDmaRemapPeerMmio: {remap}\n"
                     f'RegistryDwords: "{keys}"\n')

    def expect(self, m, verdicts, code, *words):
        """Only who asks for it gets a verdict; the notes are there all the same."""
        self.assertEqual((self.found(m), self.told(m)[0]), ({}, 0))
        for word in words:
            self.assertIn(word, self.words)
        self.assertEqual((self.found(m, *NEED), self.told(m, *NEED)[0]), (verdicts, code))
        for word in words:
            self.assertIn(word, self.words)

    def test_in_order(self):
        self.expect(self.server(), {}, 0, "PeerMappingOverride: 1", "EnableStreamMemOPs: 1", "2.5")

    def test_doorbells(self):
        for keys in ("", "PeerMappingOverride=0;", "RMForceStaticBar1=1;", "PeerMappingOverrides=1"):
            self.expect(self.server(keys), {"doorbells": "broken"}, 1, "3.4.5", "NVreg_RegistryDwords")
        self.expect(self.server("RMForceStaticBar1=1; PeerMappingOverride=0x1"), {}, 0)
        m = self.server("").put("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\n")
        self.assertEqual(self.found(m, *NEED), {})

    def test_stream_operations(self):
        self.expect(self.server(stream=0), {"stream memory operations": "cannot tell"}, 3, "EnableStreamMemOPs: 0")

    def test_unknown(self):
        m = self.server()
        m.remove("proc/driver/nvidia/params")
        self.expect(m, {"doorbells": "cannot tell", "stream memory operations": "cannot tell"}, 3, "cannot be read")

    def test_iommu(self):
        """Doorbells are mapped for a GPU whose addresses an IOMMU translates."""
        for remap, iommu, verdicts in ((1, "DMA-FQ", {}), (0, "DMA-FQ", {"GPU0": "broken"}), (0, "identity", {})):
            m = self.server(remap=remap)
            m.iommu(iommu)
            self.assertEqual((self.found(m), self.found(m, *NEED)), ({}, verdicts))
        m = self.server()
        m.iommu("DMA-FQ")
        m.put("proc/driver/nvidia/params", 'EnableStreamMemOPs: 1\nRegistryDwords: "PeerMappingOverride=1"\n')
        self.assertEqual(self.found(m, *NEED), {"GPU0": "broken"})

    def test_gdrcopy(self):
        m = self.server()
        os.unlink(m.path + "/sys/module/gdrdrv/version")
        os.rmdir(m.path + "/sys/module/gdrdrv")
        self.expect(m, {}, 0, "NVSHMEM before 3.4.5 needs it")

    def test_adapters(self):
        m = self.server()
        for address in [a for a, place in m.where.items() if os.path.isdir(f"{m.path}/sys/devices/{place}/infiniband")]:
            os.unlink(f"{m.path}/sys/devices/{m.where[address]}/driver")
            m.driver(address, "bnxt_en")
        self.assertEqual((self.found(m), self.found(m, *NEED)), ({}, {"adapters": "cannot tell"}))

    def test_other_makers(self):
        m = machines.amd(self.folder())
        self.assertEqual((self.found(m), self.words), ({}, "[]"))
        self.assertEqual((self.found(m, *NEED), self.told(m, *NEED)[0]), ({"GPUs": "cannot tell"}, 3))

    def test_rdma_is_needed_too(self):
        """The word asks for RDMA, and for what the GPU needs to start it."""
        m = self.server()
        wanted = self.told(m, *NEED)[1]["wanted"]
        self.assertEqual([w["ways"] for w in wanted], [["dmabuf", "peermem", "coherent"]])
        m.put("proc/kallsyms", "0000000000000000 T nothing\n")
        self.assertEqual((self.found(m, *NEED), self.told(m, *NEED)[0]), ({}, 1))

    def test_accepted(self):
        m = self.server("")
        self.assertEqual(self.told(m, *NEED, "--ignore", "gpu-initiated:doorbells")[0], 0)
        self.assertEqual(self.told(m, "--need", "rdma")[0], 0)
        self.assertEqual(self.told(m, "--need", "rdma,gpu-initiated")[0], 1)


if __name__ == "__main__":
    unittest.main()
