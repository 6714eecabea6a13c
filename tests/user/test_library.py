#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the user libraries export, and how their functions begin.

usage: test_library.py INCLUDE-DIR LIBRARY-DIR [--optimized]

- each function of a header is exported, and nothing that no header names;
- the libraries' names are those that programs look for;
- the functions that interposers patch begin with instructions that they can
  move (only an optimized build without sanitizers is looked at).
"""

import re
import subprocess
import sys

include, libraries = sys.argv[1:3]
failed = 0


def fail(text):
    global failed
    failed += 1
    print("FAIL:", text)


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", f"{libraries}/{library}"],
                         check=True, capture_output=True, text=True).stdout
    names = [line.split()[-1].split("@")[0] for line in out.splitlines() if " T " in line]
    return set(names)


def soname(library):
    out = subprocess.run(["readelf", "-d", f"{libraries}/{library}"],
                         check=True, capture_output=True, text=True).stdout
    return re.search(r"soname: \[(.*?)\]", out).group(1)


def check(library, headers, prototype, extra):
    text = "".join(open(f"{include}/{h}").read() for h in headers)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    declared = set(re.findall(prototype, text))
    renamed = dict(re.findall(r"^#define (\w+)\s+(\w+_v\d)$", text, flags=re.M))
    for plain, versioned in renamed.items():
        if versioned not in declared:
            fail(f"{versioned} is named by a #define of {headers[0]} and declared nowhere")
    want = declared | set(renamed) | set(extra)
    have = exported(library)
    print(f"{library}: {len(have)} functions")
    if len(have) < 20:
        fail(f"{library}: {len(have)} functions cannot be right")
    for name in sorted(want - have):
        fail(f"{library}: {name} is declared and not exported")
    for name in sorted(have - want):
        fail(f"{library}: {name} is exported and not declared")


check("libcuda.so.1", ["cuda.h", "softgpu.h", "softgpu_inprocess.h"], r"(?:CUDAAPI|int|void) (cu\w+|softgpu_\w+)\(",
      ["softgpu_inprocess_transport", "softgpu_inprocess_begun", "softgpu_inprocess_core", "softgpu_inprocess_key"])
check("libcudart.so.12", ["cuda_runtime_api.h"], r"CUDARTAPI (cuda\w+)\(", [])
check("libnvidia-ml.so.1", ["nvml.h"], r"DECLDIR (nvml\w+)\(", ["nvmlDeviceGetPciInfo_v2"])
for name in "libcuda.so.1", "libcudart.so.12", "libnvidia-ml.so.1":
    if soname(name) != name:
        fail(f"{name}'s soname is {soname(name)}")
    if soname(re.sub(r"\.so.*", ".so", name)) != name:
        fail(f"the link for -l does not lead to {name}")

# The patch is a jump of 5 bytes; what it overwrites is moved elsewhere.
HOOKED = ("cuMemAlloc cuMemAlloc_v2 cuMemAllocManaged cuMemAllocPitch cuMemAllocPitch_v2 cuMemMap "
          "cuMemFree cuMemFree_v2 cuMemFreeHost cuMemUnmap").split()
MOVABLE = r"push +%\w+|mov +%rsp,%rbp|sub +\$0x[0-9a-f]+,%rsp|mov +%\w+,-?0x[0-9a-f]+\(%r[sb]p\)"
if "--optimized" in sys.argv:
    for name in HOOKED:
        out = subprocess.run(["objdump", "-d", f"--disassemble={name}", f"{libraries}/libcuda.so.1"],
                             check=True, capture_output=True, text=True).stdout
        size, seen = 0, []
        for code, text in re.findall(r"^ +[0-9a-f]+:\t([0-9a-f ]+)\t(.*)$", out, flags=re.M):
            if size >= 5:
                break
            size += len(code.split())
            seen.append(text.strip())
            if not re.fullmatch(MOVABLE, text.strip()):
                fail(f"{name} begins with {seen}")
                break
        if not seen:
            fail(f"{name} is not there to be looked at")
else:
    print("the functions' first instructions are not looked at: not an optimized build")

sys.exit(1 if failed else 0)
