#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The doctor's table of bad releases: each row fires inside its range, and not one release beside either end."""

import os
import re
import shutil
import unittest

import machines
from findings import Findings

TABLE = os.path.join(os.path.dirname(__file__), "../../peerdma/tools/doctor/known_releases.c")


def server(case, kernel="6.8.0-45-generic", driver="610.43.02", opened=True, iommu="DMA-FQ", ofed="24.10-1.1.4", hmm="N"):
    """A GPU, an adapter, a drive and a card; nothing of it is in the table."""
    m = machines.Machine(case.folder(), kernel)
    m.first("0000:10:00.0", "pci0000:10")
    up = m.port("0000:11:00.0", m.port("0000:10:01.0", "pci0000:10", 4), 5)
    below = [m.port(f"0000:12:{slot:02x}.0", up, 6) for slot in range(4)]
    m.gpu("0000:13:00.0", below[0])
    m.nic("0000:14:00.0", below[1], 0)
    m.device("0000:15:00.0", below[2], (0x144d, 0xa808), 0x010802, bars=((0, 16384),), driver="nvme", known_as=("nvme/nvme0",))
    m.device("0000:16:00.0", below[3], (0x10ee, 0x9034), 0x058000, bars=((0, machines.MIB),), driver="capture")
    machines.software(m, 1)
    m.nvidia(driver, opened)
    m.rdma(1, ofed)
    m.iommu(iommu)
    m.put("sys/module/nvidia_uvm/parameters/uvm_disable_hmm", hmm + "\n")
    return m


def symbols(m, *names):
    with open(os.path.join(m.path, "proc/kallsyms"), "a", encoding="ascii") as file:
        file.write("".join(f"0000000000000000 T {name}\t[nvme]\n" for name in names))


def nvidia(release):
    return lambda case, **more: server(case, driver=release, **more)


def ofed(release):
    def make(case, **more):
        m = server(case, ofed=release + "-0.1.2", **more)
        m.module("nvidia_fs", "2.28.4")
        symbols(m, "nvme_v2_register_nvfs_dma_ops")
        return m
    return make


def loaded(release):
    def make(case, **more):
        m = server(case, **more)
        m.module("gdrdrv", release)
        return m
    return make


def installed(release):
    def make(case, **more):
        m = server(case, **more)
        m.folder(f"usr/src/gdrdrv-{release}")
        m.folder("usr/src/linux-headers-6.8.0")
        return m
    return make


class Row:
    """ranges: of releases, (last good one before, first bad one, last bad one, first good one after); kernels: the same, if the
    row names any. None: there is no such."""

    def __init__(self, verdict, make, *ranges, kernels=None, ways):
        self.verdict, self.make, self.ranges, self.kernels, self.ways = verdict, make, ranges, kernels, ways


PAGES = ("6.14.11-generic", "6.15.0-1-generic", "7.9.0", None)
LATER_KERNELS = ("7.0.99", "7.1.0", "9.0.0", None)
ROWS = {
    "callback-race": Row("broken", nvidia, ("510.108.03", "515.43.04", "525.105.16", "525.105.17"),
                         ("525.147.05", "530.30.02", "535.13", "535.14"), ways=set()),
    "get-pages-double-free": Row("broken", nvidia, ("510.108.03", "515.43.04", "525.125.06", "525.147.05"),
                                 ("525.147.05", "530.30.02", "535.113.01", "535.129.03"),
                                 ("535.288.01", "545.23.06", "545.23.08", "545.29.02"), ways=set()),
    "exit-panic": Row("broken", nvidia, ("590.48.01", "595.44.02", "595.99.01", "610.10.01"), ways={"nvidia_p2p"}),
    "dmabuf-raw-bar1": Row("broken", nvidia, ("595.83.01", "595.84", "595.84.99", "595.85.01"),
                           kernels=("6.19.9", "7.0.0-30-generic", "7.0.99", "7.1.0"), ways={"dmabuf"}),
    "dmabuf-raw-bar1-later-kernels": Row("cannot tell", nvidia, ("595.83.01", "595.84", "595.84.99", "595.85.01"),
                                         kernels=LATER_KERNELS, ways={"dmabuf"}),
    "dmabuf-raw-bar1-later-drivers": Row("cannot tell", nvidia, ("595.84.99", "595.85", "595.99.01", "610.10.01"),
                                         kernels=("6.19.9", "7.0.0", "9.0.0", None), ways={"dmabuf"}),
    "p2pdma-page-counts": Row("broken", nvidia, ("560.35.03", "565.57.01", "580.142", "580.143.01"),
                              ("580.199.01", "590.44.01", "590.48.01", "595.44.02"), kernels=PAGES, ways={"p2pdma"}),
    "p2pdma-page-counts-later-580": Row("cannot tell", nvidia, ("580.142", "580.143", "580.199.01", "590.44.01"),
                                        kernels=PAGES, ways={"p2pdma"}),
    "nvme-symbol-of-ofed": Row("broken", ofed, ("25.10", "26.01", "26.03", "26.04"), ways={"nvidia_p2p"}),
    "gdrcopy-build": Row("slow", installed, (None, "1.3", "2.5.1-1", "2.5.2-1"), kernels=PAGES, ways=set()),
    "gdrcopy-use-after-free": Row("cannot tell", loaded, (None, "2.0", "2.4", "2.5"), ways=set()),
}


class Releases(Findings):
    check = "release"

    def test_every_row_has_a_test(self):
        with open(TABLE, encoding="utf-8") as file:
            self.assertEqual(re.findall(r'\.name = "([^"]*)"', file.read()), list(ROWS))

    def test_callback_race(self):
        """NVIDIA's document: from R515 on, until 525.105.17 in that branch, and 535.14 in R535."""
        for version, race in (("510.108.03", False), ("515.43.04", True), ("520.61.05", True), ("525.105.16", True),
                              ("525.105.17", False), ("525.147.05", False), ("530.30.02", True), ("535.13", True),
                              ("535.14", False), ("535.54.03", False), ("550.90.07", False)):
            for opened in (False, True):
                self.assertEqual("callback-race" in self.found(server(self, driver=version, opened=opened)), race, version)
        self.found(server(self, driver="530.30.02"))
        for word in ("530.30.02, open", "535.14"):
            self.assertIn(word, self.words)

    def fires(self, name, release, kernel):
        m = ROWS[name].make(release)(self, **({"kernel": kernel} if kernel else {}))
        findings = [f for f in self.told(m)[1]["findings"] if f["check"] == "release" and f["subject"] == name]
        for f in findings:
            self.assertEqual((f["verdict"], set(f["ways"])), (ROWS[name].verdict, ROWS[name].ways))
            self.assertTrue(f["consequence"] and f["remedy"])
            self.assertIn("reported", [e["source"] for e in f["evidence"]])
        return bool(findings)

    def test_releases(self):
        for name, row in ROWS.items():
            kernel = row.kernels[1] if row.kernels else None
            for before, first, last, after in row.ranges:
                for release, bad in ((before, False), (first, True), (last, True), (after, False)):
                    if release:
                        with self.subTest(name, release=release, kernel=kernel):
                            self.assertEqual(self.fires(name, release, kernel), bad)

    def test_kernels(self):
        for name, row in ROWS.items():
            if not row.kernels:
                continue
            before, first, last, after = row.kernels
            for kernel, bad in ((before, False), (first, True), (last, True), (after, False)):
                if kernel:
                    with self.subTest(name, kernel=kernel):
                        self.assertEqual(self.fires(name, row.ranges[0][1], kernel), bad)

    def test_none(self):
        """What was looked at is said."""
        self.assertEqual(self.found(server(self)), {})
        self.assertIn("610.43.02, open: not known to be bad", self.words)
        self.assertIn("24.10-1.1.4: not known to be bad", self.words)
        self.assertEqual(self.found(machines.amd(self.folder())), {})

    def test_flavour(self):
        for release, kernel, name in (("595.84", "7.0.0", "dmabuf-raw-bar1"), ("590.48.01", "6.17.0", "p2pdma-page-counts")):
            self.assertIn(name, self.found(server(self, kernel, release)))
            self.assertNotIn(name, self.found(server(self, kernel, release, opened=False)))
        self.assertIn("callback-race", self.found(server(self, driver="530.30.02", opened=False)))
        # Of another maker's GPUs it is no matter.
        m = machines.amd(self.folder())
        m.nvidia("530.30.02")
        self.assertEqual(self.found(m), {})

    def test_unknown_kernel(self):
        m = server(self, "linux", "590.48.01")
        self.assertEqual(self.found(m), {"p2pdma-page-counts": "cannot tell"})
        self.assertIn("not known whether it is so here", self.words)

    def test_unknown_release(self):
        m = server(self)
        m.put("proc/driver/nvidia/version", "NVRM version: whatever 1.x\n")
        m.put("sys/module/mlx5_core/version", "devel\n")
        self.assertEqual((self.found(m), self.words), ({}, "[]"))

    # ---- the rows' further conditions

    def test_iommu(self):
        """Of each peer by itself, and the GPU's other peers are none of its concern."""
        m = server(self, "7.0.0-30-generic", "595.84")
        self.assertEqual(self.state(m, "GPU0", "NIC0", "dmabuf")[0], "does not work")
        self.assertEqual(self.state(m, "GPU0", "CARD0", "dmabuf")[0], "does not work")
        self.assertIn("raw addresses", self.state(m, "GPU0", "CARD0", "dmabuf")[1])
        m.put(f"sys/kernel/iommu_groups/{sorted(m.where).index('0000:14:00.0')}/type", "identity\n")
        self.assertEqual(self.state(m, "GPU0", "NIC0", "dmabuf")[0], "works")
        self.assertEqual(self.state(m, "GPU0", "CARD0", "dmabuf")[0], "does not work")
        self.assertEqual(self.found(server(self, "7.0.0-30-generic", "595.84", iommu="identity", hmm="Y")), {})
        shutil.rmtree(m.path + "/sys/kernel/iommu_groups")
        shutil.rmtree(m.path + "/sys/class/iommu")
        self.assertEqual(self.found(m)["dmabuf-raw-bar1"], "cannot tell")

    def test_hmm(self):
        self.assertEqual(self.found(server(self, driver="595.45.04", hmm="Y")), {})
        m = server(self, driver="595.45.04")
        self.assertEqual(self.state(m, "GPU0", "CARD0", "nvidia_p2p")[0], "does not work")
        m.remove("sys/module/nvidia_uvm/parameters/uvm_disable_hmm")
        self.assertEqual(self.found(m), {"exit-panic": "cannot tell"})

    def test_nvme_symbol(self):
        name = "nvme-symbol-of-ofed"
        m = ofed("26.01")(self, iommu="identity")
        self.assertEqual(self.found(m), {name: "broken"})
        self.assertEqual(self.state(m, "GPU0", "CARD0", "nvidia_p2p")[0], "works")
        self.assertEqual(self.state(m, "GPU0", "NVME0", "nvidia_p2p")[0], "does not work")
        symbols(m, "nvme_v1_register_nvfs_dma_ops")
        self.assertEqual(self.found(m), {})
        m = ofed("26.01")(self)
        shutil.rmtree(m.path + "/sys/module/nvidia_fs")
        self.assertEqual(self.found(m), {})

    def test_gdrcopy(self):
        """The newest source counts, and none if the module is loaded; no path depends on it."""
        m = installed("2.4.1")(self, kernel="6.17.0")
        self.assertEqual(self.found(m), {"gdrcopy-build": "slow"})
        self.assertEqual(self.told(m)[0], self.told(server(self, kernel="6.17.0"))[0])
        m.module("gdrdrv", "2.5")
        self.assertEqual(self.found(m), {})
        m = installed("2.4.1")(self, kernel="6.17.0")
        m.folder("usr/src/gdrdrv-2.6")
        self.assertEqual(self.found(m), {})

    def test_crashes(self):
        """Where a module pins memory in that way, it counts also if dma-bufs work; else by the ways that there are."""
        m = server(self, driver="530.30.02", iommu="identity")
        found = {f["subject"]: f for f in self.told(m)[1]["findings"] if f["check"] == "release"}
        for name in ("callback-race", "get-pages-double-free"):
            self.assertEqual((found[name]["ways"], found[name]["counts"]), ([], True))
            self.assertIn("nvidia_peermem is loaded", [e["value"] for e in found[name]["evidence"]])
        self.assertEqual(self.told(m)[0], 1)
        shutil.rmtree(m.path + "/sys/module/nvidia_peermem")
        found = {f["subject"]: f for f in self.told(m)[1]["findings"] if f["check"] == "release"}
        for name in ("callback-race", "get-pages-double-free"):
            self.assertEqual((set(found[name]["ways"]), found[name]["counts"]), ({"peermem", "nvidia_p2p"}, False))
        self.assertEqual(self.state(m, "GPU0", "NIC0", "peermem")[0], "does not work")
        self.assertEqual(self.told(m)[0], 0)

    def test_accepted(self):
        """One row can be accepted by its name."""
        m = server(self, driver="530.30.02", opened=False)
        self.assertEqual(self.told(m, "--need", "peermem")[0], 1)
        self.assertEqual(self.told(m, "--need", "peermem", "--ignore", "release:callback-race")[0], 1)
        self.assertNotEqual(self.told(m, "--need", "peermem", "--ignore",
                                      "release:callback-race,release:get-pages-double-free")[0], 1)
        self.assertNotEqual(self.told(m, "--need", "peermem", "--ignore", "release")[0], 1)


if __name__ == "__main__":
    unittest.main()
