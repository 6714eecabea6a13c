#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Every operation of the modules with its first, second, ... allocation failing.
# Allocations that are made to fail may be told of by the kernel itself, whose
# DMA debugging ends when one of its own does.
# vm-allow: allocation failure
# vm-allow: Unable to allocate
# vm-allow: cacheline tracking ENOMEM
# vm-allow: peerdma_fpga .*: Using [0-9]+-bit DMA addresses
# vm: --kernel debug --cards 1 --timeout 300 --vram 32M --dmesg-max info
# vm: --kernel debug --cards 1 --timeout 300 --vram 32M --dmesg-max info --iommu on

. "$TOP/tests/vm/lib.sh"

card=$(lspci -Dn -d 1234:11e8 | cut -d' ' -f1)
bus=${card#*:}
load_modules
load_modules nvp2p_test peerdma_importer
"$BUILD/tests/kernel/fail_nth_test" "0x${bus%%:*}00" "$@"
code=$?
unload_modules nvp2p_test peerdma_importer
unload_modules
exit $code
