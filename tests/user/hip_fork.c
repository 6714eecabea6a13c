// SPDX-License-Identifier: MIT
/* hip_fork.c - a child that is made while a thread makes HIP's first call: its own first call comes to an end. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "fork_inside.h"
#include "hip/hip_runtime_api.h"
#include "hsa/hsa.h"

static atomic_bool holds = true;

/* In place of the library's, which HIP calls while it starts. */
hsa_status_t hsa_init(void)
{
	hsa_status_t (*original)(void) = (hsa_status_t (*)(void))dlsym(RTLD_NEXT, "hsa_init");

	if (atomic_exchange(&holds, false))
		wait_inside();
	return original();
}

static void call(void)
{
	int count;

	hipGetDeviceCount(&count);
}

static void *first_call(void *unused)
{
	call();
	return NULL;
}

int main(void)
{
	return child_comes_back(first_call, call);
}
