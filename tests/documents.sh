#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The commands that README.md, docs/, the manual pages and the examples print: each has a class, what it names is there,
# and those for this machine run, in a copy of the tree, with the libraries installed in a folder of their own.
# tests/vm/documents.sh runs those for a guest.  tests/documents/run says how a page marks what is special.
set -u

. "$(dirname "$0")/host.sh"
[ -e "$top/build/user/build.ninja" ] || {
	echo "skip: build/user is not built"
	exit 77
}
# A page builds a driver against them.
modules_of 6.1 nvidia
"$top/tests/documents/run" check || failed=1

# One mistake each, and each is found.
cat >"$work/wrong.md" <<'END'
    make demoo
    peerdma pins --nothing
    build/user/nothing/there 5
    vm/run --iomu on -- true
    tests/run vm/nothing
    make demo VM_ARGS="--gpus 99"
    make user NOSUCH=1
Use `man nothing_here` or `vm/run --nothing` or `make demo DEMO_ARGS="--gpu none"`.

    frobnicate the thing

<!-- run: ci vm/nothing -->

    echo
END
"$top/tests/documents/run" check "$work/wrong.md" >"$work/answer"
contains "each of twelve mistakes" "^[0-9]* commands, 12 wrong$" "$work/answer"
printf '    echo hello\n\n<!-- run: output -->\n\n    hullo\n\n<!-- run: host -->\n\n    false\n' >"$work/wrong.md"
"$top/tests/documents/run" host "$work/wrong.md" >"$work/answer"
contains "other output than is printed, and an exit code" "^2 commands of class host, 2 failed" "$work/answer"

# Commands write where they stand, so the tree is one of links.
mkdir "$work/tree" "$work/bin"
ln -s "$top"/* "$work/tree/"
rm "$work/tree/examples"
cp -r "$top/examples" "$work/tree/examples"
# What the pages call the reader's: a program, and a driver.
cp "$top/tests/documents/program.c" "$top/examples/hello.c" "$work/tree/"
mkdir "$work/tree/mydriver"
cp "$top"/examples/kernel/nvidia_client.c "$top"/examples/kernel/compat.h "$work/tree/mydriver/"
echo "obj-m := nvidia_client.o" >"$work/tree/mydriver/Kbuild"
meson install -C "$top/build/user" --destdir "$work/root" --no-rebuild --quiet || die "the libraries do not install"
pc=$(find "$work/root" -name libpeerdma.pc)
lib=$(dirname "$(dirname "$pc")")
man=$(dirname "$(dirname "$(find "$work/root" -name libpeerdma.7)")")

# Which page, not the page.
printf '#!/bin/sh\n[ "$1" = -l ] && exec ls "$2"\nls "%s"/man?/"$1".?\n' "$man" >"$work/bin/man"
chmod +x "$work/bin/man"
export PATH="$work/bin:$(dirname "$(find "$work/root" -name fpga-copy)"):$PATH"
export PKG_CONFIG_PATH="$(dirname "$pc")" PKG_CONFIG_SYSROOT_DIR="$work/root"
export LD_LIBRARY_PATH="$lib:$lib/softgpu" PEERDMA_PROVIDER=soft
# Where a CUDA toolkit, which -lcuda is about, has its own.
export CPATH="$(dirname "$(find "$work/root" -path '*/softgpu/cuda.h')")" LIBRARY_PATH="$lib/softgpu"
DOCUMENTS_FOLDER=$work/tree "$top/tests/documents/run" host || failed=1

# For a machine without CUDA, the same example says.
(
	unset CPATH LIBRARY_PATH
	cc -o "$work/behind" "$top/examples/behind.c" $(pkg-config --cflags --libs libpeerdma softgpu) && "$work/behind" >/dev/null
) || fail "examples/behind.c does not build or run with libpeerdma and softgpu"

# A page that is installed names no other that is not.
for page in "$man"/man?/*; do
	for name in $(sed 's/\\fR//g' "$page" | grep -oE '(lib)?(peerdma|fpga|softgpu)[a-z_-]*\([1-9]\)' | tr '(' . | tr -d ')' | sort -u); do
		ls "$man"/man?/"$name" >/dev/null 2>&1 || fail "$(basename "$page") names $name, which is not installed"
	done
done
exit $failed
