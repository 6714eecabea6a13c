# SPDX-License-Identifier: MIT
#
# For the shell of each page in the guest: sourced.  Takes away what the page before left; then, for a page that loads
# no module by itself (the argument is "loaded"), loads them all.

. "$TOP/tests/vm/lib.sh"
export PATH="$DOCUMENTS_BIN:$BUILD/peerdma/tools:$BUILD/peers/fpga:$PATH"
export LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$BUILD/peerdma/lib:$BUILD/peerdma/hooks:$BUILD/peerdma/preload"

all="softgpu nvidia amdgpu peerdma peerdma_nvidia peerdma_amd peerdma_fpga"
# As the page before left it.
loaded=1
for module in $all; do
	[ -d "/sys/module/$module" ] || loaded=
done
[ "$1" = loaded ] && [ "$loaded" ] && return
rdma link delete rxe0 2>/dev/null
for _ in 1 2 3 4 5 6; do
	ours=
	while read -r module _; do
		[ ! -e "$MODDIR/$module.ko" ] || ours="$ours $module"
	done </proc/modules
	[ -n "$ours" ] || break
	rmmod $ours 2>/dev/null		# in the order of loading, the last first; what is in use takes another turn
done
[ -z "$ours" ] || die "these modules do not unload:$ours"
[ "$1" = bare ] || load_modules $all
