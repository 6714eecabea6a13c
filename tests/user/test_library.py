#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the user libraries export.

usage: test_library.py INCLUDE-DIR LIBRARY-DIR

- each function of a header is exported, and nothing that neither a header nor the list of NVIDIA's
  own functions names;
- the names that cuGetProcAddress() finds are in order, and lead to functions that are exported;
- the libraries' names are those that programs look for;
- the page of the documents that says which functions work is true.
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
    names = [line.split()[-1].split("@")[0] for line in out.splitlines() if re.search(" [TW] ", line)]
    return set(names)


def soname(library):
    out = subprocess.run(["readelf", "-d", f"{libraries}/{library}"],
                         check=True, capture_output=True, text=True).stdout
    return re.search(r"soname: \[(.*?)\]", out).group(1)


def rows(name):
    """The lines of a .def file beside the library's sources: a list of the arguments of each."""
    text = open(f"{include}/../{name}").read()
    return [[a.strip() for a in m.split(",")] for m in re.findall(r"^[A-Z]+\((.*)\)$", text, flags=re.M)]


def for_version(text, version):
    """Without the lines that `#if CUDA_VERSION < 13000` and its like leave out."""
    kept, stack = [], []
    for line in text.splitlines():
        if line.startswith("#if"):
            test = re.match(r"#if CUDA(?:RT)?_VERSION (>=|<) (\d+)$", line)
            stack.append((version >= int(test.group(2))) == (test.group(1) == ">=") if test else None)
        elif line.startswith("#else") and stack[-1] is not None:
            stack[-1] = not stack[-1]
        elif line.startswith("#endif"):
            stack.pop()
        elif all(s is not False for s in stack):
            kept.append(line)
    return "\n".join(kept)


def check(library, headers, prototype, extra, version=13030):
    text = "".join(open(f"{include}/{h}").read() for h in headers)
    text = for_version(re.sub(r"/\*.*?\*/", "", text, flags=re.S), version)
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


symbols = [row[0] for row in rows("cuda/symbols.def")]
if symbols != sorted(set(symbols)) or len(symbols) < 700:
    fail("cuda/symbols.def: not sorted, or not whole")
last = None
for name, since, symbol in rows("cuda/names.def"):
    if symbol not in symbols:
        fail(f"cuda/names.def: {symbol} is not in symbols.def")
    own = bool(re.search("_pt(ds|sz)$", symbol))
    if last and (last[0] > name or (last[0], last[2]) == (name, own) and last[1] <= int(since)):
        fail(f"cuda/names.def: {name} {since} is out of order")
    last = name, int(since), own
# cudaTypedefs.h has a type for each of these names that cuda.h declares
versions = {(row[0], row[1]) for row in rows("cuda/names.def")}
for name, since in re.findall(r"PFN_(\w+?)_v(\d+)(?:_pt(?:ds|sz))?;", open(f"{include}/cudaTypedefs.h").read()):
    if (name, since) not in versions:
        fail(f"cudaTypedefs.h: PFN_{name}_v{since} belongs to no name of cuda/names.def")
check("libcuda.so.1", ["cuda.h", "softgpu.h", "softgpu_inprocess.h"], r"(?:CUDAAPI|int|void) (cu\w+|softgpu_\w+)\(",
      symbols + ["softgpu_inprocess_transport", "softgpu_inprocess_begun", "softgpu_inprocess_core", "softgpu_inprocess_key"])
runtime = [row[0] for row in rows("runtime/symbols.def")]
if runtime != sorted(set(runtime)) or len(runtime) < 400:
    fail("runtime/symbols.def: not sorted, or not whole")
check("libcudart.so.13", ["cuda_runtime_api.h"], r"CUDARTAPI (cuda\w+)\(", runtime)
check("libcudart.so.12", ["cuda_runtime_api.h"], r"CUDARTAPI (cuda\w+)\(", runtime, 12090)
nvml = [row[0] for row in rows("nvml/symbols.def")]
if nvml != sorted(set(nvml)) or len(nvml) < 400:
    fail("nvml/symbols.def: not sorted, or not whole")
check("libnvidia-ml.so.1", ["nvml.h"], r"DECLDIR (nvml\w+)\(", nvml)
for name in "libcuda.so.1", "libcudart.so.12", "libcudart.so.13", "libnvidia-ml.so.1":
    if soname(name) != name:
        fail(f"{name}'s soname is {soname(name)}")
    if name == "libcudart.so.12":
        continue    # the link for -l is in the folder cuda-12
    if soname(re.sub(r"\.so.*", ".so", name)) != name:
        fail(f"the link for -l does not lead to {name}")

page = subprocess.run([sys.executable, f"{include}/../names.py", libraries], check=True, capture_output=True, text=True).stdout
if page.strip() != open(f"{include}/../../../docs/softgpu-names.md").read().strip():
    fail("docs/softgpu-names.md is not what softgpu/user/names.py makes of these libraries")

sys.exit(1 if failed else 0)
