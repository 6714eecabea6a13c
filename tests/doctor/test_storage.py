#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""GPUDirect Storage on made-up machines: by p2pdma, by nvidia-fs, and what cufile.json says."""

import errno
import json
import os
import shutil
import tarfile
import unittest

import machines
from findings import Findings

KEYS = "RMForceStaticBar1=1;RmForceDisableIomapWC=1;"
DRIVE = "0000:15:00.0"
CUFILE = """{
    // CUDA's own has comments, "quoted" ones too
    "logging": { "level": "ERROR" },
    "properties": {
        // "use_pci_p2pdma": false
        "allow_compat_mode": %s,
        "use_pci_p2pdma": %s
    }
}
// the end
"""
NAMES = "0000000000000000 t nvme_v1_register_nvfs_dma_ops\t[nvme]\n"


class Storage(Findings):
    check = "storage"

    def bare(self, driver="610.43.02", opened=True, kernel="6.8.0-45-generic"):
        """A GPU and a drive below one switch, and nothing of GPUDirect Storage."""
        m = machines.Machine(self.folder(), kernel)
        m.first("0000:10:00.0", "pci0000:10")
        up = m.port("0000:11:00.0", m.port("0000:10:01.0", "pci0000:10", 4), 5)
        m.gpu("0000:13:00.0", m.port("0000:12:00.0", up, 6))
        m.device(DRIVE, m.port("0000:12:02.0", up, 6), (0x144d, 0xa808), 0x010802, bars=((0, 16384),), driver="nvme",
                 known_as=("nvme/nvme0", "nvme/nvme0/nvme0n1"))
        machines.software(m, 0)
        m.nvidia(driver, opened)
        m.put("proc/kallsyms", "0000000000000000 T pci_p2pdma_distance_many\n")
        m.put("sys/module/nvme_core/parameters/multipath", "Y\n")
        return self.params(m, "")

    def params(self, m, keys):
        return m.put("proc/driver/nvidia/params", "ResmanDebugLevel: 4294967295\nEnableStreamMemOPs: 0\n"
                     f'RegistryDwords: "{keys}"\nRegistryDwordsPerDevice: ""\nRmMsg: ""\n')

    def by_p2pdma(self, **more):
        m = self.params(self.bare(**more), KEYS)
        return m.put("etc/cufile.json", CUFILE % ("true", "true"))

    def by_nvidia_fs(self, **more):
        m = self.bare(**more)
        m.module("nvidia_fs", "2.28.4")
        return m.put("proc/kallsyms", NAMES)

    def expect(self, m, way, state, verdict, code, *args):
        self.assertEqual(self.state(m, "GPU0", "NVME0", way, *args)[0], state)
        self.assertEqual(self.found(m, *args), verdict)
        self.assertEqual(self.told(m, *args)[0], code)

    # ---- in order

    def test_in_order(self):
        self.expect(self.by_p2pdma(), "p2pdma", "works", {}, 0)
        self.expect(self.by_nvidia_fs(), "nvidia_p2p", "works",
                    {"static BAR1": "broken", "write combining": "broken", "/etc/cufile.json": "broken"}, 0)
        for m in (self.by_p2pdma(), self.by_nvidia_fs()):
            self.assertEqual(self.told(m, "--need", "storage")[0], 0)

    def test_not_installed(self):
        """Nothing is wanted of drives then, but what is needed is said if it is asked for."""
        m = self.bare()
        self.expect(m, "nvidia_p2p", "does not apply", self.found(m), 0)
        self.expect(m, "nvidia_p2p", "does not work", self.found(m), 1, "--need", "storage")
        # The toolkit's own file is no sign.
        m.put("etc/cufile.json", CUFILE % ("true", "false"))
        self.assertEqual(self.told(m)[0], 0)
        self.assertEqual(self.told(m, "--need", "storage")[0], 1)
        self.assertEqual(self.found(machines.server(self.folder(), per_socket=1)), {})

    def test_installed(self):
        m = self.bare()
        m.folder("usr/src/nvidia-fs-2.28.4")
        self.assertEqual(self.told(m)[0], 1)
        self.assertEqual(self.state(m, "GPU0", "NVME0", "nvidia_p2p"), ("does not work", "nvidia-fs is not loaded"))

    # ---- p2pdma

    def test_driver(self):
        for driver, opened, good in (("560.35.03", True, False), ("565.57.01", True, True), ("565.57.01", False, False),
                                     ("610.43.02", True, True)):
            m = self.by_p2pdma(driver=driver, opened=opened)
            self.expect(m, "p2pdma", "works" if good else "does not work", {} if good else {"NVIDIA's driver": "broken"},
                        0 if good else 1)
            self.assertEqual("release 565 or later" in self.words, not good)

    def test_keys(self):
        both = ["static BAR1", "write combining"]
        for keys, lacking in (("", both), ("RMForceStaticBar1=1", both[1:]), ("RmForceDisableIomapWC=0x1;", both[:1]),
                              ("RMForceStaticBar1=0;RmForceDisableIomapWC=1;", both[:1]), (f"PeerMappingOverride=1; {KEYS}", []),
                              ("XRMForceStaticBar1=1;RMForceStaticBar12=1;RmForceDisableIomapWC=1", both[:1]),
                              ("RMForceStaticBar1=;RmForceDisableIomapWC=1", both[:1])):
            m = self.params(self.by_p2pdma(), keys)
            self.expect(m, "p2pdma", "does not work" if lacking else "works", {name: "broken" for name in lacking},
                        1 if lacking else 0)
        for content in ("", "nothing of it\n"):
            m = self.by_p2pdma().put("proc/driver/nvidia/params", content)
            self.expect(m, "p2pdma", "cannot tell", {name: "cannot tell" for name in both}, 3)
        m.remove("proc/driver/nvidia/params")
        self.expect(m, "p2pdma", "cannot tell", {name: "cannot tell" for name in both}, 3)

    def test_other_processor(self):
        m = self.by_p2pdma().put("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\n")
        self.assertEqual(self.found(m), {"this processor": "cannot tell"})

    def test_kernel(self):
        m = self.by_p2pdma()
        m.kernel_config(PCI_P2PDMA=None)
        self.assertEqual(self.state(m, "GPU0", "NVME0", "p2pdma"),
                         ("does not work", "the kernel is built without PCI_P2PDMA"))
        self.assertEqual(self.told(m)[0], 1)

    def namespace(self, m, *names):
        shutil.rmtree(f"{m.path}/sys/devices/{m.where[DRIVE]}/nvme/nvme0")
        m.folder(f"sys/devices/{m.where[DRIVE]}/nvme/nvme0")
        for name in names:
            m.folder(f"sys/devices/{m.where[DRIVE]}/nvme/nvme0/{name}")

    def test_multipath(self):
        for kernel, names, verdict in (("6.8.0", ["nvme0n1"], {}), ("6.8.0", ["nvme0c0n1"], {"NVME0": "broken"}),
                                       ("6.8.0", ["hwmon1", "nvme0c1n1", "power"], {"NVME0": "broken"}),
                                       ("6.8.0", ["hwmon1", "nvme10c1n1"], {"NVME0": "cannot tell"}),
                                       ("7.1.9", ["nvme0c0n1"], {"NVME0": "broken"}),
                                       ("7.2.0", ["nvme0c0n1"], {"NVME0": "cannot tell"})):
            m = self.by_p2pdma(kernel=kernel)
            self.namespace(m, *names)
            self.assertEqual(self.found(m), verdict, (kernel, names))
            m.put("sys/module/nvme_core/parameters/multipath", "N\n")
            self.assertEqual(self.found(m), {})
            m.remove("sys/module/nvme_core/parameters/multipath")
            self.assertEqual(self.found(m), {})

    # ---- nvidia-fs

    def test_nvme_driver(self):
        m = self.by_nvidia_fs()
        m.put("proc/kallsyms", NAMES.replace("v1", "v2"))
        self.assertNotIn("nvidia-fs", self.found(m))
        m.put("proc/kallsyms", "0000000000000000 T pci_p2pdma_distance_many\n")
        self.assertEqual((self.found(m)["nvidia-fs"], self.told(m)[0]), ("broken", 1))
        self.assertEqual(self.state(m, "GPU0", "NVME0", "nvidia_p2p")[0], "does not work")
        # It found the driver when it was used first.
        m.put("proc/driver/nvidia-fs/modules", "nvme: 1.0\n")
        self.assertNotIn("nvidia-fs", self.found(m))
        m.put("proc/driver/nvidia-fs/modules", "nvme_rdma: 1.0\n")
        self.assertIn("nvidia-fs", self.found(m))
        m.put("proc/driver/nvidia-fs/modules", "")
        m.remove("proc/kallsyms")
        self.assertEqual((self.found(m)["nvidia-fs"], self.told(m)[0]), ("cannot tell", 3))

    def test_others_keep_their_ways(self):
        """What is said of drives does not bear on cards."""
        m = self.by_nvidia_fs()
        m.put("proc/kallsyms", "")
        root = m.port("0000:20:01.0", "pci0000:20", 4)
        m.device("0000:21:00.0", root, (0x10ee, 0x9034), 0x058000, bars=((0, machines.MIB),), driver="capture")
        self.assertEqual(self.state(m, "GPU0", "NVME0", "nvidia_p2p")[0], "does not work")
        self.assertNotEqual(self.state(m, "GPU0", "CARD0", "nvidia_p2p")[0], "does not work")

    def test_softgpu(self):
        """nvidia-fs takes memory of whatever stands in for NVIDIA's driver; there is nothing of that driver's to examine."""
        m = machines.Machine(self.folder())
        up = m.port("0000:11:00.0", m.port("0000:10:01.0", "pci0000:10", 4), 5)
        m.device("0000:13:00.0", m.port("0000:12:00.0", up, 6), (0x1af4, 0x1110), 0x050000, bars=((2, machines.GIB),), driver="softgpu")
        m.device(DRIVE, m.port("0000:12:02.0", up, 6), (0x144d, 0xa808), 0x010802, driver="nvme", known_as=("nvme/nvme0",))
        m.module("nvidia_fs", "2.28.4")
        self.assertEqual(self.state(m, "GPU0", "NVME0", "nvidia_p2p"), ("does not work", "the GPU's driver is not loaded"))
        m.module("nvidia")
        self.assertEqual(self.state(m, "GPU0", "NVME0", "nvidia_p2p")[0], "works")
        self.assertEqual((self.found(m), self.words), ({}, "[]"))

    # ---- cufile.json

    def test_cufile(self):
        m = self.by_p2pdma()
        for content, verdict, word in (
                (CUFILE % ("true", "false"), "broken", "host memory"), (CUFILE % ("false", "false"), "broken", "refuses"),
                ("{}", "broken", "use_pci_p2pdma: false, allow_compat_mode: true"), ('{"properties": {}}', "broken", "use_pci"),
                ("", "broken", "line 1: it ends too early"), ("{\n\n", "broken", "line 3: it ends too early"),
                ('{"properties":\n{"use_pci_p2pdma": true},\n]', "broken", "line 3"), ("[]", "broken", "not a JSON object"),
                ("null\n", "broken", "not a JSON object"), ('{"properties": 3}', "broken", "properties is no object"),
                ('{"properties": {"use_pci_p2pdma": "true"}}', "broken", "properties.use_pci_p2pdma is neither true nor false"),
                ('{"properties": {"use_pci_p2pdma": true, "allow_compat_mode": 1}}', "broken", "allow_compat_mode is neither"),
                ("{} {}", "broken", "more after the end"), ("{}\n/", "broken", "line 2: "),
                ("{}\0{}", "broken", "more after the end"), ("//" + "x" * (1 << 20), "broken", "longer than 1 MiB"), ("[" * 1000, "broken", "line 1"), (b"{\xff}", "broken", "line 1"),
                ('{"properties": {"use_pci_p2pdma": true}} // and // so on', None, "true"),
                ("// first\n" + CUFILE % ("false", "true") + "\n\t", None, "allow_compat_mode: false")):
            m.put("etc/cufile.json", content)
            self.assertEqual(self.found(m, "--need", "storage"), {"/etc/cufile.json": verdict} if verdict else {}, content)
            self.assertIn(word, self.words)
            self.assertEqual(self.told(m, "--need", "storage")[0], 1 if verdict else 0, content)

    def test_malformed_counts(self):
        """An administrator's hand was at it: drives are wanted."""
        for m in (self.by_p2pdma(), self.by_nvidia_fs()):
            m.put("etc/cufile.json", "{,}")
            self.assertEqual(self.told(m)[0], 1)
            self.assertEqual(self.found(m)["/etc/cufile.json"], "broken")

    def test_unreadable(self):
        m = self.by_p2pdma()
        m.remove("etc/cufile.json")
        m.error("lines", "/etc/cufile.json", errno.EACCES)
        self.assertEqual(self.found(m, "--need", "storage"), {"/etc/cufile.json": "cannot tell"})

    # ---- file systems: notes

    def test_mounts(self):
        m = self.by_p2pdma()
        m.put("proc/mounts", "/dev/nvme0n1p1 /data xfs rw,noatime 0 0\n/dev/nvme0n1p2 /other ext4 rw,data=ordered 0 0\n"
              "/dev/nvme10n1 /elsewhere btrfs rw 0 0\n/dev/sda1 / btrfs rw 0 0\nsecret:/home /home nfs rw,addr=10.0.0.1 0 0\n")
        self.assertEqual(self.found(m), {})
        self.assertIn("nvme0n1p1 is xfs at /data", self.words)
        self.assertNotIn("host memory", self.words)
        self.assertNotIn("elsewhere", self.words)
        for options in ("btrfs rw", "ext4 rw,data=journal", "ext4 rw,data=writeback"):
            m.put("proc/mounts", f"/dev/nvme0n1 /data {options} 0 0\nmangled\n/dev/nvme0n1\n/dev/nvme0n1 {'x' * 5000}\n")
            self.assertEqual(self.found(m), {})
            self.assertIn("those here go through host memory", self.words)

    def test_raid(self):
        m = self.by_p2pdma()
        m.put("proc/mdstat", "Personalities : [raid0]\nmd0 : active raid0 nvme1n1[1] nvme0n1[0]\n      7 blocks\n\nunused devices: <none>\n")
        self.assertEqual(self.found(m), {})
        self.assertIn("md0: raid0 of NVMe drives", self.words)

    def unpacked(self, m):
        """The bundle's bytes, and the machine that is in it."""
        file = os.path.join(self.folder(), "b.tar")
        self.told(m, "--bundle", file)
        there = machines.Machine(self.folder())
        with tarfile.open(file) as bundle:
            shutil.rmtree(there.path)
            bundle.extractall(there.path)
        with open(file, "rb") as bundle:
            return bundle.read(), there

    def test_bundle(self):
        """Of these files only what says something is kept."""
        m = self.by_p2pdma()
        m.put("proc/mounts", "secret:/home /home nfs rw,addr=10.0.0.1 0 0\n/dev/nvme0n1 /data xfs rw 0 0\n")
        m.put("etc/cufile.json", '{"properties": {"rdma_dev_addr_list": ["10.0.0.2"], "use_pci_p2pdma": true}}')
        data, _ = self.unpacked(m)
        for word, kept in ((b"10.0.0.1", False), (b"/data", True), (b"ResmanDebugLevel", False), (b"RMForceStaticBar1", True),
                           (b"10.0.0.2", False), (b"use_pci_p2pdma=1 allow_compat_mode=1", True)):
            self.assertEqual(word in data, kept, word)

    def test_bundle_again(self):
        """A bundle says the same as its machine, and so does a bundle of it."""
        for content in (CUFILE % ("false", "true"), CUFILE % ("true", "false"), "", "{,}", '{"properties": {"use_pci_p2pdma": 3}}', None):
            m = self.by_p2pdma()
            if content is None:
                m.remove("etc/cufile.json")
            else:
                m.put("etc/cufile.json", content)
            seen = []
            for _ in range(3):
                self.found(m, "--need", "storage")
                seen.append((self.words, self.told(m)[0]))
                m = self.unpacked(m)[1]
            self.assertEqual(seen, [seen[0]] * 3, content)
        m.put("cufile.facts", "use_pci_p2pdma=yes\n")
        self.assertEqual(self.found(m, "--need", "storage"), {"/etc/cufile.json": "broken"})

    def test_amd(self):
        """hipFile: nothing of NVIDIA's is asked for."""
        m = machines.amd(self.folder())
        m.device("0000:60:00.0", m.port("0000:50:01.1", "pci0000:50", 4), (0x144d, 0xa808), 0x010802, driver="nvme",
                 known_as=("nvme/nvme0", "nvme/nvme0/nvme0c0n1"))
        m.put("sys/module/nvme_core/parameters/multipath", "Y\n")
        self.assertEqual(self.found(m), {"NVME0": "broken"})
        self.assertEqual({f["subject"] for f in json.loads(self.words)}, {"NVME0"})


if __name__ == "__main__":
    unittest.main()
