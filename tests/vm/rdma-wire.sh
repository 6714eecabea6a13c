#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Many requests under way between two machines, over a wire that delays, loses, repeats and exchanges packets, and with an
# adapter that waits for answers less long than they take: each is done once, in order, with all its bytes.
# vm-allow: rxe0: (qp|pd|mr)#[0-9]+ 
# vm: --guests 2 --cards 0 --gpus 1 --timeout 300 --iommu on --env REQUESTS=200
# vm-more: --guests 2 --cards 0 --gpus 1 --timeout 3000 --kernel {6.1,6.12,7.2} --iommu {on,off} --env REQUESTS=20000

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

modules="softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem"
rdma_start
load_modules
modprobe sch_netem || { echo "this kernel loses no packets on purpose"; exit 77; }

# wire KIND TIMEOUT NETEM...: what the wire does in each direction.
wire() {
	kind=$1 timeout=$2
	shift 2
	echo "== $kind, timeout $timeout, wire: $*"
	tc qdisc replace dev eth0 root netem "$@" || die "no netem $*"
	if [ "$GUEST" = 1 ]; then
		with_verbs rdma_wire rxe0 "$kind" "$timeout" "${REQUESTS:-400}" || die "$kind, $*: the receiving end"
	else
		with_verbs rdma_wire rxe0 "$kind" "$timeout" "${REQUESTS:-400}" guest1 || die "$kind, $*: the requesting end"
	fi
	tc qdisc del dev eth0 root
	"$PEERDMA_VM/barrier" "$kind-$*" || die "the other guest has ended"
}

# 8: a millisecond, and so the shortest that the kernel's clock has.
wire host 8 delay 10ms 5ms
wire dmabuf 8 delay 10ms 5ms
wire peer 14 loss 1% duplicate 1% reorder 2% delay 1ms
wire host 8 loss 2%

rdma_stop
unload_modules
