#!/bin/sh
# SPDX-License-Identifier: MIT
#
# UCX on softgpu: builds it with CUDA and ROCm (build-mpi), then looks at what it finds and runs those of its own unit tests
# that concern GPU memory: CUDA's on a software GPU inside the process, and both makes' on the driver, in a virtual machine.
#
#   [UCX=/path/to/ucx] [UCX_TESTS=FILTER] [WHERE="process guest"] tests/thirdparty/ucx.sh
#
# Without UCX it takes the source package of Debian.  UCX_TESTS is a filter of googletest.  The first build takes a quarter
# of an hour on two cores; what is built stays.
set -eu

. "$(dirname "$0")/lib.sh"

logs=$top/build/thirdparty/ucx/logs
mkdir -p "$logs"
ucx=$("$top/tests/thirdparty/build-mpi" ucx ucx_tests) || { [ $? != 77 ] || { echo "$ucx"; exit 77; }; die "UCX is not built"; }
"$top/vm/deps.sh" user
make -s -C "$top" --no-print-directory user

# Tests of machines that have both makes are called cuda... and rocm...; those of all kinds of memory, mem_type.
filter=${UCX_TESTS-'cuda_hooks*:rocm_hooks*:cuda_copy/*:cuda_ipc/*:cuda_cpy/*:rocm_copy/*:rocm_ipc/*:rocm_cpy/*:mem_type/*:mem_types/*:test_rcache*:test_memtype_cache*:memtype_hooks*:all/test_ucp_mem_type*'}

# There is no handle of a GPU inside a process: docs/third-party.md.
known_in_process="cuda_ipc/test_md.reg/0 cuda_ipc/test_md.reg_perf/0"

# HSA there has the CPU only (docs/amd.md).  UCX lists its transports all the same, and their tests need hipMalloc.
not_in_process='rocm_copy/*:rocm_ipc/*:rocm_cpy/*'

# These end the program, by UCX 1.13's own doing (docs/third-party.md): a registration cache that is not emptied at a fork; a
# measurement that takes longer than the quarter of an hour that UCX gives a test, unless the machine has KVM; and a message
# that goes through host memory, for which it finds no lane to AMD's.
not_in_guest='rocm_cpy/test_md_fork*:cuda_copy/test_uct_loopback_cuda.envelope*:all/test_ucp_mem_type_alloc_before_init.xfer/3'

# without TESTS: the filter without them; what is behind its first "-" is left out.
without() {
	case $filter in
	*-*) echo "$filter:$1" ;;
	*) echo "$filter-$1" ;;
	esac
}

# gtest LOG KNOWN COMMAND...: runs it, and fails unless all that failed are the tests in KNOWN.
gtest() {
	log=$1
	known=$2
	shift 2
	gtest_code=0
	"$@" >"$log" 2>&1 || gtest_code=$?
	# shellcheck disable=SC2086 # KNOWN are several
	"$top/tests/thirdparty/gtest-result" "$log" "$gtest_code" $known
}

in_process() {
	# With the modules' folder: the test program, too, needs one of them, and would load another copy from where it was built.
	export LD_LIBRARY_PATH="$ucx/lib:$ucx/lib/ucx:$user/softgpu/user" UCX_MODULE_DIR="$ucx/lib/ucx"
	# The rendezvous protocol takes 512 MiB of GPU memory, and some tests copy 1.5 GiB at once.
	export SOFTGPU_INPROCESS=1 SOFTGPU_VRAM_MIB=2048
	"$ucx/bin/ucx_info" -d >"$logs/info.log" 2>&1 || die "ucx_info fails: $logs/info.log"
	for transport in cuda_copy cuda_ipc; do
		grep -q "Transport: $transport" "$logs/info.log" || die "ucx_info does not list $transport: $logs/info.log"
		echo "PASS ucx_info lists $transport"
	done
	say "UCX's unit tests in one process: $(without "$not_in_process")"
	gtest "$logs/gtest-process.log" "$known_in_process" env GTEST_FILTER="$(without "$not_in_process")" "$ucx/bin/ucx_gtest"
}

in_guest() {
	"$top/vm/deps.sh" modules vm
	make -s -C "$top" --no-print-directory modules KVER="$series"
	say "UCX's unit tests on the driver: $(without "$not_in_guest")"
	# shellcheck disable=SC2086 # VM_ARGS are several
	gtest "$logs/gtest-guest.log" "" "$top/vm/run" --kernel "$series" --timeout "${TIMEOUT:-3000}" \
		--log "$logs/guest.kernel.log" --cards 0 --gpus 1 --vram 2G --memory 4G --env TOP="$top" --env BUILD="$user" \
		--env MODDIR="$modules" --env UCX_ROOT="$ucx" --env GTEST_FILTER="$(without "$not_in_guest")" ${VM_ARGS-} -- "$top/tests/thirdparty/ucx-guest.sh"
}

code=0
for where in ${WHERE:-process guest}; do
	# Behind || no failure of a command would end it.
	set +e
	(set -e; "in_$where")
	[ $? = 0 ] || code=1
	set -e
done
exit $code
