#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What peerdma doctor and topo say of the software RDMA adapter, part by part of the RDMA stack; the probe moves bytes in each
# way that the adapter has, and says what it moved.
# vm-with: rdma-life
# vm-allow: ^peerdma_hca: .*Unable to pin memory region
# vm-allow: rxe0: (qp|pd|mr)#[0-9]+
# vm: --nics 1 --cards 0 --iommu on --timeout 300
# vm-more: --nics 1 --cards 0 --timeout 300 --kernel {6.1,6.12,7.2} --iommu {off,on}

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

modules="softgpu nvidia peerdma peerdma_nvidia"
tool=$BUILD/peerdma/tools/peerdma
told=/tmp/told
export COLUMNS=1000

# says PATTERN...: the last command printed a line like each.
says() {
	for line; do
		grep -q "$line" $told || { cat $told; die "it does not say: $line"; }
	done
}

rdma_start
load_modules

$tool topo >$told
says "NIC0  0000:.*(rxe0, software)" "GPU0  0000:.*(renderD160, softgpu0, software)" "^GPU0 .* PHB" \
	"^GPU0  PHB  NIC0 (rxe0)$" "^ *export UCX_NET_DEVICES=rxe0:1$" "^ *export NCCL_IB_HCA='=rxe0:1'$"
grep "are not known" $told && die "the adapter's port has a state"

# A translating IOMMU is a detour, and that alone keeps the verdict from being the best.
expected=0
! grep -qs DMA /sys/class/infiniband/rxe0/device/iommu_group/type || expected=2
# examine OPTION...: the pair, with its bytes moved.
examine() {
	$tool doctor "$@" --probe GPU0 NIC0 >$told
	code=$?
	[ $code = $expected ] || die "exit code $code, not $expected: $(cat $told)"
}

# No core: dma-bufs, and past the provider, which Debian's librxe has none for.
examine --all
says "dma-buf: yes: peerdma_hca has a function" "peer memory: no: this RDMA core takes no peer-memory clients" \
	"do *for ibv_reg_mr() of a GPU's address: modprobe peerdma_peermem" \
	"(rxe0, software) dma-buf *RDMA write to the GPU *9000 equal" "(rxe0, software) dma-buf *RDMA write from the GPU *9000 equal" \
	"(rxe0, software) dma-buf *RDMA read into the GPU *9000 equal" "(rxe0, software) dma-buf *RDMA read from the GPU *9000 equal" \
	"(rxe0, software) peer memory *- *- not registered: ibv_reg_mr: Bad address" "LD_PRELOAD=libpeerdma-verbs.so.0"

load_modules peerdma_peer_core peerdma_peermem
examine --json
says "peerdma_peer_core [0-9.]* is loaded" '"nv_mem, version peerdma"' \
	"yes: the core gives peerdma_hca peer memory that can be revoked" '"NIC0 rxe0 (software)"'
python3 - $told <<'END' || die "its JSON does not say what was moved: $(cat $told)"
import collections, json, sys
moved = json.load(open(sys.argv[1]))["moved"]
ways = collections.Counter((m["by"], m["result"], m["bytes"]) for m in moved)
sys.exit(ways != {("BAR1", "equal", 9000): 2, ("dma-buf", "equal", 9000): 4, ("peer memory", "equal", 9000): 4})
END

# A driver that gives importers addresses in the BAR as they are: with an IOMMU the adapter reaches nothing there.
group=$(readlink -f /sys/class/infiniband/rxe0/device/iommu_group)
if grep -qs DMA "$group/type"; then
	"$TOP/vm/chaos" dmabuf_raw=1
	$tool doctor --all --probe GPU0 NIC0 >$told
	says "(rxe0, software) dma-buf *- *- not registered: ibv_reg_dmabuf_mr: .*by the kernel: Bad address" \
		"(rxe0, software) peer memory *RDMA write to the GPU *9000 equal" \
		"IOMMU: NIC0" "uses physical addresses of the GPU's BAR instead of mapping them"
	dmesg | grep -q "softgpu: FAULT INJECTION: dmabuf_raw hits" || die "the log does not say that the fault has hit"
	dmesg | grep -q "rxe0: the IOMMU domain of .* has no translation of 0x[0-9a-f]*: its exporter has not mapped it" ||
		die "the log does not say what is wrong with the dma-buf"
	"$TOP/vm/chaos" dmabuf_raw=0
	$tool doctor --all --probe GPU0 NIC0 >$told
	says "(rxe0, software) dma-buf *RDMA write to the GPU *9000 equal"
fi

unload_modules $modules peerdma_peer_core peerdma_peermem
rdma_stop
