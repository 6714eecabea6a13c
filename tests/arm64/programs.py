#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run in a guest what each meson.build names with test(): it has no Meson, and qemu-user too little of Linux.

    programs.py BUILD [PATTERN... | -PATTERN...]

Those whose names contain one of the patterns, and none of those with a dash. A line per test as it ends; the output of those that fail. The exit code is 1 when one has.
"""

import json
import os
import subprocess
import sys
import time

PATIENCE = 20           # times as long as on a machine that is not emulated


def run(build, test):
    """The word for what came of it, and its output."""
    cmd = test["cmd"]
    # The one that Meson found is for another processor.
    if os.path.basename(cmd[0]).startswith("python3"):
        cmd = ["python3", *cmd[1:]]
    try:
        done = subprocess.run(cmd, cwd=test["workdir"] or build, env={**os.environ, **test["env"]},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=(test["timeout"] or 30) * PATIENCE)
    except subprocess.TimeoutExpired as error:
        return "FAIL", (error.stdout or b"") + b"\ntimeout\n"
    except OSError as error:
        return "FAIL", str(error).encode()
    return {0: "PASS", 77: "SKIP"}.get(done.returncode, "FAIL"), done.stdout + b"exit code %d\n" % done.returncode


def main():
    build, *patterns = sys.argv[1:]
    wanted = [pattern for pattern in patterns if not pattern.startswith("-")]
    unwanted = [pattern[1:] for pattern in patterns if pattern.startswith("-")]
    with open(os.path.join(build, "meson-info/intro-tests.json")) as file:
        tests = json.load(file)
    count = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    for test in tests:
        name = test["name"].split(" / ")[-1]
        if wanted and not any(pattern in name for pattern in wanted) or any(pattern in name for pattern in unwanted):
            continue
        began = time.monotonic()
        status, output = run(build, test)
        count[status] += 1
        print(f"{status:4}  {name:58} {time.monotonic() - began:6.1f} s", flush=True)
        if status != "PASS":
            print("      | " + output.decode(errors="replace").strip().replace("\n", "\n      | "), flush=True)
    print(f"{count['PASS']} passed, {count['FAIL']} failed, {count['SKIP']} skipped", flush=True)
    return 1 if count["FAIL"] or not count["PASS"] else 0


if __name__ == "__main__":
    sys.exit(main())
