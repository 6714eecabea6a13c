#!/bin/sh
# SPDX-License-Identifier: MIT
# vm: --cards 0 --nvme scratch --vram 64M
#
# The demonstration of storage, in the guest: makes a file system on the disk, loads the modules with struct pages for
# the GPU's memory, runs storage-demo with this script's arguments, and unloads everything, which fails if anything is left.
# "make demo-storage" boots the machine, runs this, and compares with what the disk did.

. "$(dirname "$0")/../../tests/vm/lib.sh"

mount_disk
insmod "$MODDIR/softgpu.ko" pages=generic || die "no softgpu with pages"
load_modules nvidia peerdma peerdma_nvidia
"$BUILD/peers/storage/storage-demo" ${WITNESS:+--witness "$WITNESS"} "$@" /mnt/disk /dev/nvme0n1
code=$?
[ "$code" = 0 ] || exit "$code"
umount /mnt/disk
unload_modules softgpu nvidia peerdma peerdma_nvidia
