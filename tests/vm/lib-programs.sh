#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What programs do with libpeerdma, on the real modules: the examples that need a GPU or
# an RDMA device (a software one, on the loopback interface), the caches of a running
# process, the benchmark, `peerdma top`, and the limits of a process.
# vm-with: softgpu-cuda
# vm-allow: ^lo speed is unknown
# vm-allow: (rxe_mr_init_user: Unable to pin|rxe_reg_user_mr: returned)
# libfabric finds out how much fits into a request by asking for more than that; newer rxe logs each refusal.
# vm-allow: ^rxe0: rxe_create_qp: returned err = -22$
# vm: --cpus 1 --cards 1 --timeout 600

. "$TOP/tests/vm/lib.sh"

peerdma=$BUILD/peerdma/tools/peerdma
preload=$BUILD/peerdma/preload/libpeerdma-verbs.so.0

# expect WORDS TEXT
expect() {
	case $2 in
	*"$1"*) ;;
	*) die "'$1' is not in: $2" ;;
	esac
}

# info CODE WORDS...: what the library has here.
info() {
	wanted=$1 code=0
	shift
	text=$(COLUMNS=9999 "$peerdma" info) || code=$?
	[ $code = "$wanted" ] || die "info ends with $code, not $wanted: $text"
	for words; do
		expect "$words" "$text"
	done
}

# Without the module, with the module but no GPU's provider, and with one. CUDA is there, and has perhaps a dma-buf of some memory: 2.
info 2 "module     peerdma.ko is not loaded" "kernel   off     /dev/peerdma: not there" "dmabuf   unknown decided per allocation"
load_modules softgpu nvidia peerdma
info 2 "kernel   on      /dev/peerdma (ABI 1): pins host memory only, because no GPU's provider is loaded" "dmabuf   unknown"
load_modules peerdma_nvidia peerdma_fpga
info 0 "module     peerdma.ko $(cat /sys/module/peerdma/version)" "kernel   on      /dev/peerdma (ABI 1): pins memory of 2 providers" \
	"can be pinned: by back-end 'kernel'"

# Freed behind the cache's back: the kernel's word tells, or the free itself.
text=$("$BUILD/peerdma/behind") || die "behind: $text"
expect "pins: sent" "$text"
expect "registered anew; the old registration was ended when the next get found it stale" "$text"
text=$(LD_PRELOAD=$BUILD/peerdma/hooks/libpeerdma-hooks.so.0 "$BUILD/peerdma/behind") || die "behind, hooks: $text"
expect "registered anew; the old registration was ended by interception of the free" "$text"

# Every thing that is measured, on pins of both kinds of memory.
card=$(devices 0x1234 0x11e8)
text=$("$peerdma" bench --count 2 --seconds 0.01 --threads 1,2 --sizes 64,4096 --pci "$card") || die "bench: $text"
expect "host memory by 'host', a GPU's by 'nvidia'" "$text"
expect "say nothing about hardware" "$text"
for case in "pin   host" "pin   device" "map   CPU view, device" "map   for a device, host" "copy  to a view, device" \
	"cache hit, pins"; do
	expect "$case" "$text"
done
[ -z "$(echo "$text" | grep 'not measured')" ] || die "$(echo "$text" | grep 'not measured')"

"$BUILD/tests/lib/limits" kernel || die "limits"

# Who does DMA, and whose cache is how good, as seen from outside.
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
python3 "$TOP/tests/lib/live_top.py" "$peerdma" "$card" "$BUILD/tests/cache/cache_inspect" || die "top"

# Memory regions of an RDMA device.  What is not there on this machine is said.
rxe=
if [ ! -x "$BUILD/peerdma/verbs" ]; then
	echo "verbs: not run: it was built without libibverbs-dev"
elif ! command -v rdma >/dev/null || ! command -v ip >/dev/null; then
	echo "verbs: not run: the commands ip and rdma (iproute2) are not there"
elif ! modprobe rdma_rxe 2>/dev/null; then
	echo "verbs: not run: this kernel has no rdma_rxe"
else
	ip link set lo up && rdma link add rxe0 type rxe netdev lo || die "rxe on lo"
	rxe=yes
fi

# verbs WORDS [VARIABLE=VALUE ...] ARGUMENTS: with all memory regions made once, and in this way.
verbs() {
	words=$1
	shift
	[ "$rxe" ] || return 0
	text=$(env "$@" 2>&1) || die "verbs: $text"
	echo "$text"
	expect "$words" "$text"
	expect "201 transfers, 5 pins made" "$text"
	expect "; 1 ended with its memory" "$text"
}
verbs "of back-end kernel, an MR by way of host" "$BUILD/peerdma/verbs" -n 200
# This device takes no dma-bufs and knows no peer's memory: both are tried, and a copy says so.
verbs "of back-end kernel, an MR by way of staging; dmabuf: ibv_reg_dmabuf_mr: Operation not supported; peer: ibv_reg_mr: " \
	"$BUILD/peerdma/verbs" -n 200 gpu

# A program that knows nothing of peerdma. By itself it cannot; with the preload the reason is printed: this device takes no dma-bufs.
plain() {
	[ "$rxe" ] || return 0
	words=$1
	shift
	text=$(env "$@" 2>&1)
	echo "$text"
	expect "$words" "$text"
}
plain "ibv_reg_mr of GPU memory: Bad address" "$BUILD/tests/preload/plain"
plain "is a GPU's memory and was not registered: peerdma_verbs_mr: " LD_PRELOAD="$preload" "$BUILD/tests/preload/plain"
# Memory that devices only read: before Linux 6.2 it registers, and what is registered is not the GPU's.
case $(uname -r) in
6.1*)	plain "plain: the device read zeros" "$BUILD/tests/preload/plain" read ;;
*)	plain "ibv_reg_mr of GPU memory to be read: Bad address" "$BUILD/tests/preload/plain" read ;;
esac
plain "is a GPU's memory and was not registered: peerdma_verbs_mr: " LD_PRELOAD="$preload" "$BUILD/tests/preload/plain" read

[ "$("$peerdma" pins)" = "No pins: peerdma.ko holds no memory." ] || die "pins are left: $("$peerdma" pins)"
unload_modules

# Without the modules: host memory that is locked, and a GPU in the process, whose memory the device does reach.
verbs "of back-end host, an MR by way of host" "$BUILD/peerdma/verbs" -n 200
verbs "of back-end soft, an MR by way of view" PEERDMA_PROVIDER=soft SOFTGPU_INPROCESS=1 "$BUILD/peerdma/verbs" -n 200 gpu
# libfabric's cache of registrations: off by itself when its own monitor is, and on with ours.
if [ ! -x "$BUILD/tests/preload/fabric_plain" ]; then
	echo "libfabric: not run: it was built without libfabric-dev"
elif [ "$rxe" ] && modprobe rdma_ucm && ip address add 192.0.2.7/24 dev lo; then
	plain "fabric_plain: 20 rounds, 0 found again, 0 stale" FI_MR_CACHE_MONITOR=disabled "$BUILD/tests/preload/fabric_plain"
	plain "fabric_plain: 20 rounds, 20 found again, 0 stale" FI_MR_CACHE_MONITOR=disabled \
		LD_PRELOAD="$BUILD/peerdma/preload/libpeerdma-fabric.so.0" "$BUILD/tests/preload/fabric_plain"
fi
for cache in 0 1; do
	plain "plain: 50 rounds, every byte right" LD_PRELOAD="$preload" PEERDMA_VERBS_CACHE=$cache PEERDMA_PROVIDER=soft SOFTGPU_INPROCESS=1 \
		"$BUILD/tests/preload/plain" 50
done
