#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Struct pages of p2pdma for softgpu's memory (pages=p2pdma), on a kernel that has it: the kernel itself decides whether the
# NVMe drive reaches the memory. peerdma.ko and the doctor say the same, on each machine.
# vm-allow: does not reach the memory of .*: (the host bridge is not known to forward between devices|Linux's p2pdma uses bus addresses)
# vm-allow: ^(nvme .*: cannot be used for peer-to-peer DMA|invalid error, dev nvme0n1, )
# vm-allow: ^softgpu: pages=p2pdma: this kernel is built without PCI_P2PDMA
# vm-allow: ^DMAR: (DRHD: handling fault|\[DMA Write.*PTE Write access is not set)
# vm-with: page-views
# vm: --cpus 2 --cards 0 --vram 64M --iommu off --nvme scratch
# vm-newer: --cpus 2 --cards 0 --vram 64M --nvme scratch --topology switch --iommu {off,on,pt}
# vm-newer: --cpus 2 --cards 0 --vram 64M --nvme scratch --topology ports --iommu {off,on}
# vm-newer: --cpus 2 --cards 0 --vram 64M --nvme scratch --topology ports --iommu {off,on} --cpu EPYC

. "$TOP/tests/vm/lib.sh"

nvme_disk
export COLUMNS=2000
doctor="$BUILD/peerdma/tools/peerdma doctor --all"
told=$(mktemp)

# says TEXT: the doctor has.
says() {
	grep -qE "$1" "$told" || { cat "$told"; die "the doctor does not say: $1"; }
}

if ! insmod "$MODDIR/softgpu.ko" pages=p2pdma 2>/dev/null; then
	dmesg | grep -q 'softgpu: pages=p2pdma: this kernel is built without PCI_P2PDMA; use pages=generic' || die "pages=p2pdma was refused without a reason"
	echo "this kernel has no PCI_P2PDMA: pages=p2pdma is refused"
	exit
fi
load_modules nvidia peerdma peerdma_nvidia
gpu=$(devices 0x1af4 0x1110)
disk=$(readlink -f /sys/block/nvme0n1/device/device)
disk=${disk##*/}
$doctor --probe "$gpu" "$disk" >"$told" || [ $? -lt 4 ] || { cat "$told"; die "the doctor has failed"; }

# Which machine this is: a device two levels below the host bridge is in a port of its own, one of more is below the switch.
translated=$(cat "/sys/bus/pci/devices/$disk/iommu_group/type" 2>/dev/null || :)
case "$(readlink -f "/sys/bus/pci/devices/$disk"),$translated,$(grep -c -m1 'model name.*EPYC' /proc/cpuinfo)" in
/sys/devices/pci*/*/*/*,DMA*) expected=lost ;;
/sys/devices/pci*/*/*/*,* | *,1) expected=p2pdma ;;
*) expected=refused ;;
esac
echo "expected: $expected"

case $expected in
p2pdma)	says "^ *p2pdma: works( slowly:.*)?$"
	says "GPU0 and NVME0 +a page view +read from the drive +4096 equal$" ;;
refused) says "^ *p2pdma: does not work: see Peer-to-peer path below$"
	says "seen +Linux's p2pdma: not-supported \(unknown-bridge\)"
	says "a page view +- +- not registered: not tried: peerdma_page_view: .*the device does not reach" ;;
lost)	says "^ *p2pdma: does not work: see Switch and translating IOMMU below$"
	says "a page view +- +- not registered: not tried: peerdma_page_view: .*the device does not reach" ;;
esac
"$BUILD/tests/kernel/page_views" /dev/nvme0n1 $expected || die "page views: $expected"
unload_modules softgpu nvidia peerdma peerdma_nvidia
# All of the pages have gone, and can be made again.
insmod "$MODDIR/softgpu.ko" pages=p2pdma || die "pages are not made a second time"
unload_modules softgpu
