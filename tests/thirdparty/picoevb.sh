#!/bin/sh
# SPDX-License-Identifier: MIT
#
# jetson-rdma-picoevb on softgpu: NVIDIA's reference of a driver for an FPGA, and its programs, with
# the memory of desktop GPUs and of Tegra's. The FPGA is simulated (picoevb-card).
#
#   PICOEVB=/path/to/jetson-rdma-picoevb tests/thirdparty/picoevb.sh
#
# Its kernel module goes with Linux up to 5.17: pci_set_dma_mask() ended with 5.18. On 6.1 that is all
# that is missing, and the build is given it by a header; its source is not changed. Later kernels
# have another class_create().
#
# rdma-cuda has a GPU kernel. With nvcc it is built, and the kernel is computed by the CPU
# (picoevb-kernels.c). Without nvcc it is left out; the other programs are built by a C++ compiler.
set -eu

. "$(dirname "$0")/lib.sh"
need_checkout PICOEVB kernel-module/nvidia-ko-to-module-symvers jetson-rdma-picoevb
prepare
copy picoevb

# The script asks uname -r for the kernel, which is this machine's: the same
# two commands, with the kernel that softgpu was built for.
search() {
	found=$(installed sh -c 'dirname "$(find /usr/src/nvidia-* -name nv-p2p.h | head -1)"
		find "/lib/modules/$1/" -name "nvidia*.ko" | grep -P "nvidia(_[0-9]+)?.ko" | head -1' sh "$release")
	header=$(echo "$found" | sed -n 1p)
	module=$(echo "$found" | sed -n 2p)
	case $header in
	/usr/src/nvidia-*/nvidia) echo "  header: $header/nv-p2p.h" ;;
	*)	die "its search finds no header of softgpu's, but $header" ;;
	esac
	[ -n "$module" ] || die "its search finds no nvidia.ko"
	echo "  module: $module"
	(cd "$copy/kernel-module" && ./nvidia-ko-to-module-symvers "$root$module" Module.symvers) >"$logs/picoevb.log" 2>&1
	symbols=$(grep -o 'nvidia_p2p_[a-z_]*' "$copy/kernel-module/Module.symvers" | sort -u | grep -c .)
	[ "$symbols" = 7 ] || die "its script has listed $symbols symbols, not 7"
	# It reads versions from the symbol table, where old kernels had them.
	version=$(awk '$2 == "nvidia_p2p_put_pages" { print $1 }' "$nvidia/Module.symvers")
	grep -q "^0x0*${version#0x}[[:space:]]nvidia_p2p_put_pages" "$copy/kernel-module/Module.symvers" ||
		without=", but not their versions: with this kernel it reads something else"
	echo "  symbols: $symbols${without-}"
	echo "PASS picoevb-rdma finds softgpu"
}

if private_mounts; then
	search
else
	echo "  its search for softgpu: not tried, this machine has no private mounts"
fi
if [ "$series" != 6.1 ]; then
	echo "not run: picoevb-rdma does not build for Linux $series"
	exit 0
fi

echo '#define pci_set_dma_mask(pdev, mask) dma_set_mask(&(pdev)->dev, mask)' >"$copy/since-5.18.h"

# module FOLDER SYMVERS FLAGS MAKE-ARGUMENT...: its kernel module.
module() {
	folder=$copy/$1 symvers=$2 flags=$3
	shift 3
	cp -a "$copy/kernel-module" "$folder"
	rm -f "$folder/Module.symvers"
	built "picoevb-rdma-${folder##*-}" make -C "$headers" M="$folder" KBUILD_EXTRA_SYMBOLS="$symvers" \
		KCFLAGS="-include $copy/since-5.18.h $flags" "$@" modules
}

# programs FOLDER MAKE-ARGUMENT...: its programs.
programs() {
	folder=$copy/$1
	shift
	cp -a "$copy/client-applications" "$folder"
	make -s -C "$folder" clean
	for program in rdma-malloc rdma-malloc-c2h-perf rdma-malloc-h2c-perf set-leds \
		rdma-cuda-c2h-perf rdma-cuda-h2c-perf $kernels; do
		built "$program-${folder##*-}" make -C "$folder" "$program" NVCC="$copy/compiler" "$@"
	done
}

built picoevb-kernels "${CC:-cc}" -std=gnu11 -Wall -Wextra -Werror -shared -fPIC -I"$top/softgpu/user/include" \
	-o "$copy/libpicoevb-kernels.so" "$top/tests/thirdparty/picoevb-kernels.c" -L"$user/softgpu/user" -lcudart
if command -v nvcc >/dev/null; then
	kernels=rdma-cuda
	cat >"$copy/compiler" <<-END
		#!/bin/sh
		exec nvcc -cudart none "\$@" -L"$copy" -L"$user/softgpu/user" -lpicoevb-kernels -lcudart
	END
else
	kernels=
	echo "  rdma-cuda: left out, there is no nvcc"
	cat >"$copy/compiler" <<-END
		#!/bin/sh
		# nvcc's options, for a C++ compiler.
		for word; do
			shift
			case \$word in
			-Xcompiler) continue ;;
			*.cu) set -- "\$@" -x c++ "\$word" -x none ;;
			*) set -- "\$@" "\$word" ;;
			esac
		done
		exec c++ -fpermissive -w -I"$top/softgpu/user/include" "\$@" -L"$user/softgpu/user" -lcudart
	END
fi
chmod +x "$copy/compiler"

module module-desktop "$nvidia/Module.symvers" "" NV_BUILD_DGPU=1 NVIDIA_SRC_DIR="$nvidia/nvidia"
module module-tegra "$modules/obj-tegra/Module.symvers" "-I$top/softgpu/kernel/tegra/include"
programs programs-desktop NV_BUILD_DGPU=1
programs programs-tegra
cp -a "$top/tests/thirdparty/picoevb-card" "$copy/card"
built picoevb-card make -C "$headers" M="$copy/card" modules

for iommu in off on; do
	say "booting Linux $series, IOMMU $iommu"
	guest "picoevb-iommu-$iommu" --iommu $iommu --gpus 2 --vram 64M --env PICOEVB="$copy" --env KERNELS="$kernels" \
		-- "$top/tests/thirdparty/picoevb-guest.sh"
	echo "PASS picoevb, IOMMU $iommu"
done
