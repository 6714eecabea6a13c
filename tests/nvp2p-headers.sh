#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The conformance suite builds against the nv-p2p.h of any driver for desktop GPUs:
# from a folder that has nothing else of this tree, with headers that have more and
# less of the interface, and it asks a driver for no symbol that its header lacks.
set -eu

. "$(dirname "$0")/host.sh"
headers=$("$top/vm/fetch-kernel" 6.1 --print headers)
full=$top/softgpu/kernel/nvidia/nv-p2p.h

mkdir -p "$work/tests/kernel"
cp -r "$top/tests/conformance" "$work/tests/"
cp "$top"/tests/kernel/nvp2p_test* "$work/tests/kernel/"
build() {
	make -s -C "$work/tests/conformance" KDIR="$headers" OUT="$work/out" "$@" >"$work/log" 2>&1
}

# variant NAME FEATURES SYMBOL...: builds against $work/NAME/nv-p2p.h; the bits that the
# module then has, and the nvidia_p2p_ symbols that it must not ask for.
variant() {
	name=$1 features=$2
	shift 2
	rm -rf "$work/out"
	build module SYMVERS= NVP2P_DIR="$work/$name" || {
		tail -20 "$work/log"
		die "$name: the module does not build"
	}
	for symbol in "$@"; do
		! nm -u "$work/out/nvp2p_test.ko" | grep -q " nvidia_p2p_$symbol\$" || die "$name: asks for nvidia_p2p_$symbol"
	done
	for symbol in get_pages put_pages free_page_table init_mapping; do
		nm -u "$work/out/nvp2p_test.ko" | grep -q " nvidia_p2p_$symbol\$" || die "$name: does not ask for nvidia_p2p_$symbol"
	done
	# The features are a number in the module's code; the compiler says which.
	cat >"$work/out/check.c" <<-END
		#include <linux/module.h>
		#include <linux/pci.h>
		#include "nvp2p_test_features.h"
		static_assert(NVP2P_TEST_FEATURES == $features);
		MODULE_LICENSE("Dual MIT/GPL");
	END
	sed -i 's/^obj-m := .*/obj-m := check.o/' "$work/out/Kbuild"
	make -s -C "$headers" M="$work/out" modules >"$work/log" 2>&1 || {
		tail -20 "$work/log"
		die "$name: other features than $features"
	}
	echo "ok: $name"
}

persistent="get_pages_persistent put_pages_persistent"
mapping="dma_map_pages dma_unmap_pages free_dma_mapping"
rsync="register_rsync_driver unregister_rsync_driver get_rsync_registers put_rsync_registers"

# ---- the whole interface ----
mkdir "$work/whole"
cp "$full" "$work/whole/"
variant whole 0xfd

# ---- a NULL callback instead of the persistent calls ----
mkdir "$work/null-callback"
sed -e 's/^#define NVIDIA_P2P_CAP_GET_PAGES_PERSISTENT_API$/#define NVIDIA_P2P_CAP_PERSISTENT_PAGES\nextern int nvidia_p2p_cap_persistent_pages;/' \
	-e '/define NVIDIA_P2P_FLAGS_/d' -e 's/nvidia_p2p_\(get\|put\)_pages_persistent(/absent_\1(/' \
	"$full" >"$work/null-callback/nv-p2p.h"
# shellcheck disable=SC2086
variant null-callback 0xfa $persistent

# ---- the first ones: page tables, and no more ----
mkdir "$work/first"
cat >"$work/first/nv-p2p.h" <<'END'
#define NVIDIA_P2P_PAGE_TABLE_VERSION 0x00010001
struct nvidia_p2p_params;
struct nvidia_p2p_page {
	uint64_t physical_address;
	union {
		struct {
			uint32_t wreqmb_h, rreqmb_h, rreqmb_0, reserved[3];
		} fermi;
	} registers;
};
struct nvidia_p2p_page_table {
	uint32_t version, page_size;
	struct nvidia_p2p_page **pages;
	uint32_t entries;
	uint8_t *gpu_uuid;
};
int nvidia_p2p_init_mapping(uint64_t, struct nvidia_p2p_params *, void (*)(void *), void *);
int nvidia_p2p_destroy_mapping(uint64_t);
int nvidia_p2p_get_pages(uint64_t, uint32_t, uint64_t, uint64_t, struct nvidia_p2p_page_table **,
			 void (*)(void *), void *);
int nvidia_p2p_put_pages(uint64_t, uint32_t, uint64_t, struct nvidia_p2p_page_table *);
int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *);
END
# shellcheck disable=SC2086
variant first 0x00 $persistent $mapping $rsync

# ---- and the first that had DMA mappings ----
mkdir "$work/older"
cat "$work/first/nv-p2p.h" - >"$work/older/nv-p2p.h" <<'END'
#define NVIDIA_P2P_DMA_MAPPING_VERSION 0x00010002
struct pci_dev;
enum nvidia_p2p_page_size_type { NVIDIA_P2P_PAGE_SIZE_4KB, NVIDIA_P2P_PAGE_SIZE_64KB };
struct nvidia_p2p_dma_mapping {
	uint32_t version;
	enum nvidia_p2p_page_size_type page_size_type;
	uint32_t entries;
	uint64_t *dma_addresses;
};
int nvidia_p2p_dma_map_pages(struct pci_dev *, struct nvidia_p2p_page_table *, struct nvidia_p2p_dma_mapping **);
int nvidia_p2p_dma_unmap_pages(struct pci_dev *, struct nvidia_p2p_page_table *, struct nvidia_p2p_dma_mapping *);
int nvidia_p2p_free_dma_mapping(struct nvidia_p2p_dma_mapping *);
END
# shellcheck disable=SC2086
variant older 0x10 $persistent $rsync

# ---- the program needs no vendor's header, and no library but libcuda, at run time ----
build program || {
	tail -20 "$work/log"
	die "the program does not build"
}
code=0
"$work/out/nvp2p_conform" >"$work/log" 2>&1 || code=$?
[ $code = 2 ] || die "without a client module: exit code $code, not 2"
! build module NVP2P_DIR="$work/nowhere" || die "builds without any nv-p2p.h"
grep -q "say where by NVP2P_DIR" "$work/log" || die "does not say what is missing"
echo "ok: program"
