# SPDX-License-Identifier: MIT
#
# For tests with the software RDMA adapter: sourced, after lib.sh.

# rdma_start: the adapter rxe0 is the first network adapter.
rdma_start() {
	modprobe -q ib_uverbs || { echo "this kernel has no RDMA"; exit 77; }
	modprobe -a udp_tunnel ip6_udp_tunnel ib_core ib_uverbs || die "the kernel's modules do not load"
	load_modules peerdma_hca
	ip link set eth0 mtu 4500 up || die "no network adapter"
	ip address add 10.99.0.${GUEST:-1}/24 dev eth0
	# Until the kernel has asked whether another machine has the link-local address, it sends nothing from it.
	tries=0
	while ip -6 address show dev eth0 tentative | grep -q inet6; do
		sleep 0.1
		tries=$((tries + 1))
		[ $tries != 100 ] || die "no link-local address"
	done
	rdma link add rxe0 type rxe netdev eth0 || die "no RDMA adapter: see the kernel's log"
	readlink -f /sys/class/infiniband/rxe0/device | grep -q /pci || die "the adapter is no PCI function"
}

rdma_stop() {
	rdma link delete rxe0 || die "the adapter does not go"
	unload_modules peerdma_hca
}

# rdma_cgroup: makes a cgroup and sets $group to its folder. If this kernel has no cgroups, prints that and returns 1.
rdma_cgroup() {
	grep -q cgroup2 /proc/filesystems || { echo "limits of cgroups: not run, this kernel was built without"; return 1; }
	[ -e /sys/fs/cgroup/cgroup.controllers ] || mount -t cgroup2 none /sys/fs/cgroup || die "no cgroups"
	echo +memory +rdma >/sys/fs/cgroup/cgroup.subtree_control || die "no cgroup"
	group=/sys/fs/cgroup/few
	mkdir $group || die "no cgroup"
}

# Debian's provider asks for no dma-bufs.
verbs=$BUILD/peerdma/preload/libpeerdma-verbs.so.0

# with_verbs PROGRAM...: of tests/rdma.
with_verbs() {
	program=$BUILD/tests/rdma/$1
	shift
	LD_PRELOAD=$verbs "$program" "$@"
}
