#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What a pin costs among 100 and among 100,000, in the guest's instructions.
# vm: --timeout 600 --icount --vram 64M

. "$TOP/tests/vm/lib.sh"

load_modules softgpu nvidia live_pins
"$BUILD/tests/kernel/live_pins_test" || exit
unload_modules softgpu nvidia live_pins
