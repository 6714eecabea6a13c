#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The end of a mapping under a card's write, at every phase of it: nothing arrives after
# the call has returned, with the IOMMU as Linux sets it up by default. Without one (off,
# pt) a card that a program drives cannot be held back, and a driver's is tested.
# ROUNDS is their number; half as many are for AMD's memory.
# vm-allow: ^peerdma: .*has not released .*within 10 ms
# vm: --cards 4 --vram 4M --iommu on --allow DMAR --allow dmar_fault
# vm-more: --cards 4 --vram 4M --env ROUNDS=1000 --timeout 900 --iommu {off,pt} --kernel {6.1,6.12,7.2}
# vm-more: --cards 4 --vram 4M --env ROUNDS=1000 --timeout 900 --iommu on --allow DMAR --allow dmar_fault --kernel {6.12,7.2} --topology {ports,switch,sockets}
# vm-more: --cards 4 --vram 4M --env ROUNDS=1000 --timeout 900 --iommu on --allow DMAR --allow dmar_fault --topology {switch,sockets}
# Here the option is what is tested: the flush of one mapping at a time is Linux's own.
# vm-more: --cards 4 --vram 4M --env ROUNDS=1000 --timeout 900 --iommu on --allow DMAR --allow dmar_fault --kernel {6.1,6.12,7.2} --append iommu.strict=1

. "$TOP/tests/vm/lib.sh"

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
modules="softgpu nvidia amdgpu peerdma peerdma_nvidia peerdma_amd"
card=$(dirname "$(grep -lx 0x11e8 /sys/bus/pci/devices/*/device | head -1)")
case $(cat "$card/iommu_group/type" 2>/dev/null) in
DMA*) modules="$modules nvp2p_test peerdma_importer" ;;
*) echo "NOT TESTED, as nothing can do it: to hold back a card that a program has given an address. No IOMMU" \
	"translates here. Instead: a driver that stops its card when it is told"
	modules="$modules peerdma_fpga" ;;
esac
load_modules
"$BUILD/tests/kernel/stale_race" "${ROUNDS:-60}" || die "a card's write arrives after the memory was taken away: see above"
"$BUILD/tests/kernel/stale_race" "$((${ROUNDS:-60} / 2))" amd || die "a card's write arrives after AMD's memory was taken away: see above"
unload_modules
