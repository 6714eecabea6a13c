#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What peerdma doctor says is to be done, is done, in its words: then it does not say so again.
# vm-with: pod
# vm-allow: ^(eth0|eth1|lo) speed is unknown
# vm: --cpus 1 --gpus 1 --nics 1 --cards 1 --timeout 600
# vm-more: --gpus 1 --nics 1 --cards 1 --timeout 600 --kernel {6.12,7.2}

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

modules="softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem"
tool=$BUILD/peerdma/tools/peerdma
told=/tmp/told
export LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$BUILD/peerdma/lib"

# modprobe MODULE: of this project's too, which are installed nowhere here; with those that it depends on.
modprobe() {
	[ -e "$MODDIR/$1.ko" ] || {
		command modprobe "$@"
		return
	}
	for needed in $(modinfo -F depends "$MODDIR/$1.ko" | tr , ' ') "$1"; do
		[ -e "/sys/module/$needed" ] || [ ! -e "$MODDIR/$needed.ko" ] || load_modules "$needed"
	done
}

# until_port STATE: it changes a moment after what is done to it.
until_port() {
	for _ in $(seq 100); do
		! grep -q "$1" /sys/class/infiniband/rxe0/ports/1/state || return 0
		sleep 0.1
	done
	die "the port is not $1"
}

as=				# whom the doctor examines the machine for
# remedy CHECK SUBJECT: what is to be done for it, of findings that are not ok; empty: there is none.
remedy() {
	# shellcheck disable=SC2086 # options
	$as "$tool" doctor --json >$told || :
	# A key a line: Python and jq take as long to start as the doctor takes to run.
	awk -v check="\"check\": \"$1\"," -v subject="\"subject\": \"$2\"," '
		{ sub(/^ +/, "") }
		/^"check": / { wanted = $0 == check }
		/^"subject": / { wanted = wanted && $0 == subject }
		wanted && sub(/^"remedy": "/, "") { sub(/"$/, ""); print }' $told
}

# cured CHECK SUBJECT COMMAND: the remedy names the command; after it, there is none.
cured() {
	said=$(remedy "$1" "$2")
	case $said in
	*"$3"*) ;;
	*) die "$1, $2: it does not say '$3' but '$said': $(cat $told)" ;;
	esac
	eval "$3" || die "$1, $2: '$3' fails"
	said=$(remedy "$1" "$2")
	[ -z "$said" ] || die "$1, $2: after '$3' it says: $said"
	echo "cured: $1, $2: $3"
}

rdma_start
# Its driver, then the client that gives its memory to the adapter.
cured gpu GPU0 "modprobe softgpu"
load_modules nvidia
cured adapter "NIC0 rxe0 (software)" "modprobe peerdma_peermem"
cured peerdma peerdma.ko "modprobe peerdma_nvidia"

# Nodes that the user may not open, and limits that bind the user: each login has the groups and limits of the files then.
as="runuser -u nobody --"
uverbs=$(ls /dev/infiniband/uverbs*)
echo "rdma-users:x:4791:" >>/etc/group
chgrp 4791 "$uverbs" && chmod 0660 "$uverbs"
case $(remedy nodes "$uverbs") in
*"give the user the node's group"*) sed -i 's/^rdma-users:.*/&nobody/' /etc/group ;;
*) die "the node: $(cat $told)" ;;
esac
said=$(remedy nodes "$uverbs")
[ -z "$said" ] || die "the user has the node's group, and it says: $said"
said=$(remedy limits "Max locked memory")
line=$(echo "$said" | sed -n "s|^a line '\(.* memlock .*\)' in a file that ends in .conf in /etc/security/limits.d, and log in again.*|\1|p")
[ -n "$line" ] || die "the limit: $said: $(cat $told)"
echo "$line" >/etc/security/limits.d/rdma.conf
said=$(remedy limits "Max locked memory")
[ -z "$said" ] || die "with the line '$line' it says: $said"
as=

# The port.
ip link set eth0 down
until_port DOWN
case $(remedy port NIC0) in
*"ip link set DEVICE up"*) ip link set eth0 up ;;
*) die "the port: $(cat $told)" ;;
esac
until_port ACTIVE
[ -z "$(remedy port NIC0)" ] || die "the port is up, and it says: $(remedy port NIC0)"

rdma link delete rxe0
unload_modules $modules
unload_modules peerdma_hca
