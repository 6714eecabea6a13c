#!/bin/sh
# SPDX-License-Identifier: MIT
#
# All that a program can see of /dev/peerdma: calls, host memory, a DMA card, and
# GPU memory where the software GPU is.
# vm: --timeout 400 --cards 1 --gpus 1
# vm: --timeout 400 --cards 1 --gpus 1 --iommu on
# vm: --timeout 400 --cards 1 --gpus 1 --kernel 6.12
# vm: --timeout 400 --cards 1 --gpus 1 --iommu on --kernel 6.12
set -e

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
insmod "$MODDIR/peerdma.ko"
insmod "$MODDIR/peerdma_importer.ko"
insmod "$MODDIR/peerdma_client.ko"
if [ -e "$MODDIR/nvidia.ko" ]; then
	insmod "$MODDIR/softgpu.ko"
	insmod "$MODDIR/nvidia.ko"
	insmod "$MODDIR/peerdma_nvidia.ko"
fi

LD_LIBRARY_PATH="$BUILD/softgpu/user" "$BUILD/tests/kernel/peerdma_uapi_test"

# Nothing holds a module any more.
if [ -e "$MODDIR/nvidia.ko" ]; then
	# GPU pins ended by another process than their own hold it until that is gone.
	for _ in $(seq 60); do
		rmmod peerdma_nvidia 2>/dev/null && break
		sleep 1
	done
	rmmod nvidia
	rmmod softgpu
fi
rmmod peerdma_importer peerdma_client
rmmod peerdma
