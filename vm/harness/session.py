# SPDX-License-Identifier: MIT
"""One guest: starts QEMU, takes what comes from it, and turns what happened into an exit code."""

import ctypes
import re
import signal
import socket
import subprocess
import sys
import time

from . import machine
from .camera import Camera
from .errors import HARNESS, KERNEL, TIMEOUT
from .judge import FATAL, Judge
from .wire import name

PORTS = ("console", "ctl", "out", "err", "kmsg", "tty", "meet")
BOOT_SECONDS = 300      # of patience: an emulated machine on a busy one boots in minutes
TAIL = 40       # lines of the log that a failure shows


def die_with_parent():
    """Even when vm/run is killed with no chance to clean up, no guest stays behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Stream:
    """What a guest writes, to one of our own streams; with several guests, whole lines with the guest's name before."""

    def __init__(self, stream, label):
        self.stream, self.label, self.rest = stream, label, b""

    def write(self, data):
        if self.label:
            *lines, self.rest = (self.rest + data).split(b"\n")
            data = b"".join(self.label + line + b"\n" for line in lines)
        self.stream.buffer.write(data)
        self.stream.flush()

    def end(self):
        if self.rest:
            self.write(b"\n")


class Session:
    def __init__(self, options, kernel, initramfs, orders, plugs=None):
        self.options = options
        self.orders = orders
        self.name = name(options.guest) if options.guests > 1 else ""
        label = f"{self.name}: ".encode() if self.name else b""
        self.out, self.err = Stream(sys.stdout, label), Stream(sys.stderr, label)
        self.judge = Judge(options.dmesg_max, options.allow)
        self.console = b""          # what reached the serial port
        self.last_words = 0         # where in it the shutdown began
        self.partial = {"ctl": b"", "kmsg": b"", "meet": b""}
        self.meeting = []           # what the guest waits to meet the others at
        self.status = None          # the command's exit code
        self.failure = None         # what the guest's PID 1 could not do
        self.ready = False          # the command can run
        self.started = None         # when it began
        self.ended = None           # and when its end was known
        self.off = None             # when the guest was asked to power off
        self.spare = 0.0            # seconds from then on; BOOT_SECONDS unless it is another guest's fault
        self.late = False           # time was over first
        self.began = time.monotonic()
        self.boot_seconds = BOOT_SECONDS
        self.qemu, self.qemu_words = None, ""
        self.host, self.guest = {}, {}
        for port in PORTS:
            self.host[port], self.guest[port] = socket.socketpair()
        if options.monitor:     # QEMU talks to itself: the guest at one end, the monitor at the other
            self.guest["monitor"], self.guest["hmp"] = socket.socketpair()
        numbers = {port: end.fileno() for port, end in self.guest.items()}
        self.cameras = [Camera(command) for command in options.camera]
        wires = [one.wire for one in self.cameras]
        self.sockets = list(self.guest.values()) + (plugs.sockets if plugs else []) + wires
        self.argv = machine.command_line(options, kernel, initramfs, numbers, plugs.argv if plugs else [],
                                         [end.fileno() for end in wires])

    # ---- streams -------------------------------------------------------

    def _console(self, data):
        self.console += data
        if self.options.verbose:
            sys.stderr.buffer.write(data)
            sys.stderr.flush()

    def _lines(self, port, data, end=b"\n"):
        *lines, self.partial[port] = (self.partial[port] + data).split(end)
        return [line.decode(errors="replace") for line in lines]

    def _ctl(self, data):
        for line in self._lines("ctl", data):
            word, _, rest = line.partition(" ")
            if word == "ready":
                self.ready = True
                self._say(f"booted in {time.monotonic() - self.began:.1f} s")
            elif word == "mark":
                self.judge.mark = int(rest)
            elif word == "ended":
                self.status = int(rest)
                self.ended = time.monotonic()
            elif word == "exit":
                self.last_words = len(self.console)
            elif word == "fail":
                self.failure = rest

    def _kmsg(self, data):
        for record in self._lines("kmsg", data, b"\0"):
            self._say(self.judge.take(record))

    def _meet(self, data):
        self.meeting += self._lines("meet", data)

    def _say(self, text):
        if self.options.verbose:
            print(f"{self.name}: {text}" if self.name else text, file=sys.stderr,
                  end="\r\n" if self.options.interactive else "\n", flush=True)

    # ---- the run: what together.py asks of each guest -----------------------

    def start(self):
        self._say(" ".join(self.argv))
        for one in self.cameras:
            one.start(die_with_parent)
        self.qemu = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     pass_fds=[end.fileno() for end in self.sockets],
                                     preexec_fn=die_with_parent, start_new_session=True)
        for end in self.sockets:
            end.close()
        self.tell("ctl", self.orders)

    def takers(self):
        """What to do with the data of each port."""
        return {"console": self._console, "ctl": self._ctl, "kmsg": self._kmsg, "meet": self._meet,
                "out": self.out.write, "err": self.err.write, "tty": self.out.write}

    def tell(self, port, data):
        try:
            self.host[port].sendall(data)
        except OSError:
            pass        # it has died, which its streams tell

    def go(self):
        self.started = time.monotonic()
        self.tell("ctl", b"go\n")

    def power_off(self, spare=None):
        self.off = time.monotonic()
        self.spare = self.boot_seconds if spare is None else spare
        self.tell("ctl", b"off\n")

    def kill(self):
        if self.qemu:
            self.qemu.kill()

    def finish(self):
        """QEMU ends by itself, or else is ended; whatever it has said."""
        try:
            self.qemu.wait(0 if self.late else 10)
        except subprocess.TimeoutExpired:
            self.late = True
        self.qemu.kill()
        self.qemu_words = self.qemu.communicate()[0].decode(errors="replace")
        for one in self.cameras:
            one.end()
        self.out.end()
        self.err.end()

    def deadline(self):
        """The command's time is its own: boot and power-off are not its fault, nor is another guest's command."""
        if self.off:
            return self.off + self.spare
        if self.started:
            return self.started + self.options.timeout if self.options.timeout and not self.ended else None
        return None if self.ready else self.began + self.boot_seconds

    def emulator_slipped(self):
        """
        QEMU's emulation, with a thread for each processor, seldom keeps a translation of code that another processor
        has just patched. The kernel patches with int3, mostly while it boots, and panics when it then meets one that it
        has long replaced. Before the command has begun nothing is loaded that could be to blame, and nothing is lost.
        """
        return self.started is None and self.options.accel == "tcg" and \
            any("int3: 0000 [#1]" in line for line in self._console_lines())

    # ---- the verdict ---------------------------------------------------

    def _console_lines(self, start=0):
        text = self.console[start:].decode(errors="replace")
        return re.sub(r"\x1b(c|\[[?0-9;]*[A-Za-z])|\r", "", text).splitlines()

    def log(self):
        """The whole log; the console has a dying kernel's last words."""
        return self.judge.lines + ["--- serial console ---"] + self._console_lines()

    def verdict(self):
        """The guest's exit code, and why in words on standard error when it is not the command's."""
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
        if self.late:
            what = f"the machine did not boot in {self.boot_seconds} s"
            if self.off:
                what = "the machine did not power off, after the command had ended" \
                    f"{f' with {self.status}' if self.ended else ''}"
            elif self.started:
                what = f"the command did not end in {self.options.timeout:g} s"
            return self._report(TIMEOUT, f"timeout: {what}", complaints)
        if self.status is None:
            code = self.qemu.returncode
            what = f"QEMU ended ({code}) before the command did" if self.started else \
                   f"QEMU ended ({code}) before the guest was up"
            return self._report(HARNESS, f"{what}\n{self.qemu_words}".rstrip(), complaints)
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
        lines = [f"vm/run: {self.name + ': ' if self.name else ''}FAILED ({code}): {reason}"]
        if complaints:
            lines += ["--- the kernel's words ---", *complaints]
        if tail:
            lines += ["--- the log's last lines ---", *self.log()[-TAIL:]]
        if self.options.log:
            lines.append(f"--- the whole log: {self.options.log}")
        sys.stdout.flush()
        print("\n".join(lines), file=sys.stderr, flush=True)
        return code
