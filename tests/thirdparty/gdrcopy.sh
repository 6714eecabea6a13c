#!/bin/sh
# SPDX-License-Identifier: MIT
#
# gdrcopy on softgpu: builds its driver, library and programs by its own
# makefiles, then runs its sanity tests and benchmarks in the virtual machine.
#
#   GDRCOPY=/path/to/gdrcopy [KVER=6.1|6.12] tests/thirdparty/gdrcopy.sh
#
# VM_ARGS are more options of vm/run. Needs a C++ compiler, and libcheck where
# gdrcopy is older than 2.4. Its program pplat is left out: it launches a GPU
# kernel.
set -eu

. "$(dirname "$0")/lib.sh"
need_checkout GDRCOPY src/gdrdrv/gdrdrv.c "gdrcopy (2.4.1 or later)"
missing=
command -v g++ >/dev/null || missing="g++"
if grep -q 'check\.h' "$checkout/tests/common.hpp" && ! pkg-config --exists check; then
	missing="$missing check libsubunit-dev"
fi
[ -z "$missing" ] || { echo "not run: gdrcopy needs Debian's $missing"; exit 77; }
prepare
copy gdrcopy

# What CUDA is to its makefiles: our headers, our libcuda.
cuda=$place/cuda
rm -rf "$cuda"
mkdir -p "$cuda/include" "$cuda/lib64"
ln -s "$top"/softgpu/user/include/*.h "$cuda/include/"
ln -s "$user"/softgpu/user/libcuda.so* "$cuda/lib64/"

# Two ways to tell its driver where things are: not at all, as on a machine with
# the real driver, and where that cannot be, by the variables of its makefile.
# Debian keeps arch/x86/include in a folder beside the headers, where versions
# of gdrdrv that include <arch/x86/...> do not look.
common=$(echo "$headers" | sed 's/-amd64$/-common/')
set -- make -C "$copy" driver KVER="$release" KCFLAGS="-I$common"
if private_mounts; then
	built gdrdrv installed "$@"
else
	say "no private mounts on this machine: telling gdrdrv where softgpu is"
	case $series in
	6.1)	flags=n; class=y ;;
	*)	flags=y; class=n ;;
	esac
	built gdrdrv "$@" KDIR="$headers" NVIDIA_SRC_DIR="$nvidia/nvidia" \
		HAVE_VM_FLAGS_SET=$flags HAVE_PROC_OPS=y HAVE_CLASS_CREATE_WITH_MODULE=$class
fi
grep -h 'Picking\|Setting' "$logs/gdrdrv.log" | sed 's/ If that.*//; s/^/  /'
built libgdrapi make -C "$copy" lib
built gdrcopy-tests make -C "$copy/tests" CUDA="$cuda" gdrcopy_sanity gdrcopy_copybw gdrcopy_copylat gdrcopy_apiperf

say "booting Linux $series"
guest gdrcopy --env GDRCOPY="$copy" -- "$top/tests/thirdparty/gdrcopy-guest.sh"
