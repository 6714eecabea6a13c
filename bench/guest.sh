#!/bin/sh
# SPDX-License-Identifier: MIT
#
# In the virtual machine: loads the modules and runs one benchmark.

. "$TOP/tests/vm/lib.sh"

load_modules softgpu nvidia peerdma peerdma_nvidia pinbench
if [ -n "$GDRDRV" ]; then
	insmod "$GDRDRV" || die "gdrcopy's driver does not load: see the kernel's log"
	mknod /dev/gdrdrv c "$(awk '$2 == "gdrdrv" { print $1 }' /proc/devices)" 0
fi
program=$1
shift
"$BUILD/bench/$program" "$@"
