// SPDX-License-Identifier: MIT
/*
 * nvp2p_rules - rules of nv-p2p.h that programs of CUDA cannot try, one case each, through
 * nvp2p_test.ko and softgpu's own calls: memory that is mapped by hand, pages that allocations
 * share, clients of a server, BAR1's last page. All others: tests/conformance.
 *
 *   nvp2p_rules [PART OF A CASE'S NAME]
 */
#include "nvp2p_rules.h"

/* ---- running ---- */

static void run_case(void *arg)
{
	const struct test_case *t = arg;
	struct gpu g = gpu_up(0);

	t->run(&g);
	T(.op = T_RESET);
	close(g.fd);
}

static void run_cases(const struct test_case *cases, const char *only, int info_fd,
		      const struct idle *idle)
{
	const struct test_case *t;

	for (t = cases; t->rule; t++) {
		int before = failures;

		if (only && !strstr(t->rule, only))
			continue;
		if (!in_child(run_case, (void *)t))
			check_at(__LINE__, false, t->rule, "did not end well");
		T(.op = T_RESET);
		check_idle(info_fd, idle, t->rule);
		printf("%s: %s\n", failures == before ? "ok" : "NOT OK", t->rule);
	}
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;
	struct idle idle;
	int info_fd;

	if (!t_open() || access("/dev/softgpu0", F_OK)) {
		printf("skip: load softgpu.ko, nvidia.ko and nvp2p_test.ko first\n");
		return EXIT_SKIP;
	}
	info_fd = sg_open(0);
	NEED(info_fd >= 0);
	idle = idle_now(info_fd);
	run_cases(pin_cases, only, info_fd, &idle);
	run_cases(callback_cases, only, info_fd, &idle);
	run_cases(sharing_cases, only, info_fd, &idle);
	if (peer_bdf(0))
		run_cases(dma_cases, only, info_fd, &idle);
	else
		printf("skip: no DMA card (1234:11e8): the cases of DMA mappings are left out\n");
	return test_end("nvp2p_rules");
}
