#!/bin/sh
# SPDX-License-Identifier: MIT
#
# jetson-rdma-picoevb on softgpu: its kernel module goes with Linux up to 5.17
# (pci_set_dma_mask), older than any kernel here, so this asks only that its
# build finds softgpu's header and symbols, as build-for-pc-native.sh looks.
#
#   PICOEVB=/path/to/jetson-rdma-picoevb tests/thirdparty/picoevb.sh
set -eu

. "$(dirname "$0")/lib.sh"
need_checkout PICOEVB kernel-module/nvidia-ko-to-module-symvers jetson-rdma-picoevb
prepare
copy picoevb

# The script asks uname -r for the kernel, which is this machine's: the same
# two commands, with the kernel that softgpu was built for.
private_mounts || { echo "not run: this machine has no private mounts"; exit 77; }
found=$(installed sh -c 'dirname "$(find /usr/src/nvidia-* -name nv-p2p.h | head -1)"
	find "/lib/modules/$1/" -name "nvidia*.ko" | grep -P "nvidia(_[0-9]+)?.ko" | head -1' sh "$release")
header=$(echo "$found" | sed -n 1p)
module=$(echo "$found" | sed -n 2p)
case $header in
/usr/src/nvidia-*/nvidia) echo "  header: $header/nv-p2p.h" ;;
*)	die "its search finds no header of softgpu's, but $header" ;;
esac
[ -n "$module" ] || die "its search finds no nvidia.ko"
echo "  module: $module"
(cd "$copy/kernel-module" && ./nvidia-ko-to-module-symvers "$root$module" Module.symvers) >"$logs/picoevb.log" 2>&1
symbols=$(grep -o 'nvidia_p2p_[a-z_]*' "$copy/kernel-module/Module.symvers" | sort -u | grep -c .)
[ "$symbols" = 7 ] || die "its script has listed $symbols symbols, not 7"
# It reads versions from the symbol table, where old kernels had them.
version=$(awk '$2 == "nvidia_p2p_put_pages" { print $1 }' "$nvidia/Module.symvers")
grep -q "^0x0*${version#0x}[[:space:]]nvidia_p2p_put_pages" "$copy/kernel-module/Module.symvers" ||
	without=", but not their versions: with this kernel it reads something else"
echo "  symbols: $symbols${without-}"
echo "PASS picoevb-rdma finds softgpu"
