#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The peerdma command, its completion and its manual agree: the same commands, and of each the same options.

top=$(cd "$(dirname "$0")/.." && pwd)
[ -x "$top/build/user/peerdma/tools/peerdma" ] || {
	echo "skip: build/user is not built"
	exit 77
}
exec python3 - "$top" <<'END_OF_PROGRAM'
import os
import re
import subprocess
import sys

os.chdir(sys.argv[1])
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def help_of(*command):
    return subprocess.check_output(["build/user/peerdma/tools/peerdma", *command, "--help"], text=True)


def completed(text):
    """{command: its words}, '' for none."""
    cases = re.findall(r"^\t('?\w*'?)\)\s+word='(.*)' ;;$", text, flags=re.M)
    return {name.strip("'"): set(words.split()) for name, words in cases}


def in_manual(text):
    """Options with a text of their own."""
    section = re.search(r"^# OPTIONS\n(.*?)(?=^# |\Z)", text, flags=re.M | re.S)
    lines = re.findall(r"^\*-.*$", section[1] if section else "", flags=re.M)
    return {option for line in lines for option in OPTION.findall(line)}


def differ(what, has, other, wanted):
    if has - wanted:
        yield f"{other} lacks {' '.join(sorted(has - wanted))}, which {what} has"
    if wanted - has:
        yield f"{what} lacks {' '.join(sorted(wanted - has))}, which {other} has"


def differences(completion, manual):
    """manual: {command: its page}, '' for the command itself."""
    words = completed(completion)
    commands = set(re.findall(r"^  ([a-z]\w*) ", help_of(), flags=re.M))
    yield from differ("peerdma --help", commands, "completion", {word for word in words[""] if not word.startswith("-")})
    yield from differ("peerdma --help", commands - {"help"}, "completion of help", words["help"])
    listed = set(re.findall(r"\*peerdma-(\w+)\*\(1\)\.$", manual[""], flags=re.M))
    yield from differ("peerdma --help", commands - {"help"}, "peerdma.1.scd", listed)
    for command in sorted(commands - {"help"}):
        # Other commands are in quotes.
        options = set(OPTION.findall(re.sub(r"'[^'\n]*'", "", help_of(command))))
        yield from differ(f"peerdma {command} --help", options | {"--help"}, "its completion",
                          {word for word in words.get(command, ()) if word.startswith("-")})
        yield from differ(f"peerdma {command} --help", options - {"--help"}, f"peerdma-{command}.1.scd",
                          in_manual(manual.get(command, "")) - {"--help"})


completion = read("peerdma/tools/peerdma.bash-completion")
pages = {"": "docs/man/peerdma.1.scd", **{name: f"docs/man/peerdma-{name}.1.scd" for name in completed(completion) if name}}
manual = {name: read(page) for name, page in pages.items() if os.path.exists(page)}
wrong = list(differences(completion, manual))

# What is taken away from either is missed.
for what, broken in (("an option in the completion", (completion.replace(" --tsv", ""), manual)),
                     ("a command in the completion", (completion.replace("metrics pins", "pins"), manual)),
                     ("an option in a page", (completion, {**manual, "bar1": manual["bar1"].replace("*--tsv*", "*tsv*")})),
                     ("a page", (completion, {**manual, "topo": ""})),
                     ("a command in peerdma(1)", (completion, {**manual, "": manual[""].replace("*peerdma-top*(1).", "")}))):
    if len(list(differences(*broken))) <= len(wrong):
        wrong.append(f"not noticed: {what}")

for line in wrong:
    print("FAILED:", line)
print(f"{len(manual) - 1} commands, {len(wrong)} mistakes")
sys.exit(bool(wrong))
END_OF_PROGRAM
