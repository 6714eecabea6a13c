#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The GPU goes away with pins alive, and comes back: taken out by the kernel, by
# surprise (its slot loses power, and the driver learns of it afterwards), and by
# a request of QEMU's (device_del, as an operator would).
# vm-more: --cards 1 --vram 32M --monitor --timeout 600 --qemu=-global --qemu=ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off
# vm: --cards 1 --vram 32M --monitor --timeout 600 --qemu=-global --qemu=ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off --kernel 6.12 --iommu on

. "$TOP/tests/vm/lib.sh"

monitor=$TOP/vm/monitor
gpu=$(lspci -Dn -d 1af4:1110 | cut -d' ' -f1)
card=$(lspci -Dn -d 1234:11e8 | cut -d' ' -f1)
device=/sys/bus/pci/devices/$gpu
slot=$(basename "$(dirname "$(readlink -f "$device")")")
[ -n "$gpu" ] && [ -n "$card" ] || die "a GPU and a card are needed"

# until_there FILE
until_there() {
	tries=0
	while [ ! -e "$1" ]; do
		tries=$((tries + 1))
		[ $tries -lt 400 ] || die "$1 does not come back"
		sleep 0.1
	done
}

# QEMU's ivshmem cannot have the same memory twice, so each new GPU brings its own.
backends=0
plug_in() {
	backends=$((backends + 1))
	"$monitor" "object_add memory-backend-ram,id=again$backends,size=32M,share=on" || die "QEMU has no memory"
	"$monitor" "device_add ivshmem-plain,id=gpu0,memdev=again$backends,bus=slot1" || die "the GPU cannot be plugged in"
}

# works WHEN
works() {
	"$BUILD/peers/fpga/fpga-copy" --size 4000 --cards 0 || die "$1: the card cannot copy GPU memory"
	[ "$("$BUILD/peerdma/tools/peerdma" pins)" = "No pins: peerdma.ko holds no memory." ] || die "$1: pins are left"
}

load_modules
works "at the start"

echo "== removed by the kernel"
"$BUILD/tests/chaos/removal_chaos" "$card" "echo 1 >$device/remove" || die "remove: see above"
echo 1 >/sys/bus/pci/rescan
until_there /dev/softgpu0
works "after a rescan"

echo "== gone without a word"
# Power off in the port's slot control: QEMU takes the device out at once.  Only
# then the kernel is told.
cat >/tmp/yank <<YANK
setpci -s $slot CAP_EXP+18.w=0700:0700
sleep 1
setpci -s $gpu 0.l | grep -q ffffffff || exit 1
sleep 1
echo 1 >$device/remove
YANK
"$BUILD/tests/chaos/removal_chaos" "$card" "sh /tmp/yank" || die "surprise: see above"
plug_in
tries=0
while [ ! -e /dev/softgpu0 ] && [ $tries -lt 30 ]; do
	tries=$((tries + 1))
	sleep 1
	echo 1 >/sys/bus/pci/rescan
done
until_there /dev/softgpu0
works "after the surprise"

# Last: the debug kernel's lock checks end there (KNOWN_REPORTS in vm/harness/judge.py).
echo "== unplugged on QEMU's request"
"$BUILD/tests/chaos/removal_chaos" "$card" "$monitor device_del gpu0" || die "device_del: see above"
# The slot is off once QEMU has taken the device out.
tries=0
while "$monitor" info qtree | grep -q ivshmem; do
	tries=$((tries + 1))
	[ $tries -lt 60 ] || die "QEMU did not take the GPU out"
	sleep 0.5
done
plug_in
until_there /dev/softgpu0
works "after it was plugged in again"
unload_modules
