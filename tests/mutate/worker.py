# SPDX-License-Identifier: MIT
"""A worker's copy of the tree, in which code is broken, built and tested."""

import contextlib
import fcntl
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
PLACE = os.path.join(TOP, "build/mutate")
SERIES = "6.1"          # the kernel of virtual machines whose line names none
VM_HANGS, VM_BROKEN = 124, 125      # vm/run's codes: no end in time; no machine
FAILS = re.compile(r"^(FAIL|NOT OK|not ok)\b", re.MULTILINE)     # what tests in virtual machines print before they end
SLOWEST = 60            # seconds that any test may take; more, if it takes long on the unchanged tree


def script_of(test):
    """vm/NAME[N]: the script, and the number."""
    name, number = re.fullmatch(r"vm/([\w-]+)\[(\d)\]", test).groups()
    return os.path.join("tests/vm", name + ".sh"), int(number)


def asked(test):
    """vm/NAME[N] is tests/vm/NAME.sh with the options of its Nth "# vm:" line: vm/run's. ValueError if it has none."""
    script, number = script_of(test)
    with open(os.path.join(TOP, script)) as f:
        lines = [line[len("# vm:"):] for line in f if line.startswith("# vm:")]
    if number >= len(lines):
        raise ValueError(f"{test}: {script} has {len(lines)} lines \"# vm:\"")
    return shlex.split(lines[number])


def series(options):
    """The kernel."""
    return options[options.index("--kernel") + 1] if "--kernel" in options else SERIES


class Copy:
    """A worker's tree, build and tests. It is kept from run to run, so that builds are short."""

    def __init__(self, options, kind="", setup=()):
        """setup: Meson's options, for all copies of that kind."""
        self.options = options
        self.setup = setup
        for number in itertools.count():
            # Two workers in one folder would spoil each other, be they of one run or of two.
            self.lock = open(os.path.join(PLACE, f"{kind}{number}.lock"), "w")
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                self.lock.close()
        self.top = os.path.join(PLACE, f"{kind}{number}")
        self.log = os.path.join(PLACE, f"{kind}{number}.log")
        self.tests = None
        self.modules = False
        os.makedirs(os.path.join(self.top, "build"), exist_ok=True)
        self.sync()
        cache = os.path.join(self.top, "build/cache")
        if not os.path.lexists(cache):
            os.makedirs(os.path.join(TOP, "build/cache"), exist_ok=True)
            # Relative, for virtual machines find it below another root.
            os.symlink("../../../cache", cache)

    def sync(self):
        """Makes the copy as the tree is; what is the same already is not touched."""
        listed = subprocess.check_output(["git", "ls-files", "-coz", "--exclude-standard"], cwd=TOP, text=True)
        wanted = {name for name in listed.split("\0") if name and os.path.isfile(os.path.join(TOP, name))}
        for name in wanted:
            with open(os.path.join(TOP, name), "rb") as f:
                self.write(name, f.read(), os.stat(os.path.join(TOP, name)).st_mode)
        for folder, folders, files in os.walk(self.top):
            if folder == self.top:
                folders.remove("build")
            for file in files:
                if os.path.relpath(os.path.join(folder, file), self.top) not in wanted:
                    os.unlink(os.path.join(folder, file))

    def write(self, name, content, mode=None):
        path = os.path.join(self.top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path):
            with open(path, "rb") as f:
                if f.read() == content:
                    return
        with open(path, "wb") as f:
            f.write(content)
        if mode:
            os.chmod(path, mode)

    def run(self, argv, limit, env=None, until=None, cwd=None):
        """The exit code, or None after the limit; output goes to the log. It is ended, and 1, at a line as `until`."""
        with open(self.log, "a") as log, open(self.log, errors="replace") as seen:
            seen.seek(0, os.SEEK_END)
            log.write(f"== {shlex.join(argv)}\n")
            log.flush()
            # A group of its own, so that nothing is left of a test that hangs.
            child = subprocess.Popen(argv, cwd=cwd or self.top, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                     start_new_session=True, env={**os.environ, **(env or {})})
            try:
                text = ""
                while until:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        return child.wait(1)
                    text += seen.read()
                    if until.search(text):
                        return 1
                return child.wait(limit)
            except subprocess.TimeoutExpired:
                return None
            finally:
                for sig in (signal.SIGTERM, signal.SIGKILL):
                    try:
                        os.killpg(child.pid, sig)
                        child.wait(20)
                    except (ProcessLookupError, subprocess.TimeoutExpired):
                        pass

    def build(self, test):
        """What this test runs; False if it does not build."""
        user = os.path.join(self.top, "build/user")
        if not self.set_up():
            return False
        if test.startswith("vm/"):
            # Where a module is changed, the programs are those of the unchanged tree.
            if not self.modules and not self.programs():
                return False
            return self.run(["vm/build-modules", series(asked(test)), "KCFLAGS="], None) == 0
        if not self.introspect():
            return False
        if test not in self.tests:
            sys.exit(f"tests/mutate/run: there is no test \"{test}\"")
        return self.run(["ninja", "-C", user, *self.needs(test)], None) == 0

    def programs(self):
        """All that a machine may run; False if it does not build."""
        return self.run(["ninja", "-C", os.path.join(self.top, "build/user")], None) == 0

    def set_up(self):
        user = os.path.join(self.top, "build/user")
        # What a mutation leaves unused is no error here.
        return os.path.exists(os.path.join(user, "build.ninja")) or not self.run(
            ["meson", "setup", "-Dwerror=false", *self.setup, user], None)

    def introspect(self):
        """Meson's tests by name, and its targets' files; False if the build files cannot be made."""
        user = os.path.join(self.top, "build/user")
        if self.tests:
            return True
        if not self.set_up() or self.run(["ninja", "-C", user, "build.ninja"], None):
            return False
        listed = json.loads(subprocess.check_output(["meson", "introspect", "--tests", "--targets", user]))
        self.tests = {t["name"]: t for t in listed["tests"]}
        self.targets = {t["id"]: os.path.relpath(t["filename"][0], user) for t in listed["targets"]}
        return True

    def needs(self, test):
        """What a test of Meson's runs, with libraries that it is given by name: files of the build folder."""
        return [self.targets[target] for target in self.tests[test]["depends"]]

    def test(self, test, limit):
        """"passes", "fails" or "hangs"."""
        if test.startswith("vm/"):
            # What goes on after that may well hang, for as long as the machine is let.
            code = self.run(self.vm(test, limit), None, until=FAILS)
            if code == VM_BROKEN:
                sys.exit(f"tests/mutate/run: vm/run fails: see {self.log}")
            return "hangs" if code == VM_HANGS else "fails" if code else "passes"
        found = self.tests[test]
        env = {name: value for name, value in found["env"].items() if isinstance(value, str)}
        # Meson's own place for them: some are given paths below it.
        code = self.run(found["cmd"], limit, env, cwd=found["workdir"] or os.path.join(self.top, "build/user"))
        return "hangs" if code is None else "fails" if code else "passes"

    def vm(self, test, limit):
        """The command that runs it."""
        options = asked(test)
        script = script_of(test)[0]
        with open(os.path.join(self.top, script)) as f:
            allowed = [f"--allow={line[len('# vm-allow:'):].strip()}" for line in f if line.startswith("# vm-allow:")]
        modules = os.path.join(self.top, "build/modules", series(options))
        return [*shlex.split(self.options.vm_prefix), os.path.join(self.top, "vm/run"), *options, *allowed,
                "--kernel", series(options), "--timeout", str(int(limit)),
                "--env", f"BUILD={self.top}/build/user", "--env", f"MODDIR={modules}", "--env", f"TOP={self.top}",
                "--", os.path.join(self.top, script)]
