#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The card's driver when things go wrong: calls with bad arguments, timeouts,
# signals, a removed card, a module in use, users who keep others waiting.
# vm-with: softgpu-nvp2p
# vm-more: --cards 2
# vm: --cards 2 --kernel 6.12 --iommu on

. "$TOP/tests/vm/lib.sh"

copy=$BUILD/peers/fpga/fpga-copy
parameters=/sys/module/peerdma_fpga/parameters

# code_of COMMAND...: in $code
code_of() {
	"$@"
	code=$?
}

load_modules
"$BUILD/peers/fpga/test-fpga-calls" || die "a call does not answer as documented"

# A transfer takes 100 ms: with less time given it fails, the card is cut off
# until its engine is idle, and then comes back.
echo 20 >$parameters/timeout_ms
code_of "$copy" --host --size 5000 --cards 0
[ $code = 4 ] || die "no timeout: exit code $code"
echo 5000 >$parameters/timeout_ms
sleep 0.3
"$copy" --host --size 5000 --cards 0 || die "the card did not come back after a timeout"

# The same in the middle of a copy whose memory is then freed: whichever notices
# first, the copy (4) or the revocation (0 or 4), no DMA goes on and the card recovers.
(
	sleep 0.3
	echo 20 >$parameters/timeout_ms
) &
code_of "$copy" --size 64K --revoke --cards 0
[ $code = 4 ] || [ $code = 0 ] || die "--revoke with a timeout: exit code $code"
wait
echo 5000 >$parameters/timeout_ms
sleep 0.3
"$copy" --size 5000 --cards 0 || die "the card did not come back after a revocation"

# Killed in the middle: the process goes, and so do its pins.
"$copy" --size 64K --cards 1 &
sleep 0.5
kill -9 $!
code_of wait $!
[ $code = 137 ] || die "not killed: $code"
"$copy" --size 5000 --cards 1 || die "the card does not work after its user was killed"

# Removed in the middle: the copy ends, the other card goes on, and a rescan brings it back.
card=$(readlink -f /sys/class/misc/fpga1/device)
"$copy" --size 64K --cards 1 &
sleep 0.5
echo 1 >"$card/remove"
code_of wait $!
[ $code = 4 ] || die "the copy did not fail when its card was removed: $code"
[ ! -e /dev/fpga1 ] || die "/dev/fpga1 is still there"
"$copy" --size 5000 || die "the other card does not work"
echo 1 >/sys/bus/pci/rescan
for _ in $(seq 600); do
	[ -e /dev/fpga1 ] && break
	sleep 0.1
done
"$copy" --size 5000 --cards 1 || die "the card did not come back"

# Users do not wait for one another, nor the administrator for them.
load_fuse
"$BUILD/tests/kernel/card_shared" || die "one user's copies reach another user's"

# An open node holds the module.
exec 3</dev/fpga0
! rmmod peerdma_fpga 2>/dev/null || die "the module went away under an open file"
exec 3<&-
unload_modules
