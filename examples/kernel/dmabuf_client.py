#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The program for dmabuf_client.ko: exports HIP memory as a dma-buf, moves it, and frees it while the driver uses it."""

import ctypes
import os

MOVE = "/sys/kernel/debug/softgpu/move"
DMABUFS = "/sys/kernel/debug/softgpu/dmabufs"
LENGTH = 1 << 20

hip = ctypes.CDLL("libamdhip64.so.6")
hsa = ctypes.CDLL("libhsa-runtime64.so.1")
hip.hipFree.argtypes = [ctypes.c_void_p]

memory, dmabuf, offset = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64()
assert hip.hipMalloc(ctypes.byref(memory), ctypes.c_size_t(LENGTH)) == 0, "hipMalloc"
assert hsa.hsa_init() == 0, "hsa_init"
assert hsa.hsa_amd_portable_export_dmabuf(memory, ctypes.c_size_t(LENGTH), ctypes.byref(dmabuf),
                                          ctypes.byref(offset)) == 0, "export"
ctypes.memset(memory, 42, LENGTH)

fd = os.open("/dev/dmabuf_client", os.O_RDWR)
os.write(fd, b"%d" % dmabuf.value)


def segments():
    lines = os.pread(fd, 4096, 0).decode()
    print("the card's addresses:\n" + lines, end="")
    assert sum(int(line.split()[1]) for line in lines.splitlines()) == LENGTH
    return lines


segments()
with open(DMABUFS) as table:
    number = table.read().splitlines()[-1].split()[0]
with open(MOVE, "w") as move:
    move.write(number)
print("moved")
segments()
assert ctypes.string_at(memory, LENGTH) == b"\x2a" * LENGTH, "bytes are lost"

# The dma-buf keeps the memory.
assert hip.hipFree(memory) == 0
segments()
try:
    os.write(fd, b"%d" % dmabuf.value)
    raise SystemExit("two dma-bufs in one file")
except OSError as error:
    print("refused:", error.strerror)
os.close(fd)
os.close(dmabuf.value)
