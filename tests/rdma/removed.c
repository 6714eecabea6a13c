// SPDX-License-Identifier: MIT
/*
 * removed.c - the memory of a GPU that is removed, or loses its driver, while it is registered: no request reaches it any
 * more, also when the GPU is back and has given it to another program.
 *
 *	removed ADAPTER dmabuf|export|peer COMMAND	run by the shell: it takes the GPU away and brings it back
 */
#include "memory.h"
#include "pair.h"

#define SIZE (4UL << 20)

int main(int argc, char **argv)
{
	struct request r = { .opcode = IBV_WR_RDMA_WRITE, .length = SIZE };
	struct memory host, gpu;
	enum ibv_wc_status status;
	struct pair p;

	MUST(argc == 4, "usage: removed ADAPTER dmabuf|export|peer COMMAND");
	memory_alloc(&host, MEMORY_HOST, SIZE);
	memory_alloc(&gpu, memory_kind(argv[2]), SIZE);
	memory_fill(&gpu, 0x11);
	pair_open(&p, argv[1], 0);
	r.local = memory_register(&host, p.pd);
	r.local_addr = host.addr;
	r.rkey = memory_register(&gpu, p.pd)->rkey;
	r.remote_addr = gpu.addr;
	status = pair_do(&p, &r);
	MUST(status == IBV_WC_SUCCESS, "a write: %s", ibv_wc_status_str(status));
	MUST(!system(argv[3]), "%s", argv[3]);
	status = pair_do(&p, &r);
	printf("%s: a write after the GPU was away: %s\n", argv[2], ibv_wc_status_str(status));
	/* What there is to free went with the GPU. */
	fflush(stdout);
	_exit(status != IBV_WC_REM_ACCESS_ERR);
}
