#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The user libraries' tests (tests/user) on the module instead of in process.
# vm: --cpus 1 --timeout 600 --gpus 2
# vm-more: --timeout 600 --gpus 1 --kernel 6.12 --iommu on
# vm-allow: ^softgpu: driver=581: must be

. "$TOP/tests/vm/lib.sh"

load_modules softgpu
failed=
for t in init context memory managed pointer tokens vmm pool copy after_fault prologues stream values reserved host_functions cancel threads runtime cuda13 runtime13 nvml mps hip hsa "removal --really"; do
	echo "== $t"
	# shellcheck disable=SC2086
	"$BUILD/tests/user/user_"$t || [ $? = 77 ] || failed="$failed $t"
done
unload_modules softgpu
insmod "$MODDIR/softgpu.ko" driver=580 || die "softgpu.ko does not load"
echo "== the answers of an H200 with driver 580"
python3 "$TOP/tests/gpu/answers.py" "$BUILD/tests/gpu/answers" "$TOP/tests/gpu/answers-h200-580.txt" || failed="$failed answers"
SOFTGPU_DRIVER=610 SOFTGPU_LOG=1 "$BUILD/tests/gpu/answers" 2>&1 | grep -q "SOFTGPU_DRIVER=610, but softgpu.ko stands in for release 580" ||
	failed="$failed another-release"
unload_modules softgpu
insmod "$MODDIR/softgpu.ko" driver=581 2>/dev/null && failed="$failed driver=581"
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
