#!/bin/sh
# SPDX-License-Identifier: MIT
# UCX's unit tests in the guest, on the driver: ucx.sh beside it starts this.  GTEST_FILTER says which.

. "$TOP/tests/vm/lib.sh"
modules="softgpu nvidia amdgpu"
load_modules
export LD_LIBRARY_PATH="$UCX_ROOT/lib:$UCX_ROOT/lib/ucx:$LD_LIBRARY_PATH" UCX_MODULE_DIR="$UCX_ROOT/lib/ucx"
ip link set lo up
"$UCX_ROOT/bin/ucx_gtest" || exit
unload_modules
