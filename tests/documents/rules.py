# SPDX-License-Identifier: MIT
"""What is done with a command that has no mark, and what is checked of every command."""

import contextlib
import glob
import os
import re
import shlex
import subprocess
import sys

from pages import TOP, shell_reads

# Of the Makefile, and what tries each.
TARGETS = {
    "demo": "ci vm/fpga-demo", "demo-rdma": "ci vm/rdma-demo", "user": "ci build user", "modules": "ci build modules 6.1",
    "modules-all": "ci build modules 6.12", "install": "ci host/packages", "install-softgpu": "ci host/softgpu-install",
    "install-peer-core": "ci host/peermem-install", "install-modules": "root", "uninstall-modules": "root",
    "deb": "ci host/packages", "rpm": "never it needs what a distribution with RPM has", "check": "never this is one of its tests",
    "check-fast": "never this is one of its tests", "check-gpu": "gpu", "vm-shell": "never it is a shell to type in",
}
LONG = "never it takes minutes or hours"
TREE = ("vm/", "tests/", "build/", "packaging/", "softgpu/", "peerdma/", "peers/", "bench/", "examples/", "docs/")
GUEST = ("peerdma", "fpga-copy", "fpga-demo", "insmod", "rmmod", "rdma", "ip", "dmesg", "lspci", "modprobe", "vm/chaos", "vm/barrier")
HOST = ("cc", "gcc", "man", "pkg-config", "./a.out", "./hello", "./behind", "./cache", "bash", "sh", "cp", "mkdir", "grep", "cat", "ls", "touch", "echo", "export", "cd")
ADMIN = ("apt", "apt-get", "dkms", "mokutil", "adduser", "groupadd", "udevadm", "dnf", "rpm", "dpkg", "systemctl", "chmod", "chown", "mount")
# What stands for the reader's own.
STANDS_FOR = re.compile(r"/path/to|\.\.\.|\./(?:my|a)-|\bmy[-.]\w|\[[A-Za-z]|(?<![$\w=/.{-])[A-Z][A-Z_]{2,}(?![\w=:}*])|(?<=/)VERSION\b|(?<= )[A-Z](?= |$)")


def words_of(text):
    try:
        return shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError:
        return text.split()


def parts(text):
    """The words of each command between "&&", ";" and "|"."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    found = [[]]
    try:
        for word in lexer:
            if re.fullmatch("[;&|]+", word):
                found.append([])
            else:
                found[-1].append(word)
    except ValueError:
        return [words_of(text)]
    return [words for words in found if words]


def program(text):
    """Its first word that is neither an assignment nor sudo, and those after it; whether sudo is before it."""
    return program_of((parts(text) or [[]])[0])


def program_of(words):
    words, sudo = list(words), False
    while words and (re.match(r"\w+=", words[0]) or words[0] == "sudo"):
        sudo |= words.pop(0) == "sudo"
    return words[:1] and words[0], words[1:], sudo


def known(text):
    """Whether it begins as a command does; for what stands between backquotes."""
    begin = re.match(r"(?:sudo |\w+=\S* )*(\S+)", text)
    name = begin and begin[1]
    return bool(name) and (name in (*GUEST, "make", "man") or name in ("cc", "tests/run") or
                           (".so" not in name and name.startswith(("vm/", "build/user/", "packaging/", "tests/")) and os.access(os.path.join(TOP, name), os.X_OK)
                            and not os.path.isdir(os.path.join(TOP, name))))


def classify(command):
    """The class and what goes with it; None: no rule knows the command."""
    name, rest, sudo = program(command.text)
    administrator = sudo and name not in ("peerdma", "fpga-copy")
    # "host" and "vm" are about what no rule knows: make's targets, and what asks for root, stay what they are.
    if command.mark and not (command.mark.kind in ("host", "vm") and (administrator or (name == "make" and "-C" not in rest))):
        return command.mark.kind, command.mark.argument
    if not name:
        return None
    if name == "make":
        target = next((word for word in rest if re.fullmatch(r"[a-z][a-z-]*", word)), None)
        if "-C" in rest:
            return None
        kind, _, why = TARGETS.get(target, LONG).partition(" ")
        return kind, why
    if administrator or name in ADMIN:
        return "root", ""
    kind = "vm" if name in GUEST or command.root else "host" if name in HOST or name.startswith(("build/", *TREE)) else None
    stands = STANDS_FOR.search(" ".join(words_of(command.runnable())))
    if command.page.startswith("examples/") and (stands or name.startswith("./")) and not name[2:] in ("hello", "behind", "cache"):
        return "ci", "vm/lib-programs"
    if not kind and not (stands and name.startswith("./")):
        return None
    if stands:
        return "form", "it has what stands for the reader's own"
    if command.inline and command.page != "README.md":
        return "form", "it stands in a sentence"
    if name in ("vm/run", "tests/run", "vm/deps.sh", "vm/build-modules", "vm/fetch-kernel", "tests/mutate/run"):
        return ("host", "") if rest == ["--help"] else ("form", "it boots, builds or fetches")
    return kind, ""


def classify_all(commands):
    """The same of a page: what stands in one block with commands for the guest is for the guest."""
    kinds = [classify(command) for command in commands]
    guest = {command.block for command, kind in zip(commands, kinds) if kind and kind[0] == "vm" and not command.inline}
    return [(command, ("vm", "") if kind and kind[0] == "host" and command.block in guest else kind)
            for command, kind in zip(commands, kinds)]


# ---- what is checked of every command ----

def targets():
    with open(os.path.join(TOP, "Makefile")) as file:
        return set(re.findall(r"^([a-z][a-z-]*)(?= *[a-z -]*:(?!=))", file.read(), re.M))


def tests():
    """Whether a test of tests/run's exists by that name."""
    found = {"demo process"}
    for kind, pattern in (("host", "tests/*.sh"), ("vm", "tests/vm/*.sh")):
        found |= {f"{kind}/{os.path.basename(path)[:-3]}" for path in glob.glob(os.path.join(TOP, pattern)) if os.access(path, os.X_OK)}
    with open(os.path.join(TOP, "tests/run")) as file:
        text = file.read()
    found |= {f"build {name}" for name in re.findall(r'^    "(user[a-z-]*)":', text, re.M)}
    return found | {f"build modules {name}" for name in ("6.1", "6.12")}


def manual_pages():
    with open(os.path.join(TOP, "docs/man/meson.build")) as file:
        names = set(re.findall(r"'(\w[\w-]*)'", file.read()))
    return names | {os.path.basename(path).split(".")[0] for path in glob.glob(os.path.join(TOP, "peers/*/man/*.scd"))}


def wrong_path(word):
    """A file of the tree that is not there."""
    if not word.startswith(TREE) or STANDS_FOR.search(word) or re.search(r"[=:$,]", word):
        return None
    if word.startswith("build/"):
        module = re.fullmatch(r"build/modules/[^/]+/(\w+\.ko)", word)
        if module:
            built = glob.glob(os.path.join(TOP, "build/modules/*/*.ko"))
            return f"no module {module[1]}" if built and module[1] not in map(os.path.basename, built) else None
        match = re.match(r"build/user(?:-\w+)?/(.*)", word)
        if not match or not os.path.exists(os.path.join(TOP, "build/user/build.ninja")):
            return None
        word = "build/user/" + match[1]
    return None if glob.glob(os.path.join(TOP, word)) else f"there is no {word}"


def wrong_machine(words):
    """vm/run's options, read by vm/run itself; not loaded in the guest, where it takes seconds."""
    sys.path.insert(0, os.path.join(TOP, "vm"))
    from harness.errors import HarnessError
    from harness.options import parse
    with contextlib.redirect_stdout(None):
        try:
            parse(words)
        except HarnessError as error:
            return f"vm/run: {error}"
        except SystemExit:
            pass
    return None


def helped(argv, cache={}):
    argv = tuple(argv)
    if argv not in cache:
        done = subprocess.run([*argv, "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=TOP)
        cache[argv] = done.stdout + done.stderr if not done.returncode else None
    return cache[argv]


def wrong_options(argv, given):
    text = helped(argv)
    if text is None:
        return f"{' '.join(argv)} --help fails"
    for word in given:
        option = re.match(r"(--[a-z][a-z-]*)", word)
        if option and option[1] != "--help" and not re.search(re.escape(option[1]) + r"(?![a-z-])", text):
            return f"{' '.join(argv)} has no option {option[1]}"
    return None


def wrong_make(rest, user):
    names, wrong = targets(), None
    for word in rest:
        if re.fullmatch(r"[a-z][a-z-]*", word) and word not in names:
            return f"make has no target {word}"
        variable, found, value = word.partition("=")
        if not found:
            continue
        used = subprocess.run(["grep", "-rqw", variable, "Makefile", "tests/thirdparty", "packaging", "softgpu/user/meson.build"], cwd=TOP)
        if used.returncode:
            return f"nothing reads {variable}"
        demo = os.path.join(user, "peers/hca/demo/rdma-demo" if "demo-rdma" in rest else "peers/fpga/fpga-demo")
        if variable == "DEMO_ARGS" and os.path.exists(demo) and "MODE=process" not in rest:
            done = subprocess.run([demo, *shlex.split(value), "--help"], capture_output=True, text=True)
            wrong = wrong or (done.stderr.strip() if done.returncode else None)
        if variable == "VM_ARGS":
            wrong = wrong or wrong_machine([*shlex.split(value), "true"])
    return wrong


def wrong(command):
    """Why a command cannot be as it should, or None."""
    text = command.runnable()
    if not command.inline and not re.search(r"\[[A-Za-z]", text) and (refused := shell_reads(text)):
        return refused
    user = os.path.join(TOP, "build/user")
    for part in parts(text):
        # What stands in quotes is a command, too.
        words = [each for word in part for each in (word.replace(";", " ").split() if " " in word else [word])]
        for word in words[:1] if words[0] == "tests/run" or "dkms" in words else words:
            if problem := wrong_path(word):
                return problem
    kind = command.mark.kind if command.mark else None
    if kind == "ci" and command.mark.argument not in tests():
        return f"there is no test '{command.mark.argument}'"
    return next(filter(None, (wrong_part(command, *program_of(part)[:2], user) for part in parts(text))), None)


def wrong_part(command, name, rest, user):
    if name == "make" and "-C" not in rest:
        return wrong_make([word for word in rest if not word.startswith("[")], user)
    if name == "man" and "-l" not in rest:
        return None if rest and rest[-1] in manual_pages() else f"there is no manual page {' '.join(rest)}"
    if name == "vm/run" and not command.inline and "..." not in rest:
        return wrong_machine(rest) if rest != ["--help"] else None
    if name == "vm/run":
        return wrong_options([name], rest[:rest.index("--")] if "--" in rest else rest)
    if name == "tests/run" and "--of" in rest:
        return next(filter(None, map(wrong_path, rest)), None)
    if name == "tests/run":
        named = [word for word in rest if "/" in word]
        return next((f"there is no test {word}" for word in named if not any(test.startswith(word) for test in tests())), None)
    tool = {"peerdma": "peerdma/tools/peerdma", "fpga-copy": "peers/fpga/fpga-copy"}.get(name)
    if tool and os.path.exists(os.path.join(user, tool)):
        own = [word for word in rest[:1] if re.fullmatch(r"[a-z0-9]+", word)] if name == "peerdma" else []
        return wrong_options([os.path.join(user, tool), *own], rest)
    return None


def guest_command(text):
    """Of "vm/run OPTIONS -- COMMAND": the command."""
    if program(text)[0] != "vm/run":
        return text
    words = words_of(text)
    if "---" in words or "--" not in words:
        return None
    return shlex.join(words[words.index("--") + 1:])
