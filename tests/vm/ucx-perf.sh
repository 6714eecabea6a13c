# SPDX-License-Identifier: MIT
#
# For tests with UCX's own benchmark, ucx_perftest, as tests/thirdparty/build-mpi has built it: sourced, after lib.sh.

ucx=$TOP/build/cache/mpi/root
export LD_LIBRARY_PATH="$ucx/lib:$LD_LIBRARY_PATH" PATH="$ucx/bin:$PATH" UCX_MODULE_DIR="$ucx/lib/ucx"
ip link set lo up
ALL=${ALL-}
port=13400

# list TESTS SIZES: what the benchmark is to do, in /tmp/tests, and a port of its own.
list() {
	for test in $1; do
		for size in $2; do
			echo "$test-$size -t $test -s $size -n 4 -w 1"
		done
	done >/tmp/tests
	port=$((port + 1))
}

# results NAME FILE...: the client's output, and others to show.  A test that fails ends well all the same, and has no result.
results() {
	name=$1
	shift
	done=$(grep -cE '^[a-z_]+-[0-9]+, *[0-9]+,' "$1")
	[ "$done" = "$(wc -l </tmp/tests)" ] || { cat "$@"; die "$name: $done tests have a result"; }
	echo "ok - $name: $done results"
}
