// SPDX-License-Identifier: MIT
/*
 * import.c - pins a dma-buf of another driver, and maps it for a PCI device until the
 * exporter revokes it.
 *
 *	cc import.c $(pkg-config --cflags --libs libpeerdma)
 *	./import 0000:02:00.0 FD "echo revoke >/sys/kernel/debug/dmabuf_mover/1"
 *
 * FD is the descriptor of a dma-buf that the program has inherited. It runs the command
 * while the memory is mapped.
 */
#include <peerdma.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct peerdma_status status = { .size = sizeof(status) };
	struct peerdma_notice notice = { .size = sizeof(notice) };
	const struct peerdma_range *ranges;
	struct peerdma_mapping *mapping;
	struct peerdma_region *region;
	struct peerdma *ctx;
	size_t count;
	int fd;

	if (argc != 4) {
		fprintf(stderr, "usage: import DEVICE FD COMMAND\n");
		return 2;
	}
	fd = atoi(argv[2]);
	if (peerdma_open(&ctx, 0) || peerdma_pin_dmabuf(ctx, fd, 0, 0, 0, NULL, &region))
		goto failed;
	/* The pin has what it needs. */
	close(fd);
	if (peerdma_map(region, argv[1], PEERDMA_TO_DEVICE | PEERDMA_FROM_DEVICE, &mapping) ||
	    peerdma_status(region, &status))
		goto failed;
	ranges = peerdma_ranges(mapping, &count);
	printf("%llu bytes of provider %s, from %#llx on for the device\n", (unsigned long long)status.pinned_length,
	       status.provider, (unsigned long long)ranges[0].addr);

	if (system(argv[3]))
		fprintf(stderr, "the command failed\n");
	printf("the pin is %s\n", peerdma_valid(region) ? "valid" : "revoked");
	if (!peerdma_next_event(ctx, &notice, 0))
		printf("revocation reported: of %s\n", notice.region == region ? "this pin" : "another pin");

	if (peerdma_unmap(mapping) || peerdma_unpin(region))
		goto failed;
	peerdma_close(ctx);
	return 0;
failed:
	fprintf(stderr, "%s\n", peerdma_last_error());
	return 1;
}
