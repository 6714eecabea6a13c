#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`peerdma doctor` on made-up machines: each check sees what it is there for, and says nothing where all is well."""

import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import unittest

import machines
from case import COMMAND, Case, conforms, run

GPU, PORT = "0000:13:00.0", "0000:12:00.0"      # of a server: GPU0, and the switch port above it
SEED = int(os.environ.get("DOCTOR_SEED", "1"))


VERDICTS = {"ok", "cannot tell", "slow", "broken"}
CODES = {"ok": 0, "broken": 1, "slow": 2, "cannot tell": 3}
STATES = {"does not apply", "does not work", "cannot tell", "works slowly", "works"}
DEVICE = ({"label": str, "pci": str, "known_as": (str, None)}, None)
SCHEMA = {"schema": {"peerdma-doctor/2"}, "version": str, "verdict": VERDICTS, "kernel": (str, None), "pair": [{"pci": str}],
          "paths": [{"gpu": DEVICE, "peer": DEVICE, "path": (str, None),
                     "ways": [{"way": str, "state": STATES, "why": (str, None), "remedy": (str, None)}]}],
          "wanted": [{"gpu": DEVICE, "peer": DEVICE, "ways": [str], "state": STATES}],
          "findings": [{"check": str, "title": str, "verdict": VERDICTS, "subject": str, "counts": bool, "ignored": bool, "ways": [str],
                        "evidence": [{"source": str, "value": str}], "consequence": (str, None), "remedy": (str, None)}],
          "moved": [{"between": str, "by": str, "operation": (str, None), "bytes": int, "result": str, "why": (str, None)}]}


class Doctor(Case):
    def server(self, **more):
        return machines.server(self.folder(), per_socket=1, **more)

    def said(self, m, *args):
        """The whole JSON."""
        done = run("doctor", "--json", *args, root=m if isinstance(m, str) else m.path)
        self.assertEqual(done.stderr, "")
        said = json.loads(done.stdout)
        conforms(said, SCHEMA)
        self.assertEqual(done.returncode, CODES[said["verdict"]])
        for f in said["findings"]:
            self.assertTrue(f["evidence"], f)
            self.assertFalse(f["counts"] and (f["verdict"] == "ok" or f["ignored"]), f)
            if f["verdict"] in ("broken", "slow"):
                self.assertTrue(f["consequence"] and f["remedy"], f)
            if f["verdict"] == "cannot tell":
                self.assertTrue(f["consequence"], f)
        if said["verdict"] == "ok":
            self.assertEqual([f for f in said["findings"] if f["counts"]], [])
            self.assertEqual({want["state"] for want in said["wanted"]} - {"works"}, set())
        return said

    def told(self, m, *args):
        return self.said(m, *args)["findings"]

    def counting(self, m, *args):
        return [f for f in self.told(m, *args) if f["counts"]]

    def note(self, m, check, verdict, *words, args=()):
        """It is found, and nothing that is wanted depends on it."""
        said = self.said(m, *args)
        found = [f for f in said["findings"] if f["check"] == check and f["verdict"] == verdict]
        self.assertTrue(found, f"no {verdict} {check} in {said}")
        for word in words:
            self.assertIn(word, json.dumps(found))
        self.assertEqual((said["verdict"], [f for f in said["findings"] if f["counts"]]), ("ok", []))

    def expect(self, m, check, verdict, *words, args=()):
        """Of all checks this one alone counts, it decides the verdict, and its words are said."""
        said = self.said(m, *args)
        found = [f for f in said["findings"] if f["check"] == check and f["verdict"] == verdict]
        self.assertTrue(found, f"no {verdict} {check} in {said}")
        for word in words:
            self.assertIn(word, json.dumps(found))
        self.assertEqual({f["check"] for f in said["findings"] if f["counts"]}, {check})
        self.assertEqual(said["verdict"], verdict)

    def expect_ok(self, m):
        self.assertEqual(self.said(m)["verdict"], "ok")

    # ---- nothing wrong

    def test_in_order(self):
        for m in (self.server(), machines.jetson(self.folder()), machines.amd(self.folder())):
            self.expect_ok(m)
        done = run("doctor", root=self.server().path)
        self.assertEqual((done.returncode, done.stdout.splitlines()[0]), (0, "GPUDirect RDMA should work here."))
        done = run("doctor", "-q", root=self.server().path)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_cannot_tell_and_slow(self):
        """The exit code reports a check that could not run, also if that is the first finding, and another one is slow."""
        m = machines.Machine(self.folder())
        m.device("0000:11:00.0", m.port("0000:10:01.0", "pci0000:10", 4, ids=machines.ICE_LAKE), (0x8086, 0x0bd5), 0x038000,
                 bars=((2, 64 * machines.GIB),), driver="xe")
        m.nic("0000:21:00.0", m.port("0000:20:01.0", "pci0000:20", 4, ids=machines.ICE_LAKE), 0)
        m.rdma(1)
        findings = self.told(m)
        self.assertEqual(findings[0]["verdict"], "cannot tell")
        self.assertEqual([(f["check"], f["verdict"]) for f in findings if f["counts"]], [("gpu", "cannot tell")])
        done = run("doctor", root=m.path)
        self.assertEqual((done.returncode, done.stdout.splitlines()[0]),
                         (3, "Whether GPUDirect RDMA works here cannot be told."))

    # ---- the GPU and its driver

    def test_no_gpu(self):
        m = machines.Machine(self.folder())
        self.expect(m, "gpu", "broken", "none of them a GPU")
        self.expect(m, "gpu", "broken", args=("--need", "none,rdma"))
        self.assertEqual(self.said(m, "--need", "none")["verdict"], "ok")      # a node for logins

    def test_libraries_of_another_release(self):
        m = self.server()
        m.remove("nvml.tsv")
        m.put("nvml.error", "libnvidia-ml.so.1: nvmlInit: Driver/library version mismatch; is the GPU's kernel module loaded?\n")
        self.expect(m, "driver", "broken", "CUDA programs do not start", "boot again")
        m.put(".dockerenv", "")
        self.expect(m, "driver", "broken", "start the container again")
        m.put("nvml.error", "libnvidia-ml.so.1: nvmlInit: Unknown Error\n")
        self.expect_ok(m)

    def test_gpu_driver(self):
        for name, word in (("nouveau", "blacklist"), (None, "modprobe nvidia")):
            m = self.server()
            os.unlink(f"{m.path}/sys/devices/{m.where[GPU]}/driver")
            if name:
                m.link(f"sys/devices/{m.where[GPU]}/driver", "../../drivers/" + name)
            self.expect(m, "gpu", "broken", "GPU0", word)
        # one that is a virtual machine's is none of this system's
        m.link(f"sys/devices/{m.where[GPU]}/driver", "../../drivers/vfio-pci")
        self.assertEqual({want["gpu"]["label"] for want in self.said(m)["wanted"]}, {"GPU1"})
        self.expect_ok(m)

    def test_board(self):
        m = self.server()
        m.put("nvml.tsv", open_text(m, "nvml.tsv").replace("NVIDIA H200", "NVIDIA GeForce RTX 4090"))
        self.expect(m, "board", "broken", "GeForce RTX 4090", "Invalid argument")

    def test_board_unknown(self):
        m = self.server()
        m.remove("nvml.tsv")
        shutil.rmtree(m.path + "/proc/driver/nvidia/gpus")
        findings = self.told(m)
        self.assertEqual({f["check"] for f in findings if f["verdict"] == "cannot tell"}, {"board", "bar1-free"})
        m.put("usr/share/misc/pci.ids", "10de  NVIDIA Corporation\n\t2335  GH100 [GeForce]\n")
        self.assertIn("broken", [f["verdict"] for f in self.told(m) if f["check"] == "board"])

    def test_platform(self):
        """NVIDIA's document: not supported on POWER8, no guarantees on ARM64; Jetson is a matter of its own."""
        for cpu, verdict, word in (("cpu\t\t: POWER8E (raw), altivec supported\nclock\t\t: 3690MHz\n", "broken", "does not support"),
                                   ("cpu\t\t: POWER9, altivec supported\n", "cannot tell", "POWER9"),
                                   ("CPU implementer\t: 0x41\nCPU architecture: 8\n", "cannot tell", "guarantee"),
                                   ("cpu\t\t: something\n", "cannot tell", "names no known processor")):
            m = self.server().put("proc/cpuinfo", "processor\t: 0\n" + cpu)
            self.expect(m, "platform", verdict, word)
        m.remove("proc/cpuinfo")
        self.expect(m, "platform", "cannot tell")
        for m in (machines.jetson(self.folder()), machines.amd(self.folder())):
            m.put("proc/cpuinfo", "CPU implementer\t: 0x41\n")
            self.expect_ok(m)

    def test_driver_unknown(self):
        m = self.server()
        m.put("proc/driver/nvidia/version", "NVRM version: whatever 1.x\n")
        self.assertIn("cannot tell", [f["verdict"] for f in self.told(m) if f["check"] == "driver"])
        m.remove("proc/driver/nvidia/version")
        shutil.rmtree(m.path + "/sys/module/nvidia")
        self.assertIn("broken", [f["verdict"] for f in self.told(m) if f["check"] == "driver"])

    # ---- the kernel's log

    def test_kernel_log(self):
        for line, verdict, word in (
                ("DMAR: [DMA Write NO_PASID] Request device [13:00.0] fault addr 0x380000000000 [fault reason 0x05] PTE Write "
                 "access is not set", "broken", "data is lost"),
                ("nvidia 0000:13:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0012 address=0xfd00000000 flags=0x0020]",
                 "broken", "data is lost"),
                ("NVRM: Xid (PCI:0000:13:00): 79, pid=812, GPU has fallen off the bus.", "broken", "fallen off"),
                ("NVRM: Xid (PCI:0000:13:00): 48, pid=812, name=train, Ch 00000008", "cannot tell", "Xid"),
                ("nvidia 0000:13:00.0: cannot be used for peer-to-peer DMA as the client device (x) and provider (y) do not share "
                 "an upstream bridge or whitelisted host bridge", "slow", "below one switch"),
                ("nvidia 0000:13:00.0: ACS redirect is set between the client and provider (x)", "slow", "disable_acs_redir"),
                ("nvidia 0000:13:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer", "slow", "repeats transfers"),
                ("nvidia 0000:13:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer", "broken", "lost data")):
            m = self.server().put("dev/kmsg", f"NET: started\n{line}\nx\n{line}\n")
            self.expect(m, "kernel-log", verdict, "GPU0", "2 such messages", word)
        # Of another device, or of none, or whose number only ends alike.
        for line in ("DMAR: [DMA Read] Request device [ff:00.0] fault addr 0x0", "NVRM: Xid (PCI:0001:13:00): 79, x",
                     "DMAR: [DMA Read] Request device [1:13:00.0] fault addr 0x0", "0000:13:00.0: nothing special", "\xff" * 5000):
            self.expect_ok(self.server().put("dev/kmsg", line + "\n"))

    def test_kernel_log_unreadable(self):
        m = self.server()
        m.remove("dev/kmsg")
        self.note(m, "kernel-log", "cannot tell", "capture the machine anew")
        m.told("error", "/dev/kmsg", 1, errno.EPERM)
        self.note(m, "kernel-log", "cannot tell", "run as root")

    def test_kernel_log_huge(self):
        """No more than so many lines are kept."""
        m = self.server().put("dev/kmsg", "DMAR: [DMA Read] Request device [13:00.0] fault addr 0x0\n" * 100000)
        self.expect(m, "kernel-log", "broken", "2000 such messages")

    # ---- BARs

    def test_bar_without_address(self):
        m = self.server()
        m.bars(GPU, (0, machines.MIB, 0x140204), (2, 256 * machines.GIB, 0x14220c | machines.UNSET))
        self.expect(m, "bar-address", "broken", "BAR 2 of 256 GiB has no address", "Above 4G")

    def test_bar1_small(self):
        m = self.server()
        m.bars(GPU, (2, 256 * machines.MIB))
        self.expect(m, "bar1-size", "slow", "256 MiB", "unpin early")
        m.put_device(GPU, "config", machines.config(0, None, (2, (256, 65536))))
        self.expect(m, "bar1-size", "slow", "up to 64 GiB", "Resizable BAR")
        # A second BAR's entry, whose last byte is not in the file.
        config = bytearray(machines.config(0, None, (2, (256, 65536)), length=0x100 + 20))
        config[0x100 + 8] = 2 | 2 << 5
        config[0x100 + 12:] = machines.struct.pack("<II", 1 << 4 + 17, 2)
        m.put_device(GPU, "config", bytes(config[:-1]))
        self.expect(m, "bar1-size", "slow", "up to 64 GiB", "Resizable BAR")
        m.put_device(GPU, "config", bytes(config))
        self.expect(m, "bar1-size", "slow", "up to 128 GiB", "Resizable BAR")

    def test_bar1_full(self):
        m = self.server()
        m.nvml(used=250 * machines.GIB)
        self.expect(m, "bar1-free", "broken", "256000 MiB used of 262144 MiB")
        m.put("nvml.tsv", "rubbish\n")
        self.assertIn("cannot tell", [f["verdict"] for f in self.told(m) if f["check"] == "bar1-free"])

    def test_bar1_unknown(self):
        first = machines.Machine(self.folder())
        first.cpu(flags="fpu sse2 hypervisor")
        first.gpu("0000:00:01.0", "pci0000:00", numa=-1)
        machines.software(first, 0)
        for m in (self.server(), first):
            m.nvml(used=0, total=0)
            found = [f for f in self.told(m) if f["check"] == "bar1-free"]
            self.assertEqual([(f["verdict"], f["subject"]) for f in found],
                             [("cannot tell", f"GPU{i}") for i in range(len(m.gpus))])

    def test_amd_bar(self):
        m = machines.amd(self.folder())
        m.put_device("0000:23:00.0", "mem_info_vis_vram_total", "268435456\n")
        self.expect(m, "amd-bar", "broken", "256 MiB of 192 GiB")
        os.unlink(f"{m.path}/sys/devices/{m.where['0000:23:00.0']}/mem_info_vram_total")
        self.expect(m, "amd-bar", "cannot tell")

    # ---- the way

    def test_desktop(self):
        findings = self.told(machines.desktop(self.folder()))
        self.assertEqual({f["check"]: f["verdict"] for f in findings if f["verdict"] != "ok"},
                         {"path": "slow", "bar1-size": "slow"})

    def test_cloud(self):
        findings = self.told(machines.cloud(self.folder()))
        self.assertEqual([f["verdict"] for f in findings if f["check"] == "path"], ["ok"])

    def test_pair(self):
        m = self.server()
        self.expect(m, "path", "slow", "SYS", "node 0", "node 1", args=("gpu0", "mlx5_3"))
        self.assertEqual(self.told(m, "0000:13:00.0", "14:00.0")[0]["verdict"], "ok")
        for args in (["GPU0"], ["GPU0", "GPU99"], ["GPU0", "GPU0"], ["GPU0", "NIC0", "NIC1"], ["--bundle", "/nonexistent/x"],
                     ["--nothing"], ["--probe"], ["-q", "--all"], ["-q", "--json"]):
            done = run("doctor", *args, root=m.path)
            self.assertEqual((done.returncode, "GPU0" in done.stdout), (64, args[0] == "--bundle"), args)
            self.assertNotEqual(done.stderr, "")
        self.assertEqual(run("doctor", root="/nonexistent").returncode, 64)
        self.assertEqual(run("doctor", root=self.folder()).returncode, 3)

    def test_acs(self):
        self.expect(self.server(acs=machines.REDIRECT), "reach", "slow", "0000:12:00.0: 0x001d", "disable_acs_redir")
        for control in (0x04, 0x08, 0x20):          # requests, completions, egress control
            m = self.server()
            m.put_device(PORT, "config", machines.config(6, control))
            self.expect(m, "reach", "slow", f"0000:12:00.0: {control:#06x}", "through-host-bridge (bridge)")
        m.put_device(PORT, "config", machines.config(6, 0x53))            # none of them
        self.expect_ok(m)
        self.assertIn("bus-address (switch)", self.reach(m))
        self.assertIn("nothing on the path redirects", self.reach(m))
        self.assertNotIn("(redirects)", self.reach(m))

    def test_acs_names_only_what_redirects(self):
        m = self.server()
        m.put_device(PORT, "config", machines.config(6, machines.REDIRECT))
        found = [f for f in self.told(m) if f["check"] == "reach" and f["verdict"] == "slow"]
        self.assertTrue(found)
        for f in found:
            self.assertEqual([e["value"] for e in f["evidence"] if e["source"] == "ACS control"],
                             [f"{PORT}: 0x001d (redirects)"])

    def test_acs_without_root(self):
        m = self.server()
        m.put_device(PORT, "config", machines.config(length=64))
        self.expect(m, "reach", "cannot tell", "root")

    def reach(self, m, *args):
        return json.dumps([f for f in self.told(m, *args) if f["check"] == "reach"])

    def test_reach(self):
        """A GPU of a maker that leaves the decision to peerdma.ko: what the module refuses is broken."""
        def machine(first=(0x1234, 0x5678), cpu="GenuineIntel", family=6, **more):
            m = machines.amd(self.folder())
            m.cpu(cpu, family)
            for host in ("20", "40"):
                m.first(f"0000:{host}:00.0", f"pci0000:{host}", first, **more)
            return m

        far = ("NIC0", "GPU1")
        m = machine()
        self.expect_ok(m)
        self.assertIn("not-supported (unknown-bridge)", self.reach(m, *far))
        m.iommu("DMA")
        self.assertIn("not-supported (iommu)", self.reach(m))
        self.assertIn("iommu=pt", self.reach(m))
        self.assertEqual({f["verdict"] for f in self.told(m) if f["check"] == "reach"}, {"broken"})
        m.iommu("identity")
        m.put_device("0000:22:01.0", "config", machines.config(6, machines.REDIRECT))
        self.expect(m, "reach", "broken", "not-supported (acs)", "disable_acs_redir", "0000:22:01.0: 0x001d")
        for ids, text in ((machines.ICE_LAKE, "through-host-bridge (bridge)"), ((0x8086, 0x2f00), "not-supported (bridges-apart)"),
                          ((0x8086, 0x29c0), "not-supported (unknown-bridge)")):
            self.assertIn(text, self.reach(machine(ids), *far), ids)
        self.assertIn("through-host-bridge (processor)", self.reach(machine(cpu="AuthenticAMD", family=0x17), *far))
        self.assertIn("not-supported", self.reach(machine(cpu="AuthenticAMD", family=0x15), *far))
        self.assertIn("not-supported", self.reach(machine(cpu="HygonGenuine", family=0x18), *far))
        m = machine((0x8086, 0x29c0), subsystem=machines.QEMU)
        self.assertIn("not-supported (passed-through)", self.reach(m, *far))
        m.put_device("0000:24:00.0", "config", machines.config(0, subsystem=machines.QEMU))
        m.put_device("0000:23:00.0", "config", machines.config(0, subsystem=machines.QEMU))
        self.assertIn("through-host-bridge (emulated)", self.reach(m, *far))

    def test_reach_of_nvidia(self):
        """NVIDIA's driver has rules of its own: no more can be said than that the path is not known to work."""
        m = machines.desktop(self.folder())
        self.assertIn("through-host-bridge (processor)", self.reach(m))
        m.cpu("GenuineIntel", 6, 151)
        found = [f for f in self.told(m) if f["check"] == "reach"]
        self.assertEqual([f["verdict"] for f in found], ["cannot tell"])
        self.assertIn("not-supported (unknown-bridge)", json.dumps(found))
        self.assertIn("NVIDIA's driver", json.dumps(found))
        m.put("sys/module/peerdma/parameters/path_override", "any\n")
        found = [f for f in self.told(m) if f["check"] == "reach"]
        self.assertEqual([f["verdict"] for f in found], ["cannot tell"])
        self.assertIn("maps the GPU's memory all the same", json.dumps(found))
        m.first("0000:00:00.0", "pci0000:00")
        self.assertIn("through-host-bridge (bridge)", self.reach(m))
        m.first("0000:00:00.0", "pci0000:00", (0x8086, 0x4660))         # a client's
        self.assertIn("not-supported (unknown-bridge)", self.reach(m))

    def test_iommu(self):
        m = self.server()
        m.iommu("DMA-FQ")
        self.expect(m, "iommu", "slow", "iommu=pt", "/type")
        m.iommu("identity")
        self.assertEqual({f["verdict"] for f in self.told(m)}, {"ok"})
        m.iommu("something")
        self.assertEqual({f["check"] for f in self.told(m) if f["verdict"] != "ok"}, {"iommu", "reach"})

    def test_bus_address(self):
        """The kernel's p2pdma uses bus addresses below a switch; a virtual machine's IOMMU translates them."""
        m = self.server()
        m.cpu(flags="fpu hypervisor")
        m.iommu("DMA")
        for value, verdict in (("y", "broken"), (None, "ok"), ("?", "cannot tell")):
            m.kernel_config(PCI_P2PDMA=value)
            if value == "?":
                m.remove(f"boot/config-{m.kernel}")
                m.remove("proc/kallsyms")
            found = [f for f in self.told(m) if f["check"] == "bus-address"]
            self.assertEqual({f["verdict"] for f in found}, {verdict})
        for symbol, verdict in (("pci_p2pdma_distance_many", "broken"), ("pci_p2pdma_distance_many_more", "ok")):
            m.put("proc/kallsyms", f"0000000000000000 T {symbol}\n")
            self.assertEqual({f["verdict"] for f in self.told(m) if f["check"] == "bus-address"}, {verdict})
        m.iommu("identity")
        self.assertNotIn("bus-address", [f["check"] for f in self.told(m)])

    def test_link(self):
        m = self.server()
        m.put_device("0000:14:00.0", "current_link_width", "8\n")
        self.expect(m, "link", "slow", "32 GT/s x8", "32 GT/s x16")
        m = self.server()
        m.put_device("0000:11:00.0", "current_link_speed", "8.0 GT/s PCIe\n")      # of the switch above it
        # from the GPU to its nearest adapter nothing goes over it; to one elsewhere everything does
        self.note(m, "link", "slow", "0000:11:00.0: runs at 8 GT/s x16, both ends can do 32 GT/s x16")
        self.note(m, "link", "slow", "0000:11:00.0", args=("GPU0", "NIC0"))
        self.assertIn("link", {f["check"] for f in self.counting(m, "GPU0", "NIC2")})
        self.assertNotIn("link", {f["check"] for f in self.counting(m, "GPU1", "NIC2")})
        m = self.server()
        m.put_device(GPU, "current_link_speed", "2.5 GT/s PCIe\n")
        self.expect_ok(m)
        self.assertIn("idle", json.dumps(self.told(m)))
        m.put_device(GPU, "current_link_width", "1\n")
        self.expect(m, "link", "slow", "2.5 GT/s x1")

    # ---- RDMA

    def test_no_rdma(self):
        m = self.server()
        shutil.rmtree(m.path + "/sys/class/infiniband")
        for nic in ("0000:14:00.0", "0000:15:00.0", "0000:94:00.0", "0000:95:00.0"):
            shutil.rmtree(f"{m.path}/sys/devices/{m.where[nic]}/infiniband")
        self.expect(m, "rdma", "broken", "no RDMA device", "modprobe mlx5_ib")
        # made for Ethernet, they are nothing that RDMA lacks
        for nic in ("0000:14:00.0", "0000:15:00.0", "0000:94:00.0", "0000:95:00.0"):
            m.put_device(nic, "vendor", "0x8086\n")
        self.expect_ok(m)
        said = self.said(m, "--need", "rdma")
        self.assertEqual((said["verdict"], {want["state"] for want in said["wanted"]}), ("broken", {"does not apply"}))

    def peermem(self, opened=False, core=True, modinfo=None, crc=None, symvers=None):
        """A server whose nvidia-peermem is not loaded."""
        m = self.server()
        m.nvidia("580.95.05", opened)
        shutil.rmtree(m.path + "/sys/module/nvidia_peermem")
        shutil.rmtree(m.path + "/sys/kernel/mm")
        if not core:
            m.put("proc/kallsyms", "0000000000000000 T ib_umem_dmabuf_get\t[ib_uverbs]\n" + machines.IMPORTS)
        if modinfo is not None:
            m.put("commands/modinfo-nvidia-peermem", "filename:       /lib/modules/x/nvidia-peermem.ko\n"
                                                     f"depends:        {modinfo}\nvermagic:       x\n")
        if crc:
            m.put("commands/modversions-nvidia-peermem", f"0x11111111\tmodule_layout\n{crc}\tib_register_peer_memory_client\n")
        if symvers:
            m.put("usr/src/ofa_kernel/default/Module.symvers",
                  f"{symvers}\tib_register_peer_memory_client\tdrivers/infiniband/core/ib_core\tEXPORT_SYMBOL\n")
        return m

    def test_peermem(self):
        self.expect(self.peermem(core=False), "peermem", "broken", "Invalid argument", "proprietary 580.95.05")
        self.expect(self.peermem(), "peermem", "broken", "not installed")
        self.expect(self.peermem(modinfo="nvidia"), "peermem", "broken", "built without", "depends: nvidia")
        self.expect(self.peermem(modinfo="nvidia,ib_core"), "peermem", "broken", "modprobe nvidia-peermem", "Bad address")
        self.expect(self.peermem(modinfo="nvidia,ib_core", crc="0xabcdef01", symvers="0x12345678"), "peermem", "broken",
                    "disagrees about version of symbol ib_register_peer_memory_client", "0xabcdef01", "0x12345678")
        self.expect(self.peermem(modinfo="nvidia,ib_core", crc="0xabcdef01", symvers="0xabcdef01"), "peermem", "broken",
                    "no service loads it")
        # none of it matters where dma-buf does
        for arguments in (dict(core=False), {}, dict(modinfo="nvidia"), dict(modinfo="nvidia,ib_core")):
            self.expect_ok(self.peermem(opened=True, **arguments))

    def test_both_clients(self):
        m = self.server()
        m.module("nv_peer_mem", "1.3")
        self.expect(m, "peermem", "broken", "rmmod nv_peer_mem")

    def test_our_client(self):
        def found(m):
            return {f["subject"]: (f["verdict"], json.dumps(f)) for f in self.told(m) if f["check"] == "peermem"}

        m = self.peermem(opened=True)
        m.module("peerdma_peermem", "1")
        m.module("peerdma_peer_core", "1")
        m.put("sys/module/peerdma_peermem/parameters/persistent", "N\n")
        m.put("sys/kernel/mm/memory_peers/nv_mem/version", "peerdma\n")
        self.assertEqual({s: v for s, (v, _) in found(m).items()}, {"the RDMA core": "ok", "peerdma_peermem": "ok"})
        self.assertIn("peerdma_peer_core", found(m)["the RDMA core"][1])
        self.assertIn("nv_mem", found(m)["peerdma_peermem"][1])
        # listed by another name, with a second registration
        shutil.rmtree(m.path + "/sys/kernel/mm")
        m.put("sys/module/peerdma_peermem/parameters/persistent", "Y\n")
        for name in ("gpus", "gpus_nc"):
            m.put(f"sys/kernel/mm/memory_peers/{name}/version", "peerdma\n")
        self.assertEqual({s: v for s, (v, _) in found(m).items()}, {"the RDMA core": "ok", "peerdma_peermem": "ok"})
        self.assertIn("gpus_nc", found(m)["peerdma_peermem"][1])
        self.assertIn("stays pinned", found(m)["peerdma_peermem"][1])
        # beside each of the others
        m.module("nvidia_peermem", "580.95.05")
        self.expect(m, "peermem", "broken", "nvidia_peermem and peerdma_peermem", "rmmod nvidia_peermem")
        m.module("nv_peer_mem", "1.3")
        self.expect(m, "peermem", "broken", "nv_peer_mem and peerdma_peermem", "rmmod nv_peer_mem")

    def adapter(self, m, name):
        """What is said of one RDMA device: verdict, evidence by source, remedy."""
        found = [f for f in self.told(m) if f["check"] == "adapter" and name in f["subject"]]
        self.assertEqual(len(found), 1, found)
        return found[0]["verdict"], {e["source"]: e["value"] for e in found[0]["evidence"]}, found[0]["remedy"]

    def test_adapter(self):
        """Which memory a driver takes: by the kernel's symbols, and by the table of this project's core."""
        m = self.server()
        self.assertEqual(self.adapter(m, "mlx5_0")[0], "ok")
        self.assertIn("yes: mlx5_ib has a function", self.adapter(m, "mlx5_0")[1]["dma-buf"])
        self.assertIn("yes: a vendor's core: mlx5_ib comes with it", self.adapter(m, "mlx5_0")[1]["peer memory"])
        # a kernel's own, without clients
        m.rdma(2)
        verdict, seen, remedy = self.adapter(m, "mlx5_0")
        self.assertEqual(verdict, "ok")
        self.assertIn("no: this RDMA core takes no peer-memory clients", seen["peer memory"])
        self.assertIn("modprobe peerdma_peermem", remedy)
        # neither way
        symbols = "0000000000000000 T ib_umem_dmabuf_get\t[ib_uverbs]\n"
        m.put("proc/kallsyms", symbols)
        verdict, seen, remedy = self.adapter(m, "mlx5_0")
        self.assertEqual((verdict, seen["dma-buf"][:3]), ("broken", "no:"))
        # of another driver is not this one's
        m.put("proc/kallsyms", symbols + machines.IMPORTS.replace("[mlx5_ib]", "[mlx5_ibx]"))
        self.assertEqual(self.adapter(m, "mlx5_0")[0], "broken")
        m.remove("proc/kallsyms")
        self.assertEqual(self.adapter(m, "mlx5_0")[0], "cannot tell")

    def test_adapter_with_our_core(self):
        m = self.server()
        m.rdma(2)
        symbols = "0000000000000000 T ib_register_peer_memory_client\t[peerdma_peer_core]\n"
        m.put("proc/kallsyms", symbols + machines.IMPORTS)
        m.module("peerdma_peer_core", "0.1.0")
        m.put("sys/module/peerdma_peer_core/parameters/drivers", "\n")
        # its client takes the memory back, which this driver does not bear
        seen, remedy = self.adapter(m, "mlx5_0")[1:]
        self.assertIn("the client has only memory that can be revoked", seen["peer memory"])
        self.assertIn("persistent=1", remedy)
        m.put("sys/kernel/mm/memory_peers/nv_mem_nc/version", "peerdma\n")
        self.assertEqual(self.adapter(m, "mlx5_0")[1]["peer memory"], "yes: the core gives mlx5_ib peer memory that stays (peerdma_peer_core)")
        shutil.rmtree(m.path + "/sys/kernel/mm")
        self.assertIn("no client is registered", self.adapter(m, "mlx5_0")[1]["peer memory"])

    def test_adapter_with_another_driver(self):
        m = machines.cloud(self.folder())
        m.put("proc/kallsyms", "0000000000000000 T ib_register_peer_memory_client\t[peerdma_peer_core]\n")
        m.module("peerdma_peer_core", "0.1.0")
        m.put("sys/class/infiniband/efa_0/node_type", "1: CA\n")
        address = "0000:00:05.0"
        self.assertEqual(self.adapter(m, "efa_0")[1]["driver"], "efa")
        self.assertIn("the core gives efa", self.adapter(m, "efa_0")[1]["peer memory"])
        m.driver(address, "elsewhere")
        verdict, seen, remedy = self.adapter(m, "efa_0")
        self.assertEqual(verdict, "broken")
        self.assertIn("elsewhere is not in the core's table", seen["peer memory"])
        self.assertIn("drivers=NAME", remedy)
        for names, word in (("else,elsewhere", "only memory that can be revoked"), ("else,elsewhere+inval", "that can be revoked ("),
                            ("elsewhere2", "not in the core's table"), ("elsewher,+inval", "not in the core's table")):
            m.put("sys/module/peerdma_peer_core/parameters/drivers", names + "\n")
            self.assertIn(word, self.adapter(m, "efa_0")[1]["peer memory"], names)

    def test_software_adapter(self):
        """peerdma_hca, which has a PCI function, and rxe, which has none."""
        m = machines.cloud(self.folder())
        address = "0000:00:05.0"
        m.driver(address, "virtio-pci")
        m.software_adapter("rxe0", address)
        m.put("proc/kallsyms", "0000000000000000 T ib_umem_dmabuf_get\t[ib_uverbs]\n" + machines.IMPORTS.replace("[mlx5_ib]", "[peerdma_hca]"))
        m.module("peerdma_hca", "0.1.0")
        verdict, seen, remedy = self.adapter(m, "rxe0")
        self.assertEqual((verdict, seen["driver"]), ("ok", "peerdma_hca: software, its figures say nothing about hardware"))
        self.assertIn("yes", seen["dma-buf"])
        m.software_adapter("rxe1")
        verdict, seen, remedy = self.adapter(m, "rxe1")
        self.assertEqual(verdict, "ok")                # another device takes it
        self.assertIn("no: rxe1 is not a PCI function", seen["dma-buf"])
        self.assertIn("no: rxe1 is not a PCI function", seen["peer memory"])
        self.assertIn("use an adapter that is a PCI function", remedy)
        shutil.rmtree(m.path + "/sys/class/infiniband/rxe0")
        self.assertEqual(self.adapter(m, "rxe1")[0], "ok")            # host memory is all that it is for

    def test_names_of_strangers(self):
        """Names of folders in a captured tree are as hostile as what is in its files."""
        m = self.server()
        m.put("sys/kernel/mm/memory_peers/evil\x1b[31mred/version", "1\n")
        m.put("sys/class/infiniband/evil\x1b[31mred/parent", "lo\n")
        done = run("doctor", "--all", root=m.path)
        self.assertIn("red, version 1", done.stdout)
        self.assertIn("red (software)", done.stdout)
        self.assertNotIn("\x1b", done.stdout)

    def test_our_client_with_amd(self):
        m = machines.amd(self.folder())
        m.module("peerdma_peermem", "1")
        m.put("sys/kernel/mm/memory_peers/nv_mem/version", "peerdma\n")
        self.assertEqual({f["subject"]: f["verdict"] for f in self.told(m) if f["check"] == "peermem"},
                         {"the RDMA core": "ok", "peerdma_peermem": "ok"})
        m.put("sys/kernel/mm/memory_peers/amdkfd/version", "1.0\n")
        self.expect(m, "peermem", "broken", "amdkfd and peerdma_peermem", "rmmod peerdma_peermem")

    def test_client_not_shown(self):
        m = self.server()
        shutil.rmtree(m.path + "/sys/kernel/mm")
        self.note(m, "peermem", "cannot tell", "memory_peers")

    def test_client_of_another(self):
        """AMD's client says nothing of NVIDIA's memory."""
        m = self.server()
        shutil.rmtree(m.path + "/sys/kernel/mm")
        m.put("sys/kernel/mm/memory_peers/amdkfd/version", "1.0\n")
        self.note(m, "peermem", "cannot tell", "no client of NVIDIA's")

    def test_peermem_of_amd(self):
        def lines(m):
            return [(f["verdict"], f["subject"], json.dumps(f["evidence"])) for f in self.told(m)
                    if f["check"] == "peermem" and f["subject"] != "the RDMA core"]

        m = machines.amd(self.folder())
        self.assertEqual([line[:2] for line in lines(m)], [("broken", "AMD's client")])       # and dma-buf works
        self.expect_ok(m)
        self.assertIn("no amdkfd", lines(m)[0][2])
        m.kernel_config(DMABUF_MOVE_NOTIFY=None)
        found = lines(m)
        self.assertEqual([line[:2] for line in found], [("broken", "AMD's client")])
        self.assertIn("without DMABUF_MOVE_NOTIFY", found[0][2])
        m.put("sys/kernel/mm/memory_peers/amdkfd/version", "1.0\n")
        m.put("sys/kernel/mm/memory_peers/peerdma/version", "1.0\n")
        self.assertEqual([line[:2] for line in lines(m)], [("ok", "AMD's client"), ("ok", "another client")])

    def test_kernel(self):
        for option in ("PCI_P2PDMA", "DMABUF_MOVE_NOTIFY", "HSA_AMD_P2P"):
            m = machines.amd(self.folder())
            m.kernel_config(**{option: None})
            found = [f for f in self.told(m) if f["check"] == "kernel" and f["verdict"] != "ok"]
            self.assertEqual([f["subject"] for f in found], ["CONFIG_" + option])
        m.remove(f"boot/config-{m.kernel}")
        m.remove("proc/kallsyms")
        self.assertEqual({f["verdict"] for f in self.told(m) if f["check"] == "kernel"}, {"cannot tell"})
        m.rdma(2)
        m.put("commands/config.gz", "CONFIG_PCI_P2PDMA=y\nCONFIG_DMABUF_MOVE_NOTIFY=y\nCONFIG_HSA_AMD_P2P=y\n")
        self.expect_ok(m)

    def test_kernel_without_the_option(self):
        m = machines.amd(self.folder())
        m.rdma(2)
        m.kernel_config(DMABUF_MOVE_NOTIFY=None)
        for release, broken in (("7.0.12-amd64", ["CONFIG_DMABUF_MOVE_NOTIFY"]), ("7.1.3-amd64", []), ("10.0.1", [])):
            m.put(f"boot/config-{release}", open_text(m, f"boot/config-{m.kernel}"))
            m.put("proc/sys/kernel/osrelease", release + "\n")
            self.assertEqual([f["subject"] for f in self.told(m) if f["check"] == "kernel" and f["verdict"] != "ok"], broken, release)

    # ---- the rest

    def test_modes(self):
        # instances are a choice, and no fault
        for pending, word in ((1, "nvidia-smi -mig 0"), (0, "next reset")):
            m = self.server().put("nvml-modes.tsv", f"{GPU}\tmig\t1\n{GPU}\tmig_pending\t{pending}\n")
            self.expect_ok(m)
            self.assertIn(word, json.dumps([f for f in self.told(m) if f["check"] == "partition"]))
        for lines, verdict, word in (((f"{GPU}\tvirtualization\t2",), "cannot tell", "vGPU"),
                                     (("all\tconfidential\t1",), "broken", "bounce buffers")):
            self.expect(self.server().put("nvml-modes.tsv", "\n".join(lines) + "\n"), "partition", verdict, word)
        # lent to guests, it is none of this system's
        m = self.server().put("nvml-modes.tsv", f"{GPU}\tvirtualization\t3\n")
        self.expect_ok(m)
        self.assertEqual({want["gpu"]["label"] for want in self.said(m)["wanted"]}, {"GPU1"})
        off = (f"{GPU}\tmig\t0", f"{GPU}\tvirtualization\t1", "all\tconfidential\t0")
        for lines in (off, (), ("0000:99:00.0\tmig\t1", "all\tmig\t1", f"{GPU}\tmig\t-1", f"{GPU}\tmig", "\xff\0", f"{GPU}\tmig\t1\t")):
            self.expect_ok(self.server().put("nvml-modes.tsv", "\n".join(lines) + "\n"))

    def test_partition(self):
        m = self.server()
        m.put("proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", "")
        self.expect_ok(m)
        self.assertIn("capabilities/gpu0", json.dumps([f for f in self.told(m) if f["check"] == "partition"]))
        m = self.server()
        m.folder(f"sys/devices/{m.where[GPU]}/mdev_supported_types/nvidia-1")
        self.expect_ok(m)
        self.assertIn("vGPU", json.dumps([f for f in self.told(m) if f["check"] == "partition"]))
        m = self.server()
        m.cpu(flags="fpu tdx_guest")
        self.expect(m, "partition", "broken", "tdx_guest")

    def test_limits(self):
        m = self.server()
        m.limits(memlock=8 << 20)
        self.expect(m, "limits", "slow", "8 MiB of this process, 8 MiB at most", "* - memlock unlimited", ".conf")
        # it binds none that may lock memory
        m.put("proc/self/status", "Name:\tpeerdma\nCapPrm:\t0000000000000000\nCapEff:\t000001ffffffffff\n")
        self.expect_ok(m)
        self.assertIn("CAP_IPC_LOCK", json.dumps(self.told(m)))
        m.put("proc/self/status", "CapEff:\t000001ffffffbfff\n")
        self.expect(m, "limits", "slow", "memlock")
        m = self.server()
        m.limits(nofile=512)
        self.note(m, "limits", "slow", "512 of this process", "* - nofile 65536")     # peer memory is no file
        self.expect(m, "limits", "slow", args=("--need", "dmabuf"))
        m.limits(nofile=512, most=524288)      # as systemd sets it: a hard limit must not be lowered
        self.note(m, "limits", "slow", "* soft nofile 65536")
        m.put("proc/self/limits", "Max locked memory         unlimited            unlimited            bytes     \n")
        found = [f for f in self.told(m) if f["check"] == "limits"]
        self.assertEqual([(f["subject"], f["verdict"]) for f in found], [("Max locked memory", "ok"), ("Max open files", "cannot tell")])
        m.remove("proc/self/limits")
        self.note(m, "limits", "cannot tell")
        # without an adapter nothing is registered
        m = machines.cloud(self.folder())
        shutil.rmtree(m.path + "/sys/devices/pci0000:00/0000:00:05.0/infiniband")
        m.put_device("0000:00:05.0", "vendor", "0x1af4\n")
        m.limits(memlock=65536)
        self.assertNotIn("limits", {f["check"] for f in self.counting(m)})

    def test_ports(self):
        m = self.server()
        m.port_of("mlx5_0", "1: DOWN", "2: Polling")
        # of two that are as near the other one is taken
        self.expect_ok(m)
        m.port_of("mlx5_1", "1: DOWN", "3: Disabled")
        self.expect(m, "port", "slow", "GPU's nearest adapter is not connected", "2: Polling", "farther")
        for name in ("mlx5_2", "mlx5_3"):
            m.port_of(name, "2: INIT", "5: LinkUp")
        self.expect(m, "port", "broken", "no adapter is connected", "no signal", "subnet manager")
        m = self.server()
        for name in ("mlx5_0", "mlx5_1"):
            m.port_of(name, link_layer="Ethernet")
            m.folder(f"sys/class/infiniband/{name}/ports/1/gid_attrs/types")
        self.expect(m, "port", "broken", "no GID", "give its network interface an address")
        m.put("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0", "RoCE v2\n")
        self.expect_ok(m)

    # ---- what is wanted

    def test_need(self):
        m = self.server()
        shutil.rmtree(m.path + "/sys/module/nvidia_peermem")
        shutil.rmtree(m.path + "/sys/kernel/mm")
        self.expect_ok(m)
        for need, verdict in (("dmabuf", "ok"), ("peermem", "broken"), ("rdma", "ok"), ("dmabuf,peermem", "broken"), ("card", "broken"),
                              ("none", "ok"), ("host", "slow"), ("nvidia_p2p", "broken")):
            self.assertEqual(self.said(m, "--need", need)["verdict"], verdict, need)
        self.expect(m, "peermem", "broken", "nvidia-peermem", args=("--need", "peermem"))
        wanted = self.said(m, "--need", "peermem", "GPU0", "NIC0")["wanted"]
        self.assertEqual([(want["gpu"]["label"], want["ways"], want["state"]) for want in wanted], [("GPU0", ["peermem"], "does not work")])

    def test_need_of_a_pair(self):
        """Of two GPUs the path is the first one's: nothing is asked of the other."""
        m = machines.amd(self.folder())
        for pair in (("GPU0", "GPU1"), ("GPU1", "GPU0")):
            said = self.said(m, "--need", "p2pdma", *pair)
            self.assertEqual([(want["gpu"]["label"], want["state"]) for want in said["wanted"]], [(pair[0], "works slowly")])

    def test_need_that_nothing_here_meets(self):
        """The doctor names the reason, and exits with 1 also if it could ask no GPU."""
        m = self.server()
        for need, words in (("card", "no card"), ("storage", "no drive"), ("coherent", "no peer")):
            self.expect(m, "need", "broken", words, need, args=("--need", need))
            self.assertIn(words, run("doctor", "--need", need, root=m.path).stdout)
        self.assertIn("What is needed: GPU0, GPU1\n", run("doctor", "--need", "card", root=m.path).stdout)
        for gpu in m.gpus:
            m.driver(gpu, "vfio-pci")
        self.expect_ok(m)
        self.expect(m, "need", "broken", "set aside", args=("--need", "rdma"))
        tegra = machines.jetson(self.folder())
        self.expect(tegra, "need", "broken", "in the processor", args=("--need", "dmabuf,host"))
        self.assertEqual(self.said(tegra, "--need", "host")["verdict"], "ok")

    def test_pair_without_a_gpu(self):
        m = self.server()
        self.assertEqual(run("doctor", "NIC0", "NIC1", root=m.path).stdout.splitlines()[0], "Neither of the two devices is a GPU.")
        self.assertEqual(self.said(m, "NIC0", "NIC1")["verdict"], "ok")
        self.expect(m, "need", "broken", "neither", args=("--need", "dmabuf", "NIC0", "NIC1"))
        self.assertIn("GPU0 and 0000:10:00.0: ", run("doctor", "GPU0", "0000:10:00.0", root=m.path).stdout)

    def test_numbers(self):
        """A GPU that has fallen off the bus is in no list, and a port that is down is no adapter's."""
        m = self.server()
        for need, verdict in (("gpus:2", "ok"), ("gpus:2,adapters:4", "ok"), ("adapters:5", "broken"), ("gpus:3,dmabuf", "broken")):
            self.assertEqual(self.said(m, "--need", need)["verdict"], verdict, need)
        self.expect(m, "need", "broken", "gpus:8", "only 2 GPUs", args=("--need", "gpus:8"))
        m.port_of("mlx5_3", "1: DOWN", "2: Polling")
        self.expect_ok(m)
        self.expect(m, "need", "broken", "only 3 adapters", args=("--need", "adapters:4"))
        for need in ("gpus:", "gpus:0", "gpus:-1", "gpus:8x", "adapters:99999999999", "gpus"):
            done = run("doctor", "--need", need, root=m.path)
            self.assertEqual((done.returncode, done.stdout), (64, ""), need)

    def test_alike(self):
        """Of adapters that are as near, each GPU has its own."""
        m = machines.Machine(self.folder())
        for number in range(3):
            m.gpu(f"0000:00:0{number + 1}.0", "pci0000:00", numa=-1)
            m.nic(f"0000:00:1{number}.0", "pci0000:00", number)
        machines.software(m, 3)
        pairs = [(path["gpu"]["label"], path["peer"]["label"]) for path in self.said(m)["paths"] if path["peer"]]
        self.assertEqual(pairs, [("GPU0", "NIC0"), ("GPU1", "NIC1"), ("GPU2", "NIC2")])

    def test_gpu_to_gpu(self):
        """By NVIDIA's driver itself, of which nothing is in sysfs; AMD's by the kernel's p2pdma."""
        m = self.server()
        said = self.said(m, "GPU0", "GPU1")
        self.assertEqual(said["verdict"], "cannot tell")
        self.assertIn("NVLink", json.dumps(said["paths"]))
        m = machines.amd(self.folder())
        m.kernel_config(PCI_P2PDMA=None)
        self.assertEqual(self.said(m, "GPU0", "GPU1")["verdict"], "broken")

    def test_ignore(self):
        m = self.server()
        m.limits(memlock=65536)
        m.put_device("0000:14:00.0", "current_link_width", "8\n")
        m.put_device("0000:15:00.0", "current_link_width", "8\n")
        self.assertEqual(self.said(m)["verdict"], "slow")
        self.expect(m, "link", "slow", args=("--ignore", "limits"))
        self.expect(m, "limits", "slow", args=("--ignore", "link"))
        self.assertEqual(self.said(m, "--ignore", "limits, link:NIC0")["verdict"], "ok")
        self.assertEqual(self.said(m, "--ignore", "limits, link:NIC3")["verdict"], "slow")
        ignored = [f for f in self.told(m, "--ignore", "limits,link") if f["ignored"]]
        self.assertEqual({f["check"] for f in ignored}, {"limits", "link"})
        self.assertIn("it is accepted", run("doctor", "--all", "--ignore", "limits", root=m.path).stdout)

    def test_configuration(self):
        m, folder = self.server(), self.folder()
        m.limits(memlock=65536)
        config = folder + "/doctor.conf"

        def write(text):
            with open(config, "wb") as file:
                file.write(text)
        write(b"# accepted\nignore = limits   # by us\n\n need=dmabuf,peermem\r\n")
        said = self.said(m, "--config", config)
        self.assertEqual((said["verdict"], {tuple(want["ways"]) for want in said["wanted"]}), ("ok", {("dmabuf",), ("peermem",)}))
        self.assertEqual({tuple(want["ways"]) for want in self.said(m, "--config", config, "--need", "host")["wanted"]}, {("host",)})
        for text, words in ((b"ignore = limit\n", ":1: there is no check 'limit'; did you mean 'limits'?"),
                            (b"need = dmabuf\nneed = dmabof\n", ":2: there is no way 'dmabof'; did you mean 'dmabuf'?"),
                            (b"ignor = link\n", ":1: there is no setting 'ignor'; did you mean 'ignore'?"),
                            (b"need =\n", ":1: nothing stands there"), (b"dmabuf\n", ":1: neither"), (b"need # = none\n", ":1: neither"),
                            (b"ignore = " + b"link," * 100, "too many words"), (b"need = " + b"x" * 500, "too long a word"),
                            (b"need = something\n", "there are dmabuf, peermem"), (b"a\0b", "not a text file"), (b"=\n", ":1: ")):
            write(text)
            done = run("doctor", "--config", config, root=m.path)
            self.assertEqual((done.returncode, done.stdout), (64, ""), text)
            self.assertIn(words, done.stderr)
        for args in (["--config", folder + "/none"], ["--config", folder], ["--need", "dmabof"], ["--ignore", ""], ["--need", ","]):
            done = run("doctor", *args, root=m.path)
            self.assertEqual((done.returncode, done.stdout), (64, ""), args)
            self.assertNotEqual(done.stderr, "")

    def test_nodes(self):
        m = self.server()
        m.node("/dev/nvidiactl", usable=False, mode=0o020660)
        self.expect(m, "nodes", "broken", "/dev/nvidiactl", "mode 0660")
        m = self.server()
        m.error("node", "/dev/infiniband/uverbs2", errno.ENOENT)
        m.told("node", "/dev/infiniband/uverbs2", "")
        m.index = [line for line in m.index if line[1] != "/dev/infiniband/uverbs2"]
        m.node("/dev/infiniband/rdma_cm")
        self.expect(m, "nodes", "broken", "uverbs2", "modprobe ib_uverbs")
        # A container was given the others; of what it was not given nothing is said.
        m.put(".dockerenv", "")
        self.assertNotIn("uverbs2", json.dumps(self.said(m)))
        self.expect_ok(m)

    def test_own_modules(self):
        m = self.server()
        m.module("peerdma", "0.1.0")
        self.expect(m, "peerdma", "broken", "modprobe peerdma_nvidia")
        m.module("peerdma_nvidia")
        self.expect(m, "peerdma", "broken", "/dev/peerdma")
        m.node("/dev/peerdma")
        self.assertEqual({f["verdict"] for f in self.told(m)}, {"ok"})
        m.put("sys/module/peerdma/version", "9.9\n")
        self.expect(m, "peerdma", "broken", "9.9")
        # Of other makers' memory, other modules.
        for make, provider in (machines.amd, "peerdma_amd"), (machines.jetson, "peerdma_tegra"):
            m = make(self.folder())
            m.module("peerdma", "0.1.0")
            self.expect(m, "peerdma", "broken", f"modprobe {provider}")
            m.module(provider)
            m.node("/dev/peerdma")
            self.assertEqual([f["verdict"] for f in self.said(m)["findings"] if f["check"] == "peerdma"], ["ok"])

    # ---- which of several adapters, and which job

    def lack(self, m, *numbers):
        """These adapters of a server have no RDMA device."""
        for number in numbers:
            address = next(a for a in m.where if os.path.isdir(f"{m.path}/sys/devices/{m.where[a]}/infiniband/mlx5_{number}"))
            shutil.rmtree(f"{m.path}/sys/devices/{m.where[address]}/infiniband")
            shutil.rmtree(f"{m.path}/sys/class/infiniband/mlx5_{number}")
            shutil.rmtree(f"{m.path}/sys/class/infiniband_verbs/uverbs{number}")

    def test_nearer_adapter_cannot_work(self):
        """How near an adapter is chooses between those that can work; what keeps the nearer one from it is said."""
        m = self.server()
        self.lack(m, 0)
        self.expect_ok(m)                   # the other one is as near
        self.lack(m, 1)
        self.expect(m, "path", "slow", "GPU0 and NIC2", "NIC0, which is nearer (PIX)", "no RDMA device", "modprobe mlx5_ib")
        self.assertIn("more slowly", run("doctor", root=m.path).stdout.splitlines()[0])
        self.note(m, "rdma", "broken", "NIC0", args=("--ignore", "path"))
        # of two makers: the driver of the nearer one takes no memory of a GPU
        m = self.server()
        m.rdma(4)
        for address in ("0000:14:00.0", "0000:15:00.0"):
            m.driver(address, "bnxt_en")
        self.expect(m, "path", "slow", "GPU0 and NIC2", "bnxt_re has no function that registers dma-bufs")
        # none can
        for address in ("0000:94:00.0", "0000:95:00.0"):
            m.driver(address, "bnxt_en")
        self.expect(m, "adapter", "broken")
        self.lack(m, 0, 1, 2, 3)
        self.expect(m, "rdma", "broken", "modprobe bnxt_re")

    def test_nearer_card_without_a_driver(self):
        m = self.server()
        for number, driver in ((0, None), (1, "qdma-pf")):
            bus = f"0000:{0x18 + 0x80 * number:02x}:00.0"
            m.device(bus, m.port(f"0000:{0x12 + 0x80 * number:02x}:03.0", f"0000:{0x11 + 0x80 * number:02x}:00.0", 6, number),
                     (0x10ee, 0x9038), 0x058000, number, bars=((0, machines.MIB),), driver=driver)
        paths = {(p["gpu"]["label"], (p["peer"] or {}).get("label")) for p in self.said(m)["paths"]}
        self.assertTrue({("GPU0", "CARD1"), ("GPU1", "CARD1")} <= paths, paths)

    def headline(self, m, *args):
        return run("doctor", *args, root=m.path).stdout.splitlines()[0]

    def test_headline_names_the_job(self):
        m = self.server()
        for number in range(2):
            m.device(f"0000:{0x18 + 0x80 * number:02x}:00.0",
                     m.port(f"0000:{0x12 + 0x80 * number:02x}:03.0", f"0000:{0x11 + 0x80 * number:02x}:00.0", 6, number),
                     (0x144d, 0xa80a), 0x010802, number, bars=((0, 16384),), driver="nvme", known_as=(f"nvme/nvme{number}",))
        for number in range(2):
            m.folder(f"sys/devices/{m.where[f'0000:{0x18 + 0x80 * number:02x}:00.0']}/nvme/nvme{number}/nvme{number}n1")
        self.assertEqual(self.headline(m), "GPUDirect RDMA should work here.")
        self.assertEqual(self.headline(m, "--need", "rdma,storage"),
                         "GPUDirect Storage does not work here as it is; GPUDirect RDMA should work.")
        self.assertEqual(self.headline(m, "--need", "storage"), "GPUDirect Storage does not work here as it is.")
        m.limits(memlock=65536)
        self.assertEqual(self.headline(m, "--need", "rdma,storage"), "GPUDirect Storage does not work here as it is.")
        self.lack(m, 0, 1, 2, 3)
        self.assertEqual(self.headline(m, "--need", "rdma,storage"),
                         "GPUDirect RDMA and GPUDirect Storage do not work here as they are.")
        m.limits()
        m.put("proc/driver/nvidia/params", 'RegistryDwords: "RMForceStaticBar1=1;RmForceDisableIomapWC=1"\n')
        m.put("etc/cufile.json", '{"properties": {"use_pci_p2pdma": true}}')
        self.assertEqual(self.headline(m, "--need", "storage"), "GPUDirect Storage should work here.")

    def test_headline_of_cards(self):
        """Cards are GPUDirect RDMA, too: where only they fail, they are named."""
        m = machines.amd(self.folder())
        for number in range(2):
            m.device(f"0000:{0x25 + 0x20 * number:02x}:00.0",
                     m.port(f"0000:{0x22 + 0x20 * number:02x}:02.0", f"0000:{0x21 + 0x20 * number:02x}:00.0", 6),
                     (0x10ee, 0x9038), 0x058000, bars=((0, machines.MIB),), driver="qdma-pf")
        self.assertEqual(self.headline(m), "GPUDirect RDMA should work here.")
        self.assertEqual(self.headline(m, "--need", "card,rdma"), "GPUDirect RDMA should work here.")
        shutil.rmtree(m.path + "/sys/devices/" + m.where["0000:25:00.0"])
        os.unlink(m.path + "/sys/bus/pci/devices/0000:25:00.0")
        m.driver("0000:45:00.0", "vfio-pci")
        self.assertEqual(self.headline(m, "--need", "card,rdma"), "GPUDirect RDMA by cards does not work here as it is; "
                         "GPUDirect RDMA by adapters should work.")

    def test_two_makers(self):
        """What is wrong with one maker's driver says nothing of the other's GPUs."""
        m = machines.amd(self.folder())
        m.gpu("0000:63:00.0", m.port("0000:62:00.0", m.port("0000:61:00.0", m.port("0000:60:01.1", "pci0000:60", 4, ids=(0x1022, 0x14ab)),
                                                            5), 6))
        m.nic("0000:64:00.0", m.port("0000:62:01.0", "0000:61:00.0", 6), 2)
        m.rdma(3)
        m.nvidia()
        m.nvml()
        self.expect_ok(m)

        def failing():
            return {want["gpu"]["label"] for want in self.said(m)["wanted"] if want["state"] != "works"}
        amds, nvidias = {"GPU0", "GPU1"}, {"GPU2"}
        m.node("/dev/kfd", usable=False)
        self.assertEqual(failing(), amds)
        m.node("/dev/kfd")
        m.node("/dev/nvidiactl", usable=False)
        self.assertEqual(failing(), nvidias)
        m.node("/dev/nvidiactl")
        m.put("nvml-modes.tsv", "all\tconfidential\t1\n")
        self.assertEqual(failing(), nvidias)
        m.remove("nvml-modes.tsv")
        m.kernel_config(DMABUF_MOVE_NOTIFY=None)
        self.assertEqual(failing(), amds)
        m.kernel_config(PCI_P2PDMA=None)
        self.assertEqual(failing(), amds)
        m.kernel_config()
        m.put("proc/driver/nvidia/version", "NVRM version: whatever 1.x\n")
        self.assertEqual(failing(), nvidias)
        m.remove("proc/driver/nvidia/version")
        shutil.rmtree(m.path + "/sys/module/nvidia")
        self.assertEqual(failing(), nvidias)

    def test_advice_fits_the_adapter(self):
        """DOCA-OFED is for one maker's adapters."""
        for driver, word in (("mlx5_core", "DOCA-OFED"), ("bnxt_en", "Broadcom"), ("ionic", "Pensando"), ("cxgb4", "the adapter's maker")):
            for make in (machines.amd, self.server):
                m = make() if make == self.server else make(self.folder())
                m.rdma(4 if make == self.server else 2)
                m.kernel_config(DMABUF_MOVE_NOTIFY=None)
                m.nvidia(opened=False) if make == self.server else None
                shutil.rmtree(m.path + "/sys/kernel/mm", ignore_errors=True)
                shutil.rmtree(m.path + "/sys/module/nvidia_peermem", ignore_errors=True)
                for place in m.where.values():
                    if os.path.isdir(f"{m.path}/sys/devices/{place}/infiniband"):
                        m.link(f"sys/devices/{place}/driver", f"/sys/bus/pci/drivers/{driver}")
                said = self.said(m)
                text = json.dumps([f["remedy"] for f in said["findings"]] + [w["remedy"] for p in said["paths"] for w in p["ways"]])
                self.assertIn(word, text, driver)
                self.assertEqual("DOCA-OFED" in text, driver == "mlx5_core", (driver, text))

    def test_device_cgroup(self):
        """Nodes that the process's device cgroup refuses (EPERM) are another job's."""
        def told(m):
            said = self.said(m)
            return said["verdict"], {p["gpu"]["label"] for p in said["paths"]}, json.dumps([f for f in said["findings"] if f["check"] == "nodes"])
        m = self.server()
        m.told("node", "/dev/nvidia1", machines.NODE, "refused")
        verdict, gpus, text = told(m)
        self.assertEqual((verdict, gpus), ("ok", {"GPU0"}))
        for word in ("0000:93:00.0", "/dev/nvidia1", "device cgroup", "--gres", "DeviceAllow", "--gpus"):
            self.assertIn(word, text)
        # rights of a file are another matter
        m.node("/dev/nvidia1", usable=False, mode=0o020600)
        self.expect(m, "nodes", "broken", "/dev/nvidia1", "mode 0600", "group")
        for number in range(2):
            m.told("node", f"/dev/nvidia{number}", machines.NODE, "refused")
        self.expect(m, "gpu", "broken", "device cgroup", "--gres")
        m = self.server()
        m.told("node", "/dev/infiniband/uverbs0", machines.NODE, "refused")
        self.assertIn(("GPU0", "NIC0"), {(p["gpu"]["label"], p["peer"]["label"]) for p in self.said(m)["paths"] if p["peer"]})
        self.assertIn("0000:14:00.0", told(m)[2])
        m = self.server()
        m.told("node", "/dev/nvidiactl", machines.NODE, "refused")
        self.expect(m, "nodes", "broken", "/dev/nvidiactl", "device cgroup", "DeviceAllow")
        m = machines.amd(self.folder())
        for number, address in enumerate(("0000:23:00.0", "0000:43:00.0")):
            m.folder(f"sys/devices/{m.where[address]}/drm/renderD{128 + number}")
            m.told("node", f"/dev/dri/renderD{128 + number}", machines.NODE, "refused" if number else "usable")
        self.assertEqual(told(m)[:2], ("ok", {"GPU0"}))
        self.assertIn("/dev/dri/renderD129", told(m)[2])

    # ---- output

    def test_said_once(self):
        """What a finding says stands with the finding; the line of the path names it."""
        m = self.server()
        m.node("/dev/nvidiactl", usable=False)
        for args in ((), ("--all",)):
            out = " ".join(run("doctor", *args, root=m.path).stdout.split())
            self.assertEqual(out.count("CUDA programs do not start"), 1, out)
            self.assertIn("dma-buf: does not work: see Device nodes below", out)
        self.assertIn("CUDA programs do not start", json.dumps(self.said(m)["paths"]))

    def test_ignored_that_is_not_there(self):
        m, folder = self.server(), self.folder()
        for words, said in (("link:NIC9", "link:NIC9 names no finding here"), ("link:NIX3", "did you mean 'NIC3'?"), ("link:NIC3", ""),
                            ("link", ""), ("link:NIC3,link:NIC8", "link:NIC8 names")):
            done = run("doctor", "--json", "--ignore", words, root=m.path)
            self.assertEqual(done.returncode, 0)
            self.assertIn(said, done.stderr)
            self.assertEqual(bool(done.stderr), bool(said), words)
        with open(folder + "/c", "w", encoding="utf-8") as file:
            file.write("ignore = link:NIC9\n")
        self.assertIn("link:NIC9 names no finding here", run("doctor", "--config", folder + "/c", root=m.path).stderr)
        for args in (("-q",), ("GPU0", "NIC0")):        # prints nothing; other devices are not looked at
            self.assertEqual(run("doctor", "--ignore", "link:NIC9", *args, root=m.path).stderr, "", args)

    def test_errors_are_whole(self):
        """All words that may stand there are in the message, whatever their number."""
        m, folder = self.server(), self.folder() + "/" + "d" * 120
        os.mkdir(folder)
        names = {f["check"] for f in self.told(m)}
        done = run("doctor", "--ignore", "qqqqqqqqqqqqqqqq", root=m.path)
        self.assertEqual((done.returncode, names - set(done.stderr.replace(",", "").split())), (64, set()))
        with open(folder + "/c", "w", encoding="utf-8") as file:
            file.write("\nignore = " + "q" * 60 + "\n")
        done = run("doctor", "--config", folder + "/c", root=m.path)
        self.assertIn(f"{folder}/c:2: there is no check '{'q' * 60}'", done.stderr)
        self.assertEqual(names - set(done.stderr.replace(",", "").split()), set())

    def test_configuration_that_is_no_file(self):
        m, folder = self.server(), self.folder()
        os.mkfifo(folder + "/pipe")
        for path in (folder + "/pipe", folder, "/dev/null", "/dev/zero"):
            done = run("doctor", "--config", path, root=m.path)
            self.assertEqual((done.returncode, done.stdout), (64, ""), path)
            self.assertIn(f"{path}: not a regular file", done.stderr)

    def test_wrong_usage(self):
        """64, also of what stands before the command's name."""
        m = self.server()
        for args in (["--root", "", "doctor"], ["doctor", "--root", ""], ["--nothing", "doctor"], ["--root", "", "--nothing", "doctor", "--json"],
                     ["doctor", "--config", ""], ["doctor", "--compare", "--nothing"], ["doctor", "--compare"], ["doctor", "--compare", "", ""],
                     ["doctor", "--compare", "/nonexistent", m.path], ["--root", "", "doctor", "--compare"], ["doctor", "--pair", "--bundle", ""],
                     ["doctor", "--tsv"], ["doctor", "--need"]):
            done = run(*args)
            self.assertEqual((done.returncode, done.stdout), (64, ""), args)
            self.assertNotEqual(done.stderr, "")
        for args, code in ((["--root", "", "topo"], 2), (["--root", ""], 2), (["--nothing", "topo"], 1), (["--nothing"], 1), (["doctr"], 1),
                           (["--nothing", "doctr"], 1), (["--help", "doctor"], 0)):
            self.assertEqual(run(*args).returncode, code, args)

    def test_people(self):
        m = self.server(acs=machines.REDIRECT)
        m.limits(nofile=512)
        m.put("sys/module/peerdma/version", "9.9\n")
        done = run("doctor", root=m.path)
        order = [line.split()[0] for line in done.stdout.splitlines() if line.startswith(("broken ", "slow ", "cannot "))]
        self.assertEqual(order, ["broken", "slow", "slow"])
        self.assertEqual(done.stdout.splitlines()[0], "The devices here should reach the GPUs' memory, but something that is installed is broken.")
        self.assertIn("GPU0 and NIC0, GPU1 and NIC2", done.stdout)
        self.assertNotIn("ok  ", done.stdout)
        self.assertIn("\nok  ", run("doctor", "--all", root=m.path).stdout)
        self.assertIn("1 broken, 2 slow, 0 cannot tell", run("doctor", "--all", root=m.path).stdout)
        self.assertTrue(all(len(line) < 80 for line in done.stdout.splitlines() if line.startswith("  ")))
        self.assertNotIn("\x1b", done.stdout)
        self.assertIn("\x1b[", run("doctor", "--color", root=m.path).stdout)

    # ---- bundles

    def replay(self, *source):
        """The folder of a bundle that the doctor wrote, after it has said the same about that bundle as about the machine."""
        folder = self.folder()
        first = run("doctor", "--json", "--bundle", folder + "/bundle.tar", *source)
        self.assertEqual(first.stderr, "")
        with tarfile.open(folder + "/bundle.tar") as tar:
            for member in tar.getmembers():
                self.assertTrue(member.isreg() or member.isdir(), member.name)
                self.assertFalse(member.name.startswith(("/", "..")) or "/../" in member.name, member.name)
            tar.extractall(folder + "/machine")
        again = run("doctor", "--json", root=folder + "/machine")
        self.assertEqual((first.returncode, first.stdout), (again.returncode, again.stdout))
        return folder + "/machine"

    def test_probe(self):
        """What is to move data says so where it cannot; tests/vm/doctor.sh has where it can."""
        done = run("doctor", "--json", "--probe")
        if done.returncode == 2 and not done.stdout:
            self.skipTest("no PCI here")
        found = [f for f in json.loads(done.stdout)["findings"] if f["check"] == "probe"]
        self.assertEqual([f["verdict"] for f in found], ["cannot tell"])

    def test_bundle_of_this_machine(self):
        if not os.path.isdir("/sys/bus/pci/devices"):
            self.skipTest("no PCI here")
        self.replay()

    def test_bundles(self):
        for make in (machines.server, machines.desktop, machines.cloud, machines.jetson, machines.amd):
            m = make(self.folder())
            if make == machines.amd:
                m.iommu("DMA")
                m.error("read", "/proc/self/limits", errno.EACCES)
                m.error("lines", "/proc/kallsyms", errno.EPERM)
            place = self.replay("--root", m.path)
            first, again = (run("topo", "--json", root=path).stdout for path in (m.path, place))
            self.assertEqual(first, again)

    def test_captured(self):
        """Two virtual machines as they were: two GPUs and two cards, all below one switch, or on two sockets."""
        told = {}
        for name in ("switch", "sockets"):
            place = self.folder()
            with tarfile.open(f"{os.path.dirname(__file__)}/captured/vm-{name}.tar.gz") as tar:
                tar.extractall(place)
            told[name] = {(f["check"], f["subject"]): f["verdict"] for f in self.told(place)}
            pairs = json.loads(run("topo", "--json", root=place).stdout)["pairs"]
            told[name + " paths"] = [p["path"] for p in pairs]
        self.assertEqual(told["switch paths"], ["PIX"] * 6)
        self.assertEqual(told["sockets paths"], ["SYS", "PHB", "SYS", "SYS", "PHB", "SYS"])
        for name, expected in (("switch", {("iommu", "CARD0"): "slow", ("bus-address", "GPU0 and CARD0"): "ok"}),
                               ("sockets", {("iommu", "CARD0"): "ok", ("path", "GPU1 and CARD1"): "ok"})):
            for key, verdict in {**expected, ("gpu", "GPU1"): "ok", ("bar1-free", "GPU1"): "ok", ("peerdma", "peerdma.ko"): "ok",
                                 ("bar-address", "CARD1"): "ok"}.items():
                self.assertEqual(told[name][key], verdict, (name, key))

    def test_captured_nvidia(self):
        """A machine with one H100 and one with two H200 as they were: all is well with the GPUs, and nothing there takes their memory."""
        for name, gpus in (("h100-x1", ["GPU0"]), ("h200-x2", ["GPU0", "GPU1"])):
            place = self.folder()
            with tarfile.open(f"{os.path.dirname(__file__)}/captured/{name}.tar.gz") as tar:
                tar.extractall(place)
            told = {(f["check"], f["subject"]): f["verdict"] for f in self.told(place)}
            for gpu in gpus:
                for check in ("gpu", "board", "bar-address", "bar1-size", "bar1-free", "link"):
                    self.assertEqual(told[check, gpu], "ok", (name, check, gpu))
            self.assertEqual(told["driver", "NVIDIA's driver"], "ok", name)
            self.assertEqual(told["partition", "all GPUs"], "ok", name)
            said = self.said(place)
            self.assertEqual((said["verdict"], {want["state"] for want in said["wanted"]}), ("ok", {"works"}), name)
            self.assertEqual({way["way"] for path in said["paths"] for way in path["ways"] if way["state"] == "works"}, {"dmabuf", "nvidia_p2p"})

    def test_bundle_is_anonymous(self):
        m = self.server()
        space = bytearray(machines.config())
        space[0x100:0x10c] = (3 | 1 << 16).to_bytes(4, "little") + b"SERIALNO"
        m.put_device(GPU, "config", bytes(space))
        m.put("proc/cmdline", "password=secret\n")
        m.put("nvml.tsv", open_text(m, "nvml.tsv"))
        folder = self.folder()
        run("doctor", "--bundle", folder + "/b", root=m.path)
        with open(folder + "/b", "rb") as file:
            bundle = file.read()
        for word in (b"SERIALNO", b"secret"):
            self.assertNotIn(word, bundle)
        self.assertEqual(os.stat(folder + "/b").st_mode & 0o777, 0o600)

    def test_bundle_without_room(self):
        """No part of a bundle is left; a device stays."""
        m, folder = self.server(), self.folder()

        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20480, 20480))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        done = subprocess.run([COMMAND, "doctor", "--bundle", folder + "/b", "--root", m.path], capture_output=True, text=True,
                              preexec_fn=small, check=False)
        self.assertEqual((done.returncode, os.listdir(folder)), (64, []))
        self.assertIn(folder + "/b: File too large", done.stderr)
        os.symlink("/dev/full", folder + "/full")
        done = run("doctor", "--bundle", folder + "/full", root=m.path)
        self.assertEqual((done.returncode, os.listdir(folder)), (64, ["full"]))
        self.assertIn("/full: No space left", done.stderr)

    # ---- hostile trees

    def test_damaged(self):
        """Files of a machine replaced by rubbish, a fixed series of it: no crash, no hang, always one answer."""
        chance = random.Random(SEED)
        m = machines.desktop(self.folder())
        m.iommu("DMA")
        files = sorted(os.path.join(place, name) for place, _, names in os.walk(m.path) for name in names
                       if not os.path.islink(os.path.join(place, name)))
        for turn in range(12):
            kept = {}
            for path in chance.sample(files, 6):
                with open(path, "rb") as file:
                    kept[path] = file.read()
                text = bytearray(kept[path])
                for _ in range(chance.randint(1, 8)):
                    at = chance.randrange(len(text) + 1)
                    text[at:at + chance.randint(0, 9)] = chance.choice(
                        [b"\xff\xfe", b"\0", b"\n", b"\t", b"99999999999999999999", b"-1", b"%s%n", b"\x1b[2J", b"A" * 300])
                with open(path, "wb") as file:
                    file.write(text)
            for args in (["doctor", "--json"], ["topo"]) if turn % 3 else (["doctor", "--all"],):
                done = run(*args, root=m.path)
                self.assertIn(done.returncode, (0, 1, 2, 3), (SEED, turn, args, done.stderr))
                self.assertNotIn("\x1b", done.stdout)
                self.assertNotIn("Sanitizer", done.stderr)
                if args[-1] == "--json" and done.returncode != 3:
                    json.loads(done.stdout)
            for path, text in kept.items():
                with open(path, "wb") as file:
                    file.write(text)


def open_text(m, name):
    with open(os.path.join(m.path, name), encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    print(f"seed {SEED}; another: DOCTOR_SEED", file=sys.stderr)
    unittest.main()
