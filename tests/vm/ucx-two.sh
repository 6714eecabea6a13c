#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The distribution's UCX, built with CUDA against softgpu (tests/thirdparty/build-mpi ucx), between two machines over the
# software adapter: its own benchmark passes by ud, and by rc, which connects by datagrams, on the host's memory and CUDA's.
# Of a large message between two GPUs, GPUDirect copies nothing between GPU and host memory; without it, all of it.
# vm-needs: build/cache/mpi/root/.ucx: UCX is not built: tests/thirdparty/build-mpi ucx
# vm-allow: rxe0: (qp|pd|mr)#[0-9]+ 
# vm: --guests 2 --cards 0 --gpus 1 --vram 1G --memory 2G --timeout 900 --iommu on
# vm-more: --guests 2 --cards 0 --gpus 1 --vram 1G --memory 2G --timeout 3000 --iommu {on,off} --kernel {6.1,6.12,7.2} --env ALL=1

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/ucx-perf.sh"

modprobe -q ib_uverbs || { echo "this kernel has no RDMA"; exit 77; }
modprobe -a udp_tunnel ip6_udp_tunnel ib_core ib_uverbs || die "the kernel's modules do not load"
modules="softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem peerdma_hca"
load_modules
rdma link add rxe0 type rxe netdev eth0 || die "no RDMA adapter: see the kernel's log"
export UCX_NET_DEVICES=rxe0:1 UCX_STATS_DEST=file:/tmp/stats UCX_STATS_TRIGGER=exit

large=1048576
[ -z "$ALL" ] || large=16777216

# benchmark NAME TESTS SIZES OPTION...: one of the two processes in each guest.
benchmark() {
	name=$1
	list "$2" "$3"
	shift 3
	if [ "$GUEST" = 1 ]; then
		timeout 300 ucx_perftest -p $port -b /tmp/tests -f -v "$@" >/tmp/out 2>&1 &
		"$PEERDMA_VM/barrier" "$name" --listening $port || die "$name: the other guest has ended"
		wait $! || { cat /tmp/out; die "$name: ucx_perftest's server fails"; }
		return
	fi
	"$PEERDMA_VM/barrier" "$name" || die "$name: the other guest has ended"
	timeout 300 ucx_perftest guest1 -p $port -b /tmp/tests -f -v "$@" >/tmp/out 2>&1 ||
		{ cat /tmp/out; die "$name: ucx_perftest fails"; }
	# Which only the client prints.
	results "$name" /tmp/out
}

# What this guest's process has copied between the GPU and host memory, in bytes.
staged() {
	awk '/uct_iface-/ { copies = /uct_iface-cuda_copy/ } copies && $1 ~ /^bytes_/ { sum += $2 } END { print sum + 0 }' /tmp/stats
}

sizes="8 65536 $large"
[ -z "$ALL" ] || sizes="8 64 512 4096 32768 262144 1048576 4194304 $large"
for transport in ud rc; do
	export UCX_TLS=${transport}_v,cuda_copy
	benchmark "$transport, host: tag, am, stream, put, get" "tag_bw ucp_am_bw stream_bw ucp_put_bw ucp_get" "$sizes"
	benchmark "$transport, cuda: tag, am, stream" "tag_bw ucp_am_bw stream_bw" "$sizes" -m cuda
	# With its older protocols this release puts and gets host memory only.
	export UCX_PROTO_ENABLE=y
	benchmark "$transport, cuda: put, get" "ucp_put_bw ucp_get" "$sizes" -m cuda
	unset UCX_PROTO_ENABLE
done

# Four, and one to warm up.
benchmark "rc, cuda: large messages, GPUDirect" tag_bw "$large" -m cuda
[ "$(staged)" = 0 ] || die "with GPUDirect $(staged) bytes were copied by the GPU's engine"
export UCX_IB_GPU_DIRECT_RDMA=n
benchmark "rc, cuda: large messages, no GPUDirect" tag_bw "$large" -m cuda
[ "$(staged)" -ge $((5 * large)) ] || die "without GPUDirect $(staged) bytes were copied by the GPU's engine"

rdma link delete rxe0 || die "the adapter does not go"
unload_modules
