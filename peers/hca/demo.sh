#!/bin/sh
# SPDX-License-Identifier: MIT
# vm: --nics 1 --cards 0 --gpus 2 --iommu on
#
# RDMA's screen, in each guest: loads the modules, makes the adapter, shows the way from one GPU's memory to another's,
# and unloads the modules again, which only works when nothing is left behind.  "make demo-rdma" boots the machines and
# runs it; arguments go to rdma-demo.  Alone, a guest has both sides: the options above are for that one.

top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/vm/lib.sh"
demo=$BUILD/peers/hca/demo/rdma-demo
[ -x "$demo" ] || die "rdma-demo was not built: libibverbs-dev is missing"

# What peerdma_hca and the demonstration need of the kernel.
modprobe -a udp_tunnel ip6_udp_tunnel ib_core ib_uverbs || die "the kernel's modules do not load"
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug || die "no debugfs"
mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing || die "no tracefs"
modules="softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem peerdma_hca"
load_modules
rdma link add rxe0 type rxe netdev eth0 || die "no RDMA adapter: see the kernel's log"

# Debian's provider asks the kernel for no dma-bufs; a pointer it registers by itself.
run() { LD_PRELOAD=$BUILD/peerdma/preload/libpeerdma-verbs.so.0 "$demo" "$@"; }

code=0
case ${GUESTS:-1}:${GUEST:-1} in
1:*) run --one "$@" || code=$? ;;
*:1) "$PEERDMA_VM/barrier" up || die "the other guest does not come"
	run "$@" guest2 || code=$? ;;
*) run --listen "$@" &
	"$PEERDMA_VM/barrier" up --listening 18516 || die "the other guest does not come"
	wait $! || code=$? ;;
esac
[ "$code" = 0 ] || exit "$code"

rdma link delete rxe0 || die "the adapter does not go"
unload_modules
