#!/bin/sh
# SPDX-License-Identifier: MIT
# vm: --cards 4
#
# The demonstration, in the guest: loads the modules, runs fpga-demo with this script's arguments,
# and unloads the modules again, which fails if anything is left behind.
# "make demo" boots the machine and runs this.

. "$(dirname "$0")/../../tests/vm/lib.sh"

# AMD's modules are added if AMD's memory is requested. Tegra's modules replace the desktop's,
# whose functions have the same names.
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
