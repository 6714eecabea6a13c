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
    # Allocated memory is not zero before it is written: a value that is read too early is seen.
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "MALLOC_PERTURB_": "165", **(env or {})}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return subprocess.run([COMMAND, *args], capture_output=True, text=True, env=environment, timeout=300,
                          stdin=subprocess.DEVNULL, check=False)


class Optional:
    """A key that need not be there."""

    def __init__(self, schema):
        self.schema = schema


def conforms(value, schema, where="$"):
    """Raises where a value of JSON is not as a schema has it: keys as in a dict and no others, elements as the one in a
    list, one of the words in a set, one of the types in a tuple."""
    def fault(what):
        raise AssertionError(f"{where}: {what}: {value!r}")

    if isinstance(schema, dict):
        needed = {key for key, part in schema.items() if not isinstance(part, Optional)}
        if not isinstance(value, dict) or not needed <= set(value) <= set(schema):
            fault(f"not an object of {sorted(schema)}")
        for key, part in value.items():
            wanted = schema[key]
            conforms(part, wanted.schema if isinstance(wanted, Optional) else wanted, f"{where}.{key}")
    elif isinstance(schema, list):
        if not isinstance(value, list):
            fault("no array")
        for number, part in enumerate(value):
            conforms(part, schema[0], f"{where}[{number}]")
    elif isinstance(schema, set):
        if value not in schema:
            fault(f"none of {schema}")
    elif isinstance(schema, tuple):
        if not any(part is None and value is None or isinstance(part, dict) and isinstance(value, dict) or
                   isinstance(part, list) and isinstance(value, list) or isinstance(part, type) and type(value) is part
                   for part in schema):
            fault(f"none of {schema}")
        for part in schema:
            if isinstance(part, (dict, list)) and type(value) is type(part):
                conforms(value, part, where)
    elif type(value) is not schema:
        fault(f"no {schema.__name__}")


class Case(unittest.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
        self.addCleanup(folder.cleanup)
        return folder.name
