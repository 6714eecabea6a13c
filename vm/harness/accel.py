# SPDX-License-Identifier: MIT
"""Whether KVM can be used here.

That /dev/kvm opens says little: in some virtual machines the guest then hangs.
So a machine is booted once to its end, and the answer is kept until the host
reboots or QEMU changes.
"""

import copy
import hashlib
import os

from .kernel import arch
from .paths import CACHE, tool
from .session import Session
from .together import Together

TRIAL_SECONDS = 10


def choose(options, kernel, initramfs, orders):
    """Settles options.accel as "kvm" or "tcg"."""
    if options.accel != "auto":
        return options.accel
    if options.icount or arch(kernel.image) or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    note = os.path.join(CACHE, "kvm-" + _state())
    try:
        with open(note) as file:
            return file.read().strip()
    except FileNotFoundError:
        pass
    answer = "kvm" if _trial(options, kernel, initramfs, orders) else "tcg"
    with open(note, "w") as file:
        file.write(answer + "\n")
    return answer


def _state():
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read()
    qemu = os.path.realpath(tool("qemu-system-x86_64", "vm"))
    return hashlib.sha256(f"{boot}{qemu}{os.path.getmtime(qemu)}".encode()).hexdigest()[:16]


def _trial(options, kernel, initramfs, orders):
    trial = copy.copy(options)
    trial.accel = "kvm"
    trial.gpus, trial.cards, trial.nics, trial.nvme, trial.share = 1, 1, 0, [], []
    trial.topology, trial.iommu, trial.vram_file = "ports", "off", None
    trial.interactive = trial.verbose = False
    trial.guest = trial.guests = 1
    session = Session(trial, kernel, initramfs, orders)
    session.boot_seconds = TRIAL_SECONDS
    session.out.write = session.err.write = lambda data: None
    Together([session]).run()
    return session.status == 0
