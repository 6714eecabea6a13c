#!/bin/sh
# SPDX-License-Identifier: MIT
#
# 1,000 random rounds, not part of "make check" while two errnos that they meet
# under module unload and queued copies are not understood:
# processes that allocate, pin, map, view, export and copy
# GPU memory end in every order, modules are unloaded under them, and everything
# comes back.  The seed is another one each time; STRESS_ARGS="--seed N" repeats.
# vm: --kernel 6.12 --iommu on --cards 2 --gpus 2 --vram 32M --dmesg-max info --timeout 890 --env STRESS_ARGS

. "$TOP/tests/vm/lib.sh"

exec "$BUILD/tests/stress/stress" $STRESS_ARGS
