#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Installs the Debian packages that a job needs and that are missing. This is
# the only place that asks for root; when nothing is missing it installs nothing.
#
#   vm/deps.sh GROUP...        groups: the functions below
#   vm/deps.sh --list GROUP... only print the packages
#
# Kernels are not installed: vm/fetch-kernel unpacks them below build/.
set -eu

process="gcc libc6-dev"
# Meson builds the tests along with what they test: hence cmocka.
user="$process make dpkg-dev pkg-config python3 meson ninja-build libjson-c-dev nettle-dev zlib1g-dev liburing-dev scdoc libcmocka-dev abigail-tools"
modules="$process make python3 kmod libelf1 xz-utils zstd"
vm="$process python3 qemu-system-x86 kmod pciutils zstd"
debug_kernel="$modules bc bison flex libelf-dev libssl-dev xz-utils"
# An RDMA adapter in the guest, and programs for it.
rdma="$user libibverbs-dev ibverbs-providers iproute2"
bench="libucx-dev valgrind"
# What UCX and Open MPI are built with: tests/thirdparty/build-mpi.
mpi="$user $vm $rdma autoconf automake libtool g++ perl"
# For arm64, on another machine: nothing is installed of that architecture.
arm64="$user $modules gcc-aarch64-linux-gnu qemu-user-static qemu-system-arm"
deb="make dpkg-dev debhelper dh-dkms meson pkg-config libjson-c-dev nettle-dev zlib1g-dev liburing-dev libibverbs-dev libfabric-dev scdoc xz-utils"
lint="lintian"
rpm="$user rpm"
bare="mmdebstrap"
# Finds what can be changed in C files; Python's of Debian itself.
mutate="python3-clang"
# A static site of the documents.
site="mkdocs mkdocs-material scdoc man-db python3"
# What draws the pictures that are checked.
pictures="gir1.2-rsvg-2.0 python3-gi-cairo fonts-dejavu-core"
check="$user $modules $vm $deb $rdma $pictures v4l-utils gnuplot-nox udev jq xfsprogs libfabric-dev libucx0 clang libclang-rt-14-dev g++ cmake sparse perl"

usage() {
	echo "usage: vm/deps.sh [--list] process|user|modules|vm|rdma|mpi|debug-kernel|bench|arm64|deb|lint|rpm|bare|mutate|site|check..." >&2
	exit 2
}

list=
packages=
fetches_kernel=
[ $# -gt 0 ] || usage
for group in "$@"; do
	case $group in
	--list)	list=1 ;;
	process) packages="$packages $process" ;;
	user)	packages="$packages $user" ;;
	modules) packages="$packages $modules"; fetches_kernel=1 ;;
	vm)	packages="$packages $vm"; fetches_kernel=1 ;;
	debug-kernel) packages="$packages $debug_kernel"; fetches_kernel=1 ;;
	rdma)	packages="$packages $rdma" ;;
	mpi)	packages="$packages $mpi" ;;
	bench)	packages="$packages $bench" ;;
	deb)	packages="$packages $deb" ;;
	lint)	packages="$packages $lint" ;;
	rpm)	packages="$packages $rpm" ;;
	bare)	packages="$packages $bare" ;;
	mutate)	packages="$packages $mutate" ;;
	site)	packages="$packages $site" ;;
	arm64)	packages="$packages $arm64"; fetches_kernel=1 ;;
	check)	packages="$packages $check"; fetches_kernel=1 ;;
	*)	usage ;;
	esac
done
packages=$(printf '%s\n' $packages | sort -u | tr '\n' ' ')
if [ -n "$list" ]; then
	echo "$packages"
	exit
fi

# On other systems the user installs what the compiler and Meson ask for: docs/install.md has the names.
command -v dpkg-query >/dev/null || exit 0

# Another compiler than Debian's does as well.
have() {
	case $1 in
	gcc) command -v cc >/dev/null && return ;;
	esac
	case $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) in
	*" ok installed") return 0 ;;
	*) return 1 ;;
	esac
}

missing=
for package in $packages; do
	have "$package" || missing="$missing $package"
done

# A machine whose apt was never updated does not know where kernels are.
update=
top=$(dirname "$0")/..
if [ -n "$fetches_kernel" ] && [ ! -e "$top/build/cache/kernel/6.1/kernel.json" ] &&
   ! apt-cache show linux-image-amd64 >/dev/null 2>&1; then
	update=1
fi

# What was not there when a build folder was set up is not built there, nor are its tests.
set_up_again() {
	for folder in "$top"/build/user "$top"/build/user-*; do
		[ "$folder/build.ninja" -ot /var/lib/dpkg/status ] && [ -e "$folder/build.ninja" ] || continue
		meson setup --reconfigure "$folder" >"$folder-setup.log" 2>&1 || { cat "$folder-setup.log" >&2; exit 1; }
	done
}
if [ -z "$missing$update" ]; then
	set_up_again
	exit
fi

if [ "$(id -u)" = 0 ]; then
	root=
elif command -v sudo >/dev/null; then
	root=sudo
else
	echo "vm/deps.sh: these Debian packages are missing:$missing" >&2
	echo "  installing them needs root, and there is no sudo; as root, run:" >&2
	echo "  apt-get update && apt-get install --no-install-recommends$missing" >&2
	exit 1
fi

echo "installing Debian packages${root:+ (with sudo)}:${missing:- none, only the lists of packages}"
apt() {
	$root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=5 "$@"
}
# A broken third-party archive must not keep us from Debian's.
apt update || echo "vm/deps.sh: apt-get update failed in part; trying to go on" >&2
[ -z "$missing" ] || apt install -y --no-install-recommends $missing
set_up_again
