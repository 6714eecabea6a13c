#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The Debian packages: they build, and each has what it is for and nothing else. "make check-packages" asks lintian,
# and installs them.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
for program in dh dh_dkms scdoc; do
	command -v $program >/dev/null || {
		echo "skip: no $program: vm/deps.sh deb"
		exit 77
	}
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

complain() {
	echo "$0: $*" >&2
	failed=1
}

# Debug information would be stripped to packages of its own, and nothing here is run: the compiler need not optimize.
# Nor is anything sent anywhere: it need not be small.
export XZ_OPT=-1 DPKG_DEB_COMPRESSOR_LEVEL=1
DEB_BUILD_OPTIONS="noautodbgsym noopt" DEB_CFLAGS_APPEND=-g0 "$top/packaging/build-deb" "$work" >/dev/null
version=$(sed -n "s/^ *version: '\(.*\)',$/\1/p" "$top/meson.build")

mkdir "$work/root"
for deb in "$work"/*.deb; do
	package=$(basename "$deb" | cut -d_ -f1)
	dpkg-deb -x "$deb" "$work/root/$package"
	(cd "$work/root/$package" && find . ! -type d | sed 's/^\.//' | sort) >"$work/$package.list"
done

# PACKAGE PATH...: there, and in no other.
has() {
	package=$1
	shift
	for path; do
		found=$(grep -lxE "$path" "$work"/*.list | xargs -r -n 1 basename | sed 's/\.list$//' | xargs)
		[ "$found" = "$package" ] || complain "$path is in: ${found:-no package}; not in $package"
	done
}
lib=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
src=/usr/src/peerdma-$version
has libpeerdma0 "$lib/libpeerdma.so.0"
has libpeerdma-hooks0 "$lib/libpeerdma-hooks.so.0"
has libpeerdma-preload "$lib/libpeerdma-verbs.so.0" "$lib/libpeerdma-fabric.so.0"
has libpeerdma-dev "$lib/libpeerdma.so" "$lib/libpeerdma-hooks.so" "$lib/pkgconfig/libpeerdma.pc" /usr/include/peerdma_ioctl.h \
	/usr/include/peerdma/kernel/peerdma_kapi.h /usr/share/doc/libpeerdma-dev/examples/hello.c \
	'/usr/share/man/man7/libpeerdma.7.gz' '/usr/share/man/man3/peerdma_unpin.3.gz'
for header in "$top"/peerdma/include/*.h; do
	has libpeerdma-dev "/usr/include/$(basename "$header")"
done
has peerdma-tools /usr/bin/peerdma /usr/bin/fpga-copy /usr/share/bash-completion/completions/peerdma /usr/share/peerdma/prometheus/peerdma.rules.yml
for page in "$top"/docs/man/*.1.scd; do
	has peerdma-tools "/usr/share/man/man1/$(basename "$page" .scd).gz"
done
has peerdma-dkms "$src/dkms.conf" "$src/peerdma/kernel/module.c" '(/usr)?/lib/udev/rules.d/.*peerdma.*' '/usr/lib/sysusers.d/.*' \
	/usr/lib/modules-load.d/peerdma.conf
has softgpu-dkms "/usr/src/softgpu-$version/dkms.conf" "/usr/src/softgpu-$version/softgpu/kernel/pci.c"
has libsoftgpu "$lib/softgpu/libcuda.so.1" "$lib/softgpu/libhsa-runtime64.so.1"
has libsoftgpu-dev /usr/include/softgpu/cuda.h
has peerdma-doc /usr/share/doc/peerdma-doc/install.md

# Nothing of a GPU vendor's name where programs and the kernel look by themselves.
! grep -hE "^$lib/lib(cuda|cudart|nvidia|hsa|hip|amdhip)|^/usr/include/(cuda|nvml|hip|hsa)" "$work"/*.list || \
	complain "a stand-in of libsoftgpu lies in a folder where the vendor's library is searched"
for package in libpeerdma0 libpeerdma-hooks0 peerdma-tools peerdma-dkms; do
	! dpkg-deb -f "$work/${package}_"*.deb Depends Recommends | grep -q softgpu || complain "$package brings softgpu along"
done

# One version everywhere.
for file in $(cut -d' ' -f1 "$top"/packaging/kernel/*.modules | grep -v '#' | sort -u); do
	[ ! -d "$top/$file" ] || grep -h '^MODULE_VERSION("' "$top/$file"/*.c || :
done | sort -u >"$work/versions"
[ "$(cat "$work/versions")" = "MODULE_VERSION(\"$version\");" ] || complain "versions of modules: $(cat "$work/versions")"

[ $failed = 0 ]
echo "$(ls "$work"/*.deb | wc -l) packages"
