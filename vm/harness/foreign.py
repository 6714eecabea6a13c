# SPDX-License-Identifier: MIT
"""Debian of another architecture, unpacked below build/cache/ARCH/root.

Cross compilers find headers and libraries there, qemu-user finds the loader, and a guest of that architecture has it
for its own programs. Nothing in it was configured: it is files.
"""

import glob
import os
import shutil
import subprocess
import sys

from .apt import Apt, folder
from .paths import call, locked, tool

# To build with (what vm/deps.sh names for "user"), and to run tests with in a guest.
PACKAGES = ["libc6-dev", "libgcc-12-dev", "libjson-c-dev", "nettle-dev", "zlib1g-dev", "liburing-dev", "libcmocka-dev",
            "libibverbs-dev", "dash", "bash", "coreutils", "diffutils", "findutils", "grep", "sed", "mawk", "gzip", "procps",
            "util-linux",
            "mount", "kmod", "pciutils", "iproute2", "python3-minimal", "libpython3-stdlib"]
# Debian 12's folders that are links, and what programs' own installation would have made.
CPUS = {"arm64": "aarch64"}     # as GNU and QEMU call it
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "usr/bin/awk": "mawk"}


def triplet(arch):
    return CPUS[arch] + "-linux-gnu"


def find(arch):
    """The folder, filled on first use and then kept."""
    place = os.path.join(folder(arch), "root")
    note = place + ".packages"
    apt = Apt(arch)
    with locked(folder(arch)):
        wanted = " ".join(PACKAGES)
        if os.path.exists(note):
            with open(note) as file:
                if file.readline().strip() == wanted:
                    return place
        packages = apt.with_needs(PACKAGES)
        _fill(apt, place, packages)
        with open(note, "w") as file:
            file.write("\n".join([wanted, *packages]) + "\n")
    return place


def _fill(apt, place, packages):
    print(f"fetching {len(packages)} packages of Debian for {apt.arch}, about 100 MB; kept in build/cache/{apt.arch}",
          file=sys.stderr)
    debs, work = place + ".debs", place + ".new"
    for path in (debs, work):
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
    apt.download(packages, debs)
    for name, target in LINKS.items():
        os.makedirs(os.path.dirname(os.path.join(work, name)), exist_ok=True)
        os.makedirs(os.path.join(work, target if "/" not in name else "."), exist_ok=True)
        os.symlink(target, os.path.join(work, name))
    for deb in sorted(glob.glob(os.path.join(debs, "*.deb"))):
        # Not "dpkg-deb -x": /lib stays a link. What is owned by others here is owned by us.
        with subprocess.Popen([tool("dpkg-deb", "vm"), "--fsys-tarfile", deb], stdout=subprocess.PIPE) as archive:
            call(tool("tar", "vm"), "-x", "-C", work, "--keep-directory-symlink", "--no-same-owner",
                 "--no-same-permissions", "--delay-directory-restore", stdin=archive.stdout)
    shutil.rmtree(debs)
    os.chmod(os.path.join(work, "tmp"), 0o1777)
    shutil.rmtree(os.path.join(work, "usr/share/doc"), ignore_errors=True)
    shutil.rmtree(place, ignore_errors=True)
    os.rename(work, place)


# For Meson, which wants whole paths. The compiler's own paths come after the sysroot's.
MESON = """\
[constants]
root = '{root}'

[binaries]
c = ['{triplet}-gcc', '--sysroot=' + root]
ar = '{triplet}-ar'
strip = '{triplet}-strip'
objcopy = '{triplet}-objcopy'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-{cpu}-static', '-L', root]

[properties]
sys_root = root
pkg_config_libdir = [root + '/usr/lib/{triplet}/pkgconfig', root + '/usr/share/pkgconfig']

[host_machine]
system = 'linux'
cpu_family = '{cpu}'
cpu = '{cpu}'
endian = 'little'
"""


def meson_cross_file(arch):
    """Its path: for "meson setup --cross-file"."""
    root = find(arch)
    path = os.path.join(folder(arch), "meson.cross")
    text = MESON.format(root=root, cpu=CPUS[arch], triplet=triplet(arch))
    with locked(folder(arch)):
        with open(path, "w") as file:
            file.write(text)
    return path


def refresh(arch):
    """Follow security updates: the lists anew, and the packages when next wanted."""
    Apt(arch).update()
    note = os.path.join(folder(arch), "root.packages")
    if os.path.exists(note):
        os.unlink(note)
