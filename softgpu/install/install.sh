#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Installs softgpu's kernel side where third-party drivers look for NVIDIA's:
#
#   /lib/modules/RELEASE/updates/softgpu/{softgpu,nvidia}.ko   never compressed: scripts read them
#   /usr/src/nvidia-VERSION/nvidia/{nv-p2p.h,nv-p2p.c,...}     what nvidia.ko is made from
#   /usr/src/nvidia-VERSION/Module.symvers                     its symbols' versions, for modpost
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
[ $# = 1 ] || die "usage: [DESTDIR=DIR] $0 [--uninstall] MODDIR"
moddir=$1
for file in softgpu.ko nvidia.ko Module.symvers; do
	[ -e "$moddir/$file" ] || die "$moddir/$file is not there: build the modules first (make modules)"
done

# modinfo is in /sbin, which is not on every user's PATH.
PATH=$PATH:/usr/sbin:/sbin
version=$(modinfo -F version "$moddir/nvidia.ko")
release=$(modinfo -F vermagic "$moddir/nvidia.ko" | cut -d' ' -f1)
modules=$destination/lib/modules/$release/updates/softgpu
sources=$destination/usr/src/nvidia-$version

# Never in the way of the real one.
foreign=$(find "$destination/lib/modules/$release" -name 'nvidia.ko*' ! -path "$modules/*" -print -quit 2>/dev/null || :)
[ -n "$uninstall" ] || [ -z "$foreign" ] || die "$foreign is there already, an NVIDIA driver: remove it, or install to a DESTDIR"

rm -rf "$sources"
rm -f "$modules/softgpu.ko" "$modules/nvidia.ko"
if [ -n "$uninstall" ]; then
	rmdir "$modules" 2>/dev/null || :
	echo "removed from $modules and $sources"
else
	install -d "$modules" "$sources/nvidia"
	install -m 644 "$moddir/softgpu.ko" "$moddir/nvidia.ko" "$modules"
	install -m 644 "$source"/*.[ch] "$source/Kbuild" "$sources/nvidia"
	# Only what third parties may use: not what softgpu.ko gives to nvidia.ko.
	grep -P '\tnvidia_p2p_' "$moddir/Module.symvers" |
		awk -F '\t' -v OFS='\t' '{ $3 = "nvidia"; print }' >"$sources/Module.symvers"
	chmod 644 "$sources/Module.symvers"
	echo "installed to $modules and $sources"
fi
[ -n "$destination" ] || depmod "$release"
