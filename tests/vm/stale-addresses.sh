#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The addresses of revoked memory are the owner's until it ends the mapping: the device gets
# them for nothing else, and faults when it uses them. Then they come again. ROUNDS is how
# many times memory is mapped and revoked.
# vm-allow: ^DMAR: (DRHD: handling fault|\[DMA (Read|Write).*PTE (Read|Write) access is not set)
# vm-allow: ^peerdma: .*has not released .*within 10 ms
# vm: --cpus 1 --cards 1 --vram 8M --iommu on --timeout 300
# vm-more: --cpus 1 --cards 1 --vram 8M --iommu on --env ROUNDS=100000 --timeout 900 --kernel {6.1,6.12,7.2}
# vm-more: --cards 1 --vram 8M --iommu on --timeout 300 --append iommu.strict=1 --kernel {6.1,6.12,7.2}

. "$TOP/tests/vm/lib.sh"

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
modules="softgpu nvidia peerdma peerdma_nvidia peerdma_client peerdma_importer"
load_modules
"$BUILD/tests/kernel/stale_addresses" "${ROUNDS:-3000}" || die "a device gets an address that is another's, or loses it"
unload_modules
