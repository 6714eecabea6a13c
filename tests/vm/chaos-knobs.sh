#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The knobs for faults: what they do to a client of nvidia_p2p, that the bridge
# refuses what it cannot trust and leaves nothing behind, and that vm/run and
# the modules know the same ones.
# vm-allow: ^peerdma_nvidia: the GPU driver returned a page table in an unsupported format
# vm: --cpus 1 --cards 1 --vram 32M --timeout 600 --chaos seed=7
# vm-more: --cards 1 --vram 32M --timeout 600 --chaos seed=7 --kernel 6.12 --iommu on

. "$TOP/tests/vm/lib.sh"

card=$(lspci -Dn -d 1234:11e8 | cut -d' ' -f1 | head -1)
bus=${card#*:}
bus=${bus%%:*}
load_modules softgpu nvidia nvp2p_test
[ "$(cat /sys/kernel/debug/softgpu/chaos/seed)" = 7 ] || die "vm/run --chaos seed=7 was not followed"

# ---- vm/chaos ----
chaos=$TOP/vm/chaos
known=$(env -u PEERDMA_CHAOS "$chaos" | sed 's/=.*//' | sort)
named=$(python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True
from harness.options import KNOBS; print("\n".join(sorted(KNOBS)))' "$TOP/vm")
[ "$known" = "$named" ] || die "vm/run knows other knobs than the modules: $known -- $named"
"$chaos" fail_pin=3 page_size=4 || die "vm/chaos does not set knobs"
[ "$("$chaos" fail_pin=0 page_size=64 && cat /sys/module/nvidia/parameters/page_size)" = 64 ] || die "vm/chaos does not set them back"
for wrong in nonsense=1 strict strict=2 page_size=5 fail_pin=many; do
	! "$chaos" "$wrong" 2>/dev/null || die "vm/chaos $wrong was accepted"
done

# ---- what a client sees ----

# logged MODULE KNOB...: the kernel's log has said that each was set, and that it has hit.
logged() {
	module=$1
	shift
	for knob; do
		dmesg | grep -q "$module: FAULT INJECTION: $knob=[1-9][0-9]*: " || die "the log does not say that $knob is on"
		dmesg | grep -q "$module: FAULT INJECTION: $knob hits for the first time" || die "the log does not say that $knob has hit"
	done
}

"$BUILD/tests/chaos/nvp2p_chaos" "0x${bus}00" || die "the knobs do not do what they say to a client"
logged nvidia get_race unsupported
logged softgpu dmabuf_whole
unload_modules nvp2p_test

# ---- what the bridge makes of it ----
load_modules peerdma peerdma_nvidia peerdma_fpga
"$chaos" table_version=0 mapping_version=0 page_size=64
"$BUILD/tests/chaos/bridge_chaos" "$card" || die "the bridge does not refuse what it must"
logged nvidia callback_twice callback_late_ms
[ "$("$BUILD/peerdma/tools/peerdma" pins)" = "No pins: peerdma.ko holds no memory." ] || die "pins are left"
"$chaos" table_version=0x00030000
"$BUILD/peers/fpga/fpga-copy" --size 4000 --cards 0
[ $? = 4 ] || die "fpga-copy works with a table of a version that the bridge does not know"
"$chaos" table_version=0 revoke_every=1
text=$("$BUILD/peers/fpga/fpga-copy" --size 64K --cards 0 2>&1) && die "a copy whose pins are revoked succeeds"
case $text in
*"freed under the copy"*) ;;
*) die "revoked before it was mapped, and fpga-copy says: $text" ;;
esac
"$chaos" revoke_every=0
"$BUILD/peers/fpga/fpga-copy" --size 4000 --cards 0 || die "fpga-copy does not work any more"
unload_modules
