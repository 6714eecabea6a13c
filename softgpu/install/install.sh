#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Installs softgpu's kernel side where third-party drivers look for NVIDIA's:
#
#   /lib/modules/RELEASE/updates/softgpu/                      never compressed: scripts read them
#       softgpu.ko, nvidia.ko, dmabuf_mover.ko
#   /usr/lib/softgpu/RELEASE/{amdgpu,nvidia_p2p}.ko            AMD's and Tegra's personality, for insmod
#   /usr/src/nvidia-VERSION/nvidia/{nv-p2p.h,nv-p2p.c,...}     what nvidia.ko is made from
#   /usr/src/nvidia-VERSION/Module.symvers                     its symbols' versions, for modpost
#   /usr/src/softgpu/tegra/{linux/nv-p2p.h,Module.symvers}     the same for drivers for Tegra: -I that folder
#   /usr/src/softgpu/amd/{drm/amd_rdma.h,Module.symvers}       and for AMD's interface
#
# amdgpu.ko and nvidia_p2p.ko are where modprobe does not look: the kernel has a graphics driver of the
# one's name, and the other exports nvidia.ko's names, of which it loads one.
#
#   [DESTDIR=DIR] softgpu/install/install.sh MODDIR
#   [DESTDIR=DIR] softgpu/install/install.sh --uninstall MODDIR
#
# MODDIR is a folder of vm/build-modules: the .ko files and Module.symvers.
# DESTDIR goes before every path; with it no root is needed, and module
# dependencies are not computed.  Symbol versions differ between kernels, and
# there is one place for them: the kernel that was installed last has it.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
source=$here/../kernel/nvidia
destination=${DESTDIR-}

die() {
	echo "$0: $*" >&2
	exit 1
}

uninstall=
if [ "${1-}" = --uninstall ]; then
	uninstall=1
	shift
fi
if [ "${1-}" = --help ]; then
	sed -n '4,/^set -eu/{/^set -eu/d; s/^# \{0,1\}//; p}' "$0"
	exit
fi
[ $# = 1 ] || die "usage: [DESTDIR=DIR] $0 [--uninstall] MODDIR"
moddir=$1
names="softgpu nvidia dmabuf_mover"
hidden="amdgpu nvidia_p2p"
for file in $(printf '%s.ko ' $names $hidden) Module.symvers obj-tegra/Module.symvers; do
	[ -e "$moddir/$file" ] || die "$moddir/$file is not there: build the modules first (make modules)"
done

# modinfo is in /sbin, which is not on every user's PATH.
PATH=$PATH:/usr/sbin:/sbin
version=$(modinfo -F version "$moddir/nvidia.ko")
release=$(modinfo -F vermagic "$moddir/nvidia.ko" | cut -d' ' -f1)
modules=$destination/lib/modules/$release/updates/softgpu
sources=$destination/usr/src/nvidia-$version
others=$destination/usr/src/softgpu
library=$destination/usr/lib/softgpu/$release

# symvers FROM NAMES MODULE FILE: only what third parties may use, not what softgpu.ko gives to its personalities.
symvers() {
	grep -P "\t$2" "$1" | awk -F '\t' -v OFS='\t' -v module="$3" '{ $3 = module; print }' >"$4"
	chmod 644 "$4"
}

# Never in the way of the real one.
foreign=$(find "$destination/lib/modules/$release" -name 'nvidia.ko*' ! -path "$modules/*" -print -quit 2>/dev/null || :)
[ -n "$uninstall" ] || [ -z "$foreign" ] || die "$foreign is there already, an NVIDIA driver: remove it, or install to a DESTDIR"

rm -rf "$sources" "$others" "$library"
for name in $names; do
	rm -f "$modules/$name.ko"
done
if [ -n "$uninstall" ]; then
	rmdir "$modules" 2>/dev/null || :
	echo "removed from $modules, $library, $sources and $others"
else
	install -d "$modules" "$sources/nvidia"
	for name in $names; do
		install -m 644 "$moddir/$name.ko" "$modules"
	done
	for name in $hidden; do
		install -D -m 644 -t "$library" "$moddir/$name.ko"
	done
	install -m 644 "$source"/*.[ch] "$source/Kbuild" "$sources/nvidia"
	symvers "$moddir/Module.symvers" nvidia_p2p_ nvidia "$sources/Module.symvers"
	install -D -m 644 -t "$others/tegra/linux" "$here/../kernel/tegra/include/linux/nv-p2p.h"
	symvers "$moddir/obj-tegra/Module.symvers" nvidia_p2p_ nvidia_p2p "$others/tegra/Module.symvers"
	install -D -m 644 -t "$others/amd/drm" "$here/../kernel/amd/include/drm/amd_rdma.h"
	symvers "$moddir/Module.symvers" amdkfd_query_rdma_interface amdgpu "$others/amd/Module.symvers"
	echo "installed to $modules, $library, $sources and $others"
fi
[ -n "$destination" ] || depmod "$release"
