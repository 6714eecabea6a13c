#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What peerdma doctor says, and what DMA then does, on this machine, whichever it is: bus
# addresses lose data, while the card reports success, where and only where the doctor
# says so; mapped ones arrive everywhere; and a probe does not believe in success.  What
# an RDMA device and a drive do with the GPU's memory, on one machine.
# vm-allow: ^DMAR: (DRHD: handling fault|\[DMA (Read|Write).*PTE (Read|Write) access is not set)
# vm-allow: ^(eth0|lo) speed is unknown
# vm-allow: (rxe_mr_init_user: Unable to pin|rxe_reg_user_mr: returned)
# vm: --cpus 1 --topology ports --iommu off --kernel 6.1 --nics 1 --nvme zeros
# vm-more: --topology {ports,switch,sockets} --iommu {off,on,pt} --kernel {6.1,6.12}

. "$TOP/tests/vm/lib.sh"

doctor="$BUILD/peerdma/tools/peerdma doctor --all"
export COLUMNS=2000
told=$(mktemp)

gpu=$(devices 0x1af4 0x1110)
card=$(devices 0x1234 0x11e8)
[ -n "$gpu" ] && [ -n "$card" ] || die "the devices are not there"
path=$("$BUILD/peerdma/tools/peerdma" topo --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["pairs"][0]["path"])')

# finding VERDICT TITLE TEXT: the last doctor said so.
finding() {
	grep -A6 "^$1 *$2" "$told" | grep -q "$3" || { cat "$told"; die "it does not say: $*"; }
}

# silent TITLE: nothing of that kind.
silent() {
	! grep -q "^[a-z ]* $1" "$told" || { cat "$told"; die "it says something about: $1"; }
}

# ready DEVICE: its port is up and has an address, which both come a moment after it.
ready() {
	port=/sys/class/infiniband/$1/ports/1
	for _ in $(seq 600); do
		! grep -q ACTIVE $port/state || ! cat $port/gids/[0-7] 2>/dev/null | grep -qv '^[0:]*$' || return 0
		sleep 0.1
	done
	die "$1 has no port with an address"
}

# What is foretold.
$doctor GPU0 CARD0 >"$told"
case $(grep -A3 "^[a-z ]* IOMMU: .*CARD0" "$told") in
slow*"elsewhere or nowhere"*) foretold=lost ;;
ok*) foretold=arrives ;;
*) cat "$told"; die "the doctor cannot tell" ;;
esac
# By the rules of peerdma.ko, which go through QEMU's host bridge unless a switch does.
case "$path $foretold" in
"PIX arrives") finding ok "Peer-to-peer path" "bus-address (switch)" ;;
*) finding ok "Peer-to-peer path" "through-host-bridge (emulated)" ;;
esac
# The trap is named (broken, if this kernel has the p2pdma that falls into it), below a switch and nowhere else.
if [ "$path $foretold" = "PIX lost" ]; then
	finding "[bo][rk]" "[a-z]* *Switch and translating IOMMU" "p2pdma"
else
	silent "Switch and translating IOMMU"
fi

# What happens.
"$BUILD/tests/doctor/bus-dma" "$card" "$gpu"
case $? in
0) happened=arrives ;;
1) happened=lost ;;
*) die "the card cannot be tried" ;;
esac
[ $happened = $foretold ] || { cat "$told"; die "by bus addresses: foretold: $foretold, what happened: $happened"; }

# The kernel has noticed, and the doctor reads it.
$doctor GPU0 CARD0 >"$told"
if [ $happened = lost ]; then
	finding broken "What the kernel has noticed: CARD0" "DMAR.*fault addr"
else
	finding ok "What the kernel has noticed" "no such message"
fi

# Mapped, as peerdma's card does it, data arrives, in both directions.
load_modules
$doctor --probe "$card" "$gpu" >"$told"
finding ok Data.*written.to.the.GPU,.*read.from.the.GPU "all 9000 bytes arrived as sent"
finding ok "A GPU's memory.*written by the CPU.*read by the CPU" "all 9000 bytes arrived as sent"
finding ok "A GPU's memory.*dma-buf" "a dma-buf of 2097152 bytes"

# With an RDMA device and a drive, where this machine has them.  The device is software, takes no GPU's memory
# in a kernel, and takes that of a GPU in the process.
modprobe -q virtio_net || :
if [ ! -e /sys/class/net/eth0 ]; then
	:
elif ! command -v rdma >/dev/null || ! command -v ip >/dev/null || ! modprobe -q rdma_rxe || ! modprobe -q nvme; then
	echo "an RDMA device and a drive: not run: no iproute2, or a kernel without rdma_rxe or nvme"
else
	ip link set eth0 up && ip addr add 192.0.2.1/24 dev eth0 && rdma link add rxe0 type rxe netdev eth0 ||
		die "no software RDMA device"
	ready rxe0
	for _ in $(seq 600); do
		[ ! -e /dev/nvme0n1 ] || break
		sleep 0.1
	done
	[ -e /dev/nvme0n1 ] || die "no drive"
	$doctor --probe GPU0 NIC0 >"$told"
	finding "cannot tell" "Data moved by an RDMA device: GPU0 and NIC0 (rxe0, software)" "memory of the host: arrived by RDMA write and read"
	finding "cannot tell" "Data moved by an RDMA device" "dma-buf: ibv_reg_dmabuf_mr: Operation not supported"
	finding "cannot tell" "Data moved by an RDMA device" "peer memory: ibv_reg_mr: "
	finding "cannot tell" "Data moved by an RDMA device" "CPU's view: ibv_reg_mr: "
	$doctor --probe GPU0 NVME0 >"$told"
	finding "cannot tell" "Data read by an NVMe drive: GPU0 and NVME0" "into memory of the host: read"
	finding "cannot tell" "Data read by an NVMe drive" "into CUDA's address: pread with O_DIRECT: Bad address"
	finding "cannot tell" "Data read by an NVMe drive" "CPU's view of BAR1: pread with O_DIRECT: File exists"
	finding "cannot tell" "Data read by an NVMe drive" "p2pmem/size: No such file"
	rdma link delete rxe0
	ip link set lo up && rdma link add rxe1 type rxe netdev lo || die "no software RDMA device on lo"
	ready rxe1
	PEERDMA_PROVIDER=soft SOFTGPU_INPROCESS=1 $doctor --probe >"$told"
	finding ok "Data moved by an RDMA device.*RDMA write to the GPU.*write from the GPU.*read into the GPU.*read from the GPU, by the CPU's view" \
		"all 9000 bytes arrived as sent"
	rdma link delete rxe1
fi

# Memory that does not take what is written: the card reports success all the same.
setpci -s "$gpu" COMMAND=0:2
$doctor --probe "$card" "$gpu" >"$told"
code=$?
setpci -s "$gpu" COMMAND=2:2
[ $code = 1 ] || { cat "$told"; die "exit code $code where data was lost"; }
finding broken Data "success is reported"
unload_modules

echo "table: Linux $(uname -r | cut -d. -f1,2), $path: foretold $foretold, by bus addresses $happened, mapped arrives"
