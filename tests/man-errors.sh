#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The section ERRORS of each manual page has, for each call, the errnos that the call's comment in the public header has:
# all of them, and no others.

top=$(cd "$(dirname "$0")/.." && pwd)
exec python3 - "$top" <<'END_OF_PROGRAM'
import glob
import os
import re
import sys

os.chdir(sys.argv[1])
ERRNO = re.compile(r"-E[A-Z0-9]+")
# A comment, and the declarations below it, up to an empty line.
DOCUMENTED = re.compile(r"/\*((?:(?!\*/).)*)\*/\n(.*?)(?=\n\n|/\*|\Z)", re.S)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def of_header(text):
    """{call: errnos of its comment}, of calls that return an int."""
    calls = {}
    for comment, declarations in DOCUMENTED.findall(text):
        for call in re.findall(r"^int (peerdma_\w+)\(", declarations, flags=re.M):
            calls[call] = set(ERRNO.findall(comment))
    return calls


def of_page(text):
    """{call: errnos of its part of ERRORS}, of a manual page."""
    section = re.search(r"^# ERRORS\n(.*?)(?=^# |\Z)", text, flags=re.M | re.S)
    calls = {}
    for heading, body in re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", section[1] if section else "", flags=re.M | re.S):
        reasons = re.findall(r"^((?:\*-E[A-Z0-9]+\*(?:, )?)+)\n\t\S", body, flags=re.M)
        for call in re.findall(r"(peerdma_\w+)\(\)", heading):
            calls[call] = set(ERRNO.findall(" ".join(reasons)))
    return calls


def differences(headers, pages):
    """Both: {file: text}."""
    manual = {call: (page, errnos) for page, text in pages.items() for call, errnos in of_page(text).items()}
    for header, text in headers.items():
        for call, errnos in of_header(text).items():
            page, described = manual.pop(call, ("the manual", set()))
            if errnos - described:
                yield f"{page} lacks {' '.join(sorted(errnos - described))} of {call}(), which {header} has"
            if described - errnos:
                yield f"{header} lacks {' '.join(sorted(described - errnos))} of {call}(), which {page} has"
    for call, (page, _) in manual.items():
        yield f"{page}: {call}() is in no public header"


headers = {path: read(path) for path in glob.glob("peerdma/include/*.h")}
pages = {path: read(path) for path in glob.glob("docs/man/*.3.scd")}
wrong = list(differences(headers, pages))
calls = sum(len([e for e in of_header(text).values() if e]) for text in headers.values())

# What is taken away from either is missed.
page, header = "docs/man/peerdma_pin.3.scd", "peerdma/include/peerdma.h"
for what, broken in (
        ("an errno without its reason", (headers, {**pages, page: pages[page].replace("*-EFAULT*\n\t", "*-EFAULT*\n", 1)})),
        ("a page without ERRORS", (headers, {**pages, page: pages[page].replace("# ERRORS", "# NOTES")})),
        ("a header without an errno", ({**headers, header: headers[header].replace("-EFAULT", "")}, pages)),
        ("a call that is gone", ({**headers, header: headers[header].replace("int peerdma_unpin(", "int peerdma_unpin_it(")},
                                 pages)),
):
    if len(list(differences(*broken))) <= len(wrong):
        wrong.append(f"not noticed: {what}")

for line in wrong:
    print("FAILED:", line)
print(f"{calls} calls with errnos, {len(wrong)} mistakes")
sys.exit(bool(wrong) or calls < 50)
END_OF_PROGRAM
