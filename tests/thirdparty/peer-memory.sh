#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The peer-memory clients, nv_peer_mem and nvidia-peermem, on softgpu: how far
# do their builds go? Both need an RDMA core with peer memory (MLNX_OFED), which
# Debian's kernels have not, so this asks only that they find softgpu, and that
# what then stops them is what Debian's kernel lacks.
#
#   NV_PEER_MEMORY=/path/to/nv_peer_memory NVIDIA_OPEN=/path/to/open-gpu-kernel-modules \
#	tests/thirdparty/peer-memory.sh
#
# Either may be left out.
set -eu

. "$(dirname "$0")/lib.sh"
[ -n "${NV_PEER_MEMORY-}${NVIDIA_OPEN-}" ] || need_checkout NV_PEER_MEMORY - "nv_peer_memory"
prepare

# says NAME TEXT WHAT: the build's output must have that text.
says() {
	grep -q -- "$2" "$logs/$1.log" || { tail -n 20 "$logs/$1.log"; die "$1: $3"; }
	echo "  $1: $(grep -m 1 -- "$2" "$logs/$1.log" | sed "s|$place/||g")"
}

if [ -n "${NV_PEER_MEMORY-}" ]; then
	need_checkout NV_PEER_MEMORY nv_peer_mem.c nv_peer_memory
	copy nv_peer_mem
	if ! private_mounts; then
		echo "not run: nv_peer_mem looks in /usr/src and /lib/modules only, and this machine has no private mounts"
		exit 77
	fi
	if installed make -C "$copy" KVER="$release" PWD="$copy" all >"$logs/nv_peer_mem.log" 2>&1; then
		die "nv_peer_mem builds: this kernel has peer memory, and more can be tried"
	fi
	says nv_peer_mem 'Found /usr/src/nvidia-.*/nvidia/nv-p2p.h' "it has not found softgpu's nv-p2p.h"
	says nv_peer_mem 'Getting symbol versions from /lib/modules/.*/nvidia.ko' "it has not found softgpu's nvidia.ko"
	cmp "$nvidia/nvidia/nv-p2p.h" "$copy/nv-p2p.h" || die "nv_peer_mem has taken another nv-p2p.h"
	[ "$(grep -c nvidia_p2p_ "$copy/nv.symvers")" -ge 7 ] || die "nv_peer_mem has not found softgpu's symbols"
	says nv_peer_mem 'rdma/peer_mem.h: No such file' "it stops at something else than the missing RDMA core"
	echo "PASS nv_peer_mem finds softgpu, and then no RDMA core with peer memory"
fi

if [ -n "${NVIDIA_OPEN-}" ]; then
	need_checkout NVIDIA_OPEN kernel-open/nvidia-peermem/nvidia-peermem.c "open-gpu-kernel-modules"
	# Only the kernel part is needed, and the rest is large.
	mkdir -p "$place/kernel-open.checkout"
	rm -rf "$place/kernel-open.checkout/kernel-open"
	cp -a "$checkout/kernel-open" "$place/kernel-open.checkout/"
	[ ! -e "$checkout/version.mk" ] || cp "$checkout/version.mk" "$checkout/utils.mk" "$place/kernel-open.checkout/"
	checkout=$place/kernel-open.checkout
	copy nvidia-peermem
	common=$(echo "$headers" | sed 's/-amd64$/-common/')
	# Without peer memory in the RDMA core it builds to a module that uses nothing of nvidia.ko.
	built nvidia-peermem make -C "$copy/kernel-open" modules NV_KERNEL_MODULES=nvidia-peermem \
		SYSSRC="$common" SYSOUT="$headers" KERNEL_UNAME="$release" IGNORE_CC_MISMATCH=1 \
		KBUILD_EXTRA_SYMBOLS="$nvidia/Module.symvers"
	module=$copy/kernel-open/nvidia-peermem.ko
	echo "  nvidia-peermem.ko $(modinfo -F version "$module"), symbols of nvidia.ko in it: $(nm -u "$module" | grep -c nvidia_p2p_ || :)"
	if cmp -s "$nvidia/nvidia/nv-p2p.h" "$copy/kernel-open/nvidia/nv-p2p.h"; then
		die "NVIDIA's sources have our nv-p2p.h"
	fi
	echo "PASS nvidia-peermem builds; it brings its own nv-p2p.h, and without peer memory in the RDMA core it is empty"
fi
