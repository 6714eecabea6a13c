#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Files and GPU memory: peerdma_file.h on ext4 and on xfs on an NVMe disk, directly, where GPU memory has struct pages; and by copies,
# where it has none, and where the file is on no disk.
# Then the demonstration, on the same disk.
# vm-with: page-views
# vm: --cpus 2 --cards 0 --vram 64M --iommu off --nvme scratch --timeout 900
# vm-more: --cpus 2 --cards 0 --vram 64M --iommu on --nvme scratch --timeout 900
# vm-more: --cpus 2 --cards 0 --vram 64M --iommu on --nvme scratch --kernel 6.12 --timeout 900
# vm-more: --cpus 2 --cards 0 --vram 64M --iommu on --nvme scratch --kernel 7.2 --timeout 900

. "$TOP/tests/vm/lib.sh"

files() {
	PEERDMA_PROVIDER=kernel "$BUILD/tests/lib/live_files" "$@" || die "files: $*"
}

# Queues: with io_uring, with threads in a filter of system calls as containers have, and where io_uring is taken away.
queues() {
	kind=$1
	shift
	for engine; do
		PEERDMA_PROVIDER=kernel "$BUILD/tests/lib/live_queue" "$kind" "$engine" /mnt/disk || die "queues: $kind, $engine"
	done
}

mount_disk

insmod "$MODDIR/softgpu.ko" pages=generic || die "no softgpu with pages"
load_modules nvidia peerdma peerdma_nvidia
files direct /mnt/disk
queues direct ring filtered lost
if [ -e /proc/sys/kernel/io_uring_disabled ]; then
	echo 2 >/proc/sys/kernel/io_uring_disabled
	queues direct disabled
	echo 0 >/proc/sys/kernel/io_uring_disabled
fi
# The drive is only read from.
disk=$(readlink -f /sys/block/nvme0n1/device/device)
text=$("$BUILD/peerdma/tools/peerdma" doctor --all --probe "$(devices 0x1af4 0x1110)" "${disk##*/}") || [ $? -lt 4 ] || die "doctor: $text"
echo "$text" | grep -qE "a page view +read from the drive +4096 equal$" || die "the doctor's probe does not read into a page view: $text"
files copied /tmp
umount /mnt/disk
files direct /dev/nvme0n1
mount_disk
PEERDMA_PROVIDER=kernel "$BUILD/tests/cufile/cufile_test" /mnt/disk || die "cuFile"
umount /mnt/disk
mount_disk xfs
files direct /mnt/disk
PEERDMA_PROVIDER=kernel "$BUILD/tests/cufile/cufile_test" /mnt/disk || die "cuFile on xfs"
umount /mnt/disk
mount_disk
unload_modules softgpu nvidia peerdma peerdma_nvidia

load_modules softgpu nvidia peerdma peerdma_nvidia
files copied /mnt/disk
queues copied ring
unload_modules softgpu nvidia peerdma peerdma_nvidia

umount /mnt/disk
"$TOP/peers/storage/demo.sh" || die "the demonstration"
