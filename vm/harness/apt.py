# SPDX-License-Identifier: MIT
"""Debian's packages by name: of this machine's architecture by the apt that is set up here, and of another one, too.

For another architecture apt works on lists of its own, below build/cache/ARCH/apt: nothing is told to this machine's
dpkg, and nothing needs root. It asks the archives that /etc/apt names.
"""

import functools
import os
import re
import subprocess
import sys

from .errors import HarnessError
from .paths import BUILD, call, locked, tool

# Kernels are named as ever; those of another architecture have its name behind.
FOREIGN = ("arm64",)


def arch_of(name):
    """The foreign architecture at the end of a kernel's name, or None."""
    return next((arch for arch in FOREIGN if name.endswith("-" + arch)), None)


def folder(arch):
    return os.path.join(BUILD, "cache", arch)


@functools.lru_cache
def native():
    return call(tool("dpkg", "vm"), "--print-architecture").strip()


class Apt:
    """arch: a foreign one, or None for this machine's."""

    def __init__(self, arch=None):
        self.arch = arch
        self.env = dict(os.environ)
        if arch:
            self._set_up()

    def _set_up(self):
        state = os.path.join(folder(self.arch), "apt")
        self.env["APT_CONFIG"] = os.path.join(state, "apt.conf")
        with locked(folder(self.arch)):
            for name in ("lists/partial", "archives/partial"):
                os.makedirs(os.path.join(state, name), exist_ok=True)
            with open(self.env["APT_CONFIG"], "w") as file:
                file.write(f'APT::Architecture "{self.arch}";\n'
                           f'APT::Architectures {{ "{self.arch}"; "{native()}"; }};\n'
                           f'Dir::State "{state}";\nDir::Cache "{state}";\n'
                           f'Dir::State::status "{state}/status";\n')
            # Nothing is installed, so that all that a package needs is listed.
            with open(os.path.join(state, "status"), "w"):
                pass
        self.lists = os.path.join(state, ".updated")
        if not os.path.exists(self.lists):
            self.update()

    def update(self):
        """Lists as they are today; a third-party archive that fails is no reason to stop."""
        if not self.arch:
            return
        with locked(folder(self.arch)):
            print(f"fetching apt's lists for {self.arch}; kept in build/cache/{self.arch}", file=sys.stderr)
            subprocess.run(self._get("update"), env=self.env, stdout=subprocess.DEVNULL)
        if self.show("libc6"):
            with open(self.lists, "w"):
                pass

    def _get(self, *arguments):
        argv = [tool("apt-get", "vm"), "-q", "-o", "Acquire::Retries=5"]
        if os.getuid() == 0:    # apt's own user cannot write here, which apt complains about
            argv += ["-o", "APT::Sandbox::User=root"]
        return argv + list(arguments)

    def show(self, package):
        """The fields of each version that apt knows, best first."""
        done = subprocess.run([tool("apt-cache", "vm"), "show", package], env=self.env,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return [dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.MULTILINE))
                for paragraph in done.stdout.split("\n\n") if paragraph]

    def download(self, packages, place):
        """Their .deb files, into a folder."""
        if subprocess.run(self._get("download") + packages, cwd=place, env=self.env, stdout=sys.stderr).returncode:
            update = f"vm/fetch-arch --refresh {self.arch}" if self.arch else "sudo apt-get update"
            raise HarnessError("the download failed (apt's words are above); if apt says 404, its lists are old: "
                               f"{update}, then try again")

    def with_needs(self, packages):
        """These packages and all that they depend on, as NAME=VERSION."""
        done = subprocess.run(self._get("install", "--simulate", "--no-install-recommends") + packages,
                              env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise HarnessError(f"apt cannot put together {' '.join(packages)}:\n{done.stdout.strip()}")
        return [f"{name}={version}" for name, version in
                re.findall(r"^Inst (\S+) \((\S+) ", done.stdout, re.MULTILINE)]
