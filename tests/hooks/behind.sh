#!/bin/sh
# SPDX-License-Identifier: MIT
#
# examples/behind.c: memory freed behind the cache's back is noticed, by the free where
# libpeerdma-hooks is preloaded, by the next get where it is not.
#
#   behind.sh EXAMPLE HOOKS-LIBRARY
set -eu

# expect WORDS OUTPUT
expect() {
	echo "$2"
	echo "$2" | grep -q "registered anew; the old registration was ended $1" || { echo "not ended $1" >&2; exit 1; }
}

expect "when the next get found it stale" "$("$1")"
expect "by interception of the free" "$(LD_PRELOAD=$2 "$1")"
