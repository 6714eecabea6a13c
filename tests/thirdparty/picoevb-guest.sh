#!/bin/sh
# SPDX-License-Identifier: MIT
#
# In the guest: jetson-rdma-picoevb on softgpu, with a simulated FPGA. picoevb.sh has built all of it in
# PICOEVB and runs this.
set -u

. "$TOP/tests/vm/lib.sh"
: "${PICOEVB:?run me through tests/thirdparty/picoevb.sh}"
export LD_LIBRARY_PATH="$BUILD/softgpu/user:$PICOEVB"

# try MAKE PROGRAM...: with the module of that make of GPU.
try() {
	make=$1
	shift
	for program; do
		timeout 100 "$PICOEVB/programs-$make/$program" || die "$program ($make) ended with $?"
		echo "  $make: $program"
	done
}

# Before softgpu.ko, which takes what has ivshmem's identity.
card=$(lspci -Dn -d 1af4:1110 | tail -1 | cut -d' ' -f1)
insmod "$PICOEVB/card/picoevb_card.ko" bdf="$card" || die "picoevb_card.ko does not load"
load_modules softgpu
for make in desktop tegra; do
	case $make in
	desktop) personality=nvidia && load_modules nvidia ;;
	tegra) personality=nvidia_p2p && insmod "$MODDIR/nvidia_p2p.ko" client_frees=1 ;;
	esac || die "softgpu's $personality.ko does not load"
	insmod "$PICOEVB/module-$make/picoevb-rdma.ko" || die "picoevb-rdma.ko does not load"
	[ -c /dev/picoevb ] || die "picoevb-rdma.ko has not bound to the card"
	# shellcheck disable=SC2086 # KERNELS is none or one
	try $make rdma-malloc rdma-malloc-c2h-perf rdma-malloc-h2c-perf rdma-cuda-c2h-perf rdma-cuda-h2c-perf $KERNELS
	rmmod picoevb-rdma || die "picoevb-rdma.ko does not unload"
	unload_modules "$personality"
done
unload_modules softgpu
rmmod picoevb_card || die "picoevb_card.ko does not unload"
