#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Device memory for others: other processes (IPC, tokens, compute modes) and
# other devices (dma-bufs), and the GPU taken away meanwhile. When it is back a
# device uses an address of before, which an IOMMU stops, and says so in the log.
# vm-allow: ^DMAR: (DRHD: handling fault|\[DMA (Read|Write).*PTE (Read|Write) access is not set)
# vm-more: --timeout 400 --gpus 1 --cards 1
# vm-more: --timeout 400 --gpus 1 --cards 1 --iommu on
# vm: --cpus 1 --timeout 400 --gpus 1 --cards 1 --kernel 6.12 --iommu on
# vm-more: --timeout 400 --gpus 0 --cards 1

. "$TOP/tests/vm/lib.sh"

share() {
	"$BUILD/tests/kernel/softgpu_share_test" "$@" || die "$1: see above"
}

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
gpu=$(lspci -D -n -d 1af4:1110 | cut -d' ' -f1 | head -1)
sysmem=
[ -n "$gpu" ] || sysmem=sysmem=128

insmod "$MODDIR/softgpu.ko" $sysmem || die "softgpu.ko does not load"
load_modules peerdma_importer
share dmabuf
"$BUILD/tests/user/user_ipc" || die "memory of other processes: see above"
"$BUILD/tests/user/user_share" || die "memory that goes by descriptors: see above"
"$BUILD/tests/user/user_pointer" || die "what a pointer is: see above"
insmod "$MODDIR/nvidia.ko" NVreg_GrdmaPciTopoCheckOverride=2 || die "nvidia.ko does not load"
share topology
unload_modules nvidia
unload_modules softgpu

# Where small allocations share blocks of 2 MiB, as on a real GPU.
insmod "$MODDIR/softgpu.ko" $sysmem blocks=1 || die "softgpu.ko does not load"
for t in blocks ipc share pointer memory; do
	"$BUILD/tests/user/user_$t" || die "user_$t with blocks=1: see above"
done
unload_modules softgpu

for mode in 2 3; do
	insmod "$MODDIR/softgpu.ko" $sysmem compute_mode=$mode || die "softgpu.ko does not load"
	"$BUILD/tests/user/user_compute_mode" || die "compute mode $mode: see above"
	unload_modules softgpu
done

if [ -n "$gpu" ]; then
	load_modules softgpu
	share removal "$gpu"
	unload_modules softgpu
fi
unload_modules peerdma_importer
