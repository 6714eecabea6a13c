#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`peerdma doctor --compare` on bundles of real machines, edited copies of them, and files that are no bundles."""

import ctypes
import functools
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

import machines
from case import COMMAND, Case, Optional, conforms, run

import unittest

PLACE = os.path.dirname(os.path.realpath(__file__)) + "/captured/"
CAPTURED = sorted(PLACE + name for name in os.listdir(PLACE))
SEED = int(os.environ.get("DOCTOR_SEED", "1"))
VERDICTS = {"ok", "cannot tell", "slow", "broken"}
KINDS = ["worse", "missing", "fact", "better", "file"]
ORDER = ["broken", "slow", "cannot tell", "ok", None]
SIDE = ({"verdict": VERDICTS, "evidence": [{"source": str, "value": str}], "consequence": (str, None), "remedy": (str, None)}, str, None)
MACHINE = {"bundle": str, "verdict": VERDICTS, "kernel": (str, None)}
SCHEMA = {"schema": {"peerdma-doctor-compare/1"}, "version": str, "a": MACHINE, "b": MACHINE,
          "differences": [{"kind": set(KINDS), "path": Optional(str), "check": Optional(str), "title": Optional(str),
                           "subject": Optional(str), "a": SIDE, "b": SIDE}]}


class Compare(Case):
    def unpacked(self, name):
        place = self.folder()
        with tarfile.open(PLACE + name + ".tar.gz") as tar:
            tar.extractall(place)
        return place

    def bundle(self, m, name="m.tar"):
        file = f"{self.folder()}/{name}"
        self.assertIn(run("doctor", "--bundle", file, root=m.path).returncode, (0, 1, 2))
        return file

    def compare(self, a, b, *args):
        """The differences; nothing is left of the bundles."""
        place = self.folder()
        done = run("doctor", "--compare", "--json", a, b, *args, env={"TMPDIR": place})
        self.assertEqual((done.stderr, os.listdir(place)), ("", []))
        told = json.loads(done.stdout)
        conforms(told, SCHEMA)
        differences = told["differences"]
        self.assertEqual(done.returncode, 1 if differences else 0)
        keys = [(KINDS.index(d["kind"]), ORDER.index((d["b"] or {}).get("verdict")) if d["kind"] != "file" else 0) for d in differences]
        self.assertEqual(keys, sorted(keys))
        return differences

    def refused(self, *args, words=()):
        place = self.folder()
        done = run("doctor", "--compare", *args, env={"TMPDIR": place})
        self.assertEqual((done.returncode, done.stdout, os.listdir(place)), (64, "", []), args)
        for word in words:
            self.assertIn(word, done.stderr)

    # ---- the same

    def test_same(self):
        for bundle in CAPTURED:
            self.assertEqual(self.compare(bundle, bundle), [])
        name = "h200-x2"
        self.assertEqual(self.compare(self.unpacked(name), PLACE + name + ".tar.gz"), [])
        text = run("doctor", "--compare", CAPTURED[0], CAPTURED[0])
        self.assertEqual((text.returncode, text.stderr), (0, ""))
        self.assertIn("No difference", text.stdout)

    def test_written_and_compressed(self):
        """As --bundle writes it, and as people pack it; with names that tar(1) might take for something else."""
        m = machines.server(self.folder(), per_socket=1)
        file = self.bundle(m, "host:name.tar")
        self.assertEqual(self.compare(m.path, file), [])
        for program in ("gzip", "xz"):
            subprocess.run([program, "--keep", file], check=True)
        for end in (".gz", ".xz"):
            self.assertEqual(self.compare(file, file + end), [])
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        command = os.path.realpath(COMMAND)
        os.chdir(os.path.dirname(file))
        done = subprocess.run([command, "doctor", "--compare", "host:name.tar", "host:name.tar.gz"], capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_another_slot(self):
        """The GPU's address is another, in names and contents: no difference."""
        first, second = self.unpacked("h100-x1"), self.unpacked("h100-x1")
        for place, folders, files in os.walk(second, topdown=False):
            for name in files:
                with open(f"{place}/{name}", "rb") as file:
                    data = file.read()
                with open(f"{place}/{name}", "wb") as file:
                    file.write(data.replace(b"0000:00:06.0", b"0000:00:1f.0"))
            for name in files + folders:
                if "0000:00:06.0" in name:
                    os.rename(f"{place}/{name}", f"{place}/{name.replace('0000:00:06.0', '0000:00:1f.0')}")
        self.assertIn("0000:00:1f.0", run("doctor", "--all", root=second).stdout)
        self.assertEqual(self.compare(first, second), [])

    def test_two_findings_of_one_matter(self):
        """The first with the first, the second with the second."""
        m = machines.server(self.folder(), per_socket=1)
        m.put("dev/kmsg", "".join(line + "\n" for line in machines.TWO_TROUBLES))
        verdicts = [f["verdict"] for f in json.loads(run("doctor", "--json", root=m.path).stdout)["findings"]
                    if (f["check"], f["subject"]) == ("kernel-log", "GPU0")]
        self.assertGreater(len(set(verdicts)), 1, verdicts)
        self.assertEqual(self.compare(m.path, m.path), [])

    # ---- differences

    def test_captured(self):
        differences = self.compare(PLACE + "h100-x1.tar.gz", PLACE + "h200-x2.tar.gz")
        kinds = {}
        for d in differences:
            kinds.setdefault(d["kind"], []).append((d.get("check"), d.get("subject")) if d["kind"] != "file" else d["path"])
        self.assertEqual(kinds["fact"], [("board", "GPU0"), ("bar1-size", "GPU0"), ("bar1-free", "GPU0")])
        self.assertNotIn("worse", kinds)
        self.assertIn(("gpu", "GPU1"), kinds["better"])
        self.assertIn("/sys/bus/pci/devices/GPU0/device", kinds["file"])
        self.assertFalse([path for path in kinds["file"] if "GPU1/" in path])
        # The other way round, what was better is not there.
        back = self.compare(PLACE + "h200-x2.tar.gz", PLACE + "h100-x1.tar.gz")
        self.assertEqual([d["subject"] for d in back if d["kind"] == "missing" and d["check"] == "gpu"], ["GPU1"])
        self.assertFalse([d for d in back if d["kind"] == "better"])

    def test_order(self):
        """Broken before slow, before what cannot be told, before facts, before files; each with cause and remedy."""
        first, second = machines.server(self.folder(), per_socket=1), machines.server(self.folder(), per_socket=1)
        second.iommu("DMA")                                             # slow
        second.nvidia("530.30.02", True)                                # broken: a race
        second.limits(memlock=65536)
        second.error("lines", "/proc/kallsyms", 1)
        second.put("sys/class/dmi/id/product_name", "Another\n")        # of no check
        differences = self.compare(self.bundle(first), self.bundle(second))
        worse = [(d["check"], d["b"]["verdict"]) for d in differences if d["kind"] == "worse"]
        self.assertEqual(worse[0], ("release", "broken"))
        self.assertIn(("iommu", "slow"), worse)
        self.assertEqual([v for _, v in worse], sorted((v for _, v in worse), key=ORDER.index))
        for d in differences:
            if d["kind"] == "worse":
                self.assertTrue(d["b"]["consequence"], d)
                # A bad release is a finding of its own, which the first machine does not have.
                self.assertEqual(d["a"]["verdict"] if d["a"] else d["check"], "ok" if d["a"] else "release", d)
        named = [d for d in differences if d.get("path") == "/sys/class/dmi/id/product_name"]
        self.assertEqual([(d["kind"], d["b"]) for d in named], [("file", "Another")])

    def test_fact(self):
        """The verdict is the same; the driver is another. The file that the finding shows is not shown again."""
        first, second = machines.server(self.folder(), per_socket=1), machines.server(self.folder(), per_socket=1)
        first.nvidia("550.90.07", False)
        second.nvidia("550.54.15", False)
        differences = self.compare(first.path, second.path)
        fact = differences[0]
        self.assertEqual((fact["kind"], fact["check"], fact["a"]["verdict"], fact["b"]["verdict"]), ("fact", "driver", "ok", "ok"))
        self.assertIn("550.90.07", json.dumps(fact["a"]))
        self.assertIn("550.54.15", json.dumps(fact["b"]))
        self.assertNotIn("/proc/driver/nvidia/version", [d.get("path") for d in differences])

    def test_edited_capture(self):
        """A real machine, and the same with no driver on its GPU."""
        place = self.unpacked("h200-x2")
        with open(place + "/bundle.tsv", encoding="utf-8") as file:
            lines = file.readlines()
        with open(place + "/bundle.tsv", "w", encoding="utf-8") as file:
            file.writelines(line for line in lines if "0000:00:06.0/driver" not in line)
        first = self.compare(PLACE + "h200-x2.tar.gz", place)[0]
        self.assertEqual((first["kind"], first["check"], first["subject"], first["a"]["verdict"], first["b"]["verdict"]),
                         ("worse", "gpu", "GPU0", "ok", "broken"))
        text = run("doctor", "--compare", PLACE + "h200-x2.tar.gz", place).stdout
        self.assertIn("\nworse    GPU and its driver: GPU0: ok -> broken\n", text)
        self.assertLess(text.index("worse "), text.index("  do  "))

    def test_many_files(self):
        """The text has twenty files unless asked for all."""
        a, b = (PLACE + f"vm-{name}.tar.gz" for name in ("switch", "sockets"))
        files = len([d for d in self.compare(a, b) if d["kind"] == "file"])
        self.assertGreater(files, 20)
        short, whole = (run("doctor", "--compare", a, b, *more).stdout for more in ([], ["--all"]))
        self.assertEqual([len(re.findall("^file ", text, re.M)) for text in (short, whole)], [20, files])
        self.assertIn(f"And {files - 20} more files", short)
        # Bridges are in other places, and have no label by which they could be found.
        self.assertNotRegex(whole, r"file +/sys/bus/pci/devices/[0-9a-f]{4}:")

    # ---- no bundles

    def test_usage(self):
        for args, word in (([], "give two bundles"), ([CAPTURED[0]], "give two bundles"), ([*CAPTURED[:3]], "not expected"),
                           (["--probe", *CAPTURED[:2]], "--all or --json only"), (["--nothing", *CAPTURED[:2]], "nothing"),
                           (["--bundle", "x", *CAPTURED[:2]], "--all or --json only"),
                           (["--root", "/", *CAPTURED[:2]], "--all or --json only")):
            self.refused(*args, words=[word])

    def test_not_there(self):
        self.refused(CAPTURED[0], "", words=["--compare: the path is empty"])
        self.refused("", CAPTURED[0], words=["--compare: the path is empty"])
        folder = self.folder()
        with open(folder + "/text", "w", encoding="utf-8") as file:
            file.write("text")
        os.mkdir(folder + "/empty")
        os.mkfifo(folder + "/fifo")
        for name, word in (("none", "No such file"), ("text", "not a whole bundle"), ("empty", "not a whole bundle"), ("fifo", "not a whole bundle")):
            self.refused(CAPTURED[0], f"{folder}/{name}", words=[word, f"{folder}/{name}"])
            self.refused(f"{folder}/{name}", CAPTURED[0], words=[word])

    def test_no_room(self):
        """The message names what is not there: no bundle."""
        for env, words in (({"TMPDIR": "/nowhere"}, ": /nowhere: No such file"), ({"PATH": "/nowhere"}, ": tar: No such file")):
            done = run("doctor", "--compare", *CAPTURED[:2], env=env)
            self.assertEqual((done.returncode, done.stdout), (64, ""))
            self.assertIn(words, done.stderr)

    def test_unreadable(self):
        """As "sudo peerdma doctor --bundle" leaves it: for root."""
        file = self.bundle(machines.server(self.folder(), per_socket=1))
        os.chmod(file, 0)

        def no_rights():
            for capability in (1, 2):           # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: root is a user as others are
                ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)                # PR_CAPBSET_DROP
        done = subprocess.run([COMMAND, "doctor", "--compare", CAPTURED[0], file], capture_output=True, text=True, check=False,
                              preexec_fn=no_rights)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (64, "", f"peerdma: doctor: {file}: Permission denied\n"))

    def test_cut(self):
        """The beginning of a bundle is none, wherever it ends; tar(1) is content with whole members."""
        whole = self.bundle(machines.server(self.folder(), per_socket=1))
        with open(whole, "rb") as file:
            data = file.read()
        with tarfile.open(whole) as tar:
            starts = [member.offset for member in tar.getmembers()]
        for length in [*starts[1::20], starts[-1], starts[-1] + 512, 1000, 10240]:
            with open(whole + ".cut", "wb") as file:
                file.write(data[:length])
            self.refused(CAPTURED[0], whole + ".cut", words=["not a whole bundle"])

    def test_ended(self):
        """By a pager that has seen enough, or while tar(1) runs: nothing is left."""
        place = self.folder()
        env = {**os.environ, "TMPDIR": place, "PATH": self.folder() + ":" + os.environ["PATH"]}
        done = subprocess.Popen([COMMAND, "doctor", "--compare", "--json", CAPTURED[0], CAPTURED[-1]], stdout=subprocess.PIPE, env=env)
        done.stdout.close()
        self.assertEqual((done.wait(), os.listdir(place)), (-signal.SIGPIPE, []))
        tar = env["PATH"].split(":")[0] + "/tar"
        with open(tar, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\n: >"${0%/*}/started"\nsleep 1\n')
        os.chmod(tar, 0o755)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # The parent process may ignore it: nohup(1) does.
            normal = functools.partial(signal.signal, number, signal.SIG_DFL)
            with subprocess.Popen([COMMAND, "doctor", "--compare", *CAPTURED[:2]], stderr=subprocess.PIPE, env=env,
                                  preexec_fn=normal) as done:
                while not os.path.exists(os.path.dirname(tar) + "/started"):
                    time.sleep(0.01)
                os.unlink(os.path.dirname(tar) + "/started")
                done.send_signal(number)
                self.assertEqual((done.wait(), os.listdir(place)), (-number, []))

    def test_output_fails(self):
        """No verdict of either kind."""
        for args, code in ((["--compare", *CAPTURED[:2]], 64), (["--root", self.unpacked("h100-x1")], 64)):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([COMMAND, "doctor", *args], stdout=full, stderr=subprocess.PIPE, check=False)
            self.assertEqual((done.returncode, done.stderr), (code, b"peerdma: cannot write the output\n"))

    def test_hostile(self):
        """Links, pipes, devices and ways out of the folder are not followed, opened or taken."""
        folder = self.folder()
        target = self.folder()
        for number, (kind, name, link) in enumerate((
                (tarfile.SYMTYPE, "more", target), (tarfile.SYMTYPE, "sys/more", "/"), (tarfile.FIFOTYPE, "dev/more", ""),
                (tarfile.CHRTYPE, "dev/null", ""), (tarfile.REGTYPE, "../out", ""), (tarfile.REGTYPE, target + "/out", ""),
                (tarfile.LNKTYPE, "x", "/etc/passwd"))):
            file = f"{folder}/{number}.tar"
            with tarfile.open(CAPTURED[0]) as old, tarfile.open(file, "w") as new:
                bad = tarfile.TarInfo(name)
                bad.type, bad.linkname = kind, link
                new.addfile(bad, io.BytesIO())
                for member in old.getmembers():
                    new.addfile(member, old.extractfile(member))
            if kind == tarfile.REGTYPE:
                done = run("doctor", "--compare", CAPTURED[0], file, env={"TMPDIR": folder})
                self.assertIn(done.returncode, (0, 1, 64))
            else:
                self.refused(CAPTURED[0], file, words=["not a whole bundle"])
            self.assertEqual(os.listdir(target), [])
            self.assertEqual([name for name in os.listdir(folder) if not name.endswith(".tar")], [])

    def test_closed_folders(self):
        """Rights in the archive that keep its owner out: read, and removed all the same."""
        place = self.unpacked("h100-x1")
        file = self.folder() + "/m.tar"
        with tarfile.open(file, "w") as tar:
            def closed(member):
                member.mode = 0o400 if member.isfile() else 0o500
                return member
            tar.add(place, "", filter=closed)
        self.assertEqual(self.compare(PLACE + "h100-x1.tar.gz", file), [])

    def test_damaged(self):
        """Files replaced by rubbish, a fixed series of it."""
        chance = random.Random(SEED)
        whole = self.unpacked("vm-switch")
        for turn in range(8):
            place = self.folder() + "/m"
            shutil.copytree(whole, place)
            files = sorted(os.path.join(at, name) for at, _, names in os.walk(place) for name in names)
            for path in chance.sample(files, 8):
                with open(path, "rb") as file:
                    text = bytearray(file.read())
                for _ in range(chance.randint(1, 8)):
                    at = chance.randrange(len(text) + 1)
                    text[at:at + chance.randint(0, 9)] = chance.choice(
                        [b"\xff\xfe", b"\0", b"\n", b"\t", b"99999999999999999999", b"-1", b"%s%n", b"\x1b[2J", b"A" * 300])
                with open(path, "wb") as file:
                    file.write(text)
            done = run("doctor", "--compare", *(["--json"] if turn % 2 else ["--all"]), whole, place)
            self.assertIn(done.returncode, (0, 1, 64), (SEED, turn, done.stderr))
            self.assertNotIn("\x1b", done.stdout)
            self.assertNotIn("Sanitizer", done.stderr)
            if turn % 2 and done.returncode < 2:
                conforms(json.loads(done.stdout), SCHEMA)


if __name__ == "__main__":
    sys.exit(unittest.main())
