#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What a process prints at its end with PEERDMA_HOOKS=report.
#
#   report.sh TEST-OF-LACKING STAND-IN TEST-LINKED-BEHIND-CUDA FOLDER-OF-LIBCUDA
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# prints EXPRESSION NUMBER: so many lines of the last report are as it.
prints() {
	found=$(grep -cE "$1" "$work/report" || :)
	if [ "$found" != "$2" ]; then
		echo "not ok - $found lines, not $2, are: $1"
		failed=1
	fi
}

PEERDMA_HOOKS=report "$1" "$2" >"$work/log" 2>"$work/report" || { cat "$work/log"; exit 1; }
prints '^libpeerdma-hooks: in front$' 1
prints '^function +by name +dlsym +cuGetProcAddress +calls$' 1
prints '^cuMemFree_v2 +seen +seen +seen +1[0-9]$' 1
# Functions that the library lacks are left out.
prints '' 3

# Nothing to see, which the program's own failure is about.
PEERDMA_HOOKS=report "$1" /nowhere >/dev/null 2>"$work/report" && { echo "not ok - a stand-in that is not there"; failed=1; }
prints '^libpeerdma-hooks: this process has neither libcuda.so.1 nor libhsa-runtime64.so.1: nothing to see$' 1
prints '' 1

LD_LIBRARY_PATH=$4 PEERDMA_HOOKS=report "$3" late >/dev/null 2>"$work/report"
prints '^libpeerdma-hooks: NOT in front: preload it, or link it before libcuda and libhsa-runtime64$' 1
prints '^cuMemAlloc +MISSED ' 1
prints '^cuMemFree_v2 +MISSED ' 1

# Another word than report, and none.
PEERDMA_HOOKS=yes "$1" "$2" >/dev/null 2>"$work/report"
prints '' 0
"$1" "$2" >/dev/null 2>"$work/report"
prints '' 0
[ $failed = 0 ] && echo "ok"
exit $failed
