#!/bin/sh
# SPDX-License-Identifier: MIT
# vm-with: softgpu-cuda
# vm: --gpus 1
#
# The udev rule that packages install: /dev/peerdma is for a group (for root alone without the rule), and a provider comes with the bridge, whichever of
# the bridge and the GPU's driver is loaded last; no GPU driver comes along.
set -eu

PATH=$PATH:/usr/sbin:/sbin
die() {
	echo "$0: $*" >&2
	dmesg | tail -n 20 >&2
	exit 1
}

udevd=$(ls /usr/lib/systemd/systemd-udevd /lib/systemd/systemd-udevd 2>/dev/null | head -n 1)
[ -n "$udevd" ] || { echo "skip: no udev here"; exit 77; }
release=$(uname -r)
# depmod reads all modules that are there, which takes a minute; these need no others.
mount -t tmpfs none "/lib/modules/$release"
mkdir -p "/lib/modules/$release/updates/peerdma" /run/udev/rules.d
cp "$MODDIR"/softgpu.ko "$MODDIR"/nvidia.ko "$MODDIR"/peerdma.ko "$MODDIR"/peerdma_nvidia.ko "/lib/modules/$release/updates/peerdma"
cp "$TOP/packaging/udev/peerdma.rules" /run/udev/rules.d/60-peerdma.rules
depmod "$release"
modprobe peerdma
rights=$(stat -c '%a %U' /dev/peerdma)
[ "$rights" = "600 root" ] || die "/dev/peerdma has $rights without a rule"
modprobe -r peerdma
groupadd -r peerdma
"$udevd" --daemon

loaded() {
	[ -d "/sys/module/$1" ]
}

# Events are told after the module's start, and done by others.
comes() {
	udevadm settle --timeout 60
	loaded "$1" || die "$1 does not come: $2"
}

udevadm settle --timeout 60
! loaded softgpu || die "softgpu is loaded by itself"

modprobe peerdma
udevadm settle --timeout 60
! loaded peerdma_nvidia && ! loaded nvidia || die "a GPU driver is loaded with the bridge"
rights=$(stat -c '%a %G' /dev/peerdma)
[ "$rights" = "660 peerdma" ] || die "/dev/peerdma has $rights"

modprobe nvidia
comes peerdma_nvidia "the driver was loaded after the bridge"

modprobe -r peerdma_nvidia peerdma nvidia softgpu
modprobe nvidia
modprobe peerdma
comes peerdma_nvidia "the bridge was loaded after the driver"
modprobe -r peerdma_nvidia peerdma nvidia softgpu
udevadm control --exit
umount "/lib/modules/$release"
echo "the provider comes in either order; /dev/peerdma is $rights"
