#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The frame grabber: frames from a camera outside the machine land in GPU memory by the grabber's own DMA, and the memory is
# taken back meanwhile. Then V4L2's own tools, and cameras that lose packets, swap them, and send what no camera sends.
# vm: --timeout 240 --cards 0 --camera camera --camera "camera --lose 301" --camera "camera --garbage 97 --swap 501" --camera "camera --stall 13"
# vm: --timeout 240 --cards 0 --iommu on --kernel 6.12 --camera camera --camera "camera --lose 301" --camera "camera --garbage 97 --swap 501" --camera "camera --stall 13"
# vm-more: --timeout 240 --cards 0 --iommu on --camera camera --camera "camera --lose 301" --camera "camera --garbage 97 --swap 501" --camera "camera --stall 13"
# vm-more: --timeout 240 --cards 0 --kernel 6.12 --camera camera --camera "camera --lose 301" --camera "camera --garbage 97 --swap 501" --camera "camera --stall 13"
# vm-more: --timeout 240 --cards 0 --iommu {off,on} --kernel 7.2 --camera camera --camera "camera --lose 301" --camera "camera --garbage 97 --swap 501" --camera "camera --stall 13"

. "$TOP/tests/vm/lib.sh"

capture_modules
insmod "$MODDIR/softgpu.ko" pages=generic || die "no softgpu with pages"
load_modules nvidia peerdma peerdma_nvidia peerdma_grabber
"$BUILD/tests/kernel/grabber_test" || die "the grabber"
# The cameras with faults, in the order of the machine's line.
for n in 1 2 3; do
	"$BUILD/tests/kernel/grabber_test" faulty $n || die "camera $n"
done
cat /sys/kernel/debug/peerdma_grabber/grabbers

# V4L2's own test program; with another device's dma-bufs, and all ways to queue a buffer. What is dropped is warned of. Debian
# 12's takes a field that Linux 6.8 fills for one that must be 0; and the debug kernel has no such other device.
grabber=$(ls -d /sys/bus/pci/drivers/peerdma_grabber/*/video4linux/video* | head -1)
video=/dev/${grabber##*/}
compliance() {
	modprobe vivid n_devs=1 node_types=1 || die "no vivid"
	for exporter in /sys/devices/platform/vivid.0/video4linux/video*; do
		exporter=/dev/${exporter##*/}
	done
	v4l2-ctl -d "$exporter" -v width=1280,height=720 || die "vivid"
	said=$(v4l2-compliance -d "$video" -s10 -e "$exporter" 2>&1) ||
		die "v4l2-compliance: $(echo "$said" | tr '\r' '\n' | grep -B3 -i fail)"
	echo "$said" | tail -1
	rmmod vivid
}
case $(uname -r) in
*debug*) ;;
6.1.*)	compliance ;;
esac

# The bus, as administrators see it: a card beside the GPU.
"$BUILD/peerdma/tools/peerdma" topo | tee /tmp/topo
grep -q "CARD.*${grabber##*/}" /tmp/topo || die "topo does not show the grabber"

# The example: in strict mode the GPU orders only what CUDA promises, so the wrong one fails each time.
"$TOP/vm/chaos" strict=1
"$BUILD/peerdma/capture" "$video" || die "examples/capture.c"
! "$BUILD/peerdma/capture" "$video" wrong || die "examples/capture.c, wrong, was right"
grep . /sys/kernel/debug/softgpu/chaos/rules
unload_modules softgpu nvidia peerdma peerdma_nvidia peerdma_grabber
