#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The whole path on one page: nvidia_client.ko pins GPU memory, and a card copies it by DMA.

The card is QEMU's edu. It has a small buffer and four registers. To keep the page short, this program
sets the registers from user space; normally the driver does that.

    insmod nvidia_client.ko card=0000:02:00.0 && ./nvidia_dma.py 0000:02:00.0
    ... ./nvidia_dma.py 0000:02:00.0 late       uses an address after the memory was freed
"""

import ctypes
import mmap
import os
import sys
import time

SIZE = 2048                             # fits the card's buffer
GPU_PAGE = 65536
SOURCE, DESTINATION, COUNT, COMMAND = 0x80, 0x88, 0x90, 0x98
TO_CARD, FROM_CARD = 1, 3               # start; start, to memory
BUFFER = 0x40000                        # the card's name for its own buffer

cuda = ctypes.CDLL("libcudart.so.12")
device = "/sys/bus/pci/devices/" + sys.argv[1]

# The card: memory access and bus mastering on, then its registers.
with open(device + "/config", "r+b", buffering=0) as config:
    os.pwrite(config.fileno(), (os.pread(config.fileno(), 2, 4)[0] | 6).to_bytes(2, "little"), 4)
with open(device + "/resource0", "r+b", buffering=0) as bar:
    registers = mmap.mmap(bar.fileno(), 1 << 20)


def register(offset):
    return ctypes.c_uint64.from_buffer(registers, offset)


def dma(source, destination, command):
    register(SOURCE).value = source
    register(DESTINATION).value = destination
    register(COUNT).value = SIZE
    register(COMMAND).value = command
    while register(COMMAND).value & 1:
        time.sleep(0.001)


def cuda_memory():
    pointer = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(GPU_PAGE)) == 0, "cudaMalloc"
    return pointer


def pin(pointer):
    """The driver pins the memory; this is the address at which the card reaches it."""
    fd = os.open("/dev/nvidia_client", os.O_RDWR)
    os.write(fd, b"%d %d" % (pointer.value, GPU_PAGE))
    return fd, int(os.pread(fd, 4096, 0).split()[0], 16)


def copy(to, source):
    assert cuda.cudaMemcpy(to, source, ctypes.c_size_t(SIZE), 4) == 0, "cudaMemcpy"


# Two buffers in GPU memory. The first has a text in it.
first, second = cuda_memory(), cuda_memory()
text = ctypes.create_string_buffer(b"GPU memory, carried by the card", SIZE)
copy(first, text)

(first_pin, first_address), (second_pin, second_address) = pin(first), pin(second)
print("pinned: %#x is %#x for the card, %#x is %#x" % (first.value, first_address, second.value, second_address))

dma(first_address, BUFFER, TO_CARD)
dma(BUFFER, second_address, FROM_CARD)
result = ctypes.create_string_buffer(SIZE)
copy(result, second)
print("copied:", result.value.decode())
assert result.raw == text.raw

# The memory goes. The driver is called back before cudaFree() returns.
assert cuda.cudaFree(second) == 0
print("freed: the driver's pin is", os.pread(second_pin, 4096, 0).decode().strip())
assert os.pread(second_pin, 4096, 0) == b"revoked\n"

if sys.argv[2:] == ["late"]:
    print("late: the card writes to %#x all the same" % second_address)
    dma(BUFFER, second_address, FROM_CARD)

os.close(first_pin)
os.close(second_pin)
assert cuda.cudaFree(first) == 0
