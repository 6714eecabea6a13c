#!/bin/sh
# SPDX-License-Identifier: MIT
#
# All that a program can see of /dev/peerdma: calls, host memory, a DMA card; and, by
# one body of tests, the memory of each provider.
# vm-with: nvp2p-conformance
# vm-allow: ^(peerdma|softgpu): .*has not released .*within 50 ms
# vm-allow: ^peerdma: .*: bus mastering is off
# vm-allow: ^peerdma_amd: the GPU driver .*(this module does not support|in an unsupported format)
# vm-allow: ^peerdma: pin refused: providers .* both claim
# A type is written that the kernel refuses while a driver is bound.
# vm-allow: ^iommu: Device is still bound to driver
# vm-more: --timeout 400 --cards 1 --gpus 1
# vm-more: --timeout 400 --cards 1 --gpus 1 --iommu on
# vm-more: --timeout 400 --cards 1 --gpus 1 --kernel 6.12
# vm: --timeout 400 --cards 1 --gpus 1 --iommu on --kernel 6.12

. "$TOP/tests/vm/lib.sh"

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
load_modules peerdma peerdma_importer peerdma_client
"$BUILD/tests/kernel/peerdma_uapi_test" || exit
# The same tests with memory of each provider, all of them loaded: in one process.
load_modules softgpu nvidia amdgpu dmabuf_mover peerdma_nvidia peerdma_amd
"$BUILD/tests/kernel/peerdma_uapi_test" nvidia amd dmabuf host || exit
load_fuse
"$BUILD/tests/kernel/unanswered_test" nvidia || exit
"$BUILD/tests/kernel/unanswered_test" amd || exit
"$BUILD/tests/kernel/dmabuf_kinds_test" || exit
"$BUILD/tests/kernel/bad_input_test" || exit
"$BUILD/tests/lib/live_hip" || exit
unload_modules peerdma peerdma_importer peerdma_client softgpu nvidia amdgpu dmabuf_mover peerdma_nvidia peerdma_amd
load_modules peerdma
"$BUILD/tests/kernel/peerdma_uapi_test" removal || exit
unload_modules peerdma
