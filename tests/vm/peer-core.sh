#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The peer-memory core against its conformance table, and how it comes and goes: sysfs, the refusal
# to unload, the distribution's own RDMA modules under it.
# vm-with: peer-client
# vm: --cpus 1 --timeout 200 --cards 1 --gpus 0
# vm-more: --timeout 200 --cards 1 --gpus 0 --kernel 6.12 --iommu on
# vm-more: --timeout 300 --cards 1 --gpus 0 --kernel 7.2
# vm-allow: peerdma_peer_core: (twins?|missing): (a client of that name|the client has no)
# vm-allow: peer_core_test: (not ok: a driver in the table|trace +instead of)

. "$TOP/tests/vm/lib.sh"

# The core hooks functions of these; nothing of them is replaced.
if [ ! -e "$MODDIR/peerdma_peer_core.ko" ] || [ "$(uname -m)" != x86_64 ]; then
	echo "skip: this kernel has no RDMA core, or it is not for x86, where the core has been tried"
	exit 77
fi
modprobe ib_uverbs 2>/dev/null || [ -e /sys/class/infiniband_verbs ] || die "this kernel has no ib_uverbs"
card=$(lspci -Dn -d 1234:11e8 | head -1 | cut -d' ' -f1)
peers=/sys/kernel/mm/memory_peers

# conforms: the table, row by row; insmod fails where a row does.
conforms() {
	insmod "$MODDIR/peer_core_test.ko" card="$card"
	code=$?
	dmesg | sed -n 's/^.*peer_core_test: \(not ok\|wrong\|ok\|trace\|[0-9]* failures\)/\1/p'
	[ $code = 0 ] || die "the core breaks its contract"
}

insmod "$MODDIR/peerdma_peer_core.ko" drivers=absent,peer_core_test+inval || die "the core does not load"
dmesg | grep -q 'peerdma_peer_core: adds peer memory' || die "it does not say what it is"
[ -d "$peers" ] || die "no $peers"
conforms
# Regions would outlive the hook that releases them.
! echo 0 2>/dev/null >/proc/sys/kernel/ftrace_enabled || die "ftrace can be switched off under the core"
rmmod peer_core_test || die "the test does not unload"
[ -z "$(ls "$peers")" ] || die "clients are left: $(ls "$peers")"
[ "$(cat /sys/module/peerdma_peer_core/refcnt)" = 0 ] || die "regions are left"
rmmod peerdma_peer_core || die "the core does not unload"
[ ! -e "$peers" ] || die "$peers is left"

# Without it in a table, and without hooks: ib_umem_get() is the kernel's again.
insmod "$MODDIR/peerdma_peer_core.ko" || die "the core does not load again"
! insmod "$MODDIR/peer_core_test.ko" card="$card" only=ib_umem_get 2>/dev/null ||
	die "a driver that is in no table gets memory without pages"
rmmod peerdma_peer_core || die "the core does not unload after that"
echo "ok: peer core"
