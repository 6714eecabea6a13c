#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`peerdma bench` from outside: that it measures what it says, and refuses what it cannot; never how fast."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.dom.minidom

COMMAND = os.path.abspath(sys.argv.pop(1))
CUDA = sys.argv.pop(1)          # the folder of softgpu's libcuda.so.1
FEW = ["--count", "3", "--seconds", "0.01", "--threads", "1,2"]


def run(*args, env=None, **more):
    environment = {"LC_ALL": "C.UTF-8", **os.environ, "PEERDMA_CUDA": "off", **(env or {})}
    return subprocess.run([COMMAND, "bench", *args], capture_output=True, text=True, env=environment, timeout=600,
                          stdin=subprocess.DEVNULL, check=False, **more)


def told(*args, env=None):
    done = run("--json", *FEW, *args, env=env)
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Bench(unittest.TestCase):
    def check(self, results, what, sizes):
        self.assertEqual({result["what"] for result in results}, {what})
        self.assertEqual({result["threads"] for result in results}, {1, 2})
        self.assertTrue(set(sizes) <= {result["size"] for result in results})
        for result in results:
            self.assertEqual(result["samples"], 3 * result["threads"])
            times = [result[name + "_ns"] for name in ("min", "p50", "p90", "p99", "max")]
            self.assertEqual(times, sorted(times))
            # A coarse clock may find that a short call took no time at all.
            self.assertGreaterEqual(times[0], 0)
            self.assertGreaterEqual(result["calls_per_second"], 0)
            self.assertEqual("bytes_per_second" in result, what == "copy")

    def test_without_anything(self):
        for what, sizes in (("cache", (4, 64)), ("query", (4096, 65536)), ("copy", (64, 1 << 20))):
            answer = told(what, "--sizes", ",".join(map(str, sizes)))
            self.assertEqual(answer["schema"], "peerdma-bench/1")
            self.check(answer["results"], what, sizes)
            self.assertEqual(answer["gpu"]["why_none"], "PEERDMA_CUDA=off")

    def test_sizes(self):
        answer = told("copy", "--sizes", "1K,64K,1M")
        self.assertEqual(sorted({result["size"] for result in answer["results"]}), [1 << 10, 1 << 16, 1 << 20])

    def test_usual_sizes(self):
        """What is measured, and in which sizes, by default; pins only where this user may lock so much."""
        pins, copies = (4096, 65536, 1 << 20, 16 << 20), (64, 4096, 65536, 1 << 20, 16 << 20)
        batches = {"cache": 64, "query": 16, "pin": 1, "map": 1}
        wanted = {("cache", name): (16, 1024, 65536) for name in ("hit", "hit, word", "miss and end")}
        wanted["cache", "hit, pins"] = (16,)
        wanted |= {("query", name): (1,) for name in ("stack", "heap", "mapped", "device")}
        wanted["query", "mapped, by turns"] = (4096,)
        for where in ("host", "device"):
            wanted |= {("pin", where): pins, ("map", "CPU view, " + where): pins, ("copy", "to a view, " + where): copies,
                       ("copy", "from a view, " + where): copies}
            wanted["query", "range, " + {"host": "mapped"}.get(where, where)] = (4096, 1 << 20, 64 << 20)
        wanted["copy", "memcpy"] = copies
        soft = {"PEERDMA_CUDA": "", "SOFTGPU_INPROCESS": "1", "PEERDMA_PROVIDER": "soft",
                "LD_LIBRARY_PATH": CUDA + ":" + os.environ.get("LD_LIBRARY_PATH", "")}
        done = run("--json", "--count", "1", "--seconds", "0.001", "--threads", "1", env=soft)
        answer = json.loads(done.stdout)
        found = {}
        for r in answer["results"]:
            found.setdefault((r["what"], r["case"]), []).append(r["size"])
            batch = batches.get(r["what"], 16 if r["size"] < 65536 else 1)
            self.assertEqual((r["samples"], r["calls_per_sample"], r["size_of"], "bytes_per_second" in r),
                             (1, batch, "regions" if r["what"] == "cache" else "bytes", r["what"] == "copy"), r)
        limited = {left["what"] for left in answer["left_out"]}
        self.assertLessEqual(limited, {"pin", "map", "copy", "cache"})
        for key, sizes in wanted.items():
            if key[0] not in limited:
                self.assertEqual(tuple(found.pop(key, ())), sizes, key)
        self.assertEqual({key for key in found if key[0] not in limited}, set())
        if not limited:
            self.assertEqual((answer["pins"]["host"], answer["pins"]["device"]), ("host", "softgpu"))

    def test_pin(self):
        """Where nothing can be pinned the reason is given; else pins are measured, and who pins is told."""
        done = run("pin", "--json", *FEW, "--sizes", "4096")
        answer = json.loads(done.stdout)
        if not answer["results"]:
            self.assertEqual(done.returncode, 2)
            self.assertEqual([left["what"] for left in answer["left_out"]], ["pin"])
            self.assertIn(answer["left_out"][0]["why"], done.stderr)
        else:
            self.check(answer["results"], "pin", (4096,))
            self.assertTrue(answer["pins"]["host"])

    def test_software_gpu(self):
        gpu = {"PEERDMA_CUDA": "", "SOFTGPU_INPROCESS": "1",
               "LD_LIBRARY_PATH": CUDA + ":" + os.environ.get("LD_LIBRARY_PATH", "")}
        answer = told("query", "--sizes", "4096", env=gpu)
        self.assertTrue(answer["gpu"]["software"])
        self.assertIn("device", {result["case"] for result in answer["results"]})
        self.assertIn("say nothing about hardware", run("query", *FEW, "--sizes", "4096", env=gpu).stdout)

    def test_people(self):
        done = run("cache", *FEW, "--sizes", "4,64", "--ascii", env={"COLUMNS": "100"})
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("P99", "64 regions", "cache: from", "GPU        none"):
            self.assertIn(word, done.stdout)
        self.assertNotIn("█", done.stdout)
        self.assertIn("\x1b[", run("cache", *FEW, "--sizes", "4", "--color").stdout)

    def test_svg_refused(self):
        """At once, not after an hour of measuring."""
        forever = ("cache", "--count", "10000000", "--seconds", "3600", "--svg")
        with tempfile.TemporaryDirectory() as folder:
            done = run(*forever, folder)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"peerdma: bench: {folder}: Is a directory\n"))
            done = run(*forever, os.path.join(folder, "bench.svg"), env={"PATH": folder})
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("gnuplot-nox", done.stderr)
            self.assertEqual(os.listdir(folder), [])

    def gnuplot(self, folder, draws):
        """A folder for PATH with a gnuplot that takes its commands and does `draws`."""
        path = os.path.join(folder, "bin")
        os.mkdir(path)
        with open(os.path.join(path, "gnuplot"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n/bin/cat > /dev/null\n{draws}\n")
        os.chmod(os.path.join(path, "gnuplot"), 0o755)
        return {"PATH": path}

    def test_svg_not_written(self):
        """What could not be written as a whole is an error, and no new file."""
        few = ("cache", "--count", "2", "--seconds", "0.001", "--sizes", "4", "--threads", "1", "--svg")

        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with tempfile.TemporaryDirectory() as folder:
            # As gnuplot, it exits with 0 whether its output was written or not.
            env = self.gnuplot(folder, "/usr/bin/head -c 100000 /dev/zero; exit 0")
            file = os.path.join(folder, "bench.svg")
            done = run(*few, "/dev/full", env=env)
            self.assertEqual((done.returncode, done.stderr), (1, "peerdma: bench: /dev/full: No space left on device\n"))
            done = run(*few, file, env=env, preexec_fn=small)
            self.assertEqual((done.returncode, done.stderr), (1, f"peerdma: bench: {file}: File too large\n"))
            self.assertEqual(os.listdir(folder), ["bin"])
            with open(file, "w", encoding="utf-8") as old:
                old.write("x" * 200000)
            done = run(*few, file, env=env)
            self.assertEqual((done.returncode, done.stderr, os.path.getsize(file)), (0, "", 100000))

    def test_svg_interrupted(self):
        """SIGINT leaves no file, and an old one as it was."""
        with tempfile.TemporaryDirectory() as folder:
            # Its first run is the check before anything is measured.
            env = self.gnuplot(folder, "kill -INT $PPID")
            file = os.path.join(folder, "bench.svg")
            self.assertEqual(run("cache", "--svg", file, env=env).returncode, -signal.SIGINT)
            self.assertFalse(os.path.exists(file))
            with open(file, "w", encoding="utf-8") as old:
                old.write("old")
            self.assertEqual(run("cache", "--svg", file, env=env).returncode, -signal.SIGINT)
            with open(file, encoding="utf-8") as old:
                self.assertEqual(old.read(), "old")

    def draw(self, folder, what, *args, env=None):
        """A drawing names each line, and has no figure that is none."""
        path = os.path.join(folder, what + ".svg")
        done = run(what, "--json", "--count", "2", "--seconds", "0.001", *args, "--svg", path, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        # A slow machine sees progress.
        self.assertEqual([line for line in done.stderr.splitlines() if not line.startswith("peerdma: bench: ")], [])
        results = json.loads(done.stdout)["results"]
        drawn = xml.dom.minidom.parse(path)
        words = [text.firstChild.data.strip() for text in drawn.getElementsByTagName("text")]
        for r in results:
            self.assertIn(f"{r['case']}, {r['threads']} thread" + "s" * (r["threads"] > 1), words)
        heading = " ".join(words)
        for wanted in ("time (powers of ten)", "size, bytes" if results[0]["size_of"] == "bytes" else "size of the cache, regions",
                       time.strftime("%Y-", time.gmtime()), os.uname().release, "processor", "GPU: "):
            self.assertIn(wanted, heading)
        for line in drawn.getElementsByTagName("path"):
            self.assertNotIn("nan", line.getAttribute("d"))

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed (gnuplot-nox)")
    def test_svg(self):
        many = ",".join(map(str, range(1, 14)))
        soft = {"PEERDMA_CUDA": "", "SOFTGPU_INPROCESS": "1", "LD_LIBRARY_PATH": CUDA + ":" + os.environ.get("LD_LIBRARY_PATH", "")}
        with tempfile.TemporaryDirectory() as folder:
            self.draw(folder, "cache", "--sizes", "4,4096", "--threads", "1,2")
            self.draw(folder, "cache", "--sizes", "4", "--threads", "1")
            self.draw(folder, "copy", "--sizes", "1M,4096,4097,5000,8192", "--threads", many)
            self.draw(folder, "query", "--sizes", "4096,1M", env=soft)

    def test_refused(self):
        for args in (["nothing"], ["cache", "pin"], ["--sizes", "0"], ["--sizes", ""], ["--sizes", "4,,8"], ["--sizes", "4x"],
                     ["--sizes", "K"], ["--sizes", "128G"], ["--sizes", "18446744073709551615K"], ["--sizes", "18014398509481985K"], ["--sizes", "-4"],
                     ["--sizes", ",".join("4" * 33)], ["--threads", "0"], ["--threads", "65"], ["--threads", "x"],
                     ["--count", "0"], ["--count", "1e9"], ["--count", "99999999"], ["--seconds", "0"],
                     ["--seconds", "-1"], ["--seconds", "nan"], ["--seconds", "inf"], ["--seconds", "1s"], ["--nothing"],
                     ["--tsv"]):
            done = run(*args)
            self.assertEqual((done.returncode, done.stdout), (1, ""), args)
            self.assertNotEqual(done.stderr, "", args)
        self.assertIn("Usage: peerdma bench", run("--help").stdout)
        self.assertEqual(run("nothing").stderr, "peerdma: bench: 'nothing' cannot be measured; choose one of cache, query, "
                         "pin, map and copy\n")


if __name__ == "__main__":
    unittest.main()
