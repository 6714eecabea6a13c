#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What peerdma doctor says, and what DMA then does: below a switch with an IOMMU that
# translates, bus addresses lose data while the card reports success, and mapped ones
# do not; and a probe does not believe in success.
# vm: --topology switch --iommu on --allow DMAR --kernel 6.12

. "$TOP/tests/vm/lib.sh"

doctor="$BUILD/peerdma/tools/peerdma doctor --all"
export COLUMNS=2000
told=$(mktemp)

address() {
	for device in /sys/bus/pci/devices/*; do
		[ "$(cat "$device/vendor") $(cat "$device/device")" != "$1" ] || echo "${device##*/}"
	done
}
gpu=$(address "0x1af4 0x1110")
card=$(address "0x1234 0x11e8")
[ -n "$gpu" ] && [ -n "$card" ] || die "the devices are not there"

# finding VERDICT TITLE TEXT: the last doctor said so.
finding() {
	grep -A6 "^$1 *$2" "$told" | grep -q "$3" || { cat "$told"; die "it does not say: $*"; }
}

# The trap is named (broken, if this kernel has the p2pdma that falls into it), and it is one.
$doctor GPU0 CARD0 >"$told"
finding "[bo][rk]" "[a-z]* *Switch and translating IOMMU" "p2pdma"
"$BUILD/tests/doctor/bus-dma" "$card" "$gpu"
[ $? = 1 ] || die "bus addresses were not lost"

# The kernel has noticed.
$doctor GPU0 CARD0 >"$told"
finding broken "What the kernel has noticed: CARD0" "DMAR.*fault addr"

# Mapped, as peerdma's card does it, data arrives, in both directions.
load_modules
$doctor --probe "$card" "$gpu" >"$told"
finding ok Data.*written.to.the.GPU,.*read.from.the.GPU "all 9000 bytes are what was sent"
finding ok "A GPU's memory.*written by the CPU.*read by the CPU" "all 9000 bytes are what was sent"
finding ok "A GPU's memory.*dma-buf" "a dma-buf of 2097152 bytes"

# Memory that does not take what is written: the card reports success all the same.
setpci -s "$gpu" COMMAND=0:2
$doctor --probe "$card" "$gpu" >"$told"
code=$?
setpci -s "$gpu" COMMAND=2:2
[ $code = 1 ] || { cat "$told"; die "exit code $code where data was lost"; }
finding broken Data "success is reported"
unload_modules
