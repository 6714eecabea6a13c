# SPDX-License-Identifier: MIT
#
# For tests that run in the guest: sourced, not run.  The harness sets BUILD
# (build/user) and MODDIR (build/modules/KERNEL).

: "${BUILD:?run me through tests/run or vm/run: BUILD is not set}"
: "${MODDIR:?run me through tests/run or vm/run: MODDIR is not set}"

# In the order of their needs.
modules="softgpu nvidia peerdma peerdma_nvidia peerdma_fpga"

# The look-alikes of libcuda and NVML, wherever Meson has put them.
for library in libcuda.so.1 libnvidia-ml.so.1 libamdhip64.so.6; do
	place=$(find -L "$BUILD/softgpu" -name "$library" -print -quit)
	[ -z "$place" ] || LD_LIBRARY_PATH=${place%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH

die() {
	echo "$0: $*" >&2
	exit 1
}

# load_modules [MODULE...]: all of them, or those named; then what vm/run --chaos asked for.
load_modules() {
	for module in ${*:-$modules}; do
		insmod "$MODDIR/$module.ko" || die "$module.ko does not load: see the kernel's log"
	done
	[ -z "${PEERDMA_CHAOS-}" ] || [ ! -e /sys/module/softgpu ] || "$TOP/vm/chaos" || die "vm/run --chaos cannot be followed"
}

# unload_modules [MODULE...]: in reverse; each must go, with nothing left that holds it.
# Not at once: peerdma_nvidia is held until the process is gone whose pin another gave back.
unload_modules() {
	reversed=
	for module in ${*:-$modules}; do
		reversed="$module $reversed"
	done
	for module in $reversed; do
		for _ in $(seq 600); do
			[ "$(cat "/sys/module/$module/refcnt" 2>/dev/null)" != 0 ] || break
			sleep 0.1
		done
		rmmod "$module" || die "$module does not unload: $(cat "/sys/module/$module/refcnt") uses are left"
	done
}
