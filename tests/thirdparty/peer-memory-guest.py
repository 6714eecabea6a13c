#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""GPU memory registered with the peer core's fake adapter, through a client of others, and freed under it.

Arguments: stays: the adapter cannot be stopped; persistent: it can be, but the client is one of persistent memory; kill.
"""

import ctypes
import os
import sys

cuda = ctypes.CDLL("libcudart.so.12")
cuda.cudaFree.argtypes = [ctypes.c_void_p]
LENGTH = 1 << 20


def allocate():
    pointer = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(LENGTH)) == 0, "cudaMalloc"
    return pointer.value


def register(address, length, stays=""):
    fd = os.open("/dev/peer_core_test", os.O_RDWR)
    try:
        os.write(fd, b"%d %d %s" % (address, length, stays.encode()))
    except OSError:
        os.close(fd)
        raise
    return fd


def state(fd):
    return os.pread(fd, 4096, 0).decode().split("\n", 1)


def covered(fd):
    return sum(int(line.split()[1]) for line in state(fd)[1].splitlines())


def refused(what, address, length):
    try:
        os.close(register(address, length))
    except OSError as error:
        print("refused:", what + ":", error.strerror)
        return
    sys.exit(what + " was registered")


stays = "stays" in sys.argv[1:]
word = "stays" if stays else ""
persistent = stays or "persistent" in sys.argv[1:]
memory = allocate()
whole = register(memory, LENGTH, word)
part = register(memory + 4096 + 12, 8192, word)
assert state(whole)[0] == "running" and covered(whole) == LENGTH, state(whole)
assert state(part)[0] == "running" and covered(part) == 3 * 4096, state(part)
os.close(register(memory, LENGTH, word))

# Another process's address is not its own.
child = os.fork()
if child == 0:
    refused("memory of the parent", memory, LENGTH)
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0

assert cuda.cudaFree(memory) == 0
expected = "running" if persistent else "stopped"
assert state(whole)[0] == state(part)[0] == expected, state(whole)
print("freed:", expected)
os.close(whole)
os.close(part)
if not persistent:
    refused("freed memory", memory, LENGTH)

# Left to the end of the process: killed, or gone.
memory = allocate()
left = register(memory, LENGTH, word)
refused("more than there is", memory, 1 << 40)
host = register(id(cuda) & ~4095, 4096, word)
assert state(host)[0] == "running host"
if "kill" in sys.argv[1:]:
    os.kill(os.getpid(), 9)
