# SPDX-License-Identifier: MIT
#
# For bare and rpm: a bare Debian below build/bare, $root, of $suite. MIRROR=URL: where its packages are; else where this
# machine has its own.

top=$(cd "$(dirname "$0")/../.." && pwd)
mirror=${MIRROR-$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 2>/dev/null | grep -v security | head -n 1)}
work=$top/build/bare
version=$(sed -n "s/^ *version: '\(.*\)',$/\1/p" "$top/meson.build")
mkdir -p "$work"

die() {
	echo "$0: $*" >&2
	exit 1
}

[ "$mirror" ] || die "apt has no source of Debian here: MIRROR=URL names one"
[ "$(id -u)" = 0 ] || { echo "skip: it needs root"; exit 77; }

# What a program or a shell line prints, in the bare system. Its mounts end with it; / is one, which rpm wants.
inside() {
	unshare --mount --pid --fork sh -ec 'mount --bind "$1" "$1"; mount -t proc proc "$1/proc"; mount --bind -o ro /sys "$1/sys"; exec chroot "$1" \
		env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive sh -ec "$2"' \
		sh "$root" "$1"
}

# All that is there, without what any installation changes.
contents() {
	(cd "$root" && find . -path ./proc -prune -o -path ./sys -prune -o -path ./var/lib/dpkg -prune -o -path ./var/lib/apt -prune -o \
		-path ./var/log -prune -o -path ./var/cache -prune -o -path ./tmp -prune -o -path ./debs -prune -o \
		-path ./root -prune -o -path './var/lib/dkms/mok.*' -prune -o -name '*.pyc' -o -name '*~' -o -name '*-' -o -name 'modules.*' -o -print) | sort
	sort "$root/etc/group"
}

# A fresh $root of $suite, with what the packages need.
make_system() {
	tar=$work/$suite.tar
	if [ ! -e "$tar" ]; then
		echo "making a bare $suite, with what the packages need"
		mmdebstrap --variant=minbase \
			--include=dkms,linux-headers-amd64,gcc,libc6-dev,pkg-config,man-db,udev,ca-certificates \
			"$suite" "$tar.new.tar" "$mirror" >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; die "no $suite from $mirror"; }
		mv "$tar.new.tar" "$tar"
	fi
	rm -rf "$root"
	mkdir "$root"
	tar -C "$root" -xf "$tar"
	cp /etc/resolv.conf "$root/etc/resolv.conf"
}

# What the libraries need comes first, and stays.
needs() {
	inside "apt-get update; apt-get install -y --no-install-recommends libjson-c5 libnettle8 libibverbs-dev $*" \
		>"$root.needs" 2>&1 || inside "apt-get install -y --no-install-recommends libjson-c5 libnettle8t64 libibverbs-dev $*" \
		>>"$root.needs" 2>&1 || { tail -n 20 "$root.needs"; die "$suite: what the packages need cannot be installed"; }
}

# DKMS's modules, for each kernel whose headers are there.
build_modules() {
	for release in $(ls "$root/lib/modules"); do
		inside "dkms autoinstall -k $release" >>"$root.install" 2>&1 || { tail -n 40 "$root.install" >&2; die "$suite: dkms"; }
	done
}

try_modules() {
	for release in $(ls "$root/lib/modules"); do
		for module in peerdma peerdma_nvidia peerdma_amd peerdma_fpga softgpu nvidia dmabuf_mover; do
			file=$(find "$root/lib/modules/$release/updates" -name "$module.ko*" -print -quit)
			[ -n "$file" ] || die "$suite: DKMS built no $module.ko for Linux $release; $(cat "$root.install" | tail -n 20)"
			inside "modprobe -S $release --show-depends $module" >/dev/null || \
				die "$suite: modprobe does not find what $module.ko depends on"
		done
		[ "$(inside "modinfo -k $release -F version peerdma")" = "$version" ] || die "$suite: peerdma.ko is not of $version"
		[ -z "$(inside "modinfo -k $release -F alias softgpu; modinfo -k $release -F alias peerdma_fpga")" ] || \
			die "$suite: a test's driver would be loaded by itself"
		echo "  modules for Linux $release"
	done
	[ -n "${release-}" ] || die "$suite: no kernel to build for"
}
