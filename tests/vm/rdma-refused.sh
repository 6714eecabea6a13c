#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A program without rights registers what is not its own, or is no memory, and forges work requests: each is refused, with
# the errno that programs expect and a line that says why, and the kernel stays well.
# vm-with: rdma-life
# vm-allow: ^peerdma_hca: .*Unable to pin memory region
# vm-allow: rxe[01]: (qp|pd|mr)#[0-9]+
# vm: --nics 1 --cards 0 --iommu on
# vm-more: --nics 1 --cards 0 --kernel {6.1,6.12,7.2} --iommu {off,on}

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

modules="softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem"
rdma_start
load_modules
counts=$(find /sys/kernel/mm/memory_peers -name "num_*")
[ "$(echo "$counts" | wc -l)" = 7 ] && [ -z "$(find $counts -perm /077)" ] || die "a user sees how much others register"
"$BUILD/tests/rdma/rdma_refused" rxe0 peer >/tmp/told || { cat /tmp/told; die "addresses"; }
dmesg | grep -q "peerdma_peer_core: rxe0: no client accepted 0x[0-9a-f]*, 4194304 bytes" || die "the log does not say who refused"
dmesg | grep -q "rxe0: no client accepted 0x[0-9a-f]*, 8192 bytes" || die "the log does not say who refused memory of two kinds"
dmesg | grep -q "rxe0: 8192 bytes at 0x[0-9a-f]* of rdma_refused .* begin in host memory" ||
	die "the log does not say who refused memory that begins in the host's"
dmesg | grep -q "nvidia: \[0x[0-9a-f]*, +0x400000) of rdma_refused .* made this memory without allocFlags.gpuDirectRDMACapable" ||
	die "the log does not say which memory is not capable of GPUDirect RDMA"
with_verbs rdma_refused rxe0 files || die "dma-bufs"
dmesg | grep -q "rxe0: file [0-9]* of rdma_refused .* is not a dma-buf" || die "the log does not say that a file was no dma-buf"
dmesg | grep -q "rxe0: a dma-buf of [a-z0-9_]* is not registered: it has no 4194305 bytes from 0 on" ||
	die "the log does not say that the dma-buf was too short"
dmesg | grep -q "rxe0: a dma-buf of peerdma is not registered" || die "the log does not say whose dma-buf it was"

modprobe veth && ip link add virtual type veth peer name other && ip link set other up && ip link set virtual up &&
	ip address add 10.98.0.1/24 dev virtual || die "no virtual net device"
rdma link add rxe1 type rxe netdev virtual || die "no adapter without a PCI function"
"$BUILD/tests/rdma/rdma_refused" rxe1 no-function || die "an adapter that is no PCI function"
dmesg | grep -q "rxe1: gets no peer memory: it is not a PCI function" || die "the log does not say why there is no peer memory"
with_verbs rdma_refused rxe1 no-function || die "an adapter that is no PCI function, by the preload"
dmesg | grep -q "rxe1: is not a PCI function: it reaches host memory only" || die "the log does not say why there is no dma-buf"
rdma link delete rxe1
ip link delete virtual

# What the kernel limits for a group of processes: an adapter's objects, and memory, that of queues as well.
if rdma_cgroup; then
	(echo 0 >"$group/cgroup.procs" && exec "$BUILD/tests/rdma/rdma_refused" rxe0 "$group/memory.current") ||
		die "queues do not count for the memory cgroup"
	echo "rxe0 hca_object=20" >"$group/rdma.max" || die "no limit on objects"
	[ "$("$BUILD/tests/rdma/rdma_objects" rxe0 40)" = "40 all" ] || die "40 objects without a limit"
	told=$(echo 0 >"$group/cgroup.procs" && exec "$BUILD/tests/rdma/rdma_objects" rxe0 40)
	[ "$told" = "20 EAGAIN" ] || die "objects of a cgroup: $told"
	# Linux 6.1 (rdmacg_css_offline) keeps a limit of a cgroup that is removed, and writes to the cgroup when the adapter goes.
	echo "rxe0 hca_object=max" >"$group/rdma.max" || die "the limit does not go"
	rmdir "$group"
fi

load_fuse
"$BUILD/tests/rdma/rdma_beside" rxe0 || die "a user waits for a page of another one"

"$BUILD/tests/rdma/rdma_forged" rxe0 "${ROUNDS:-30}" || die "receive requests without end"
rdma_stop
unload_modules
