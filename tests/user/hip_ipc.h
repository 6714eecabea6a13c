/* SPDX-License-Identifier: MIT */
/* hip_ipc.h - the second process of HIP's tests. */
#pragma once

/* Its exit status. */
int hip_ipc_role(void);
