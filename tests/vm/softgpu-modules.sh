#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The modules themselves: what they show, when they may go, and GPUs that are
# taken away under open files and live pins.
# The wrong parameters are told in the log.
# vm-with: softgpu-nvp2p
# vm-allow: ^softgpu: (bar1_reserved|engines|sysmem_gpus)=
# vm-more: --timeout 300 --gpus 2 --cards 1
# vm: --timeout 300 --gpus 2 --cards 1 --kernel 6.12 --iommu on

. "$TOP/tests/vm/lib.sh"

debug=/sys/kernel/debug/softgpu
grep -q debugfs /proc/mounts || mount -t debugfs none /sys/kernel/debug

# value FILE KEY
value() {
	sed -n "s/^$2: //p" "$1"
}

# ---- loading, and what is to be seen ----
for wrong in bar1_reserved=7 "bar1=1 bar1_reserved=2048" engines=0 engines=17 "sysmem=16 sysmem_gpus=17"; do
	! insmod "$MODDIR/softgpu.ko" $wrong 2>/dev/null || die "softgpu.ko was loaded with $wrong"
done
insmod "$MODDIR/softgpu.ko" bar1=32 bar1_reserved=2048 sysmem=16 || die "softgpu.ko does not load"
[ "$(ls /dev/softgpu? | wc -l)" = 3 ] || die "not two GPUs on PCI and one in system memory"
[ "$(stat -c %a /dev/softgpu0)" = 666 ] || die "programs may not open /dev/softgpu0"
[ "$(cd /dev/dri && echo renderD*)" = "renderD160 renderD161 renderD162" ] || die "not a render node for each GPU"
[ "$(stat -c %a /dev/dri/renderD160)" = 666 ] || die "programs may not open /dev/dri/renderD160"
[ "$(value $debug/0/bar1 total)" = $((32 << 20)) ] || die "bar1= is not heeded"
[ "$(value $debug/0/bar1 used)" = $((2 << 20)) ] || die "bar1_reserved= is not heeded"
[ "$(value $debug/2/info memory)" = system ] || die "GPU 2 is not in system memory"
address=$(value $debug/0/info memory)
[ "$(readlink -f /sys/class/softgpu/softgpu0/device)" = "$(readlink -f "/sys/bus/pci/devices/$address")" ] || \
	die "/sys/class/softgpu/softgpu0 does not lead to its PCI device"
grep -q softgpu /proc/iomem || die "VRAM is not claimed in /proc/iomem"
uuid=$(value $debug/0/info uuid)
[ "$uuid" != "$(value $debug/1/info uuid)" ] || die "two GPUs have one UUID"

# ---- unloading ----
exec 8</dev/softgpu0
! rmmod softgpu 2>/dev/null || die "softgpu.ko was unloaded with a file open"
exec 8<&-
load_modules nvidia
! rmmod softgpu 2>/dev/null || die "softgpu.ko was unloaded below nvidia.ko"
unload_modules softgpu nvidia
[ ! -e /dev/softgpu0 ] && [ ! -e /dev/dri ] && [ ! -e $debug ] || die "something is left after unloading"
! grep -q softgpu /proc/iomem || die "VRAM is still claimed in /proc/iomem"
for round in 1 2 3 4 5; do
	load_modules softgpu nvidia
	[ "$(value $debug/0/info uuid)" = "$uuid" ] || die "GPU 0 has another UUID after loading again"
	for key in used reserved; do
		[ "$(value $debug/0/bar1 $key)" = $((1 << 20)) ] || die "the driver uses no part of BAR1 itself ($key)"
	done
	unload_modules softgpu nvidia
done

# ---- removal ----
load_modules softgpu nvidia nvp2p_test
card=$(lspci -n -d 1234:11e8 | cut -d: -f1 | head -1)
for how in unbind remove; do
	"$BUILD/tests/kernel/softgpu_removal_test" $how "$address" "0x${card}00" || die "$how: see above"
done
unload_modules softgpu nvidia nvp2p_test
