#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Pins against all that ends them, at random: programs that free, destroy, close,
# fork, exit and are killed in any order. Everything is given back each time.
# vm-with: lib-regions
# vm-more: --timeout 600 --env ROUNDS=1000
# vm: --timeout 600 --kernel 6.12 --iommu on

. "$TOP/tests/vm/lib.sh"

load_modules softgpu nvidia nvp2p_test
"$BUILD/tests/kernel/nvp2p_stress" "${ROUNDS:-250}" || die "something was left, or ended twice"
unload_modules softgpu nvidia nvp2p_test
