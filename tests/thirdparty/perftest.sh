#!/bin/sh
# SPDX-License-Identifier: MIT
#
# perftest, unmodified, on the software GPU and the software RDMA adapter: in one virtual machine, client and server over
# one adapter; and in two, a GPU and an adapter each, with a wire between them.
#
#   [PERFTEST=/path/to/perftest] [BUILDS="cuda package"] [GUESTS="1 2"] tests/thirdparty/perftest.sh
#
# "cuda": built with CUDA, against softgpu's header and libraries, and run with --use_cuda=0 and --use_cuda_dmabuf; from a
# checkout, or else from the source package of Debian 13.  "package": this distribution's own programs, which know no CUDA:
# perftest-gpu.c gives them GPU memory for their buffers.  It also looks at the memory of both.
set -eu

. "$(dirname "$0")/lib.sh"

if [ -n "${PERFTEST-}" ]; then
	need_checkout PERFTEST src/perftest_resources.c perftest
else
	command -v apt-get >/dev/null || { echo "not run: set PERFTEST to a checkout of perftest"; exit 77; }
fi
"$top/vm/deps.sh" user modules vm rdma
make -s -C "$top" --no-print-directory user modules KVER="$series"
cuda=$user/softgpu/cuda
mkdir -p "$logs"

# packages FOLDER PACKAGE...: of this distribution, unpacked there and not installed.
packages() {
	mkdir -p "$1" && cd "$1" || return
	shift
	for package; do
		set -- "$package"_*.deb
		[ -e "$1" ] || apt-get download "$package" || return
		dpkg-deb -x "$package"_*.deb . || return
	done
}

# The source package of Debian 13, without a change to this machine's own lists.  apt checks the archive's signature and the
# sums; what it does not find of a package's files does not keep it from the others.
# shellcheck disable=SC2317 # called by built
fetch() {
	lists=$place/perftest-apt
	mkdir -p "$lists/lists/partial" "$copy" || return
	. /etc/os-release
	# Where this machine has its packages from.
	from=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' "Codename: $VERSION_CODENAME" | head -n 1)
	[ "$from" ] || { echo "apt has no archive of Debian's"; return 1; }
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $from trixie main" >"$lists/sources.list"
	set -- -o Dir::Etc::sourcelist="$lists/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$lists/lists"
	apt-get "$@" update && cd "$lists" || return
	[ -e "$(echo perftest_*.orig.tar.gz)" ] || apt-get "$@" source --download-only perftest || [ -e "$(echo perftest_*.orig.tar.gz)" ] ||
		return
	tar -xzf perftest_*.orig.tar.gz -C "$copy" --strip-components=1
}

# shellcheck disable=SC2317
build() {
	needs=$place/perftest-needs
	packages "$needs" librdmacm1 librdmacm-dev libibumad3 libibumad-dev libpci3 libpci-dev || return
	lib=$(echo "$needs"/usr/lib/*-linux-gnu)
	arch=$(basename "$lib")
	cd "$copy" && { [ -x configure ] || ./autogen.sh; } &&
		LIBRARY_PATH=$cuda/lib64 LD_LIBRARY_PATH=$cuda/lib64 ./configure CUDA_H_PATH="$cuda/include/cuda.h" \
			CPPFLAGS="-I$cuda/include -I$needs/usr/include -I$needs/usr/include/$arch" LDFLAGS="-L$cuda/lib64 -L$lib" &&
		LIBRARY_PATH=$cuda/lib64 make -j2
}

# run OPTION...: in one guest and between two.
run() {
	set -- --nics 1 --cards 0 --iommu "${IOMMU:-on}" --env WAYS="${WAYS:-peer dmabuf}" --env PRELOAD="$place/perftest-gpu.so" \
		"$@" -- "$top/tests/thirdparty/perftest-guest.sh"
	for guests in ${GUESTS:-1 2}; do
		say "client and server in $guests guest(s)"
		case $guests in
		1) guest perftest "$@" ;;
		*) guest perftest-two --guests 2 "$@" ;;
		esac || failed=1
	done
}

with_cuda() {
	if [ -n "${PERFTEST-}" ]; then
		copy perftest
	else
		copy=$place/perftest
		rm -rf "$copy"
		built perftest-source fetch || { echo "not run: no source package of perftest"; return; }
		say "$(cd "$place/perftest-apt" && echo perftest_*.orig.tar.gz), Linux $series"
	fi
	built perftest build || { failed=1; return; }
	run --env CUDA=1 --env PROGRAMS="$copy" --env LIBRARIES="$(echo "$place"/perftest-needs/usr/lib/*-linux-gnu)"
}

without() {
	programs=$place/perftest-package
	built perftest-package packages "$programs" perftest libibumad3 || { echo "not run: no package of perftest"; return; }
	say "$(cd "$programs" && echo perftest_*.deb), Linux $series"
	run --env PROGRAMS="$programs/usr/bin" --env LIBRARIES="$(echo "$programs"/usr/lib/*-linux-gnu)"
}

failed=0
built perftest-gpu cc -shared -fPIC -O1 -Wall -Wextra -Werror -D_GNU_SOURCE -o "$place/perftest-gpu.so" \
	"$top/tests/thirdparty/perftest-gpu.c" -ldl
for build in ${BUILDS:-cuda package}; do
	case $build in
	cuda) with_cuda ;;
	*) without ;;
	esac
done
exit $failed
