#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`peerdma top` beside the real modules, in the virtual machine: a card's DMA by process and device,
a GPU's BAR1, and a cache whose process waits meanwhile.

    live_top.py PEERDMA CARD CACHE_SEEN     CARD: the PCI address of /dev/fpga0
"""

import ctypes
import fcntl
import json
import os
import struct
import subprocess
import sys

PEERDMA, CARD, CACHE_SEEN = sys.argv[1:]
FPGA_COPY = 3 << 30 | 0xb7 << 8 | 1
LENGTH = 65536


def top(*more):
    done = subprocess.run([PEERDMA, "top", "--json", *more], stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def total(row, counter):
    return row["counters"][counter]["total"]


def device(look):
    row, = (d for d in look["devices"] if d["name"] == CARD)
    return row


def process(look, pid):
    return next((p for p in look["processes"] if p["pid"] == pid), None)


def check_card():
    before, = top()
    assert before["not_shown"] == [], before
    gpu = before["gpus"][0]
    assert gpu["bar1_total"] > 0 and "bytes_copied" in gpu["counters"], before

    file = os.open("/dev/fpga0", os.O_RDWR)
    source, target = (ctypes.create_string_buffer(os.urandom(LENGTH), LENGTH) for _ in range(2))
    copy = bytearray(144)
    struct.pack_into("=IIQQQ", copy, 0, len(copy), 0, ctypes.addressof(target), ctypes.addressof(source), LENGTH)
    fcntl.ioctl(file, FPGA_COPY, copy)
    assert source.raw == target.raw

    now, = top()
    for counter in "bytes_read", "bytes_written":
        assert total(device(now), counter) == total(device(before), counter) + LENGTH, (before, now)
        assert total(process(now, os.getpid()), counter) == LENGTH, now
    assert total(process(now, os.getpid()), "copies") == 1, now
    assert total(now["module"], "maps") == total(before["module"], "maps") + 2, (before, now)
    os.close(file)
    now, = top()
    assert process(now, os.getpid()) is None, now


def check_cache():
    with subprocess.Popen([CACHE_SEEN, "used"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as seen:
        counters = json.loads(seen.stdout.readline())
        for look in top("-n", "2", "-d", "0.1"):
            row = process(look, seen.pid)
            assert total(row, "cache_gets") == counters["gets"] > 0, (row, counters)
            assert total(row, "cache_hits") == counters["hits"], (row, counters)
        assert row["counters"]["cache_gets"]["change"] == 0, row
        seen.communicate()


def check_metrics():
    """`peerdma metrics` reads every source here, and has top's numbers."""
    text = subprocess.run([PEERDMA, "metrics"], stdout=subprocess.PIPE, text=True, check=True).stdout
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    look, = top()
    for source in "accounts", "caches", "doctor", "gpus", "module", "pins":
        assert samples[f'peerdma_source_readable{{source="{source}"}}'] == "1", text
    assert samples['peerdma_operations_total{operation="map"}'] == str(total(look["module"], "maps")), text
    assert samples["peerdma_revocations_total"] == str(total(look["module"], "revocations")), text
    gpu = f'{{gpu="0",pci="{look["gpus"][0]["pci"]}"}}'
    assert samples["peerdma_gpu_bar1_size_bytes" + gpu] == str(look["gpus"][0]["bar1_total"]), text
    assert samples["peerdma_gpu_aperture_held_bytes" + gpu] == "0", text
    assert int(samples['peerdma_user_objects_limit{resource="pins"}']) > 0, text


FREES = """
import ctypes, sys
lib = ctypes.CDLL(None)         # with libpeerdma and libcuda, preloaded
context, memory, peerdma, region = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
assert not lib.cuInit(0) and not lib.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert not lib.cuCtxSetCurrent(context)
for pins in 1, 2:
    assert not lib.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(65536))
    assert not lib.peerdma_open(ctypes.byref(peerdma), 0)
    for _ in range(pins):
        assert not lib.peerdma_pin(peerdma, ctypes.c_void_p(memory.value), ctypes.c_size_t(65536), 0, None, ctypes.byref(region))
    assert not lib.cuMemFree_v2(memory)
    lib.peerdma_close(peerdma)
print("done", flush=True)
sys.stdin.read()
"""


def check_revocations():
    """Memory freed under three pins of two contexts: counted still when pins and contexts are gone, and as long as the process is there."""
    preload = os.path.dirname(PEERDMA) + "/../lib/libpeerdma.so.0:libcuda.so.1"
    with subprocess.Popen([sys.executable, "-c", FREES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "LD_PRELOAD": preload}) as frees:
        assert frees.stdout.readline() == "done\n"
        row = process(top()[0], frees.pid)
        assert total(row, "revocations") == 3 and row["pins"] == 0, row
        frees.communicate()
    assert process(top()[0], frees.pid) is None


check_card()
check_cache()
check_metrics()
check_revocations()
