# SPDX-License-Identifier: MIT
"""tests/mutate/run --random: changes chosen at random, and whether a test notices.

`sites` finds every place of the folders' C files where an operator, a condition,
a statement, a number or a returned value can be changed. The seed chooses among
them, each kind as often as the others. Left out are changes that the compiler
makes the same code of, and those of mutations.toml.

A change is tested by every test of Meson's that is built from the file, the
quickest first, until one fails; with --vm then by the virtual machines that
more.toml names for its folder; with --asan then by Meson's tests again, built
with AddressSanitizer.
"""

import collections
import concurrent.futures
import json
import os
import queue
import random
import re
import shlex
import subprocess
import sys
import threading
import time
import tomllib

from worker import PLACE, SLOWEST, TOP, Copy

HERE = os.path.dirname(os.path.realpath(__file__))
RESULTS = os.path.join(PLACE, "random.json")
KINDS = ("operator", "condition", "statement", "constant", "return")


def read(name):
    with open(os.path.join(HERE, name), "rb") as f:
        return tomllib.load(f)


def line_of(text, number):
    """The line without white space at its ends; "" before the first."""
    return text.splitlines()[number - 1].decode().strip() if number else ""


def changed(text, site):
    start = site["offset"]
    return text[:start] + site["new"].encode() + text[start + len(site["old"].encode()):]


# ---- which changes ---------------------------------------------------------------

class Choice:
    """The sites of the folders, in the seed's order."""

    def __init__(self, copy, folders):
        self.copy = copy
        self.user = os.path.join(copy.top, "build/user")
        with open(os.path.join(self.user, "compile_commands.json")) as f:
            self.commands = {os.path.relpath(os.path.join(c["directory"], c["file"]), copy.top): c for c in json.load(f)}
        self.files = sorted(file for file in self.commands if any(file == f or file.startswith(f.rstrip("/") + "/") for f in folders))
        self.code = {}
        if not self.files:
            sys.exit(f"tests/mutate/run: of {', '.join(folders)} nothing is compiled in user space")

    def sites(self):
        listed = subprocess.run([os.path.join(HERE, "sites"), self.user, *self.files], cwd=self.copy.top, text=True,
                                stdout=subprocess.PIPE)
        if listed.returncode:
            sys.exit(1)
        return [json.loads(line) for line in listed.stdout.splitlines()]

    def text(self, file):
        with open(os.path.join(TOP, file), "rb") as f:
            return f.read()

    def assembly(self, file):
        """What the compiler makes of a file as it is in the copy; None if it refuses."""
        command = shlex.split(self.commands[file]["command"])
        kept = []
        words = iter(command)
        for word in words:
            if word in ("-o", "-MF", "-MQ"):
                next(words)
            elif word not in ("-c", "-g", "-MD", "-Werror"):
                kept.append(word)
        made = subprocess.run([*kept, "-w", "-S", "-o", "-"], cwd=self.commands[file]["directory"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
        return made.stdout if made.returncode == 0 else None

    def judge(self, site):
        """"same", "does not build" or "differs"."""
        file = site["file"]
        text = self.text(file)
        if file not in self.code:
            self.code[file] = self.assembly(file)
        self.copy.write(file, changed(text, site))
        code = self.assembly(file)
        self.copy.write(file, text)
        return "does not build" if code is None else "same" if code == self.code[file] else "differs"

    def draw(self, seed, number, listed):
        """NUMBER sites that differ, and how many were drawn and were no good."""
        by_kind = {kind: [] for kind in KINDS}
        for site in self.sites():
            by_kind[site["kind"]].append(site)
        by_chance = random.Random(seed)
        for sites in by_kind.values():
            by_chance.shuffle(sites)
        drawn, no_good = [], collections.Counter()
        while len(drawn) < number and any(by_kind.values()):
            kind = by_chance.choice([kind for kind in KINDS if by_kind[kind]])
            site = by_kind[kind].pop()
            text = self.text(site["file"])
            line = line_of(text, site["line"])
            if " ".join(changed(text, site).decode().split()) in listed.get(site["file"], ()):
                no_good["listed"] += 1
            else:
                found = self.judge(site)
                if found == "differs":
                    drawn.append({**site, "text": line})
                else:
                    no_good[found] += 1
        return drawn, no_good


# ---- which tests -----------------------------------------------------------------

class Concern:
    """By file: the tests that are built from it, the quickest first."""

    def __init__(self, copy, longest):
        self.copy = copy
        self.longest = longest
        self.seconds = {}
        self.left_out = {}
        self.inputs = {}
        user = os.path.join(copy.top, "build/user")
        for test in copy.tests:
            needs = copy.needs(test)
            made = subprocess.check_output(["ninja", "-C", user, "-t", "inputs", *needs], text=True) if needs else ""
            self.inputs[test] = {os.path.relpath(os.path.join(user, line), copy.top) for line in made.splitlines()}

    def measure(self, files):
        """Runs each test once, on the unchanged copy."""
        wanted = sorted(test for test, made in self.inputs.items() if made & set(files))
        for test in wanted:
            if not self.copy.build(test):
                sys.exit(f"tests/mutate/run: {test} does not build unchanged: see {self.copy.log}")
            began = time.monotonic()
            result = self.copy.test(test, 1800)
            took = time.monotonic() - began
            if result != "passes":
                self.left_out[test] = "skipped or failed unchanged"
            elif took > self.longest:
                self.left_out[test] = f"takes {took:.0f} s"
            else:
                self.seconds[test] = took
        for test, why in self.left_out.items():
            print(f"left out: {test} ({why})", flush=True)
        print(f"{len(self.seconds)} tests, {sum(self.seconds.values()):.0f} s together", flush=True)

    def tests(self, file):
        return sorted((test for test in self.seconds if file in self.inputs[test]), key=self.seconds.get)

    def limit(self, test):
        return max(SLOWEST, 4 * self.seconds.get(test, 0))


class Sanitized:
    """The same tests with AddressSanitizer, as `make check` runs them: for what survives without it."""

    def __init__(self, options):
        self.copy = Copy(options, "asan", ["-Db_sanitize=address,undefined", "-Db_lundef=false"])
        self.left_out = set()
        if not self.copy.introspect():
            sys.exit(f"tests/mutate/run: the unchanged tree cannot be set up: see {self.copy.log}")

    def _try(self, content, site, tests, limit):
        """The first test that does not pass, and what it does."""
        copy = self.copy
        copy.write(site["file"], content)
        needs = sorted({need for test in tests for need in copy.needs(test)})
        if needs and copy.run(["ninja", "-C", os.path.join(copy.top, "build/user"), *needs], None):
            return None, "does not build"
        for test in tests:
            result = copy.test(test, 4 * limit(test))
            if result != "passes":
                return test, result
        return None, "passes"

    def judge(self, site, text, tests, limit):
        tests = [test for test in tests if test in self.copy.tests and test not in self.left_out]
        while tests:
            test, result = self._try(changed(text, site), site, tests, limit)
            if not test:
                break
            if self._try(text, site, [test], limit)[1] == "passes":
                return "caught" if result == "fails" else "hangs", test + ", with AddressSanitizer"
            # Unchanged it does not pass either.
            self.left_out.add(test)
            tests = tests[tests.index(test) + 1:]
        self.copy.write(site["file"], text)
        return "SURVIVES", f"{len(tests)} tests, and with AddressSanitizer"


class Sample:
    def __init__(self, options, listed):
        self.options = options
        self.listed = listed
        self.lock = threading.Lock()
        self.sanitized = queue.Queue()
        self.machines = read("more.toml")["virtual machines"] if options.vm else {}
        self.limits = {}

    def more(self, file):
        """The virtual machines' tests of the longest folder that the file is in."""
        found = [folder for folder in self.machines if file.startswith(folder + "/") or file == folder]
        return self.machines[max(found, key=len)] if found else []

    def judge(self, copy, concern, site):
        tests = concern.tests(site["file"])
        needs = sorted({need for test in tests for need in copy.needs(test)})
        if needs and copy.run(["ninja", "-C", os.path.join(copy.top, "build/user"), *needs], None):
            return "does not build", ""
        for test in tests:
            result = copy.test(test, concern.limit(test))
            # The machine may be busier than when it was measured.
            if result == "hangs":
                result = copy.test(test, 4 * concern.limit(test))
            if result != "passes":
                return "caught" if result == "fails" else "hangs", test
        for test in self.more(site["file"]):
            if not copy.build(test):
                return "does not build", test
            result = copy.test(test, self.limits[test])
            if result != "passes":
                return "caught" if result == "fails" else "hangs", test
        return "SURVIVES", f"{len(tests) + len(self.more(site['file']))} tests"

    def one(self, copies, concern, site):
        copy = copies.get()
        began = time.monotonic()
        try:
            with open(os.path.join(TOP, site["file"]), "rb") as f:
                text = f.read()
            with open(copy.log, "a") as log:
                log.write(f"\n==== {site['file']}:{site['line']} {site['old']} -> {site['new']}\n")
            copy.write(site["file"], changed(text, site))
            site["result"], site["by"] = self.judge(copy, concern, site)
            copy.write(site["file"], text)
            if site["result"] == "SURVIVES" and self.options.asan:
                sanitized = self.sanitized.get()
                try:
                    site["result"], site["by"] = sanitized.judge(site, text, concern.tests(site["file"]), concern.limit)
                finally:
                    self.sanitized.put(sanitized)
        finally:
            copies.put(copy)
        with self.lock:
            print(f"{site['result']:14} {site['file']}:{site['line']}: {site['old']} -> {site['new']}  [{site['by']}, "
                  f"{time.monotonic() - began:.0f} s]", flush=True)
            if site["result"] == "SURVIVES":
                print(f"{'':14} {site['text']}", flush=True)
        return site

    def baseline(self, copies, sites):
        """The virtual machines' tests pass on the unchanged tree, in each copy."""
        for test in sorted({test for site in sites for test in self.more(site["file"])}):
            for copy in copies:
                began = time.monotonic()
                if not copy.build(test) or test not in self.limits and copy.test(test, 1800) != "passes":
                    sys.exit(f"tests/mutate/run: {test} does not pass unchanged: see {copy.log}")
                self.limits.setdefault(test, max(SLOWEST, 4 * (time.monotonic() - began)))

    def all(self, seed, number, folders):
        os.makedirs(PLACE, exist_ok=True)
        copies = [Copy(self.options) for _ in range(self.options.jobs)]
        for copy in copies:
            if not copy.introspect():
                sys.exit(f"tests/mutate/run: the unchanged tree cannot be set up: see {copy.log}")
        choice = Choice(copies[0], folders)
        # What the build makes is included by some files.
        if copies[0].run(["ninja", "-C", choice.user], None):
            sys.exit(f"tests/mutate/run: the unchanged tree does not build: see {copies[0].log}")
        sites, no_good = choice.draw(seed, number, self.listed)
        print(f"{len(sites)} changes in {len(choice.files)} files, seed {seed}; left aside "
              + ", ".join(f"{no_good[why]} {what}" for why, what in (
                  ("same", "that make the same code"), ("does not build", "that do not build"),
                  ("listed", "of mutations.toml"))), flush=True)
        concern = Concern(copies[0], self.options.longest)
        concern.measure({site["file"] for site in sites})
        self.baseline(copies, sites)
        # A quarter of the changes comes here, and each takes longer.
        for _ in range((self.options.jobs + 1) // 2 if self.options.asan else 0):
            self.sanitized.put(Sanitized(self.options))
        free = queue.Queue()
        for copy in copies:
            free.put(copy)
        with concurrent.futures.ThreadPoolExecutor(len(copies)) as pool:
            done = list(pool.map(lambda site: self.one(free, concern, site), sites))
        with open(RESULTS, "w") as f:
            json.dump(done, f, indent=1)
        return self.report(done, folders)

    def report(self, done, folders):
        for title, key in (("folder", lambda s: next(f for f in folders if s["file"].startswith(f))), ("kind", lambda s: s["kind"])):
            for name in sorted({key(site) for site in done}):
                count = collections.Counter(site["result"] for site in done if key(site) == name)
                noticed, built = count["caught"] + count["hangs"], sum(count.values()) - count["does not build"]
                print(f"{title} {name}: {noticed} of {built} noticed")
        count = collections.Counter(site["result"] for site in done)
        noticed, built = count["caught"] + count["hangs"], len(done) - count["does not build"]
        print(f"{noticed} of {built} noticed ({100 * noticed / max(1, built):.0f}%), {count['hangs']} of them by a test that hangs; "
              f"{count['SURVIVES']} survive, {count['does not build']} do not build; all in {os.path.relpath(RESULTS, TOP)}")
        return 1 if count["SURVIVES"] * 10 > built else 0
