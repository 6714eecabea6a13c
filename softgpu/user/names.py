#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes docs/softgpu-names.md: which functions of NVIDIA's libraries work on the software GPU.

usage: softgpu/user/names.py LIBRARY-DIR > docs/softgpu-names.md

It asks the libraries themselves: what they do not implement are weak symbols (common/weak.h).
"""

import re
import subprocess
import sys
import textwrap

LIBRARIES = [
    ("libcuda.so.1", "the driver API", "the driver of release 580, and what CUDA's documents name up to 13.3",
     "CUDA_ERROR_NOT_SUPPORTED", r"cu[A-Z]"),
    ("libcudart.so.13", "the runtime API", "libcudart 13.0 (libcudart.so.12 has the same, with CUDA 12's arguments)",
     "cudaErrorNotSupported", r"(?:__)?cuda[A-Z]"),
    ("libnvidia-ml.so.1", "NVML", "the library of release 580", "NVML_ERROR_NOT_SUPPORTED", r"nvml[A-Z]"),
]

HEAD = """\
# Functions of NVIDIA's libraries on the software GPU

This page is for developers who want to know whether a function that their program calls does something on softgpu. Every
function that NVIDIA's libraries export can be linked and looked up. Those that softgpu does not implement return the library's
error for "not supported" and do nothing else; with `SOFTGPU_LOG=1` the first call of each says so on stderr. What a function
that works does differently from NVIDIA's is on the page [CUDA on a software GPU](softgpu-cuda.md#what-differs-from-nvidias).

The page is made from the libraries: `softgpu/user/names.py build/user/softgpu/user > docs/softgpu-names.md`. A test fails when
it is older than they are. The forms for per-thread default streams (`_ptsz`, `_ptds`) are left out: they exist for each
function below that has one.
"""


def symbols(path, pattern):
    """The exported names that begin like the library's own: those that work, and the weak ones."""
    out = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    works, lacks = set(), set()
    for line in out.splitlines():
        kind, name = line.split()[-2:]
        name = name.split("@")[0]
        if kind in "TW" and re.match(pattern, name) and not re.search("_pt(ds|sz)$", name):
            (works if kind == "T" else lacks).add(name)
    return sorted(works), sorted(lacks)


def listed(names):
    return "\n".join(textwrap.wrap(", ".join(f"`{n}`" for n in names), 128, break_long_words=False, break_on_hyphens=False))


print(HEAD)
for library, what, source, error, pattern in LIBRARIES:
    works, lacks = symbols(f"{sys.argv[1]}/{library}", pattern)
    print(f"## {library}: {what}\n")
    print("\n".join(textwrap.wrap(f"The names are those of {source}. {len(works)} functions work; {len(lacks)} return {error}.", 128)))
    print(f"\n### They work\n\n{listed(works)}\n\n### They return {error}\n\n{listed(lacks)}\n")
