#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Makes a folder as build systems expect CUDA's toolkit or ROCm to be one (CUDA_HOME, --with-cuda, --with-rocm): links to the
# headers and libraries, which are elsewhere.
#
#   toolkit.sh cuda-12|cuda-13|rocm FOLDER HEADERS LIBRARIES
#
# Beside cuda-13 stands the link cuda to it. CUDA 12 has headers of its own: the same text with another version in it. Scripts read that with grep, so it is a number there.
set -eu

# What Meson installs is below a prefix, and that perhaps below DESTDIR.
place() {
	case $1 in
	/*) echo "${MESON_INSTALL_PREFIX:+${DESTDIR-}}$1" ;;
	*) echo "$MESON_INSTALL_DESTDIR_PREFIX/$1" ;;
	esac
}

kind=$1 folder=$(place "$2") headers=$(place "$3") libraries=$(place "$4")

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
headers=$(cd "$headers" && pwd)
libraries=$(cd "$libraries" && pwd)

# link TARGET NAME: relative, so that the whole can be moved.
link() {
	ln -sfn "$(realpath --no-symlinks --relative-to="$(dirname "$2")" "$1")" "$2"
}

# library NAME [FILE]: a link in the folder's lib64 to the FILE of that NAME.
library() {
	link "$libraries/${2-$1}" "$folder/lib64/$1"
}

case $kind in
cuda-1[23])
	version=${kind#cuda-}
	mkdir -p "$folder/include" "$folder/lib64"
	for header in "$headers"/*.h; do
		name=$(basename "$header")
		if [ "$version" = 12 ] && grep -q 13030 "$header"; then
			sed 's/13030/12090/g' "$header" >"$folder/include/$name.new"
			cmp -s "$folder/include/$name.new" "$folder/include/$name" 2>/dev/null ||
				cp "$folder/include/$name.new" "$folder/include/$name"
			rm "$folder/include/$name.new"
		else
			link "$header" "$folder/include/$name"
		fi
	done
	for name in libcuda.so libcuda.so.1 libnvidia-ml.so libnvidia-ml.so.1 "libcudart.so.$version"; do
		library "$name"
	done
	library libcudart.so "libcudart.so.$version"
	# Many programs link the runtime statically. There is no such library here: this gives them the shared one.
	echo '/* softgpu has its runtime only as a shared library */ INPUT(libcudart.so libcuda.so)' >"$folder/lib64/libcudart_static.a"
	# where programs are linked with no driver installed
	ln -sfn . "$folder/lib64/stubs"
	ln -sfn lib64 "$folder/lib"
	full=$([ "$version" = 12 ] && echo 12.9.0 || echo 13.3.0)
	printf '{\n   "cuda" : {\n      "name" : "CUDA of softgpu, a software GPU",\n      "version" : "%s"\n   }\n}\n' "$full" \
		>"$folder/version.json"
	# CMake's FindCUDAToolkit takes the folder for a toolkit by this file where there is no nvcc.
	echo "CUDA Version $full" >"$folder/version.txt"
	if [ "$version" = 13 ]; then
		rm -rf "$folder/../cuda"
		ln -s cuda-13 "$folder/../cuda"
	fi ;;
rocm)
	link "$headers" "$folder/include"
	link "$libraries" "$folder/lib" ;;
*)
	echo "toolkit.sh: $kind is none of cuda-12, cuda-13 and rocm" >&2
	exit 2 ;;
esac
