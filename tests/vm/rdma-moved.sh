#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The software RDMA adapter and a dma-buf that moves under requests, and is revoked; no byte reaches a place that it has left.
# vm-allow: rxe0: (qp|pd|mr)#[0-9]+ 
# vm: --nics 1 --cards 0 --gpus 0 --iommu on --timeout 300 --env SECONDS_OF=3
# vm-more: --nics 1 --cards 0 --gpus 0 --kernel {6.1,6.12,7.2} --iommu {off,on} --timeout 1000 --env SECONDS_OF=120

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

load_modules dmabuf_mover
rdma_start
mount -t debugfs none /sys/kernel/debug 2>/dev/null
mover=$BUILD/tests/kernel/mover_fd
moved() {
	LD_PRELOAD=$verbs "$mover" 1048576 sh -c '"$0" rxe0 "$@"; code=$?; cat "$MOVER_CONTROL"; exit $code' "$BUILD/tests/rdma/rdma_move" "$@" >/tmp/told ||
		{ cat /tmp/told; die "requests fail on memory that moves; arguments: $*"; }
	cat /tmp/told
	grep -qx 'stale 0' /tmp/told || die "bytes went to a place that the buffer had left"
}
moved "${SECONDS_OF:-5}"
# It moves whenever it is not being mapped, which takes half a second, or less than a jiffy.
moved 0 500
moved 0 0
LD_PRELOAD=$verbs "$mover" 33554432 "$BUILD/tests/rdma/rdma_held" rxe0 33554432 || die "answers that are held"
if [ -e /sys/kernel/debug/dma-api ]; then
	echo "many regions of a slow exporter: not run; this kernel checks DMA mappings, and permits seven of a page"
else
	# shellcheck disable=SC2016 # the inner shell has these variables
	LD_PRELOAD=$verbs "$mover" 4096 sh -c 'SLOW_FD=$MOVER_FD SLOW_CONTROL=$MOVER_CONTROL exec "$0" 4096 "$@"' "$mover" \
		"$BUILD/tests/rdma/rdma_crowd" rxe0 || die "a program waits for another's slow exporter"
	if rdma_cgroup; then
		(echo 0 >"$group/cgroup.procs" && LD_PRELOAD=$verbs exec "$mover" 4096 "$BUILD/tests/rdma/rdma_charged" rxe0 "$group/memory.stat") ||
			die "what the adapter maps again is not charged to the program"
		rmdir "$group"
	fi
fi
rdma_stop
unload_modules dmabuf_mover
