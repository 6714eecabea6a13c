#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Every rule of nv-p2p.h, asked of the NVIDIA personality by a client module.
# Two rules have the provider log the client's mistake.
# vm: --timeout 300 --gpus 2 --cards 2 --allow own.free.callback --allow cannot.address
# vm-more: --timeout 300 --cards 2 --iommu on --allow own.free.callback
# vm: --timeout 300 --cards 2 --iommu on --kernel 6.12 --allow own.free.callback
# vm: --timeout 300 --cards 1 --iommu pt --kernel 6.12 --allow own.free.callback --allow cannot.address
# vm: --timeout 300 --gpus 0 --allow own.free.callback

. "$TOP/tests/vm/lib.sh"

parameters="bar1=64 bar1_reserved=1024"
[ -n "$(lspci -n -d 1af4:1110)" ] || parameters="$parameters sysmem=128"
insmod "$MODDIR/softgpu.ko" $parameters || die "softgpu.ko does not load"
load_modules nvidia nvp2p_test
"$BUILD/tests/kernel/nvp2p_rules" || die "the provider breaks rules of nv-p2p.h"
unload_modules softgpu nvidia nvp2p_test

# An aperture as before CUDA 7.
insmod "$MODDIR/softgpu.ko" $parameters bar1_per_pin=1 || die "softgpu.ko does not load"
load_modules nvidia nvp2p_test
"$BUILD/tests/kernel/nvp2p_rules" "taken anew" || die "the aperture is not counted by the pin"
unload_modules softgpu nvidia nvp2p_test
