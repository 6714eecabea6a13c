#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What README and docs name is there: links and their anchors, pictures, files of the tree, manual pages, and the
# messages that troubleshooting.md explains. Every page is at most two clicks from README.

top=$(cd "$(dirname "$0")/.." && pwd)
exec python3 - "$top" <<'END'
import glob
import os
import re
import sys
import xml.etree.ElementTree

top = sys.argv[1]
os.chdir(top)
pages = ["README.md", "bench/README.md", *sorted(glob.glob("docs/*.md"))]
folders = "softgpu|peerdma|peers|packaging|vm|tests|bench|docs|examples"
# Not of the tree: what DKMS and AMD's headers call their folders.
foreign = re.compile(r"peerdma/\d|softgpu/\d")
wrong = []


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def prose(text):
    """Without blocks of code, where a # is no heading and [a](b) no link."""
    text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.M | re.S)
    return re.sub(r"(?:^|(?<=\n\n))(?:(?:    |\t).*\n)+", "", text)


def anchors(text):
    """As GitHub and others make them from headings."""
    for heading in re.findall(r"^#+ +(.*)$", prose(text), flags=re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(read(page)))):
        if not re.match(r"[a-z]+:", target):
            yield target


def local(page, target):
    path = target.partition("#")[0]
    return os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page


for page in pages:
    for target in links(page):
        path, anchor = local(page, target), target.partition("#")[2]
        if not os.path.exists(path):
            wrong.append(f"{page}: the link {target} leads nowhere")
        elif anchor and anchor not in anchors(read(path)):
            wrong.append(f"{page}: {path} has no heading #{anchor}")
        elif path.endswith(".svg"):
            xml.etree.ElementTree.parse(path)

# Files that are named without a link, in code and in prose: from the top, or beside the page.
for page in pages:
    for name in re.findall(rf"(?<![\w/.$~\-])(?:\./)?((?:{folders})/[\w./*{{}},\-]+)", read(page)):
        name = name.rstrip(".,:/")
        if foreign.match(name) or "{" in name or "NAME" in name:
            continue
        # Also a program by its source, and a test by the name that tests/run gives it.
        if not any(map(glob.glob, (name, os.path.join(os.path.dirname(page), name), name + ".c", f"tests/{name}.sh"))):
            wrong.append(f"{page}: no {name} in the tree")

manual = {os.path.basename(path).split(".")[0] for path in glob.glob("docs/man/*.scd") + glob.glob("peers/*/man/*.scd")}
for page in pages:
    for name in re.findall(r"`man (?:\d )?(\w[\w-]*)", read(page)):
        if name not in manual:
            wrong.append(f"{page}: no manual page {name}")

# Two clicks: what README links to, and what those pages link to.
reached = {"README.md"}
for _ in range(2):
    reached |= {local(page, target) for page in reached if page.endswith(".md") and os.path.exists(page)
                for target in links(page)}
wrong += [f"{page}: more than two clicks from README.md" for page in pages if page not in reached]

# The words of troubleshooting.md are those of the code: all between "..." that is longer than a few letters.
sources = "\n".join(read(os.path.join(folder, name)) for top in ("softgpu", "peerdma", "peers", "vm")
                    for folder, _, names in os.walk(top) for name in names if not name.endswith((".md", ".scd", ".pyc")))
for macro, text in (("DEVICE", "/dev/peerdma"), ("NAME", "peerdma_nvidia: ")):
    sources = re.sub(rf'\b{macro} "', '"' + text, sources)
sources = re.sub(r'"\s*\n?\s*"', "", sources)                        # parts of one string
for row in re.findall(r"^\| (`.*?`) \| (.*)$", read("docs/troubleshooting.md"), flags=re.M):
    if "(the kernel's words)" in row[1]:
        continue
    for message in re.findall(r"`([^`]+)`", row[0]):
        for part in re.split(r"\.\.\.|\(\d+\)", message):
            part = part.strip(" ':,(").removeprefix("peerdma: ").removeprefix("peerdma_nvidia: ").removeprefix("softgpu: ")
            if len(part) > 6 and part not in sources:
                wrong.append(f"docs/troubleshooting.md: no program says '{part}'")

for line in wrong:
    print("FAILED:", line)
print(f"{len(pages)} pages, {len(wrong)} mistakes")
sys.exit(bool(wrong))
END
