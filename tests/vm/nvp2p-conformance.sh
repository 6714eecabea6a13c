#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The conformance suite on softgpu: every rule that can be tried is kept, the same
# by its table and by its JSON; and the suite notices providers that are wrong.
# vm-more: --timeout 300 --cards 1 --allow client.nvp2p_test
# vm-more: --timeout 300 --cards 1 --kernel 6.12 --allow client.nvp2p_test
# vm-more: --timeout 300 --cards 1 --iommu on --allow client.nvp2p_test
# vm: --timeout 600 --cards 1 --kernel 6.12 --iommu on --allow client.nvp2p_test

. "$TOP/tests/vm/lib.sh"

insmod "$MODDIR/softgpu.ko" bar1=64 || die "softgpu.ko does not load"
load_modules nvidia nvp2p_test
peer=$(lspci -Dn -d 1234:11e8 | head -1 | cut -d' ' -f1)
work=$(mktemp -d)

# conform [OPTION...]: in a small aperture, for the one peer there is.
conform() {
	"$BUILD/tests/conformance/nvp2p_conform" --bar1 128 --peer "$peer" "$@"
}

conform || die "rules are broken"

# notices WHAT RULE TEXT: exit code 1, and a row of JSON that says FAIL.
notices() {
	conform --json --only "$2" >"$work/json"
	code=$?
	[ $code = 1 ] || die "$1: exit code $code"
	python3 - "$work/json" "$2 $3" <<-'END' || die "$1: no row of that rule says FAIL"
		import json, sys
		told = json.load(open(sys.argv[1]))
		failed = [row["rule"] + " " + row["what"] for row in told["rows"] if row["verdict"] == "FAIL"]
		assert told["failed"] == len(failed) > 0, told
		print("  " + "\n  ".join(failed))
		sys.exit(not any(text.startswith(sys.argv[2]) for text in failed))
	END
	echo "noticed: $1"
}

parameters=/sys/module/nvidia/parameters
# These are asked for on one machine only: they say nothing about the others.
if [ ! -e /sys/class/iommu/dmar0 ] && [ "$(uname -r | cut -d. -f1-2)" = 6.1 ]; then
	echo 0x00030000 >$parameters/table_version
	notices "tables of another version" "1.5" "page table: version"
	echo 0 >$parameters/table_version
	echo 0x00010001 >$parameters/mapping_version
	notices "mappings of another version" "1.9" "DMA mapping: version"
	echo 0 >$parameters/mapping_version
	echo 4 >$parameters/page_size
	notices "pages of 4 KiB" "1.5" "page table: page_size"
	echo 64 >$parameters/page_size
	"$TOP/vm/chaos" strict=1
	notices "managed memory that is pinned" "1.5" "managed memory"
	"$TOP/vm/chaos" strict=0
	conform --only 1.9 >/dev/null || die "rules are broken after all that"
fi
rm -r "$work"
# A driver that was written from the header and NVIDIA's guide alone: nothing of it is named, and it does not deadlock.
unload_modules nvp2p_test
echo 1 >$parameters/driver_lock
insmod "$MODDIR/nvidia_client.ko" card="$peer" || die "nvidia_client.ko does not load"
"$TOP/examples/kernel/nvidia_client.py" || die "the example does not work"
"$TOP/examples/kernel/nvidia_dma.py" "$peer" || die "the example's DMA does not work"
unload_modules softgpu nvidia nvidia_client
