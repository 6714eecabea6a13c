// SPDX-License-Identifier: MIT
/*
 * test_linked.c - a program that is linked with libcuda and with the hooks:
 * "first" before libcuda, where its calls are seen; "late" behind it, where they
 * are not, and the report says so.
 */
#include <stdio.h>
#include <string.h>

#include <cuda.h>
#include "peerdma_hooks.h"

static unsigned int seen;

static void tell(void *arg, const struct peerdma_hook_event *event)
{
	seen += event->kind == PEERDMA_HOOK_FREE && !event->after;
}

int main(int argc, char **argv)
{
	int first = argc == 2 && !strcmp(argv[1], "first"), wrong = 0;
	struct peerdma_hook_report r[PEERDMA_HOOKS_MAX];
	unsigned int n, by_name = 0, missed = 0;
	CUcontext context;
	CUdeviceptr p;

	if (cuInit(0) || cuCtxCreate(&context, 0, 0) || peerdma_hooks_subscribe(tell, NULL) || cuMemAlloc(&p, 1 << 20))
		return 2;
	cuMemFree(p);
	n = peerdma_hooks_report(r, PEERDMA_HOOKS_MAX);
	for (unsigned int i = 0; i < n; i++) {
		by_name += !!(r[i].ways & PEERDMA_HOOK_BY_NAME);
		missed += !!(r[i].missed & PEERDMA_HOOK_BY_NAME);
	}
	printf("active %d, %u frees seen, %u functions by name, %u missed\n", peerdma_hooks_active(), seen, by_name, missed);
	wrong += peerdma_hooks_active() != first;
	wrong += seen != (first ? 1U : 0U);
	wrong += first ? missed || by_name < 15 : by_name || missed < 15;
	return wrong != 0;
}
