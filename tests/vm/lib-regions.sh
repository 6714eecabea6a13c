#!/bin/sh
# SPDX-License-Identifier: MIT
#
# libpeerdma and the peerdma command on the real modules: pins, views, mappings,
# dma-bufs, revocation, fork; what the command shows of them; the example.
# vm-more: --cards 1 --timeout 300
# vm: --cards 1 --iommu on --kernel 6.12 --timeout 600

. "$TOP/tests/vm/lib.sh"

peerdma=$BUILD/peerdma/tools/peerdma
hello=$BUILD/peerdma/hello

# Without the modules: host memory, or the reason and the remedy.
"$hello" || die "the example fails without a module"
text=$(PEERDMA_PROVIDER=kernel "$hello" 2>&1) && die "the example works without a module"
echo "$text" | grep -q 'modprobe peerdma' || die "no remedy: $text"
"$peerdma" pins && die "pins without a module"

# A GPU's driver without ours: its dma-bufs, and CUDA's word for what becomes of them.
load_modules softgpu
hooked=$(mktemp)
"$BUILD/tests/lib/live_regions" dmabuf || die "a check failed, with dma-bufs"
"$BUILD/tests/lib/live_cache" dmabuf 500 || die "the cache, with dma-bufs"
LD_PRELOAD=$BUILD/peerdma/hooks/libpeerdma-hooks.so.0 "$BUILD/tests/lib/live_cache" dmabuf 500 >"$hooked" ||
	die "the cache, with dma-bufs and hooks: $(cat "$hooked")"
grep "hooks 1" "$hooked" || die "the hooks are not at work: $(cat "$hooked")"
"$BUILD/tests/lib/live_expandable" dmabuf 500 || die "ranges over several allocations, with dma-bufs"
LD_PRELOAD=$BUILD/peerdma/hooks/libpeerdma-hooks.so.0 "$BUILD/tests/lib/live_expandable" dmabuf 500 >"$hooked" ||
	die "ranges over several allocations, with hooks: $(cat "$hooked")"
unload_modules softgpu

# The bridge without the provider.
load_modules softgpu peerdma
PEERDMA_PROVIDER=kernel "$BUILD/tests/lib/texts" bare || die "what is said without a provider"
unload_modules softgpu peerdma

load_modules
PEERDMA_PROVIDER=kernel "$BUILD/tests/lib/texts" provided || die "what is said with a provider"
PEERDMA_PROVIDER=kernel "$BUILD/tests/lib/live_expandable" kernel 500 || die "ranges over several allocations"
"$BUILD/tests/lib/live_cache" kernel 500 || die "the cache, with the module"
"$peerdma" || die "no overview"
"$hello" || die "the example fails"
"$BUILD/peerdma/cache" || die "the cache's example fails"

card=$(devices 0x1234 0x11e8)
[ -n "$card" ] || die "no DMA card"
"$BUILD/tests/lib/live_regions" kernel "$card" "$peerdma" || die "a check failed"

# All is as before.
[ "$("$peerdma" pins)" = "No pins: peerdma.ko holds no memory." ] || die "pins are left: $("$peerdma" pins)"

"$BUILD/tests/lib/test_gpu_query" || die "query over /dev/softgpu"
unload_modules
