# SPDX-License-Identifier: MIT
"""What the tests of `peerdma topo` and `peerdma doctor` share. The command is the first argument."""

import fcntl
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
MEMORY = "/dev/shm"        # machines are many small files
COMMAND = sys.argv.pop(1)


class Again:
    """The process of again.c, in which many commands run; its output and its reports are in files."""

    def __init__(self, program, environment):
        self.files = [os.memfd_create(name) for name in ("out", "err")]
        for file in self.files:
            fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)      # it goes on where the file ends, also when that was emptied
        (theirs_in, requests), (answers, theirs_out) = os.pipe(), os.pipe()
        self.process = subprocess.Popen([program, str(theirs_in), str(theirs_out)], stdin=subprocess.DEVNULL, stdout=self.files[0],
                                        stderr=self.files[1], env=environment, pass_fds=(theirs_in, theirs_out))
        os.close(theirs_in)
        os.close(theirs_out)
        self.requests, self.answers = os.fdopen(requests, "wb"), os.fdopen(answers, "r")

    def printed(self):
        texts = []
        for file in self.files:
            length = os.fstat(file).st_size
            texts.append(os.pread(file, length, 0).decode().replace("\r\n", "\n"))
            os.ftruncate(file, 0)
        return texts

    def run(self, args):
        """None: the process has ended, which it does of a sanitizer's report."""
        words = [os.fsencode(word) for word in ("peerdma", *args)]
        self.requests.write(b"%d\n" % len(words) + b"".join(word + b"\0" for word in words))
        self.requests.flush()
        code = self.answers.readline()
        return subprocess.CompletedProcess(args, int(code), *self.printed()) if code else None

    def end(self):
        """The exit code, and what was reported last: leaks."""
        self.requests.close()
        self.answers.close()
        code = self.process.wait(300)
        report = self.printed()[1]
        for file in self.files:
            os.close(file)
        return code, report


again = None        # its process


def end_again():
    global again
    ending, again = again, None
    code, report = ending.end() if ending else (0, "")
    if code:
        raise AssertionError(f"{os.environ['PEERDMA_AGAIN']}: exit code {code}\n{report}")


def run_again(args, environment):
    """The same in a process that has run others."""
    global again
    if not again:
        again = Again(os.environ["PEERDMA_AGAIN"], environment)
        unittest.addModuleCleanup(end_again)
    done = again.run(args)
    if not done:
        ending, again = again, None
        code, report = ending.end()
        done = subprocess.CompletedProcess(args, code, "", report)
    return done


def run(*args, root=None, env=None):
    if root:
        args += ("--root", root)
    # Allocated memory is not zero before it is written: a value that is read too early is seen.
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "MALLOC_PERTURB_": "165", **(env or {})}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"):
        if name in os.environ:
            environment[name] = os.environ[name]
    if "PEERDMA_AGAIN" in os.environ and not env:
        return run_again(args, environment)
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
