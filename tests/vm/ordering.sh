#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The pairs of programs of tests/ordering on softgpu.ko, where the DMA is an FPGA
# card's: in strict mode the right one is right, and the wrong one wrong.
# vm: --cpus 1 --cards 1 --timeout 600 --chaos strict=1
# vm-more: --cards 1 --timeout 600 --chaos strict=1 --kernel 6.12 --iommu on

. "$TOP/tests/vm/lib.sh"

load_modules
[ "$(cat /sys/kernel/debug/softgpu/chaos/strict)" = 1 ] || die "run me with vm/run --chaos strict=1"
count=0
for program in "$BUILD"/tests/ordering/ordering_*; do
	[ -x "$program" ] && [ -f "$program" ] || continue
	echo "== ${program##*/}"
	"$TOP/tests/ordering/check" "$program" 1 || die "${program##*/} does not do what it must in strict mode"
	count=$((count + 1))
done
[ $count -ge 13 ] || die "only $count programs were found below $BUILD/tests/ordering"
cat /sys/kernel/debug/softgpu/chaos/rules
unload_modules
