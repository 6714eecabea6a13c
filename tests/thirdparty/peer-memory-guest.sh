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
insmod "$MODDIR/peer_core_test.ko" only=none card="$(lspci -Dn -d 1234:11e8 | head -1 | cut -d' ' -f1)" ||
	die "peer_core_test.ko does not load"

# both ARGUMENT...: the program, and the same when it is killed.
both() {
	"$program" "$@" || die "$name: ${*:-revocable memory}"
	"$program" "$@" kill
	[ $? = 137 ] || die "$name: ${*:-revocable memory}: it was not killed"
}

# as KIND PARAMETER...: nv_mem is a client of that kind, "revocable" or "persistent", if the module gets these parameters.
as() {
	kind=$1
	shift
	insmod "$CLIENT" "$@" || die "$CLIENT $* does not load"
	for version in "$peers"/*/version; do
		echo "  $version: $(cat "$version")"
	done
	if [ "$kind" = revocable ]; then
		both
		# Its second client, if it has one, is for adapters that cannot be stopped.
		[ ! -e "$peers/nv_mem_nc" ] || both stays
	else
		both persistent
		both stays
		[ "$(cat "$peers/nv_mem/num_free_callbacks")" = 0 ] || die "a persistent client has invalidated"
	fi
	# At rest, what was registered is all given back, and unloading is not held up.
	for peer in "$peers"/*; do
		[ "$(cat "$peer/num_alloc_mrs")" = "$(cat "$peer/num_dealloc_mrs")" ] || die "$peer: regions are left"
		[ "$(cat "$peer/num_reg_bytes")" = "$(cat "$peer/num_dereg_bytes")" ] || die "$peer: bytes are left"
		echo "  ${peer##*/}: $kind, $(cat "$peer/num_alloc_mrs") regions, $(cat "$peer/num_free_callbacks") invalidations"
	done
	unload_modules "$name"
}

# By default nv_mem of newer nvidia-peermem is persistent: memory that is freed is not invalidated.
if modinfo -F parm "$CLIENT" | grep -q '^persistent_api_support:'; then
	as persistent
	as revocable persistent_api_support=0
	# The core unmaps, not the client: for cores that do not know better.
	as revocable persistent_api_support=0 peerdirect_support=1
else
	as revocable
fi
unload_modules softgpu nvidia peerdma_peer_core peer_core_test
