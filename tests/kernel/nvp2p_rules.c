// SPDX-License-Identifier: MIT
/*
 * nvp2p_rules - rules of nv-p2p.h that programs of CUDA cannot try, one case each, through
 * nvp2p_test.ko and softgpu's own calls: memory that is mapped by hand, pages that allocations
 * share, clients of a server, BAR1's last page. All others: tests/conformance.
 *
 *   nvp2p_rules [PART OF A CASE'S NAME]
 */
#include "nvp2p_rules.h"

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;

	if (!t_open() || access("/dev/softgpu0", F_OK))
		check_skip("load softgpu.ko, nvidia.ko and nvp2p_test.ko first");
	run_cases(pin_cases, only);
	run_cases(callback_cases, only);
	run_cases(sharing_cases, only);
	if (card_bdf(0))
		run_cases(dma_cases, only);
	else
		printf("skip: no DMA card (1234:11e8): the cases of DMA mappings are left out\n");
	return check_end("nvp2p_rules");
}
