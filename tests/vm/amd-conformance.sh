#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The conformance suite of AMD's interface on softgpu: both versions, with the free
# callback and without; beside the NVIDIA personality; and it notices what is wrong.
# vm-with: nvp2p-conformance
# vm-allow: ^amdgpu: a client calls put_pages in the free callback
# vm-allow: ^amdgpu: get_pages\(.*not whole pages
# vm-allow: ^amdgpu: amd_rdma_test(_1)? was built for version
# vm-more: --timeout 300 --cards 1
# vm: --timeout 300 --cards 1 --kernel 6.12 --iommu on

. "$TOP/tests/vm/lib.sh"

peer=$(lspci -Dn -d 1234:11e8 | head -1 | cut -d' ' -f1)

# conform [OPTION...]
conform() {
	"$BUILD/tests/conformance/amd_conform" --peer "$peer" "$@"
}

load_modules softgpu nvidia amdgpu amd_rdma_test
# Where programs look for AMD's driver.
[ -c /dev/kfd ] && : <>/dev/kfd || die "there is no /dev/kfd"
conform || die "rules of version 2.0 are broken"
echo 0 >/sys/module/amdgpu/parameters/callbacks
conform --no-callbacks || die "rules of version 2.0 without callbacks are broken"
echo 1 >/sys/module/amdgpu/parameters/callbacks
echo 1 >/sys/module/amdgpu/parameters/short_table
conform --only "get and put" >/dev/null && die "a table that lacks a segment is not noticed"
echo 0 >/sys/module/amdgpu/parameters/short_table
conform --no-callbacks --only stays >/dev/null && die "a driver that calls back is taken for one that does not"
unload_modules amd_rdma_test

# A client of the other version of the interface is refused.
# misfit CLIENT VERSION
misfit() {
	load_modules "$1"
	conform --only "get and put" >/dev/null && die "$1 gets pages of the other version"
	dmesg | grep -q "amdgpu: $1 was built for version $2 of amd_rdma_interface" || die "the log does not say what $1 was built for"
	unload_modules "$1"
}
misfit amd_rdma_test_1 1.0

# A driver that was written from the header alone.
insmod "$MODDIR/amd_client.ko" card="$peer" || die "amd_client.ko does not load"
"$TOP/examples/kernel/amd_client.py" || die "the example does not work"
unload_modules amdgpu amd_client

# And one for dma-bufs, as AMD's driver exports them.
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
insmod "$MODDIR/dmabuf_client.ko" card="$peer" || die "dmabuf_client.ko does not load"
"$TOP/examples/kernel/dmabuf_client.py" || die "the example of a dma-buf's importer does not work"
unload_modules dmabuf_client

insmod "$MODDIR/amdgpu.ko" rdma_api=1 || die "amdgpu.ko rdma_api=1 does not load"
misfit amd_rdma_test 2.0
load_modules amd_rdma_test_1
conform || die "rules of version 1.0 are broken"
unload_modules softgpu nvidia amdgpu amd_rdma_test_1
