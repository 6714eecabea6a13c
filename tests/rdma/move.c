// SPDX-License-Identifier: MIT
/*
 * move.c - a dma-buf that its exporter moves, again and again, under requests at either end: each succeeds, and all bytes
 * are where they belong.  Then it is revoked, and they fail.
 *
 *	mover_fd LENGTH move ADAPTER SECONDS [MS]
 *
 * With MS each mapping takes as long, and the memory does not rest between two moves: it moves whenever it is not being mapped.
 */
#include <fcntl.h>
#include <pthread.h>

#include "memory.h"
#include "now.h"
#include "pair.h"

#define SIZE (1UL << 20)

static int control, stop, rests = 1;
static struct pair p;
static struct memory host;
static struct ibv_mr *host_mr, *subject_mr;
static unsigned char *bytes;	/* of the host's: one half is sent, the other is received */

static void order(const char *command)
{
	MUST(write(control, command, strlen(command)) == (ssize_t)strlen(command), "the buffer does not obey \"%s\"", command);
}

static void *keep_moving(void *moves)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		order("move");
		++*(int *)moves;
		if (rests)
			usleep((unsigned int)rand() % 40000);
	}
	return NULL;
}

static void must(enum ibv_wc_status status, const char *what)
{
	MUST(status == IBV_WC_SUCCESS, "%s: %s", what, ibv_wc_status_str(status));
}

/* The dma-buf's bytes are [0, SIZE); the memory's [0, SIZE) go out, [SIZE, 2 * SIZE) come in. */
static struct request out(enum ibv_wr_opcode opcode, size_t at, uint32_t length, int subject_is_local)
{
	struct request r = { .opcode = opcode, .length = length };
	int incoming = opcode == IBV_WR_RDMA_READ ? !subject_is_local : subject_is_local;
	uint64_t ours = host.addr + at + (incoming ? SIZE : 0);

	r.local = subject_is_local ? subject_mr : host_mr;
	r.local_addr = subject_is_local ? at : ours;
	r.remote_addr = subject_is_local ? ours : at;
	r.rkey = subject_is_local ? host_mr->rkey : subject_mr->rkey;
	return r;
}

/* In one way, and out in another: the same bytes. */
static void round_trip(int number)
{
	size_t at = (size_t)rand() % 4096;
	uint32_t length = (uint32_t)(SIZE - at - (size_t)rand() % 500000), i;
	struct request r;

	if (getenv("MOVE_LOG"))
		printf("round %d: %u bytes\n", number, length);
	for (i = 0; i < length; i++)
		bytes[at + i] = (unsigned char)rand();
	switch (number % 3) {
	case 0:
		r = out(IBV_WR_RDMA_WRITE, at, length, 0);
		must(pair_do(&p, &r), "write to it");
		break;
	case 1:
		r = out(IBV_WR_RDMA_READ, at, length, 1);
		must(pair_do(&p, &r), "read into it");
		break;
	default:
		pair_receive(&p, 1, subject_mr, at, length);
		r = (struct request){ .opcode = IBV_WR_SEND, .local = host_mr, .local_addr = host.addr + at, .length = length };
		must(pair_do(&p, &r), "send into it");
		must(pair_wait(&p, 1, NULL), "receive into it");
	}
	memset(bytes + SIZE + at, 0, length);
	r = out(number & 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, at, length, number & 1);
	must(pair_do(&p, &r), number & 1 ? "write from it" : "read from it");
	MUST(!memcmp(bytes + at, bytes + SIZE + at, length), "round %d: other bytes came back", number);
}

/* Each is done once. */
static void count(void)
{
	struct request r = out(IBV_WR_RDMA_WRITE, 0, 8, 0);
	uint64_t value = 0;
	int i;

	memcpy(bytes, &value, sizeof(value));
	must(pair_do(&p, &r), "write to it");
	r = out(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 0);
	r.local_addr = host.addr + SIZE;
	r.compare_add = 1;
	for (i = 0; i < 20; i++) {
		must(pair_do(&p, &r), "fetch and add");
		memcpy(&value, bytes + SIZE, sizeof(value));
		MUST(value == (uint64_t)i, "the %dth addition found %llu", i, (unsigned long long)value);
	}
}

int main(int argc, char **argv)
{
	const char *fd = getenv("MOVER_FD"), *name = getenv("MOVER_CONTROL");
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	int moves = 0, rounds = 0, i;
	char delay[32];
	struct request r;
	pthread_t thread;
	double end;

	MUST(argc >= 3 && argc <= 4 && fd && name, "usage: mover_fd LENGTH move ADAPTER SECONDS [MS]");
	control = open(name, O_RDWR);
	if (argc == 4) {
		snprintf(delay, sizeof(delay), "delay %s", argv[3]);
		order(delay);
		rests = 0;
	}
	memory_alloc(&host, MEMORY_HOST, 2 * SIZE);
	bytes = (unsigned char *)(uintptr_t)host.addr;
	pair_open(&p, argv[1], 1);
	host_mr = memory_register(&host, p.pd);
	subject_mr = ibv_reg_dmabuf_mr(p.pd, 0, SIZE, 0, atoi(fd), all);
	MUST(subject_mr, "the dma-buf cannot be registered");

	MUST(!pthread_create(&thread, NULL, keep_moving, &moves), "pthread_create");
	/* All three ways at least, however slow the kernel is. */
	for (end = now() + atof(argv[2]); now() < end || rounds < 3; rounds++) {
		/*
		 * Two mappings find no memory (ENOMEM).  This goes by requests: it would refuse all mappings if it went by moves, which
		 * can be more frequent.
		 */
		order("refuse map 2 12");
		round_trip(rounds);
		count();
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	order("refuse map 0 12");
	printf("%d round trips while it moved %d times\n", rounds, moves);

	order("revoke");
	r = out(IBV_WR_RDMA_WRITE, 0, 4096, 0);
	for (i = 0; i < 2; i++) {
		MUST(pair_do(&p, &r) == IBV_WC_REM_ACCESS_ERR, "revoked, and still written to");
		pair_connect(&p);
		r = out(IBV_WR_RDMA_READ, 0, 4096, 0);
	}
	r = out(IBV_WR_RDMA_WRITE, 0, 4096, 1);
	MUST(pair_do(&p, &r) != IBV_WC_SUCCESS, "revoked, and still sent from");
	MUST(!ibv_dereg_mr(subject_mr) && !ibv_dereg_mr(host_mr), "ibv_dereg_mr");
	pair_close(&p);
	return moves < 5;
}
