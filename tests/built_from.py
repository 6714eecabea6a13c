# SPDX-License-Identifier: MIT
"""tests/run --of FILE...: the tests of what is built from a source.

A test of Meson's counts if one of its programs, or a library that it links, is made
of the file; a script of tests/vm if it loads a module that is, or runs such a
program. Reads what was built last: make user, vm/build-modules 6.1.
"""

import glob
import json
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
USER = os.path.join(TOP, "build/user")
OBJECTS = os.path.join(TOP, "build/modules/6.1/obj")


def inputs(targets):
    """The sources that targets of build/user are made of."""
    made = subprocess.run(["ninja", "-C", USER, "-t", "inputs", *targets], capture_output=True, text=True, check=False)
    return {os.path.relpath(os.path.join(USER, line), TOP) for line in made.stdout.splitlines()}


def headers():
    """By header: the sources that include it, as the compiler said."""
    said = subprocess.run(["ninja", "-C", USER, "-t", "deps"], capture_output=True, text=True, check=False).stdout
    found = {}
    for block in said.split("\n\n"):
        lines = [os.path.relpath(os.path.join(USER, line.strip()), TOP) for line in block.splitlines()[1:]]
        for line in lines[1:]:
            found.setdefault(line, set()).add(lines[0])
    for path in glob.glob(OBJECTS + "/**/.*.o.cmd", recursive=True):
        source = os.path.relpath(os.path.join(os.path.dirname(path), os.path.basename(path)[1:-6] + ".c"), OBJECTS)
        with open(path) as f:
            used = re.findall(r"^\s+(\S+\.h) \\$", f.read(), re.M)
        for header in used:
            # As the kernel's build names it, from a folder of its own.
            name = os.path.normpath(re.sub(r"^(\.\./)+", "", header))
            if os.path.exists(os.path.join(TOP, name)):
                found.setdefault(name, set()).add(source)
    return found


def modules():
    """By module: its sources."""
    found = {}
    for path in glob.glob(OBJECTS + "/**/*.mod", recursive=True):
        with open(path) as f:
            parts = f.read().split()
        folder = os.path.relpath(os.path.dirname(path), OBJECTS)
        found[os.path.basename(path)[:-4]] = {
            os.path.normpath(part[:-2] + ".c" if "/obj/" not in part else os.path.relpath(part, OBJECTS)[:-2] + ".c")
            if part.startswith(("/", folder)) else os.path.normpath(os.path.join(folder, part[:-2] + ".c")) for part in parts}
    return found


def loaded(text, known):
    """The modules that a script of tests/vm names, and those of lib.sh where it names none."""
    named = {m for m in known if re.search(rf"\b{m}(\.ko)?\b", text)}
    if re.search(r"^\s*load_modules\s*$", text, re.M):
        named |= {"softgpu", "nvidia", "peerdma", "peerdma_nvidia", "peerdma_fpga"} & known
    return named


def meson_tests(sources):
    listed = json.loads(subprocess.check_output(["meson", "introspect", "--tests", USER]))
    for test in listed:
        programs = [os.path.relpath(word, USER) for word in test["cmd"] if word.startswith(USER + "/")]
        if programs and inputs(programs) & sources:
            yield "meson/" + test["name"].split(" / ")[-1]


def machine_tests(sources):
    made = modules()
    guilty = {module for module, parts in made.items() if parts & sources}
    for path in sorted(glob.glob(os.path.join(TOP, "tests/vm/*.sh"))):
        with open(path) as f:
            text = f.read()
        programs = [p for p in re.findall(r"\$BUILD/([\w/.-]+)", text) if os.path.exists(os.path.join(USER, p))]
        if os.path.basename(path) != "lib.sh" and (loaded(text, set(made)) & guilty or
                                                   (programs and inputs(programs) & sources)):
            yield "vm/" + os.path.basename(path)[:-3]


def main(files):
    files = [os.path.relpath(os.path.abspath(file), TOP) for file in files]
    missing = [file for file in files if not os.path.exists(os.path.join(TOP, file))]
    if missing:
        sys.exit(f"tests/run: there is no {missing[0]}")
    if not os.path.exists(os.path.join(USER, "build.ninja")) or not os.path.isdir(OBJECTS):
        sys.exit("tests/run: --of reads what was built: make user && vm/build-modules 6.1")
    included = headers()
    sources = set(files).union(*(included.get(file, set()) for file in files))
    found = sorted({*meson_tests(sources), *machine_tests(sources)})
    print("\n".join(found) if found else f"no test is built from {', '.join(files)}")
    return 0 if found else 1
