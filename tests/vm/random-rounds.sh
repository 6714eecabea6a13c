#!/bin/sh
# SPDX-License-Identifier: MIT
#
# 1,000 random rounds: processes that allocate, pin, map, view, export and copy
# GPU memory end in every order, modules are unloaded under them, and everything
# comes back.  The seed is another one each time, and printed;
# STRESS_ARGS="--seed N" repeats, as far as times do.
# vm: --cards 2 --gpus 2 --vram 32M --dmesg-max info --timeout 1500 --env STRESS_ARGS
# vm: --cards 2 --gpus 2 --vram 32M --dmesg-max info --timeout 1500 --env STRESS_ARGS --kernel 6.12 --iommu on

. "$TOP/tests/vm/lib.sh"

exec "$BUILD/tests/stress/stress" $STRESS_ARGS
