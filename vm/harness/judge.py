# SPDX-License-Identifier: MIT
"""Reads the kernel's log and says what may not be in it."""

import re

from .errors import HarnessError

LEVELS = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"]

# Said of every module that Debian did not build and sign, and of a busy host.
ALLOWED = [
    r"loading out-of-tree module taints kernel",
    r"hrtimer: interrupt took \d+ ns",     # an emulated processor that waited for a real one
    r"clocksource: Long readout interval",
    r"^\w+: \d+ callbacks suppressed$",     # more of what was logged, and judged, just before
    r"sched: (RT throttling activated|DL replenish lagged too much)",
    # The firmware's table of interrupts took more than ACPI's 30 s to read, and then there are none but MSI.
    r"ACPI Error: .*_PRT .*\(AE_AML_LOOP_TIMEOUT\)",
    r"can't derive routing for PCI INT [A-D]$",
    r"PCI INT [A-D]: no GSI$",
    r"random: crng init done",              # some minutes after the boot, where chance is rare
    r"module verification failed: signature and/or required key missing",
]

# A fault whatever level it was logged at, and whatever level is allowed.
FATAL = re.compile(r"WARNING: (CPU|\S+:\d+ at )|BUG:|kernel BUG at|Oops|: [0-9a-f]{4,16} \[#\d+\]|Kernel panic"
                   r"|general protection fault|soft lockup|hard LOCKUP"
                   r"|rcu.*detected.*stall|blocked for more than|possible recursive locking"
                   r"|circular locking dependency|unreferenced object|KASAN|UBSAN|DMA-API: .*(error|leak|overlap|exceed)")

# Lockdep's reports of the kernel's own faults, with none of our code in them: how each begins, line by line.
#
# pciehp empties and fills a slot with its reset_lock held for reading, takes pci_rescan_remove_lock inside, and
# while it holds that drops and takes reset_lock again: both orders, and a deadlock if a slot is reset just then.
# Lockdep is off after any report, so a test that plugs and unplugs does so last.
KNOWN_REPORTS = [[
    re.compile(r"^WARNING: possible circular locking dependency"),
    re.compile(r"^irq/\d+-pciehp/\d+ is trying to acquire lock"),
    re.compile(r"\(&ctrl->reset_lock\).* at: pciehp_(un)?configure_device"),
    re.compile(r"\(pci_rescan_remove_lock\).* at: pciehp_(un)?configure_device"),
    re.compile(r"^(\\x0a)?-> #1 \(pci_rescan_remove_lock\)"),
]]
REPORT_HEAD = 12        # lines in which all of these must come
REPORT_ENDS = "</TASK>"


def known_reports(texts):
    """The numbers of the lines that belong to such reports."""
    found = set()
    for start, text in enumerate(texts):
        for report in KNOWN_REPORTS:
            head = iter(texts[start:start + REPORT_HEAD])
            if not report[0].search(text) or not all(any(line.search(t) for t in head) for line in report):
                continue
            end = next((n for n in range(start, len(texts)) if REPORT_ENDS in texts[n]), start)
            # The rule above it, and the empty line above that.
            found.update(range(max(start - 2, 0), end + 1))
    return found


def level(text):
    """The number of a level given by name or number."""
    if text in LEVELS:
        return LEVELS.index(text)
    if text in [str(number) for number in range(len(LEVELS))]:
        return int(text)
    raise HarnessError(f"'{text}' is not a level of the kernel's log: {', '.join(LEVELS)}, or 0 to 7")


class Judge:
    """Takes the records of /dev/kmsg one by one."""

    def __init__(self, worst_allowed, allow):
        self.worst_allowed = worst_allowed
        try:
            self.allowed = [re.compile(pattern) for pattern in ALLOWED + allow]
        except re.error as error:
            raise HarnessError(f"--allow: not a regular expression: {error}") from error
        self.mark = None        # records up to this number are the boot's
        self.lines = []         # the log as text
        self.records = []       # (number, level, text)
        self.lost = 0

    def take(self, record):
        """One record in the format of /dev/kmsg; returns it as a line of the log."""
        head, _, text = record.partition(";")
        fields = head.split(",")
        text = text.split("\n", 1)[0]     # the lines below it name the device, for programs
        severity, number = int(fields[0]) & 7, int(fields[1])
        if self.records and number > self.records[-1][0] + 1:
            self.lost += number - self.records[-1][0] - 1
        self.records.append((number, severity, text))
        line = f"[{int(fields[2]) / 1e6:12.6f}] {LEVELS[severity]}: {text}"
        self.lines.append(line)
        return line

    def _is_allowed(self, text):
        return any(pattern.search(text) for pattern in self.allowed)

    def faults(self, lines):
        """Those of the console's lines that tell of a fault."""
        return [line for line in lines if FATAL.search(line) and not self._is_allowed(line)]

    def complaints(self):
        """The lines that make the run a failure, in order."""
        found = []
        known = known_reports([text for _, _, text in self.records])
        for at, (line, (number, severity, text)) in enumerate(zip(self.lines, self.records)):
            if self.mark is None or number <= self.mark or at in known:
                continue
            if severity >= self.worst_allowed and not FATAL.search(text):
                continue
            if not self._is_allowed(text):
                found.append(line)
        if self.lost:
            found.append(f"({self.lost} records were overwritten before they could be read; see log_buf_len)")
        return found
