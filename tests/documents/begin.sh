# SPDX-License-Identifier: MIT
#
# For the shell of each page in the guest: sourced.  Takes away what the page before left; then, for a page that loads
# no module by itself (the argument is "loaded"), loads them all.

. "$TOP/tests/vm/lib.sh"
export PATH="$DOCUMENTS_BIN:$BUILD/peerdma/tools:$BUILD/peers/fpga:$PATH"
export LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$BUILD/peerdma/lib:$BUILD/peerdma/hooks:$BUILD/peerdma/preload"

all="softgpu nvidia amdgpu peerdma peerdma_nvidia peerdma_amd peerdma_fpga"
rdma link delete rxe0 2>/dev/null
for _ in 1 2 3 4 5 6; do
	for module in $(lsmod | awk '{ print $1 }'); do
		[ ! -e "$MODDIR/$module.ko" ] || rmmod "$module" 2>/dev/null
	done
done
[ "$1" = bare ] || load_modules $all
