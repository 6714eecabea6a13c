#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What softgpu/install/install.sh installs, seen as third-party build systems
# see it: they find the header, the sources, the module file and its version by
# name, and what they build gets the symbol versions that nvidia.ko has.
set -eu

. "$(dirname "$0")/host.sh"
modules_of "${1-6.1}" nvidia
root=$work/root

DESTDIR=$root "$top/softgpu/install/install.sh" "$moddir"
version=$(modinfo -F version "$moddir/nvidia.ko")
# A machine's file, its driver and its libraries are of one release.
grep -q "SG_RELEASE_DEFAULT_VERSION.*\"$version\"" "$top/softgpu/core/base/release.h" || die "nvidia.ko's version is $version"
sources=$root/usr/src/nvidia-$version

# ---- by name ----
folder=$(dirname "$(find "$root"/usr/src/nvidia-* -name nv-p2p.c -print -quit)")
[ -e "$folder/nv-p2p.h" ] || die "nv-p2p.h is not beside nv-p2p.c"
grep -r MODULE_LICENSE "$folder" | grep -q GPL || die "no GPL-compatible licence is found beside nv-p2p.c"
[ "$(find "$root"/usr/src/nvidia-* -name nv-p2p.h | wc -l)" = 1 ] || die "not one nv-p2p.h below /usr/src/nvidia-*"
[ -e "$root/usr/src/nvidia-$version/nvidia/nv-p2p.h" ] || die "no header where the module's version says"
[ -e "$folder/../Module.symvers" ] || die "no Module.symvers above nv-p2p.h"
found=$(find "$root/lib/modules/$release" -name nvidia.ko -print -quit)
[ -n "$found" ] || die "no nvidia.ko below /lib/modules"
echo "$version" | grep -qE '^[0-9]+\.[0-9]+(\.[0-9]+)?$' || die "version $version is not numbers and dots"
for symbol in get_pages put_pages free_page_table get_pages_persistent put_pages_persistent \
	dma_map_pages dma_unmap_pages free_dma_mapping init_mapping destroy_mapping \
	register_rsync_driver unregister_rsync_driver get_rsync_registers put_rsync_registers; do
	nm "$found" | grep -q " T nvidia_p2p_$symbol\$" || die "nvidia.ko has no nvidia_p2p_$symbol"
	grep -qP "\tnvidia_p2p_$symbol\t" "$sources/Module.symvers" || \
		die "Module.symvers has no nvidia_p2p_$symbol"
done
[ "$(wc -l <"$sources/Module.symvers")" = 14 ] || die "Module.symvers has more than the interface"

# ---- a client with KBUILD_EXTRA_SYMBOLS, from the installed files alone ----
headers=$("$top/vm/fetch-kernel" "$kernel" --print headers)
mkdir "$work/client" "$work/dummy"
cp "$top"/tests/kernel/nvp2p_test*.[ch] "$work/client"
echo "obj-m := nvp2p_test.o
ccflags-y := -I$folder" >"$work/client/Kbuild"
make -s -C "$headers" M="$work/client" KBUILD_EXTRA_SYMBOLS="$sources/Module.symvers" modules >"$work/log" 2>&1 || {
	cat "$work/log"
	die "a client does not build"
}
[ "$(modinfo -F depends "$work/client/nvp2p_test.ko")" = nvidia ] || die "the client does not depend on nvidia.ko"

# ---- a client that makes up the provider: same header, same versions ----
cat >"$work/dummy/dummy.c" <<'DUMMY'
#include <linux/module.h>
#include <linux/mm.h>
#include "nv-p2p.h"
int nvidia_p2p_get_pages(uint64_t token, uint32_t space, uint64_t va, uint64_t length,
			 struct nvidia_p2p_page_table **table, void (*callback)(void *), void *data)
{
	return -EINVAL;
}
EXPORT_SYMBOL(nvidia_p2p_get_pages);
int nvidia_p2p_put_pages(uint64_t token, uint32_t space, uint64_t va,
			 struct nvidia_p2p_page_table *table)
{
	return -EINVAL;
}
EXPORT_SYMBOL(nvidia_p2p_put_pages);
int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *table)
{
	return -EINVAL;
}
EXPORT_SYMBOL(nvidia_p2p_free_page_table);
MODULE_LICENSE("Dual MIT/GPL");
DUMMY
echo "obj-m := dummy.o
ccflags-y := -I$folder" >"$work/dummy/Kbuild"
make -s -C "$headers" M="$work/dummy" modules >"$work/log" 2>&1 || {
	cat "$work/log"
	die "a module that makes up the provider does not build"
}
awk -F '\t' '{ print $1, $2 }' "$work/dummy/Module.symvers" | while read -r crc name; do
	grep -q "^$crc	$name	" "$sources/Module.symvers" || die "$name has another version than nvidia.ko's"
done

# ---- the other personalities: modules, headers, and clients that build against them ----
for module in lib/modules/$release/updates/softgpu/softgpu lib/modules/$release/updates/softgpu/dmabuf_mover \
	usr/lib/softgpu/$release/nvidia_p2p usr/lib/softgpu/$release/amdgpu; do
	[ -e "$root/$module.ko" ] || die "no $module.ko"
done
# A machine with such a card needs the kernel's own.
! find "$root/lib/modules" -name 'amdgpu.ko*' | grep -q . || die "amdgpu.ko is where modprobe looks"
for client in amd tegra; do
	mkdir "$work/$client"
	cp "$(find "$top/examples/kernel" -name "${client}_client.c")" "$work/$client"
	echo "obj-m := ${client}_client.o
ccflags-y := -I$root/usr/src/softgpu/$client" >"$work/$client/Kbuild"
	make -s -C "$headers" M="$work/$client" KBUILD_EXTRA_SYMBOLS="$root/usr/src/softgpu/$client/Module.symvers" \
		modules >"$work/log" 2>&1 || {
		cat "$work/log"
		die "a client of $client's interface does not build"
	}
done
[ "$(modinfo -F depends "$work/tegra/tegra_client.ko")" = nvidia_p2p ] || die "Tegra's client does not depend on nvidia_p2p.ko"
[ "$(modinfo -F depends "$work/amd/amd_client.ko")" = amdgpu ] || die "AMD's client does not depend on amdgpu.ko"

# ---- a GPU driver's headers are found, those of its version first ----
mkdir -p "$work/src/nvidia-535.1/nvidia" "$work/src/nvidia-current-open-550.2/nvidia" "$work/src/amdgpu-6.8/include/drm"
[ -z "$(SRC=$work/src "$top/packaging/kernel/gpu-headers" nvidia no-kernel)" ] || die "headers are found where none are"
touch "$work/src/nvidia-535.1/nvidia/nv-p2p.h" "$work/src/nvidia-current-open-550.2/nvidia/nv-p2p.h" \
	"$work/src/amdgpu-6.8/include/drm/amd_rdma.h"
[ "$(SRC=$work/src "$top/packaging/kernel/gpu-headers" nvidia no-kernel)" = "$work/src/nvidia-current-open-550.2/nvidia" ] || \
	die "not the newest of NVIDIA's headers"
[ "$(SRC=$work/src "$top/packaging/kernel/gpu-headers" amd no-kernel)" = "$work/src/amdgpu-6.8/include" ] || \
	die "AMD's headers are not found"
# Nothing that a virtual machine has by chance loads a test's driver.
for module in softgpu peerdma_fpga; do
	[ -z "$(modinfo -F alias "$moddir/$module.ko")" ] || die "$module.ko is loaded by itself where its device is"
done

# ---- and gone again ----
DESTDIR=$root "$top/softgpu/install/install.sh" --uninstall "$moddir"
left=$(find "$root" -type f)
[ -z "$left" ] || die "left after uninstalling: $left"
echo "found as NVIDIA's driver is: version $version, Linux $release"
