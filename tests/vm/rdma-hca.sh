#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The software RDMA adapter: every operation on memory of the host and on dma-bufs of a GPU; memory that is freed under
# requests; the same with an adapter that does not stop: then requests reach memory that another owns, or the IOMMU stops
# them.  Only one of it and rdma_rxe is loaded; it goes with its PCI function, and unloads.
# vm-allow: peerdma_hca: qp#[0-9]+ Failed no address vector
# vm-allow: rxe0: DMA (read|write) fault at .* no translation in the IOMMU domain of
# vm-allow: ^peerdma_hca: (not loaded: rdma_rxe|rdma_rxe is refused)
# The preload tries the address first, and no client knows it.
# vm-allow: rxe_(mr_init_user|reg_user_mr): .*err = -14
# Newer rxe logs each request that fails.
# vm-allow: rxe0: (qp|pd|mr)#[0-9]+ 
# One with a name that is taken, and one whose function loses its driver.
# vm-allow: peerdma_hca: (rxe_newlink: |)failed to add (virtual|eth0)
# vm-allow: rxe_register_device.* error -23
# vm: --cpus 1 --nics 1 --cards 0 --timeout 300 --env SHORT=1
# vm-more: --nics 1 --cards 0 --timeout 7000 --kernel {6.1,6.12,7.2} --iommu {off,pt} --env ROUNDS=1000
# vm-more: --nics 1 --cards 0 --timeout 7000 --kernel {6.1,6.12,7.2} --iommu on --append iommu.strict={0,1} --env ROUNDS=1000

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

modules="softgpu nvidia peerdma peerdma_nvidia"
load_modules
rdma_start
dmesg -C

# Both want UDP port 4791 and driver id 14.
rxe=$(modinfo -n rdma_rxe 2>/dev/null)
if [ ! "$rxe" ]; then
	echo "beside rdma_rxe: not run, this kernel was built without"
else
	! modprobe rdma_rxe 2>/dev/null || die "rdma_rxe is loaded beside"
	dmesg | grep -q "rmmod peerdma_hca first" || die "no remedy where rdma_rxe is refused"
fi

for kind in host dmabuf export; do
	with_verbs rdma_mrs rxe0 "$kind" || die "memory of kind $kind"
	with_verbs rdma_ud rxe0 "$kind" || die "datagrams and memory of kind $kind"
	[ $kind = host ] || with_verbs rdma_rereg rxe0 "$kind" || die "memory of kind $kind is registered again"
done
with_verbs rdma_windows rxe0 host || die "windows on the host's memory"

# A program that knows nothing of peerdma: dma-bufs by the preload, whatever its regions are for.
for cache in 0 1; do
	LD_PRELOAD=$verbs PEERDMA_VERBS_CACHE=$cache "$BUILD/tests/preload/plain" 3 || die "an unmodified program, cache $cache"
done

# broken OPERATION: the adapter does not stop, and that is noticed.
broken() {
	echo 1 >/sys/module/peerdma_hca/parameters/ignore_stop
	dmesg -C
	code=0
	with_verbs rdma_revoke rxe0 export "$1" 2 || code=$?
	if [ "$translates" ]; then
		[ $code = 0 ] || die "$1: the IOMMU does not stop it"
		dmesg | grep -q "fault at .* no translation" || die "$1: no word of what the IOMMU has stopped"
	else
		[ $code = 1 ] || die "$1: that the adapter does not stop is not noticed"
	fi
	echo 0 >/sys/module/peerdma_hca/parameters/ignore_stop
}

group=$(readlink -f /sys/class/infiniband/rxe0/device/iommu_group)
translates=$(grep -s DMA "$group/type")
for op in write read atomic write-from read-into; do
	with_verbs rdma_revoke rxe0 export "$op" "${ROUNDS:-2}" || die "$op: memory was reached after its free"
	[ "${SHORT-}" ] && [ $op != write ] || broken "$op"
done

# A GPU loses its driver, and gets it back. CUDA's dma-bufs have no way to tell that to importers.
gpu=$(grep -lx 0x1110 /sys/bus/pci/devices/*/device | head -1)
gpu=$(basename "${gpu%/device}")
driver=/sys/bus/pci/devices/$gpu/driver
for kind in dmabuf export; do
	with_verbs rdma_removed rxe0 $kind "echo $gpu >$driver/unbind && echo $gpu >/sys/bus/pci/drivers/softgpu/bind" ||
		die "memory of kind $kind of a GPU that was away is reached"
done

# await COMMAND...: until it succeeds.
await() {
	for _ in $(seq 300); do
		! "$@" || return 0
		sleep 0.1
	done
	die "this does not come: $*"
}
# opened ADAPTER: a process has it open; its number is in $holder.
opened() {
	verbs_device=$(dirname "$(grep -lx "$1" /sys/class/infiniband_verbs/*/ibdev)")
	sh -c 'exec 3<>"$0" && echo open && exec sleep 1000' "/dev/infiniband/${verbs_device##*/}" >/tmp/holder &
	holder=$!
	await grep -q open /tmp/holder
}
logged() { dmesg | grep -q "$1"; }
# Newer rxe listens while there is an adapter, older rxe always.
listens() { ss -lunH | grep -c ':4791 '; }

# One that cannot be made leaves nothing. One is deleted, and while that waits for a process, so is its network device: another
# still receives.
modprobe veth && ip link add virtual type veth peer name other || die "no virtual network device"
! rdma link add rxe0 type rxe netdev virtual 2>/dev/null || die "two adapters have one name"
rdma link add rxe1 type rxe netdev virtual || die "no second adapter"
opened rxe1
rdma link delete rxe1 &
deleted=$!
sleep 1
ip link delete virtual &
deleted="$deleted $!"
sleep 1
[ "$(listens)" -gt 0 ] || die "the end of an adapter takes the port from another"
kill $holder
for job in $deleted; do
	wait "$job" || die "the second adapter is not deleted"
done

# Its function loses its driver, and it is gone, once no process has it open; none is made instead before the function is gone, too.
function=$(basename "$(readlink -f /sys/class/infiniband/rxe0/device)")
load_modules slow_unbind
opened rxe0
dmesg -C
echo "$function" >/sys/bus/pci/drivers/virtio-pci/unbind &
unbound=$!
await logged "rxe0 is removed once no program uses it"
[ -e /sys/class/infiniband/rxe0 ] || die "the adapter does not wait for the process"
kill $holder
await logged "others have been notified"
[ ! -e /sys/class/infiniband/rxe0 ] || die "the adapter stays when its function goes"
! rdma link add rxe1 type rxe netdev eth0 || die "an adapter is made for a function that loses its driver"
logged "eth0: no adapter is made: the driver of $function is being bound or unbound" || die "the log does not say why"
wait $unbound || die "the function's driver is not unbound"
[ ! -e /sys/class/infiniband/rxe1 ] || die "an adapter is there without its function"
left=$(listens)
unload_modules peerdma_hca slow_unbind
load_modules peerdma_hca
[ "$left" = "$(listens)" ] || die "the adapter's port is open when its function is gone"
unload_modules peerdma_hca

[ "$rxe" ] || { unload_modules; exit 0; }
modprobe rdma_rxe || die "rdma_rxe does not load"
dmesg -C
! insmod "$MODDIR/peerdma_hca.ko" 2>/dev/null || die "it loads beside rdma_rxe"
dmesg | grep -q "rmmod rdma_rxe first" || die "no remedy where rdma_rxe is there"
unload_modules
