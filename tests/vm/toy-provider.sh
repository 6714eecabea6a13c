#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The smallest provider of memory, the example of docs/extending.md: its memory is pinned, viewed, mapped for the DMA
# card, and freed under the pin; nothing stays, and the modules go.
# vm: --cpus 1 --cards 1
# vm: --cpus 1 --cards 1 --iommu on --kernel 6.12

. "$TOP/tests/vm/lib.sh"

load_modules peerdma toy_provider
"$BUILD/tests/kernel/toy_provider_test" || exit
unload_modules peerdma toy_provider
