# SPDX-License-Identifier: MIT
"""Debian's packages by name: what the apt that is set up here knows; and those of another architecture or a newer Debian.

For the latter two apt works on lists of its own, below build/cache/ARCH/apt or build/cache/SUITE/apt: nothing is told to
this machine's dpkg, and nothing needs root. For another architecture it asks the archives that /etc/apt names; for a
newer Debian, the archive that /etc/apt has this Debian from.
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
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


def arch_of(name):
    """The foreign architecture at the end of a kernel's name, or None."""
    return next((arch for arch in FOREIGN if name.endswith("-" + arch)), None)


def folder(other):
    return os.path.join(BUILD, "cache", other)


@functools.lru_cache
def native():
    return call(tool("dpkg", "vm"), "--print-architecture").strip()


class Apt:
    """arch: a foreign one; suite: a newer Debian, with its backports; neither for what is set up here."""

    def __init__(self, arch=None, suite=None):
        self.suite = suite
        self.other = arch or suite
        self.arch = arch or native()
        self.env = dict(os.environ)
        if self.other:
            self._set_up()

    def _set_up(self):
        state = os.path.join(folder(self.other), "apt")
        lines = [f'APT::Architecture "{self.arch}";', f'APT::Architectures {{ "{self.arch}"; "{native()}"; }};',
                 f'Dir::State "{state}";', f'Dir::Cache "{state}";', f'Dir::State::status "{state}/status";']
        if self.suite:
            lines += [f'Dir::Etc::SourceList "{state}/sources.list";', 'Dir::Etc::SourceParts "/dev/null";']
        with locked(folder(self.other)):
            for name in ("lists/partial", "archives/partial"):
                os.makedirs(os.path.join(state, name), exist_ok=True)
            if self.suite:
                archive = self._archive()
                with open(os.path.join(state, "sources.list"), "w") as file:
                    file.writelines(f"deb [signed-by={KEYS}] {archive} {name} main\n"
                                    for name in (self.suite, self.suite + "-backports"))
            self.env["APT_CONFIG"] = os.path.join(state, "apt.conf")
            with open(self.env["APT_CONFIG"], "w") as file:
                file.write("\n".join(lines) + "\n")
            # Nothing is installed, so that all that a package needs is listed.
            with open(os.path.join(state, "status"), "w"):
                pass
        self.lists = os.path.join(state, ".updated")
        if not os.path.exists(self.lists):
            self.update()

    @staticmethod
    def _archive():
        """A mirror may be nearer than Debian's own."""
        done = subprocess.run([tool("apt-get", "vm"), "indextargets", "--format", "$(REPO_URI)", "Origin: Debian",
                               "Codename: bookworm"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if not done.stdout:
            raise HarnessError("apt has no list of Debian 12's main archive, where newer ones are asked for, too;\n"
                               "  make sure that /etc/apt names bookworm main, then: sudo apt-get update")
        return done.stdout.split()[0]

    def update(self):
        """Lists as they are today; a third-party archive that fails is no reason to stop."""
        if not self.other:
            return
        with locked(folder(self.other)):
            print(f"fetching apt's lists for {self.other}; kept in build/cache/{self.other}", file=sys.stderr)
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

    def names(self, start):
        """The packages whose names begin so."""
        return call(tool("apt-cache", "vm"), "pkgnames", start, env=self.env).split()

    def download(self, packages, place):
        """Their .deb files, into a folder."""
        if subprocess.run(self._get("download") + packages, cwd=place, env=self.env, stdout=sys.stderr).returncode:
            update = f"rm build/cache/{self.other}/apt/.updated" if self.other else "sudo apt-get update"
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
