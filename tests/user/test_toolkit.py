#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares our headers with those of an NVIDIA CUDA toolkit, when one is there.

usage: test_toolkit.py INCLUDE-DIR COMPILER

Each enumerator and constant that both sides have must have one value, and each
struct that both have one size and the same fields at the same offsets.  The
toolkit is CUDA_HOME's, or the one in its usual place.
"""

import os
import re
import subprocess
import sys
import tempfile

ours, compiler = sys.argv[1:3]
theirs = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include")
if not os.path.exists(f"{theirs}/cuda.h"):
    print(f"SKIP: no CUDA toolkit: {theirs}/cuda.h is not there")
    sys.exit(77)

# What says which release it is, or grows with each.
CHANGED = {"CU_DEVICE_ATTRIBUTE_MAX", "CUDA_VERSION", "CUDART_VERSION"}
# Our headers are those of CUDA 13 unless a program asks for 12.
major = int(re.search(r"^#define CUDA_VERSION (\d+)", open(f"{theirs}/cuda.h").read(), flags=re.M).group(1)) // 1000
compiler += "" if major >= 13 else " -DSOFTGPU_CUDA_VERSION=12090"


def strip(path):
    text = open(path).read()
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    return text


def words(directory, headers):
    return set(re.findall(r"\w+", " ".join(strip(f"{directory}/{h}") for h in headers)))


def values(directory, expressions, include):
    with tempfile.TemporaryDirectory() as tmp:
        source = f'#include <stddef.h>\n#include <stdio.h>\n#include "{include}"\nint main(void)\n{{\n'
        source += "".join(f'printf("%s %lld\\n", "{e}", (long long)({e}));\n' for e in expressions)
        open(f"{tmp}/a.c", "w").write(source + "return 0;\n}\n")
        subprocess.run([*compiler.split(), "-w", "-I", directory, f"{tmp}/a.c", "-o", f"{tmp}/a"], check=True)
        out = subprocess.run([f"{tmp}/a"], check=True, capture_output=True, text=True).stdout
    return dict(line.rsplit(" ", 1) for line in out.splitlines())


failed = compared = 0
for include, headers in (("cuda.h", ["cuda.h"]), ("cuda_runtime_api.h", ["driver_types.h"])):
    text = "".join(strip(f"{ours}/{h}") for h in headers)
    known = words(theirs, headers)
    names = set()
    for body in re.findall(r"enum \w+ \{(.*?)\}", text, flags=re.S):
        names |= set(re.findall(r"(?:^|,)\s*(\w+)", body))
    names |= set(re.findall(r"^#define ((?:CU|cuda)_?[A-Z]\w+)\s+\(?\(?(?:0x|\d|CU)", text, flags=re.M))
    names = {n for n in names if n in known and n not in CHANGED}
    for struct, body in re.findall(r"struct (\w+) \{\n(.*?)\n\}", text, flags=re.S):
        if struct in CHANGED or struct not in known:
            continue
        names.add(f"sizeof(struct {struct})")
        body = re.sub(r"SOFTGPU_CUDA_12\((.*?)\)", "" if major >= 13 else r"\1", body)
        body = re.sub(r"#if SOFTGPU_CUDA_VERSION >= 13000(.*?)(?:#else(.*?))?#endif",
                      lambda m: m.group(1) if major >= 13 else m.group(2) or "", body, flags=re.S)
        body = re.sub(r"struct \{.*?\} (\w+);", r"int \1;", body, flags=re.S)
        for field in re.findall(r"(\w+)(?:\[\w+\])?;", body):
            names.add(f"offsetof(struct {struct}, {field})")
    names = sorted(names)
    a, b = values(ours, names, include), values(theirs, names, include)
    for name in names:
        compared += 1
        if a[name] != b[name]:
            failed += 1
            print(f"FAIL: {name} is {a[name]} here, {b[name]} there")

print(f"{compared} values and layouts compared with {theirs}")
if compared < 400:
    print("FAIL: so few cannot be right")
    failed += 1
sys.exit(1 if failed else 0)
