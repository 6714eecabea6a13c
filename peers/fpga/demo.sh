#!/bin/sh
# SPDX-License-Identifier: MIT
# vm: --cards 4
#
# The main job's screen, in the guest: loads the modules, shows the whole path,
# and unloads the modules again, which only works when nothing is left behind.
# "make demo" boots the machine and runs it; arguments go to fpga-demo.

. "$(dirname "$0")/../../tests/vm/lib.sh"

# AMD's providers too, where AMD's memory is asked for; the others stay. Tegra's instead of the
# desktop's, whose functions have the same names.
case " $*" in
*" --gpu"*tegra*amd* | *" --gpu"*amd*tegra*)
	modules="softgpu nvidia_p2p amdgpu peerdma peerdma_tegra peerdma_amd peerdma_fpga" ;;
*" --gpu"*tegra*) modules="softgpu nvidia_p2p peerdma peerdma_tegra peerdma_fpga" ;;
*" --gpu"*amd*) modules="softgpu nvidia amdgpu peerdma peerdma_nvidia peerdma_amd peerdma_fpga" ;;
esac
load_modules
"$BUILD/peers/fpga/fpga-demo" "$@"
code=$?
[ "$code" = 0 ] || exit "$code"
unload_modules
