// SPDX-License-Identifier: MIT
/* softgpu_share_processes.c - four processes on one GPU, each pinning its own and the others' memory. */
#include <signal.h>
#include <sys/wait.h>
#include "nvp2p_test.h"
#include "softgpu_share.h"

#define PROCESSES	4

/* What each tells the others. */
struct told {
	uint64_t va, p2p_token;
	uint32_t va_space_token;
};

static struct shared {
	struct told told[PROCESSES];
	int arrived[4];		/* at each step */
	int failed;
} *all;

static void meet(int step)
{
	__atomic_add_fetch(&all->arrived[step], 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&all->arrived[step], __ATOMIC_SEQ_CST) < PROCESSES)
		usleep(1000);
}

static struct nvp2p_test_call pin(int fd, int slot, const struct told *what, uint64_t token, uint32_t space)
{
	struct nvp2p_test_call c = { .op = T_GET, .slot = slot, .va = what->va, .length = PAGE64,
				     .token = token, .va_space = space };

	NEED(!ioctl(fd, NVP2P_TEST_CALL, &c));
	return c;
}

static int unpin(int fd, int slot, uint64_t token)
{
	struct nvp2p_test_call c = { .op = T_PUT, .slot = slot, .token = token };

	NEED(!ioctl(fd, NVP2P_TEST_CALL, &c));
	return c.ret;
}

static uint32_t peek(int fd, int slot)
{
	uint32_t word = 0;
	struct nvp2p_test_call c = { .op = T_PEEK, .slot = slot, .data = PTR(&word), .length = 4 };

	NEED(!ioctl(fd, NVP2P_TEST_CALL, &c));
	return word;
}

/* The slots are the module's, so each process uses its own. */
static void one_of_four(int me)
{
	int fd = open("/dev/" NVP2P_TEST_DEVICE, O_RDWR), i, slot = me * 2;
	struct gpu g = gpu_up(0);
	struct told *mine = &all->told[me];
	struct softgpu_query q;
	uint32_t word = 0x1000 + me;
	uint64_t pad;

	NEED(fd >= 0);
	/* so that no two have the same address, which would be one's own to pin */
	NEED(!sg_alloc(g.fd, g.ctx, (me + 1) * 4 * PAGE64, &pad));
	mine->va = need_alloc(&g, 2 * PAGE64);
	put(&g, mine->va, &word, sizeof(word));
	NEED(!sg_free(g.fd, pad));
	NEED(!sg_query(g.fd, mine->va, &q));
	mine->p2p_token = q.p2p_token;
	mine->va_space_token = q.va_space_token;
	meet(0);

	EXPECT(pin(fd, slot, mine, 0, 0).ret, 0);
	for (i = 0; i < PROCESSES; i++) {
		const struct told *other = &all->told[i];

		if (i == me)
			continue;
		EXPECT(pin(fd, slot + 1, other, 0, 0).ret, -EINVAL);
		EXPECT(pin(fd, slot + 1, other, mine->p2p_token, mine->va_space_token).ret, -EINVAL);
		EXPECT(pin(fd, slot + 1, other, other->p2p_token, mine->va_space_token).ret, -EINVAL);
		EXPECT(pin(fd, slot + 1, other, other->p2p_token, other->va_space_token).ret, 0);
		CHECK(peek(fd, slot + 1) == (uint32_t)(0x1000 + i), "it is not process %d's memory", i);
		EXPECT(unpin(fd, slot + 1, other->p2p_token), 0);
	}
	meet(1);
	/* one goes without a word; the others' pins are theirs still */
	if (me == 2)
		raise(SIGKILL);
	while (__atomic_load_n(&all->arrived[2], __ATOMIC_SEQ_CST) == 0)
		usleep(1000);
	CHECK(peek(fd, slot) == word, "the pin is gone with another process");
	EXPECT(pin(fd, slot + 1, &all->told[2], all->told[2].p2p_token, all->told[2].va_space_token).ret,
	       -EINVAL);
	EXPECT(unpin(fd, slot, 0), 0);
	__atomic_add_fetch(&all->failed, failures, __ATOMIC_SEQ_CST);
	printf("process %d: %d checks, %d failures\n", me, checks, failures);
	fflush(stdout);
	_exit(failures != 0);
}

int several_at_once(void)
{
	int g = sg_open(0), status, i, ended = 0;
	struct idle idle = idle_now(g);
	pid_t pids[PROCESSES];

	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(all != MAP_FAILED);
	for (i = 0; i < PROCESSES; i++) {
		fflush(stdout);
		pids[i] = fork();
		NEED(pids[i] >= 0);
		if (!pids[i])
			one_of_four(i);
	}
	NEED(waitpid(pids[2], &status, 0) == pids[2]);
	CHECK(WIFSIGNALED(status), "process 2 was to be killed");
	__atomic_add_fetch(&all->arrived[2], 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < PROCESSES; i++) {
		if (i == 2)
			continue;
		NEED(waitpid(pids[i], &status, 0) == pids[i]);
		ended += WIFEXITED(status) && !WEXITSTATUS(status);
	}
	CHECK(ended == PROCESSES - 1 && !all->failed, "%d of them are content", ended);
	check_idle(g, &idle, "four processes");
	return test_end("four processes");
}
