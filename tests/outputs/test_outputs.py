#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the peerdma command prints on made-up machines, as a whole, is what the files beside this one say.

Each NAME.txt is a session: "$" and a command, what it printed, "!" and what it printed to standard error, its exit
code in brackets unless that is 0. JSON is stored with one element of a list on a line. After a change that is meant:

    ninja -C build/user peerdma/tools/peerdma && tests/outputs/test_outputs.py build/user/peerdma/tools/peerdma --write

and look at the difference. The commands run with standard input closed: the first file that one opens is number 0.
"""

import difflib
import errno
import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import termios
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
COMMAND = os.path.realpath(sys.argv.pop(1))
WRITE = "--write" in sys.argv and not sys.argv.remove("--write")
sys.path.append(os.path.join(HERE, "../doctor"))
sys.path.append(os.path.join(HERE, "../metrics"))
sys.argv.insert(1, COMMAND)             # case.py takes it
import machine as counted               # noqa: E402
import machines                         # noqa: E402
from case import MEMORY                 # noqa: E402
from machines import GIB, MIB           # noqa: E402

BASE = counted.BASE
KIB = 1 << 10


def compact(value, depth=0):
    """JSON with one element of an outer list on a line."""
    if depth < 3 and isinstance(value, dict) and any(isinstance(part, list) for part in value.values()):
        pad = " " * (depth + 1)
        return "{" + ",".join(f"\n{pad}{json.dumps(key)}: {compact(part, depth + 1)}" for key, part in value.items()) + "}"
    if depth < 3 and isinstance(value, list) and value:
        pad = " " * (depth + 1)
        return "[" + ",".join(f"\n{pad}{compact(part, depth + 1)}" for part in value) + "]"
    return json.dumps(value, ensure_ascii=False)


class Session:
    """Commands on a machine, and what they print."""

    def __init__(self, root):
        self.root = root
        self.text = ""

    def say(self, line):
        self.text += f"{line}\n"

    def note(self, words):
        """What was changed on the machine."""
        self.say(f"# {words}")

    def anonymous(self, text):
        text = text.replace(self.root, "ROOT").replace(TOOL_VERSION, "VERSION")
        return re.sub(r'"time": ?[0-9.]+', '"time": 1', text)

    def run(self, line, root=True, brief=False, **env):
        """`line`: a command line without quotes. brief: only the first line of what it says."""
        args = [word.replace("ROOT", self.root) for word in line.split()]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "COLUMNS": "80", "TZ": "UTC", **env}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "LD_LIBRARY_PATH"):
            if name in os.environ:
                environment[name] = os.environ[name]
        done = subprocess.run([COMMAND, *args, *(["--root", self.root] if root else [])], env=environment, timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: os.close(0), check=False)
        out, err = (self.anonymous(text.decode()) for text in (done.stdout, done.stderr))
        if "--json" in args:
            try:
                out = "".join(compact(json.loads(one)) + "\n" for one in ([out] if args[0] != "top" else out.splitlines()) if one)
            except ValueError:
                pass
        self.say("$ " + " ".join([f"{name}={value}" for name, value in env.items()] + ["peerdma", line]))
        for mark, text in (("", out), ("! ", err)):
            lines = [line.replace("\x1b", "<ESC>") for line in text.split("\n")]
            if lines[-1] == "":
                lines.pop()
            elif text:
                lines[-1] += " (no newline)"
            for one in lines[:1] if brief else lines:
                self.say((mark + one).rstrip(" ") if not one.endswith(" ") else mark + one + "<END>")
        if done.returncode:
            self.say(f"[{done.returncode}]")
        return done


# ---- machines ------------------------------------------------------------------

IDS = ("10de  NVIDIA Corporation\n\t2335  GH100 [H200 SXM 141GB]\n15b3  Mellanox Technologies\n\t1017  Older\n"
       "1000  Broadcom & <LSI>\n\tc030  PEX890xx Gen 5 Switch of many words, some of them é and 漢字, that go over the line\n"
       "144d  Samsung\n\ta824  NVMe SSD PM173X\n10ee  Xilinx\n\t9034\n")


def mixed(path):
    """One of each kind: below a switch, in ports of their own on both sockets, on a root bus; with troubles of links and BARs."""
    m = machines.Machine(path)
    m.nodes(2)
    m.put("usr/share/misc/pci.ids", IDS)
    root = m.port("0000:00:01.0", "pci0000:00", 4, 0, 0)
    up = m.port("0000:01:00.0", root, 5)
    m.gpu("0000:03:00.0", m.port("0000:02:00.0", up, 6, 0, machines.REDIRECT))
    m.nic("0000:04:00.0", m.port("0000:02:01.0", up, 6, 0, 0), 0)
    m.first("0000:80:00.0", "pci0000:80")
    m.device("0000:81:00.0", m.port("0000:80:01.0", "pci0000:80", 4, 1, None), (0x144d, 0xa824), 0x010802, 1, bars=((0, 16 * KIB),),
             speed=("16.0 GT/s PCIe", 4), driver="nvme", known_as=("nvme/nvme0",))
    m.device("0000:82:00.0", m.port("0000:80:02.0", "pci0000:80", 4, 1, 0x1), (0x10ee, 0x9034), 0x058000, 1,
             bars=((0, MIB), (1, 64 * KIB, 0x40200), (5, GIB, 0x14220c | machines.UNSET)), speed=("5.0 GT/s PCIe", 4))
    m.nic("0000:83:00.0", "pci0000:80", 1, -1, speed=("Unknown", 0))
    m.put_device("0000:04:00.0", "current_link_width", "8\n")
    m.put_device("0000:81:00.0", "current_link_width", "0\n")
    machines.software(m, 2)
    m.iommu("DMA")
    m.put("sys/kernel/iommu_groups/3/type", "identity\n")
    m.put("sys/kernel/iommu_groups/4/type", "DMA-FQ\n")
    m.put("sys/kernel/iommu_groups/5/type", "else\n")
    return m


def server(path, **more):
    return machines.server(path, per_socket=1, **more)


def two_gpus(path):
    """Pins of several processes on two GPUs, one with a small aperture; a third that has none; all that is counted."""
    m = counted.Machine(path).module()
    none = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
    for address, start, size in (("0000:03:00.0", BASE, 256 * MIB), ("0000:04:00.0", 1 << 40, 128 * GIB)):
        m.put(f"sys/bus/pci/devices/{address}/resource", f"0x{0xfea00000:016x} 0x{0xfea00fff:016x} 0x0000000000040200\n" + none +
              f"{start:#018x} {start + size - 1:#018x} 0x000000000014220c\n" + 10 * none)
    m.gpus((0, "0000:03:00.0", "NVIDIA T4", "GPU-1", 256 * MIB, 40 * MIB + 1, 216 * MIB - 1),
           (1, "0000:04:00.0", "NVIDIA H200", "GPU-2", 128 * GIB, 0, 128 * GIB), (2, "-", "NVIDIA A1", "GPU-3", "-", "-", "-"))
    m.accounts((1000, 4, 1, 2, 3, 65536, 4096), (1001, 0, 16, 0, 0, 0, 0), (7, 0, 0, 0, 0, 0, 0), (0, 1, 1, 1, 1, 1, 1))
    m.put("sys/kernel/debug/peerdma/users", counted.table(("pid", "comm", "revocations"), (43, "serve", 5), (48, "gone", 2), (49, "idle", 0)))
    m.put("sys/kernel/debug/peerdma_fpga/clients", counted.table(
        "pid comm device copies bytes_read bytes_written revocations".split(), (42, "train", "0000:05:00.0", 3, MIB, 2 * MIB, 1),
        (45, "mover", "0000:07:00.0", 1, 10, 0, 0)))
    m.put("sys/kernel/debug/softgpu/0/info", "uuid: GPU-1\nmemory: 0000:03:00.0\npins: 1\nrevocations: 4\ncopies: 2\nbytes_copied: 8192\n")
    m.put("sys/kernel/debug/softgpu/2/info", "uuid: GPU-9\nmemory: 0000:09:00.0\nrevocations: 0\n")
    m.put("sys/kernel/debug/softgpu/2/bar1", f"total: {64 * MIB}\nused: {63 * MIB}\nfree: 0\n")
    for port, words in (("mlx5_0/ports/1", 1000), ("mlx5_0/ports/2", 24), ("mlx5_1/ports/1", 0)):
        m.put(f"sys/class/infiniband/{port}/counters/port_xmit_data", f"{words}\n")
        m.put(f"sys/class/infiniband/{port}/counters/port_rcv_data", f"{words * 300}\n")
    pin = counted.pin

    def at(offset, length, base=BASE):
        return dict(segments=f"{base + offset:#x}:{length}", length=length, pinned_length=length)

    return m.pins(
        pin(**at(0, 4 * MIB)), pin(id=2, pid=43, comm="serve", state="revoked", devices="", **at(4 * MIB, MIB)),
        pin(id=3, handle=2, provider="host", page_shift=12, pinned_length=8192, length=5000, segments="-", uid=0,
            devices="0000:05:00.0:2,0000:06:00.0:1"),
        pin(id=4, pid=45, comm="mover", **at(16 * MIB, 8 * MIB)), pin(id=5, pid=44, comm="Jürgen", **at(17 * MIB, 64 * KIB)),
        pin(id=6, pid=46, comm="small", page_shift=0, devices="", **at(40 * MIB + 64 * KIB, 64 * KIB)),
        pin(id=7, handle=0, pid=46, comm="small", client="kernel", flags="-", mappings=0, **at(GIB, 3 * GIB, 1 << 40)))


# ---- sessions ------------------------------------------------------------------

def topo(s):
    mixed(s.root)
    s.run("topo")
    s.run("topo --tree --ascii")
    s.run("topo --json")
    s.run("topo --svg")


def topo_others(s):
    for make in (machines.desktop, machines.cloud, machines.jetson, server):
        s.note(make.__name__)
        clear(s.root)
        make(s.root)
        s.run("topo --matrix")
        s.run("topo --tree")
    clear(s.root)
    machines.desktop(s.root)
    s.run("topo --json")


def clear(root):
    for name in os.listdir(root):
        shutil.rmtree(os.path.join(root, name)) if os.path.isdir(os.path.join(root, name)) else os.unlink(os.path.join(root, name))


def doctor(s):
    """In order, and with one trouble of each kind."""
    for make in (server, machines.desktop, machines.cloud, machines.jetson, machines.amd, mixed):
        s.note(make.__name__)
        clear(s.root)
        make(s.root)
        s.run("doctor --all")
    s.run("doctor GPU0 nic1")
    s.run("doctor --json 0000:03:00.0 mlx5_0")
    s.run("doctor --color 03:00.0 0000:81:00.0")


def gone(m, node, number):
    m.index = [line for line in m.index if line[1] != node]
    m.error("node", node, number)


def ill(path):
    """Each check of the machine or of a device has something to say."""
    m = server(path, acs=machines.REDIRECT)
    gpu, other = m.gpus
    m.put("dev/kmsg", "NET: started\n" + "\n".join((
        "DMAR: [DMA Write NO_PASID] Request device [13:00.0] fault addr 0x380000000000 [fault reason 0x05] PTE Write access is not set",
        "nvidia 0000:93:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0012 address=0xfd00000000 flags=0x0020]",
        *machines.TWO_TROUBLES, "NVRM: Xid (PCI:0000:93:00): 31, pid=812, name=train, Ch 00000008",
        "nvidia 0000:13:00.0: ACS redirect is set between the client and provider (x)",
        "nvidia 0000:93:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer",
        "nvidia 0000:93:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer",
        "mlx5_core 0000:14:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer")) + "\n")
    m.bars(gpu, (0, MIB, 0x140204), (2, 256 * GIB, 0x14220c | machines.UNSET))
    m.bars(other, (2, 256 * MIB))
    m.put_device(other, "config", machines.config(0, None, (2, (256, 65536))))
    m.nvml(used=250 * GIB)
    m.put("nvml-modes.tsv", f"{gpu}\tmig\t1\n{gpu}\tmig_pending\t0\n{other}\tvirtualization\t2\nall\tconfidential\t1\n")
    m.nvidia("530.30.02")
    m.iommu("something")
    m.put_device("0000:14:00.0", "current_link_width", "8\n")
    m.put_device(gpu, "current_link_speed", "2.5 GT/s PCIe\n")
    m.driver("0000:15:00.0", "vfio-pci")
    m.limits(memlock=65536, nofile=1024)
    m.node("/dev/nvidiactl", usable=False, mode=0o020660)
    gone(m, "/dev/infiniband/uverbs2", errno.ENOENT)
    m.module("peerdma", "9.9")
    m.module("nv_peer_mem", "1.3")
    m.remove(f"boot/config-{m.kernel}")
    return m


def doctor_ill(s):
    ill(s.root)
    s.run("doctor")
    s.run("doctor --json GPU1 NIC2")


def doctor_software(s):
    """What the software of an RDMA machine lacks: one machine after the other, each with one thing changed."""
    gpu = "0000:13:00.0"

    def bare(opened=False):
        clear(s.root)
        m = server(s.root)
        m.nvidia("580.95.05", opened)
        shutil.rmtree(m.path + "/sys/module/nvidia_peermem")
        shutil.rmtree(m.path + "/sys/kernel/mm")
        return m

    bare()
    s.note("no nvidia-peermem")
    s.run("doctor GPU0 NIC0")
    bare(True)
    s.note("the open driver")
    s.run("doctor --all GPU0 NIC0")
    m = bare().put("commands/modinfo-nvidia-peermem", "filename:       /lib/modules/x/nvidia-peermem.ko\n"
                   "depends:        nvidia,ib_core\nvermagic:       x\n")
    s.note("nvidia-peermem is not loaded")
    s.run("doctor GPU0 NIC0")
    m.put("commands/modversions-nvidia-peermem", "0x11111111\tmodule_layout\n0xabcdef01\tib_register_peer_memory_client\n")
    m.put("usr/src/ofa_kernel/default/Module.symvers",
          "0x12345678\tib_register_peer_memory_client\tdrivers/infiniband/core/ib_core\tEXPORT_SYMBOL\n")
    s.note("and would not load")
    s.run("doctor GPU0 NIC0")
    m = bare(True)
    for name in ("peerdma_peermem", "peerdma_peer_core", "nvidia_peermem"):
        m.module(name, "1")
    m.put("sys/module/peerdma_peermem/parameters/persistent", "N\n")
    m.put("sys/kernel/mm/memory_peers/nv_mem/version", "peerdma\n")
    m.put("proc/kallsyms", "0000000000000000 T ib_register_peer_memory_client\t[peerdma_peer_core]\n")
    m.put("sys/module/peerdma_peer_core/parameters/drivers", "else,elsewhere+inval\n")
    s.note("our client and core, and nvidia-peermem")
    s.run("doctor GPU0 NIC0")
    m.driver("0000:14:00.0", "elsewhere")
    s.run("doctor --all GPU0 NIC0")
    m = server(clear(s.root) or s.root)
    m.software_adapter("rxe1")
    m.driver(gpu, "nouveau")
    m.put("proc/cpuinfo", "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n")
    m.put("proc/driver/nvidia/version", "NVRM version: whatever 1.x\n")
    m.remove("nvml.tsv")
    m.remove("proc/self/limits")
    m.remove("dev/kmsg")
    m.put_device("0000:12:00.0", "config", machines.config(length=64))
    m.folder(f"sys/devices/{m.where['0000:93:00.0']}/mdev_supported_types/nvidia-1")
    m.put("proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", "")
    gone(m, "/dev/infiniband/rdma_cm", errno.EACCES)
    s.note("little can be read")
    s.run("doctor --all")
    shutil.rmtree(s.root + "/sys/class/infiniband")
    shutil.rmtree(s.root + "/sys/module/nvidia")
    m.remove("proc/kallsyms")
    s.note("even less")
    s.run("doctor")
    m = machines.amd(clear(s.root) or s.root)
    m.put_device("0000:23:00.0", "mem_info_vis_vram_total", f"{256 * MIB}\n")
    m.kernel_config(DMABUF_MOVE_NOTIFY=None, HSA_AMD_P2P="m")
    m.iommu("DMA")
    m.cpu(flags="fpu hypervisor")
    m.put("sys/kernel/mm/memory_peers/peerdma/version", "1.0\n")
    s.note("AMD's GPUs with a small BAR, behind an IOMMU")
    s.run("doctor")
    clear(s.root)
    machines.Machine(s.root)
    s.note("no GPU")
    s.run("doctor")
    s.run("topo")


KINDS = ((0x10de, 0x1eb8, 0x030200), (0x1002, 0x73bf, 0x030000), (0x8086, 0x56c0, 0x038000), (0x8087, 0x56c0, 0x038000),
         (0x1a03, 0x2000, 0x030000), (0x1002, 0x740f, 0x120000), (0x10de, 0x740f, 0x120000), (0x1af4, 0x1110, 0x050000), (0x1af4, 0x1111, 0x050000),
         (0x15b3, 0x1021, 0x020700), (0x8086, 0x1521, 0x020000), (0x144d, 0xa824, 0x010802), (0x144d, 0xa825, 0x010700),
         (0x10ee, 1, 0x058000), (0x1172, 1, 0xff0000), (0x1204, 1, 0xff0000), (0x11aa, 1, 0xff0000), (0x11ab, 1, 0xff0000),
         (0x1234, 0x11e8, 0x00ff00), (0x1234, 0x11e9, 0x00ff00), (0x1234, 1, 0x040000), (0x1234, 1, 0x040100), (0x1234, 1, 0x118000), (0x1234, 1, 0x130000))


def odd(s):
    """One of each kind of device; then what is seldom so."""
    m = machines.Machine(s.root)
    m.nodes(3)
    for number, (vendor, device, kind) in enumerate(KINDS):
        speed = (2.5, 5.0, 8.0, 16.0, 32.0, 64.0)[number // 2 % 6]
        m.device(f"{number // 9:04x}:{number + 1:02x}:00.{number % 8}", f"pci{number // 9:04x}:00", (vendor, device), kind, number % 4 - 1,
                 speed=None if number % 2 else (f"{speed} GT/s PCIe", 1 << number % 5), best=("64.0 GT/s PCIe", 16),
                 bars=((0, 4096 << number),), space=machines.config(number % 10, number % 3 or None))
    for name in ("infiniband/a0", "infiniband/b0", "infiniband/c0", "net/d0"):
        m.put_device("0001:0a:00.1", name + "/x", "")
    m.put("usr/share/hwdata/pci.ids", "1002  Advanced Micro Devices\n\t73bf  Navi 21\n\t73bf 1002 0001  a subsystem\n1a03  ASPEED\n"
          "8086  Intel\n\t1521\n\t56c0 one blank\nffff  Last\nC 00  Class\n\t1521  not a device\n")
    s.run("topo")
    s.run("doctor --all GPU2 NIC0")
    m.put("sys/hypervisor/type", "xen\n")
    m.put("sys/class/dmi/id/product_name", "HVM domU\n")
    s.note("a virtual machine by its hypervisor")
    s.run("topo --tree", brief=True)
    s.run("doctor GPU0 NIC0")

    clear(s.root)
    m = machines.Machine(s.root)
    m.gpu("0000:10:00.0", "pci0000:10", -1)
    m.device("0000:11:00.0", "pci0000:10", machines.CX7, 0x020700, 2, speed=("64.0 GT/s PCIe", 8), bars=((0, 4096),))
    m.device("0000:12:00.0", "pci0000:10", (0x144d, 1), 0x010802, 1, speed=("8.0 GT/s PCIe", 4))
    m.device("0000:40:00.0", "pci0000:40", (0x10ee, 1), 0x058000, -1, speed=("2.5 GT/s PCIe", 1), best=("64.0 GT/s PCIe", 32))
    # One far below; still deeper is what is not drawn.
    above = "pci0000:18"
    for level in range(9):
        above = m.port(f"0000:{0x18 + level:02x}:00.0", above, 4 if not level else 5 + level % 2)
    m.nic("0000:22:00.0", above, 0, 0)
    for level in range(8):
        above = m.port(f"0000:{0x30 + level:02x}:00.0", above, 5 + level % 2)
    s.note("host bridges whose first devices do not say where they are")
    s.run("topo --svg")

    clear(s.root)
    m = server(s.root)
    gpu, other = m.gpus
    m.bars(gpu, (0, 16 * MIB, 0x140204))
    m.put("nvml.tsv", f"index\tpci\tname\tuuid\tbar1_total\tbar1_used\tbar1_free\n0\t{gpu}\tNVIDIA H200\tGPU-0\t-\t-\t-\n"
          f"1\t{other}\tNVIDIA H200\tGPU-1\t1000\t899\t101\n2\t0000:77:00.0\tNVIDIA H200\tGPU-1\t1000\t901\t99\n")
    shutil.rmtree(s.root + "/proc/driver")
    m.put("proc/sys/kernel/osrelease", "5.11.0\n")
    m.kernel = "5.11.0"
    m.kernel_config()
    m.module("peerdma_peermem")
    shutil.rmtree(s.root + "/sys/kernel/mm")
    m.put("sys/module/peerdma_peermem/parameters/persistent", "Y\n")
    m.folder("sys/kernel/mm/memory_peers/nv_mem")
    shutil.rmtree(s.root + "/sys/module/mlx5_core")
    for name, place in (("soft0", "virtual/infiniband/soft0"), ("far0", "pci0000:ff/0000:ff:00.0/infiniband/far0")):
        m.folder("sys/devices/" + place)
        m.link("sys/class/infiniband/" + name, "../../devices/" + place)
    m.put(f"sys/devices/{m.where['0000:14:00.0']}/iommu_group", "no link")
    m.link(f"sys/devices/{m.where['0000:15:00.0']}/iommu_group", "../../7x")
    s.note("little that is usual")
    s.run("doctor --all")
    s.run("bar1 --ascii --color")
    m.put("nvml.tsv", "")
    m.nvidia()
    m.index = [line for line in m.index if line[1] != "/dev/nvidia1"]
    m.error("node", "/dev/nvidia1", errno.EACCES)
    s.note("NVML's figures are empty")
    s.run("doctor GPU0 NIC0")


def bundle(s):
    """What a bundle has in it, and what two bundles differ in."""
    m = mixed(os.path.join(s.root, "a"))
    m.error("read", "/proc/self/limits", errno.EACCES)
    m.put("commands/modinfo-nvidia-peermem", "filename: x\ndepends: nvidia\n")
    shutil.rmtree(m.path + "/sys/module/nvidia_peermem")
    m.put_device("0000:04:00.0", "infiniband/" + "long" * 25 + "/x", "")
    ill(os.path.join(s.root, "b"))
    for name in "ab":
        s.run(f"doctor --bundle ROOT/{name}.tar --root ROOT/{name}", root=False, brief=True)
    # Of the devices, one stands for all.
    others = re.compile(r"devices/0000:(?!04)|iommu_groups/(?!5)")
    with tarfile.open(os.path.join(s.root, "a.tar")) as tar:
        for file in tar.getmembers():
            if not others.search(file.name):
                s.say(f"{file.type.decode()} {file.mode:o} {file.uid} {file.gid} {file.mtime} {file.size} {file.uname}:{file.gname} {file.name}")
        for line in tar.extractfile("bundle.tsv").read().decode().splitlines():
            if not others.search(line):
                s.say(line.replace("\t", " "))
    s.run("doctor --compare ROOT/a.tar ROOT/a", root=False)
    m = ill(os.path.join(s.root, "c"))
    m.nvidia("580.95.05")
    m.limits(nofile=512)
    m.driver("0000:15:00.0", "mlx5_core")
    m.put_device("0000:95:00.0", "current_link_width", "1\n")
    m.put("dev/kmsg", machines.TWO_TROUBLES[1])
    m.put("nvml-modes.tsv", "")
    m.put("proc/kallsyms", "0000000000000000 T pci_p2pdma_distance_many\n")
    m.put("proc/sys/kernel/osrelease", "6.9.0\n")
    s.run("doctor --compare ROOT/b.tar ROOT/c", root=False)
    s.run("doctor --compare --all ROOT/c ROOT/b.tar", root=False)
    s.run("doctor --compare --json ROOT/b ROOT/c", root=False)


def counters(s):
    """The commands that count pins."""
    m = two_gpus(s.root)
    for line in ("", "pins", "pins --json", "bar1 --ascii", "bar1 --json", "bar1 --tsv", "top", "top --json", "top --ascii --sort name",
                 "metrics --no-doctor"):
        s.run(line)
    s.run("bar1 --color")
    s.run("bar1", COLUMNS="40")
    s.run("bar1", COLUMNS="0", LC_ALL="C")
    s.run("bar1 --ascii", COLUMNS="50")
    m.pins(counted.pin(segments="-", pinned_length=0, length=1))
    m.gpus()
    s.note("one pin and no GPU")
    for line in ("", "pins", "bar1", "bar1 --json", "top"):
        s.run(line)
    m.pins(["half"], counted.pin(state="revoked"), ["a"])
    s.note("malformed lines, one pin revoked")
    for line in ("", "pins", "pins --json", "bar1", "top", "metrics --no-doctor --no-processes --format=prometheus"):
        s.run(line)
    m.pins()
    m.accounts()
    s.note("no pins")
    for line in ("", "pins", "pins --json", "top --json", "metrics --no-doctor"):
        s.run(line)
    clear(s.root)
    s.note("nothing")
    for line in ("", "pins", "bar1", "bar1 --tsv", "bar1 --json", "top", "top --json", "metrics", "doctor", "topo"):
        s.run(line)


def screen(s):
    """Terminals of several sizes, and what keys do."""
    two_gpus(s.root)
    for columns, rows, keys, more in ((80, 24, "pngdrh", []), (150, 40, "+++--?x?", ["-d", "900"]), (41, 12, "-----", []),
                                      (40, 60, "", []), (9, 3, "", ["--sort", "revocations"])):
        s.say(f"== {columns} columns, {rows} rows, {' '.join(more)}, keys {keys}")
        master, slave = pty.openpty()
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        with subprocess.Popen([COMMAND, "top", "-d", "3600", *more, "--root", s.root], stdin=slave, stdout=slave, stderr=slave,
                              env={**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm", "TZ": "UTC"}, start_new_session=True) as done:
            os.close(slave)
            text = b""
            while not text.endswith(b"\x1b[J"):
                text += os.read(master, 65536)
            os.write(master, keys.encode() + b"q")
            try:
                while part := os.read(master, 65536):
                    text += part
            except OSError:         # the other end is closed
                pass
        os.close(master)
        last = None
        for number, shown in enumerate(text.decode().split("\x1b[H")):
            shown = re.sub(r"(?<=top  )\d\d:\d\d:\d\d", "00:00:00", shown.replace("\r", "")).replace("\x1b[K", "").split("\n")
            # Of what follows the first screen, what differs.
            if number < 2:
                lines = shown
            else:
                lines = [line for line in shown if line not in last]
            for line in lines:
                s.say("|" + line.replace("\x1b", "<ESC>") + "|")
            s.say("")
            last = shown
        s.say(f"[{done.returncode}]")


def wrong(s):
    """Wrong usage: what is said, and the exit codes."""
    for line in ("nothing", "--nothing", "-x", "help nothing", "--root", "pins x", "pins --tsv", "pins --nothing", "bar1 --json --tsv",
                 "bar1 --js --ts", "top -d 0.09", "top -d 3601", "top -d 1x", "top -d", "top -n x", "top -n -1", "top --sort x", "top x",
                 "topo --json --svg", "topo --tree --matrix", "topo x", "doctor GPU0", "doctor GPU0 GPU0 GPU1", "doctor --compare a",
                 "doctor --compare a b --probe", "doctor --compare a b --bundle c", "doctor --compare ROOT/none ROOT/none",
                 "doctor --bundle", "metrics x", "metrics --format x", "metrics --format", "cache x", "cache 0", "cache 1 2", "cache --regions", "cache --regions x 1", "cache --json=1",
                 "bench x", "bench --sizes 0", "bench --sizes 65G", "bench --sizes 1,,2", "bench --threads 65", "bench --count 10000001",
                 "bench --seconds 3601", "bench --seconds .5", "bench --svg ROOT", "info x", "info --tsv", "info --root ROOT"):
        s.run(line, root=False, brief=True)
    for line in ("--version", "pins --version", "help", "--help", "-h", "help pins", "bar1 -h", "top --help", "topo --help", "doctor -h",
                 "metrics --help", "bench --help", "cache --help", "info --help"):
        s.run(line, root=False, brief=True)
    s.run("help", root=False)
    for line in ("topo", "doctor", "doctor GPU0 NIC0"):
        s.run(f"{line} --root ROOT/none", root=False, brief=True)
    mixed(s.root)
    for line in ("doctor GPU0 GPU0", "doctor GPU0 GPU9", "doctor GPU GPU0", "doctor 0000:99:00.0 GPU0", "doctor --bundle ROOT/none/x",
                 "doctor --probe", "metrics -o ROOT", "metrics -o /dev/null", "metrics -o ROOT/none/x", "metrics -o ROOT/metrics"):
        s.run(line, brief=True)


def bench(s):
    """What bench_outputs.c prints, instead of the command."""
    said = subprocess.run([COMMAND, s.root], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=True).stdout
    text = re.sub(r"^\{\n(?:[ ].*\n)*\}\n", lambda json_object: compact(json.loads(json_object[0])) + "\n", said.decode(), flags=re.M)
    s.text = re.sub(r" +$", "", s.anonymous(text).replace("\x1b", "<ESC>"), flags=re.M)


def probe(s):
    """What probe_outputs.c prints, instead of the command."""
    m = mixed(s.root)
    m.folder(f"sys/devices/{m.where['0000:81:00.0']}/nvme/nvme0/device")
    m.folder(f"sys/devices/{m.where['0000:81:00.0']}/nvme/nvme0/nvme0c0n1")
    m.folder(f"sys/devices/{m.where['0000:81:00.0']}/nvme/nvme0/nvme0n1")
    m.put("drive", bytes(n * n % 251 for n in range(3 * 4096)))
    m.put("small", b"x" * 4095)
    # Beside the adapter's own: a program's over it, and one over nothing.
    m.put_device("0000:04:00.0", "infiniband/fake0/node_type", "1: CA\n")
    for name, over in (("rxe0", "ibs0"), ("rxe1", "lo")):
        m.software_adapter(name)
        m.put(f"sys/class/infiniband/{name}/ports/1/gid_attrs/ndevs/0", over + "\n")
    m.link("sys/class/net/ibs0", f"../../devices/{m.where['0000:04:00.0']}/net/ibs0")
    m.link("sys/class/net/lo", "../../devices/virtual/net/lo")
    bench(s)


def rates(s):
    """What top_outputs.c prints, instead of the command."""
    bench(s)


def caches(s):
    """What cache_outputs.c prints, instead of the command."""
    bench(s)


def cases(s):
    """What bench_cases.c prints, instead of the command."""
    bench(s)


def info(s):
    """What info_outputs.c prints, instead of the command."""
    bench(s)


def nomem(s):
    """What nomem_outputs.c prints, instead of the command."""
    machines.desktop(s.root)
    two_gpus(s.root)
    bench(s)


SPECIAL = {"bench_outputs": bench, "nomem_outputs": nomem, "bench_cases": cases, "cache_outputs": caches, "top_outputs": rates, "probe_outputs": probe,
           "info_outputs": info}
SESSIONS = (topo, topo_others, doctor, doctor_ill, doctor_software, odd, bundle, counters, screen, wrong)
if os.path.basename(COMMAND) in SPECIAL:
    SESSIONS = (SPECIAL[os.path.basename(COMMAND)],)


class Outputs(unittest.TestCase):
    def session(self, play):
        with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as root:
            s = Session(root)
            play(s)
        path = os.path.join(HERE, play.__name__.replace("_", "-") + ".txt")
        if WRITE:
            with open(path, "w", encoding="utf-8") as file:
                file.write(s.text)
            return
        with open(path, encoding="utf-8") as file:
            stored = file.read()
        if s.text != stored:
            self.fail("other than stored; if that is meant, write it anew:\n" + "\n".join(difflib.unified_diff(
                stored.splitlines(), s.text.splitlines(), path, "now", lineterm="", n=4)))


with open(os.path.join(HERE, "../../peerdma/tools/base/tool.h"), encoding="utf-8") as header:
    TOOL_VERSION = re.search(r'TOOL_VERSION "(.*)"', header.read())[1]
for one in SESSIONS:
    setattr(Outputs, "test_" + one.__name__, lambda self, play=one: self.session(play))

if __name__ == "__main__":
    unittest.main()
