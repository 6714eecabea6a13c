#!/bin/sh
# SPDX-License-Identifier: MIT
#
# In the guest: a peer-memory client of others on softgpu and on our core, with an adapter that
# does no DMA. peer-memory.sh has built CLIENT and runs this.
set -u

. "$TOP/tests/vm/lib.sh"
: "${CLIENT:?run me through tests/thirdparty/peer-memory.sh}"
program="$TOP/tests/thirdparty/peer-memory-guest.py"
peers=/sys/kernel/mm/memory_peers
name=$(basename "$CLIENT" .ko | tr - _)

modprobe ib_uverbs || die "this kernel has no ib_uverbs"
load_modules softgpu nvidia peerdma_peer_core
insmod "$CLIENT" || die "$CLIENT does not load"
insmod "$MODDIR/peer_core_test.ko" only=none card="$(lspci -Dn -d 1234:11e8 | head -1 | cut -d' ' -f1)" ||
	die "peer_core_test.ko does not load"
for version in "$peers"/*/version; do
	echo "  $version: $(cat "$version")"
done
"$program" || die "revocable memory"
"$program" kill
[ $? = 137 ] || die "it was not killed"
if [ -e "$peers/nv_mem_nc" ]; then
	"$program" stays || die "memory that stays"
	"$program" stays kill
fi
# At rest, what was registered is all given back, and unloading is not held up.
for peer in "$peers"/*; do
	[ "$(cat "$peer/num_alloc_mrs")" = "$(cat "$peer/num_dealloc_mrs")" ] || die "$peer: regions are left"
	[ "$(cat "$peer/num_reg_bytes")" = "$(cat "$peer/num_dereg_bytes")" ] || die "$peer: bytes are left"
	echo "  ${peer##*/}: $(cat "$peer/num_alloc_mrs") regions, $(cat "$peer/num_free_callbacks") invalidations"
done
unload_modules softgpu nvidia peerdma_peer_core "$name" peer_core_test
