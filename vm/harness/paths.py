# SPDX-License-Identifier: MIT
"""Where things are, and the two small things every part needs to do with files."""

import contextlib
import fcntl
import os
import shutil
import subprocess

from .errors import HarnessError

VM = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
TOP = os.path.dirname(VM)
BUILD = os.path.join(TOP, "build")
KERNELS = os.path.join(BUILD, "cache", "kernel")
CACHE = os.path.join(BUILD, "cache", "vm")
# Administrators' programs (depmod) are not on every user's PATH.
SEARCH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"


def tool(name, group):
    """The full path of a program; which group of vm/deps.sh brings it."""
    path = shutil.which(name, path=SEARCH)
    if not path:
        raise HarnessError(f"{name} is not installed; run: vm/deps.sh {group}")
    return path


def call(*argv, **kwargs):
    """Run a program and return what it prints; its own words are in the error."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)
    if done.returncode:
        raise HarnessError(f"{' '.join(argv)} failed ({done.returncode}):\n{done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def locked(folder):
    """One process at a time builds what lies in this folder."""
    try:
        os.makedirs(folder, exist_ok=True)
        lock = open(os.path.join(folder, ".lock"), "w")
    except PermissionError as error:
        raise HarnessError(f"{error.filename} cannot be written by this user; run it as the owner of {TOP}, "
                           "or from a copy of that folder of your own") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
