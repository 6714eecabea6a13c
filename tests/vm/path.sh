#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Paths that peerdma.ko maps, and those that it refuses: each time as the doctor says, and with data that arrives.
# GPU0 and CARD1 are two functions of one device, below a port of a host bridge that no list knows; CARD0 is below
# another host bridge: path.cfg.  AMD's interface leaves the decision to peerdma.ko, NVIDIA's has its own.
# vm-allow: ^[a-z_]+ 0000:[0-9a-f:.]+: peerdma: does not reach the memory of 0000:62:00.0: .*; to change that: .
# vm-allow: ^peerdma: path_override=any: memory is mapped over paths that are not known to work
# vm-allow: ^[a-z_]+ 0000:[0-9a-f:.]+: peerdma: path_override=any: maps the memory of 0000:62:00.0, although .
# vm-allow: ^peerdma_nvidia: the GPU driver denies 0000:[0-9a-f:.]+ access to this GPU's memory: because of the PCI topology
# What a kernel with P2PDMA says of that host bridge.
# vm-allow: ^pcieport 0000:60:00.0: Host bridge not in P2PDMA whitelist
# vm: --cpus 1 --gpus 0 --cards 0 --kernel 6.1 --iommu off --qemu=-readconfig --qemu=tests/vm/path.cfg
# vm-more: --gpus 0 --cards 0 --kernel 6.12 --iommu pt --qemu=-readconfig --qemu=tests/vm/path.cfg

. "$TOP/tests/vm/lib.sh"

override=/sys/module/peerdma/parameters/path_override
export COLUMNS=2000
told=$(mktemp)
# Enough to see that data arrives: a card moves 20 KB/s.
little="--size 16K --file /usr/share/common-licenses/BSD"

# doctor CARD VERDICT RULE: what it says about GPU0 and that card.
doctor() {
	"$BUILD/peerdma/tools/peerdma" doctor --all GPU0 "CARD$1" >"$told"
	grep -A2 "^$2 *Peer-to-peer path" "$told" | grep -qF "$3" || { cat "$told"; die "CARD$1: the doctor does not say: $2, $3"; }
}

# path CARD RULE maps|refuses: the doctor names that rule, and the module does the same.
path() {
	dmesg -C
	case $3 in
	maps)
		doctor "$1" ok "$2"
		"$BUILD/peers/fpga/fpga-demo" $little --gpu amd --cards "$1" >"$told" || { cat "$told"; dmesg; die "CARD$1, $2: it does not work"; } ;;
	refuses)
		doctor "$1" broken "$2"
		! "$BUILD/peers/fpga/fpga-demo" --gpu amd --cards "$1" >"$told" || die "CARD$1, $2: it is mapped"
		grep -q "no path between the card and that GPU" "$told" || { cat "$told"; die "CARD$1, $2: it fails otherwise"; }
		dmesg | grep "does not reach the memory of" | grep -q "to change that: " || { dmesg; die "CARD$1, $2: no message"; } ;;
	esac
}

# attach ERRNO: what the first card gets that imports a dma-buf.
attach() {
	code=0
	"$BUILD/tests/kernel/path_attach" || code=$?
	[ $code = "$1" ] || die "a dma-buf's importer gets $code, and not $1"
}

modules="softgpu amdgpu peerdma peerdma_amd peerdma_fpga peerdma_importer"
load_modules
path 0 "not-supported (unknown-bridge)" refuses
attach 95	# EOPNOTSUPP

# The port above GPU and card redirects, as Linux has it wherever there is an IOMMU; then it does not.  What a program
# writes there the module sees when it looks again: when path_override is written.
port=0000:60:01.0
setpci -s $port ECAP_ACS+6.w=001d || die "$port has no ACS"
echo known >$override
path 1 "not-supported (acs)" refuses
dmesg | grep -q "port $port" || { dmesg; die "the message does not name $port"; }
setpci -s $port ECAP_ACS+6.w=0000
echo known >$override
path 1 "bus-address (switch)" maps

# The administrator's word: everything is mapped, and the log says so.
tainted=$(cat /proc/sys/kernel/tainted)
echo any >$override || die "path_override cannot be set"
dmesg -C
doctor 0 "cannot tell" "not-supported (unknown-bridge)"
grep -q "maps the GPU's memory all the same" "$told" || { cat "$told"; die "the doctor hides the override"; }
"$BUILD/peers/fpga/fpga-demo" $little --gpu amd --cards 0 >"$told" || { cat "$told"; die "path_override=any changes nothing"; }
dmesg | grep -q "path_override=any: maps the memory of" || { dmesg; die "the override is silent"; }
attach 0
[ "$(cat $override)" = any ] || die "path_override reads $(cat $override)"
[ "$(cat /proc/sys/kernel/tainted)" = "$tainted" ] || die "the override taints"
! echo sometimes 2>/dev/null >$override || die "path_override takes nonsense"
echo known >$override
path 0 "not-supported (unknown-bridge)" refuses
unload_modules

# NVIDIA's driver is asked, and allows it.
modules="softgpu nvidia peerdma peerdma_nvidia peerdma_fpga"
load_modules
doctor 0 "cannot tell" "not-supported (unknown-bridge)"
grep -q "NVIDIA's driver, which peerdma.ko asks" "$told" || { cat "$told"; die "the doctor does not say who decides"; }
"$BUILD/peers/fpga/fpga-demo" $little --cards 0 >"$told" || { cat "$told"; die "NVIDIA's driver does not decide"; }
unload_modules

# It denies what the kernel's rules allow: a pin that can be revoked is refused as well.
load_modules
echo 2 >/sys/module/nvidia/parameters/NVreg_GrdmaPciTopoCheckOverride || die "NVIDIA's driver cannot be made to deny"
dmesg -C
! "$BUILD/peers/fpga/fpga-demo" --cards 1 >"$told" || die "what NVIDIA's driver denies is mapped"
grep -q "no path between the card and that GPU" "$told" || { cat "$told"; die "what NVIDIA's driver denies fails otherwise"; }
dmesg | grep -q "GPU driver denies .* access to this GPU's memory" || { dmesg; die "no message of what NVIDIA's driver denies"; }

# An answer counts as long as GPU and card are in their slots, and no longer.
gpu=/sys/bus/pci/devices/0000:62:00.0
card=/sys/bus/pci/devices/0000:62:00.1
# again DEVICE: taken out and found again.
again() {
	echo 1 >"$1/remove"
	echo 1 >/sys/bus/pci/rescan
	[ -e "$1" ] || die "$1 does not come back"
}
echo 0 >/sys/module/nvidia/parameters/NVreg_GrdmaPciTopoCheckOverride
! "$BUILD/peers/fpga/fpga-demo" --cards 1 >"$told" || die "NVIDIA's driver is asked twice about one pair of devices"
again $card
"$BUILD/peers/fpga/fpga-demo" $little --cards 1 >"$told" || { cat "$told"; die "an answer outlives the card it was about"; }
echo 2 >/sys/module/nvidia/parameters/NVreg_GrdmaPciTopoCheckOverride
"$BUILD/peers/fpga/fpga-demo" $little --cards 1 >"$told" || { cat "$told"; die "NVIDIA's driver is asked at each map"; }
again $gpu
! "$BUILD/peers/fpga/fpga-demo" --cards 1 >"$told" || die "an answer outlives the GPU it was about"
unload_modules
