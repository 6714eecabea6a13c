#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A connection of the software RDMA adapter whose other end is a program with a raw socket: it makes requests, repeats them and
# answers as no adapter does.
# vm-with: rdma-life
# vm-allow: rxe0: (qp|mr)#[0-9]+ 
# vm: --cards 0 --gpus 1 --timeout 300
# vm-more: --cards 0 --gpus 1 --timeout 300 --kernel {6.1,6.12,7.2}

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

modprobe -q ib_uverbs || { echo "this kernel has no RDMA"; exit 77; }
modprobe -q veth || { echo "this kernel has no pairs of net devices"; exit 77; }
modprobe -a udp_tunnel ip6_udp_tunnel ib_core ib_uverbs || die "the kernel's modules do not load"
load_modules peerdma_hca
ip link add adapter type veth peer name other || die "no pair of net devices"
ip link set other up
ip link set adapter up
ip address add 10.77.0.1/24 dev adapter
ip neigh add 10.77.0.2 lladdr "$(cat /sys/class/net/other/address)" dev adapter nud permanent || die "no neighbour"
rdma link add rxe0 type rxe netdev adapter || die "no RDMA adapter: see the kernel's log"
with_verbs rdma_hostile rxe0 other || die "hostile"
rdma_stop
ip link delete adapter
