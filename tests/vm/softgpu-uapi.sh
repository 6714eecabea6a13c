#!/bin/sh
# SPDX-License-Identifier: MIT
#
# /dev/softgpu0 as its header describes it: bad arguments, foreign files, sudden
# deaths. With VRAM on a PCI device, and in system memory when there is none.
# vm: --cpus 1 --timeout 300 --kernel 6.12
# vm-more: --timeout 300 --kernel 6.1
# vm-more: --timeout 300 --kernel {6.12,7.2} --iommu on

. "$TOP/tests/vm/lib.sh"

# conforms [PARAMETER]: the device does what its header says
conforms() {
	insmod "$MODDIR/softgpu.ko" engines=3 "$@" || die "softgpu.ko does not load"
	"$BUILD/tests/kernel/softgpu_uapi_test" || die "the device does not do what its header says${1:+, with $1}"
	unload_modules softgpu
}

load_fuse
conforms
for device in $(lspci -Dn -d 1af4:1110 | cut -d' ' -f1); do
	echo 1 >"/sys/bus/pci/devices/$device/remove"
done
conforms sysmem=128
