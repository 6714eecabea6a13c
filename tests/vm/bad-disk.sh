#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Files and GPU memory on a disk with bad sectors (errors that QEMU injects), and on one that is full.
# vm-allow: ^nvme1n1: I/O Cmd\(0x[12]\) @ LBA .*, I/O Error
# vm-allow: ^(critical medium|I/O) error, dev nvme1n1, sector
# vm-allow: ^Buffer I/O error on dev nvme1n1, logical block
# vm: --cpus 2 --cards 0 --vram 64M --iommu off --nvme scratch --nvme bad
# vm-more: --cpus 2 --cards 0 --vram 64M --iommu on --nvme scratch --nvme bad --kernel {6.12,7.2}

. "$TOP/tests/vm/lib.sh"

mount_disk
for _ in $(seq 100); do
	bad=$(grep -lx 'nvme1 *' /sys/block/nvme*/device/serial) && break
	sleep 0.1
done
bad=${bad#/sys/block/}
bad=/dev/${bad%%/*}
[ -b "$bad" ] || die "no bad disk"

insmod "$MODDIR/softgpu.ko" pages=generic || die "no softgpu with pages"
load_modules nvidia peerdma peerdma_nvidia
export PEERDMA_PROVIDER=kernel
"$BUILD/tests/lib/live_bad_disk" bad "$bad" || die "bad sectors"
"$BUILD/tests/lib/live_bad_disk" full /mnt/disk || die "a full disk"
"$BUILD/tests/cufile/cufile_bad_disk" "$bad" /mnt/disk || die "cuFile on a bad disk"
unload_modules softgpu nvidia peerdma peerdma_nvidia
umount /mnt/disk
