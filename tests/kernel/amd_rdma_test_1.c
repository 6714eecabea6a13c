// SPDX-License-Identifier: MIT OR GPL-2.0
/* amd_rdma_test_1.c - the same client, built for version 1.0 of the interface: see Kbuild. */
#include "amd_rdma_test.c"
