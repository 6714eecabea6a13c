#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A machine that strangers share: while one user abuses the bridge and the GPU, another
# user's copies and the administrator's demonstration succeed; and when the abuser is dead,
# everything is back, and the modules go.
# The last file of a process that has died may end its pins: NVIDIA's driver has no call for that.
# vm-allow: ^nvidia: client peerdma_nvidia: put_pages\(0x[0-9a-f]+\) in another process
# vm-allow: ^nvidia: client peerdma_nvidia: the free callback of 0x[0-9a-f]+ ends without
# vm: --cards 4 --memory 2G
# vm-more: --cards 2 --memory 2G --kernel {6.1,6.12,7.2} --iommu {off,on}

. "$TOP/tests/vm/lib.sh"

copy=$BUILD/peers/fpga/fpga-copy
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
# As on users' machines.
echo 2 >/proc/sys/kernel/randomize_va_space
load_modules
chmod 0666 /dev/fpga*
"$BUILD/tests/kernel/strangers" mob 4600 sh -ec "$copy --size 9000; $copy --size 4093 --cards 1" ||
	die "one user's abuse reaches another one"
"$BUILD/tests/kernel/strangers" hoard 0 "$BUILD/peers/fpga/fpga-demo" || die "one user takes what others need"
[ "$(wc -l </sys/kernel/debug/peerdma/pins)" = 1 ] || die "pins of the dead are left"
unload_modules
