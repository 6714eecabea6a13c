# SPDX-License-Identifier: MIT
"""One run: starts QEMU, carries the streams, and turns what happened into an exit code."""

import ctypes
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time

from . import machine
from .errors import HARNESS, KERNEL, TIMEOUT
from .judge import FATAL, Judge

PORTS = ("console", "ctl", "out", "err", "kmsg", "tty")
BOOT_SECONDS = 300      # of patience: an emulated machine on a busy one boots in minutes
TAIL = 40       # lines of the log that a failure shows


def _die_with_parent():
    """Even when vm/run is killed with no chance to clean up, no guest stays behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Session:
    def __init__(self, options, kernel, initramfs, orders):
        self.options = options
        self.orders = orders
        self.judge = Judge(options.dmesg_max, options.allow)
        self.console = b""          # what reached the serial port
        self.last_words = 0         # where in it the shutdown began
        self.partial = {"ctl": b"", "kmsg": b""}
        self.status = None          # the command's exit code
        self.failure = None         # what the guest's PID 1 could not do
        self.started = None         # when the command began
        self.ended = None           # and when its end was known
        self.began = time.monotonic()
        self.boot_seconds = BOOT_SECONDS
        self.host, self.guest = {}, {}
        for name in PORTS:
            self.host[name], self.guest[name] = socket.socketpair()
        if options.monitor:     # QEMU talks to itself: the guest at one end, the monitor at the other
            self.guest["monitor"], self.guest["hmp"] = socket.socketpair()
        numbers = {name: end.fileno() for name, end in self.guest.items()}
        self.argv = machine.command_line(options, kernel, initramfs, numbers)

    # ---- streams -------------------------------------------------------

    def _console(self, data):
        self.console += data
        if self.options.verbose:
            sys.stderr.buffer.write(data)
            sys.stderr.flush()

    def _ctl(self, data):
        *lines, self.partial["ctl"] = (self.partial["ctl"] + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode(errors="replace").partition(" ")
            if word == "mark":
                self.judge.mark = int(rest)
                self.started = time.monotonic()
                self._say(f"booted in {self.started - self.began:.1f} s")
            elif word == "exit":
                self.status = int(rest)
                self.last_words = len(self.console)
                self.ended = time.monotonic()
            elif word == "fail":
                self.failure = rest

    def _kmsg(self, data):
        *records, self.partial["kmsg"] = (self.partial["kmsg"] + data).split(b"\0")
        for record in records:
            line = self.judge.take(record.decode(errors="replace"))
            self._say(line)

    @staticmethod
    def _out(data):
        sys.stdout.buffer.write(data)
        sys.stdout.flush()

    @staticmethod
    def _err(data):
        sys.stderr.buffer.write(data)
        sys.stderr.flush()

    def _say(self, text):
        if self.options.verbose:
            print(text, file=sys.stderr, end="\r\n" if self.options.interactive else "\n", flush=True)

    # ---- the run -------------------------------------------------------

    def run(self, may_boot_again=False):
        """Returns the exit code of vm/run; None when it is the emulator's doing and there may be another boot."""
        outcome = self._qemu()
        return None if may_boot_again and self.emulator_slipped() else self._verdict(*outcome)

    def emulator_slipped(self):
        """
        QEMU's emulation, with a thread for each processor, seldom keeps a translation of code that another processor
        has just patched. The kernel patches with int3, mostly while it boots, and panics when it then meets one that it
        has long replaced. Before the command has begun nothing is loaded that could be to blame, and nothing is lost.
        """
        return self.started is None and self.options.accel == "tcg" and \
            any("Oops: int3" in line for line in self._console_lines())

    def attempt(self):
        """The same for a trial, without a word; None when it failed."""
        self._out = self._err = lambda data: None
        self._qemu()
        return self.status

    def _qemu(self):
        self._say(" ".join(self.argv))
        qemu = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                pass_fds=[end.fileno() for end in self.guest.values()],
                                preexec_fn=_die_with_parent, start_new_session=True)
        try:
            for end in self.guest.values():
                end.close()
            self.host["ctl"].sendall(self.orders)
            timely = self._carry(qemu)
        finally:
            qemu.kill()
            words = qemu.communicate()[0].decode(errors="replace")
        return timely, qemu.returncode, words

    def _deadline(self):
        """The command's time is its own: boot and power-off are not its fault."""
        if not self.started:
            return self.began + self.boot_seconds
        if self.ended:
            return self.ended + self.boot_seconds
        return self.started + self.options.timeout if self.options.timeout else None

    def _carry(self, qemu):
        """Until QEMU has closed every stream; False when the time is over first."""
        taker = {"console": self._console, "ctl": self._ctl, "kmsg": self._kmsg,
                 "out": self._out, "err": self._err, "tty": self._out}
        selector = selectors.DefaultSelector()
        for name in PORTS:
            selector.register(self.host[name], selectors.EVENT_READ, taker[name])
        if self.options.interactive:
            selector.register(sys.stdin, selectors.EVENT_READ, None)
        open_streams = len(PORTS)
        while open_streams:
            deadline = self._deadline()
            left = deadline - time.monotonic() if deadline else None
            if left is not None and left <= 0:
                return False
            for key, _ in selector.select(left):
                if key.data is None:
                    keys = os.read(sys.stdin.fileno(), 4096)
                    if not keys or b"\x1d" in keys:     # Ctrl-]
                        qemu.kill()
                        continue
                    self.host["tty"].sendall(keys)
                    continue
                try:
                    data = key.fileobj.recv(65536)
                except ConnectionError:
                    data = b""
                if data:
                    key.data(data)
                else:
                    selector.unregister(key.fileobj)
                    open_streams -= 1
        # Nothing left to read: QEMU is on its way out and its exit code counts.
        try:
            qemu.wait(10)
        except subprocess.TimeoutExpired:
            return False
        return True

    # ---- the verdict ---------------------------------------------------

    def _console_lines(self, start=0):
        text = self.console[start:].decode(errors="replace")
        return re.sub(r"\x1b(c|\[[?0-9;]*[A-Za-z])|\r", "", text).splitlines()

    def log(self):
        """The whole log; the console has a dying kernel's last words."""
        return self.judge.lines + ["--- serial console ---"] + self._console_lines()

    def _verdict(self, timely, qemu_code, qemu_words):
        complaints = self.judge.complaints()
        if self.status is not None:
            complaints += self.judge.faults(self._console_lines(self.last_words))
        if self.options.log:
            with open(self.options.log, "w") as file:
                file.write("\n".join(self.log()) + "\n")
        if any("Kernel panic" in line for line in self._console_lines()):
            return self._report(KERNEL, "the guest's kernel panicked", self._panic(), tail=False)
        if self.failure:
            return self._report(HARNESS, f"the guest could not be set up: {self.failure}")
        if not timely:
            what = f"the machine did not boot in {self.boot_seconds} s"
            if self.ended:
                what = f"the machine did not power off, after the command had ended with {self.status}"
            elif self.started:
                what = f"the command did not end in {self.options.timeout:g} s"
            return self._report(TIMEOUT, f"timeout: {what}", complaints)
        if self.status is None:
            what = f"QEMU ended ({qemu_code}) before the command did" if self.started else \
                   f"QEMU ended ({qemu_code}) before the guest was up"
            return self._report(HARNESS, f"{what}\n{qemu_words}".rstrip(), complaints)
        if complaints:
            return self._report(KERNEL, f"the kernel complained; the command itself ended with {self.status}",
                                complaints, tail=False)
        return self.status

    def _panic(self):
        """The console from the first sign of trouble on: what it says first matters most."""
        lines = self._console_lines()
        first = next(number for number, line in enumerate(lines) if FATAL.search(line))
        return lines[max(first - 3, 0):][:2 * TAIL]

    def _report(self, code, reason, complaints=(), tail=True):
        lines = [f"vm/run: FAILED ({code}): {reason}"]
        if complaints:
            lines += ["--- the kernel's words ---", *complaints]
        if tail:
            lines += ["--- the log's last lines ---", *self.log()[-TAIL:]]
        if self.options.log:
            lines.append(f"--- the whole log: {self.options.log}")
        sys.stdout.flush()
        print("\n".join(lines), file=sys.stderr, flush=True)
        return code
