#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The demonstration fails, and names the step, when any step is broken on
# purpose; and passes again right after.
# vm-allow: ^DMAR: (DRHD: handling fault|\[DMA (Read|Write).*PTE (Read|Write) access is not set)
# vm-more: --cards 4
# vm: --cpus 1 --cards 4 --iommu on

. "$TOP/tests/vm/lib.sh"

demo="$BUILD/peers/fpga/fpga-demo --size 16K"
screen=$(mktemp)

# broken WHAT LABEL: it must fail, for the reason that starts with LABEL.
broken() {
	$demo --break "$1" >"$screen"
	code=$?
	cat "$screen"
	[ "$code" = 1 ] || die "--break $1: exit code $code, not 1"
	sed '1,/^FAIL/d' "$screen" | grep -q "^ *$2:" || die "--break $1: the last lines do not name '$2'"
}

load_modules
broken flip-byte compared
broken wrong-dma-address compared
broken skip-unpin pins
$demo >"$screen" || { cat "$screen"; die "it fails without being broken"; }
unload_modules
