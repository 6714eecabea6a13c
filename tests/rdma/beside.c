// SPDX-License-Identifier: MIT
/*
 * beside.c - while one user's registration waits for a page that is never answered, another user opens the adapter,
 * registers host memory and the GPU's, and transfers.
 *
 *	beside ADAPTER
 */
#include <sys/mman.h>
#include <sys/prctl.h>

#include "memory.h"
#include "pair.h"
#include "unanswered.h"

#define ATTACKER 4731
#define VICTIM 4732
#define SIZE 65536UL
#define ROUNDS 10

static const char *adapter;
static struct pair p;

static void become(uid_t uid)
{
	MUST(!setgid(uid) && !setuid(uid) && !prctl(PR_SET_PDEATHSIG, SIGKILL), "user %u", uid);
}

/* ---- who waits ---- */

static struct shared {
	volatile uint32_t *reads;
	pid_t server;
} *shared;

static void registers_unanswered(void)
{
	struct unanswered page;
	int err;

	become(ATTACKER);
	err = unanswered_begin(&page, SIZE, shared->reads);
	MUST(!err, "a page that is never answered: %s", strerror(-err));
	shared->server = page.server;
	pair_open(&p, adapter, 0);
	ibv_reg_mr(p.pd, page.memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	die("the registration has ended: %s", strerror(errno));
}

/* ---- and who does not ---- */

static void written(struct memory *from, struct memory *to)
{
	struct ibv_mr *from_mr = memory_register(from, p.pd), *to_mr = memory_register(to, p.pd);
	unsigned char seen[SIZE];
	struct request r = { .opcode = IBV_WR_RDMA_WRITE, .local = from_mr, .local_addr = from->addr, .length = SIZE,
			     .remote_addr = to->addr, .rkey = to_mr->rkey };

	memory_fill(from, 0x77);
	memory_fill(to, 0x11);
	MUST(pair_do(&p, &r) == IBV_WC_SUCCESS, "a write");
	memory_read(to, 0, seen, SIZE);
	MUST(seen[0] == 0x77 && !memcmp(seen, seen + 1, SIZE - 1), "the bytes that were written");
	MUST(!ibv_dereg_mr(from_mr) && !ibv_dereg_mr(to_mr), "ibv_dereg_mr");
}

static void works(void)
{
	struct memory host, gpu;
	int i;

	become(VICTIM);
	memory_alloc(&host, MEMORY_HOST, SIZE);
	memory_alloc(&gpu, MEMORY_PEER, SIZE);
	for (i = 0; i < ROUNDS; i++) {
		pair_open(&p, adapter, 0);
		written(&host, &gpu);
		written(&gpu, &host);
		pair_close(&p);
	}
	memory_free(&gpu);
	memory_free(&host);
	_exit(0);
}

static pid_t start(void (*run)(void))
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	MUST(pid >= 0, "fork");
	if (!pid)
		run();
	return pid;
}

int main(int argc, char **argv)
{
	pid_t attacker, victim;
	int status;

	MUST(argc == 2, "usage: beside ADAPTER");
	adapter = argv[1];
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(shared != MAP_FAILED, "shared memory");
	shared->reads = unanswered_counter();
	attacker = start(registers_unanswered);
	while (shared->reads && !*shared->reads && !waitpid(attacker, NULL, WNOHANG))
		usleep(1000);
	victim = start(works);
	CHECK(waitpid(victim, &status, 0) == victim && !status, "another user registers and transfers");
	CHECK(!waitpid(attacker, &status, WNOHANG), "while the page is waited for");
	kill(attacker, SIGKILL);
	if (shared->server > 0)
		kill(shared->server, SIGKILL);
	CHECK(waitpid(attacker, &status, 0) == attacker && WIFSIGNALED(status), "and all of them die");
	return check_end(NULL);
}
