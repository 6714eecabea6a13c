#!/bin/sh
# SPDX-License-Identifier: MIT
#
# In the guest: perftest's programs in PROGRAMS on the software adapter, client and server.  perftest.sh runs this.
# PRELOAD looks at their GPU memory; CUDA=1: they have CUDA's options, else it gives them GPU memory, too.  Of two guests the first has the servers and the
# second the clients, and each checks its own end.
set -u

LD_LIBRARY_PATH=${LIBRARIES-}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"
: "${PROGRAMS:?run me through tests/thirdparty/perftest.sh}"

iterations=20
size=65536
failed=0
port=18600
logs=$RESULTS/perftest
mkdir -p "$logs"
case ${GUESTS:-1}:${GUEST:-1} in
1:*) ends="server client" ;;
*:1) ends=server ;;
*) ends=client ;;
esac

rdma_start
load_modules softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem
ip link set lo up
# Its own choice of a GID would depend on what else the net device has.
gid=$(grep -l 0000:ffff /sys/class/infiniband/rxe0/ports/1/gids/* 2>/dev/null | head -n 1)
[ -n "$gid" ] || die "the adapter has no IPv4 GID"

# one WAY SIDE FILL PROGRAM ARGUMENT...: in the background or not, as the caller likes.
one() {
	way=$1 side=$2 fill=$3 program=$4
	shift 4
	options="-d rxe0 -x ${gid##*/} -F -p $port -n $iterations"
	case $program in *atomic*) ;; *) options="$options -s $size" ;; esac
	case $program in ib_send_lat) options="$options -I 0" ;; esac
	preload=$PRELOAD:$verbs memory=$way
	if [ "$way" = host ]; then
		preload=$verbs
	elif [ -n "${CUDA-}" ]; then
		memory=own
		options="$options --use_cuda=0"
		[ "$way" = peer ] || options="$options --use_cuda_dmabuf"
	fi
	# shellcheck disable=SC2086 # options are several
	PERFTEST_GPU=$memory PERFTEST_FILL=$fill LD_PRELOAD=$preload timeout 60 "$PROGRAMS/$program" $options "$@" \
		>"$logs/$way-$program-$side" 2>&1
}

# others SIDE: how many bytes of its GPU memory the other side has changed, 0 if it does not say.
others() {
	sed -n 's/^perftest-gpu: \([0-9]*\) of .*/\1/p' "$logs/$way-$program-$1" | grep . || echo 0
}

has() {
	case " $ends " in *" $1 "*) ;; *) return 1 ;; esac
}

# Returns when it listens, or has ended.
start_server() {
	one "$way" server 0x5a "$program" &
	server=$!
	listening=$(printf ':%04X [0-9A-F:]* 0A ' $port)
	for _ in $(seq 100); do
		grep -q "$listening" /proc/net/tcp /proc/net/tcp6 && break
		kill -0 $server 2>/dev/null || break
		sleep 0.1
	done
}

run_client() {
	one "$way" client 0xa5 "$program" 10.99.0.1
	client=$?
	bytes=$size
	case $program in *atomic*) bytes=8 ;; esac
	ran=$(awk -v bytes=$bytes '$1 == bytes && NF > 3 { print $2 " iterations" }' "$logs/$way-$program-client")
	[ $client = 0 ] || why="$why the client ends with $client"
	case $ran in "$iterations "*) ;; *) why="$why not $iterations iterations: $ran" ;; esac
}

# try WAY PROGRAM WHO: both end with 0, have done all iterations, and the memory of WHO has been written.
try() {
	way=$1 program=$2 why= ran=
	port=$((port + 1))
	! has server || start_server
	"$PEERDMA_VM/barrier" "$way-$program" || die "the other guest has ended"
	! has client || run_client
	! has server || wait $server || why="$why the server ends with $?"
	if [ "$way" != host ]; then
		least=$size
		case $program in *atomic*) least=1 ;; esac
		for who in $3; do
			has "$who" || continue
			written=$(others "$who")
			ran="${ran:+$ran, }$written bytes written at the $who"
			[ "$written" -ge $least ] || why="$why $written bytes written at the $who"
		done
	fi
	if [ -z "$why" ]; then
		echo "PASS $way $program: ${ran:-ended well}"
	else
		echo "FAIL $way $program:$why"
		for end in $ends; do
			tail -n 5 "$logs/$way-$program-$end"
		done
		failed=1
	fi
}

# ib_write_lat waits for bytes with the processor, which does not see GPU memory: perftest refuses it with CUDA.
for way in ${WAYS:-peer dmabuf}; do
	try "$way" ib_write_bw server
	try "$way" ib_read_bw client
	try "$way" ib_send_bw server
	try "$way" ib_atomic_bw server
	try "$way" ib_read_lat client
	try "$way" ib_send_lat "server client"
	# Its server ends without deregistering.
	try "$way" ib_atomic_lat client
done
unload_modules softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem
rdma_stop
exit $failed
