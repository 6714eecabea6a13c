#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a library exports is what its headers declare, each with a version; dlopen() can load it, dlclose() leaves it.

usage: test_symbols.py VERSION SONAME LIBRARY HEADER...

libpeerdma exports nothing else; libpeerdma-hooks also has functions of others' names, without a version."""

import re
import subprocess
import sys


def declarations(header):
    """The functions of a header that are not inline."""
    with open(header, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    inline = set(re.findall(r"static inline [^(]*?\b(peerdma_\w+)\(", text))
    return set(re.findall(r"\b(peerdma_\w+)\(", text)) - inline


def main(version_wanted, soname, library, *headers):
    declared = set().union(*map(declarations, headers))
    out = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library],
                         check=True, capture_output=True, text=True).stdout
    exported = {}
    for line in out.splitlines():
        name, _, version = line.split()[-1].partition("@@")
        if version:
            exported[name] = version
        elif name != version_wanted:
            exported[name] = "(no version)"
    failed = False
    in_front = {name for name in exported if not name.startswith("peerdma_")}
    for name in sorted(in_front):
        if soname == "libpeerdma.so.0" or exported[name] != "(no version)":
            print(f"{name}: exported, {exported[name]}")
            failed = True
    for name in sorted(declared | set(exported) - in_front):
        if name not in exported:
            print(f"{name}: declared in the header, not exported")
        elif name not in declared:
            print(f"{name}: exported, not declared in the header")
        elif exported[name] != version_wanted:
            print(f"{name}: version {exported[name]}, not {version_wanted}")
        else:
            continue
        failed = True
    out = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    if f"[{soname}]" not in out:
        print(f"SONAME is not {soname}")
        failed = True
    if "NODELETE" not in out:
        print("dlclose() would unload it")
        failed = True
    if "libcuda" in out or "libnvidia" in out:
        print("linked against a vendor's library")
        failed = True
    # Of what glibc keeps for threads' variables of libraries that dlopen() brings, 512 bytes are for all that come.
    out = subprocess.run(["readelf", "-lW", library], check=True, capture_output=True, text=True).stdout
    threads = [int(line.split()[5], 16) for line in out.splitlines() if line.split()[:1] == ["TLS"]]
    if sum(threads) > 128:
        print(f"{sum(threads)} bytes of each thread's: dlopen() may have no room for them")
        failed = True
    print(f"{len(exported)} symbols, {len(declared)} declarations")
    return 1 if failed or not declared else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
