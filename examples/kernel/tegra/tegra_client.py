#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The program for tegra_client.ko: passes memory of cudaHostAlloc() to the driver, and frees it while it is pinned."""

import ctypes
import os
import sys

cuda = ctypes.CDLL("libcudart.so.12")
cuda.cudaFreeHost.argtypes = [ctypes.c_void_p]
LENGTH = 1 << 20


def allocate():
    pointer = ctypes.c_void_p()
    assert cuda.cudaHostAlloc(ctypes.byref(pointer), ctypes.c_size_t(LENGTH), 0) == 0, "cudaHostAlloc"
    return pointer.value


def of_device(memory):
    """Its pointer for devices. With cudaDevAttrCanUseHostPointerForRegisteredMem it is the host's."""
    pointer = ctypes.c_void_p()
    assert cuda.cudaHostGetDevicePointer(ctypes.byref(pointer), ctypes.c_void_p(memory), 0) == 0, "cudaHostGetDevicePointer"
    return pointer.value


def told(address, length):
    fd = os.open("/dev/tegra_client", os.O_RDWR)
    try:
        os.write(fd, b"%d %d" % (address, length))
    except OSError:
        os.close(fd)
        raise
    return fd


memory = allocate()
fd = told(of_device(memory), LENGTH)
lines = os.pread(fd, 4096, 0).decode()
print("the card's addresses:", len(lines.splitlines()), "runs")
assert len(lines) >= 4095 or sum(int(line.split()[1]) for line in lines.splitlines()) == LENGTH
assert cuda.cudaFreeHost(memory) == 0
print("freed:", os.pread(fd, 4096, 0).decode(), end="")
assert os.pread(fd, 4096, 0) == b"revoked\n"
os.close(fd)

# Unpinned before it is freed; and what cannot be pinned: a longer range than there is, an address without memory, part of a page.
memory = allocate()
os.close(told(of_device(memory), LENGTH))
for address, length in ((of_device(memory), 1 << 40), (4096, 4096), (of_device(memory), 512)):
    try:
        os.close(told(address, length))
        sys.exit("memory that is none was taken")
    except OSError as error:
        print("refused:", error.strerror)
assert cuda.cudaFreeHost(memory) == 0
