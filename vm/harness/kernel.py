# SPDX-License-Identifier: MIT
"""Debian's kernels, as files: an image, its modules and its headers of one version.

Installing Debian's image packages would change what the user's machine boots
(and the 6.12 headers depend on an image), so packages are downloaded with
"apt-get download" and unpacked below build/cache/kernel/, which needs no root.
Package names are resolved through apt: the ABI number in them changes with
every security update.
"""

import glob
import json
import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
from collections import namedtuple

from . import toolchain
from .apt import Apt, arch_of, native
from .errors import HarnessError
from .paths import BUILD, KERNELS, call, locked, tool

# Debian 12's own kernel, and the newer one it offers: under a name of its own
# in the security archive, as another version of the usual one in backports.
# The same for arm64, for a guest of that kind; there also with pages of 16 KiB.
META = {"6.1": ["linux-image-amd64"], "6.12": ["linux-image-6.12-amd64", "linux-image-amd64"],
        "6.1-arm64": ["linux-image-arm64"], "6.12-arm64": ["linux-image-6.12-arm64", "linux-image-arm64"],
        "6.12-arm64-16k": ["linux-image-6.12-arm64-16k", "linux-image-arm64-16k"],
        "7.2": []}
# A newer Debian's backports have every kernel that they ever had, but their meta-package names only the newest. Its
# programs and compiler want a newer C library than there is here: toolchain.py.
NEWER = {"7.2": "trixie"}
# Not fetched but built, by vm/build-debug-kernel, from Debian's source of a series.
DEBUG = {"debug": "6.1", "debug-7.2": "7.2"}

Kernel = namedtuple("Kernel", "release image modules headers version")
"""release: uname -r; modules: lib/modules/<release>, or None when the image needs none;
headers: the folder to build modules against, or None; version: Debian's."""

ARM64_MAGIC = b"ARM\x64"     # in its header: the kernel's Documentation/arch/arm64/booting.rst


def arch(image):
    """The foreign architecture that an image is for, or None."""
    with open(image, "rb") as file:
        return "arm64" if file.read(60)[56:] == ARM64_MAGIC else None


HOW_TO_KNOW = {
    "6.1": "make sure that /etc/apt names bookworm main, then: sudo apt-get update",
    "6.12": "it is in Debian 12's security archive; make sure that /etc/apt names the suite bookworm-security with main,\n"
            "  then: sudo apt-get update",
    "7.2": "it is in Debian 13's backports (trixie-backports), which are asked for at the archive that /etc/apt names for\n"
           "  Debian 12; what apt said of it is above",
}


def _apt(series):
    return Apt(arch_of(series), NEWER.get(series))


def known_to_apt(series):
    """The image's package and version, or None when apt has no such kernel."""
    apt = _apt(series)
    found = [(int(match[1]), match[0]) for name in (apt.names(f"linux-image-{series}.") if series in NEWER else ())
             if (match := re.fullmatch(rf"linux-image-{re.escape(series)}\.(\d+)\+deb\d+-amd64", name))]
    if found:
        name = max(found)[1]
        return name, apt.show(name)[0]["Version"]
    for meta in META[series]:
        for fields in apt.show(meta):
            match = re.match(r"(linux-image-(\S+)) \(= (\S+)\)", fields.get("Depends", ""))
            if match and match[2].startswith(series.split("-")[0] + "."):
                return match[1], match[3]
    return None


def find(series):
    """The kernel of a series, downloaded on first use and then kept."""
    if series not in META and series not in DEBUG:
        raise HarnessError(f"no kernel '{series}': give {', '.join([*META, *DEBUG])}, or an image file with --modules-dir")
    if series in DEBUG and not _read(series):
        raise HarnessError(f"there is no {series} kernel yet; make it, in some 6 minutes, with: {how_to_build(series)}")
    with locked(KERNELS):
        kernel = _read(series)
        if not kernel:
            kernel = _fetch(series)
        _link_headers(kernel)
        return kernel


def how_to_build(name):
    return f"make debug-kernel KVER={DEBUG[name]}"


def cached(series):
    """The same without any work: None when it is not there yet."""
    return _read(series)


def from_files(image, modules):
    """A kernel of the user's own. Without a modules folder everything is built in."""
    if not os.path.isfile(image):
        raise HarnessError(f"no kernel image {image}")
    if not modules:
        return Kernel(None, os.path.abspath(image), None, None, None)
    modules = os.path.realpath(modules)
    if not os.path.exists(os.path.join(modules, "modules.dep")):
        below = glob.glob(os.path.join(modules, "lib/modules/*/modules.dep"))
        if len(below) != 1:
            raise HarnessError(f"{modules} has no modules.dep: give lib/modules/<release>, after depmod")
        modules = os.path.dirname(below[0])
    return Kernel(os.path.basename(modules), os.path.abspath(image), modules, None, None)


def _note(series):
    return os.path.join(KERNELS, series, "kernel.json")


def _read(series):
    try:
        with open(_note(series)) as note:
            names = json.load(note)
    except FileNotFoundError:
        return None
    root = os.path.join(KERNELS, series)
    image = os.path.join(root, "boot/vmlinux-" + names["release"])
    if not os.path.exists(image):
        image = os.path.join(root, "boot/vmlinuz-" + names["release"])
    return Kernel(names["release"], image,
                  os.path.join(root, "lib/modules", names["release"]),
                  os.path.join(root, "usr/src/linux-headers-" + names["release"]), names["version"])


def _packages(series):
    """The image, and the headers with what they need, all of one version."""
    image = known_to_apt(series)
    if not image:
        names = " or ".join(META[series]) or f"linux-image-{series}.*"
        raise HarnessError(f"apt knows no package {names} with a Linux {series};\n"
                           f"  {HOW_TO_KNOW[series.split('-')[0]]}")
    name, version = image
    release = name[len("linux-image-"):]
    headers = f"linux-headers-{release}"
    apt = _apt(series)
    versions = apt.show(f"{headers}={version}")
    if not versions:
        raise HarnessError(f"apt has {name} {version} but not {headers} of the same version; run: sudo apt-get update")
    needed = re.findall(r"(linux-(?:headers|kbuild)-[^\s,|]+)", versions[0]["Depends"])
    # Kbuild's own programs run here, whatever they build for.
    pinned = [f"{n}={version}" if n.startswith("linux-headers-") else f"{n}:{native()}"
              for n in needed]
    if series in NEWER:     # the image is in three packages, and what they all have is in one more
        pinned += [f"linux-{part}-{release}={version}" for part in ("base", "binary", "modules")]
        compiler = re.search(r"gcc-\d+", versions[0]["Depends"])[0]
        # Makefiles of others call the compiler gcc, a name that only that package has.
        pinned += apt.with_needs([compiler, "gcc", "libelf1t64", "zlib1g"])
    return release, version, [f"{name}={version}", f"{headers}={version}"] + pinned


def _fetch(series):
    release, version, packages = _packages(series)
    place = os.path.join(KERNELS, series)
    work = place + ".new"
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    print(f"fetching Linux {release} ({version}) and its headers, about {250 if series in NEWER else 100} MB; "
          "kept in build/cache/kernel", file=sys.stderr)
    _apt(series).download(packages, work)
    for deb in sorted(glob.glob(os.path.join(work, "*.deb"))):
        print(f"unpacking {os.path.basename(deb)}", file=sys.stderr)
        call(tool("dpkg-deb", "vm"), "-x", deb, work)
        os.unlink(deb)
    headers = os.path.join(work, "usr/src/linux-headers-" + release)
    if series in NEWER:
        _as_ever(work, release)
        toolchain.wrap(work)
        # Its compiler and linker by their own path, which moves with the folder.
        _edit(os.path.join(headers, ".kernelvariables"), r"override CROSS_COMPILE = ",
              "override CROSS_COMPILE := $(abspath $(dir $(lastword $(MAKEFILE_LIST)))../../bin)/")
    call(tool("depmod", "vm"), "-b", work, release)
    # Debian's headers include each other by absolute path.
    _edit(os.path.join(headers, "Makefile"), "/usr/src/", "$(abspath $(dir $(lastword $(MAKEFILE_LIST)))..)/")
    if not arch_of(series):
        _unpack_image(os.path.join(work, "boot/vmlinuz-" + release), os.path.join(work, "boot/vmlinux-" + release))
    shutil.rmtree(place, ignore_errors=True)
    os.rename(work, place)
    with open(_note(series), "w") as note:
        json.dump({"release": release, "version": version}, note)
    return _read(series)


def source_of(series):
    """Whose source a kernel was built from: without the architecture and what else its name has behind."""
    return DEBUG.get(series, series).split("-")[0]


def fetch_source(series, place, only=None):
    """Debian's source of a series, into a folder that is new; its version. only: a folder of it, and nothing else."""
    package = f"linux-source-{series}"
    apt = _apt(series)
    known = apt.show(package)
    if not known:
        raise HarnessError(f"apt knows no package {package};\n  {HOW_TO_KNOW[series]}")
    # That of the kernel that is here, if apt still has it.
    here = _read(series)
    version = here.version if here and any(k["Version"] == here.version for k in known) else known[0]["Version"]
    work = place + ".package"
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    print(f"fetching {package}, {int(known[0]['Size']) // 10**6} MB", file=sys.stderr)
    apt.download([f"{package}={version}"], work)
    deb, = glob.glob(os.path.join(work, "*.deb"))
    call(tool("dpkg-deb", "vm"), "-x", deb, work)
    os.makedirs(place)
    inside = f"{package}/{only}" if only else package
    call(tool("tar", "vm"), "-xf", os.path.join(work, f"usr/src/{package}.tar.xz"), "-C", place,
         "--strip-components", str(len(inside.split("/"))), inside)
    shutil.rmtree(work)
    return version


def fetch_part(series, part):
    """A folder of a kernel's source, such as drivers/infiniband/sw/rxe; kept in build/cache/source."""
    series = source_of(series)
    place = os.path.join(BUILD, "cache/source", series, part)
    with locked(os.path.join(BUILD, "cache/source")):
        if not os.path.exists(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            shutil.rmtree(place + ".new", ignore_errors=True)
            fetch_source(series, place + ".new", part)
            os.rename(place + ".new", place)
    return place


def _edit(path, pattern, text):
    with open(path) as old:
        edited = re.sub(pattern, lambda _: text, old.read())
    with open(path, "w") as new:
        new.write(edited)


def _as_ever(root, release):
    """Files where older packages have them: /lib is no longer a folder, and the image is with its modules."""
    os.symlink("usr/lib", os.path.join(root, "lib"))
    os.makedirs(os.path.join(root, "boot"))
    os.symlink(f"../lib/modules/{release}/vmlinuz", os.path.join(root, "boot/vmlinuz-" + release))


def _unpack_image(packed, plain):
    """Saves an emulated guest the seconds of unpacking itself; QEMU boots the plain file too.

    Where the packed kernel lies in the file: the kernel's Documentation/arch/x86/boot.rst. It is left as it is where it is
    packed in another way than Debian's.
    """
    with open(packed, "rb") as file:
        data = file.read()
    start = ((data[0x1f1] or 4) + 1) * 512 + struct.unpack_from("<I", data, 0x248)[0]
    payload = data[start:start + struct.unpack_from("<I", data, 0x24c)[0]]
    image = None
    if payload[:6] == b"\xfd7zXZ\0":
        image = lzma.LZMADecompressor(format=lzma.FORMAT_XZ).decompress(payload)
    elif payload[:4] == b"\x28\xb5\x2f\xfd":
        # Behind it is its size, which the kernel's own build adds.
        image = subprocess.run([tool("zstd", "vm"), "-dcq"], input=payload[:-4], stdout=subprocess.PIPE, check=True).stdout
    if image:
        with open(plain, "wb") as file:
            file.write(image)


def ticks_per_second(kernel):
    """CONFIG_HZ of a kernel that was fetched or built here; None of another."""
    if not kernel.headers:
        return None
    with open(os.path.join(kernel.headers, ".config")) as config:
        return int(re.search(r"^CONFIG_HZ=(\d+)$", config.read(), re.MULTILINE)[1])


def _link_headers(kernel):
    """lib/modules/<release>/build, where other people's Makefiles look, in the guest too."""
    for name in ("build", "source"):
        link = os.path.join(kernel.modules, name)
        if os.path.islink(link) and os.readlink(link) == kernel.headers:
            continue
        if os.path.lexists(link):
            os.unlink(link)
        os.symlink(kernel.headers, link)
