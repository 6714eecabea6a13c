#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Struct pages for softgpu's memory (pages=generic), and page views of it: Linux's own NVMe driver transfers between a
# disk and GPU memory, and the memory is taken back. With memory that has no pages, a view says so.
# A wrong value on purpose.
# vm-allow: ^softgpu: pages=some: must be off, generic or p2pdma$
# vm: --cpus 2 --cards 0 --vram 64M --iommu off --nvme scratch
# vm: --cpus 2 --cards 0 --vram 64M --iommu on --nvme scratch --kernel 6.12
# vm-more: --cpus 2 --cards 0 --vram 64M --iommu on --nvme scratch
# vm-more: --cpus 2 --cards 0 --vram 64M --iommu off --nvme scratch --kernel 6.12
# vm-more: --cpus 2 --cards 0 --vram 64M --iommu off --nvme scratch --kernel 7.2
# vm-more: --cpus 2 --cards 0 --vram 64M --iommu on --nvme scratch --kernel 7.2

. "$TOP/tests/vm/lib.sh"

nvme_disk

! insmod "$MODDIR/softgpu.ko" pages=some 2>/dev/null || die "pages=some was accepted"
dmesg | grep -q 'softgpu: pages=some: must be off, generic or p2pdma' || die "pages=some was refused without a reason"

insmod "$MODDIR/softgpu.ko" pages=generic || die "no softgpu with pages"
dmesg | grep -q 'VRAM has struct pages, and peers take it for RAM: for tests only' || die "softgpu does not say what the pages are"
load_modules nvidia peerdma peerdma_nvidia
"$BUILD/tests/kernel/page_views" /dev/nvme0n1 || die "page views"
"$BUILD/tests/kernel/page_views" /dev/nvme0n1 unload || die "parked memory and modules"
unload_modules softgpu nvidia

load_modules softgpu nvidia peerdma peerdma_nvidia
"$BUILD/tests/kernel/page_views" /dev/nvme0n1 none || die "memory without pages"
unload_modules softgpu nvidia peerdma peerdma_nvidia
