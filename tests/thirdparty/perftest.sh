#!/bin/sh
# SPDX-License-Identifier: MIT
#
# perftest, unmodified, on the software GPU and the software RDMA adapter: in one virtual machine, client and server over
# one adapter; and in two, a GPU and an adapter each, with a wire between them.
#
#   [PERFTEST=/path/to/perftest] [GUESTS=1|2] tests/thirdparty/perftest.sh
#
# With a checkout it is built with CUDA, against softgpu's header and libraries, and run with --use_cuda=0 and
# --use_cuda_dmabuf.  Without, the distribution's own programs are run, which know no CUDA: perftest-gpu.c gives them GPU
# memory for their buffers.
set -eu

. "$(dirname "$0")/lib.sh"

if [ -n "${PERFTEST-}" ]; then
	need_checkout PERFTEST src/perftest_resources.c perftest
	copy perftest
else
	command -v apt-get >/dev/null || { echo "not run: set PERFTEST to a checkout of perftest"; exit 77; }
fi
"$top/vm/deps.sh" user modules vm rdma
make -s -C "$top" --no-print-directory user modules KVER="$series"
cuda=$user/softgpu/cuda
mkdir -p "$logs"

# shellcheck disable=SC2317 # called by built
build() {
	cd "$copy" && ./autogen.sh && LIBRARY_PATH=$cuda/lib64 LD_LIBRARY_PATH=$cuda/lib64 ./configure \
		CUDA_H_PATH="$cuda/include/cuda.h" CPPFLAGS="-I$cuda/include" LDFLAGS="-L$cuda/lib64" &&
		LIBRARY_PATH=$cuda/lib64 make -j2
}

# The package, and the one that it needs besides those of the RDMA group: not installed.
# shellcheck disable=SC2317
unpack() {
	mkdir -p "$programs" && cd "$programs" || return
	for package in perftest libibumad3; do
		set -- "$package"_*.deb
		[ -e "$1" ] || apt-get download "$package" || return
		dpkg-deb -x "$package"_*.deb . || return
	done
}

if [ -n "${PERFTEST-}" ]; then
	built perftest build
	set -- --env CUDA=1 --env PROGRAMS="$copy"
else
	programs=$place/perftest-package
	built perftest-package unpack || { echo "not run: no package of perftest"; exit 77; }
	say "$(cd "$programs" && echo perftest_*.deb), Linux $series"
	built perftest-gpu cc -shared -fPIC -O1 -Wall -Wextra -Werror -D_GNU_SOURCE -o "$place/perftest-gpu.so" \
		"$top/tests/thirdparty/perftest-gpu.c" -ldl
	set -- --env PROGRAMS="$programs/usr/bin" --env LIBRARIES="$(echo "$programs"/usr/lib/*-linux-gnu)" \
		--env PRELOAD="$place/perftest-gpu.so"
fi
set -- --nics 1 --cards 0 --iommu "${IOMMU:-on}" --env WAYS="${WAYS:-peer dmabuf}" "$@" -- \
	"$top/tests/thirdparty/perftest-guest.sh"
for guests in ${GUESTS:-1 2}; do
	say "client and server in $guests guest(s)"
	case $guests in
	1) guest perftest "$@" ;;
	*) guest perftest-two --guests 2 "$@" ;;
	esac
done
