#!/bin/sh
# SPDX-License-Identifier: MIT
#
# In the virtual machine: RDMA writes to GPU memory and to host memory, by the software adapter.

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

rdma_start
load_modules softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem
LD_PRELOAD=$verbs "$BUILD/bench/bench-rdma" "$@"
