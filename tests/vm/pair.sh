#!/bin/sh
# SPDX-License-Identifier: MIT
#
# peerdma doctor --pair between two machines with the software adapter and a software GPU each: it finds what differs, and
# with --probe moves data from GPU memory to GPU memory, each end by the ways that it has, and compares it.
# vm-allow: rxe0: (qp|pd|mr)#[0-9]+
# vm-allow: ^peerdma_hca: .*Unable to pin memory region
# vm: --cpus 1 --guests 2 --cards 0 --gpus 1 --timeout 600 --iommu on --env SHORT=1
# vm-more: --guests 2 --cards 0 --gpus 1 --timeout 600 --kernel {6.1,6.12,7.2} --iommu on
# vm-more: --guests 2 --cards 0 --gpus 1 --timeout 600 --iommu off

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

modules="softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem"
port=4700
told=/tmp/told
export COLUMNS=1000
PATH=$BUILD/peerdma/tools:$PATH
# What listens starts the command that it is asked for.
export PATH

rdma_start
load_modules

# says PATTERN...: the last command printed a line like each.
says() {
	for line; do
		grep -q "$line" $told || { cat $told; die "it does not say: $line"; }
	done
}

meet() {
	"$PEERDMA_VM/barrier" "$@" || die "the other guest has ended"
}

# pair CODES OPTION...: this machine with the other; the exit code is one of them.
pair() {
	codes=$1
	shift
	peerdma doctor --pair --rsh "$TOP/tests/vm/pair-relay call $port" "$@" guest1 >$told 2>/tmp/errors
	code=$?
	case " $codes " in
	*" $code "*) ;;
	*) cat $told /tmp/errors; die "exit code $code, not one of $codes" ;;
	esac
}

# serve COUNT NAME: remote commands, in the first guest, until the second has done.
serve() {
	"$TOP/tests/vm/pair-relay" listen $port "$1" &
	relay=$!
	meet "$2" --listening $port
	wait $relay || die "the relay has failed"
}

# No address of this machine is in its bundle, and the kind of each is. A tar file has its files' contents as they are:
# unpacking it would take as long as writing it.
peerdma doctor --bundle /tmp/m.tar >/dev/null
tr '\0' '\n' </tmp/m.tar >/tmp/m.txt || die "no bundle"
grep -aq "^rxe0.1.[0-9]*.IPv4-mapped$" /tmp/m.txt || die "no IPv4-mapped GID: $(grep -a "^rxe0" /tmp/m.txt)"
grep -aq "^rxe0.1.[0-9]*.link-local$" /tmp/m.txt || die "no link-local GID: $(grep -a "^rxe0" /tmp/m.txt)"
{
	cat /sys/class/infiniband/rxe0/ports/1/gids/[012] /sys/class/net/eth0/address
	printf '%s\n' 10.99.0 10.77.0
} >/tmp/addresses
! grep -anF -f /tmp/addresses /tmp/m.txt || die "the bundle has an address"

# 1: as they are. Each is two remote commands: a bundle, and the other end.
if [ "$GUEST" = 1 ]; then
	serve 2 alike
else
	meet alike
	# rxe has no DCB, which decides nothing.
	pair 0 --probe
	says "^  link layer .* same$" "^  MTU of the interface .*4500 *4500 *same$" "^  RoCE v2 GID .*index 1, IPv4-mapped *index 1, IPv4-mapped *same$" \
		"^  priorities with PFC .*cannot tell$" "^  the GPU's memory goes by  *dma-buf, peer memory *dma-buf, peer memory *same$"
	for way in "host memory" "dma-buf    " "peer memory"; do
		for operation in "write, A to B" "write, B to A" "read, A from B" "read, B from A"; do
			says "A's GPU0 and NIC0 (rxe0), B's GPU0 and NIC0 (rxe0) *$way *RDMA $operation *9000 equal$"
		done
	done
	[ "$(grep -c "9000 equal$" $told)" = 12 ] || die "more or less was moved: $(cat $told)"
fi

# 2: no peer memory on one side, dma-bufs on both; and another MTU, which no packet of RDMA is as large for.
if [ "$GUEST" = 1 ]; then
	unload_modules peerdma_peermem
	ip link set eth0 mtu 1500
	serve 2 mtu
else
	meet mtu
	pair 2 --probe
	says "^  MTU of the interface .*4500 *1500 *slow$" "^  the GPU's memory goes by  *dma-buf, peer memory *dma-buf *differs$" \
		"dma-buf *RDMA write, A to B *9000 equal$" "dma-buf *RDMA read, B from A *9000 equal$" \
		"peer memory *- *- not registered: B: ibv_reg_mr: Bad address$"
fi

if [ -n "${SHORT-}" ]; then
	[ "$GUEST" != 1 ] || load_modules peerdma_peermem
	meet end
	rdma_stop
	unload_modules
	exit 0
fi

# 3: peer memory only on one side, dma-bufs only on the other: each takes its own. The fault gives importers addresses that
# the IOMMU does not know; without one they are good.
if grep -qs DMA /sys/class/infiniband/rxe0/device/iommu_group/type; then
	if [ "$GUEST" = 1 ]; then
		load_modules peerdma_peermem
		"$TOP/vm/chaos" dmabuf_raw=1
		serve 2 mixed
		"$TOP/vm/chaos" dmabuf_raw=0
		unload_modules peerdma_peermem
	else
		unload_modules peerdma_peermem
		meet mixed
		pair 2 --probe
		says "dma-buf *- *- not registered: B: ibv_reg_dmabuf_mr: .*Bad address$" "peer memory *- *- not registered: A: ibv_reg_mr: Bad address$" \
			"A: dma-buf, B: peer memory *RDMA write, A to B *9000 equal$" "A: dma-buf, B: peer memory *RDMA write, B to A *9000 equal$" \
			"A: dma-buf, B: peer memory *RDMA read, A from B *9000 equal$" "A: dma-buf, B: peer memory *RDMA read, B from A *9000 equal$"
		load_modules peerdma_peermem
	fi
fi

# 4: packets of RDMA are lost in the first machine: said within the time limit, and the rest is not tried.
if [ "$GUEST" = 1 ]; then
	load_modules peerdma_peermem
	ip link set eth0 mtu 4500
	tc qdisc add dev eth0 clsact || die "no filter"
	tc filter add dev eth0 ingress protocol ip u32 match ip protocol 17 0xff match ip dport 4791 0xffff action drop || die "no filter"
	serve 2 lost
	tc qdisc del dev eth0 clsact
else
	meet lost
	pair 1 --probe
	# The adapter gives up, or its caller does before.
	says "host memory *RDMA write, A to B *9000 failed: the device report.*\(retry counter exceeded\|timed out\)$"
	grep -q "^peerdma: doctor: RDMA write, A to B: waiting$" /tmp/errors || die "nothing is said of the wait: $(cat /tmp/errors)"
	[ "$(grep -c "RDMA write\|RDMA read" $told)" = 1 ] || die "more was tried: $(cat $told)"
fi
meet end

rdma_stop
unload_modules
