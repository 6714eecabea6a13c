#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The demonstration of a pipeline, run in each of two guests: the first one has the disk, the second one the camera. It loads the
# modules, runs pipeline-demo with this script's arguments, and unloads everything. "make demo-pipeline" boots the machines.

top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/vm/lib.sh"
demo=$BUILD/peers/pipeline/pipeline-demo
[ -x "$demo" ] || die "pipeline-demo was not built: libibverbs-dev is missing"

modprobe -a udp_tunnel ip6_udp_tunnel ib_core ib_uverbs || die "the kernel's modules do not load"
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug || die "no debugfs"
mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing || die "no tracefs"
modules="softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem peerdma_hca"
if [ "$GUEST" = 1 ]; then
	mount_disk
	insmod "$MODDIR/softgpu.ko" pages=generic || die "no softgpu with pages"
	load_modules nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem peerdma_hca
else
	capture_modules
	modules="$modules peerdma_grabber"
	load_modules
fi
rdma link add rxe0 type rxe netdev eth0 || die "no RDMA adapter: see the kernel's log"

code=0
if [ "$GUEST" = 1 ]; then
	"$demo" --store /mnt/disk ${WITNESS:+--witness "$WITNESS-disk"} "$@" &
	"$PEERDMA_VM/barrier" up --listening 18517 || die "the other guest does not come"
	wait $! || code=$?
	umount /mnt/disk
else
	"$PEERDMA_VM/barrier" up || die "the other guest does not come"
	"$demo" --capture guest1 ${WITNESS:+--witness "$WITNESS-grabber"} "$@" || code=$?
fi
[ "$code" = 0 ] || exit "$code"
rdma link delete rxe0 || die "the adapter does not go"
unload_modules
