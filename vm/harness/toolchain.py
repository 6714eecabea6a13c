# SPDX-License-Identifier: MIT
"""Programs of a newer Debian, which want a newer C library than this machine has.

Unpacked beside their libraries, each is put behind a script of its name that starts it by the loader that came with
them. So they run anywhere, for any user, without namespaces, and the folder may be moved.
"""

import glob
import os

LOADER = "usr/lib64/ld-linux-x86-64.so.2"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# Where programs are that builds start; libexec has the compiler's own.
PLACES = ["usr/bin/*", "usr/libexec/gcc/*/*/*", "usr/lib/linux-kbuild-*/**/*"]

# PATH: the compiler looks there for the assembler.
SCRIPT = """\
#!/bin/sh
here=${{0%/*}}
PATH=$here/{up}/usr/bin:$PATH exec $here/{up}/{loader} --library-path $here/{up}/{libraries} \\
\t--argv0 "$0" "$here/.{name}" "$@"
"""


def _is_program(path):
    if os.path.islink(path) or not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def wrap(root):
    for place in PLACES:
        for path in glob.glob(os.path.join(root, place), recursive=True):
            if ".so" in os.path.basename(path) or not _is_program(path):
                continue
            folder, name = os.path.split(path)
            os.rename(path, os.path.join(folder, "." + name))
            with open(path, "w") as script:
                script.write(SCRIPT.format(up=os.path.relpath(root, folder), loader=LOADER, libraries=LIBRARIES,
                                           name=name))
            os.chmod(path, 0o755)
