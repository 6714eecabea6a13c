# SPDX-License-Identifier: MIT
"""Kinds of machines that people have, and what the doctor is to say of each.

A row is a description: a machine of machines.py (or an empty one), steps that make it what was reported, the source of that
report, and the verdict. The steps are functions below; a new kind is a row, and rarely a new step.
"""

import os
import shutil
from dataclasses import dataclass

import machines
from machines import GIB, MIB


@dataclass(frozen=True)
class Kind:
    kind: int                   # what is special of it: the comments in the table
    name: str
    source: str                 # a public report, a maker's document, or "reported by users"
    base: object                # a function of machines.py; None: an empty machine
    steps: tuple
    exit: int
    headline: str = ""
    says: tuple = ()
    never: tuple = ()
    args: tuple = ()
    virtual: bool = False


WORKS, FAILS, SLOW, UNKNOWN = 0, 1, 2, 3


# ---- steps: each makes one more thing of a machine so

def symbols(*lines):
    """All of the kernel's symbols: "name" is in its image, "name [module]" in a module."""
    return lambda m: m.put("proc/kallsyms", "".join(f"0000000000000000 t {line.replace(' ', chr(9))}\n" for line in lines))


def put(name, content):
    return lambda m: m.put(name, content)


def without(*names):
    def step(m):
        for name in names:
            shutil.rmtree(os.path.join(m.path, name))
    return step


def modules(*names):
    return lambda m: [m.module(name) for name in names]


def nodes(*names):
    return lambda m: [m.node(name) for name in names]


def missing(*names):
    def step(m):
        for name in names:
            m.index = [line for line in m.index if line[1] != name]
            m.error("node", name, 2)
    return step


def process_namespace(number):
    return lambda m: m.link("proc/self/ns/pid", f"pid:[{number}]")


def nvidia(version="580.95.05", opened=True):
    return lambda m: m.nvidia(version, opened)


def device(*args, **more):
    return lambda m: m.device(*args, **more)


def kernel(release):
    def step(m):
        m.kernel = release
        m.put("proc/sys/kernel/osrelease", release + "\n")
    return step


def log(*lines):
    return put("dev/kmsg", "".join(line + "\n" for line in lines))


def without_rdma_devices(m):
    """Of any adapter."""
    for place in m.where.values():
        shutil.rmtree(os.path.join(m.path, "sys/devices", place, "infiniband"), ignore_errors=True)
    shutil.rmtree(os.path.join(m.path, "sys/class/infiniband"))


def cpu(**more):
    return lambda m: m.cpu(**more)


def arm(part, *vendor):
    """CPU part; the firmware's maker and product."""
    def step(m):
        m.put("proc/cpuinfo", f"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: {part:#x}\n")
        for name, word in zip(("sys_vendor", "product_name"), vendor):
            m.put("sys/class/dmi/id/" + name, word + "\n")
    return step


def iommu(kind="DMA-FQ"):
    return lambda m: m.iommu(kind)


def ports(*names, physical="3: Disabled"):
    return lambda m: [m.port_of(name, "1: DOWN", physical, "Ethernet") for name in names]


def roce(*names):
    """Ports that are up and have an address."""
    def step(m):
        for name in names:
            m.port_of(name, link_layer="Ethernet")
            m.put(f"sys/class/infiniband/{name}/ports/1/gid_attrs/types/0", "RoCE v2\n")
    return step


def card(ids, kind, driver, place="0000:02:00.0", below="0000:00:1c.0"):
    """A card with a driver of its own, in a root port of its own."""
    def step(m):
        if below not in m.where:
            m.port(below, "pci0000:00", 4)
        m.device(place, below, ids, kind, 0, bars=((0, 65536),), driver=driver)
    return step


def ats(acs, adapters=(True, True)):
    """ACS of all ports, and whether each adapter of one_socket() has ATS turned on."""
    def step(m):
        for slot in range(3):
            m.put_device(f"0000:12:{slot:02x}.0", "config", machines.config(6, acs))
        for number, on in enumerate(adapters):
            m.put_device(f"0000:{0x14 + number:02x}:00.0", "config", machines.config(0, ats=on))
    return step


def bar_address(address, bar, offset=0x10000000):
    """Of a machine's GPU: an address inside its BAR."""
    def of(m):
        with open(os.path.join(m.path, "sys/devices", m.where[address], "resource"), encoding="ascii") as file:
            return int(file.read().split("\n")[bar].split()[0], 16) + offset
    return of


def faulted(message, address, bar=2):
    """The IOMMU has blocked DMA to an address inside that GPU's BAR; {at} in the message."""
    return lambda m: m.put("dev/kmsg", message.format(at=f"{bar_address(address, bar)(m):#x}") + "\n")


def no_nvml(m):
    m.remove("nvml.tsv")


def nvml_without_bar1(name):
    def step(m):
        lines = ["index\tpci\tname\tuuid\tbar1_total\tbar1_used\tbar1_free"]
        lines += [f"{n}\t{gpu}\t{name}\tGPU-{n}\t-\t-\t-" for n, gpu in enumerate(sorted(m.gpus))]
        m.put("nvml.tsv", "\n".join(lines) + "\n")
    return step


GUEST = "fpu sse2 hypervisor"


# ---- bases: what no function of machines.py is

def one_socket(path):
    return machines.server(path, sockets=1, per_socket=1)


def four_gpus(path):
    return machines.server(path, sockets=1, per_socket=4)


def workstation(path):
    """A professional board, and no adapter that has RDMA: an Ethernet port."""
    m = machines.Machine(path, "7.0.0-30-generic")
    m.first("0000:00:00.0", "pci0000:00", (0x8086, 0xa700))
    m.gpu("0000:01:00.0", m.port("0000:00:01.0", "pci0000:00", 4), bar1=16 * GIB, ids=(0x10de, 0x28b0))
    m.device("0000:05:00.0", m.port("0000:00:1d.0", "pci0000:00", 4), (0x8086, 0x15f3), 0x020000, 0, bars=((0, MIB),),
             driver="igc", known_as=("net/eth0",))
    m.nvidia("580.95.05")
    m.nvml(total=16 * GIB)
    m.kernel_config()
    m.put("proc/kallsyms", "0000000000000000 T dma_buf_dynamic_attach\n")
    return m


def unified(address, ids, driver, nic="0000:01:00.0", kernel="6.17.0-1014-nvidia"):
    """A GPU in the processor, as a PCI function, and an adapter; no BAR with its memory."""
    def base(path):
        m = machines.Machine(path, kernel)
        root = m.port("000f:00:00.0", "pci000f:00", 4, ids=(0x10de, 0x22d1))
        m.gpus.append(address)
        m.device(address, root, ids, 0x030000, 0, driver=driver, bars=((0, 64 * MIB, 0x40200),), speed=("2.5 GT/s PCIe", 1))
        m.nic(nic, m.port("0000:00:00.0", "pci0000:00", 4, ids=(0x10de, 0x22ce)), 0)
        m.rdma(1)
        m.kernel_config()
        return m
    return base


def grace(path):
    """GH200 or GB200: the GPU's memory is NUMA node 1; the adapter is below another host bridge."""
    m = machines.Machine(path, "6.8.0-1036-nvidia-64k")
    m.gpus.append("0009:01:00.0")
    m.device("0009:01:00.0", m.port("0009:00:00.0", "pci0009:00", 4, ids=(0x10de, 0x22b9)), (0x10de, 0x2342), 0x030200, 0,
             driver="nvidia", bars=((0, 16 * MIB, 0x40200), (2, 128 * 1024, 0x14220c)))
    m.nic("0000:01:00.0", m.port("0000:00:00.0", "pci0000:00", 4, ids=(0x10de, 0x22b1)), 0)
    m.nvidia("580.95.05")
    nvml_without_bar1("NVIDIA GH200 480GB")(m)
    m.rdma(1)
    m.kernel_config()
    return m


def hyperv(path):
    """Azure ND: each function has a PCI domain of its own, and is all that is in it."""
    m = machines.Machine(path, "6.8.0-1029-azure")
    m.cpu("AuthenticAMD", 25, 1, GUEST)
    m.put("sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n")
    m.put("sys/class/dmi/id/product_name", "Virtual Machine\n")
    m.gpu("0001:00:00.0", "pci0001:00", 0, ids=(0x10de, 0x20b2), bar1=128 * GIB)
    m.nic("0101:00:00.0", "pci0101:00", 0)
    machines.software(m, 1)
    return m


def guest(path):
    """KVM: everything on the root bus of an emulated chipset."""
    m = machines.Machine(path)
    m.cpu(flags=GUEST)
    m.put("sys/class/dmi/id/sys_vendor", "QEMU\n")
    m.first("0000:00:00.0", "pci0000:00", (0x8086, 0x29c0), subsystem=machines.QEMU)
    m.gpu("0000:00:05.0", "pci0000:00", -1)
    m.nic("0000:00:06.0", "pci0000:00", 0, -1)
    machines.software(m, 1)
    return m


def guest_with_card(path):
    """A virtual machine with a GPU, a card and an Ethernet port."""
    m = machines.Machine(path)
    m.cpu(flags=GUEST)
    m.first("0000:00:00.0", "pci0000:00", (0x8086, 0x29c0), subsystem=machines.QEMU)
    m.gpu("0000:00:05.0", "pci0000:00", -1)
    m.device("0000:00:06.0", "pci0000:00", (0x10ee, 0x9038), 0x058000, -1, bars=((0, MIB),), speed=None, driver="qdma-pf")
    m.device("0000:00:03.0", "pci0000:00", (0x1af4, 0x1000), 0x020000, -1, bars=((0, 4096),), speed=None,
             driver="virtio-pci", known_as=("net/eth0",))
    m.nvidia()
    m.nvml()
    m.kernel_config()
    return m


def windows(path):
    m = machines.Machine(path, "6.6.87.2-microsoft-standard-WSL2")
    m.cpu(flags=GUEST)
    m.device("5582:00:00.0", "pci5582:00", (0x1414, 0x008e), 0x030200, -1, speed=None, driver="dxgkrnl")
    m.node("/dev/dxg")
    return m


def amd_with_ofed(path):
    """MI300X below MLNX_OFED's core, without a client of amdgpu's."""
    m = machines.amd(path)
    m.rdma(2, "24.10-1.1.4")
    return m


def bnxt(path):
    """MI300X with Broadcom's adapter and core, on a kernel without DMABUF_MOVE_NOTIFY."""
    m = machines.Machine(path, "6.8.0-45-generic")
    m.cpu("AuthenticAMD", 25, 17)
    up = m.port("0000:22:00.0", m.port("0000:21:01.1", "pci0000:21", 4, ids=(0x1022, 0x14ab)), 5)
    m.device("0000:24:00.0", m.port("0000:23:00.0", up, 6), (0x1002, 0x74a1), 0x120000, bars=((0, 256 * GIB), (2, 2 * MIB)),
             driver="amdgpu")
    for name in ("total", "vis_vram_total"):
        m.put_device("0000:24:00.0", "mem_info_" + ("vram_" if name == "total" else "") + name, f"{192 * GIB}\n")
    m.device("0000:25:00.0", m.port("0000:23:01.0", up, 6), (0x14e4, 0x1760), 0x020000, 0, bars=((0, MIB),), driver="bnxt_en",
             known_as=("infiniband/bnxt_re0",))
    for name in ("amdgpu", "ib_core", "ib_uverbs", "bnxt_re", "bnxt_en", "ib_peer_mem"):
        m.module(name)
    m.node("/dev/kfd")
    m.node("/dev/infiniband/rdma_cm")
    m.rdma_device("bnxt_re0", 0)
    symbols("ib_umem_dmabuf_get [ib_uverbs]", "ib_register_peer_memory_client [ib_peer_mem]")(m)
    m.kernel_config(DMABUF_MOVE_NOTIFY=None)
    return m


def efa(m):
    symbols("ib_umem_dmabuf_get [ib_uverbs]", "efa_reg_user_mr_dmabuf [efa]")(m)
    m.rdma_device("efa_0", 0)


NO_CLIENTS = without("sys/kernel/mm", "sys/module/nvidia_peermem")      # dma-buf is what is left
PROPRIETARY = nvidia(opened=False)                                      # peer memory is what is left
INSIDE = put(".dockerenv", "")
MADE_UP = "made up: the opposite of the row above"
OGKM_1324 = "github.com/NVIDIA/open-gpu-kernel-modules/issues/1324"
SPARK = "forums.developer.nvidia.com/t/dgx-spark-gpudirect-rdma/348787 (NVIDIA)"
DEKTEC = (0x1a0e, 0x085a)
DMAR = "DMAR: [DMA Write NO_PASID] Request device [{of}] fault addr {{at}} [fault reason 0x05] PTE Write access is not set"

KINDS = (
    # 1: numbers that are not positions
    Kind(1, "pod with adapter uverbs5", "reported by users: rdma-shared-device-plugin, rxe deleted and added again",
         one_socket, (INSIDE, put("sys/class/infiniband_verbs/uverbs1/ibdev", "other\n"),
                      put("sys/class/infiniband_verbs/uverbs5/ibdev", "mlx5_1\n"), missing("/dev/infiniband/uverbs0",
         "/dev/infiniband/uverbs1"),
                      nodes("/dev/infiniband/uverbs5")),
         WORKS, "should work", ("GPU0 and NIC0 (mlx5_1)",), ("mlx5_0",)),
    Kind(1, "pod with the third of four GPUs", "reported by users: nvidia-container-toolkit passes /dev/nvidia2 only",
         four_gpus, (INSIDE, missing("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia3")),
         WORKS, "should work", ("/dev/nvidiactl, /dev/nvidia2,", "0000:33:00.0"), ("GPU1", "/dev/nvidia0", "/dev/nvidia3")),
    Kind(1, "pod that no file marks", "containerd with automountServiceAccountToken: false: no /.dockerenv, no /run/secrets/kubernetes.io",
         four_gpus, (process_namespace(4026532501), missing("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia3", "/dev/infiniband/uverbs4")),
         WORKS, "should work", ("/dev/nvidiactl, /dev/nvidia2,", "0000:33:00.0"), ("GPU1", "/dev/nvidia0", "nvidia-modprobe")),
    Kind(1, "host that lacks nodes", "Linux's proc_ns.h: the number of the first namespace of processes", four_gpus,
         (process_namespace(4026531836), missing("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia3")),
         FAILS, "does not work for 3 of 4 GPUs", ("nvidia-modprobe",)),
    # 2: adapters without RDMA
    Kind(2, "Ethernet port", "reported by users: every server has one", one_socket,
         (device("0000:00:1f.6", "pci0000:00", (0x8086, 0x15f3), 0x020000, 0, bars=((0, MIB),), driver="igc",
         known_as=("net/eth0",)),),
         WORKS, "should work"),
    Kind(2, "adapter that lacks its driver", MADE_UP, one_socket, (without_rdma_devices,), FAILS, "does not work",
         ("the adapter is made for RDMA, and offers none", "modprobe mlx5_ib")),
    Kind(2, "Data Direct function", "Linux's mlx5 data_direct.c: 15b3:2100 is no adapter of its own", one_socket,
         (device("0000:16:00.0", "pci0000:10", (0x15b3, 0x2100), 0x020000, 0, bars=((0, MIB),), driver="mlx5_ib.data_direct"),),
         WORKS, "should work", (), ("offers none",)),
    # 3: drivers in the kernel's image
    Kind(3, "built-in driver", "reported by users: kernels with CONFIG_MLX5_INFINIBAND=y (Talos Linux, Container-Optimized OS)",
         one_socket, (NO_CLIENTS, symbols("ib_umem_dmabuf_get", "mlx5_ib_reg_user_mr_dmabuf", "pci_p2pdma_distance_many")),
         WORKS, "should work", ("dma-buf: works",), ("has no function",)),
    Kind(3, "built-in driver by clang", "Linux with CONFIG_LTO_CLANG: names of static functions end in .llvm.NUMBER",
         one_socket, (NO_CLIENTS, symbols("ib_umem_dmabuf_get", "mlx5_ib_reg_user_mr_dmabuf.llvm.1234567890")),
         WORKS, "should work", ("dma-buf: works",)),
    Kind(3, "module by clang", "the same", one_socket,
         (NO_CLIENTS, symbols("ib_umem_dmabuf_get [ib_uverbs]", "mlx5_ib_reg_user_mr_dmabuf.llvm.1234567890 [mlx5_ib]")),
         WORKS, "should work", ("dma-buf: works",)),
    Kind(3, "another driver is built in", MADE_UP, one_socket,
         (NO_CLIENTS, symbols("ib_umem_dmabuf_get", "efa_reg_user_mr_dmabuf", "mlx5_ib_reg_user_mr_dmabuf_more",
         "mlx5_reg_user_mr")),
         FAILS, "does not work", ("mlx5_ib has no function",)),
    Kind(3, "core in the image, no device", "/sys/module has no folder of a built-in driver without parameters",
         one_socket, (without("sys/module/ib_core"), without_rdma_devices,
                      put("lib/modules/6.8.0-45-generic/modules.builtin", "kernel/drivers/infiniband/core/ib_core.ko\n")),
         FAILS, "does not work", ("/sys/class/infiniband: no device",), ("ib_core is not loaded",)),
    # 4: peer-memory clients elsewhere
    Kind(4, "client in another folder", "RCCL and UCX look in /sys/kernel/memory_peers, too", bnxt,
         (put("sys/kernel/memory_peers/amdkfd/version", "1.0\n"),), WORKS, "should work", ("peer memory: works",)),
    Kind(4, "client nowhere", MADE_UP, bnxt, (), FAILS, "does not work", ("no amdkfd",)),
    Kind(4, "peer memory is needed where dma-bufs work", "the kernel's own RDMA core, open modules: AWS p5, most of 2025", one_socket,
         (NO_CLIENTS, symbols("ib_umem_dmabuf_get [ib_uverbs]", "mlx5_ib_reg_user_mr_dmabuf [mlx5_ib]")), FAILS, "does not work",
         ("use dma-bufs, which work here",), ("use NVIDIA's open kernel modules",), args=("--need", "peermem")),
    Kind(4, "EFA with NVIDIA's proprietary modules", "Amazon's efa_sysfs.c: the file p2p, NVIDIA without a client", machines.cloud,
         (efa, PROPRIETARY, NO_CLIENTS, lambda m: m.put_device("0000:00:05.0", "p2p", "NVIDIA\n")), SLOW, "more slowly",
         ("peer memory: works slowly", "efa asks NVIDIA's driver"), ("nvidia_peermem: not there",), virtual=True),
    Kind(4, "the same with Linux's own driver", MADE_UP, machines.cloud, (efa, PROPRIETARY, NO_CLIENTS), FAILS, "does not work", virtual=True),
    # 5: cards of other classes, and what an IOMMU blocked
    Kind(5, "capture card", OGKM_1324, workstation, (card(DEKTEC, 0x048000, "DtPcie"), cpu(vendor="AuthenticAMD", family=25,
         model=97)),
         SLOW, "more slowly", ("GPU0 and CARD0: PHB",)),
    Kind(5, "capture card whose DMA was blocked", OGKM_1324, workstation,
         (card(DEKTEC, 0x048000, "DtPcie"), cpu(vendor="AuthenticAMD", family=25, model=97), iommu(),
          faulted(DMAR.format(of="02:00.0"), "0000:01:00.0")),
         FAILS, "does not work", ("CARD0 and GPU0", "the address is in a BAR of 0000:01:00.0", "the driver of CARD0")),
    Kind(5, "DMA of a card to another address was blocked", MADE_UP, workstation,
         (card(DEKTEC, 0x048000, "DtPcie"), cpu(vendor="AuthenticAMD", family=25, model=97),
          log("nvidia 0000:02:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0012 address=0xfd00000000 flags=0x0020]")),
         FAILS, "does not work", ("What the kernel has noticed: CARD0",), ("is in a BAR",)),
    Kind(5, "DMA of a device in no matrix was blocked", "AMD-Vi's message", workstation,
         (device("0000:06:00.0", "pci0000:00", (0x1912, 0x0014), 0x0c0330, driver="xhci_hcd"),
          faulted("AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:06:00.0 domain=0x0012 address={at} flags=0x0020]",
         "0000:01:00.0")),
         FAILS, "something that is installed is broken", ("0000:06:00.0 (1912:0014) and GPU0",)),
    Kind(5, "DMA of an adapter was blocked on ARM", "Linux's arm-smmu-v3.c since 6.14", one_socket,
         (faulted("arm-smmu-v3 arm-smmu-v3.16.auto: event: F_TRANSLATION client: 0000:14:00.0 sid: 0x1400 ssid: 0x0 iova: {at} ipa: 0x0",
                  "0000:13:00.0"),),
         FAILS, "does not work", ("NIC0 and GPU0",)),
    Kind(5, "accelerator", "class 1200: Habana's Gaudi", workstation,
         (card((0x1da3, 0x1020), 0x120000, "habanalabs"), cpu(vendor="AuthenticAMD", family=25, model=97)), SLOW, "",
         ("GPU0 and CARD0: PHB",)),
    Kind(5, "sound and an engine in the processor", "Core Ultra: the NPU is of class 1200", workstation,
         (device("0000:01:00.1", "0000:00:01.0", (0x10de, 0x22bc), 0x040300, driver="snd_hda_intel"),
          device("0000:00:0b.0", "pci0000:00", (0x8086, 0x7d1d), 0x120000, driver="intel_vpu", space=machines.config(9))),
         WORKS, "none here that would take it", (), ("CARD0",)),
    Kind(5, "the peer's IOMMU group counts", "reported by users: the GPU translates, the adapter does not", one_socket,
         (iommu("identity"), put("sys/kernel/iommu_groups/4/type", "DMA\n")), WORKS, "should work",
         ("IOMMU: NIC0",), ("IOMMU: GPU0", "iommu=pt")),
    # 6: virtual machines
    Kind(6, "Hyper-V", "Azure ND: a PCI domain for each function", hyperv, (), WORKS, "should work",
         ("neither a function 00.0 nor a root port",), ("switch and", "host bridge: 0001:00:00.0"), virtual=True),
    Kind(6, "Hyper-V on Intel", "the same", hyperv, (cpu(flags=GUEST),), WORKS, "should work",
         ("compare bytes after a transfer",), virtual=True),
    Kind(6, "KVM", "QEMU q35 with everything on its root bus", guest, (), WORKS, "should work",
         ("passed through by the hypervisor",),
         virtual=True),
    Kind(6, "KVM with a GPU, a card and an Ethernet port", "reported by users", guest_with_card, (), WORKS, "should work",
         virtual=True),
    Kind(6, "cloud with a small BAR1", "AWS g4dn: EFA imports dma-bufs", machines.cloud,
         (symbols("ib_umem_dmabuf_get [ib_uverbs]", "efa_reg_user_mr_dmabuf [efa]"), lambda m: m.rdma_device("efa_0", 0)), SLOW,
         "more slowly",
         ("220 MiB", "register in pieces"), virtual=True),
    Kind(6, "guest without a GPU", "reported by users", None, (cpu(flags=GUEST),), FAILS, "no GPU",
         ("ask the provider of this virtual machine for",), virtual=True),
    Kind(6, "guest on ARM", "AWS g5g: no flag of the processor says it", guest, (arm(0xd0c, "Amazon EC2", "g5g.2xlarge"),),
         UNKNOWN, "",
         ("real distance cannot be seen",), virtual=True),
    Kind(6, "vGPU", "NVIDIA's vGPU user guide", guest, (put("nvml-modes.tsv", "0000:00:05.0\tvirtualization\t2\n"),), UNKNOWN,
         "cannot be told",
         ("a vGPU in a virtual machine",), virtual=True),
    Kind(6, "host of virtual machines with ATS", "NVIDIA's and Broadcom's guides: ACS 0x5d, ATS on in adapters and GPUs",
         one_socket,
         (ats(0x5d), iommu("DMA")), WORKS, "should work", ("translates its own (ATS)", "keeps them (ATS)"), ("disable_acs_redir",)),
    Kind(6, "the same without ATS in the adapters", MADE_UP, one_socket, (ats(0x5d, (False, False)),), SLOW, "more slowly",
         ("disable_acs_redir",)),
    Kind(6, "the same with ports that redirect translated requests", MADE_UP, one_socket, (ats(0x1d),), SLOW, "more slowly",
         ("disable_acs_redir",)),
    Kind(6, "host whose GPUs are guests'", "reported by users: vfio-pci and nvgrace-gpu-vfio-pci", one_socket,
         (lambda m: m.driver("0000:13:00.0", "nvgrace-gpu-vfio-pci"), lambda m: m.driver("0000:14:00.0", "vfio-pci"),
         without_rdma_devices),
         WORKS, "set aside"),
    Kind(6, "host that lends parts of GPUs", "NVIDIA's vGPU user guide", one_socket,
         (put("nvml-modes.tsv", "0000:13:00.0\tvirtualization\t3\n"),), WORKS, "set aside", ("lent to virtual machines",)),
    # 7: confidential machines
    Kind(7, "host of SEV-SNP guests", "github.com/AMDESE/AMDSEV/issues/88: iommu=pt turns SNP off", one_socket,
         (cpu(vendor="AuthenticAMD", family=25, model=17, flags="fpu sev sev_es sev_snp"),
         put("sys/module/kvm_amd/parameters/sev_snp", "Y\n"),
          iommu()), UNKNOWN, "", ("iommu=pt turns SNP off",), ("add iommu=pt",)),
    Kind(7, "the same without SNP", MADE_UP, one_socket,
         (cpu(vendor="AuthenticAMD", family=25, model=17, flags="fpu sev sev_es"), put("sys/module/kvm_amd/parameters/sev_snp",
         "N\n"), iommu()),
         SLOW, "more slowly", ("add iommu=pt",), ("SNP",)),
    Kind(7, "host of SEV-SNP guests, devices below two bridges", "the host bridge checks each access", machines.amd,
         (cpu(vendor="AuthenticAMD", family=25, model=17), put("sys/module/kvm_amd/parameters/sev_snp", "Y\n")), UNKNOWN,
         "cannot be told",
         ("checks each access for SEV-SNP",), args=("GPU0", "NIC1")),
    Kind(7, "TDX guest", "Linux: the flag tdx_guest", guest, (cpu(flags=GUEST + " tdx_guest"),), FAILS, "does not work",
         ("bounce buffers",), virtual=True),
    Kind(7, "SEV-SNP guest by its flags", "QEMU gives these to such guests only", guest,
         (cpu(vendor="AuthenticAMD", family=25, model=1, flags=GUEST + " sev sev_es sev_snp"),), FAILS, "does not work",
         ("/proc/cpuinfo: sev_snp",), virtual=True),
    Kind(7, "SEV-SNP guest by its log", "Linux's mem_encrypt.c", guest,
         (log("Memory Encryption Features active: AMD SEV SEV-ES SEV-SNP"),),
         FAILS, "does not work", ("AMD SEV SEV-ES SEV-SNP",), virtual=True),
    Kind(7, "SEV-SNP guest by its device", "Linux's sev-guest, built in", guest, (nodes("/dev/sev-guest"),), FAILS,
         "does not work", virtual=True),
    Kind(7, "host with encrypted memory", "Linux's mem_encrypt.c: SME alone is no guest's", one_socket,
         (log("Memory Encryption Features active: AMD SME"),), WORKS, "should work", (), ("bounce buffers",)),
    # 8: unified and coherent memory
    Kind(8, "DGX Spark", SPARK, unified("000f:01:00.0", (0x10de, 0x2e12), "nvidia"),
         (arm(0xd85, "NVIDIA", "NVIDIA_DGX_Spark"), nvidia(), nvml_without_bar1("NVIDIA GB10")), WORKS, "should work",
         ("host memory: works", "cudaHostAlloc()"), ("modprobe", "BAR1", "move ", "dma-buf: ", "does not guarantee")),
    Kind(8, "DGX Spark without NVIDIA's driver", MADE_UP, unified("000f:01:00.0", (0x10de, 0x2e12), None), (arm(0xd85),), FAILS,
         "does not work",
         ("modprobe nvidia",)),
    Kind(8, "Jetson Thor", "NVIDIA's Jetson Linux: the GPU is a PCI function", unified("0000:01:00.0", (0x10de, 0x2b00), "nvidia",
         "0001:01:00.0"),
         (arm(0xd83), put("proc/device-tree/compatible", b"nvidia,p3971-0000\0nvidia,tegra264\0"), nvidia(),
         nvml_without_bar1("NVIDIA Thor")),
         WORKS, "should work", ("host memory: works",), ("modprobe", "no prefetchable")),
    Kind(8, "Jetson Thor with its own driver", "github.com/avocado-linux/meta-avocado/pull/248: /dev/nvgpu/igpu-0000:01:00.0",
         unified("0000:01:00.0", (0x10de, 0x2b01), "nvgpu", "0001:01:00.0"),
         (arm(0xd83), put("proc/device-tree/compatible", b"nvidia,p3834-0008\0nvidia,tegra264\0")), WORKS, "should work",
         ("host memory: works",), ("modprobe", "/dev/nvidiactl")),
    Kind(8, "MI300A", "AMD's MI300A data sheet: one memory for both", unified("0000:01:00.0", (0x1002, 0x74a0), "amdgpu",
         "0001:01:00.0"),
         (cpu(vendor="AuthenticAMD", family=25, model=144), modules("amdgpu"), nodes("/dev/kfd")), WORKS, "should work",
         ("host memory: works",), ("amdkfd", "Resizable BAR")),
    Kind(8, "Grace Hopper", "NVIDIA's Grace tuning guide: the GPU's memory is a NUMA node", grace,
         (arm(0xd4f, "NVIDIA", "P4352"), put("proc/driver/nvidia/gpus/0009:01:00.0/numa_status",
         "Node:      1\nStatus:    online\n")),
         WORKS, "should work", ("coherent link: works", "Grace"), ("does not guarantee", "move ", "220 MiB")),
    Kind(8, "Grace Hopper without a node", "NVIDIA's CDMM mode", grace, (arm(0xd4f),), WORKS, "should work",
         ("dma-buf: works", "no NUMA node")),
    Kind(8, "another processor with Grace's core", "AWS Graviton4: Neoverse V2, too", one_socket, (arm(0xd4f, "Amazon EC2",
         "r8g.metal-24xl"),), UNKNOWN,
         "", ("does not guarantee",)),
    Kind(8, "WSL2", "Microsoft's WSL2: /dev/dxg", windows, (), FAILS, "", ("WSL2 has no GPUDirect RDMA",), ("pass",
         "ask the provider"), virtual=True),
    Kind(8, "workstation with a GPU in the processor, too", "reported by users: Core and Ryzen", workstation,
         (device("0000:00:02.0", "pci0000:00", (0x8086, 0xa780), 0x030000, 0, bars=((0, 16 * MIB), (2, 256 * MIB)), driver="i915"),
          device("0000:0b:00.0", "0000:00:1d.0", (0x1002, 0x164e), 0x030000, 0, bars=((0, 256 * MIB),))),
         WORKS, "none here that would take it", ("GPU0 and any peer",), ("GPU1", "amdgpu")),
    # 9: ports
    Kind(9, "all ports are down", "reported by users: \"no problem found\", and nothing is sent", one_socket, (ports("mlx5_0",
         "mlx5_1"),), FAILS,
         "does not work", ("no adapter is connected", "1: DOWN, 3: Disabled")),
    Kind(9, "the nearest adapter is down", "the same", machines.server, (ports("mlx5_0", "mlx5_1"),), SLOW, "more slowly",
         ("nearest adapter is not connected",)),
    Kind(9, "one of two adapters is down", MADE_UP, one_socket, (ports("mlx5_0"),), WORKS, "should work", ("GPU0 and NIC1",)),
    Kind(9, "port of a virtual machine", "the same: a cable is not its tenant's", guest, (ports("mlx5_0", physical="2: Polling"),),
         FAILS,
         "does not work", ("ask the provider of this virtual machine for an adapter",), ("cable",), virtual=True),
    # 10: logs
    Kind(10, "programs' own errors", "NVIDIA's Xid documentation: 13, 31, 43, 45, 68, 69", one_socket,
         (PROPRIETARY, log(*(f"NVRM: Xid (PCI:0000:13:00): {n}, pid=812, name=train" for n in (13, 31, 43, 45, 68, 69)))), WORKS,
         "should work", ("a program on the GPU had an error",)),
    Kind(10, "an error of the GPU", MADE_UP, one_socket, (log("NVRM: Xid (PCI:0000:13:00): 95, Uncontained ECC error"),), UNKNOWN,
         "cannot be told"),
    Kind(10, "addresses that are not aligned", "open-gpu-kernel-modules, nv-p2p.c", one_socket,
         (log("NVRM: Invalid argument in nv_p2p_get_pages,address or length are not aligned address=0x7f0000001000, length=0x1000"),),
         WORKS, "should work", ("multiple of 64 KiB",)),
    Kind(10, "peer DMA address", "github.com/tinygrad/open-gpu-kernel-modules/pull/48; kern_bus_gh100.c", machines.server,
         (log("NVRM: _kbusCreateStaticBar1IOMMUMapping: The peer DMA address 0x6000400000 is not aligned at 0x20000000"),), WORKS,
         "should work",
         ("GPUs do not reach each other over PCI Express",)),
    Kind(10, "page table", "github.com/Mellanox/nv_peer_memory/issues/112", one_socket,
         (PROPRIETARY, log("nv_mem nv_get_p2p_free_callback:144 nv_get_p2p_free_callback -- invalid page_table")), UNKNOWN,
         "cannot be told",
         ("update NVIDIA's driver",)),
    Kind(10, "gdrcopy", "github.com/NVIDIA/gdrcopy/issues/30; gdrdrv.c", one_socket,
         (log("gdrdrv:__gdrdrv_pin_buffer:nvidia_p2p_get_pages(va=704fe0000 len=327680 p2p_token=0 va_space=0 callback=0) failed [ret = -22]",
              "gdrdrv: disagrees about version of symbol nvidia_p2p_get_pages",
         "gdrdrv: Unknown symbol nvidia_p2p_get_pages (err -22)"),),
         WORKS, "should work", ("pin or mapping for gdrcopy failed", "disagrees about version", "gdrcopy does not work")),
    Kind(10, "nvidia-peermem for another core", "github.com/Mellanox/nv_peer_memory/issues/39", one_socket,
         (PROPRIETARY, NO_CLIENTS, log("nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client",
                                       "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)")),
         FAILS, "does not work", ("installed and did not load", "disagrees about version"), ("is not installed",)),
    Kind(10, "nvidia-peermem is not installed", MADE_UP, one_socket, (PROPRIETARY, NO_CLIENTS), FAILS, "does not work",
         ("is not installed",)),
    Kind(10, "driver container of a GPU operator", "NVIDIA GPU Operator: /run/nvidia/driver", one_socket,
         (PROPRIETARY, NO_CLIENTS, no_nvml, put("run/nvidia/driver/lib/modules/x", "")), FAILS, "does not work",
         ("driver.rdma.enabled=true", "LD_LIBRARY_PATH", "/proc/driver/nvidia/gpus: NVIDIA H200"), ("is not installed",
         "install NVIDIA")),
    Kind(10, "driver container with open modules", "the same", one_socket, (NO_CLIENTS, no_nvml,
         put("run/nvidia/driver/lib/modules/x", "")), WORKS,
         "should work"),
    # 11: AMD with MLNX_OFED
    Kind(11, "amdgpu's client on Linux 6.8", "github.com/ROCm/mori/pull/560; Linux 9011e49d54dc", amd_with_ofed,
         (lambda m: m.kernel_config(DMABUF_MOVE_NOTIFY=None),), FAILS, "does not work", ("GPL symbols only", "peerdma_peer_core"),
         ("install ROCm",)),
    Kind(11, "the same with dma-bufs", "the same", amd_with_ofed, (), WORKS, "should work", ("GPL symbols only",)),
    Kind(11, "amdgpu's client on Linux 5.15", MADE_UP, amd_with_ofed,
         (kernel("5.15.0-100-generic"), lambda m: m.kernel_config(DMABUF_MOVE_NOTIFY=None)), FAILS, "", ("install ROCm",),
         ("GPL symbols only",)),
    # 12: scalable functions
    Kind(12, "adapter with scalable functions only", "Linux's mlx5 documentation: mlx5_core.sf.4", one_socket,
         (without_rdma_devices, lambda m: m.scalable_function("mlx5_4", 4, "0000:14:00.0", 4)), WORKS, "should work",
         ("GPU0 and NIC0 (mlx5_4)", "driver: mlx5_ib", "NIC0 mlx5_4"), ("offers none: NIC0", "driver of mlx5_4 is not known")),
    Kind(12, "scalable function that is not in use", "Linux's mlx5 documentation: its port is down until its network device is up", one_socket,
         (roce("mlx5_0", "mlx5_1"), lambda m: m.scalable_function("mlx5_4", 4, "0000:14:00.0", 4),
          lambda m: m.port_of("mlx5_4", "1: DOWN", "3: Disabled", "Ethernet"), lambda m: m.folder("sys/class/infiniband/mlx5_4/ports/1/gid_attrs/types")),
         WORKS, "should work", (), ("has no GID",)),
    Kind(12, "scalable function whose name is a part of another", "names by udev: ibp1 and ibp10; here ibs0 is the network device", one_socket,
         (lambda m: m.scalable_function("ibs", 4, "0000:14:00.0", 4),), WORKS, "should work", args=("GPU0", "ibs")),
    Kind(12, "pod with a scalable function", "NVIDIA Network Operator: shared devices and scalable functions", one_socket,
         (INSIDE, missing("/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"), lambda m: m.scalable_function("mlx5_4", 4,
         "0000:15:00.0", 4)),
         WORKS, "should work", ("GPU0 and NIC0", "NIC0 mlx5_4"), ("0000:14:00.0",)),
)
