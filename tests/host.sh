# SPDX-License-Identifier: MIT
#
# For the tests that run on this machine: sourced, not run.

top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PATH=$PATH:/usr/sbin:/sbin
# Of modules that are built to see that they build, debug information is not read: a sixth of the compiler's work.
export KCFLAGS=-g0

die() {
	echo "$0: $*" >&2
	exit 1
}

# ---- several checks, of which one run shows all: failed says whether one failed ----

failed=0

pass() { echo "ok: $1"; }
fail() {
	echo "FAILED: $1"
	failed=1
}
# expect WHAT WANTED GOT
expect() {
	if [ "$2" = "$3" ]; then pass "$1"; else fail "$1: wanted '$2', got '$3'"; fi
}
# contains WHAT TEXT FILE
contains() {
	if grep -q -e "$2" "$3"; then
		pass "$1"
	else
		fail "$1: no '$2' in:"
		sed 's/^/    /' "$3"
	fi
}

# ---- what is installed of a kernel's modules ----

# modules_of KERNEL MODULE: kernel is KERNEL, moddir their folder, release the kernel's name for itself.
modules_of() {
	kernel=$1
	moddir=$top/build/modules/$kernel
	[ -e "$moddir/$2.ko" ] || {
		echo "skip: the modules for Linux $kernel are not built"
		exit 77
	}
	release=$(modinfo -F vermagic "$moddir/$2.ko" | cut -d' ' -f1)
}
