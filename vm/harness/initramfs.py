# SPDX-License-Identifier: MIT
"""The first file system of the guest: vm/init and the modules that reach the rest."""

import glob
import hashlib
import lzma
import os

from .errors import HarnessError
from .foreign import find, triplet
from .kernel import arch
from .paths import CACHE, VM, call, locked, tool

# The way to the host: the bus, the ports, the root file system and its writable layer.
NEEDED = ["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"]
# With network adapters; and what rdma_rxe wants and does not ask for, where it is a module.
NETWORK = ["virtio_net"]
WANTED = ["crc32_generic"]


def build(kernel, network=False):
    """The path of the initramfs for this kernel, made when something changed."""
    with locked(CACHE):
        init = _compile(arch(kernel.image))
        modules = []
        if kernel.modules:
            modules = _in_order(kernel.modules, NEEDED + NETWORK * network, WANTED * network)
        key = hashlib.sha256(init.encode())
        for path in modules:
            state = os.stat(path)
            key.update(f"{path} {state.st_mtime_ns} {state.st_size}\n".encode())
        image = os.path.join(CACHE, f"initramfs-{key.hexdigest()[:16]}.cpio")
        if not os.path.exists(image):
            _write(image, init, modules)
        return image


def _compile(foreign):
    """The path of PID 1, which its source is part of: trees that share build/cache each have theirs."""
    files = sorted(glob.glob(os.path.join(VM, "init/*")))
    key = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            key.update(file.read())
    program = os.path.join(CACHE, f"init-{foreign + '-' if foreign else ''}{key.hexdigest()[:16]}")
    if not os.path.exists(program):
        compiler = [tool("cc", "process")]
        if foreign:     # with the C library that was fetched: a cross compiler can be installed without one
            compiler = [tool(triplet(foreign) + "-gcc", foreign), "--sysroot=" + find(foreign)]
        call(*compiler, "-std=gnu11", "-Os", "-static", "-Wall", "-Wextra", "-Werror",
             "-o", program + ".new", *(path for path in files if path.endswith(".c")))
        os.rename(program + ".new", program)
    return program


def _module_name(path):
    return os.path.basename(path).split(".ko")[0].replace("-", "_")


def _in_order(folder, names, optional=()):
    """The files of these modules and of what they depend on, dependencies first."""
    depends, builtin = {}, set()
    with open(os.path.join(folder, "modules.dep")) as lines:
        for line in lines:
            path, rest = line.strip().split(":", 1)
            depends[_module_name(path)] = [path] + rest.split()
    try:
        with open(os.path.join(folder, "modules.builtin")) as lines:
            builtin = {_module_name(line.strip()) for line in lines}
    except FileNotFoundError:
        pass
    order = []
    for name in [*names, *optional]:
        if name not in depends:
            if name in builtin or name in optional:
                continue
            raise HarnessError(f"the kernel in {folder} has no module {name}, which the guest needs")
        # modules.dep lists the nearest dependency first.
        for path in reversed(depends[name]):
            full = os.path.join(folder, path)
            if full not in order:
                order.append(full)
    return order


def _contents(path):
    if path.endswith(".xz"):
        with lzma.open(path) as file:
            return file.read()
    if path.endswith((".zst", ".gz")):
        raise HarnessError(f"{path}: only plain and xz-compressed modules can go into the initramfs")
    with open(path, "rb") as file:
        return file.read()


def _entry(name, mode, data=b"", device=(0, 0)):
    """One file in the "newc" cpio format, which the kernel unpacks."""
    fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, device[0], device[1], len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return b"".join(part + b"\0" * (-len(part) % 4) for part in (head, data))


def _write(image, init, modules):
    folder, program, console = 0o040755, 0o100755, 0o020600
    parts = [_entry(name, folder) for name in ("dev", "modules")]
    parts.append(_entry("dev/console", console, device=(5, 1)))
    parts.append(_entry("init", program, _contents(init)))
    for number, path in enumerate(modules):
        parts.append(_entry(f"modules/{number:02}-{_module_name(path)}.ko", program, _contents(path)))
    parts.append(_entry("TRAILER!!!", 0))
    with open(image + ".new", "wb") as file:
        file.writelines(parts)
    os.rename(image + ".new", image)
