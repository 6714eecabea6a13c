# SPDX-License-Identifier: MIT
#
# For the scripts beside it: sourced, not run.  Each takes a checkout of
# another project's driver, builds a copy of it below build/thirdparty against
# softgpu as if softgpu were NVIDIA's driver, and tries it.
# shellcheck shell=sh disable=SC2034 # those who source it use its variables

top=$(cd "$(dirname "$0")/../.." && pwd)
series=${KVER:-6.1}
place=$top/build/thirdparty/$series
root=$place/root		# softgpu as installed: lib/modules and usr/src
logs=$place/logs
modules=$top/build/modules/$series
user=$top/build/user

say() {
	echo "== $*"
}

die() {
	echo "$0: $*" >&2
	exit 1
}

# need_checkout VARIABLE FILE WHAT: its value must be a checkout with that file.
need_checkout() {
	eval "checkout=\${$1-}"
	if [ -z "$checkout" ]; then
		echo "not run: set $1 to a checkout of $3"
		exit 77
	fi
	[ -e "$checkout/$2" ] || die "$1=$checkout is no checkout of $3: it has no $2"
	checkout=$(cd "$checkout" && pwd)
}

# copy NAME: the checkout, to build in; sets copy.
copy() {
	copy=$place/$1
	rm -rf "$copy"
	mkdir -p "$copy" "$logs"
	cp -a "$checkout/." "$copy"
	commit=
	[ ! -e "$checkout/.git" ] || commit=$(git -C "$checkout" log -1 --format=', commit %h of %cs')
	say "$1 from $checkout$commit, Linux $series"
}

# Everything of ours that the builds need; sets headers, release and nvidia,
# the folder below usr/src.
prepare() {
	"$top/vm/deps.sh" user modules
	make -s -C "$top" --no-print-directory user modules KVER="$series"
	headers=$("$top/vm/fetch-kernel" "$series" --print headers)
	release=$("$top/vm/fetch-kernel" "$series" --print release)
	rm -rf "$root"
	DESTDIR=$root "$top/softgpu/install/install.sh" "$modules"
	ln -sfn "$headers" "$root/lib/modules/$release/build"
	PATH=$PATH:/usr/sbin:/sbin depmod -b "$root" "$release" 2>/dev/null
	nvidia=$(echo "$root"/usr/src/nvidia-*)
}

# private_mounts: can this machine show a program other folders than the rest sees?
private_mounts() {
	[ -d /lib/modules ] && [ -d /usr/src ] || return 1
	for private in "unshare -m" "unshare -rm"; do
		$private sh -c 'mount --bind /usr/src /usr/src' 2>/dev/null && return
	done
	return 1
}

# installed COMMAND...: run it where /usr/src and /lib/modules are those of the
# root above, so that it must find softgpu by itself.  Needs private_mounts.
installed() {
	$private sh -c 'mount --bind "$1/usr/src" /usr/src && mount --bind "$1/lib/modules" /lib/modules || exit
		shift
		exec "$@"' sh "$root" "$@"
}

# built NAME COMMAND...: run it, with its output in a file that is shown when it fails.
built() {
	name=$1
	shift
	if "$@" >"$logs/$name.log" 2>&1; then
		echo "PASS build $name"
	else
		code=$?
		grep -E 'error:|undefined|Error|ERROR' "$logs/$name.log" | head -n 10
		echo "FAIL build $name: exit code $code; all of it: $logs/$name.log"
		return "$code"
	fi
}

# guest NAME OPTION... -- SCRIPT: run it in the virtual machine.
guest() {
	name=$1
	shift
	mkdir -p "$place/results"
	# shellcheck disable=SC2086 # VM_ARGS are several
	"$top/vm/run" --kernel "$series" --timeout 600 --log "$logs/$name.kernel.log" --out "$place/results" \
		--env TOP="$top" --env BUILD="$user" --env MODDIR="$modules" --env RESULTS="$place/results" \
		${VM_ARGS-} "$@"
}
