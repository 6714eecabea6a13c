# SPDX-License-Identifier: MIT
"""Machines for `peerdma topo` and `peerdma doctor`: folders that look like /sys, /proc and the rest of one.

They follow real layouts: who is below which switch, what the files are called and say. Each function makes one
machine that is in order; tests break what they are about.
"""

import json
import os
import struct

GIB = 1 << 30
MIB = 1 << 20
REDIRECT = 0x1d         # what firmware and `iommu=on` set: validation, both redirects, forwarding
H200, CX7, BRIDGE = (0x10de, 0x2335), (0x15b3, 0x1021), (0x8086, 0x352a)
ICE_LAKE, QEMU = (0x8086, 0x09a2), (0x1af4, 0x1100)     # first on the root buses of servers; QEMU's subsystem
SWITCH = (0x1000, 0xc030)
UNSET = 0x20000000
NODE = 0o020666
# Of GPU0 of a server(): two findings on one matter, with two verdicts.
TWO_TROUBLES = ("NVRM: Xid (PCI:0000:13:00): 79, pid=812, GPU has fallen off the bus.",
                "NVRM: Xid (PCI:0000:13:00): 31, pid=812, name=train, Ch 00000008")


def config(port=0, acs=None, rebar=None, length=4096, subsystem=(0, 0), ats=None):
    """A config space: PCI Express capability with the port's type, ACS control, resizable BAR (bar, sizes in MiB), ATS (on or off)."""
    data = bytearray(length)
    if length > 8:
        data[6] = 0x10
        data[0x34:0x35] = b"\x40"[:max(0, length - 0x34)]
    if length >= 64:
        data[0x2c:0x30] = struct.pack("<HH", *subsystem)
        data[0x0e] = 1 if port in (4, 5, 6) else 0
    if length >= 256:
        data[0x40:0x44] = bytes([0x10, 0, port << 4 | 2, 0])
    if length > 256:
        at, caps = 0x100, []
        if acs is not None:
            caps.append((0x0d, struct.pack("<HH", 0x1f, acs)))
        if rebar is not None:
            bar, sizes = rebar
            mask = sum(1 << (4 + size.bit_length() - 1) for size in sizes)
            caps.append((0x15, struct.pack("<II", mask, bar | 1 << 5)))
        if ats is not None:
            caps.append((0x0f, struct.pack("<HH", 0x20, 0x8000 if ats else 0)))
        caps = caps or [(0x01, bytes(8))]
        for number, (cap, body) in enumerate(caps):
            after = at + 0x40 if number + 1 < len(caps) else 0
            data[at:at + 4 + len(body)] = struct.pack("<I", cap | 1 << 16 | after << 20) + body
            at += 0x40
    return bytes(data[:length])


# What a driver that imports dma-bufs has among the kernel's symbols.
IMPORTS = "0000000000000000 t mlx5_ib_reg_user_mr_dmabuf\t[mlx5_ib]\n"


class Machine:
    def __init__(self, path, kernel="6.8.0-45-generic"):
        self.path = path
        self.kernel = kernel
        self.index = []
        self.gpus = []
        self.gids = {}          # device: those of RoCE v2
        self.where = {}         # PCI address: its place below /sys/devices
        self.free = 0x2000_0000_0000
        self.put("proc/sys/kernel/osrelease", kernel + "\n")
        self.folder("sys/bus/pci/devices")
        self.put("dev/kmsg", "")
        self.folder("sys/class/iommu")
        self.limits()
        self.cpu()
        self.nodes(1)

    def put(self, name, content):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self

    def folder(self, name):
        os.makedirs(os.path.join(self.path, name), exist_ok=True)

    def remove(self, name):
        os.unlink(os.path.join(self.path, name))

    def link(self, name, target):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.islink(path):
            os.unlink(path)
        os.symlink(target, path)

    def told(self, *fields):
        """A line of the index of a bundle."""
        self.index = [line for line in self.index if line[:2] != fields[:2]] + [fields]
        self.put("bundle.tsv", "".join("\t".join(map(str, line)) + "\n" for line in self.index))

    def node(self, path, usable=True, mode=NODE):
        self.told("node", path, mode, "usable" if usable else "-")

    def error(self, kind, path, number):
        self.told("error", path, {"read": 0, "lines": 1, "link": 2, "list": 3, "command": 4, "node": 5}[kind], number)

    def cpu(self, vendor="GenuineIntel", family=6, model=143, flags="fpu sse2"):
        self.put("proc/cpuinfo", f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
                                 f"model name\t: a processor\nflags\t\t: {flags}\n\n")

    def nodes(self, count):
        for number in range(count):
            self.folder(f"sys/devices/system/node/node{number}")

    def limits(self, memlock="unlimited", nofile=1048576, most=None):
        """most: how many files a process may open if it asks."""
        self.put("proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"
                 f"Max locked memory         {memlock:<20} {memlock:<20} bytes     \n"
                 f"Max open files            {nofile:<20} {most or nofile:<20} files     \n")

    def iommu(self, kind="identity"):
        """Every device in a group of its own."""
        self.folder("sys/class/iommu/dmar0")
        for number, (address, place) in enumerate(sorted(self.where.items())):
            self.folder(f"sys/kernel/iommu_groups/{number}")
            self.link(f"sys/devices/{place}/iommu_group", f"../../../kernel/iommu_groups/{number}")
            self.put(f"sys/kernel/iommu_groups/{number}/type", kind + "\n")

    # ---- PCI

    def device(self, address, below, ids, kind, numa=0, bars=(), speed=("32.0 GT/s PCIe", 16), best=None, driver=None,
               known_as=(), space=None):
        """below: a host bridge ("pci0000:15") or the address of a bridge; bars: (number, size[, flags])."""
        place = f"{self.where.get(below, below)}/{address}"
        self.where[address] = place
        self.folder("sys/devices/" + place)
        self.link("sys/bus/pci/devices/" + address, "../../../devices/" + place)
        best = best or speed
        files = {"vendor": f"{ids[0]:#06x}", "device": f"{ids[1]:#06x}", "class": f"{kind:#08x}", "numa_node": numa}
        if speed:
            files.update(current_link_speed=speed[0], current_link_width=speed[1], max_link_speed=best[0],
                         max_link_width=best[1])
        for name, text in files.items():
            self.put(f"sys/devices/{place}/{name}", f"{text}\n")
        self.put(f"sys/devices/{place}/config", config() if space is None else space)
        self.bars(address, *bars)
        if driver:
            self.driver(address, driver)
        for name in known_as:
            self.folder(f"sys/devices/{place}/{name}")
        return address

    def driver(self, address, name):
        self.link(f"sys/devices/{self.where[address]}/driver", f"/sys/bus/pci/drivers/{name}")

    def software_adapter(self, name, address=None):
        """rxe: of a PCI function it is peerdma_hca's."""
        self.put(f"sys/class/infiniband/{name}/parent", "eth0\n")
        if address:
            self.put_device(address, f"infiniband/{name}/parent", "eth0\n")

    def bars(self, address, *bars):
        lines = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 13
        for number, size, *flags in bars:
            flags = flags[0] if flags else 0x14220c
            self.free = (self.free + size - 1) & -size
            start = 0 if flags & UNSET else self.free
            lines[number] = f"{start:#018x} {start + size - 1:#018x} {flags:#018x}"
            self.free += size
        self.put(f"sys/devices/{self.where[address]}/resource", "\n".join(lines) + "\n")

    def put_device(self, address, name, content):
        return self.put(f"sys/devices/{self.where[address]}/{name}", content)

    def port(self, address, below, kind, numa=0, acs=0, ids=None):
        return self.device(address, below, ids or (BRIDGE if kind == 4 else SWITCH), 0x060400, numa, driver="pcieport",
                           space=config(kind, acs if kind != 5 else None))

    def first(self, address, below, ids=ICE_LAKE, subsystem=(0, 0)):
        """The function by which a host bridge is known."""
        return self.device(address, below, ids, 0x088000, speed=None, space=config(9, None, length=256, subsystem=subsystem))

    def gpu(self, address, below, numa=0, bar1=256 * GIB, ids=H200, rebar=None, **more):
        self.gpus.append(address)
        return self.device(address, below, ids, 0x030200, numa, driver="nvidia",
                           bars=((0, 16 * MIB, 0x140204), (2, bar1), (4, 32 * MIB)), space=config(0, None, rebar), **more)

    def nic(self, address, below, number, numa=0, **more):
        return self.device(address, below, CX7, 0x020700, numa, driver="mlx5_core", bars=((0, 32 * MIB),),
                           known_as=(f"infiniband/mlx5_{number}", f"net/ibs{number}"), **more)

    # ---- software

    def module(self, name, version=None):
        self.folder(f"sys/module/{name}")
        if version:
            self.put(f"sys/module/{name}/version", version + "\n")

    def nvidia(self, version="580.95.05", opened=True):
        kind = "UNIX Open Kernel Module for x86_64" if opened else "UNIX x86_64 Kernel Module"
        self.put("proc/driver/nvidia/version", f"NVRM version: NVIDIA {kind}  {version}  Release Build\nGCC version:  gcc\n")
        self.module("nvidia", version)
        for path in ["/dev/nvidiactl", "/dev/nvidia-uvm"]:
            self.node(path)
        for minor, address in enumerate(sorted(self.gpus)):
            self.minor(address, minor)

    def minor(self, address, minor):
        """The driver's number of a GPU, which names its node."""
        self.put(f"proc/driver/nvidia/gpus/{address}/information",
                 f"Model: \t\t NVIDIA H200\nIRQ:   \t\t 16\nBus Location: \t {address}\nDevice Minor: \t {minor}\n")
        self.node(f"/dev/nvidia{minor}")

    def rdma(self, count, flavour="inbox"):
        """flavour: the version of MLNX_OFED's modules, or the kernel's own."""
        for name in ("ib_core", "ib_uverbs", "mlx5_ib", "mlx5_core"):
            self.module(name, None if flavour == "inbox" else flavour)
        symbols = ["ib_umem_dmabuf_get"] + (["ib_register_peer_memory_client"] if flavour != "inbox" else [])
        self.put("proc/kallsyms", "".join(f"0000000000000000 T {s}\t[ib_uverbs]\n" for s in symbols) + IMPORTS)
        for number in range(count):
            self.rdma_device(f"mlx5_{number}", number)
        self.node("/dev/infiniband/rdma_cm")

    def rdma_device(self, name, uverbs):
        """Its node's number is any: not its number among the devices."""
        self.put(f"sys/class/infiniband/{name}/node_type", "1: CA\n")
        self.port_of(name)
        self.put(f"sys/class/infiniband_verbs/uverbs{uverbs}/ibdev", name + "\n")
        self.node(f"/dev/infiniband/uverbs{uverbs}")

    def port_of(self, name, state="4: ACTIVE", phys_state="5: LinkUp", link_layer="InfiniBand", rate="400 Gb/sec (4X NDR)"):
        for file, text in (("state", state), ("phys_state", phys_state), ("link_layer", link_layer), ("rate", rate)):
            self.put(f"sys/class/infiniband/{name}/ports/1/{file}", text + "\n")

    def scalable_function(self, name, number, address, uverbs):
        """An RDMA device of a part of an adapter: an auxiliary device below the PCI function."""
        self.rdma_device(name, uverbs)
        self.link(f"sys/class/infiniband/{name}/device", f"../../../devices/{self.where[address]}/mlx5_core.sf.{number}")

    def roce(self, name, interface, mtu=9000, gids=((1, "link-local"), (3, "IPv4-mapped")), pfc=(3,), trust=("dscp", "pcp")):
        """Its port is Ethernet; gids: those of RoCE v2, with the kind of their address; pfc, trust: None: dcb does not answer."""
        self.port_of(name, link_layer="Ethernet", rate="400 Gb/sec (4X NDR)")
        self.put(f"sys/class/net/{interface}/mtu", f"{mtu}\n")
        for index in range(4):
            self.put(f"sys/class/infiniband/{name}/ports/1/gid_attrs/types/{index}",
                     "RoCE v2\n" if index in dict(gids) else "IB/RoCE v1\n")
        self.gids[name] = gids
        self.put("gid-kinds.tsv", "".join(f"{device}\t1\t{index}\t{kind}\n" for device, known in self.gids.items()
                                         for index, kind in known if kind))
        if pfc is not None:
            self.put(f"commands/dcb-pfc-{interface}", json.dumps({"pfc_cap": 8, "macsec_bypass": False, "delay": 0,
                                                                  "prio_pfc": [i in pfc for i in range(8)]}, separators=(",", ":")))
        if trust is not None:
            self.put(f"commands/dcb-apptrust-{interface}", json.dumps({"order": trust}, separators=(",", ":")))

    def peermem(self):
        self.module("nvidia_peermem", "580.95.05")
        self.put("sys/kernel/mm/memory_peers/nv_mem/version", "1.3\n")

    def kernel_config(self, **values):
        options = dict(PCI_P2PDMA="y", DMABUF_MOVE_NOTIFY="y", ZONE_DEVICE="y", DEVICE_PRIVATE="y", HMM_MIRROR="y",
                       HSA_AMD_P2P="y")
        options.update(values)
        self.put(f"boot/config-{self.kernel}",
                 "".join(f"CONFIG_{k}={v}\n" if v else f"# CONFIG_{k} is not set\n" for k, v in options.items()))

    def nvml(self, used=MIB, total=256 * GIB):
        lines = ["index\tpci\tname\tuuid\tbar1_total\tbar1_used\tbar1_free"]
        for number, address in enumerate(sorted(self.gpus)):
            lines.append(f"{number}\t{address}\tNVIDIA H200\tGPU-{number}\t{total}\t{used}\t{total - used}")
        self.put("nvml.tsv", "\n".join(lines) + "\n")


def software(m, nics):
    m.nvidia()
    m.nvml()
    m.rdma(nics, "24.10-1.1.4")
    m.peermem()
    m.kernel_config()


def server(path, acs=0, sockets=2, per_socket=4):
    """Two sockets; below each root port a switch with a GPU and two network adapters: 8 GPUs, 16 adapters."""
    m = Machine(path)
    m.nodes(sockets)
    number = 0
    for socket in range(sockets):
        for group in range(per_socket):
            base = 0x10 + socket * 0x80 + group * 0x10
            host = f"pci0000:{base:02x}"
            m.first(f"0000:{base:02x}:00.0", host)
            root = m.port(f"0000:{base:02x}:01.0", host, 4, socket, acs)
            up = m.port(f"0000:{base + 1:02x}:00.0", root, 5, socket)
            for slot in range(3):
                down = m.port(f"0000:{base + 2:02x}:{slot:02x}.0", up, 6, socket, acs)
                bus = f"0000:{base + 3 + slot:02x}:00.0"
                if slot == 0:
                    m.gpu(bus, down, socket)
                else:
                    m.nic(bus, down, number, socket)
                    number += 1
    software(m, number)
    return m


def desktop(path):
    """A consumer board with a small BAR1, and a network adapter in a port of its own."""
    m = Machine(path)
    m.cpu("AuthenticAMD", 25, 97)
    root = m.port("0000:00:01.1", "pci0000:00", 4)
    other = m.port("0000:00:02.1", "pci0000:00", 4)
    m.gpu("0000:01:00.0", root, bar1=256 * MIB, ids=(0x10de, 0x2684), rebar=(1, (64, 128, 256, 32768)))
    m.nic("0000:02:00.0", other, 0)
    m.device("0000:00:14.0", "pci0000:00", (0x1022, 0x43f7), 0x0c0330, speed=None)
    software(m, 1)
    m.nvml(total=256 * MIB)
    return m


def cloud(path):
    """A virtual machine: everything on one bus, whatever the host is like."""
    m = Machine(path)
    m.cpu(flags="fpu sse2 hypervisor")
    m.put("sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
    m.gpu("0000:00:1e.0", "pci0000:00", numa=-1, ids=(0x10de, 0x1eb8), bar1=256 * MIB)
    m.device("0000:00:05.0", "pci0000:00", (0x1d0f, 0xefa1), 0x020000, -1, bars=((0, 16384),), speed=None, driver="efa",
             known_as=("infiniband/efa_0",))
    software(m, 0)
    m.nvml(total=256 * MIB)
    return m


def jetson(path):
    """The GPU is in the processor; PCI has a card at most."""
    m = Machine(path, "5.15.148-tegra")
    m.put("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\n")
    m.put("proc/device-tree/compatible", b"nvidia,p3737-0000+p3701-0005\0nvidia,tegra234\0")
    root = m.port("0005:00:00.0", "pci0005:00", 4, ids=(0x10de, 0x229a))
    m.device("0005:01:00.0", root, (0x10ee, 0x9034), 0x058000, -1, bars=((0, MIB),), speed=("5.0 GT/s PCIe", 4))
    return m


def amd(path):
    """MI300 boards with all their memory in the BAR."""
    m = Machine(path)
    m.cpu("AuthenticAMD", 25, 17)
    for number in range(2):
        base = 0x20 + 0x20 * number
        root = m.port(f"0000:{base:02x}:01.1", f"pci0000:{base:02x}", 4, ids=(0x1022, 0x14ab))
        up = m.port(f"0000:{base + 1:02x}:00.0", root, 5)
        for slot in range(2):
            down = m.port(f"0000:{base + 2:02x}:{slot:02x}.0", up, 6)
            bus = f"0000:{base + 3 + slot:02x}:00.0"
            if slot:
                m.nic(bus, down, number)
            else:
                m.device(bus, down, (0x1002, 0x74a1), 0x120000, bars=((0, 256 * GIB), (2, 2 * MIB)), driver="amdgpu")
                m.put_device(bus, "mem_info_vram_total", f"{192 * GIB}\n")
                m.put_device(bus, "mem_info_vis_vram_total", f"{192 * GIB}\n")
    m.module("amdgpu")
    m.node("/dev/kfd")
    m.rdma(2)
    m.kernel_config()
    return m
