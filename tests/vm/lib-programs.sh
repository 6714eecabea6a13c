#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What programs do with libpeerdma, on the real modules: the examples that need a GPU or
# an RDMA device (a software one, on the loopback interface), the caches of a running
# process, the benchmark, `peerdma top`, and the limits of a process.
# vm: --cards 1 --timeout 300 --allow lo.speed.is.unknown

. "$TOP/tests/vm/lib.sh"

peerdma=$BUILD/peerdma/tools/peerdma

# expect WORDS TEXT
expect() {
	case $2 in
	*"$1"*) ;;
	*) die "'$1' is not in: $2" ;;
	esac
}

load_modules

# Freed behind the cache's back: the kernel's word tells, or the free itself.
text=$("$BUILD/peerdma/behind") || die "behind: $text"
expect "pins: sent" "$text"
expect "registered anew; the old registration was ended when the next get found it stale" "$text"
text=$(LD_PRELOAD=$BUILD/peerdma/hooks/libpeerdma-hooks.so.0 "$BUILD/peerdma/behind") || die "behind, hooks: $text"
expect "registered anew; the old registration was ended by interception of the free" "$text"

# Every thing that is measured, on pins of both kinds of memory.
card=$(for device in /sys/bus/pci/devices/*; do
	[ "$(cat "$device/vendor" "$device/device" | tr '\n' ' ')" = "0x1234 0x11e8 " ] && echo "${device##*/}"
done | head -n 1)
text=$("$peerdma" bench --count 2 --seconds 0.01 --threads 1,2 --sizes 64,4096 --pci "$card") || die "bench: $text"
expect "host memory by 'host', a GPU's by 'nvidia'" "$text"
expect "no hardware's" "$text"
for case in "pin   host" "pin   device" "map   CPU view, device" "map   for a device, host" "copy  to a view, device" \
	"cache hit, pins"; do
	expect "$case" "$text"
done
[ -z "$(echo "$text" | grep 'not measured')" ] || die "$(echo "$text" | grep 'not measured')"

"$BUILD/tests/lib/limits" kernel || die "limits"

# Who does DMA, and whose cache is how good, as seen from outside.
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
python3 "$TOP/tests/lib/live_top.py" "$peerdma" "$card" "$BUILD/tests/cache/cache_seen" || die "top"

[ "$("$peerdma" pins)" = "No pins: peerdma.ko holds no memory." ] || die "pins are left: $("$peerdma" pins)"
unload_modules

# Memory regions of an RDMA device.  What is not there on this machine is said.
if [ ! -x "$BUILD/peerdma/verbs" ]; then
	echo "verbs: not run: it was built without libibverbs-dev"
elif ! command -v rdma >/dev/null || ! command -v ip >/dev/null; then
	echo "verbs: not run: the commands ip and rdma (iproute2) are not there"
elif ! modprobe rdma_rxe 2>/dev/null; then
	echo "verbs: not run: this kernel has no rdma_rxe"
else
	ip link set lo up && rdma link add rxe0 type rxe netdev lo || die "rxe on lo"
	text=$("$BUILD/peerdma/verbs") || die "verbs: $text"
	echo "$text"
	expect "1000 transfers, 4 memory regions made, 1996 gets found one; 1 ended with its memory" "$text"
fi
