#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The program for nvidia_client.ko: passes memory of cudaMalloc() to the driver, and frees it while it is pinned."""

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


def told(address, length):
    fd = os.open("/dev/nvidia_client", os.O_RDWR)
    try:
        os.write(fd, b"%d %d" % (address, length))
    except OSError:
        os.close(fd)
        raise
    return fd


memory = allocate()
fd = told(memory, LENGTH)
lines = os.pread(fd, 4096, 0).decode()
print("the card's addresses:\n" + lines, end="")
assert sum(int(line.split()[1]) for line in lines.splitlines()) >= LENGTH
assert cuda.cudaFree(memory) == 0
print("freed:", os.pread(fd, 4096, 0).decode(), end="")
assert os.pread(fd, 4096, 0) == b"revoked\n"
os.close(fd)

# Let go of before it is freed; and what is no such memory, not all of one allocation, or nothing.
memory = allocate()
os.close(told(memory, LENGTH))
for address, length in ((memory, 1 << 40), (id(sys), 4096), (memory, 0)):
    try:
        os.close(told(address, length))
        sys.exit("memory that is none was taken")
    except OSError as error:
        print("refused:", error.strerror)
assert cuda.cudaFree(memory) == 0
