# SPDX-License-Identifier: MIT
"""What the tests of `peerdma topo` and `peerdma doctor` share. The command is the first argument."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
MEMORY = "/dev/shm"        # machines are many small files
COMMAND = sys.argv.pop(1)


def run(*args, root=None, env=None):
    if root:
        args += ("--root", root)
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **(env or {})}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return subprocess.run([COMMAND, *args], capture_output=True, text=True, env=environment, timeout=300,
                          stdin=subprocess.DEVNULL, check=False)


class Case(unittest.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
        self.addCleanup(folder.cleanup)
        return folder.name
