#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Other parts of the kernel are asked for the memory behind CPU views: VFIO, with a card that a
# user drives, KVM, and the system calls that use or keep pages. When the pin has ended and the
# memory belongs to others, nothing reaches it.
# VFIO resets the card by its bus.
# vm-allow: ^pcieport .*: unlocked secondary bus reset via: __pci_reset_function_locked
# vm-allow: ^vfio-pci .*: (resetting|reset done)$
# vm: --cpus 1 --cards 1 --vram 4M --iommu on --nvme zeros
# vm: --cpus 1 --cards 1 --vram 4M --iommu on --nvme zeros --kernel 6.12
# vm-more: --cpus 1 --cards 1 --vram 4M --iommu on --nvme zeros --kernel 7.2

. "$TOP/tests/vm/lib.sh"

load_modules softgpu nvidia peerdma peerdma_nvidia
card=$(devices 0x1234 0x11e8)
if modprobe -q vfio-pci && modprobe -q vfio_iommu_type1; then
	[ ! -e "/sys/bus/pci/devices/$card/driver" ] || echo "$card" >"/sys/bus/pci/devices/$card/driver/unbind"
	echo vfio-pci >"/sys/bus/pci/devices/$card/driver_override"
	echo "$card" >/sys/bus/pci/drivers_probe
else
	# Of our kernels, the debug kernels alone lack it.
	[ -n "${PEERDMA_PATIENCE-}" ] || die "no VFIO on this kernel"
	card=-
fi
# Of the processors' two, the one that this machine has, or none; as udev opens it to users who may run machines.
modprobe kvm_amd 2>/dev/null || modprobe kvm_intel 2>/dev/null || :
[ ! -c /dev/kvm ] || chmod 0666 /dev/kvm
nvme_disk
"$BUILD/tests/kernel/view_doors" "$card" /dev/nvme0n1 || die "revocation leaves a door to the memory"
unload_modules softgpu nvidia peerdma peerdma_nvidia
