# SPDX-License-Identifier: MIT
#
# For tests that run in the guest: sourced, not run.  The harness sets BUILD
# (build/user) and MODDIR (build/modules/KERNEL).

: "${BUILD:?run me through tests/run or vm/run: BUILD is not set}"
: "${MODDIR:?run me through tests/run or vm/run: MODDIR is not set}"

# In the order of their needs.
modules="softgpu nvidia peerdma peerdma_nvidia peerdma_fpga"

# softgpu's libcuda, NVML and HIP lie here; a search over the guest's file system would be slow.
LD_LIBRARY_PATH=$BUILD/softgpu/user${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

die() {
	echo "$0: $*" >&2
	exit 1
}

# bind_cards bind|unbind: a driver that does nothing, for cards without one, or away with it again. Without a driver
# nothing is mapped for a device, except on a PC without an IOMMU.
bind_cards() {
	for idle in $(grep -lx 0x11e8 /sys/bus/pci/devices/*/device); do
		idle=${idle%/device}
		[ "$(uname -m)" != x86_64 ] || [ -e "$idle/iommu_group" ] || continue
		[ -e /sys/module/idle_driver ] || insmod "$MODDIR/idle_driver.ko" || die "no driver for cards without one"
		case $1:$(readlink "$idle/driver") in
		bind:) echo idle_driver >"$idle/driver_override"
			echo "${idle##*/}" >/sys/bus/pci/drivers_probe ;;
		unbind:*/idle_driver) echo >"$idle/driver_override"
			echo "${idle##*/}" >"$idle/driver/unbind" ;;
		esac
	done
}

# devices VENDOR DEVICE: the addresses of all PCI devices of that kind. No commands: a machine has many devices.
devices() {
	for found in /sys/bus/pci/devices/*; do
		read -r vendor <"$found/vendor"
		read -r model <"$found/device"
		[ "$vendor $model" != "$1 $2" ] || echo "${found##*/}"
	done
}

# nvme_disk: loads the driver of the NVMe disk, and waits until /dev/nvme0n1 is there.
nvme_disk() {
	modprobe -q nvme || [ -e /sys/bus/pci/drivers/nvme ] || die "no driver for the disk"
	for _ in $(seq 100); do
		[ ! -e /dev/nvme0n1 ] || return 0
		sleep 0.1
	done
	die "no disk"
}

# capture_modules: what drivers of capture cards build on.
capture_modules() {
	modprobe -qa videodev videobuf2-v4l2 videobuf2-dma-sg || [ -e /sys/class/video4linux ] || die "no video4linux"
}

# mount_disk [xfs]: an empty ext4 on it, or another, at /mnt/disk.
mount_disk() {
	nvme_disk
	modprobe -q "${1:-ext4}" || grep -qw "${1:-ext4}" /proc/filesystems || die "no ${1:-ext4}"
	case ${1:-ext4} in
	ext4)	mkfs.ext4 -qF /dev/nvme0n1 ;;
	*)	"mkfs.$1" -qf /dev/nvme0n1 ;;
	esac || die "no file system on the disk"
	mkdir -p /mnt/disk
	mount /dev/nvme0n1 /mnt/disk || die "the disk cannot be mounted"
}

# load_modules [MODULE...]: all of them, or those named; then what vm/run --chaos asked for.
load_modules() {
	bind_cards unbind
	for module in ${*:-$modules}; do
		insmod "$MODDIR/$module.ko" || die "$module.ko does not load: see the kernel's log"
	done
	bind_cards bind
	# No udev here: what the package's rule does for a group, for all users.
	[ ! -c /dev/peerdma ] || chmod 0666 /dev/peerdma
	[ -z "${PEERDMA_CHAOS-}" ] || [ ! -e /sys/module/softgpu ] || "$TOP/vm/chaos" || die "vm/run --chaos cannot be followed"
}

# load_fuse: for tests/kernel/unanswered.h; /dev/fuse is open to all users, as udev's rule has it.
load_fuse() {
	[ -c /dev/fuse ] || modprobe fuse || die "no FUSE on this kernel"
	chmod 0666 /dev/fuse
}

# unload_modules [MODULE...]: in reverse; each must go, with nothing left that holds it.
# Not at once: peerdma_nvidia is held until the process is gone whose pin another gave back.
unload_modules() {
	reversed=
	for module in ${*:-$modules}; do
		reversed="$module $reversed"
	done
	for module in $reversed; do
		tries=0
		# No commands: starting one takes as long as unloading a module.
		while read -r uses 2>/dev/null <"/sys/module/$module/refcnt" && [ "$uses" != 0 ] && [ $tries -lt 600 ]; do
			sleep 0.1
			tries=$((tries + 1))
		done
		rmmod "$module" || die "$module does not unload: $uses uses are left"
	done
}
