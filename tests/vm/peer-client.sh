#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The peer-memory client under a core that calls it in every order that the contract allows: with the memory of each
# provider, on a core that holds locks, and beside other clients.
# vm-allow: ^peerdma_peermem: (not loaded|\S+ is refused): 
# vm-allow: ^amdp2p: 
# vm: --timeout 200 --cards 2 --vram 64M --iommu on
# vm: --cpus 1 --timeout 200 --cards 2 --vram 64M --env AGAIN=1
# vm-more: --timeout 200 --cards 2 --vram 64M --kernel 6.12
#
# vm-more: --timeout 200 --cards 2 --vram 64M
# vm-more: --timeout 200 --cards 2 --vram 64M --kernel 7.2 --iommu on

. "$TOP/tests/vm/lib.sh"

# refused MODULE WORDS: it does not load, and the log says why.
refused() {
	! insmod "$MODDIR/$1.ko" 2>/dev/null || die "$1.ko loads"
	dmesg | grep -q "$2" || die "the log does not say why $1.ko is refused"
}

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
load_modules softgpu nvidia amdgpu dmabuf_mover peerdma peerdma_nvidia peerdma_amd
refused peerdma_peermem "not loaded: no RDMA core here takes peer-memory clients; load peerdma_peer_core"
load_modules peer_client_test amdp2p
refused peerdma_peermem "not loaded: the module amdp2p is a peer-memory client for the same memory"
unload_modules amdp2p

load_modules peerdma_peermem
# An IOMMU would make one entry of what is in many places.
if [ "${AGAIN-}" ]; then
	"$BUILD/tests/kernel/peer_client_rules" dmabuf "mapped again" >/tmp/told || { cat /tmp/told; exit 1; }
	cat /tmp/told
	grep -q '^  [0-9][0-9]* entries' /tmp/told && ! grep -q '^  1 entries' /tmp/told || die "the table has one entry: nothing is shown"
	unload_modules softgpu nvidia amdgpu dmabuf_mover peerdma peerdma_nvidia peerdma_amd peer_client_test peerdma_peermem
	exit
fi
refused amdp2p "amdp2p is refused: it is a peer-memory client"
for provider in nvidia amd dmabuf; do
	"$BUILD/tests/kernel/peer_client_rules" $provider || exit
done
unload_modules peerdma_peermem

# As scripts load the client of NVIDIA's driver; where that has a module of the name, the name comes before the alias.
folder=/tmp/by-name/lib/modules/$(uname -r)
mkdir -p "$folder/extra" && cp "$MODDIR/peerdma_peermem.ko" "$folder/extra" && depmod -b /tmp/by-name 2>/dev/null
modprobe -d /tmp/by-name nvidia-peermem || die "modprobe nvidia-peermem does not load the client"
[ -e /sys/module/peerdma_peermem ] || die "modprobe nvidia-peermem has loaded something else"
unload_modules peerdma_peermem
cp "$MODDIR/amdp2p.ko" "$folder/extra/nvidia-peermem.ko" && depmod -b /tmp/by-name 2>/dev/null
[ "$(modprobe -d /tmp/by-name --show-depends nvidia-peermem)" = "insmod $folder/extra/nvidia-peermem.ko " ] ||
	die "the alias comes before the module"

insmod "$MODDIR/peerdma_peermem.ko" persistent=1 || die "peerdma_peermem.ko persistent=1 does not load"
"$BUILD/tests/kernel/peer_client_rules" persistent || exit
unload_modules nvidia amdgpu peerdma_nvidia peerdma_amd peerdma_peermem

load_modules nvidia_p2p peerdma_tegra peerdma_peermem
"$BUILD/tests/kernel/peer_client_rules" tegra || exit
unload_modules softgpu dmabuf_mover peerdma peer_client_test nvidia_p2p peerdma_tegra peerdma_peermem
