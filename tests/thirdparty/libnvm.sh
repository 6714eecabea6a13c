#!/bin/sh
# SPDX-License-Identifier: MIT
#
# libnvm's kernel module on softgpu: a userspace NVMe driver has QEMU's NVMe
# controller write into GPU memory. No IOMMU, then a translating one.
#
#   LIBNVM=/path/to/ssd-gpu-dma tests/thirdparty/libnvm.sh
#
# The module goes with Linux up to 6.3 (class_create), so with 6.1 only. Its
# makefile is made from Makefile.in, as its CMakeLists.txt makes it when CMake
# finds a CUDA toolkit, which is not needed here.
set -eu

. "$(dirname "$0")/lib.sh"
need_checkout LIBNVM module/Makefile.in "ssd-gpu-dma (libnvm)"
case $series in
6.1)	;;
*)	echo "not run: libnvm's module does not go with Linux $series (class_create has one argument since 6.4)"; exit 77 ;;
esac
prepare
copy libnvm

mkdir "$copy/output"
sed -e "s|@module_root@|$copy/module|; s|@CMAKE_PROJECT_NAME@|libnvm|g; s|@KERNEL@|$headers|g" \
	-e "s|@module_output@|$copy/output|g; s|@module_symbols@|$nvidia/Module.symvers|" \
	-e "s|@module_ccflags@|-D_CUDA -I$nvidia/nvidia -I$copy/src|" \
	"$copy/module/Makefile.in" >"$copy/output/Makefile"
built libnvm make -C "$copy/output"
built libnvm-identify "${CC:-cc}" -std=gnu11 -Wall -Wextra -Werror -D_GNU_SOURCE -I"$copy/src" \
	-I"$top/softgpu/user/include" -o "$copy/identify" "$top/tests/thirdparty/libnvm-identify.c" \
	-L"$user/softgpu/user" -lcuda

truncate -s 16M "$place/disk"
for iommu in off on; do
	say "booting Linux $series, IOMMU $iommu"
	guest "libnvm-iommu-$iommu" --allow "Mapping for address .* not found" --iommu $iommu --vram 64M --nvme "$place/disk" --env LIBNVM="$copy" \
		-- "$top/tests/thirdparty/libnvm-guest.sh"
	echo "PASS libnvm, IOMMU $iommu"
done
