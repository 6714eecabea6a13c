#!/bin/sh
# SPDX-License-Identifier: MIT
#
# All that a program can see of /dev/peerdma: calls, host memory, a DMA card, and
# GPU memory where the software GPU is.
# vm: --timeout 400 --cards 1 --gpus 1 --allow has.not.let.go --allow is.stopped --allow not.understand --allow says.that.this.is.its.own
# vm: --timeout 400 --cards 1 --gpus 1 --allow has.not.let.go --allow is.stopped --allow not.understand --allow says.that.this.is.its.own --iommu on
# vm: --timeout 400 --cards 1 --gpus 1 --allow has.not.let.go --allow is.stopped --allow not.understand --allow says.that.this.is.its.own --kernel 6.12
# vm: --timeout 400 --cards 1 --gpus 1 --allow has.not.let.go --allow is.stopped --allow not.understand --allow says.that.this.is.its.own --iommu on --kernel 6.12

. "$TOP/tests/vm/lib.sh"

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
gpu=
[ ! -e "$MODDIR/nvidia.ko" ] || gpu="softgpu nvidia"
load_modules $gpu peerdma ${gpu:+peerdma_nvidia} peerdma_importer peerdma_client
"$BUILD/tests/kernel/peerdma_uapi_test" || exit
# The same with AMD's memory, both providers loaded.
if [ -n "$gpu" ]; then
	"$BUILD/tests/kernel/dmabuf_kinds_test" || exit
	load_modules amdgpu peerdma_amd
	"$BUILD/tests/kernel/bad_input_test" || exit
	PEERDMA_TEST_PROVIDER=amd "$BUILD/tests/kernel/peerdma_uapi_test" gpu || exit
	"$BUILD/tests/lib/live_hip" || exit
	unload_modules amdgpu peerdma_amd
fi
unload_modules $gpu peerdma ${gpu:+peerdma_nvidia} peerdma_importer peerdma_client
