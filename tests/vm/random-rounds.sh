#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Random rounds, 1,000 on 6.1: processes that allocate, pin, map, view, export and copy
# GPU memory end in every order, modules are unloaded under them, and everything
# comes back.  The seed is another one each time, and printed;
# STRESS_ARGS="--seed N" repeats, as far as times do; "--rounds N" is how many.
# vm: --cards 2 --gpus 2 --vram 32M --dmesg-max info --timeout 1500 --env STRESS_ARGS
# vm: --cards 2 --gpus 2 --vram 32M --dmesg-max info --timeout 1500 --env STRESS_ARGS --env ROUNDS=300 --kernel 6.12 --iommu on

. "$TOP/tests/vm/lib.sh"

exec "$BUILD/tests/stress/stress" --rounds "${ROUNDS:-1000}" $STRESS_ARGS
