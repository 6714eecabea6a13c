#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The demonstration passes wherever the devices are plugged in, with and without
# an IOMMU, with one and two GPUs, on both kernels: with the lines for --more, every
# pair of these occurs.  strangers.sh runs it with the first line's options.
# vm-more: --cards 4
# vm: --cards 4 --topology switch --iommu on --gpus 2 --env 'MAKES=nvidia tegra-wc,tegra amd-dmabuf,dmabuf'
# vm: --cards 3 --kernel 6.12 --topology sockets --iommu pt --gpus 2 --env MAKES=amd,nvidia
# vm-more: --cards 3 --kernel 6.12 --topology sockets --iommu pt --gpus 2
# vm-more: --cards 4 --iommu on
# vm-more: --cards 4 --topology sockets --iommu on --gpus 2
# vm-more: --cards 3 --topology sockets --iommu pt
# vm-more: --cards 2 --kernel 6.12 --iommu on --gpus 2
# vm-more: --cards 4 --kernel 6.12 --topology switch
# vm-more: --cards 4 --kernel 6.12 --topology sockets --gpus 2
#
# By a dma-buf, and with memory of the host's. And with AMD's on one side.
# vm-more: --cards 1 --kernel 6.12 --env MAKES=dmabuf,host
# vm-more: --cards 1 --kernel 6.12 --iommu pt --env MAKES=dmabuf,host
# vm-more: --cards 4 --kernel 6.12 --iommu on --gpus 2 --env MAKES=amd,nvidia
# With Tegra's on both, or on one; and by the dma-bufs of both makes.
# vm-more: --cards 4 --iommu on --env MAKES=tegra-wc,tegra
# vm-more: --cards 2 --kernel 6.12 --env MAKES=tegra,amd
# vm-more: --cards 2 --iommu on --env MAKES=amd-dmabuf,dmabuf
#
# vm-more: --cards 2 --kernel {6.1,6.12} --iommu {off,on} --env MAKES={nvidia,amd,dmabuf,amd-dmabuf,host}
# vm-more: --cards 2 --kernel {6.1,6.12} --iommu {off,on} --env MAKES={nvidia,dmabuf},amd-dmabuf
# vm-more: --cards 2 --kernel {6.1,6.12} --iommu {off,on} --env MAKES={tegra,tegra-wc} --chaos device_pointers=1

for makes in ${MAKES:-nvidia}; do
	"$TOP/peers/fpga/demo.sh" --gpu "$makes" || exit
done
