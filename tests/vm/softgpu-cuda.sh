#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The user libraries' tests (tests/user) on the module instead of in process.
# vm: --cpus 1 --timeout 600 --gpus 2
# vm-more: --timeout 600 --gpus 1 --kernel 6.12 --iommu on

. "$TOP/tests/vm/lib.sh"

load_modules softgpu
failed=
for t in init context memory managed pointer tokens vmm pool copy after_fault prologues stream values reserved host_functions cancel threads runtime nvml mps hip hsa "removal --really"; do
	echo "== $t"
	# shellcheck disable=SC2086
	"$BUILD/tests/user/user_"$t || [ $? = 77 ] || failed="$failed $t"
done
unload_modules softgpu
insmod "$MODDIR/softgpu.ko" compute_mode=3 || die "softgpu.ko does not load"
for t in compute_mode mps; do
	echo "== $t, one context at a time"
	"$BUILD/tests/user/user_$t" || failed="$failed $t,exclusive"
done
unload_modules softgpu

echo "== HIP where the BAR is smaller than VRAM"
insmod "$MODDIR/softgpu.ko" bar1=64 || die "softgpu.ko does not load"
SOFTGPU_LOG=1 "$BUILD/tests/user/user_hip" --small-bar 2>/tmp/small-bar || failed="$failed hip,small-bar"
cat /tmp/small-bar
grep -q "shows 64 of 256 MiB" /tmp/small-bar || die "it is not said that the BAR is too small"
unload_modules softgpu
[ -z "$failed" ] || die "these do not hold on the module:$failed"
