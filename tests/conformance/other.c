// SPDX-License-Identifier: MIT
/* other.c - 1.10: the calls beside, and what of 1.4 shows there. */
#include "conform.h"

static int misc(uint64_t which)
{
	return T(.op = T_MISC, .value = which).ret;
}

static void stubs(void)
{
	returns("1.4", "bad argument: get_pages of address 0", -22, t_get(0, 0, KIB64).ret);
	returns("1.4", "not supported: init_mapping", -ENOTSUPP, misc(M_INIT_MAPPING));
	row(NA, "1.4", "GPU UUID unknown, the device is gone", "-ENODEV", "would need a GPU that is removed");
	returns("1.10", "init_mapping", -ENOTSUPP, misc(M_INIT_MAPPING));
	returns("1.10", "destroy_mapping", -ENOTSUPP, misc(M_DESTROY_MAPPING));
	returns("1.10", "free_page_table(NULL)", 0, T(.op = T_FREE_PAGE_TABLE, .flags = W_NULL_TABLE).ret);
	if (features & F_DMA)
		returns("1.10", "free_dma_mapping(NULL)", 0, T(.op = T_FREE_DMA_MAPPING, .flags = W_NULL_MAPPING).ret);
}

static void rsync_registers(void)
{
	returns("1.10", "get_rsync_registers", -19, misc(M_GET_RSYNC));
	returns("1.10", "put_rsync_registers(NULL) does nothing", 0, misc(M_PUT_RSYNC));
}

static void rsync(void)
{
	int first;

	returns("1.10", "register_rsync_driver: NULL", -22, misc(M_RSYNC_REGISTER_NULL));
	returns("1.10", "register_rsync_driver: another major version", -22, misc(M_RSYNC_REGISTER_VERSION));
	returns("1.10", "register_rsync_driver: no get_relaxed_ordering_mode", -22, misc(M_RSYNC_REGISTER_NO_GET));
	returns("1.10", "register_rsync_driver: no put_relaxed_ordering_mode", -22, misc(M_RSYNC_REGISTER_NO_PUT));
	returns("1.10", "register_rsync_driver: no wait_for_rsync", -22, misc(M_RSYNC_REGISTER_NO_WAIT));
	first = misc(M_RSYNC_REGISTER);
	judge(!first || first == -16, "1.10", "register_rsync_driver", "0; -EBUSY while a GPU is open", "%s", errname(first));
	returns("1.10", "register_rsync_driver again", -16, misc(M_RSYNC_REGISTER));
	returns("1.4", "state in use: register_rsync_driver again", -16, misc(M_RSYNC_REGISTER));
	if (!first)
		misc(M_RSYNC_UNREGISTER);
}

static void rsync_busy(void)
{
	int ret = misc(M_RSYNC_REGISTER);

	returns("1.10", "register_rsync_driver while a GPU is open", -16, ret);
	if (!ret)
		misc(M_RSYNC_UNREGISTER);
}

const struct group other_groups[] = {
	{ "1.10", "stubs", .run = stubs, .no_cuda = true },
	{ "1.10", "get_rsync_registers", .run = rsync_registers, .needs = F_RSYNC_REGISTERS, .no_cuda = true },
	{ "1.10", "register_rsync_driver", .run = rsync, .needs = F_RSYNC, .no_cuda = true },
	{ "1.10", "register_rsync_driver, GPU open", .run = rsync_busy, .needs = F_RSYNC },
	{ 0 }
};
