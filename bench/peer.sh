#!/bin/sh
# SPDX-License-Identifier: MIT
#
# In the virtual machine: a registration through each peer-memory client, one after the other.

. "$TOP/tests/vm/lib.sh"

figures=/tmp/bench-peer
rm -f "$figures"
load_modules softgpu nvidia peerdma peerdma_nvidia pinbench peer_client_test
other=
if [ -n "$PEERMEM" ]; then
	insmod "$PEERMEM" || die "nvidia-peermem does not load: see the kernel's log"
	"$BUILD/bench/bench-peer" nvidia-peermem "$figures" || exit
	rmmod nvidia_peermem
	other=nvidia-peermem
fi
load_modules peerdma_peermem
"$BUILD/bench/bench-peer" peerdma_peermem "$figures" $other
