#!/bin/sh
# SPDX-License-Identifier: MIT
#
# peerdma doctor in a container that was given one of two GPUs and one of two adapters, as Kubernetes gives them: the whole of
# sysfs, and the device nodes of its own.  Of the others it says nothing; what the container lacks, it says.
# vm-allow: ^(eth0|eth1|lo) speed is unknown
# vm: --cpus 1 --gpus 2 --nics 2 --cards 0 --timeout 600
# vm-more: --gpus 2 --nics 2 --cards 0 --timeout 600 --kernel 6.1 --iommu pt
# vm-more: --gpus 2 --nics 2 --cards 0 --timeout 600 --kernel {6.12,7.2}

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

modules="softgpu nvidia"
tool=$BUILD/peerdma/tools/peerdma
told=/tmp/told
export COLUMNS=1000 LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$BUILD/peerdma/lib"

# pod COMMAND...: in a container with the nodes in $nodes, the host's sysfs and limits of its own.
pod() {
	unshare -m -n sh -ec '
		mkdir -p /tmp/dev && mount -t tmpfs none /tmp/dev
		mkdir -p /tmp/dev/dri /tmp/dev/infiniband /tmp/dev/shm
		for node in null zero random urandom tty $NODES; do cp -a "/dev/$node" "/tmp/dev/$node"; done
		mount --bind /tmp/dev /dev
		mount -t tmpfs none /run && touch /run/.containerenv
		mount -o remount,ro,bind /sys
		exec "$@"' pod "$@"
}

# examine CODE OPTION...: the exit code in the pod; what is printed goes to $told.
examine() {
	expected=$1
	shift
	pod "$tool" doctor "$@" >$told 2>&1
	code=$?
	[ $code = "$expected" ] || die "exit code $code, not $expected: $(cat $told)"
}

# silent PATTERN...
silent() {
	for word; do
		! grep -n "$word" $told || { cat $told; die "it says something about $word"; }
	done
}

rdma_start
ip link set eth1 mtu 4500 up && rdma link add rxe1 type rxe netdev eth1 || die "no second adapter"
load_modules
ulimit -l unlimited
ulimit -n 65536

# On the host: both of each.
$tool doctor --json --ignore limits >$told || die "the host: exit code $?: $(cat $told)"
for word in GPU0 GPU1 rxe0 rxe1; do
	grep -q $word $told || die "the host has no $word: $(cat $told)"
done

set -- /sys/bus/pci/devices/*/softgpu/renderD*
[ $# = 2 ] || die "not two GPUs: $*"
gpu=${2##*/}
other=${1##*/}
uverbs=$(grep -lx rxe1 /sys/class/infiniband_verbs/uverbs*/ibdev)
uverbs=$(basename "$(dirname "$uverbs")")
export NODES="dri/$gpu infiniband/$uverbs"

examine 0 --all
grep -q "^GPU0 and NIC0 (rxe1)" $told || die "the pair is not there: $(cat $told)"
silent GPU1 rxe0 "$other" NIC1
# A pod asks for what it needs.
examine 0 --need dmabuf
examine 1 --need card
# Without an adapter, and without a GPU.
NODES="dri/$gpu"
examine 0 --all
silent NIC rxe
examine 1 --need rdma
NODES="infiniband/$uverbs"
examine 1
grep -q "There is no GPU in this container" $told || die "it does not say what is missing: $(cat $told)"
silent "seated" "on the host"

rdma link delete rxe1
unload_modules
rdma_stop
