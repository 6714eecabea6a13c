#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what CUDA answers here with what it answered on a real GPU.

usage: answers.py PROGRAM RECORDED [--inprocess]

PROGRAM prints a line for each call (answers.c); RECORDED has the lines of an H200 with driver 580.
The differences that are meant stand below, each with its reason. Any other, and one of these that
is gone, is a failure. On a real GPU record anew: PROGRAM > RECORDED.
"""

import re
import subprocess
import sys

# A call, or its beginning, and why the answer differs.
MEANT = {
    "cuDeviceGetAttribute(&n, same[i], 0): 101 ":
        "the CPU reaches managed memory directly here, since it never leaves the host",
}
# A GPU inside a process is nobody else's.
INPROCESS = {
    "cuMemGetHandleForAddressRange(": "no device can reach its memory, so it exports no dma-bufs",
    "cuIpcGetMemHandle(&handle": "no other process can open its memory",
}

program, recorded = sys.argv[1:3]
meant = {**MEANT, **(INPROCESS if "--inprocess" in sys.argv else {})}
ran = subprocess.run([program], capture_output=True, text=True)
if ran.returncode:
    print(f"FAIL: {program} ended with {ran.returncode}: {ran.stderr.strip()}")
    sys.exit(1)


def answers(text):
    """call -> answer; a call that is made several times has its number behind it."""
    times, found = {}, {}
    for line in text.splitlines():
        call, answer = re.match(r"(.*?): ((?:CUDA_|cuda)\w+(?: -?\d+)?|-?\d+)$|(.*)", line).group(1, 2)
        call = call or line
        times[call] = times.get(call, 0) + 1
        found[f"{call} #{times[call]}"] = answer
    return found


there, here = answers(open(recorded).read()), answers(ran.stdout)
failed, used = 0, set()
for call in list(there) + [c for c in here if c not in there]:
    a, b = there.get(call), here.get(call)
    if a == b:
        continue
    reason = next((m for m in meant if call.startswith(m)), None)
    if not reason and call.startswith("no dma-bufs here"):
        reason = "cuMemGetHandleForAddressRange("
    if reason in meant:
        used.add(reason)
        continue
    failed += 1
    print(f"FAIL: {call.rsplit(' #', 1)[0]}: {b} here, {a} there")
for gone in set(meant) - used:
    failed += 1
    print(f"FAIL: {gone} is listed as different, and is not")
print(f"{len(there)} answers compared, {len(used)} kinds of difference that are meant")
if len(there) < 800:
    failed += 1
    print("FAIL: so few cannot be right")
sys.exit(1 if failed else 0)
