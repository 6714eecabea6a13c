// SPDX-License-Identifier: MIT
/*
 * files.c - reads a file in pieces that are under way at the same time, by a queue.
 *
 *	cc files.c $(pkg-config --cflags --libs libpeerdma)
 */
#include <fcntl.h>
#include <peerdma_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PIECES	16
#define PIECE	65536

int main(int argc, char **argv)
{
	char *memory = malloc(PIECES * PIECE);	/* or a pointer from cuMemAlloc() */
	int fd = open(argc > 1 ? argv[1] : "/proc/self/exe", O_RDONLY), n;
	struct peerdma_file_io io[PIECES], *ios[PIECES], *done[PIECES];
	struct peerdma_file_counters c = { .size = sizeof(c) };
	struct peerdma_file_queue *queue;
	struct peerdma_cache *cache;
	struct peerdma_file *file;
	struct peerdma *ctx;

	if (!memory || peerdma_open(&ctx, 0) || peerdma_cache_open(ctx, NULL, &cache) ||
	    peerdma_file_open(cache, fd, 0, &file) || peerdma_file_queue_open(PIECES, 0, &queue))
		goto failed;
	printf("transfers of the disk go by %s\n", queue->why ? queue->why : "io_uring");
	for (int i = 0; i < PIECES; i++) {
		io[i] = (struct peerdma_file_io){ .size = sizeof(io[i]), .file = file, .ptr = memory + i * PIECE,
						  .length = PIECE, .offset = (uint64_t)i * PIECE };
		ios[i] = &io[i];
	}
	if (peerdma_file_submit(queue, ios, PIECES))
		goto failed;
	/* Other work may be done here; queue->fd is readable when something has ended. */
	n = peerdma_file_wait(queue, done, PIECES, PIECES, -1);
	for (int i = 0; i < n; i++) {
		if (done[i]->result < 0)
			printf("offset %llu: error %lld\n", (unsigned long long)done[i]->offset, (long long)done[i]->result);
	}
	if (n != PIECES || peerdma_file_counters(file, &c))
		goto failed;
	printf("%llu bytes directly, %llu copied, %llu to host memory\n", (unsigned long long)c.direct,
	       (unsigned long long)c.copied, (unsigned long long)c.host);
	peerdma_file_queue_close(queue);
	peerdma_file_close(file);
	peerdma_cache_close(cache);
	peerdma_close(ctx);
	free(memory);
	return c.host ? 0 : 1;
failed:
	fprintf(stderr, "%s\n", peerdma_last_error());
	return 1;
}
