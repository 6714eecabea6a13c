// SPDX-License-Identifier: MIT
/*
 * objects.c - as many completion queues as this process may have, up to a number.
 *
 *   rdma_objects DEVICE MOST
 *
 * Says how many it has with its protection domain, and the errno of the first that it did not get.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++) {
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return ibv_open_device(list[i]);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int most = argc == 3 ? atoi(argv[2]) : 0, n;
	struct ibv_context *ctx = most ? open_device(argv[1]) : NULL;

	if (!ctx || !ibv_alloc_pd(ctx)) {
		fprintf(stderr, "usage: rdma_objects DEVICE MOST; there is no such device, or no protection domain: %s\n", strerror(errno));
		return 2;
	}
	for (n = 1; n < most && ibv_create_cq(ctx, 1, NULL, NULL, 0); n++)
		;
	printf("%d %s\n", n, n == most ? "all" : strerrorname_np(errno));
	return 0;
}
