#!/bin/sh
# SPDX-License-Identifier: MIT
#
# In the guest: gdrcopy's driver on softgpu, its tests and its benchmarks, with
# ordinary pins and then with persistent ones. gdrcopy.sh has built them in
# GDRCOPY and runs this; RESULTS is a folder for the programs' output.
set -u

. "$TOP/tests/vm/lib.sh"
: "${GDRCOPY:?run me through tests/thirdparty/gdrcopy.sh}" "${RESULTS:?}"
LD_LIBRARY_PATH=$GDRCOPY/src:$LD_LIBRARY_PATH
failed=

# Tests that fail on softgpu, why is said in docs/third-party.md. One that
# passes nevertheless is a failure too: the list is then out of date.
known="invalidation_fork_child_gdr_pin_parent_with_tokens"

# run NAME PROGRAM [ARGUMENT...]: its output goes to a file; its last lines are shown when it fails.
run() {
	name=$1
	shift
	timeout 300 "$@" >"$RESULTS/$name.log" 2>&1
	code=$?
	if [ $code = 0 ]; then
		echo "PASS $name"
	else
		echo "FAIL $name: exit code $code; its last lines:"
		tail -n 15 "$RESULTS/$name.log"
		failed="$failed $name"
	fi
}

outcomes() {
	sed -n "s/.*&&&& $1 \([A-Za-z0-9_]*\).*/\1/p" "$RESULTS/$sanity.log" | sort -u
}

# run_sanity NAME: every test by its own name, whether the program uses
# libcheck or a runner of its own.
run_sanity() {
	sanity=$1
	timeout 500 "$GDRCOPY/tests/gdrcopy_sanity" -v >"$RESULTS/$sanity.log" 2>&1
	code=$?
	unexpected=
	for test in $(outcomes FAILED); do
		case " $known " in
		*" $test "*) echo "  KNOWN $test fails on softgpu" ;;
		*)	echo "  FAILED $test"
			unexpected=1 ;;
		esac
	done
	for test in $(outcomes PASSED); do
		case " $known " in
		*" $test "*) echo "  PASSED $test, which was known to fail"
			unexpected=1 ;;
		esac
	done
	outcomes WAIVED | sed 's/^/  WAIVED /'
	count="$(outcomes PASSED | wc -l) passed, $(outcomes FAILED | wc -l) failed, $(outcomes WAIVED | wc -l) waived"
	# An exit code without a failed test: it crashed, or said nothing.
	[ -n "$(outcomes PASSED)" ] || unexpected=1
	[ $code = 0 ] || [ -n "$(outcomes FAILED)" ] || unexpected=1
	if [ -z "$unexpected" ]; then
		echo "PASS $sanity: $count"
	else
		echo "FAIL $sanity: $count, exit code $code; its last lines:"
		tail -n 15 "$RESULTS/$sanity.log"
		failed="$failed $sanity"
	fi
}

bar1_used() {
	cat /sys/kernel/debug/softgpu/*/bar1 | grep used
}

# As gdrcopy's own insmod.sh does it.
load_gdrdrv() {
	insmod "$GDRCOPY/src/gdrdrv/gdrdrv.ko" dbg_enabled=0 info_enabled=0 "use_persistent_mapping=$1" ||
		die "gdrdrv.ko does not load: see the kernel's log"
	rm -f /dev/gdrdrv
	mknod /dev/gdrdrv c "$(awk '$2 == "gdrdrv" { print $1 }' /proc/devices)" 0 || die "no node for gdrdrv"
	sed 's/^/  /' /proc/driver/gdrdrv/params 2>/dev/null
}

# It stops the kernel when a pin was not given back (BUG_ON).
unload_gdrdrv() {
	rmmod gdrdrv || die "gdrdrv.ko does not unload"
	now=$(bar1_used)
	[ "$now" = "$before" ] || { echo "FAIL BAR1 is $now, it was $before"; failed="$failed bar1"; }
}

# Small sizes: the processor is emulated, and the figures mean nothing.
benchmarks() {
	run "copybw$1" "$GDRCOPY/tests/gdrcopy_copybw" -w 20 -r 5
	run "copybw-vmm$1" "$GDRCOPY/tests/gdrcopy_copybw" -a cuMemCreate -w 20 -r 5
	run "copylat$1" "$GDRCOPY/tests/gdrcopy_copylat" -c -s 65536 -w 10 -r 5
	run "apiperf$1" "$GDRCOPY/tests/gdrcopy_apiperf" -s 1048576 -n 5 -w 1
}

load_modules softgpu nvidia
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
before=$(bar1_used)
[ -n "$before" ] || die "softgpu does not say in debugfs how much of BAR1 is used"

load_gdrdrv 0
run_sanity sanity
benchmarks ""
unload_gdrdrv

load_gdrdrv 1
# Older tests expect every pin to end with the memory: only for ordinary ones.
if grep -q GDR_ATTR_USE_PERSISTENT_MAPPING "$GDRCOPY/tests/sanity.cpp"; then
	run_sanity sanity-persistent
fi
benchmarks -persistent
unload_gdrdrv

unload_modules softgpu nvidia
[ -z "$failed" ] || die "failed:$failed"
