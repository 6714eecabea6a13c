# SPDX-License-Identifier: MIT
"""The commands that documents print: where they are, and what is to be done with each.

A command stands in a block (indented or fenced; in a manual page, of EXAMPLES; in an example, of its first comment) or
between backquotes. What is done with it follows from its first words, see rules.py, or from a mark before the block, or
in the line:

    <!-- run: CLASS [with OLD=>NEW...] -->      in a manual page: ; run: CLASS ...

    host            run on this machine, in the tree
    vm              run in the guest of tests/vm/documents.sh; of "vm/run OPTIONS -- COMMAND", COMMAND
    ci TEST         run by that test, as tests/run names it
    gpu, root       for a machine with a GPU, or for an administrator: checked, not run
    never REASON    checked, not run
    text            no command: a listing, a message
    output          what the block before it prints; compared where that is run

Checked: the shell can read it, and what it names is there: files of the tree, make's targets, options, manual pages.
Of a block that has a prompt ("# " or "$ ") the other lines are output. "with" replaces what stands for the reader's own.
"""

import glob
import os
import re
import shlex
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
CLASSES = ("host", "vm", "ci", "gpu", "root", "never", "text", "output")
MARK = re.compile(r"(?:<!--|^;) *run: *([a-z]+) *(.*?) *(?:-->|$)")
FENCE = re.compile(r"^ *(```|~~~) *(\S*)")
COMMANDS = ("", "sh", "bash", "shell", "console")       # the languages of fences that hold commands


class WrongMark(Exception):
    """The mark cannot be understood."""


class Mark:
    """What a comment says of the block after it."""

    def __init__(self, kind, text):
        self.kind, self.argument, self.replaced = kind, text, []
        if kind not in CLASSES:
            raise WrongMark(f"there is no class '{kind}'; one of {', '.join(CLASSES)}")
        before, found, after = text.partition("with ")
        if found and (not before or before.endswith(" ")):
            self.argument = before.strip()
            self.replaced = [tuple(word.split("=>", 1)) for word in shlex.split(after)]
            if any(len(pair) != 2 for pair in self.replaced):
                raise WrongMark(f"with {after}: give OLD=>NEW, in quotes where there are blanks")
        if kind in ("ci", "never") and not self.argument:
            raise WrongMark(f"{kind}: {'which test runs it?' if kind == 'ci' else 'why?'}")


class Command:
    """One command, as it is printed; output: the lines that it should print, if any stand there."""

    def __init__(self, page, line, text, mark, inline=False):
        self.page, self.line, self.text, self.mark, self.inline = page, line, text, mark, inline
        self.output = []
        self.block, self.root = (page, line), False     # which block it stands in; a prompt of root's is before it

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    def runnable(self):
        """With what stands for the reader's own replaced."""
        text = self.text
        for old, new in self.mark.replaced if self.mark else ():
            text = text.replace(old, new)
        return text


def complete(text):
    """Whether the shell does not wait for more: a quote, a backslash at the end, a here-document."""
    if text.endswith("\\"):
        return False
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    words = re.findall(r"(?:^|[;&|\n]|\bdo|\bthen|\belse)\s*(if|fi|for|while|until|done|case|esac)\b", text)
    return sum(1 if word in ("if", "for", "while", "until", "case") else -1 for word in words) <= 0


def blocks_of_markdown(lines):
    """(line number, language or None, mark, lines, indent) of each block."""
    mark, at = None, 0
    while at < len(lines):
        line = lines[at]
        found = MARK.search(line)
        fence = FENCE.match(line)
        if found and line.strip().startswith("<!--"):
            mark = Mark(*found.groups())
        elif fence:
            begin = at + 1
            while at + 1 < len(lines) and not lines[at + 1].strip().startswith(fence[1]):
                at += 1
            yield begin + 1, fence[2], mark, lines[begin:at + 1]
            mark, at = None, at + 1
        elif re.match(r" {4,}\S", line) and (at == 0 or not lines[at - 1].strip()):
            begin = at
            while at + 1 < len(lines) and (re.match(r" {4,}\S", lines[at + 1]) or
                                           (not lines[at + 1].strip() and at + 2 < len(lines) and re.match(r" {4,}\S", lines[at + 2])
                                            and not lines[at + 2].strip().startswith("- "))):
                at += 1
            yield begin + 1, None, mark, lines[begin:at + 1]
            mark = None
        elif line.strip():
            mark = None
        at += 1


def blocks_of_manual(lines):
    """The same of a page in scdoc's format: the code of EXAMPLES."""
    inside, mark, at = False, None, 0
    while at < len(lines):
        line = lines[at]
        found = MARK.search(line)
        if line.startswith("# "):
            inside, mark = "EXAMPLE" in line, None
        elif found and line.startswith(";"):
            mark = Mark(*found.groups())
        elif inside and line.startswith("```"):
            begin = at + 1
            while not lines[at + 1].startswith("```"):
                at += 1
            yield begin + 1, "c" if re.search(r"[;{]$|^#include", "\n".join(lines[begin:at + 1]), re.M) else "sh", mark, lines[begin:at + 1]
            mark, at = None, at + 1
        elif inside and line.startswith("\t"):
            begin = at
            while at + 1 < len(lines) and lines[at + 1].strip() and not lines[at + 1].startswith("#"):
                at += 1
            yield begin + 1, None, mark, [re.sub(r"\+\+$", "", text) for text in lines[begin:at + 1]]
            mark = None
        at += 1


def blocks_of_example(lines):
    """The same of a C file: what its first comment has after a tab."""
    first = next(i for i, line in enumerate(lines) if line.startswith("/*"))
    last = next(i for i, line in enumerate(lines) if line.startswith(" */"))
    for at in range(first, last):
        if lines[at].startswith(" *\t") and re.match(r"(cc|\./|[A-Z_]+=)", lines[at][3:]):
            # What stands there after some tabs explains.
            yield at + 1, "sh", None, [re.split(r"\t+", lines[at][3:])[0]]


def commands_of_block(page, number, lines, mark):
    """Joins lines that belong together; of a block with prompts, the others are output."""
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    lines = [line[indent:] for line in lines]
    prompt = re.match(r"[#$] (?=\S)", lines[0]) if lines else None
    found, text, begin = [], "", 0
    for offset, line in enumerate(lines):
        if prompt and not text and not line.startswith(prompt[0]):
            if found:
                found[-1].output.append(line)
            continue
        if not line.strip() and not text:
            continue
        begin = begin if text else offset
        text += ("\n" if text else "") + (line[2:] if prompt and not text else line)
        if complete(text):
            found.append(Command(page, number + begin, text, mark))
            text = ""
    if text:
        found.append(Command(page, number + begin, text, mark))
    for command in found:
        command.block, command.root = (page, number), bool(prompt) and prompt[0][0] == "#"
    return found


def is_listing(lines):
    """A drawing; a message of a program's; or names and, after two blanks, what they are."""
    first = next(line.strip() for line in lines if line.strip())
    return re.search(r"[+|]-|-[+|]|[─│]", "".join(lines)) is not None or \
        re.match(r"[\w./*,+-]+(?: [\w./*,+-]+)? {2,}[^#\s]|[\w./-]+: ", first) is not None


def read(path):
    """The commands of one document."""
    page = os.path.relpath(path, TOP)
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    how = blocks_of_manual if path.endswith(".scd") else blocks_of_example if path.endswith(".c") else blocks_of_markdown
    found, taken = [], set()
    try:
        for number, language, mark, block in how(lines):
            taken.update(range(number, number + len(block)))
            if mark and mark.kind == "output":
                if found:
                    found[-1].output += [line.strip() for line in block if line.strip()]
            elif mark and mark.kind == "text":
                continue
            elif language in COMMANDS or (language is None and (mark or not is_listing(block))):
                found += commands_of_block(page, number, block, mark)
        if path.endswith(".md"):
            for number, line in enumerate(lines, 1):
                marked = MARK.search(line)
                if number not in taken:
                    found += [Command(page, number, text, Mark(*marked.groups()) if marked else None, inline=True)
                              for text in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", line)]
    except WrongMark as error:
        raise WrongMark(f"{page}: {error}") from error
    return found


def documents():
    found = [os.path.join(TOP, "README.md"), os.path.join(TOP, "bench/README.md")]
    for pattern in ("docs/**/*.md", "CONTRIBUTING.md", "docs/man/*.scd", "peers/*/man/*.scd", "examples/*.c"):
        found += sorted(glob.glob(os.path.join(TOP, pattern), recursive=True))
    return [path for path in found if os.path.exists(path)]


def shell_reads(text):
    return subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True).stderr.strip().replace("bash: ", "")
