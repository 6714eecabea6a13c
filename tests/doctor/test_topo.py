#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`peerdma topo` on made-up machines: the matrix, the tree, its JSON, its drawing."""

import fcntl
import glob
import json
import os
import pty
import random
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import termios
import threading
import unittest
import xml.etree.ElementTree

import machines
from case import COMMAND, Case, Optional, conforms, run

SEED = int(os.environ.get("SEED", "1"))
HERE = os.path.dirname(os.path.abspath(__file__))
PICTURES = os.path.join(HERE, "..", "pictures")
ADMIN_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


def random_bridge(chance):
    """A config space whose two lists of capabilities are sound, and lead anywhere."""
    space = bytearray(4096)
    struct.pack_into("<HH", space, 0, *machines.BRIDGE)
    space[0x06], space[0x0a], space[0x0b], space[0x0e] = 0x10, 4, 6, 1
    slots = chance.sample(range(0x40, 0x100, 0x40), chance.randint(1, 3))
    caps = [0x10] + [chance.choice((0x09, 0x05)) for _ in slots[1:]]
    chance.shuffle(caps)
    space[0x34] = slots[0]
    for slot, cap, after in zip(slots, caps, slots[1:] + [0]):
        body = struct.pack("<H", chance.choice((4, 5, 6)) << 4 | 2) if cap == 0x10 else b"\x10\0"
        space[slot:slot + 4] = bytes((cap, after)) + body
    slots = [0x100] + chance.sample(range(0x140, 0x1000, 0x40), chance.randint(0, 12))
    caps = [chance.choice((0x0b, 0x03, 0x0e)) for _ in slots]
    if chance.random() < 0.7:
        caps[chance.randrange(len(caps))] = 0x0d
    for slot, cap, after in zip(slots, caps, slots[1:] + [0]):
        control = chance.choice((0, 1, 4, 8, 0x0c, 0x11, 0x1d))
        struct.pack_into("<IHH", space, slot, cap | 1 << 16 | after << 20, 0x7f, control)
    return bytes(space)


SCHEMA = {
    "schema": {"peerdma-topo/1"}, "version": str, "kernel": (str, None), "machine": (str, None),
    "devices": [{"label": (str, None), "pci": str, "title": str, "id": str, "known_as": (str, None), "software": bool, "driver": (str, None),
                 "parent": (str, None), "host_bridge": str, "numa_node": (int, None), "iommu_group": (int, None),
                 "iommu": (str, None), "acs": Optional((str, None)),
                 "link": ({"mt_per_s": int, "lanes": int, "both_ends_mt_per_s": Optional(int), "both_ends_lanes": Optional(int)}, None),
                 "bars": Optional(([{"resource": int, "length": int, "start": (str, None)}], None))}],
    "pairs": [{"a": str, "b": str, "path": {"PIX", "PXB", "PHB", "NODE", "SYS", "?"}, "meet": (str, None)}],
    "nearest": [{"gpu": str, "path": {"PIX", "PXB", "PHB", "NODE", "SYS", "?"}, "adapters": [str], "ucx_net_devices": (str, None),
                 "left_out": [{"adapter": str, "device": str, "port": int, "why": str}]}],
    "nccl_ib_hca": (str, None), "port_states_known": (bool, None)}


def port(m, device, state="4: ACTIVE", number=1, layer="InfiniBand"):
    """A port of an RDMA device, as sysfs has it."""
    place = f"sys/class/infiniband/{device}/ports/{number}/"
    m.put(place + "state", state + "\n")
    m.put(place + "link_layer", layer + "\n")


def cells(text):
    """What a matrix says of each pair, from all its blocks; and their widest line."""
    found, columns = {}, []
    block = text.split("\nLegend")[0]
    for line in block.splitlines():
        words = line.split()
        if words and line[0] == " ":
            columns = words
        elif words:
            for column, word in zip(columns, words[1:], strict=True):
                assert (words[0], column) not in found, line
                found[words[0], column] = word
    return found, max(map(len, block.splitlines()))


class Topo(Case):
    def told(self, make, *args):
        done = run("topo", "--json", root=make(self.folder(), *args).path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        told = json.loads(done.stdout)
        conforms(told, SCHEMA)
        return told

    def paths(self, told):
        return {(p["a"], p["b"]): p["path"] for p in told["pairs"]}

    def test_server(self):
        told = self.told(machines.server)
        self.assertEqual(told["schema"], "peerdma-topo/1")
        self.assertEqual(len([d for d in told["devices"] if d["label"]]), 24)
        paths = self.paths(told)
        self.assertEqual(len(paths), 24 * 23 // 2)
        self.assertEqual(paths["GPU0", "NIC1"], "PIX")
        self.assertEqual(paths["GPU0", "NIC2"], "NODE")
        self.assertEqual(paths["GPU0", "GPU7"], "SYS")
        gpu = next(d for d in told["devices"] if d["label"] == "GPU0")
        self.assertEqual(gpu["link"], {"mt_per_s": 32000, "lanes": 16})
        self.assertEqual([bar["length"] for bar in gpu["bars"]], [16 << 20, 256 << 30, 32 << 20])
        self.assertEqual((gpu["numa_node"], gpu["iommu_group"], gpu["iommu"], gpu["driver"]), (0, None, "off", "nvidia"))
        self.assertEqual(next(d for d in told["devices"] if d["pci"] == "0000:12:00.0")["acs"], "off")

    def test_while_others_rename(self):
        """Below a root the kernel opens no path with ".." in it while another process renames anything (EAGAIN)."""
        m = machines.server(self.folder())
        said = run("topo", "--json", root=m.path).stdout
        names = [os.path.join(self.folder(), "a"), os.path.join(self.folder(), "b")]
        os.mkdir(names[0])
        end = threading.Event()

        def rename():
            while not end.is_set():
                os.rename(*names)
                names.reverse()

        other = threading.Thread(target=rename)
        other.start()
        try:
            for _ in range(20):
                self.assertEqual(run("topo", "--json", root=m.path).stdout, said)
        finally:
            end.set()
            other.join()

    def test_two_switches_in_a_row(self):
        m = machines.Machine(self.folder())
        above = m.port("0000:01:00.0", m.port("0000:00:01.0", "pci0000:00", 4), 5)
        for number in (0, 1):
            low = m.port(f"0000:{number + 3:02x}:00.0", m.port(f"0000:02:0{number}.0", above, 6), 5)
            down = m.port(f"0000:{number + 5:02x}:00.0", low, 6)
            if number:
                m.gpu("0000:08:00.0", down)
            else:
                m.nic("0000:07:00.0", down, 0)
        told = json.loads(run("topo", "--json", root=m.path).stdout)
        self.assertEqual(told["pairs"], [{"a": "GPU0", "b": "NIC0", "path": "PXB", "meet": "0000:01:00.0"}])

    def test_classes(self):
        self.assertEqual(self.paths(self.told(machines.desktop)), {("GPU0", "NIC0"): "PHB"})
        self.assertEqual(self.paths(self.told(machines.amd))["GPU0", "NIC0"], "PIX")
        self.assertEqual([d["label"] for d in self.told(machines.jetson)["devices"]], [None, "CARD0"])
        self.assertEqual(self.told(machines.cloud)["machine"], "virtual")

    def test_software(self):
        """A software GPU, and a software RDMA adapter as the PCI function that it is."""
        m = machines.Machine(self.folder())
        m.device("0000:01:00.0", m.port("0000:00:03.0", "pci0000:00", 4), (0x1af4, 0x1110), 0x050000, driver="softgpu")
        nic = m.device("0000:02:00.0", m.port("0000:00:04.0", "pci0000:00", 4), (0x1af4, 0x1041), 0x020000, driver="virtio-pci")
        m.nic("0000:03:00.0", m.port("0000:00:05.0", "pci0000:00", 4), 0)
        m.software_adapter("rxe0", nic)
        m.software_adapter("rxe1")
        told = json.loads(run("topo", "--json", root=m.path).stdout)
        self.assertEqual({d["label"]: d["software"] for d in told["devices"] if d["label"]}, {"GPU0": True, "NIC0": True, "NIC1": False})
        self.assertEqual(self.paths(told)["GPU0", "NIC0"], "PHB")
        tree = run("topo", "--tree", "--ascii", root=m.path).stdout
        self.assertRegex(tree, r"GPU0  0000:01:00.0  .* \(software\)")
        self.assertRegex(tree, r"NIC0  0000:02:00.0  .* \(rxe0, software\)")
        self.assertRegex(tree, r"NIC1  0000:03:00.0  .* \(mlx5_0, ibs0\)")

    def test_ids_that_are_none(self):
        """A number that cannot be read, or is none, is 0: no other vendor's, and no other kind of device."""
        for text in ("", "none\n", "-1\n", "0x\n", "0x1000000\n", None):
            m = machines.desktop(self.folder())
            m.gpu("0000:0a:00.0", "pci0000:00")
            m.nic("0000:0b:00.0", "pci0000:00", 7)
            for address, file in (("0000:0a:00.0", "class"), ("0000:0b:00.0", "vendor"), ("0000:0b:00.0", "device")):
                if text is None:
                    m.remove(f"sys/devices/{m.where[address]}/{file}")
                else:
                    m.put_device(address, file, text)
            told = json.loads(run("topo", "--json", root=m.path).stdout)
            nic = next(d for d in told["devices"] if d["pci"] == "0000:0b:00.0")
            self.assertEqual((nic["id"], nic["title"]), ("0000:0000", "0000:0000"), text)
            self.assertEqual([d["label"] for d in told["devices"] if d["label"]], ["GPU0", "NIC0", "NIC1"], text)

    def test_no_numa(self):
        m = machines.Machine(self.folder())
        m.nodes(2)
        m.gpu("0000:10:00.0", "pci0000:10", -1)
        m.nic("0000:20:00.0", "pci0000:20", 0, -1)
        self.assertEqual(json.loads(run("topo", "--json", root=m.path).stdout)["pairs"][0]["path"], "?")

    def test_link_trained_low(self):
        m = machines.desktop(self.folder())
        m.put_device("0000:01:00.0", "current_link_width", "4\n")
        self.assertIn("32 GT/s x4 (both ends can do 32 GT/s x16)", run("topo", root=m.path).stdout)
        # the port can do no more: nothing is wrong
        m.put_device("0000:00:01.1", "max_link_width", "4\n")
        self.assertNotIn("both ends", run("topo", root=m.path).stdout)
        m.put_device("0000:01:00.0", "current_link_width", "0\n")
        self.assertIn("down", run("topo", root=m.path).stdout)
        # no link has so many lanes, or none at best
        for width in ("63\n", "0\n"):
            m.put_device("0000:01:00.0", "max_link_width", width)
            m.put_device("0000:01:00.0", "current_link_width", "4\n")
            self.assertNotIn("x4", run("topo", root=m.path).stdout)

    def test_people(self):
        m = machines.server(self.folder(), machines.REDIRECT)
        m.put("usr/share/misc/pci.ids", "10de  NVIDIA Corporation\n\t2335  GH100 [H200 SXM 141GB]\n"
                                        "15b3  Mellanox Technologies\n\t1017  Older\n1af4  Nobody\n")
        done = run("topo", root=m.path)
        self.assertEqual(done.returncode, 0)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0].split(), [f"GPU{n}" for n in range(8)] + [f"NIC{n}" for n in range(16)] + ["NUMA"])
        self.assertEqual(lines[1].split()[:4], ["GPU0", "X", "NODE", "NODE"])
        for word in ("PIX   one PCIe switch", "GPU0  0000:13:00.0  GH100 [H200 SXM 141GB]", "Mellanox Technologies 1021 (mlx5_0",
                     "ACS redirects", "└─ 0000:11:00.0 switch", "16 MiB, 256 GiB, 32 MiB", "NUMA node 1"):
            self.assertIn(word, done.stdout)
        run("topo", "--ascii", root=m.path).stdout.encode("ascii")
        self.assertNotIn("Legend", run("topo", "--tree", root=m.path).stdout)
        self.assertNotIn("pci0000", run("topo", "--matrix", root=m.path).stdout)

    def near(self, m):
        done = run("topo", "--json", root=m.path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        told = json.loads(done.stdout)
        conforms(told, SCHEMA)
        return told

    def test_width(self):
        """The matrix is cut into blocks of columns where a line has less room, and says the same."""
        m = machines.server(self.folder())
        whole, width = cells(run("topo", "--matrix", root=m.path).stdout)
        self.assertGreater(width, 170)
        self.assertEqual(len(whole), 24 * 25)
        self.assertEqual((whole["GPU0", "NIC1"], whole["NIC15", "NUMA"]), ("PIX", "1"))
        for columns in (10, 20, 80, 100, 179):
            found, width = cells(run("topo", "--matrix", root=m.path, env={"COLUMNS": str(columns)}).stdout)
            self.assertEqual(found, whole)
            self.assertLessEqual(width, max(columns, 18))
        # Blocks of the same width: here GPUs, and the adapters of each socket.
        heads = [line.split() for line in run("topo", "--matrix", root=m.path, env={"COLUMNS": "80"}).stdout.splitlines() if line[:1] == " "]
        self.assertEqual([len(head) for head in heads[:3]], [8, 8, 9])
        self.assertEqual(heads[1][0], "NIC0")

    def test_terminal(self):
        """Without COLUMNS a terminal's own width counts."""
        m = machines.server(self.folder())
        here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        done = subprocess.Popen([COMMAND, "topo", "--matrix", "--root", m.path], stdout=there, stdin=subprocess.DEVNULL,
                                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"})
        os.close(there)
        text = b""
        while True:
            try:
                part = os.read(here, 65536)
            except OSError:         # the terminal has no writer any more
                break
            if not part:
                break
            text += part
        os.close(here)
        self.assertEqual(done.wait(timeout=60), 0)
        found, width = cells(text.decode().replace("\r\n", "\n"))
        self.assertEqual(len(found), 24 * 25)
        self.assertLessEqual(width, 100)

    def test_nearest(self):
        m = machines.server(self.folder())
        for number in range(16):
            port(m, f"mlx5_{number}")
        told = self.near(m)
        self.assertEqual([(n["gpu"], n["path"], n["adapters"], n["ucx_net_devices"], n["left_out"]) for n in told["nearest"]],
                         [(f"GPU{n}", "PIX", [f"NIC{2 * n}", f"NIC{2 * n + 1}"], f"mlx5_{2 * n}:1,mlx5_{2 * n + 1}:1", []) for n in range(8)])
        self.assertEqual(told["nccl_ib_hca"], "=" + ",".join(f"mlx5_{n}:1" for n in range(16)))
        self.assertTrue(told["port_states_known"])
        text = run("topo", root=m.path).stdout
        self.assertIn("\nGPU7  PIX  NIC14 (mlx5_14), NIC15 (mlx5_15)\n      export UCX_NET_DEVICES=mlx5_14:1,mlx5_15:1\n", text)
        self.assertIn(f"\n      export NCCL_IB_HCA='{told['nccl_ib_hca']}'\n", text)
        self.assertNotIn("left out", text)
        self.assertNotIn("No adapter", text)
        self.assertNotIn("not known", text.split("Nearest")[1])
        for part in ("--matrix", "--tree"):
            self.assertNotIn("UCX", run("topo", part, root=m.path).stdout)

    def test_nearest_down(self):
        """A port that is not active is in no list, and that is said; where all are, farther adapters are the nearest."""
        m = machines.server(self.folder())
        for number in range(16):
            port(m, f"mlx5_{number}", "1: DOWN" if number in (1, 2, 3) else "4: ACTIVE")
        port(m, "mlx5_4", "2: INIT", 2)
        port(m, "mlx5_15", "4: ACTIVE", layer="Unspecified")
        near = self.near(m)["nearest"]
        self.assertEqual((near[0]["path"], near[0]["adapters"], near[0]["ucx_net_devices"]), ("PIX", ["NIC0"], "mlx5_0:1"))
        self.assertEqual([(o["adapter"], o["device"], o["port"]) for o in near[0]["left_out"]], [("NIC1", "mlx5_1", 1)])
        self.assertIn("DOWN", near[0]["left_out"][0]["why"])
        self.assertEqual((near[1]["path"], near[1]["adapters"]), ("NODE", ["NIC0"] + [f"NIC{n}" for n in range(4, 8)]))
        self.assertEqual([o["adapter"] for o in near[1]["left_out"]], ["NIC1", "NIC2", "NIC3", "NIC4"])
        self.assertEqual((near[2]["adapters"], near[2]["ucx_net_devices"]), (["NIC4", "NIC5"], "mlx5_4:1,mlx5_5:1"))
        self.assertEqual([(o["device"], o["port"]) for o in near[2]["left_out"]], [("mlx5_4", 2)])
        self.assertIn("INIT", near[2]["left_out"][0]["why"])
        self.assertEqual((near[7]["adapters"], near[7]["left_out"][0]["device"]), (["NIC14"], "mlx5_15"))
        self.assertEqual(self.near(m)["nccl_ib_hca"], "=" + ",".join(f"mlx5_{n}:1" for n in range(15) if n not in (1, 2, 3)))
        self.assertIn("\nGPU0  PIX  NIC0 (mlx5_0)\n      left out: NIC1 (mlx5_1), port 1: its state is DOWN\n", run("topo", root=m.path).stdout)
        for number in range(16):
            port(m, f"mlx5_{number}", "1: DOWN")
        told = self.near(m)
        self.assertEqual((told["nearest"][0]["adapters"], told["nearest"][0]["ucx_net_devices"]), (["NIC0", "NIC1"], None))
        self.assertIsNone(told["nccl_ib_hca"])
        text = run("topo", root=m.path).stdout
        self.assertIn("its state is DOWN", text)
        self.assertIn("\nNo adapter has a usable RDMA port.\n", text)
        self.assertNotIn("export", text)

    def test_nearest_states_not_known(self):
        """As in a bundle that has no states: each adapter's first port is named, and that is said."""
        m = machines.server(self.folder())
        for number in range(16):
            shutil.rmtree(f"{m.path}/sys/class/infiniband/mlx5_{number}/ports")
        told = self.near(m)
        self.assertEqual(told["nearest"][0]["ucx_net_devices"], "mlx5_0:1,mlx5_1:1")
        self.assertFalse(told["port_states_known"])
        self.assertIn("are not known", run("topo", root=m.path).stdout.split("Nearest")[1])

    def test_nearest_without_rdma(self):
        """An adapter with an RDMA device, however far, rather than one without; without any, which is the nearest, and no variables."""
        m = machines.Machine(self.folder())
        m.nodes(2)
        m.gpu("0000:10:00.0", "pci0000:10", 0)
        m.device("0000:10:01.0", "pci0000:10", machines.CX7, 0x020000, 0, driver="igb", known_as=("net/eth0",))
        told = self.near(m)
        self.assertEqual([(n["path"], n["adapters"], n["ucx_net_devices"]) for n in told["nearest"]], [("PHB", ["NIC0"], None)])
        self.assertEqual((told["nccl_ib_hca"], told["port_states_known"]), (None, None))
        text = run("topo", root=m.path).stdout
        self.assertIn("\nGPU0  PHB  NIC0 (eth0)\n\nNo adapter has an RDMA device.\n\npci", text)
        m.nic("0000:20:00.0", "pci0000:20", 0, 1)
        port(m, "mlx5_0", layer="Ethernet")
        told = self.near(m)
        self.assertEqual([(n["path"], n["adapters"], n["ucx_net_devices"]) for n in told["nearest"]], [("SYS", ["NIC1"], "mlx5_0:1")])
        # No GPU, or no adapter: nothing to say.
        for text in (run("topo", root=machines.jetson(self.folder()).path).stdout,):
            self.assertNotIn("Nearest", text)

    def test_nearest_names(self):
        """Lines to copy have names of devices only where a shell takes them as they are."""
        for name in ("$(reboot)", "a b", "a;b", "a,b", "a'b", "=mlx5", "^mlx5", "é", "a:b"):
            m = machines.Machine(self.folder())
            m.gpu("0000:10:00.0", "pci0000:10")
            m.device("0000:20:00.0", "pci0000:10", machines.CX7, 0x020700, 0, known_as=(f"infiniband/{name}",))
            port(m, name)
            told = self.near(m)
            self.assertEqual((told["nearest"][0]["ucx_net_devices"], told["nccl_ib_hca"]), (None, None), name)
            self.assertEqual(told["nearest"][0]["left_out"][0]["device"], name)
            text = run("topo", root=m.path).stdout
            self.assertNotIn("export", text, name)
            self.assertIn("its name", text)

    def test_names_without_pci_ids(self):
        """Of a GPU that pci.ids does not have: what its driver calls it, from procfs or a bundle's table."""
        m = machines.server(self.folder(), per_socket=1)
        gpus = [d for d in self.near(m)["devices"] if (d["label"] or "").startswith("GPU")]
        self.assertEqual([d["title"] for d in gpus], ["NVIDIA H200"] * 2)
        m.put(f"proc/driver/nvidia/gpus/{m.gpus[1]}/information", "Model: \t\t NVIDIA H200 NVL\nIRQ:   \t\t 1\nGPU UUID: \t GPU-1\n")
        self.assertEqual([d["title"] for d in self.near(m)["devices"] if (d["label"] or "").startswith("GPU")], ["NVIDIA H200", "NVIDIA H200 NVL"])
        # A maker's name alone is not the device's; a device's name in pci.ids is preferred.
        m.put("usr/share/misc/pci.ids", "10de  NVIDIA Corporation\n\t1111  Other\n")
        self.assertIn("GPU0  0000:13:00.0  NVIDIA H200  ", run("topo", "--tree", root=m.path).stdout)
        m.put("usr/share/misc/pci.ids", "10de  NVIDIA Corporation\n\t2335  GH100\n")
        self.assertIn("GPU0  0000:13:00.0  GH100  ", run("topo", "--tree", root=m.path).stdout)
        m.remove("usr/share/misc/pci.ids")
        m.put("nvml.tsv", "nothing\n")
        shutil.rmtree(m.path + "/proc/driver/nvidia/gpus")
        self.assertIn("GPU0  0000:13:00.0  10de:2335  ", run("topo", "--tree", root=m.path).stdout)

    def test_nothing(self):
        self.assertIn("No GPUs", run("topo", root=machines.Machine(self.folder()).path).stdout)
        self.assertEqual(run("topo", root=self.folder()).returncode, 2)
        self.assertEqual(run("topo", root="/nonexistent").returncode, 1)
        for args in (["--json", "--svg"], ["more"], ["--nothing"]):
            self.assertEqual(run("topo", *args).returncode, 1)

    def drawn(self, name, root):
        """A machine's drawing: its file."""
        done = run("topo", "--svg", root=root)
        self.assertEqual((done.returncode, done.stderr), (0, ""), name)
        file = os.path.join(self.folder(), name + ".svg")
        with open(file, "w", encoding="utf-8") as out:
            out.write(done.stdout)
        picture = xml.etree.ElementTree.fromstring(done.stdout)
        told = json.loads(run("topo", "--json", root=root).stdout)
        boxes = [e for e in picture.iter() if re.fullmatch("GPU|NIC|NVME|CARD|bridge", e.get("class") or "")]
        self.assertEqual(len(boxes), len(told["devices"]), name)
        self.assertLessEqual(int(picture.get("width")), 1600, name)
        # No name is cut: lines are only broken.
        words = "".join("".join(e.itertext()) for e in picture.iter("{http://www.w3.org/2000/svg}text")).replace(" ", "")
        for device in told["devices"]:
            for wanted in (device["pci"], device["label"], device["label"] and device["title"], device["known_as"]):
                self.assertIn((wanted or "").replace(" ", ""), words, name)
        return file

    def machines(self):
        """Name and folder of each that is drawn."""
        for make in (machines.desktop, machines.cloud, machines.jetson, machines.amd):
            yield make.__name__, make(self.folder()).path
        for file in glob.glob(os.path.join(HERE, "captured", "*.tar.gz")):
            folder = self.folder()
            with tarfile.open(file) as tar:
                tar.extractall(folder)
            yield os.path.basename(file).split(".")[0], folder
        yield "nothing", machines.Machine(self.folder()).path
        # 8 GPUs and 16 adapters.
        m = machines.server(self.folder(), machines.REDIRECT)
        m.put("usr/share/misc/pci.ids", "10de  NVIDIA Corporation\n\t2335  GH100 [H200 SXM 141GB]\n"
              "15b3  Mellanox Technologies\n\t1021  MT2910 Family [ConnectX-7] of many words & <more>, to go over the line\n"
              "1000  Broadcom / LSI\n\tc030  " + "W" * 80 + "\n8086  Intel\n\t352a  Root Port é漢" + "字" * 20 + "\n")
        m.put_device("0000:13:00.0", "current_link_speed", "16.0 GT/s PCIe\n")
        m.put_device("0000:14:00.0", "current_link_width", "1\n")
        yield "names", m.path
        m = machines.Machine(self.folder())
        above = "pci0000:00"
        for level in range(1, 40):
            above = m.port(f"0000:{level:02x}:00.0", above, 4 if level == 1 else 5 if level % 2 == 0 else 6)
        m.gpu("0000:f0:00.0", above)
        yield "deep", m.path
        m = machines.Machine(self.folder())
        for number in range(33):
            m.nic(f"{number:04x}:00:00.0", f"pci{number:04x}:00", number, number % 3 - 1)
        yield "many", m.path

    def test_svg(self):
        files = [self.drawn(name, root) for name, root in self.machines()]
        self.assertGreaterEqual(len(files), 12)
        # Set where a sanitizer is at work: it does not change a drawing.
        if "PICTURES_WITHOUT_LOOK" in os.environ:
            return
        done = subprocess.run([PICTURES, *files], capture_output=True, text=True, timeout=300, check=False)
        if done.returncode == 77:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_svg_colours(self):
        """A colour has one meaning: the kinds of devices, paths, and slow links."""
        sheet = run("topo", "--svg", root=machines.desktop(self.folder()).path).stdout
        sheet = sheet[sheet.index("<style>"):sheet.index("</style>")]
        for rules in sheet.split("@media"):
            colours = {}
            for name in ("GPU", "NIC", "NVME", "CARD", "bridge", "PIX", "PXB", "PHB", "NODE", "SYS", "slow", "link"):
                rule = re.search(r"\." + name + r"\{([^}]*)\}", rules)[1]
                for colour in re.findall("#[0-9a-f]{6}", rule):
                    self.assertEqual(colours.setdefault(colour, name), name)

    @unittest.skipUnless(shutil.which("lspci", path=ADMIN_PATH), "pciutils is not installed")
    def test_second_opinion(self):
        """What pciutils (libpci) finds in config spaces, its capabilities in any order, is what is found here."""
        chance = random.Random(SEED)
        print(f"seed {SEED}", file=sys.stderr)
        m = machines.Machine(self.folder())
        dump = ""
        for bus in range(100):
            bridge, gpu = f"0001:{bus:02x}:00.0", f"0002:{bus:02x}:00.0"
            space = random_bridge(chance)
            m.device(bridge, "pci0001:00", machines.BRIDGE, 0x060400, space=space)
            m.device(gpu, bridge, machines.H200, 0x030200)
            dump += f"{bridge} bridge\n" + "".join(
                f"{at:02x}: {space[at:at + 16].hex(' ')}\n" for at in range(0, len(space), 16)) + "\n"
        file = os.path.join(self.folder(), "dump")
        with open(file, "w", encoding="ascii") as out:
            out.write(dump)
        seen = subprocess.run(["lspci", "-F", file, "-vv", "-D"], capture_output=True, text=True, check=True, timeout=300,
                              env={"PATH": ADMIN_PATH}).stdout
        expected = {}
        for block in seen.strip().split("\n\n"):
            control = re.search(r"ACSCtl:.*ReqRedir(.) CmpltRedir(.)", block)
            expected[block.split()[0]] = "none" if not control else "redirects" if "+" in control.groups() else "off"
        told = json.loads(run("topo", "--json", root=m.path).stdout)
        found = {d["pci"]: d["acs"] for d in told["devices"] if "acs" in d}
        self.assertEqual(found, expected)
        self.assertEqual(set(expected.values()), {"none", "off", "redirects"})

    def test_malformed(self):
        """Nothing of this may crash, hang, or lead out of the folder."""
        m = machines.server(self.folder(), per_socket=1)
        m.put("sys/bus/pci/devices/junk", "")
        m.put("sys/bus/pci/devices/0000:ff:1f.7/vendor", b"\xff" * 70000)
        m.link("sys/bus/pci/devices/0000:fe:00.0", "0000:fe:00.0")
        m.link("sys/bus/pci/devices/0000:fd:00.0", "../../../../../../../../etc")
        for number, length in enumerate((0, 1, 5, 63, 64, 65, 100, 255, 256, 257, 259, 260, 300)):
            place = m.device(f"0001:00:{number:02x}.0", "pci0001:00", machines.H200, 0x030200, space=machines.config(length=length))
            m.put_device(place, "resource", b"\0" * length)
        loop = bytearray(machines.config())
        loop[0x41] = 0x40                                       # both lists go round and round
        loop[0x40] = 1
        loop[0x100:0x104] = (0x10010002).to_bytes(4, "little")
        m.put_device(m.device("0001:01:00.0", "pci0001:00", machines.H200, 0x030200, space=bytes(loop)), "numa_node", "x\n")
        # one below the other
        m.link("sys/bus/pci/devices/0002:00:00.0", "../../../devices/pci0002:00/0002:00:01.0/0002:00:00.0")
        m.link("sys/bus/pci/devices/0002:00:01.0", "../../../devices/pci0002:00/0002:00:00.0/0002:00:01.0")
        m.told("link", "/sys/bus/pci/devices/0002:00:02.0", "x" * 5000)
        for args in (["topo"], ["topo", "--json"], ["topo", "--svg"]):
            done = run(*args, root=m.path)
            self.assertEqual((done.returncode, done.stderr), (0, ""), args)
            self.assertNotIn("\x1b", done.stdout)

    def test_too_many(self):
        m = machines.Machine(self.folder())
        for number in range(8193):
            os.mkdir(f"{m.path}/sys/bus/pci/devices/{number:04x}:00:00.0")
        for command, code in (("topo", 2), ("doctor", 3)):
            done = run(command, root=m.path)
            self.assertEqual(done.returncode, code)
            self.assertIn("than any machine", done.stderr)

    def test_index(self):
        for text in ("nonsense\n", "link\t/a\n", "link\t/a\tb", "error\t/a\t9\t2\n", "error\t/a\t0\t0\n", "node\t/a\t-1\t-\n",
                     "link\t/a\tb\nlink\t/a\tb\n", "\0\n", "\n"):
            m = machines.Machine(self.folder()).put("bundle.tsv", text)
            self.assertEqual(run("topo", root=m.path).returncode, 1, text)

    def test_strange_files(self):
        m = machines.desktop(self.folder())
        place = f"{m.path}/sys/devices/{m.where['0000:01:00.0']}/"
        os.unlink(place + "vendor")
        os.mkfifo(place + "vendor")
        os.unlink(place + "config")
        os.symlink("/dev/zero", place + "config")
        os.unlink(place + "resource")
        with open(place + "resource", "wb") as huge:
            huge.truncate(1 << 33)
        self.assertEqual(run("topo", root=m.path).returncode, 0)


if __name__ == "__main__":
    unittest.main()
