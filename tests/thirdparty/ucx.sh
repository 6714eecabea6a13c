#!/bin/sh
# SPDX-License-Identifier: MIT
#
# UCX on softgpu: builds it with CUDA against softgpu's headers and libraries, then
# looks at what it finds and runs those of its own unit tests that concern CUDA memory,
# on a software GPU inside the process.
#
#   [UCX=/path/to/ucx] [UCX_TESTS=FILTER] tests/thirdparty/ucx.sh
#
# Without UCX it takes the source package of Debian, by a list of sources of its own
# below build/thirdparty.  UCX_TESTS is a filter of googletest.  The first build takes
# half an hour on two cores; what is built stays.
set -eu

. "$(dirname "$0")/lib.sh"

place=$top/build/thirdparty/ucx
logs=$place/logs
cuda=$user/softgpu/cuda
mkdir -p "$logs"
for program in autoconf automake libtoolize g++; do
	command -v $program >/dev/null || { echo "not run: UCX needs $program"; exit 77; }
done

# The source package, without a change to this machine's own lists.
fetch() {
	lists=$place/apt
	mkdir -p "$lists/lists/partial"
	. /etc/os-release
	# Where this machine has its packages from.
	from=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' "Codename: $VERSION_CODENAME" | head -n 1)
	[ "$from" ] || { echo "apt has no source of Debian's $VERSION_CODENAME"; return 1; }
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
		"$from $VERSION_CODENAME main" >"$lists/sources.list"
	set -- -o Dir::Etc::sourcelist="$lists/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State::lists="$lists/lists"
	apt-get "$@" update && cd "$place" && apt-get "$@" source ucx
}

if [ -n "${UCX-}" ]; then
	need_checkout UCX src/uct/cuda/configure.m4 "UCX"
	[ -d "$place/source" ] || cp -a "$checkout" "$place/source"
elif [ ! -d "$place/source" ]; then
	command -v apt-get >/dev/null || { echo "not run: set UCX to a checkout of UCX"; exit 77; }
	(fetch) >"$logs/fetch.log" 2>&1 || { echo "not run: no source package of UCX: $logs/fetch.log"; exit 77; }
	mv "$place"/ucx-[0-9]* "$place/source"
fi
make -s -C "$top" --no-print-directory user

# shellcheck disable=SC2317 # called by built
configure() {
	cd "$place/source" && { [ -x configure ] || ./autogen.sh; } && mkdir -p "$place/build" && cd "$place/build" &&
		LD_LIBRARY_PATH=$cuda/lib64 CFLAGS="-O1 -g0" CXXFLAGS="-O1 -g0" "$place/source/configure" \
			--with-cuda="$cuda" --without-rocm --without-verbs --without-rdmacm --without-knem \
			--without-xpmem --without-java --without-go --without-ugni --without-gdrcopy --disable-numa \
			--disable-static --disable-doxygen-doc --enable-gtest LDFLAGS="-Wl,-rpath-link,$cuda/lib64"
}

# Its tests have what newer compilers warn of, and one file inlines at -O3 alone.
# shellcheck disable=SC2317
build() {
	make -C "$place/build/test/gtest" CXXFLAGS="-O3 -g0 -Wno-error" uct/gtest-test_tag.o &&
		make -C "$place/build" -j2 CXXFLAGS="-O1 -g0 -Wno-error"
}

[ -e "$place/build/Makefile" ] || built configure-ucx configure
built ucx build

# The rendezvous protocol wants 512 MiB of it, and some tests copy 1.5 GiB at once.
export LD_LIBRARY_PATH="$cuda/lib64" UCX_MODULE_DIR="$place/build/modules"
export SOFTGPU_INPROCESS=1 SOFTGPU_VRAM_MIB=2048

"$place/build/src/tools/info/ucx_info" -d >"$logs/info.log" 2>&1 || die "ucx_info fails: $logs/info.log"
for transport in cuda_copy cuda_ipc; do
	grep -q "Transport: $transport" "$logs/info.log" || die "ucx_info does not list $transport: $logs/info.log"
	echo "PASS ucx_info lists $transport"
done

filter=${UCX_TESTS-'cuda_hooks*:cuda_copy/*:cuda_ipc/*:cuda_cpy/*:mem_type/*:mem_types/*:test_rcache*:all/test_ucp_mem_type*'}
say "UCX's unit tests: $filter"
code=0
cd "$place/build/test/gtest"
./gtest --gtest_filter="$filter" >"$logs/gtest.log" 2>&1 || code=$?
grep -qE '^\[  PASSED  \] [1-9]' "$logs/gtest.log" || die "not one test passed: $logs/gtest.log"
grep -E '^\[  (PASSED|FAILED) ' "$logs/gtest.log"
echo "$(grep -c '\[     SKIP \]' "$logs/gtest.log") skipped; all of it: $logs/gtest.log"
exit "$code"
