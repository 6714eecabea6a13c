#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The peer-memory clients, nv_peer_mem and nvidia-peermem, unmodified, on softgpu and on our
# peer-memory core: each is built by its own makefile, which finds both installations by itself;
# then it registers GPU memory in the virtual machine, with an adapter that does no DMA.
#
#   NV_PEER_MEMORY=/path/to/nv_peer_memory NVIDIA_OPEN=/path/to/open-gpu-kernel-modules \
#	tests/thirdparty/peer-memory.sh
#
# Either may be left out.
set -eu

. "$(dirname "$0")/lib.sh"
[ -n "${NV_PEER_MEMORY-}${NVIDIA_OPEN-}" ] || need_checkout NV_PEER_MEMORY - "nv_peer_memory"
prepare
DESTDIR=$root "$top/peerdma/peermem/install/install.sh" "$modules"
ofa=$root/usr/src/ofa_kernel/default
# Debian's headers for later kernels make BTF, which needs pahole; nothing here does.
no_btf=CONFIG_DEBUG_INFO_BTF_MODULES=
if ! private_mounts; then
	echo "not run: both look in /usr/src, and this machine has no private mounts"
	exit 77
fi

# tried NAME MODULE: it uses both installations, and works in the guest.
tried() {
	[ "$(nm -u "$2" | grep -c nvidia_p2p_)" -ge 6 ] || die "$1 uses nothing of nvidia.ko"
	nm -u "$2" | grep -q ib_register_peer_memory_client || die "$1 has not found the core"
	guest "$1" --cards 1 --env CLIENT="$2" -- \
		"$top/tests/thirdparty/peer-memory-guest.sh"
	guest "$1-iommu" --cards 1 --iommu on --env CLIENT="$2" -- \
		"$top/tests/thirdparty/peer-memory-guest.sh" >/dev/null
	echo "PASS $1 registers GPU memory, without an IOMMU and with one"
}

# Its script takes the symbols' offsets for their versions, and later kernels' modpost does not
# read the file that it makes: both files are named here.
if [ -n "${NV_PEER_MEMORY-}" ]; then
	need_checkout NV_PEER_MEMORY nv_peer_mem.c nv_peer_memory
	copy nv_peer_mem
	built nv_peer_mem installed make -C "$copy" KVER="$release" PWD="$copy" all \
		MAKE_PARAMS="KBUILD_EXTRA_SYMBOLS='$nvidia/Module.symvers $ofa/Module.symvers' $no_btf"
	cmp "$nvidia/nvidia/nv-p2p.h" "$copy/nv-p2p.h" || die "nv_peer_mem has taken another nv-p2p.h"
	tried nv_peer_mem "$copy/nv_peer_mem.ko"
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
	# Its Kbuild names OFED's file; the one of nvidia.ko, which is not built here, has to be added.
	built nvidia-peermem installed make -C "$copy/kernel-open" modules NV_KERNEL_MODULES=nvidia-peermem \
		SYSSRC="$common" SYSOUT="$headers" KERNEL_UNAME="$release" IGNORE_CC_MISMATCH=1 \
		KBUILD_EXTRA_SYMBOLS="$nvidia/Module.symvers $ofa/Module.symvers" $no_btf
	tried nvidia-peermem "$copy/kernel-open/nvidia-peermem.ko"
fi
