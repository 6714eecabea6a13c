#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Every rule of nv-p2p.h, asked of the NVIDIA personality by a client module.
# Then each mistake that it names, the deadlocks with the driver's lock among them.
# vm-allow: ^nvidia: client nvp2p_test
# vm-allow: ^nvidia: \S+ cannot address GPU memory
# vm-more: --timeout 300 --gpus 2 --cards 2
# vm-more: --timeout 300 --cards 2 --iommu on
# vm: --cpus 1 --timeout 600 --gpus 2 --cards 2 --iommu on --kernel 6.12 --topology switch
# vm-more: --timeout 300 --cards 1 --iommu pt --kernel 6.12
# vm-more: --timeout 300 --gpus 0 --cards 1

. "$TOP/tests/vm/lib.sh"

parameters="bar1=64 bar1_reserved=1024"
[ -n "$(lspci -n -d 1af4:1110)" ] || parameters="$parameters sysmem=128"
insmod "$MODDIR/softgpu.ko" $parameters || die "softgpu.ko does not load"
load_modules nvidia nvp2p_test
# Where scripts look for the driver.
grep -q '^NVRM version: NVIDIA UNIX Open Kernel Module for .*  610\.00\.01  Release Build ' /proc/driver/nvidia/version ||
	die "/proc/driver/nvidia/version: $(cat /proc/driver/nvidia/version)"
[ "$(cat /sys/module/nvidia/version)" = 610.00.01 ] || die "nvidia.ko's version is not that of the driver: $(cat /sys/module/nvidia/version)"
grep -qx 'GrdmaPciTopoCheckOverride: 0' /proc/driver/nvidia/params || die "/proc/driver/nvidia/params lacks the topology check"
for gpu in $(lspci -n -D -d 1af4:1110 | cut -d' ' -f1); do
	grep -q "^Bus Location: .*$gpu" "/proc/driver/nvidia/gpus/$gpu/information" || die "/proc/driver/nvidia/gpus has no $gpu"
done
"$BUILD/tests/kernel/nvp2p_rules" || die "the provider breaks rules of nv-p2p.h"
unload_modules softgpu nvidia nvp2p_test

# An aperture as before CUDA 7.
insmod "$MODDIR/softgpu.ko" $parameters bar1_per_pin=1 driver=580 || die "softgpu.ko does not load"
load_modules nvidia nvp2p_test
grep -q '  580\.00\.01  ' /proc/driver/nvidia/version || die "/proc/driver/nvidia/version does not follow driver=580"
"$BUILD/tests/kernel/nvp2p_rules" "put: no table" || die "put_pages of NULL does not follow driver=580"
"$BUILD/tests/kernel/nvp2p_rules" "taken anew" || die "the aperture is not counted by the pin"
unload_modules softgpu nvidia nvp2p_test

# A coherent platform, where VRAM is system memory.
insmod "$MODDIR/softgpu.ko" $parameters || die "softgpu.ko does not load"
insmod "$MODDIR/nvidia.ko" coherent=1 || die "nvidia.ko does not load"
load_modules nvp2p_test
"$BUILD/tests/kernel/nvp2p_rules" "persistent: flags" || die "flags of a coherent platform"
unload_modules nvp2p_test
if [ -n "$(lspci -n -d 1af4:1110)" ]; then
	"$BUILD/tests/user/user_pointer" || die "a GPU on PCI, where the platform is coherent"
else
	COHERENT=1 "$BUILD/tests/user/user_pointer" || die "the CUDA side of a coherent platform"
	load_modules peerdma peerdma_importer peerdma_nvidia
	"$BUILD/tests/kernel/peerdma_uapi_test" coherent || die "the bridge on a coherent platform"
	unload_modules peerdma peerdma_importer peerdma_nvidia
fi
load_modules nvp2p_test
unload_modules softgpu nvidia nvp2p_test

# Wrong clients: each mistake is named, once for a client.
insmod "$MODDIR/softgpu.ko" $parameters || die "softgpu.ko does not load"
load_modules nvidia nvp2p_test
echo 100 >/sys/module/nvidia/parameters/callback_ms
"$BUILD/tests/kernel/nvp2p_wrong" rules || die "mistakes are not named"
unload_modules nvp2p_test
load_modules nvp2p_test
echo 500 >/sys/module/nvidia/parameters/callback_late_ms
"$BUILD/tests/kernel/nvp2p_wrong" late || die "a mistake in a late callback is not named"
echo 0 >/sys/module/nvidia/parameters/callback_late_ms
unload_modules nvp2p_test
load_modules nvp2p_test
left=$(mktemp -u)
mkfifo "$left"
"$BUILD/tests/kernel/nvp2p_wrong" leave >"$left" &
read -r _ <"$left"
rmmod nvp2p_test || die "the client does not unload"
dmesg | grep -q "client nvp2p_test: it is unloaded with 1 pins" || die "a client that leaves a pin is not named"
kill $!
wait $! || [ $? = 143 ] || die "the client that was killed ended by itself"

# And with the lock that NVIDIA's driver has, their deadlocks.
if [ -e /proc/lockdep ]; then
	unload_modules softgpu nvidia
	echo "the deadlocks with driver_lock were not made: lockdep would report them, and that fails the run"
	exit 77
fi
echo 1 >/sys/module/nvidia/parameters/driver_lock
echo 1000 >/sys/module/nvidia/parameters/driver_lock_ms
calls="get_pages put_pages"
[ -z "$(lspci -n -d 1234:11e8)" ] || calls="$calls dma_map_pages"
for call in $calls; do
	load_modules nvp2p_test
	"$BUILD/tests/kernel/nvp2p_wrong" $call || die "$call: a deadlock is not named"
	unload_modules nvp2p_test
done
unload_modules softgpu nvidia
