#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Importers of dma-bufs, the bridge among them, against an exporter that moves and
# revokes at every step.
# vm-allow: ^DMAR: (DRHD: handling fault|\[DMA (Read|Write).*PTE (Read|Write) access is not set)
# vm-allow: ^dmabuf_mover: .* has not released it within (50|100) ms
# vm-more: --timeout 400 --cards 1 --allow ^dmabuf_mover:.*memory.was.written
# vm: --timeout 400 --cards 1 --iommu on --kernel 6.12

. "$TOP/tests/vm/lib.sh"

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
load_modules dmabuf_mover peerdma peerdma_importer
"$BUILD/tests/kernel/mover_test" || exit

# The library's call, in a program that is given a dma-buf.
card=$(devices 0x1234 0x11e8)
for command in "refuse map 0" revoke; do
	text=$("$BUILD/tests/kernel/mover_fd" 65536 sh -c \
		"'$BUILD/peerdma/import' $card \$MOVER_FD \"echo $command >\$MOVER_CONTROL\"") || die "import: $text"
	echo "$text"
	case $command,$text in
	revoke,*"the pin is revoked"*"revocation reported: of this pin"* | refuse*,*"the pin is valid") ;;
	*) die "import, $command: $text" ;;
	esac
done
unload_modules dmabuf_mover peerdma peerdma_importer
