#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The Tegra personality by the rules of its interface, and the bridge over it: a GPU that
# uses the host's pointers, and one whose device pointers are others.  And one user's
# processes against another's.
# vm-allow: ^(peerdma|softgpu): .*has not released .*within 50 ms
# vm-allow: ^peerdma: .*: bus mastering is off
# vm-allow: ^peerdma_tegra: the GPU driver returned a .* in an unsupported format
# vm-allow: ^nvidia(_p2p)?: exports duplicate symbol nvidia_p2p_
# vm-allow: ^nvidia_p2p: .* mapped (cached|write-combined) at .*: undefined behaviour;
# vm-allow: ^nvidia_p2p: a client (calls \S+ (in|after) the (pin's )?free callback|frees the page table|has not freed the page table)
# vm: --timeout 400 --cards 1 --vram 32M --iommu on
# vm-more: --timeout 400 --cards 1 --vram 32M --kernel {6.1,6.12} --chaos device_pointers=1
#
# vm-more: --timeout 400 --cards 1 --vram 32M --kernel 6.12 --iommu on

. "$TOP/tests/vm/lib.sh"

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug

# One of the two, whichever came first; the kernel says why.
load_modules softgpu nvidia
! insmod "$MODDIR/nvidia_p2p.ko" 2>/dev/null || die "nvidia_p2p.ko loads beside nvidia.ko"
dmesg | grep -q "nvidia_p2p: exports duplicate symbol nvidia_p2p_.* (owned by nvidia)" || die "the kernel does not say why"
unload_modules nvidia
load_modules nvidia_p2p
! insmod "$MODDIR/nvidia.ko" 2>/dev/null || die "nvidia.ko loads beside nvidia_p2p.ko"

load_modules tegra_test
pages=$(sed -n 's/^KernelPageSize: *//p' /proc/self/smaps | head -1)
if [ "$pages" != "4 kB" ]; then
	! "$BUILD/tests/kernel/tegra_conform" >/dev/null || die "tables of 4 KiB are told of pages of $pages"
	load_modules peerdma
	! insmod "$MODDIR/peerdma_tegra.ko" 2>/dev/null || die "peerdma_tegra.ko loads on a kernel with pages of $pages"
	for words in "nvidia_p2p: get_pages: .*are of ${pages% kB}: refused" "peerdma_tegra: .*are of ${pages% kB}: not loaded"; do
		dmesg | grep -q "$words" || die "not named: $words"
	done
	unload_modules softgpu nvidia_p2p tegra_test peerdma
	exit 0
fi
"$BUILD/tests/kernel/tegra_conform" || die "some rules are not kept"
for words in "allocated cached, but mapped write-combined" "allocated write-combined, but mapped cached" \
	"memory of cudaMalloc(), which" "in the free callback of the same pin" "after the pin's free callback: ignored"; do
	dmesg | grep -q "nvidia_p2p: .*$words" || die "not named: $words"
done

[ "$(cat /sys/kernel/debug/softgpu/chaos/device_pointers)" = 0 ] ||
	dmesg | grep -q "nvidia_p2p: .*this is a host pointer; use the device pointer" || die "not named: the wrong pointer"

"$BUILD/tests/kernel/tegra_ends" "$(lspci -Dn -d 1af4:1110 | head -1 | cut -d' ' -f1)" || die "pins end with the GPU, or outlive their memory"

# A client that frees the memory of its tables, in the callback too, as NVIDIA's reference driver does.
unload_modules nvidia_p2p tegra_test
insmod "$MODDIR/nvidia_p2p.ko" client_frees=1 || die "nvidia_p2p.ko does not load again"
insmod "$MODDIR/tegra_test.ko" kfree_table=1 || die "tegra_test.ko does not load again"
report=$(mktemp)
"$BUILD/tests/kernel/tegra_conform" >"$report" || { cat "$report"; die "a client that frees its tables"; }
unload_modules nvidia_p2p tegra_test
load_modules nvidia_p2p tegra_test

# A driver that was written from the header alone.
insmod "$MODDIR/tegra_client.ko" card="$(lspci -Dn -d 1234:11e8 | head -1 | cut -d' ' -f1)" || die "tegra_client.ko does not load"
"$TOP/examples/kernel/tegra/tegra_client.py" || die "the example does not work"
unload_modules tegra_client

# The bridge: what it does with a GPU's memory on the desktop, too.
load_modules peerdma peerdma_tegra peerdma_importer peerdma_client
"$BUILD/tests/kernel/peerdma_uapi_test" tegra || exit
"$BUILD/tests/kernel/tegra_bridge" || exit
for words in "a page table .*(version 0x30000," "a page table .*page size 7," "a page table .*15 entries for 16 pages" \
	"a DMA mapping for .*(version 0x30000," "a DMA mapping for .* entries for 65536 bytes"; do
	dmesg | grep -q "peerdma_tegra: the GPU driver returned $words" || die "not named: $words"
done
load_fuse
"$BUILD/tests/kernel/tegra_hostile" || exit
unload_modules softgpu nvidia_p2p tegra_test peerdma peerdma_tegra peerdma_importer peerdma_client
dmesg | grep -q "nvidia_p2p: .*has not freed the page table" || die "not named: a table that is never freed"
