# SPDX-License-Identifier: MIT
"""What `sites` finds in a small file: for each line of it, the changes after "//", and none elsewhere."""

import collections
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
EXAMPLE = r"""
#include <stdbool.h>
#include <stddef.h>
#define TWICE(n) do { if ((n) == 0) return 3; sink((n) + (n)); } while (0)
#define LIMIT 7
enum { OK_SUCCESS, BROKEN };
int table[4] = { 1, 2 + 3 };
int sink(int n);
static bool flag(int n) { return n; }               // n -> !(n)
static int *none(int *p) { return p; }              // p -> 0
static int *null(void) { return NULL; }
static int state(void) { return OK_SUCCESS; }       // OK_SUCCESS -> 1
static int broken(void) { return BROKEN; }          // BROKEN -> 0
int f(int n)
{
	char room[16];                              // 16 -> (16 - 1)
	int sum = n + LIMIT;                        // + -> -
	if (n <= LIMIT && !flag(n))                 // n <= LIMIT && !flag(n) -> !(n <= LIMIT && !flag(n)) | <= -> < | && -> ||
		sum += 0x10u;                       // sum += 0x10u -> (void)0 | += -> -= | 0x10u -> (0x10u + 1) | 0x10u -> (0x10u - 1)
	for (int i = n; i < sum; i++) {             // i < sum -> !(i < sum) | < -> <= | ++ -> --
		if (sink(i))                        // sink(i) -> !(sink(i))
			continue;                   // continue -> (void)0
		sink(i /* a - b */ * sum);          // sink(i /* a - b */ * sum) -> (void)0 | * -> /
	}
	while (n --> sum)                           // n --> sum -> !(n --> sum) | > -> >= | -- -> ++
		(void)n;
	for (;;) {
		sink(sizeof("a + b"));              // sink(sizeof("a + b")) -> (void)0
		break;                              // break -> (void)0
	}
	TWICE(n);                                   // TWICE(n) -> (void)0
	switch (n) {
	case LIMIT:
		*none(&table[n]) = sum;             // *none(&table[n]) = sum -> (void)0
		return sum ? sum : sink(n);         // sum -> !(sum) | sum ? sum : sink(n) -> ((void)(sum ? sum : sink(n)), 0)
	}
	return -1;                                  // -1 -> 0 | 1 -> (1 + 1) | 1 -> (1 - 1)
}
"""


def main():
    with tempfile.TemporaryDirectory() as place:
        with open(os.path.join(place, "example.c"), "w") as f:
            f.write(EXAMPLE)
        with open(os.path.join(place, "compile_commands.json"), "w") as f:
            json.dump([{"directory": place, "command": "cc -std=gnu11 -c example.c", "file": "example.c"}], f)
        listed = subprocess.run([os.path.join(HERE, "sites"), place, "example.c"], cwd=place, stdout=subprocess.PIPE, text=True)
    if listed.returncode:
        return 1
    found = collections.defaultdict(list)
    for site in map(json.loads, listed.stdout.splitlines()):
        found[site["line"]].append(f"{site['old']} -> {site['new']}")
    wrong = 0
    for number, line in enumerate(EXAMPLE.split("\n"), 1):
        code, _, wanted = line.partition("// ")
        wanted = sorted(wanted.split(" | ")) if wanted else []
        if sorted(found[number]) != wanted:
            print(f"FAIL: {code.strip()}\n  found  {sorted(found[number])}\n  wanted {wanted}")
            wrong = 1
    return wrong


sys.exit(main())
