// SPDX-License-Identifier: MIT
/*
 * revoke.c - memory is freed, and given to another, while the adapter reads and writes it.
 *
 *	revoke ADAPTER export|peer OPERATION ROUNDS
 *
 * OPERATION: write, read, atomic: the memory is the remote end's; write-from, read-into: the local end's.
 * A round posts eight requests of 1 MiB (or many atomics); meanwhile a second thread frees the memory, allocates as
 * much, which has the same place, and fills it.  Stale is a round in which a request reached the new memory.
 *
 * Exits with 1 when a round was stale, and with 2 when no round met the free while requests were running: then it shows
 * nothing.
 */
#include <pthread.h>

#include "memory.h"
#include "pair.h"

#define SIZE (8UL << 20)
#define PIECE (1UL << 20)
#define OLD 0xaa		/* in the memory before it is freed */
#define OURS 0x33		/* what requests write */
#define SECRET 0x55		/* in the memory that is another's */

static struct pair p;
static struct memory host, subject, other;
static struct ibv_mr *host_mr, *subject_mr;
static unsigned char seen[SIZE];
static enum memory_kind kind;
static unsigned int delay_us;
static int owner_writes;	/* of the new memory, before it is looked at */

static const struct operation {
	const char *name;
	enum ibv_wr_opcode opcode;
	int subject_is_local, writes_subject, requests;
} operations[] = {
	{ "write", IBV_WR_RDMA_WRITE, 0, 1, SIZE / PIECE },
	{ "read", IBV_WR_RDMA_READ, 0, 0, SIZE / PIECE },
	{ "atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 60 },
	{ "write-from", IBV_WR_RDMA_WRITE, 1, 0, SIZE / PIECE },
	{ "read-into", IBV_WR_RDMA_READ, 1, 1, SIZE / PIECE },
}, *op;

static void *free_and_take(void *unused)
{
	usleep(delay_us);
	memory_free(&subject);
	memory_alloc(&other, kind, SIZE);
	memory_fill(&other, SECRET);
	__atomic_store_n(&owner_writes, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void post(int number)
{
	size_t at = op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8UL * (size_t)number : PIECE * (size_t)number;
	struct request r = { .opcode = op->opcode, .length = op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : PIECE, .compare_add = 1 };

	r.local = op->subject_is_local ? subject_mr : host_mr;
	r.local_addr = (op->subject_is_local ? subject.addr : host.addr) + at;
	r.remote_addr = (op->subject_is_local ? host.addr : subject.addr) + at;
	r.rkey = op->subject_is_local ? host_mr->rkey : subject_mr->rkey;
	errno = pair_post(&p, 0, &r);
	MUST(!errno, "posting a request");
}

static size_t count(const struct memory *m, unsigned char byte)
{
	size_t i, n = 0;

	memory_read(m, 0, seen, SIZE);
	for (i = 0; i < SIZE; i++)
		n += seen[i] == byte;
	return n;
}

/* Did the requests change, or carry off, what is another's? */
static int is_stale(void)
{
	return op->writes_subject ? count(&other, SECRET) != SIZE : count(&host, SECRET) != 0;
}

/* How many requests failed: they met the free. */
static int round_of(int *stale)
{
	pthread_t thread;
	int i, failed = 0;

	memory_alloc(&subject, kind, SIZE);
	memory_fill(&subject, OLD);
	memory_fill(&host, OURS);
	owner_writes = 0;
	subject_mr = memory_register(&subject, p.pd);
	MUST(!pthread_create(&thread, NULL, free_and_take, NULL), "pthread_create");
	for (i = 0; i < op->requests; i++)
		post(i);
	for (i = 0; i < op->requests; i++)
		failed += pair_wait(&p, 0, NULL) != IBV_WC_SUCCESS;
	/* Until another program has the memory, and then some more: no request may come after the free. */
	while (!failed) {
		int last = __atomic_load_n(&owner_writes, __ATOMIC_ACQUIRE);

		post(0);
		failed = pair_wait(&p, 0, NULL) != IBV_WC_SUCCESS;
		if (last && !failed)
			break;
	}
	pthread_join(thread, NULL);
	/* What responders have not done yet they do now. */
	usleep(20000);
	*stale = is_stale();
	MUST(!ibv_dereg_mr(subject_mr), "ibv_dereg_mr");
	memory_release(&subject);
	pair_connect(&p);
	memory_free(&other);
	return failed;
}

int main(int argc, char **argv)
{
	int rounds, i, met = 0, all_stale = 0, stale;
	unsigned int o;

	MUST(argc == 5, "usage: revoke ADAPTER export|peer OPERATION ROUNDS");
	for (o = 0; o < sizeof(operations) / sizeof(*operations); o++)
		if (!strcmp(argv[3], operations[o].name))
			op = &operations[o];
	rounds = atoi(argv[4]);
	MUST(op && rounds >= 1, "which operation, how many rounds?");
	kind = memory_kind(argv[2]);
	memory_alloc(&host, MEMORY_HOST, SIZE);
	pair_open(&p, argv[1], 0);
	host_mr = memory_register(&host, p.pd);
	for (i = 0; i < rounds; i++) {
		delay_us = (unsigned int)rand() % 60000;
		met += round_of(&stale) > 0;
		all_stale += stale;
	}
	printf("%s, %s: %d rounds, %d met the free, %d stale\n", argv[2], op->name, rounds, met, all_stale);
	ibv_dereg_mr(host_mr);
	pair_close(&p);
	return all_stale ? 1 : met ? 0 : 2;
}
