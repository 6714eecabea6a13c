# SPDX-License-Identifier: MIT
"""What the user may ask for."""

import argparse
import copy
import os
import re

from .errors import HARNESS, KERNEL, TIMEOUT, HarnessError
from .judge import level
from .kernel import DEBUG
from .machine import IOMMUS, TOPOLOGIES, DISKS
from .wire import name

# softgpu/core/memory/chaos.c and softgpu/kernel/nvidia/chaos.c; tests/vm/chaos-knobs.sh compares.
KNOBS = ("fail_pin", "fail_map", "fail_alloc", "callback_delay_ms", "bar1_limit", "revoke_every", "seed", "strict",
         "device_pointers", "dmabuf_raw", "dmabuf_whole", "table_version", "mapping_version", "page_size", "put_delay_ms",
         "get_race", "callback_twice", "callback_late_ms", "unsupported")

# How much slower a debug kernel may be: the guest's programs find it as PEERDMA_PATIENCE.
DEBUG_FACTOR = 6

ABOUT = """\
Boot a real Linux kernel with software GPUs and DMA cards, and run a command in it.

The guest sees this machine's own files at the same paths; what it writes stays
in its memory and is gone afterwards, except below the folders of --out and
--share. The command runs as the guest's root, in the current folder, with
standard input empty. QEMU runs as you: files that only root can read are not
there. PATH is passed on; give other variables with --env.

With --guests, or several commands, there are as many guests, on one wire:
docs/vm.md. "---" goes between two commands; each guest has the options of the
first one, and those of its own."""

SEPARATOR = "---"
MAX_GUESTS = 16
# Each sits in a port of its own, and the bus that the ports are on has 32 places, some of which the machine takes.
MAX_DEVICES = 24

EXIT_CODES = f"""\
exit code:
  the command's own (128 + N when signal N ended it, 127 when it cannot be run), or
  {TIMEOUT}   it did not end within --timeout
  {HARNESS}   the virtual machine could not be set up, or QEMU itself failed
  {KERNEL}   the kernel panicked, or logged a warning or worse while the command ran
  of several guests: of the one that failed first, which the last line names

topologies:
  ports      every device in a root port of its own, as in a workstation (the default)
  switch     all devices below one PCIe switch
  sockets    two host bridges on two NUMA nodes: GPU 0 on node 0, cards on node 1;
             with two GPUs, one on each, and the cards take turns

examples:
  vm/run -- uname -a
  vm/run --topology switch --gpus 2 --cards 4 -- lspci -tv
  vm/run --kernel 6.12 --iommu on -- sh -c 'insmod my.ko && ./my-test'
  vm/run -- ./my-server --- ./my-client guest1
  vm/run --shell
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise HarnessError(f"{message}\nvm/run --help tells more")


def _count(text):
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def _parser():
    parser = _Parser(prog="vm/run", usage="vm/run [options] [--] command [argument...] [--- [options] [--] command...]", description=ABOUT,
                     epilog=EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    add = parser.add_argument_group("devices").add_argument
    add("--gpus", type=_count, default=1, metavar="N", help="software GPUs: ivshmem-plain, 1af4:1110 (default 1)")
    add("--vram", default="256M", metavar="SIZE[,SIZE]", help="their memory; the last one goes for the rest "
        "(default 256M)")
    add("--vram-file", metavar="DIR", help="keep it in DIR/vram0, DIR/vram1..., so that the host sees it too")
    add("--cards", type=_count, default=1, metavar="N", help="DMA cards: edu, 1234:11e8 (default 1)")
    add("--nvme", action="append", default=[], metavar="FILE", help='an NVMe disk on this image; "zeros", '
        'which forgets what is written; "bad", which also has a bad sector for reads at 32 MiB and one for writes at 40 MiB; '
        'or "scratch", 512 MiB that are gone afterwards; may be repeated')
    add("--camera", action="append", default=[], metavar="COMMAND", help="a grabber card, e1000e, whose wire leads to this "
        'command\'s standard input, outside the guest, such as "camera --lose 100": docs/capture.md; may be repeated')
    add("--nics", type=_count, metavar="N", help="network adapters, virtio, all on one wire, with addresses (default 1 "
        "for each of several guests, otherwise 0)")
    add("--topology", choices=TOPOLOGIES, default="ports", help="where they are plugged in, see below")
    add("--iommu", choices=IOMMUS, default="off", help="IOMMU: none, translating, or passthrough "
        "(default off)")
    add = parser.add_argument_group("machine").add_argument
    add("--guests", type=_count, default=0, metavar="N", help="so many machines, which all run the command; they find "
        "their number as GUEST, from 1 on")
    add("--kernel", default="6.1", metavar="K", help="6.1, 6.12 or 7.2 (Debian's, fetched when first used; 6.1-arm64: "
        "docs/arm64.md), debug or debug-7.2 (vm/build-debug-kernel), or an image file")
    add("--modules-dir", metavar="DIR", help="lib/modules/RELEASE of such an image")
    add("--memory", metavar="SIZE", help="of the guest, half of it per socket (default 1G; 2G for a debug kernel)")
    add("--cpus", type=_count, metavar="N", help="default 2; with --icount always 1")
    add("--cpu", metavar="MODEL", help="QEMU's -cpu")
    add("--icount", action="store_true", help="the guest's clock counts instructions: slower, repeatable")
    add("--accel", choices=["auto", "tcg", "kvm"], default="auto", help="auto takes KVM when a short trial boot "
        "with it succeeds, and emulates (tcg) otherwise")
    add("--append", default="", metavar="TEXT", help="more for the kernel's command line")
    add("--monitor", action="store_true", help="the guest may command QEMU: its monitor is the virtio port "
        "\"monitor\" (vm/monitor)")
    add("--qemu", action="append", default=[], metavar="ARG", help="one more argument for QEMU; may be repeated")
    add = parser.add_argument_group("the run").add_argument
    add("--timeout", type=float, default=120, metavar="S", help="seconds for the command; 0 is no limit "
        f"(default 120); {DEBUG_FACTOR} times as many on a debug kernel")
    add("--env", action="append", default=[], metavar="K=V", help="an environment variable; K alone copies it")
    add("--chaos", action="append", default=[], metavar="KNOB=N", help="a fault for softgpu, such as strict=1, once the "
        "guest has run vm/chaos; may be repeated, docs/driver-authors.md lists them")
    add("--share", action="append", default=[], metavar="DIR", help="a folder of the host that the guest may write to")
    add("--out", action="append", default=[], metavar="DIR", help="the same, and made if it is not there")
    add("--shell", "--interactive", dest="interactive", action="store_true",
        help="run on this terminal; without a command, a shell. Ctrl-] ends it")
    add = parser.add_argument_group("the kernel's log").add_argument
    add("--log", metavar="FILE", help="write it to FILE")
    add("--dmesg-max", metavar="LEVEL", default="notice", help="the most severe level that is not a failure, by name "
        "or number (default notice)")
    add("--allow", action="append", default=[], metavar="REGEX", help="no failure either: records that match; "
        "may be repeated")
    add("-v", "--verbose", action="store_true", help="show QEMU's command line, the boot and the log as it comes")
    add("--dry-run", action="store_true", help="print QEMU's command line and do nothing")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def parse(argv):
    """The options of each guest."""
    parts = [[]]
    for text in argv:
        if text == SEPARATOR:
            parts.append([])
        else:
            parts[-1].append(text)
    first = _parser().parse_args(parts[0])
    common = parts[0][:len(parts[0]) - len(first.command)]
    guests = [first] + [_parser().parse_args(common + part) for part in parts[1:]]
    if len(guests) > 1 and any(options.guests for options in guests):
        raise HarnessError(f"--guests has one command run in all of them: it cannot go with {SEPARATOR}")
    guests += [copy.deepcopy(first) for _ in range(first.guests - 1)]
    if len(guests) > MAX_GUESTS:
        raise HarnessError(f"{len(guests)} guests: at most {MAX_GUESTS}")
    for number, options in enumerate(guests, 1):
        options.guest, options.guests = number, len(guests)
        _settle(options)
    return guests


def _one_of_several(options):
    """What a guest cannot have with others beside it, and what it has for itself."""
    if options.interactive:
        raise HarnessError("--shell is for one guest")
    if options.vram_file:
        options.vram_file = os.path.join(options.vram_file, name(options.guest))
    if options.log:
        stem, extension = os.path.splitext(options.log)
        options.log = f"{stem}.{name(options.guest)}{extension}"


def _places(options):
    """Not more than the machine has room for."""
    count = options.gpus + options.cards + options.nics + len(options.nvme) + len(options.camera)
    if count > MAX_DEVICES:
        raise HarnessError(f"{count} devices (--gpus {options.gpus} --cards {options.cards} --nics {options.nics}, "
                           f"{len(options.nvme)} --nvme, {len(options.camera)} --camera): at most {MAX_DEVICES} together")


def _settle(options):
    """Defaults that depend on other options, and what argparse cannot check."""
    if options.command[:1] == ["--"]:
        options.command = options.command[1:]
    if not options.command:
        if not options.interactive and not options.dry_run:
            raise HarnessError("no command given\nvm/run --help tells more")
        options.command = ["bash", "-i"] if options.interactive else ["true"]
    if options.nics is None:
        options.nics = 1 if options.guests > 1 else 0
    _places(options)
    if options.guests > 1:
        _one_of_several(options)
    if options.cpus is None:
        options.cpus = 1 if options.icount else 2
    if options.icount and options.cpus > 1:
        raise HarnessError("--icount goes with one processor only: a second one never comes up in counted time")
    if options.cpus < 1:
        raise HarnessError("--cpus: at least 1")
    debug = options.kernel in DEBUG
    options.memory = options.memory or ("2G" if debug else "1G")
    if debug:
        options.timeout *= DEBUG_FACTOR
        options.env.append(f"PEERDMA_PATIENCE={DEBUG_FACTOR}")
        # A report must not silence those after it.
        options.append += " kasan_multi_shot"
    options.dmesg_max = level(options.dmesg_max)
    for setting in options.chaos:
        knob, _, value = setting.partition("=")
        if knob not in KNOBS or not re.fullmatch("[0-9]+|0x[0-9a-fA-F]+", value):
            raise HarnessError(f"--chaos {setting}: give KNOB=NUMBER; the knobs are {', '.join(KNOBS)}")
    if options.chaos:
        options.env.append("PEERDMA_CHAOS=" + " ".join(options.chaos))
    if options.interactive:
        options.timeout = 0
    if options.icount and options.accel == "kvm":
        raise HarnessError("--icount counts emulated instructions: it cannot go with --accel kvm")
    for folder in options.out + ([options.vram_file] if options.vram_file else []):
        os.makedirs(folder, exist_ok=True)
    options.share = [os.path.realpath(folder) for folder in options.share + options.out]
    for folder in options.share:
        if not os.path.isdir(folder):
            raise HarnessError(f"--share {folder}: no such folder")
    for path in options.nvme:
        if path not in DISKS and not os.path.isfile(path):
            raise HarnessError(f"--nvme {path}: no such file; make one with: truncate -s 64M {path}")
