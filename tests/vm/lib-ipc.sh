#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Device memory between processes, on a GPU that they share: CUDA's and HSA's, with
# libpeerdma-hooks and without; and the random rounds on this kernel.
# vm-more: --timeout 400 --gpus 1
# vm: --cpus 1 --timeout 400 --gpus 1 --kernel 6.12

. "$TOP/tests/vm/lib.sh"

load_modules softgpu
for program in cuda cuda_hooks hsa hsa_hooks; do
	out=$("$BUILD/tests/ipc/ipc_gpu_$program" 2>&1)
	status=$?
	echo "$out"
	[ "$status" = 0 ] || die "ipc_gpu_$program: $status"
	case $out in
	*"not on this machine"* | *"not exported:"*) die "ipc_gpu_$program: not all of it was tried" ;;
	esac
done
for program in pools "pools_busy 2 2 3" "pool_destroyed 1 4"; do
	# shellcheck disable=SC2086 # a program and its arguments
	out=$(LD_LIBRARY_PATH=$BUILD/softgpu/user LD_PRELOAD=$BUILD/peerdma/hooks/libpeerdma-hooks.so "$BUILD/tests/gpu/"$program 2>&1) ||
		die "$program: $out"
	echo "$out"
done
for test in "memory memory" "memory ends" "handles users" "signals signals" "process forks"; do
	# shellcheck disable=SC2086 # a program and its test
	"$BUILD/tests/ipc/ipc_"$test || die "ipc_$test"
done
"$BUILD/tests/ipc/ipc_gpu_streams" || die "ipc_gpu_streams"
"$BUILD/tests/ipc/ipc_rounds" 1000 7 || die "ipc_rounds"
for provider in cuda hsa; do
	"$BUILD/tests/ipc/ipc_rounds_$provider" 500 7 || die "ipc_rounds_$provider"
done
"$BUILD/tests/ipc/ipc_rounds_cuda" 1500 9 2 || die "ipc_rounds_cuda with memory of pools"
unload_modules softgpu

# Where CUDA's small allocations share blocks, which an importer has as a whole.
insmod "$MODDIR/softgpu.ko" blocks=1 || die "softgpu.ko does not load"
for program in gpu_cuda gpu_cuda_hooks "rounds_cuda 500 8"; do
	# shellcheck disable=SC2086 # a program and its arguments
	"$BUILD/tests/ipc/ipc_"$program || die "ipc_$program with blocks=1"
done
unload_modules softgpu
