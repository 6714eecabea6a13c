# SPDX-License-Identifier: MIT
"""The QEMU command line: the machine, its PCI topology and its devices.

    ports     each device in a root port of its own, as in a workstation whose
              cards sit in slots wired to the processor
    switch    all devices below one PCIe switch, as in a GPU server
    sockets   two host bridges on two NUMA nodes: GPU 0 on node 0, the cards on
              node 1; a second GPU goes to node 1, and the cards then alternate
"""

import os
import re
from collections import namedtuple

from . import camera, foreign, wire
from .errors import HarnessError
from .kernel import arch, ticks_per_second
from .paths import call, tool

TOPOLOGIES = ("ports", "switch", "sockets")
# NVMe disks without a file: one reads as zeros and forgets what is written, one keeps it as long as the machine runs, and one
# is as the first, but reads of the sector at 32 MiB fail, and writes of the one at 40 MiB.
DISKS = {"zeros": "driver=null-co,read-zeroes=on,size=64M", "scratch": "driver=null-co,read-zeroes=on,size=512M,snapshot=on",
         "bad": "driver=blkdebug,image.driver=null-co,image.read-zeroes=on,image.size=64M,"
                "inject-error.0.event=none,inject-error.0.iotype=read,inject-error.0.sector=65536,inject-error.0.once=off,"
                "inject-error.1.event=none,inject-error.1.iotype=write,inject-error.1.sector=81920,inject-error.1.once=off"}
IOMMUS = ("off", "on", "pt")
# The guest must fail, not wait: panics and oopses end it at once. The limits
# are above the usual ones since an emulated processor on a busy machine is slow.
# The kernel's tests of its own cryptography are a sixth of a boot.
BOOT = ("loglevel=5 panic=-1 oops=panic softlockup_panic=1 hung_task_panic=1 "
        "watchdog_thresh=30 rcupdate.rcu_cpu_stall_timeout=60 printk.devkmsg=on "
        "log_buf_len=1M net.ifnames=0 cryptomgr.notests")

# What differs between architectures.
Board = namedtuple("Board", "qemu group machine with_iommu iommu_devices boot iommu_boot cpu")
"""qemu: the program, of a group of vm/deps.sh; machine: QEMU's, and with_iommu what --iommu adds to it; boot and
iommu_boot: for the kernel's command line; cpu: the emulated one."""

# The kernel's words for the three settings. "on" is what a machine with VT-d
# enabled gets: every device's addresses are translated.
# Emulated, a string instruction moves its data byte by byte, and tables of five levels
# make every miss slower: the guest's kernel is not to prefer them.
# QEMU has one TSC for all processors, which the kernel does not know; it would ask the HPET
# for the time, at many times the cost.  While a kernel boots it patches its code a thousand
# times, and stops the other processors each time: vm/init starts them afterwards.  The instructions
# of locks are not rewritten for one processor, and back for several, which takes most of a second.
PC = Board("qemu-system-x86_64", "vm", "q35,vmport=off,smbus=off,sata=off,i8042=off", ",kernel-irqchip=split",
           ["-device", "intel-iommu,intremap=on,aw-bits=48"], "console=ttyS0 no_timer_check tsc=reliable maxcpus=1 noreplace-smp",
           {"off": "intel_iommu=off", "on": "intel_iommu=on iommu.passthrough=0", "pt": "intel_iommu=on iommu=pt"},
           "max,-erms,-fsrm,-la57")
# Without a firmware, and so without ACPI. "max" would sign pointers, which is slow to emulate.
ARM64 = Board("qemu-system-aarch64", "arm64", "virt,gic-version=3", ",iommu=smmuv3", [], "console=ttyAMA0",
              {"off": "", "on": "iommu.passthrough=0", "pt": "iommu.passthrough=1"}, "neoverse-n1")
BOARDS = {None: PC, "arm64": ARM64}


def size(text):
    """Bytes in "256M" and the like."""
    match = re.fullmatch(r"(\d+)([KMGT]?)i?B?", text, re.IGNORECASE)
    if not match:
        raise HarnessError(f"'{text}' is not a size: give for example 256M or 1G")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2].upper()]


class _Slots:
    """Hands out a place for one device after the other, in a given topology."""

    def __init__(self, topology):
        self.argv = []
        self.ports = 0
        self.topology = topology
        if topology == "switch":
            self.argv += ["-device", "pcie-root-port,id=root1,bus=pcie.0,chassis=1,slot=1,io-reserve=0",
                          "-device", "x3130-upstream,id=switch,bus=root1"]
            self.ports = 1
        elif topology == "sockets":
            for node in (0, 1):
                self.argv += ["-device", f"pxb-pcie,id=socket{node},bus=pcie.0,"
                                         f"bus_nr={32 * (node + 1)},numa_node={node}"]

    def take(self, node):
        self.ports += 1
        number = self.ports
        name = f"slot{number}"
        if self.topology == "switch":
            self.argv += ["-device", f"xio3130-downstream,id={name},bus=switch,chassis={number},slot={number}"]
        else:
            bus = f"socket{node}" if self.topology == "sockets" else "pcie.0"
            self.argv += ["-device", f"pcie-root-port,id={name},bus={bus},chassis={number},"
                                     f"slot={number},io-reserve=0"]
        return name


def _devices(options, netdevs, wires):
    slots = _Slots(options.topology)
    argv = []
    sizes = [size(text) for text in options.vram.split(",")]
    for number in range(options.gpus):
        vram = sizes[min(number, len(sizes) - 1)]
        if vram < 1 << 20 or vram & (vram - 1):
            raise HarnessError(f"--vram {options.vram}: a PCI BAR is a power of two, and here at least 1M")
        backend = "memory-backend-ram"
        if options.vram_file:
            path = os.path.join(os.path.abspath(options.vram_file), f"vram{number}")
            backend = f"memory-backend-file,mem-path={_escape(path)}"
        argv += ["-object", f"{backend},id=vram{number},size={vram},share=on",
                 "-device", f"ivshmem-plain,id=gpu{number},memdev=vram{number},bus={slots.take(number % 2)}"]
    # On two sockets a card is a long way from GPU 0, the case worth seeing.
    for number in range(options.cards):
        node = 1 if options.gpus < 2 else (number + 1) % 2
        argv += ["-device", f"edu,id=card{number},dma_mask=0xffffffffffffffff,bus={slots.take(node)}"]
    for number in range(options.nics):
        # Its speed, of which some drivers complain where it is not known.
        argv += ["-device", f"virtio-net-pci,id=nic{number},mac={wire.mac(options.guest, number)},host_mtu={wire.MTU},"
                            f"speed=10000,duplex=full,romfile=,bus={slots.take(1)}"
                            f"{f',netdev=wire{number}' if netdevs else ''}"]
    for number, wire_fd in enumerate(wires):
        argv += ["-netdev", f"dgram,id=film{number},local.type=fd,local.str={wire_fd}",
                 "-device", f"e1000e,id=grabber{number},netdev=film{number},mac={camera.mac(options.guest, number)},romfile=,"
                            f"bus={slots.take(1)}"]
    for number, path in enumerate(options.nvme):
        data = DISKS.get(path) or f"file={_escape(path)},format=raw"
        argv += ["-drive", f"{data},if=none,id=disk{number}",
                 "-device", f"nvme,id=nvme{number},serial=nvme{number},drive=disk{number},mdts=9,"
                            f"bus={slots.take(1)}"]
    return slots.argv + argv


def _escape(path):
    """QEMU splits its options at commas; a doubled one stands for itself."""
    return path.replace(",", ",,")


def _processor(options, board):
    memory = size(options.memory)
    argv = ["-m", f"{memory >> 20}M", "-smp", str(options.cpus)]
    if options.accel == "kvm":
        argv += ["-accel", "kvm", "-cpu", options.cpu or "host"]
    else:
        # Counted instructions need one thread to run all processors in turn.
        thread = "single" if options.icount else "multi"
        argv += ["-accel", f"tcg,thread={thread}", "-cpu", options.cpu or board.cpu]
        if options.icount:
            argv += ["-icount", "shift=0,sleep=off"]
    if options.topology == "sockets":
        half = options.cpus // 2
        # A single processor sits on node 0, and node 1 has memory only.
        cpus = (f",cpus=0-{half - 1}", f",cpus={half}-{options.cpus - 1}") if half else (",cpus=0", "")
        argv[3] += f",sockets=2,cores={half},threads=1" if options.cpus % 2 == 0 else ""
        for node in (0, 1):
            argv += ["-object", f"memory-backend-ram,id=mem{node},size={memory // 2 >> 20}M",
                     "-numa", f"node,nodeid={node}{cpus[node]},memdev=mem{node}"]
    return argv


def _frequency():
    """The host's, which an emulated TSC counts at, in Hz: rather too high than too low; None: not known."""
    found = []
    if os.uname().machine != "x86_64":      # there the TSC has another clock
        return None
    try:
        with open("/proc/cpuinfo") as file:
            for value, unit in re.findall(r"^cpu MHz\s*: ([\d.]+)$|@ ([\d.]+)GHz$", file.read(), re.MULTILINE):
                found.append(float(value) * 10**6 if value else float(unit) * 10**9)
        with open("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq") as file:
            found.append(float(file.read()) * 1000)
    except FileNotFoundError:
        pass
    return max(found, default=None)


def _delay_loop(options, kernel):
    """Processors but the first would measure how long a loop takes, for seconds, and not succeed: QEMU's timers come late.
    With too large a number the kernel waits too long now and then, with too small a one too short."""
    ticks, frequency = ticks_per_second(kernel), _frequency()
    if options.accel == "kvm" or options.icount or arch(kernel.image) or not ticks or not frequency:
        return None
    return f"lpj={int(frequency / ticks)}"


def _emulated(options, board):
    """For the command line of a kernel whose processor is emulated."""
    if options.accel != "tcg":
        return None
    # QEMU translates a program's code anew wherever it lies: with addresses at random, each start of a shell command costs
    # 35 ms more, and tests of many commands take half as long again. The guest may switch them on: kernel.randomize_va_space.
    words = "norandmaps"
    # QEMU before 8.0 sets wrong flags after cmpxchg16b: they can be the bits of a number that an earlier instruction added.
    # If an interrupt comes at that moment, the wrong flags are kept, and a later iret fails: a boot has ended in a general
    # protection fault so. The kernel would use the instruction in each allocation, and is told that the processor lacks it.
    # Programs can still use it, and some do without asking the processor.
    version = re.search(r"version (\d+)", call(tool(board.qemu, board.group), "--version"))
    if board is PC and version and int(version[1]) < 8:
        words += " clearcpuid=cx16"
    return words


def command_line(options, kernel, initramfs, ports, netdevs, wires=()):
    """ports: the file descriptors of the host's ends, by name (see vm/init/main.c); netdevs: of wire.Plugs; wires: file
    descriptors that lead to cameras."""
    kind = arch(kernel.image)
    board = BOARDS[kind]
    if kind and options.topology == "sockets":
        raise HarnessError(f"--topology sockets: QEMU tells a {kind} kernel of a second host bridge through ACPI only, "
                           "which takes a firmware")
    with_iommu = options.iommu != "off"
    argv = [tool(board.qemu, board.group), "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
            "-machine", board.machine + (board.with_iommu if with_iommu else "")]
    argv += _processor(options, board) + (board.iommu_devices if with_iommu else [])
    argv += ["-kernel", kernel.image, "-initrd", initramfs,
             "-append", " ".join(filter(None, [board.boot, BOOT, _emulated(options, board),
                                           _delay_loop(options, kernel), board.iommu_boot[options.iommu],
                                           options.append.strip()]))]
    argv += ["-chardev", f"socket,id=console,fd={ports['console']}", "-serial", "chardev:console",
             "-device", "virtio-serial-pci,max_ports=8"]
    for name in ("ctl", "out", "err", "kmsg", "tty", "meet"):
        argv += ["-chardev", f"socket,id={name},fd={ports[name]}",
                 "-device", f"virtserialport,chardev={name},name={name}"]
    if options.monitor:
        argv += ["-chardev", f"socket,id=hmp,fd={ports['hmp']}", "-mon", "chardev=hmp,mode=readline",
                 "-chardev", f"socket,id=monitor,fd={ports['monitor']}",
                 "-device", "virtserialport,chardev=monitor,name=monitor"]
    argv += ["-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
             "-device", "virtio-9p-pci,fsdev=root,mount_tag=root"]
    if kind:
        argv += ["-fsdev", f"local,id=arch,path={_escape(foreign.find(kind))},security_model=none,readonly=on,"
                           "multidevs=remap", "-device", "virtio-9p-pci,fsdev=arch,mount_tag=arch"]
    for number, path in enumerate(options.share):
        argv += ["-fsdev", f"local,id=share{number},path={_escape(path)},security_model=none,multidevs=remap",
                 "-device", f"virtio-9p-pci,fsdev=share{number},mount_tag=share{number}"]
    return argv + netdevs + _devices(options, netdevs, wires) + options.qemu
