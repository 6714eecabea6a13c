#!/bin/sh
# SPDX-License-Identifier: MIT
#
# examples/verbs.c between two machines: the GPU's memory and the host's, and each written from the other.
# vm-allow: rxe0: (qp|pd|mr)#[0-9]+ 
# vm: --cpus 1 --guests 2 --cards 0 --gpus 1 --timeout 300 --iommu on
# vm-more: --guests 2 --cards 0 --gpus 1 --timeout 600 --iommu {on,off} --kernel {6.1,6.12,7.2}

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

modules="softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem"
rdma_start
load_modules

# pair SERVER CLIENT: whose memory the buffers of each are, "gpu" or the host's.
pair() {
	barrier=$PEERDMA_VM/barrier
	if [ "$GUEST" = 1 ]; then
		own=$1
		"$BUILD/peerdma/verbs" -n 40 -s $1 >/tmp/verbs 2>&1 &
		"$barrier" "$1-$2" --listening 18515 && wait $! || die "server, '$1' from '$2': $(cat /tmp/verbs)"
	else
		own=$2
		"$barrier" "$1-$2" && "$BUILD/peerdma/verbs" -n 40 -c guest1 $2 >/tmp/verbs 2>&1 ||
			die "client, '$2' to '$1': $(cat /tmp/verbs)"
	fi
	cat /tmp/verbs
	grep -q "^40 transfers .* the other machine" /tmp/verbs || die "no word of the other machine"
	grep -q "an MR by way of ${own:+dmabuf}" /tmp/verbs || die "another way than a dma-buf"
}
pair "" ""
pair gpu gpu
pair gpu ""
pair "" gpu

rdma_stop
unload_modules
