#!/bin/sh
# SPDX-License-Identifier: MIT
# vm: --nics 1 --cards 0 --gpus 2 --iommu on
#
# The demonstration of RDMA, run in each guest: loads the modules, makes the adapter, runs rdma-demo with this script's
# arguments, and unloads the modules again, which fails if anything is left behind.  "make demo-rdma" boots the machines
# and runs this.  A single guest runs both sides: the options above are for that case.

top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/vm/lib.sh"
demo=$BUILD/peers/hca/demo/rdma-demo
[ -x "$demo" ] || die "rdma-demo was not built: libibverbs-dev is missing"

# Kernel modules that peerdma_hca and the demonstration need.
modprobe -a udp_tunnel ip6_udp_tunnel ib_core ib_uverbs || die "the kernel's modules do not load"
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug || die "no debugfs"
mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing || die "no tracefs"
modules="softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem peerdma_hca"
load_modules
rdma link add rxe0 type rxe netdev eth0 || die "no RDMA adapter: see the kernel's log"

# Debian's provider cannot register dma-bufs, so the library does that; it registers pointers itself.
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
