#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Installs peerdma's peer-memory core where builds that know OFED look for its RDMA core, so that
# nv_peer_mem and nvidia-peermem build unmodified.
set -eu

usage() {
	cat <<'END'
usage: [DESTDIR=DIR] peerdma/peermem/install/install.sh [--uninstall] MODDIR

MODDIR is a folder of vm/build-modules (build/modules/6.1): peerdma_peer_core.ko and Module.symvers.
DESTDIR goes before every path; with it no root is needed, and depmod is not run.

Installs, for the module's kernel RELEASE:
  /lib/modules/RELEASE/updates/peerdma/peerdma_peer_core.ko
  /usr/src/ofa_kernel/ARCH/RELEASE/Module.symvers            the core's symbols and their versions
  /usr/src/ofa_kernel/ARCH/RELEASE/include/rdma/peer_mem.h   and ib_umem_peer.h, for adapters
  /usr/src/ofa_kernel/RELEASE, /usr/src/ofa_kernel/default   links to that folder

Where OFED has been installed it changes nothing and fails: OFED has a core of its own.
END
}

die() {
	echo "$0: $*" >&2
	exit 1
}

uninstall=
case ${1-} in
-h | --help)
	usage
	exit ;;
--uninstall)
	uninstall=1
	shift ;;
esac
[ $# = 1 ] || { usage >&2; exit 2; }
moddir=$1
here=$(cd "$(dirname "$0")" && pwd)
for file in peerdma_peer_core.ko Module.symvers; do
	[ -e "$moddir/$file" ] || die "$moddir/$file is not there: build the modules first (make modules)"
done

# modinfo is in /sbin, which is not on every user's PATH.
PATH=$PATH:/usr/sbin:/sbin
vermagic=$(modinfo -F vermagic "$moddir/peerdma_peer_core.ko")
release=${vermagic%% *}
# The name in "uname -m" and in OFED.
case $vermagic in
*aarch64*) arch=aarch64 ;;
*) arch=x86_64 ;;
esac
modules=${DESTDIR-}/lib/modules/$release/updates/peerdma
ofa=${DESTDIR-}/usr/src/ofa_kernel
sources=$ofa/$arch/$release
mark=.peerdma_peer_core

# ours FOLDER: it does not exist, or this script made it.
ours() {
	{ [ ! -e "$1" ] && [ ! -L "$1" ]; } || [ -e "$1/$mark" ]
}

for folder in "$sources" "$ofa/$release" "$ofa/default"; do
	ours "$folder" || die "$folder is there already, from OFED: its RDMA core has peer memory"
done
for folder in "${DESTDIR-}"/var/lib/dkms/mlnx-ofed-kernel*; do
	[ ! -e "$folder" ] || [ -n "$uninstall" ] ||
		die "$folder is there: OFED's RDMA core has peer memory"
done

# The links first: the folder that they point to shows that they are ours. default may point to another kernel's folder.
if [ -n "$uninstall" ]; then
	[ "$(readlink "$ofa/default")" != "$arch/$release" ] || rm -f "$ofa/default"
	rm -f "$ofa/$release"
	rm -rf "$sources"
	rm -f "$modules/peerdma_peer_core.ko"
	rmdir "$ofa/$arch" "$ofa" "$modules" 2>/dev/null || :
	echo "removed from $modules and $ofa"
else
	install -d "$modules" "$sources/include/rdma"
	touch "$sources/$mark"
	install -m 644 "$moddir/peerdma_peer_core.ko" "$modules"
	install -m 644 "$here"/../include/rdma/*.h "$sources/include/rdma"
	awk -F '\t' -v OFS='\t' '$3 ~ /(^|\/)peerdma_peer_core$/ { $3 = "peerdma_peer_core"; print }' \
		"$moddir/Module.symvers" >"$sources/Module.symvers"
	chmod 644 "$sources/Module.symvers"
	grep -q ib_register_peer_memory_client "$sources/Module.symvers" ||
		die "$moddir/Module.symvers has no symbols of peerdma_peer_core"
	ln -sfn "$arch/$release" "$ofa/$release"
	ln -sfn "$arch/$release" "$ofa/default"
	echo "installed to $modules and $ofa"
fi
[ -n "${DESTDIR-}" ] || depmod "$release"
