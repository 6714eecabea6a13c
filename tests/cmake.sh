#!/bin/sh
# SPDX-License-Identifier: MIT
#
# CMake's own module finds softgpu's folders of CUDA by CUDAToolkit_ROOT, with no nvcc and in front of a real toolkit.
set -u

. "$(dirname "$0")/host.sh"
folders=${BUILD:-$top/build/user}/softgpu

cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.17)
project(program C)
find_package(CUDAToolkit REQUIRED)
message(STATUS "found ${CUDAToolkit_VERSION} in ${CUDAToolkit_INCLUDE_DIRS}")
add_executable(program program.c)
target_link_libraries(program CUDA::cudart CUDA::cuda_driver CUDA::nvml)
add_executable(static program.c)
target_link_libraries(static CUDA::cudart_static CUDA::cuda_driver CUDA::nvml)
END
cat >"$work/program.c" <<'END'
#include <cuda.h>
#include <cuda_runtime.h>
#include <nvml.h>
#include <stdio.h>

int main(void)
{
	int driver = 0, runtime = 0, gpus = 0;

	if (cuInit(0) || cuDriverGetVersion(&driver) || cudaRuntimeGetVersion(&runtime) || cudaGetDeviceCount(&gpus) ||
	    nvmlInit())
		return 1;
	printf("%d: driver %d, runtime %d, %d GPUs\n", CUDART_VERSION, driver, runtime, gpus);
	return 0;
}
END

# finds FOLDER VERSION NUMBER
finds() {
	cmake -S "$work" -B "$work/$1" -DCUDAToolkit_ROOT="$folders/$1" >"$work/said" 2>&1
	expect "$1: exit code of cmake" 0 $?
	contains "$1" "^-- found $2 in $folders/$1/include$" "$work/said"
	cmake --build "$work/$1" >"$work/said" 2>&1
	expect "$1: exit code of the build" 0 $?
	for program in program static; do
		SOFTGPU_INPROCESS=1 "$work/$1/$program" >"$work/said" 2>&1
		contains "$1, $program" "^$3: driver 13030, runtime $3, 1 GPUs$" "$work/said"
	done
}

finds cuda 13.3.0 13030
finds cuda-12 12.9.0 12090
exit $failed
