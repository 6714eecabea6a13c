#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`peerdma top` from outside: text, JSON, and the screen of a terminal, on made-up trees.

Looks that the tests wait for are asked for with a key; the interval is an hour.
"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

COMMAND = sys.argv.pop(1)
PINS = ("id pid comm client provider state flags addr length pinned_length page_shift mappings views exports "
        "first_phys generation segments devices").split()
CLIENTS = "pid comm device copies bytes_read bytes_written revocations".split()
LIMIT = 300             # seconds, for what takes none


def pin(**changes):
    values = dict(id=1, pid=42, comm="train", client="user", provider="nvidia", state="live", flags="device",
                  addr="0x7f0000000000", length=65000, pinned_length=65536, page_shift=16, mappings=1, views=2,
                  exports=3, first_phys="0xe0000000", generation=5, segments="0xe0000000:65536", devices="0000:05:00.0:1")
    values.update(changes)
    return "\t".join(str(values[name]) for name in PINS)


class Tree:
    def __init__(self, case):
        folder = tempfile.TemporaryDirectory()
        case.addCleanup(folder.cleanup)
        self.path = folder.name

    def put(self, name, text):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return self

    def pins(self, *lines):
        return self.put("sys/kernel/debug/peerdma/pins", "".join(l + "\n" for l in ("\t".join(PINS), *lines)))

    def stats(self, **values):
        return self.put("sys/kernel/debug/peerdma/stats", "".join(f"{k}\t{v}\n" for k, v in values.items()))

    def clients(self, *rows):
        return self.put("sys/kernel/debug/peerdma_fpga/clients",
                        "".join("\t".join(map(str, row)) + "\n" for row in (CLIENTS, *rows)))

    def users(self, *rows):
        return self.put("sys/kernel/debug/peerdma/users",
                        "".join("\t".join(map(str, row)) + "\n" for row in (("pid", "comm", "revocations"), *rows)))

    def softgpu(self, used=16 << 20, revocations=4):
        self.put("sys/kernel/debug/softgpu/0/info", "uuid: GPU-1\nmemory: 0000:04:00.0\npins: 1\n"
                 f"revocations: {revocations}\ncopies: 2\nbytes_copied: 8192\n")
        return self.put("sys/kernel/debug/softgpu/0/bar1", f"total: {256 << 20}\nused: {used}\nfree: 0\n")

    def whole(self):
        self.put("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "1000\n")
        self.put("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "500\n")
        return self.softgpu().stats(live=2, pins=12, unpins=10, maps=3, unmaps=2, exports=1, revocations=7, faults=0) \
            .clients((42, "train", "0000:05:00.0", 3, 1 << 20, 2 << 20, 1)) \
            .pins(pin(), pin(id=2, pid=43, comm="serve", state="revoked", devices=""))


def environment():
    return {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm"}


def run(*args, tree=None):
    if tree:
        args += ("--root", tree.path)
    return subprocess.run([COMMAND, "top", *args], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env=environment(), timeout=LIMIT, check=False)


class Plain(unittest.TestCase):
    def test_text(self):
        done = run(tree=Tree(self).whole())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("peerdma.ko  2 pins", "revoked 7 (-/s)", "GPU 0  0000:04:00.0 softgpu  BAR1 [██··", "16 MiB of 256 MiB (6%)",
                     "0000:05:00.0", "peerdma_fpga", "1 MiB", "2 MiB", "mlx5_0", "train", "serve", "64 KiB"):
            self.assertIn(word, done.stdout)
        self.assertNotIn("not shown", done.stdout)
        self.assertIn("[##..", run("--ascii", tree=Tree(self).whole()).stdout)

    def test_revocations(self):
        """They outlive their pins; what is revoked and still there is counted among them, not twice."""
        tree = Tree(self).whole().users((43, "serve", 5), (44, "freed", 2))
        look = json.loads(run("--json", tree=tree).stdout)
        totals = {p["pid"]: p["counters"].get("revocations", {}).get("total") for p in look["processes"]}
        self.assertEqual(totals, {42: 1, 43: 5, 44: 2})
        rows = [line.split() for line in run("--sort", "revocations", tree=tree).stdout.splitlines()]
        self.assertEqual([row[:2] + row[8:9] for row in rows if row and row[0] in ("42", "43", "44")],
                         [["43", "serve", "5"], ["44", "freed", "2"], ["42", "train", "1"]])
        self.assertIn("not a table of users", run(tree=tree.users(("x", "y", "z"))).stdout)

    def test_json(self):
        done = run("--json", "-n", "2", "-d", "0.1", tree=Tree(self).whole())
        self.assertEqual(done.returncode, 0, done.stderr)
        first, second = map(json.loads, done.stdout.splitlines())
        self.assertEqual(first["schema"], "peerdma-top/1")
        self.assertIsNone(first["interval"])
        self.assertGreater(second["interval"], 0)
        self.assertEqual(first["module"]["pins_live"], 2)
        self.assertEqual(first["module"]["counters"]["revocations"], {"total": 7, "change": None, "per_second": None})
        self.assertEqual(second["module"]["counters"]["revocations"], {"total": 7, "change": 0, "per_second": 0})
        gpu, = first["gpus"]
        self.assertEqual((gpu["pci"], gpu["bar1_total"], gpu["bar1_used"]), ("0000:04:00.0", 256 << 20, 16 << 20))
        card, nic = first["devices"]
        self.assertEqual((card["name"], card["mappings"], card["counters"]["bytes_written"]["total"]),
                         ("0000:05:00.0", 1, 2 << 20))
        self.assertEqual((nic["name"], nic["counters"]["bytes_read"]["total"]), ("mlx5_0", 4000))
        train, serve = first["processes"]
        self.assertEqual((train["pid"], train["held"], train["pins"]), (42, 65536, 1))
        self.assertEqual((serve["held"], serve["pins_revoked"]), (0, 1))
        self.assertEqual(first["not_shown"], [])

    def test_nothing(self):
        done = run(tree=Tree(self).put("etc/hostname", "x"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("Nothing that counts pins", done.stdout)
        self.assertIn("modprobe peerdma", done.stdout)

    @unittest.skipUnless(os.geteuid(), "root may read everything")
    def test_not_root(self):
        tree = Tree(self).whole()
        os.chmod(tree.path + "/sys/kernel/debug", 0)
        done = run(tree=tree)
        os.chmod(tree.path + "/sys/kernel/debug", 0o700)
        self.assertEqual(done.returncode, 0)        # an adapter's counters are readable by all
        self.assertIn("not shown: DMA by process", done.stdout)
        self.assertEqual(done.stdout.count("run as root"), 2)

    def test_sort(self):
        tree = Tree(self).pins(pin(pid=9, comm="b"), pin(pid=8, comm="a"), pin(pid=7, comm="c", pinned_length=1 << 20))
        for sort, pids in (("held", [7, 8, 9]), ("pid", [7, 8, 9]), ("name", [8, 9, 7])):
            told = json.loads(run("--json", "--sort", sort, tree=tree).stdout)
            self.assertEqual([p["pid"] for p in told["processes"]], pids, sort)

    def test_wrong_usage(self):
        for args in (["-d", "0"], ["-d", "-1"], ["-d", "inf"], ["-d", "0x1"], ["-d", ""], ["-n", "x"], ["--sort", "x"], ["x"],
                     ["--nothing"]):
            done = run(*args)
            self.assertEqual((done.returncode, done.stdout), (1, ""), args)
            self.assertNotEqual(done.stderr, "", args)

    def test_no_terminal_of_its_own(self):
        """Standard output is one, but there are no keys: plain, and it ends."""
        master, slave = pty.openpty()
        done = subprocess.run([COMMAND, "top", "--once", "--root", Tree(self).whole().path], stdin=subprocess.DEVNULL,
                              stdout=slave, env=environment(), timeout=LIMIT, check=False)
        os.close(slave)
        self.assertEqual(done.returncode, 0)
        self.assertNotIn(b"\x1b", os.read(master, 100))
        os.close(master)


class Screen(unittest.TestCase):
    """A terminal that remembers only what came since it was last asked."""

    def start(self, *args, rows=30, columns=150):
        self.tree = Tree(self).whole()
        self.master, slave = pty.openpty()
        self.addCleanup(os.close, self.master)
        self.size(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.addCleanup(os.close, slave)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.popen = subprocess.Popen([COMMAND, "top", "-d", "3600", "--root", self.tree.path, *args], stdin=slave,
                                      stdout=slave, stderr=slave, env=environment(), preexec_fn=own_terminal)
        self.addCleanup(self.kill)

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()

    def size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, *words):
        """All that comes until a whole screen has these words."""
        text, end = b"", time.monotonic() + LIMIT
        while time.monotonic() < end:
            if select.select([self.master], [], [], 1)[0]:
                text += os.read(self.master, 65536)
            last = text.decode(errors="replace").split("\x1b[H")
            whole = [screen for screen in last if screen.rstrip().endswith("\x1b[J") and all(word in screen for word in words)]
            if whole:
                return whole[-1]
        self.fail(f"{words} did not come: {text!r}")

    def ends(self, code=0):
        text, end = b"", time.monotonic() + LIMIT
        while self.popen.poll() is None and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                text += os.read(self.master, 65536)
        while select.select([self.master], [], [], 0)[0]:
            text += os.read(self.master, 65536)
        self.assertEqual(self.popen.returncode, code)
        # The terminal is as it was.
        self.assertTrue(text.endswith(b"\x1b[?25h\x1b[?1049l"), text)
        self.assertEqual(termios.tcgetattr(self.slave)[3], self.before[3])

    def key(self, key):
        os.write(self.master, key)

    def test_look_again(self):
        self.start()
        self.until("peerdma top", "revoked 7 (-/s)", "train")
        self.tree.stats(live=2, pins=12, unpins=10, maps=3, unmaps=2, exports=1, revocations=9, faults=0)
        self.tree.pins(pin(comm="other"))
        self.key(b" ")
        screen = self.until("revoked 9 (", "other")
        self.assertNotIn("(-/s)", screen.split("\n")[1])
        self.assertNotIn("serve", screen)
        self.key(b"q")
        self.ends()

    def test_keys(self):
        self.start()
        self.until("by held")
        self.key(b"p")
        self.until("by pid")
        self.key(b"+")
        self.until("every 3600 s")
        self.key(b"-")
        self.until("every 1800 s")
        self.key(b"?")
        self.until("quit")
        self.key(b"x?")
        self.until("train")
        self.key(b"\x03")
        self.ends()

    def test_sizes(self):
        self.start(rows=4, columns=20)
        screen = self.until("peerdma.ko")
        self.assertEqual(screen.count("\n"), 3)
        for line in screen.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[J", "").split("\r\n"):
            self.assertLessEqual(len(line.replace("\x1b[K", "")), 20)
        self.size(40, 200)
        self.assertGreater(self.until("train", "serve").count("\n"), 8)
        self.size(1, 1)
        self.until("p\x1b[K")
        self.popen.send_signal(signal.SIGTERM)
        self.ends()

    def test_narrow(self):
        """Whatever is wider than the terminal goes on in the next row: nothing of it is lost."""
        plain = run(tree=Tree(self).whole()).stdout.split()
        for columns in (70, 80, 100):
            self.start(rows=60, columns=columns)
            rows = re.sub(r"\x1b\[[0-9]*[A-Z a-z]", "", self.until("peerdma top", "train")).split("\r\n")
            self.assertLessEqual(max(map(len, rows)), columns)
            self.assertEqual({word for word in plain if word not in " ".join(rows).split()}, set(), columns)
            self.assertIn("? helps)", " ".join(rows))
            # The rest of a table names its rows again.
            self.assertEqual(sum(row.split()[:2] == ["42", "train"] for row in rows), 1 if columns == 100 else 2)
            self.key(b"q")
            self.ends()

    def test_count(self):
        self.start("-n", "1")
        self.until("train")
        self.key(b" ")
        self.ends()

    def test_terminal_goes(self):
        self.start()
        self.until("train")
        self.popen.send_signal(signal.SIGHUP)
        self.ends()


if __name__ == "__main__":
    unittest.main(verbosity=2)
