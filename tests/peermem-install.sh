#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What peerdma/peermem/install/install.sh installs, as builds that know OFED look for it; and that
# it leaves OFED's own alone.
set -eu

. "$(dirname "$0")/host.sh"
modules_of "${1-6.1}" peerdma_peer_core
ofa=$work/root/usr/src/ofa_kernel

install_to() {
	DESTDIR=$work/$1 "$top/peerdma/peermem/install/install.sh" ${2-} "$moddir"
}

install_to root
for folder in "$ofa/x86_64/$release" "$ofa/$release" "$ofa/default"; do
	[ -e "$folder/include/rdma/peer_mem.h" ] || die "no header in $folder"
	for symbol in ib_register_peer_memory_client ib_unregister_peer_memory_client ib_umem_get_peer; do
		# Tabs as nvidia-peermem's build wants them.
		grep -qP "^0x[0-9a-f]+\t$symbol\tpeerdma_peer_core\tEXPORT_SYMBOL" "$folder/Module.symvers" ||
			die "$folder/Module.symvers has no $symbol"
	done
done
[ -e "$work/root/lib/modules/$release/updates/peerdma/peerdma_peer_core.ko" ] || die "no module"

# A client from the installed files alone.
headers=$("$top/vm/fetch-kernel" "$kernel" --print headers)
mkdir "$work/client"
cat >"$work/client/client.c" <<'CLIENT'
#include <linux/module.h>
#include <rdma/peer_mem.h>
static struct peer_memory_client client = { .name = "none" };
static int __init start(void)
{
	return ib_register_peer_memory_client(&client, NULL) ? 0 : -EINVAL;
}
module_init(start);
MODULE_DESCRIPTION("a client");
MODULE_LICENSE("Dual BSD/GPL");
CLIENT
echo "obj-m := client.o
ccflags-y := -I$ofa/default/include" >"$work/client/Kbuild"
make -s -C "$headers" M="$work/client" KBUILD_EXTRA_SYMBOLS="$ofa/default/Module.symvers" modules >"$work/log" 2>&1 || {
	cat "$work/log"
	die "a client does not build"
}
[ "$(modinfo -F depends "$work/client/client.ko")" = peerdma_peer_core ] || die "the client does not depend on the core"

# Twice is as once, and nothing is left of it.
install_to root
install_to root --uninstall
left=$(find "$work/root" ! -type d)
[ -z "$left" ] || die "uninstalling leaves $left"

# Where OFED is, it is left as it is.
mkdir -p "$work/vendor/usr/src/ofa_kernel/x86_64/$release"
! install_to vendor 2>"$work/log" || die "it installs over OFED"
grep -q 'from OFED' "$work/log" || die "it does not say why"
! install_to vendor --uninstall 2>/dev/null || die "it uninstalls OFED"
[ -d "$work/vendor/usr/src/ofa_kernel/x86_64/$release" ] || die "OFED's folder is gone"
echo "ok: peermem install"
