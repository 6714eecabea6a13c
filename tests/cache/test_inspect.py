#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`peerdma cache` on processes that have caches: what it tells is what they counted themselves."""

import json
import os
import signal
import subprocess
import sys
import unittest

PROGRAM, COMMAND = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
BASE = 1 << 40
PAGE = 4096


class Process:
    """tests/cache/inspect.c in the states named, one after the other."""

    def __init__(self, case, *states, env=None):
        self.popen = subprocess.Popen([PROGRAM, *states], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        case.addCleanup(self.end)

    def state(self):
        counters = json.loads(self.popen.stdout.readline())
        return counters, int(self.popen.stdout.readline())

    def go_on(self):
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()

    def end(self):
        """Its error output."""
        if self.popen.stdin.closed:
            return ""
        _, errors = self.popen.communicate(timeout=600)
        return errors


def run(*args):
    return subprocess.run([COMMAND, "cache", *map(str, args)], capture_output=True, text=True, timeout=600,
                          stdin=subprocess.DEVNULL, check=False)


def other(*args):
    """The output of another subcommand."""
    return subprocess.run([COMMAND, *args], capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL, check=False).stdout


def told(*args):
    done = run("--json", *args)
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def cache_of(process, *args):
    answer = told(process.popen.pid, *args)
    assert answer["schema"] == "peerdma-cache/1"
    (only,) = answer["processes"]
    (cache,) = only["caches"]
    return cache


class Seen(unittest.TestCase):
    def setUp(self):
        probe = Process(self, "used")
        probe.state()
        if "may not be read" in run(probe.popen.pid).stderr:
            self.skipTest("processes may not be looked at here (ptrace)")
        probe.end()

    def test_counters(self):
        process = Process(self, "used", "ended", "threads", "end")
        for state in ("used", "ended", "threads"):
            counters, _ = process.state()
            cache = cache_of(process)
            self.assertEqual(cache["counters"], counters, state)
            process.go_on()
        self.assertEqual(cache["monitors"], {"word": True, "check": False, "hooks": False, "host": False, "calls": True})
        self.assertEqual(counters["threads"], 2)
        process.state()

    def test_stopped(self):
        """A stopped process is read like any other."""
        process = Process(self, "used")
        counters, pid = process.state()
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        self.assertEqual(cache_of(process)["counters"], counters)
        os.kill(pid, signal.SIGCONT)

    def test_metrics(self):
        """`peerdma metrics` has the same numbers."""
        process = Process(self, "used", "ended")
        process.state()
        process.go_on()
        counters, _ = process.state()
        text = subprocess.run([COMMAND, "metrics", "--no-doctor"], capture_output=True, text=True, timeout=600, check=False).stdout
        mine = {}
        for line in text.splitlines():
            if f'pid="{process.popen.pid}"' in line:
                name, labels, value = line.replace("{", " ").replace("} ", " ").rsplit(" ", 1)[0].split(" ", 1) + [line.split()[-1]]
                labels = [label for label in labels.split(",") if not label.startswith(("pid", "cache=", "comm"))]
                mine[name.removeprefix("peerdma_cache_") + "".join(labels)] = int(value)
        self.assertEqual(mine, {
            "gets_total": counters["gets"], "hits_total": counters["hits"], "failures_total": counters["failures"],
            'ended_totalreason="merged"': counters["merges"], 'ended_totalreason="evicted"': counters["evictions"],
            'ended_totalreason="invalidated"': counters["invalidations"], 'ended_totalreason="stale"': counters["stale"],
            'regionsstate="live"': counters["regions"], 'regionsstate="ended"': counters["dead"],
            "registered_bytes": counters["bytes"], "aperture_bytes": counters["aperture"]})
        process.go_on()

    def test_regions(self):
        process = Process(self, "used", "ended", "threads")
        process.state()
        cache = cache_of(process)
        self.assertEqual([region["addr"] for region in cache["regions"]][0], hex(BASE + 30 * PAGE))
        self.assertEqual(sum(region["gets"] for region in cache["regions"]), 41000)
        self.assertEqual(cache["regions"][0]["gets"], 40700)
        for region in cache["regions"]:
            self.assertEqual((region["hits"], region["misses"]), (region["gets"] - 1, 1))
        counters = cache["counters"]
        self.assertEqual(sum(region["hits"] for region in cache["regions"]), counters["hits"])
        self.assertEqual(sum(region["misses"] for region in cache["regions"]), counters["misses"])
        self.assertEqual(len(cache_of(process, "--regions", 1)["regions"]), 1)
        self.assertEqual(cache_of(process, "--regions", 1)["regions_left_out"], 3)
        self.assertEqual(cache_of(process, "--regions", 0)["regions"], [])
        process.go_on()
        process.state()
        cache = cache_of(process, "--regions", "all")
        self.assertEqual([(end["addr"], end["why"], end["gets"]) for end in cache["ended"][1:]], [
            (hex(BASE + 400 * PAGE), "invalidated", 1), (hex(BASE + 300 * PAGE), "invalidated", 1),
            (hex(BASE + 100 * PAGE), "stale", 2), (hex(BASE + 200 * PAGE), "merged", 1),
            (hex(BASE + 201 * PAGE), "merged", 1)])
        self.assertEqual(cache["ended"][0]["why"], "evicted")
        for region in cache["regions"]:
            worded = region["addr"] == hex(BASE + 100 * PAGE)
            self.assertEqual(region["monitor"], "word" if worded else "calls")
            self.assertIn("a word changes" if worded else "the program must call", region["why"])
        # By their gets, and the most used one is there whatever was evicted.
        gets = [region["gets"] for region in cache["regions"]]
        self.assertEqual(gets, sorted(gets, reverse=True))
        process.go_on()
        process.state()
        self.assertEqual(cache_of(process)["regions"][0]["gets"], 40900)

    def test_people(self):
        process = Process(self, "used", "ended")
        process.state()
        process.go_on()
        process.state()
        done = run(process.popen.pid)
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("notified of frees by a word in memory", hex(BASE + 30 * PAGE), "invalidated", "40700", "40699", "8 KiB",
                     "calls: the registration has no word", "word: a word changes"):
            self.assertIn(word, done.stdout)
        listed = run()
        self.assertEqual(listed.returncode, 0)
        self.assertIn(str(process.popen.pid), listed.stdout)
        self.assertIn(process.popen.pid, [p["pid"] for p in told()["processes"]])

    def test_none(self):
        process = Process(self, "used", "child", "closed")
        process.state()
        process.go_on()
        _, child = process.state()
        for pid in (child, os.getpid()):
            done = run(pid)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("has no registration cache", done.stderr)
        process.go_on()
        process.state()
        self.assertIn("has no registration cache", run(process.popen.pid).stderr)

    def test_not_read(self):
        """Caches that cannot be read: the reason of one process; in views of all, that they exist."""
        for state, code, word in (("another", 2, "libpeerdma of another release"), ("impossible", 1, "invalid data"),
                                  ("many", 2, "too many caches: at most 1024")):
            process = Process(self, "used", state)
            process.state()
            before = told()["not_readable"]
            process.go_on()
            process.state()
            pid = process.popen.pid
            for args in ((pid,), (pid, "--json"), (pid, "--regions", "all")):
                done = run(*args)
                self.assertEqual((done.returncode, done.stdout), (code, ""), state)
                self.assertIn(word, done.stderr)
            answer = told()
            self.assertEqual(answer["not_readable"], before + 1, state)
            self.assertNotIn(pid, [p["pid"] for p in answer["processes"]])
            self.assertRegex(run().stdout, rf"The caches of .* cannot be read:.* {pid}\b")
            self.assertIn('peerdma_source_readable{source="caches"} 0', other("metrics", "--no-doctor"))
            self.assertRegex(other("top", "--once"), "registration caches: those of [0-9]+ processes cannot be read")
            process.end()

    def test_refused(self):
        done = run(2 ** 31)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no process", done.stderr)
        for args in (["0"], ["x"], ["-1"], ["1", "2"], ["--regions", "x", "1"], ["--regions"], ["--root"]):
            done = run(*args)
            self.assertEqual((done.returncode, done.stdout), (1, ""), args)
            self.assertNotEqual(done.stderr, "", args)
        # Another's process: nobody's view of ours.
        process = Process(self, "used")
        process.state()
        if os.geteuid() == 0:
            done = subprocess.run([COMMAND, "cache", str(process.popen.pid)], capture_output=True, text=True,
                                  timeout=600, user=65534, group=65534, extra_groups=[], check=False, cwd="/") \
                if reachable() else None
            if done:
                self.assertEqual(done.returncode, 2)
                self.assertIn("may not be read", done.stderr)

    def test_busy(self):
        """Threads and caches come and go: each look tells something that was true, or says that it cannot."""
        process = Process(self, "busy")
        process.state()
        seen = 0
        for _ in range(30):
            done = run("--json", process.popen.pid, "--regions", "all")
            if done.returncode == 2:
                self.assertRegex(done.stderr, "try again|fewer")
                continue
            self.assertEqual(done.returncode, 0, done.stderr)
            for cache in json.loads(done.stdout)["processes"][0]["caches"]:
                counters = cache["counters"]
                self.assertEqual(counters["gets"], counters["hits"] + counters["misses"])
                for region in cache["regions"]:
                    self.assertLess(region["gets"], 1 << 40)
                    self.assertTrue(BASE <= int(region["addr"], 16) < BASE + 2000 * PAGE)
                    self.assertLessEqual(region["length"], 100 * PAGE)
            seen += 1
        print(f"busy: {seen} of 30 looks told something", file=sys.stderr)


class Report(unittest.TestCase):
    def test_report(self):
        process = Process(self, "used", "closed", env={"PEERDMA_CACHE_REPORT": "1"})
        counters, pid = process.state()
        process.go_on()
        process.state()
        text = f"peerdma: process {pid}, cache 1: {counters['gets']} gets, {counters['hits']} hits, {counters['misses']} misses"
        self.assertIn(text, process.end())
        # Open at the exit; and a child that exits does not tell its parent's.
        process = Process(self, "used", "child", env={"PEERDMA_CACHE_REPORT": "1"})
        process.state()
        process.go_on()
        process.state()
        process.go_on()
        self.assertEqual(process.end().count(text.split(",")[1]), 1)
        process = Process(self, "used")
        process.state()
        self.assertNotIn("gets", process.end())


def reachable():
    """Whether nobody may run the command at all."""
    try:
        return subprocess.run([COMMAND, "help"], capture_output=True, user=65534, group=65534, extra_groups=[], cwd="/",
                              check=False).returncode == 0
    except OSError:
        return False


if __name__ == "__main__":
    unittest.main()
