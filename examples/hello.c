// SPDX-License-Identifier: MIT
/*
 * hello.c - pins memory, accesses it through a CPU view, and unpins it.
 *
 *	cc hello.c $(pkg-config --cflags --libs libpeerdma)
 */
#include <peerdma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
	static const char *const kinds[] = { "unknown", "the host's", "a GPU's", "managed" };
	char *memory = malloc(100000), *view;	/* or a pointer from cuMemAlloc() */
	struct peerdma_memory m = { .size = sizeof(m) };
	struct peerdma_region *region;
	struct peerdma *ctx;

	if (!memory || peerdma_query(NULL, memory, &m))
		goto failed;
	printf("%p is %s memory\n", (void *)memory, kinds[m.kind]);

	if (peerdma_open(&ctx, 0) || peerdma_pin(ctx, memory, 100000, 0, NULL, &region) ||
	    peerdma_cpu_view(region, (void **)&view))
		goto failed;
	strcpy(view, "hello through the view");
	printf("it says \"%s\", the pin is %s\n", memory, peerdma_valid(region) ? "valid" : "revoked");

	if (peerdma_cpu_view_end(region, view) || peerdma_unpin(region))
		goto failed;
	peerdma_close(ctx);
	free(memory);
	return 0;
failed:
	fprintf(stderr, "%s\n", peerdma_last_error());
	return 1;
}
