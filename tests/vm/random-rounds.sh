#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Random rounds, 850 on 6.1: processes that allocate, pin, map, view, export and copy
# memory of all providers (one or the other make's GPU, dma-bufs that move and are
# revoked, the host) end in every order, modules are unloaded under them, and everything
# comes back.  With SEED, the rounds are the same each time, as far as times are: then a
# failure is a change's.  Without, the seed is another one each time, and printed, as it is
# in `make check-debug-rounds`.  STRESS_ARGS="--seed N --rounds N" overrules.
# What a right client cannot avoid, as NVIDIA's driver has no call for it: the last file of a
# process that is gone ends its pins, or a token's context ends beside the put; and such a
# pin's callback may come when no driver is left that knows its table.
# vm-allow: ^nvidia: client peerdma_nvidia: put_pages\(0x[0-9a-f]+\) (in another process|by a token)
# vm-allow: ^nvidia: client peerdma_nvidia: the free callback of 0x[0-9a-f]+ ends without
# vm: --cards 2 --gpus 2 --vram 32M --dmesg-max info --timeout 1500 --env STRESS_ARGS --env SEED=20261122 --env ROUNDS=45 --env TEGRA=40
# vm-more: --cards 2 --gpus 2 --vram 32M --dmesg-max info --timeout 1500 --env STRESS_ARGS --env SEED=20261122 --env ROUNDS=80 --kernel 6.12 --iommu on
# vm-more: --cards 2 --gpus 2 --vram 32M --dmesg-max info --timeout 1500 --env STRESS_ARGS --env SEED=20261122 --env ROUNDS=45 --kernel 6.12 --env TEGRA=40

. "$TOP/tests/vm/lib.sh"

# As on users' machines.
echo 2 >/proc/sys/kernel/randomize_va_space
"$BUILD/tests/stress/stress" ${SEED:+--seed "$SEED"} --rounds "${ROUNDS:-850}" $STRESS_ARGS || exit
# And so many with Tegra's interface, whose functions have the same names as the desktop's.
if [ -n "${TEGRA-}" ]; then
	unload_modules softgpu nvidia amdgpu dmabuf_mover peerdma peerdma_nvidia peerdma_amd peerdma_fpga
	exec "$BUILD/tests/stress/stress" ${SEED:+--seed "$SEED"} --rounds "$TEGRA" --tegra $STRESS_ARGS
fi
