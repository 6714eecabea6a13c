#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The distribution's UCX, built with CUDA and ROCm against softgpu (tests/thirdparty/build-mpi ucx), on the driver: it finds
# both makes of GPUs, and its own benchmark passes between two processes on each kind of memory.
# vm-needs: build/cache/mpi/root/.ucx: UCX is not built: tests/thirdparty/build-mpi ucx
# vm: --cards 0 --gpus 1 --vram 1G --memory 3G --timeout 900
# vm-more: --cards 0 --gpus 2 --vram 1G --memory 3G --timeout 2400 --kernel {6.1,6.12,7.2} --env ALL=1

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/ucx-perf.sh"

modules="softgpu nvidia amdgpu"
load_modules

# What has no device for it, such as gdr_copy without gdrdrv, is not listed.
ucx_info -d >/tmp/info || die "ucx_info fails"
for transport in cuda_copy cuda_ipc rocm_copy rocm_ipc; do
	grep -q "Transport: $transport\$" /tmp/info || { cat /tmp/info; die "ucx_info does not list $transport"; }
done

sizes="8 65536 16777216"
[ -z "$ALL" ] || sizes="8 64 512 4096 32768 262144 1048576 4194304 16777216"

# benchmark NAME TESTS OPTION...: two processes.
benchmark() {
	name=$1
	list "$2" "$sizes"
	shift 2
	timeout 300 ucx_perftest -p $port -b /tmp/tests -f -v >/tmp/server 2>&1 &
	"$PEERDMA_VM/barrier" "up$port" --listening $port || die "the server does not come"
	timeout 300 ucx_perftest localhost -p $port -b /tmp/tests -f -v "$@" >/tmp/client 2>&1 ||
		{ cat /tmp/client /tmp/server; die "$name: ucx_perftest fails"; }
	wait $! || { cat /tmp/server; die "$name: ucx_perftest's server fails"; }
	results "$name" /tmp/client /tmp/server
}

# Of AMD's memory this release's benchmark can allocate none but for the transports themselves.
benchmark "rocm: put, get" "put_bw get" -m rocm -x rocm_ipc -d rocm_ipc -D zcopy
for memory in host cuda cuda-managed; do
	benchmark "$memory: tag, am, stream" "tag_lat tag_bw ucp_am_bw stream_bw" -m $memory
	# Managed memory is put and got 8 KiB at a time, which takes a minute.
	[ "$memory$ALL" != cuda-managed ] || sizes="8 65536 1048576"
	# With its older protocols this release puts and gets host memory only.
	export UCX_PROTO_ENABLE=y
	benchmark "$memory: put, get" "ucp_put_bw ucp_get" -m $memory
	unset UCX_PROTO_ENABLE
done
unload_modules
