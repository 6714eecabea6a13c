#!/bin/sh
# SPDX-License-Identifier: MIT
#
# In the virtual machine: a file on an NVMe disk, read into GPU memory that has struct pages.

. "$TOP/tests/vm/lib.sh"

mount_disk
# Where the clock counts instructions, it jumps while the disk works.
echo 3600000 >/sys/block/nvme0n1/queue/io_timeout
insmod "$MODDIR/softgpu.ko" pages=generic || die "no softgpu with pages"
load_modules nvidia peerdma peerdma_nvidia
PEERDMA_PROVIDER=kernel "$BUILD/bench/bench-storage" /mnt/disk "$@"
