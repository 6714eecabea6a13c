#!/bin/sh
# SPDX-License-Identifier: MIT
#
# /dev/softgpu0 as its header describes it: bad arguments, foreign files, sudden
# deaths. With VRAM on a PCI device, and in system memory when there is none.
# vm: --timeout 300
# vm: --timeout 300 --gpus 0 --kernel 6.12
# vm-more: --timeout 300 --kernel {6.12,7.2} --iommu on

. "$TOP/tests/vm/lib.sh"

parameters=engines=3
[ -n "$(lspci -n -d 1af4:1110)" ] || parameters="$parameters sysmem=128"
insmod "$MODDIR/softgpu.ko" $parameters || die "softgpu.ko does not load"
"$BUILD/tests/kernel/softgpu_uapi_test" || die "the device does not do what its header says"
unload_modules softgpu
