#!/bin/sh
# SPDX-License-Identifier: MIT
# vm: --cards 0 --vram 64M --camera camera --camera "camera --lose 301"
#
# The demonstration of capture, in the guest: loads the modules, runs capture-demo with this script's arguments, and unloads
# everything, which fails if anything is left. "make demo-capture" boots the machine and runs this.

. "$(dirname "$0")/../../tests/vm/lib.sh"

capture_modules
load_modules softgpu nvidia peerdma peerdma_nvidia peerdma_grabber
"$BUILD/peers/grabber/capture-demo" ${WITNESS:+--witness "$WITNESS"} "$@"
code=$?
[ "$code" = 0 ] || exit "$code"
unload_modules softgpu nvidia peerdma peerdma_nvidia peerdma_grabber
