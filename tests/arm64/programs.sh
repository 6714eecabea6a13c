#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The programs' own tests, on an arm64 kernel. Left out: what takes a compiler or binutils, what measures, and the long ones
# that are about the processor alone, which qemu-user runs as well (make check-arm64).
# vm: --memory 3G --timeout 1200

. "$TOP/tests/vm/lib.sh"
cd "$TOP" && exec python3 tests/arm64/programs.py "$BUILD" -core -"cache orders" -toolkit -"user library" -lib-symbols -lib-bench
