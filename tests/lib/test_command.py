#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The peerdma command from outside: its output, its JSON, its exit codes, on made-up and broken trees."""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

COMMAND = sys.argv.pop(1)
STAND_INS = os.environ["STAND_INS"]
BASE = 0xe0000000
COLUMNS = ("id pid comm client provider state flags addr length pinned_length page_shift mappings views exports "
           "first_phys generation segments").split()
NVML = "index\tpci\tname\tuuid\tbar1_total\tbar1_used\tbar1_free\n"


def pin(**changes):
    values = dict(id=1, pid=42, comm="train", client="user", provider="nvidia", state="live", flags="device",
                  addr="0x7f0000000000", length=65000, pinned_length=65536, page_shift=16, mappings=1, views=2,
                  exports=3, first_phys=hex(BASE), generation=5, segments=f"{BASE:#x}:65536")
    values.update(changes)
    return "\t".join(str(values[name]) for name in COLUMNS)


def resource(start=BASE, size=256 << 20, number=2):
    """The aperture has this number; what has 2 otherwise is the registers'."""
    none = "0x0000000000000000 0x0000000000000000 0x0000000000000000"
    lines = [none] * 13
    lines[2 - number] = "0x00000000fea00000 0x00000000fea00fff 0x0000000000040200"
    lines[number] = f"{start:#018x} {start + size - 1:#018x} 0x000000000014220c"
    return "\n".join(lines) + "\n"


class Tree:
    """A folder that stands for /."""

    def __init__(self, case):
        self.folder = tempfile.TemporaryDirectory()
        case.addCleanup(self.folder.cleanup)
        self.path = self.folder.name

    def put(self, name, text):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return self

    def pins(self, *lines, uid=None):
        """uid: of all of them, a column more."""
        columns, more = (COLUMNS + ["uid"], "\t" + uid) if uid else (COLUMNS, "")
        return self.put("sys/kernel/debug/peerdma/pins",
                        "\t".join(columns) + "\n" + "".join(l + more + "\n" for l in lines))

    def gpus(self, *lines):
        return self.put("nvml.tsv", NVML + "".join(l + "\n" for l in lines))

    def gpu(self, used=36 << 20, total=256 << 20):
        self.put("sys/bus/pci/devices/0000:03:00.0/resource", resource())
        return self.gpus(f"0\t0000:03:00.0\tsoftgpu\tGPU-1\t{total}\t{used}\t{total - used}")


def run(*args, tree=None, env=None, text=True):
    if tree:
        args += ("--root", tree.path)
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **(env or {})}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return subprocess.run([COMMAND, *args], capture_output=True, text=text, env=environment, timeout=60,
                          stdin=subprocess.DEVNULL, check=False)


class General(unittest.TestCase):
    def test_help(self):
        for args in (["help"], ["--help"], ["-h"]):
            done = run(*args)
            self.assertEqual(done.returncode, 0)
            self.assertIn("pins", done.stdout)
            self.assertEqual(done.stderr, "")
        for args in (["help", "bar1"], ["bar1", "--help"]):
            self.assertIn("Usage: peerdma bar1", run(*args).stdout)

    def test_version(self):
        self.assertEqual(run("--version").stdout, "peerdma 0.1.0\n")
        self.assertEqual(run("pins", "--version").stdout, "peerdma 0.1.0\n")

    def test_wrong_usage(self):
        for args in (["nothing"], ["--nothing"], ["pins", "--nothing"], ["pins", "more"], ["pins", "--tsv"],
                     ["help", "nothing"], ["bar1", "--json", "--tsv"], ["pins", "--root"]):
            done = run(*args)
            self.assertEqual(done.returncode, 1, args)
            self.assertEqual(done.stdout, "", args)
            # getopt's own messages, too, have the name of the program and of the command, and no path.
            who = "peerdma: " + (f"{args[0]}: " if args[0] in ("pins", "bar1") else "")
            self.assertTrue(done.stderr.startswith(who), done.stderr)
            self.assertNotIn(COMMAND, done.stderr)

    def test_empty_path(self):
        # As of a shell's variable that is not set: not this machine.
        for args in (["--root", "", "doctor"], ["--root=", "pins"], ["--root", ""], ["pins", "--root", ""], ["doctor", "--root="],
                     ["topo", "--root", ""], ["metrics", "--root", ""], ["metrics", "--output", ""], ["metrics", "-o", ""],
                     ["doctor", "--bundle", ""], ["bench", "--svg", ""]):
            done = run(*args)
            # 2 is a verdict of the doctor's.
            self.assertEqual((done.returncode, done.stdout), (64 if "doctor" in args else 2, ""), args)
            self.assertIn(": the path is empty; give one, or leave the option out", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertTrue(done.stderr.startswith("peerdma: --" if args[0].startswith("-") else f"peerdma: {args[0]}: --"), done.stderr)

    def test_output_fails(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([COMMAND, "help"], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)

    def test_overview(self):
        tree = Tree(self).gpu().pins(pin()).put("sys/module/peerdma/version", "9.9\n")
        done = run(tree=tree)
        self.assertEqual(done.returncode, 0)
        self.assertIn("peerdma.ko 9.9 is loaded", done.stdout)
        self.assertIn("64 KiB", done.stdout)
        self.assertIn("36 MiB of 256 MiB", done.stdout)
        empty = run(tree=Tree(self))
        self.assertEqual(empty.returncode, 0)
        self.assertIn("modprobe peerdma", empty.stdout)

    def test_root_before_or_after(self):
        tree = Tree(self).pins(pin())
        self.assertEqual(run("--root", tree.path, "pins").stdout, run("pins", tree=tree).stdout)


class Pins(unittest.TestCase):
    def test_people(self):
        done = run("pins", tree=Tree(self).pins(pin(), pin(id=2, pid=43, state="revoked", comm="Jürgen")))
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("PID", "42", "train", "nvidia", "0x7f0000000000", "1 x 64 KiB", "63.5 KiB", "Jürgen",
                     "2 pins of 2 processes hold 64 KiB; 1 revoked"):
            self.assertIn(word, done.stdout)

    def test_none(self):
        done = run("pins", tree=Tree(self).pins())
        self.assertEqual((done.returncode, done.stdout), (0, "No pins: peerdma.ko holds no memory.\n"))

    def test_json(self):
        done = run("pins", "--json", tree=Tree(self).pins(pin(), pin(id=2, comm='a"b\\c', segments="-")))
        self.assertEqual(done.returncode, 0)
        told = json.loads(done.stdout)
        self.assertEqual(told["schema"], "peerdma-pins/1")
        self.assertEqual(told["malformed_lines"], 0)
        self.assertEqual(told["pins"][0], {
            "id": 1, "pid": 42, "handle": None, "comm": "train", "client": "user", "provider": "nvidia", "state": "live",
            "flags": "device", "addr": "0x7f0000000000", "length": 65000, "pinned_length": 65536, "page_size": 65536,
            "mappings": 1, "views": 2, "exports": 3, "generation": 5,
            "segments": [{"phys": f"{BASE:#x}", "length": 65536}]})
        self.assertEqual(told["pins"][1]["comm"], 'a"b\\c')
        self.assertEqual(told["pins"][1]["segments"], [])

    def accounts(self, *lines, columns="uid pins mappings views exports aperture locked"):
        tree = Tree(self).pins(pin(), uid="1000")
        for name in ("pins", "mappings", "views", "exports"):
            tree.put(f"sys/module/peerdma/parameters/max_{name}_per_user", "65536\n")
        tree.put("sys/module/peerdma/parameters/max_aperture_mib_per_user", "8\n")
        return tree.put("sys/kernel/debug/peerdma/accounts",
                        "".join("\t".join(line.split()) + "\n" for line in (columns, *lines)))

    def test_users(self):
        tree = self.accounts("0 0 0 0 0 0 0", "1000 3 2 1 65536 4194304 8388608", "7 0 0 1 0 0 0")
        done = run("pins", tree=tree)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-3].split(), "UID PINS MAPPINGS VIEWS DMA-BUFS APERTURE LOCKED".split())
        self.assertEqual(" ".join(done.stdout.splitlines()[-2].split()),
                         "1000 3 of 65536 2 of 65536 1 of 65536 65536 of 65536 4 MiB of 8 MiB 8 MiB")
        self.assertEqual(" ".join(done.stdout.splitlines()[-1].split()),
                         "7 0 of 65536 0 of 65536 1 of 65536 0 of 65536 0 B of 8 MiB 0 B")
        told = json.loads(run("pins", "--json", tree=tree).stdout)
        self.assertEqual(told["users"], [
            {"uid": 1000, "pins": 3, "mappings": 2, "views": 1, "exports": 65536, "aperture": 4 << 20, "locked": 8 << 20},
            {"uid": 7, "pins": 0, "mappings": 0, "views": 1, "exports": 0, "aperture": 0, "locked": 0}])
        self.assertEqual(told["user_limits"], {"pins": 65536, "mappings": 65536, "views": 65536, "exports": 65536,
                                               "aperture": 8 << 20})

    def test_users_without_limits(self):
        tree = self.accounts("1000 3 2 1 4 4194304 8388608")
        tree.put("sys/module/peerdma/parameters/max_pins_per_user", "0\n")
        os.unlink(tree.path + "/sys/module/peerdma/parameters/max_views_per_user")
        self.assertEqual(" ".join(run("pins", tree=tree).stdout.splitlines()[-1].split()),
                         "1000 3 2 of 65536 1 4 of 65536 4 MiB of 8 MiB 8 MiB")
        told = json.loads(run("pins", "--json", tree=tree).stdout)["user_limits"]
        self.assertEqual((told["pins"], told["views"]), (0, None))

    def test_users_malformed(self):
        for tree in (self.accounts("1000 3 2 1 4 5", "7 1 1 1 1 1 1"), self.accounts("1000 x 2 1 4 5 6"),
                     self.accounts(columns="uid pins"), self.accounts(columns="")):
            for options in ([], ["--json"]):
                done = run("pins", *options, tree=tree)
                self.assertEqual(done.returncode, 1)
                self.assertIn("not a table of accounts", done.stderr)
                self.assertIn("train", done.stdout)

    def test_user_of_a_pin(self):
        told = json.loads(run("pins", "--json", tree=Tree(self).pins(pin(), uid="1000")).stdout)
        self.assertEqual(told["pins"][0]["uid"], 1000)
        self.assertNotIn("users", told)

    def test_json_largest(self):
        largest = 2 ** 64 - 1
        told = json.loads(run("pins", "--json", tree=Tree(self).pins(
            pin(pid=largest, addr=hex(largest - 1), length=1, pinned_length=largest))).stdout)
        self.assertEqual(told["pins"][0]["addr"], hex(largest - 1))
        self.assertEqual(told["pins"][0]["pinned_length"], largest)

    def test_malformed_lines(self):
        tree = Tree(self).pins(pin(), "half a li", pin(pid="x"), pin(id=9))
        for options in ([], ["--json"]):
            done = run("pins", *options, tree=tree)
            self.assertEqual(done.returncode, 1)
            self.assertIn("line 3 is no pin (2 such", done.stderr)
        self.assertEqual([p["id"] for p in json.loads(done.stdout)["pins"]], [1, 9])
        self.assertEqual(json.loads(done.stdout)["malformed_lines"], 2)

    def test_hostile_text(self):
        line = pin(comm="@").encode().replace(b"@", b"\x1b]0;x\x07\xff\xc0\xaf")
        tree = Tree(self).put("sys/kernel/debug/peerdma/pins", "\t".join(COLUMNS).encode() + b"\n" + line + b"\n")
        for options in ([], ["--json"]):
            done = run("pins", *options, tree=tree, text=False)
            self.assertEqual(done.returncode, 0)
            self.assertNotIn(b"\x1b", done.stdout)
            done.stdout.decode("utf-8")
        self.assertEqual(json.loads(done.stdout)["pins"][0]["comm"], r"\x1b]0;x\x07\xff\xc0\xaf")

    def test_not_a_table(self):
        for text in (b"", b"\n", b"<html>\n", bytes(range(256)) * 40):
            done = run("pins", tree=Tree(self).put("sys/kernel/debug/peerdma/pins", text))
            self.assertEqual(done.returncode, 1, text[:10])
            self.assertIn("not a table of pins", done.stderr)

    def test_cannot_tell(self):
        done = run("pins", tree=Tree(self))
        self.assertEqual(done.returncode, 2)
        self.assertIn("modprobe peerdma", done.stderr)
        tree = Tree(self)
        os.makedirs(tree.path + "/sys/kernel/debug/peerdma/pins")       # a folder
        self.assertEqual(run("pins", tree=tree).returncode, 2)

    def test_strange_files(self):
        tree = Tree(self)
        os.makedirs(tree.path + "/sys/kernel/debug/peerdma")
        path = tree.path + "/sys/kernel/debug/peerdma/pins"
        os.mkfifo(path)                                                  # it has no writer
        self.assertEqual(run("pins", tree=tree).returncode, 1)
        os.unlink(path)
        os.symlink("/dev/zero", path)                                    # without end
        done = run("pins", tree=tree)
        self.assertEqual(done.returncode, 2)
        self.assertIn("64 MiB", done.stderr)
        os.unlink(path)
        os.symlink("pins", path)                                         # a loop
        self.assertEqual(run("pins", tree=tree).returncode, 2)

    def test_permission(self):
        if os.geteuid() == 0:
            self.skipTest("root may read everything")
        tree = Tree(self).pins(pin())
        os.chmod(tree.path + "/sys/kernel/debug/peerdma/pins", 0)
        done = run("pins", tree=tree)
        self.assertEqual(done.returncode, 2)
        self.assertIn("root", done.stderr)


class Bar1(unittest.TestCase):
    def test_figures(self):
        done = run("bar1", tree=Tree(self).gpu().pins(pin()))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("    BAR1 Memory Usage\n"
                      "        Total                                          : 256 MiB\n"
                      "        Used                                           : 36 MiB\n"
                      "        Free                                           : 220 MiB\n", done.stdout)
        self.assertIn("held by others or reserved: 35.9 MiB", done.stdout)

    def test_little_used(self):
        """Below one MiB: cells are filled, so the figures above them may not say that nothing is used."""
        done = run("bar1", tree=Tree(self).gpu(used=448 << 10).pins(pin(segments=f"{BASE:#x}:{384 << 10}"))).stdout
        self.assertIn("Used                                           : 0 MiB (448 KiB)\n", done)
        self.assertIn("Aperture (PCI resource 2): pins of peerdma hold 384 KiB\n", done)
        self.assertNotIn("counts less", done)
        done = run("bar1", tree=Tree(self).gpu(used=0).pins(pin())).stdout
        self.assertIn("Used                                           : 0 MiB\n", done)
        self.assertIn("the driver counts less as used", done)
        self.assertNotIn("hold ", run("bar1", tree=Tree(self).gpu(used=0).pins()).stdout)

    def test_picture(self):
        two = pin(pid=43, comm="other", segments=f"{BASE + (2 << 20):#x}:{4 << 20}")
        tree = Tree(self).gpu().pins(pin(), two)
        done = run("bar1", "--ascii", tree=tree)
        rows = [line.split("|")[1] for line in done.stdout.splitlines() if "|" in line]
        # 256 MiB in cells of 512 KiB; other has most and is A, train's 64 KiB are part of a cell.
        self.assertEqual(len(rows), 8)
        self.assertTrue(all(len(row) == 64 for row in rows))
        self.assertEqual(rows[0], "b...AAAAAAAA" + "." * 52)
        self.assertEqual("".join(rows[1:]).strip("."), "")
        self.assertIn("A  pid 43 other: 4 MiB in 1 pin", done.stdout)
        self.assertIn("B  pid 42 train: 64 KiB in 1 pin", done.stdout)
        self.assertTrue(all(len(line) < 80 for line in done.stdout.splitlines()))
        done.stdout.encode("ascii")
        self.assertNotIn("\x1b", done.stdout)
        self.assertIn("\x1b[", run("bar1", "--color", tree=tree).stdout)
        self.assertIn("·", run("bar1", tree=tree).stdout)
        run("bar1", tree=tree, env={"LC_ALL": "C"}).stdout.encode("ascii")
        narrow = run("bar1", "--ascii", tree=tree, env={"COLUMNS": "40"}).stdout
        self.assertEqual(len([line for line in narrow.splitlines() if "|" in line][0].split("|")[1]), 16)

    def test_small_aperture(self):
        """An aperture of 64 MiB in a PCI resource of 256 MiB."""
        tree = Tree(self).gpu(used=4 << 20, total=64 << 20).pins(pin(segments=f"{BASE + (60 << 20):#x}:{4 << 20}"))
        told = json.loads(run("bar1", "--json", tree=tree).stdout)["gpus"][0]["aperture"]
        self.assertEqual((told["length"], told["held_by_peerdma"]), (64 << 20, 4 << 20))
        self.assertEqual((told["free_runs"], told["largest_free_run"]), (1, 60 << 20))
        done = run("bar1", "--ascii", tree=tree).stdout
        self.assertIn(f"{BASE:#x} to {BASE + (64 << 20) - 1:#x}", done)
        self.assertIn("free: 60 MiB in 1 run", done)
        # A driver that maps memory where it lies, not where the aperture begins.
        tree.pins(pin(segments=f"{BASE + (62 << 20):#x}:{4 << 20}"))
        told = json.loads(run("bar1", "--json", tree=tree).stdout)["gpus"][0]["aperture"]
        self.assertEqual((told["length"], told["held_by_peerdma"], told["held_by_others"]), (256 << 20, 4 << 20, 0))
        self.assertNotIn("free_runs", told)
        done = run("bar1", "--ascii", tree=tree).stdout
        self.assertIn("the aperture is 64 MiB of this", done)
        self.assertNotIn("free: ", done)

    def test_first_resource(self):
        tree = Tree(self).gpu().put("sys/bus/pci/devices/0000:03:00.0/resource", resource(number=0)).pins(pin())
        self.assertIn("Aperture (PCI resource 0): pins of peerdma hold 64 KiB\n", run("bar1", tree=tree).stdout)
        told = json.loads(run("bar1", "--json", tree=tree).stdout)["gpus"][0]["aperture"]
        self.assertEqual((told["resource"], told["start"], told["held_by_peerdma"]), (0, f"{BASE:#x}", 65536))

    def test_shared_cell(self):
        tree = Tree(self).gpu().pins(pin(), pin(pid=43))
        self.assertIn("|+...", run("bar1", "--ascii", tree=tree).stdout)

    def test_json(self):
        done = run("bar1", "--json", tree=Tree(self).gpu().pins(pin(), pin(id=2)))
        self.assertEqual(done.returncode, 0)
        told = json.loads(done.stdout)
        self.assertEqual(told["schema"], "peerdma-bar1/1")
        self.assertIsNone(told["pins_unknown"])
        self.assertEqual(told["gpus"], [{
            "index": 0, "pci": "0000:03:00.0", "name": "softgpu", "uuid": "GPU-1",
            "bar1": {"total": 256 << 20, "used": 36 << 20, "free": 220 << 20},
            "aperture": {"resource": 2, "start": f"{BASE:#x}", "length": 256 << 20,
                         "held_by_peerdma": 65536, "held_by_others": (36 << 20) - 65536,
                         "free_runs": 1, "largest_free_run": (256 << 20) - 65536, "fragmentation_percent": 0,
                         "owners": [{"pid": 42, "comm": "train", "pins": 2, "held": 65536,
                                     "ranges": [{"phys": f"{BASE:#x}", "length": 65536}]}]}}])

    def free_runs(self, *held):
        """What is told of an aperture of 256 MiB of which these (offset, length) in MiB are held."""
        lines = [pin(id=i, segments=f"{BASE + (at << 20):#x}:{size << 20}") for i, (at, size) in enumerate(held)]
        done = run("bar1", "--json", tree=Tree(self).gpu().pins(*lines))
        told = json.loads(done.stdout)["gpus"][0]["aperture"]
        return told["free_runs"], told["largest_free_run"] >> 20, told["fragmentation_percent"]

    def test_fragmentation(self):
        self.assertEqual(self.free_runs(), (1, 256, 0))
        self.assertEqual(self.free_runs((0, 256)), (0, 0, 0))
        self.assertEqual(self.free_runs((0, 1)), (1, 255, 0))
        self.assertEqual(self.free_runs((255, 1)), (1, 255, 0))
        self.assertEqual(self.free_runs((100, 56)), (2, 100, 50))
        # 255 free, of which 254 in a row: not quite nothing is lost
        self.assertEqual(self.free_runs((1, 1)), (2, 254, 1))
        # overlapping and adjacent pins leave no run between them
        self.assertEqual(self.free_runs((64, 64), (96, 64), (160, 32)), (2, 64, 50))
        self.assertEqual(self.free_runs(*[(at, 1) for at in range(0, 256, 2)]), (128, 1, 100))

    def test_fragmentation_picture(self):
        held = [pin(id=i, segments=f"{BASE + (at << 20):#x}:{1 << 20}") for i, at in enumerate((1, 3, 130))]
        done = run("bar1", "--ascii", tree=Tree(self).gpu().pins(*held))
        self.assertIn("      free: 253 MiB in 4 runs, the largest 126 MiB: 51% fragmented\n"
                      "        from    1 MiB:        2  # 2 MiB\n"
                      f"        from   64 MiB:        2  {32 * chr(35)} 251 MiB\n", done.stdout)
        done.stdout.encode("ascii")
        self.assertIn("■", run("bar1", tree=Tree(self).gpu().pins(*held)).stdout)
        self.assertNotIn("from ", run("bar1", tree=Tree(self).gpu().pins(pin())).stdout)

    def test_without_pins(self):
        done = run("bar1", tree=Tree(self).gpu())
        self.assertEqual(done.returncode, 0)
        self.assertIn("Not known who holds it", done.stdout)
        self.assertNotIn("held by others", done.stdout)
        told = json.loads(run("bar1", "--json", tree=Tree(self).gpu()).stdout)
        self.assertIn("modprobe", told["pins_unknown"])
        self.assertNotIn("owners", told["gpus"][0]["aperture"])

    def test_without_aperture(self):
        for text in (None, "", "nonsense\n" * 7, resource(size=2 ** 64 - BASE)):
            tree = Tree(self).gpu().pins(pin())
            path = tree.path + "/sys/bus/pci/devices/0000:03:00.0/resource"
            os.unlink(path)
            if text is not None:
                tree.put("sys/bus/pci/devices/0000:03:00.0/resource", text)
            done = run("bar1", tree=tree)
            self.assertEqual(done.returncode, 0)
            self.assertIn("No picture", done.stdout)
            self.assertIsNone(json.loads(run("bar1", "--json", tree=tree).stdout)["gpus"][0]["aperture"])

    def test_used_below_held(self):
        """The two counts are read one after the other and may not fit."""
        told = json.loads(run("bar1", "--json", tree=Tree(self).gpu(used=0).pins(pin())).stdout)
        self.assertEqual(told["gpus"][0]["aperture"]["held_by_others"], 0)

    def test_huge(self):
        tree = Tree(self).gpus(f"0\t0000:03:00.0\tx\tu\t{2 ** 64 - 1}\t{2 ** 64 - 1}\t0").pins(
            pin(segments=f"0x0:{2 ** 64 - 1}"))
        tree.put("sys/bus/pci/devices/0000:03:00.0/resource", resource(start=1 << 62, size=1 << 62))
        done = run("bar1", tree=tree)
        self.assertEqual(done.returncode, 0)
        self.assertIn("4 EiB in 1 pin", done.stdout)

    def test_rounding(self):
        """An H200's figures: nvidia-smi -q says Used 1 MiB, Free 262143 MiB."""
        tree = Tree(self).gpus("0\t0000:00:06.0\tNVIDIA H200\tGPU-1\t274877906944\t1703936\t274876203008")
        self.assertIn("Used                                           : 1 MiB\n"
                      "        Free                                           : 262143 MiB\n", run("bar1", tree=tree).stdout)

    def test_many_owners(self):
        lines = [pin(id=i, pid=i, segments=f"{BASE + i * 65536 % (256 << 20):#x}:65536") for i in range(20000)]
        done = run("bar1", tree=Tree(self).gpu().pins(*lines))
        self.assertEqual(done.returncode, 0)

    def test_malformed_gpus(self):
        for text in ("", "x\n", NVML + "0\n", NVML + "0\t-\ta\tb\t1\t2\t3"):
            done = run("bar1", tree=Tree(self).put("nvml.tsv", text))
            self.assertEqual(done.returncode, 1, text)
        self.assertEqual(run("bar1", tree=Tree(self)).returncode, 2)
        self.assertEqual(run("bar1", tree=Tree(self).gpus()).stdout.splitlines()[0], "No GPUs.")

    def test_malformed_pins(self):
        done = run("bar1", tree=Tree(self).gpu().pins(pin(), "x"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("malformed", done.stderr)

    def test_tsv_replays(self):
        tree = Tree(self).gpus("0\t0000:03:00.0\tsoftgpu\tGPU-1\t268435456\t65536\t268369920",
                               "1\t-\tMIG\tMIG-1\t-\t-\t-")
        with open(tree.path + "/nvml.tsv", encoding="utf-8") as file:
            self.assertEqual(run("bar1", "--tsv", tree=tree).stdout, file.read())
        self.assertIn(": N/A\n", run("bar1", tree=tree).stdout)


class Nvml(unittest.TestCase):
    """Through the stand-in for libnvidia-ml.so.1."""

    def test_figures(self):
        done = run("bar1", "--tsv", env={"LD_LIBRARY_PATH": STAND_INS})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, NVML +
                         f"0\t0000:c1:00.0\tStand-in \\xff GPU\tGPU-1\t{256 << 20}\t{36 << 20}\t{220 << 20}\n"
                         "1\t0000:c2:00.0\tStand-in \\xff GPU\tGPU-2\t-\t-\t-\n")
        json.loads(run("bar1", "--json", env={"LD_LIBRARY_PATH": STAND_INS}).stdout)

    @unittest.skipUnless(os.path.isdir("/sys/bus/pci/devices"), "no PCI here")
    def test_modes(self):
        """What the doctor asks of it goes into bundles."""
        file = os.path.join(Tree(self).path, "bundle.tar")
        run("doctor", "--bundle", file, env={"LD_LIBRARY_PATH": STAND_INS})
        with tarfile.open(file) as bundle:
            told = bundle.extractfile("nvml-modes.tsv").read().decode().splitlines()
        self.assertEqual(told, ["all\tconfidential\t1", "0000:c1:00.0\tmig\t1", "0000:c1:00.0\tmig_pending\t0",
                                "0000:c1:00.0\tvirtualization\t2", "0000:c2:00.0\tvirtualization\t2"])

    def test_fails(self):
        done = run("bar1", env={"LD_LIBRARY_PATH": STAND_INS, "FAKE_NVML": "fail"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("Driver Not Loaded", done.stderr)
        done = run("bar1", env={"LD_LIBRARY_PATH": STAND_INS, "FAKE_NVML": "many"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("impossible", done.stderr)
        done = run("bar1", env={"LD_LIBRARY_PATH": STAND_INS, "FAKE_NVML": "uncounted"})
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("nvmlDeviceGetCount: Unknown Error", done.stderr)

    @unittest.skipUnless(os.path.isdir("/sys/bus/pci/devices"), "no PCI here")
    def test_modes_of_none(self):
        for fault in ("many", "uncounted"):
            file = os.path.join(Tree(self).path, "bundle.tar")
            run("doctor", "--bundle", file, env={"LD_LIBRARY_PATH": STAND_INS, "FAKE_NVML": fault})
            with tarfile.open(file) as bundle:
                self.assertEqual(bundle.extractfile("nvml-modes.tsv").read(), b"all\tconfidential\t1\n")

    def test_most(self):
        done = run("bar1", "--tsv", env={"LD_LIBRARY_PATH": STAND_INS, "FAKE_NVML": "most"})
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 1025))

    def test_what_is_not_told(self):
        """Nothing of what a call left behind that failed."""
        done = run("bar1", "--tsv", env={"LD_LIBRARY_PATH": STAND_INS, "FAKE_NVML": "dumb"})
        self.assertEqual((done.returncode, done.stdout), (0, NVML + "0\t-\t\t\t-\t-\t-\n1\t-\t\t\t-\t-\t-\n"))
        done = run("bar1", "--tsv", env={"LD_LIBRARY_PATH": STAND_INS, "FAKE_NVML": "lost"})
        self.assertEqual(done.stdout.splitlines()[2], "1\t-\t\t\t-\t-\t-")


if __name__ == "__main__":
    unittest.main()
