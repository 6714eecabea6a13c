#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Many requests under way between two machines, over a wire that delays, loses, repeats and exchanges packets, and with an
# adapter that waits for answers less long than they take: each is done once, in order, with all its bytes.
#
# Messages of several MiB, too: their packets wait for the net device, so that none is lost there and sent again.  A read that
# waits so ends at once where its queue pair is destroyed or the process killed.
# vm-allow: rxe0: (qp|pd|mr)#[0-9]+ 
# vm: --cpus 1 --guests 2 --cards 0 --gpus 1 --timeout 300 --iommu on --env REQUESTS=40
# vm-more: --guests 2 --cards 0 --gpus 1 --timeout 3000 --kernel {6.1,6.12,7.2} --iommu {on,off} --env REQUESTS=20000

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

modules="softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem"
rdma_start
load_modules
modprobe -a sch_netem sch_tbf || { echo "this kernel has no slow or lossy wire"; exit 77; }

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

# large KIND MIB END: the first guest is read from, and ends as END says.
large() {
	echo "== $*"
	expected=0
	if [ "$GUEST" = 1 ]; then
		[ "$3" != kill ] || expected=137
		with_verbs rdma_large rxe0 "$@"
	else
		with_verbs rdma_large rxe0 "$@" guest1
	fi
	code=$?
	[ $code = $expected ] || die "$*: exit code $code"
	"$PEERDMA_VM/barrier" "$1-$2-$3" || die "the other guest has ended"
}

# slow RATE QUEUE: the net device drops what has no place in its queue.
slow() {
	tc qdisc replace dev eth0 root tbf rate "$1" burst 16kb limit "$2" || die "no slow wire"
}

# More packets than the net device's queue has place for.
large host 16 whole
more=
[ "${REQUESTS:-400}" -le 400 ] || more=1
for kind in ${more:+dmabuf peer}; do
	large "$kind" 64 whole
done
# As few as that a queue pair has more under way.
slow 50mbit 24kb
large host 2 read
[ -z "$more" ] || large host 2 lossy
# So slow that the read would take longer than the kernel waits for a queue pair to end.
slow 2mbit 4mb
large host 16 destroy
large host 16 kill
tc qdisc del dev eth0 root

# 8: a millisecond, and so the shortest that the kernel's clock has.
[ -z "$more" ] || wire host 8 delay 10ms 5ms
wire dmabuf 8 delay 10ms 5ms
wire peer 14 loss 1% duplicate 1% reorder 2% delay 1ms
# And a net device that drops what its queue has no place for.
wire host 8 loss 2% limit 8

rdma_stop
unload_modules
