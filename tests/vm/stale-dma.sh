#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A device that uses an address after its pin has ended reaches nothing: the
# IOMMU stops it, and says so in the log.  It is told of each unmapping at once;
# by default Linux lets these gather for some milliseconds.
# vm-allow: ^DMAR: (DRHD: handling fault|\[DMA (Read|Write).*PTE (Read|Write) access is not set)
# vm: --cpus 1 --cards 1 --vram 4M --iommu on

. "$TOP/tests/vm/lib.sh"

load_modules softgpu nvidia peerdma peerdma_nvidia nvp2p_test
"$BUILD/tests/kernel/stale_dma" || die "a device reaches memory that is somebody else's"
unload_modules softgpu nvidia peerdma peerdma_nvidia nvp2p_test
