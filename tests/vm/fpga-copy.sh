#!/bin/sh
# SPDX-License-Identifier: MIT
#
# fpga-copy: every pair of ends, files, bounce buffers, revocation, exit codes.
# vm-with: softgpu-nvp2p
# vm-more: --cards 2 --gpus 2
# vm: --cpus 1 --cards 2 --gpus 2 --iommu on --kernel 6.12 --topology switch

. "$TOP/tests/vm/lib.sh"

copy=$BUILD/peers/fpga/fpga-copy

# expect CODE ARGUMENT...
expect() {
	want=$1
	shift
	echo "fpga-copy $*"
	"$copy" "$@"
	code=$?
	[ "$code" = "$want" ] || die "fpga-copy $*: exit code $code, not $want"
}

# Without drivers.
expect 3 --list
load_modules
expect 0 --list

expect 0 --size 9000
expect 0 --size 1 --cards 0
expect 0 --size 4092 --cards 1
expect 0 --size 4093 --cards 1
expect 0 --size 12345 --gpu-src 1 --gpu-dst 0
expect 0 --size 12345 --host-src --gpu-dst 1
expect 0 --size 12345 --host-dst --gpu-src 1
expect 0 --size 12345 --host --seed 7
expect 0 --size 9000 --bounce
expect 0 --file=/etc/passwd
expect 0 --file /etc/passwd
expect 3 --file /nonexistent
expect 0 --size 64K --revoke
expect 0 --size 9000 --json

# AMD's memory, and from AMD's to NVIDIA's and back; the providers come and go while others are loaded.
expect 4 --size 5000 --gpu-src amd:0
load_modules amdgpu peerdma_amd
expect 0 --size 9000 --gpu-src amd:0 --gpu-dst amd:1
expect 0 --size 9000 --gpu-src amd:0 --gpu-dst 0
expect 0 --size 9000 --gpu-src 1 --gpu-dst amd:0
expect 0 --size 64K --revoke --gpu-dst amd:0
expect 2 --gpu-src intel:0
unload_modules amdgpu peerdma_amd

# Any user may use the cards; addresses are for the privileged only.
chmod a+rw /dev/softgpu* 2>/dev/null
plain="setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all"
text=$($plain "$copy" --size 5000) || die "does not work for an ordinary user: $text"
case $text in
*" at 0x"*) die "an ordinary user was told addresses: $text" ;;
esac
"$copy" --size 5000 | grep -q " at 0x" || die "root was not told addresses"

expect 2 --nonsense
expect 2 --size 0
expect 2 --revoke --host-dst
expect 2 --revoke --gpu-dst dmabuf:0
expect 0 --size 5000 --gpu-src dmabuf:0 --gpu-dst dmabuf:0
expect 3 --cards 7
expect 3 --gpu-dst 5
expect 3 --file=/nonexistent

# A copy that needs a GPU's provider, without it.
unload_modules peerdma_nvidia peerdma_fpga
load_modules peerdma_fpga
expect 4 --size 5000
expect 0 --size 5000 --host
unload_modules softgpu nvidia peerdma peerdma_fpga
