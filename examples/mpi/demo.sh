#!/bin/sh
# SPDX-License-Identifier: MIT
# vm: --cards 0 --gpus 2 --vram 1G --memory 3G
#
# The MPI demonstration, run in each guest: two ranks exchange all kinds of memory, in one guest over IPC, in two over RDMA;
# the same again without GPUDirect; then collectives, windows and OpenSHMEM.  "make demo-mpi" builds everything, boots the
# machines and runs it.  MPI is the folder with UCX and Open MPI, PROGRAMS that of the examples.
#
#   demo.sh [pairs] [collectives] [onesided] [oshmem]      only the named parts

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
. "$top/tests/vm/lib.sh"
: "${MPI:?}" "${PROGRAMS:?}"

export LD_LIBRARY_PATH="$MPI/lib:$LD_LIBRARY_PATH" PATH="$MPI/bin:$PATH" UCX_MODULE_DIR="$MPI/lib/ucx"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ip link set lo up

two=
[ "${GUESTS:-1}" = 1 ] || two=1
modules="softgpu nvidia amdgpu"
if [ -n "$two" ]; then
	modprobe -a udp_tunnel ip6_udp_tunnel ib_core ib_uverbs || die "the kernel's modules do not load"
	modules="$modules peerdma peerdma_nvidia peerdma_amd peerdma_peer_core peerdma_peermem peerdma_hca"
fi
load_modules
if [ -n "$two" ]; then
	rdma link add rxe0 type rxe netdev eth0 || die "no RDMA adapter: see the kernel's log"
fi

finish() {
	[ -z "$two" ] || rdma link delete rxe0 || die "the adapter does not go"
	unload_modules
}

# The other guest does what mpirun says.
if [ "${GUEST:-1}" != 1 ]; then
	"$here/remote" --serve &
	"$PEERDMA_VM/barrier" up --listening 18517 || die "the other guest does not come"
	wait $!
	finish
	exit
fi
[ -z "$two" ] || "$PEERDMA_VM/barrier" up || die "the other guest does not come"

# mpi NAME=VALUE... PROGRAM: two ranks.  What mpirun itself says about an odd machine is none of this page.
mpi() {
	set -- -x LD_LIBRARY_PATH -x UCX_MODULE_DIR "$@"
	where="--oversubscribe"
	[ -z "$two" ] || where="--host guest1,guest2 --prefix $MPI --mca plm_rsh_agent $here/remote --mca oob_tcp_if_include eth0"
	# shellcheck disable=SC2086 # several words
	timeout "${LIMIT:-900}" mpirun -np 2 $where --bind-to none --mca pml ucx --mca osc ucx --mca btl ^openib,smcuda,vader \
		--mca opal_common_ucx_tls any --mca opal_common_ucx_devices any $protocols "$@"
}

# UCX 1.13's newer protocols give rocm_copy no key for large copies, which crashes: so copies are the processor's.
newer="-x UCX_PROTO_ENABLE=y -x UCX_ROCM_COPY_D2H_THRESH=inf -x UCX_ROCM_COPY_H2D_THRESH=inf"
protocols=$newer

# With GPUDirect, and without.
# From AMD's memory it sends to CUDA's without rendezvous only.
if [ -n "$two" ]; then
	between="two machines, over RDMA"
	transports="-x UCX_TLS=rc,cuda_copy,rocm_copy -x UCX_NET_DEVICES=rxe0:1"
	without="-x UCX_IB_GPU_DIRECT_RDMA=n"
	# Only the older protocols use GPUDirect.  They end with an assertion where both makes of GPUs meet, so with one at a time.
	cuda="-x UCX_TLS=rc,cuda_copy -x UCX_NET_DEVICES=rxe0:1"
	amd="-x UCX_TLS=rc,rocm_copy -x UCX_NET_DEVICES=rxe0:1"
	direct=
	amd_too=host,amd
else
	between="one machine, over IPC"
	transports="-x UCX_TLS=posix,sysv,cma,cuda_copy,cuda_ipc,rocm_copy"
	without="-x UCX_TLS=posix,sysv,cma,cuda_copy,rocm_copy"
	cuda=$transports
	direct=$newer
	amd_too=amd
	# On a machine with both makes UCX would copy from host memory by rocm_ipc, which cannot do that.
	amd="-x UCX_TLS=posix,sysv,cma,rocm_copy,rocm_ipc"
fi

# UCX's counters, a file for each process.
# shellcheck disable=SC2016 # for the shell that is started
counted='UCX_STATS_DEST=file:/tmp/ucx-stats.$$ exec "$0" "$@"'

failed=0
wanted=${*:-pairs collectives onesided oshmem}
wants() { case " $wanted " in *" $1 "*) return 0 ;; esac; return 1; }

title() {
	printf '\n%s\n' "$*"
}

# A table of what a program prints, and whether all of it is right.
table() {
	awk -F '\t' '
		{ if (!($1 in seen)) { seen[$1]; order[++n] = $1 } if (!bad[$1, $2]) cell[$1, $2] = $3; if ($3 != "right") bad[$1, $2] = any_bad = 1 }
		END {
			split("host cuda managed amd", kinds, " ")
			printf "  %-14s", ""; for (k = 1; k <= 4; k++) printf "%-12s", kinds[k]; print ""
			for (i = 1; i <= n; i++) {
				printf "  %-14s", order[i]
				for (k = 1; k <= 4; k++) printf "%-12s", cell[order[i], kinds[k]]
				print ""
			}
			exit any_bad || !n
		}' "$1"
}

printf '%s, %s\nbetween two ranks of %s; rank N has GPU N\n' \
	"$(mpirun --version | head -n 1 | sed 's/mpirun (\(.*\))/\1/')" \
	"$(ucx_info -v | sed -n 's/^# .*version[ =]*\([0-9.]*\).*/UCX \1/ip' | head -n 1)" "$between"

if wants pairs; then
	title "Sent from one kind of memory into another, 8 B to 16 MiB (17.1 MiB together); MiB by transport"
	# shellcheck disable=SC2086 # several words
	{
		protocols=$direct
		mpi $cuda sh -c "$counted" "$PROGRAMS/pairs" host,cuda,managed host,cuda,managed >/tmp/with || failed=1
		mpi $cuda $without sh -c "$counted" "$PROGRAMS/pairs" host,cuda,managed host,cuda,managed >/tmp/without || failed=1
		protocols=$newer
		mpi $transports sh -c "$counted" "$PROGRAMS/pairs" host,cuda,managed amd >>/tmp/with || failed=1
		mpi $transports -x UCX_RNDV_THRESH=inf sh -c "$counted" "$PROGRAMS/pairs" amd >>/tmp/with || failed=1
		mpi $transports $without sh -c "$counted" "$PROGRAMS/pairs" host,cuda,managed amd >>/tmp/without || failed=1
		mpi $transports $without -x UCX_RNDV_THRESH=inf sh -c "$counted" "$PROGRAMS/pairs" amd >>/tmp/without || failed=1
		protocols=$direct
		mpi $amd sh -c "$counted" "$PROGRAMS/pairs" $amd_too $amd_too >>/tmp/with || failed=1
		protocols=$newer
	}
	awk -F '\t' '
		function column(transports, staged) {
			return sprintf("%-22s %7s", transports, staged)
		}
		# The last line of a pair counts.
		{ at = $1 FS $2 }
		FNR == NR { what[at] = $3; with[at] = column($4, $5); next }
		{ other[at] = column($4, $5); if ($3 != "right") what[at] = $3 }
		END {
			split("host cuda managed amd", kinds, " ")
			printf "  %-8s %-8s %-7s %-22s %7s   %-22s %7s\n", "from", "to", "bytes", "GPUDirect", "staged", "off", "staged"
			for (i = 1; i <= 4; i++)
				for (j = 1; j <= 4; j++) {
					at = kinds[i] FS kinds[j]
					if (what[at] != "right" || !(at in other)) bad = 1
					printf "  %-8s %-8s %-7s %s   %s\n", kinds[i], kinds[j], what[at], with[at], other[at]
				}
			print "  staged: MiB that were copied between a GPU and host memory"
			exit bad
		}' /tmp/with /tmp/without || failed=1
fi
if wants collectives; then
	title "Collectives from each kind of memory into all four kinds, 8 B to 16 MiB"
	# Some collectives pass on what they have received: AMD's memory is sent from, too, where it is only received into.
	# shellcheck disable=SC2086
	{
		protocols=$direct
		mpi $cuda "$PROGRAMS/collectives" host,cuda,managed host,cuda,managed >/tmp/collectives || failed=1
		protocols=$newer
		mpi $transports -x UCX_RNDV_THRESH=inf "$PROGRAMS/collectives" host,cuda,managed amd >>/tmp/collectives || failed=1
		mpi $transports -x UCX_RNDV_THRESH=inf "$PROGRAMS/collectives" amd >>/tmp/collectives || failed=1
	}
	table /tmp/collectives || failed=1
fi
if wants onesided; then
	title "MPI's windows in each kind of memory, 8 B to 16 MiB"
	# shellcheck disable=SC2086
	{
		mpi $transports "$PROGRAMS/onesided" host,cuda,managed >/tmp/onesided || failed=1
		mpi $transports -x UCX_RNDV_THRESH=inf "$PROGRAMS/onesided" amd >>/tmp/onesided || failed=1
	}
	table /tmp/onesided || failed=1
fi
if wants oshmem; then
	title "OpenSHMEM, with symmetric memory of the host's: from and into each kind of memory, 8 B to 16 MiB"
	# shellcheck disable=SC2086
	mpi $transports -x SHMEM_SYMMETRIC_SIZE=64M --mca spml ucx "$PROGRAMS/oshmem" >/tmp/oshmem || failed=1
	table /tmp/oshmem || failed=1
fi

[ -z "$two" ] || "$here/remote" guest2 --end
finish
echo
[ $failed = 0 ] || { echo "something is WRONG"; exit 1; }
echo "all bytes are right"
