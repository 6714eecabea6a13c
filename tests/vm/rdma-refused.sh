#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A program without rights registers what is not its own, or is no memory, and forges work requests: each is refused, with
# the errno that programs expect and a line that says why, and the kernel stays well.
# vm-allow: ^peerdma_hca: .*Unable to pin memory region
# vm-allow: rxe0: (qp|pd|mr)#[0-9]+
# vm: --nics 1 --cards 0 --iommu on
# vm-more: --nics 1 --cards 0 --kernel {6.1,6.12,7.2} --iommu {off,on}

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

modules="softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem"
rdma_start
load_modules
"$BUILD/tests/rdma/rdma_refused" rxe0 peer >/tmp/told || { cat /tmp/told; die "addresses"; }
dmesg | grep -q "peerdma_peer_core: rxe0: no client accepted 0x[0-9a-f]*, 4194304 bytes" || die "the log does not say who refused"
! grep -q "paging on demand" /tmp/told || dmesg | grep -q "rxe0: on-demand registration of 1048576 bytes" ||
	die "the log does not say who refused to page"
with_verbs rdma_refused rxe0 files || die "dma-bufs"
dmesg | grep -q "rxe0: a dma-buf of peerdma is not registered" || die "the log does not say whose dma-buf it was"
"$BUILD/tests/rdma/rdma_forged" rxe0 "${ROUNDS:-30}" || die "receive requests without end"
rdma_stop
unload_modules
