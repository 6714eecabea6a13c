// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * chaos.c - makes tables and mappings, on demand, like those of another driver: clients
 * must check versions and page sizes, or they read nonsense.
 *
 * All settings can be changed while the module is loaded, and apply to later pins.  A table
 * is consistent: with another page size it has as many entries as there are such pages,
 * with their addresses.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/sizes.h>
#include <linux/sysfs.h>
#include "../delay.h"
#include "../fault.h"
#include "p2p.h"

static unsigned int table_version;
module_param(table_version, uint, 0644);
MODULE_PARM_DESC(table_version, "FAULT INJECTION, for tests: the version that page tables say they have (default 0: the right one)");

static unsigned int mapping_version;
module_param(mapping_version, uint, 0644);
MODULE_PARM_DESC(mapping_version, "FAULT INJECTION, for tests: the version that DMA mappings say they have (default 0: the right one)");

static unsigned int page_size = SG_PAGE_SIZE / SZ_1K;

static int page_size_set(const char *text, const struct kernel_param *param)
{
	unsigned int kib;
	int err = kstrtouint(text, 0, &kib);

	if (err)
		return err;
	if (kib != 4 && kib != 64 && kib != 128) {
		pr_notice("page_size=%u: must be 4, 64 or 128 (KiB)\n", kib);
		return -EINVAL;
	}
	return param_set_uint(text, param);
}

static const struct kernel_param_ops page_size_ops = {
	.set = page_size_set,
	.get = param_get_uint,
};
module_param_cb(page_size, &page_size_ops, &page_size, 0644);
MODULE_PARM_DESC(page_size, "FAULT INJECTION, for tests: the pages of tables and mappings in KiB: 4, 64 (default) or 128; 128 needs contiguous VRAM, or the pin fails");

static unsigned int put_delay_ms;
module_param(put_delay_ms, uint, 0644);
MODULE_PARM_DESC(put_delay_ms, "FAULT INJECTION, for tests: milliseconds that nvidia_p2p_put_pages waits before it does anything (default 0)");

static unsigned int pin_delay_us;
module_param(pin_delay_us, uint, 0644);
MODULE_PARM_DESC(pin_delay_us, "added time of get_pages, which takes up to milliseconds on real GPUs (default 0)");

/* ---- faults of releases of NVIDIA's driver ---- */

static struct softgpu_fault get_race = {
	.name = "get_race",
	.what = "the get_pages with this number from now on loses a race with a free: it fails with EINVAL, and *page_table points to a table that was freed",
	.max = INT_MAX,
	.countdown = true,
};

static struct softgpu_fault callback_twice = {
	.name = "callback_twice",
	.what = "each free callback is called a second time",
	.max = 1,
};

static struct softgpu_fault callback_late_ms = {
	.name = "callback_late_ms",
	.what = "free callbacks of a process that exits come this much later, when the memory may have another owner",
	.max = 60 * MSEC_PER_SEC,
};

static struct softgpu_fault unsupported = {
	.name = "unsupported",
	.what = "get_pages fails with ENOTSUPP (524), as under MIG and vGPU",
	.max = 1,
};

static int fault_set(const char *text, const struct kernel_param *param)
{
	u32 value;

	return kstrtou32(text, 0, &value) ?: softgpu_fault_set(param->arg, value);
}

static int fault_get(char *text, const struct kernel_param *param)
{
	return sysfs_emit(text, "%u\n", softgpu_fault_value(param->arg));
}

static const struct kernel_param_ops fault_ops = {
	.set = fault_set,
	.get = fault_get,
};

module_param_cb(get_race, &fault_ops, &get_race, 0644);
MODULE_PARM_DESC(get_race, "FAULT INJECTION, for tests: the nth get_pages from now on fails and leaves a table that was freed (default 0)");
module_param_cb(callback_twice, &fault_ops, &callback_twice, 0644);
MODULE_PARM_DESC(callback_twice, "FAULT INJECTION, for tests: free callbacks come twice (default 0)");
module_param_cb(callback_late_ms, &fault_ops, &callback_late_ms, 0644);
MODULE_PARM_DESC(callback_late_ms, "FAULT INJECTION, for tests: free callbacks of a process that exits come so many milliseconds after its memory is free (default 0)");
module_param_cb(unsupported, &fault_ops, &unsupported, 0644);
MODULE_PARM_DESC(unsupported, "FAULT INJECTION, for tests: get_pages fails with ENOTSUPP (default 0)");

bool nvp2p_get_races(void)
{
	return softgpu_fault_hits(&get_race);
}

bool nvp2p_calls_twice(void)
{
	return softgpu_fault_hits(&callback_twice);
}

u32 nvp2p_late_ms(void)
{
	return softgpu_fault_hits(&callback_late_ms);
}

bool nvp2p_is_unsupported(void)
{
	return softgpu_fault_hits(&unsupported);
}

/* ---- delays, and properties of tables and mappings ---- */

void nvp2p_pin_delay(void)
{
	u64 all, left, done;

	/* In pieces: a shorter time that is set meanwhile counts. */
	for (done = 0; (all = READ_ONCE(pin_delay_us)) > done; done += left) {
		left = min_t(u64, all - done, 100 * USEC_PER_MSEC);
		softgpu_delay_us(left);
	}
}

void nvp2p_put_delay(void)
{
	softgpu_delay_ms(READ_ONCE(put_delay_ms));
}

u32 nvp2p_table_version(void)
{
	return READ_ONCE(table_version) ?: NVIDIA_P2P_PAGE_TABLE_VERSION;
}

u32 nvp2p_mapping_version(void)
{
	return READ_ONCE(mapping_version) ?: NVIDIA_P2P_DMA_MAPPING_VERSION;
}

u32 nvp2p_page_shift(void)
{
	return ilog2(READ_ONCE(page_size) * SZ_1K);
}

u32 nvp2p_page_size_type(u32 shift)
{
	switch (shift) {
	case 12:
		return NVIDIA_P2P_PAGE_SIZE_4KB;
	case 17:
		return NVIDIA_P2P_PAGE_SIZE_128KB;
	default:
		return NVIDIA_P2P_PAGE_SIZE_64KB;
	}
}

bool nvp2p_pages_fit(u64 length, u32 shift)
{
	if (!(length & ((1ULL << shift) - 1)))
		return true;
	pr_notice_ratelimited("page_size=%lu: %#llx bytes are no multiple of it: not pinned\n",
			      (1UL << shift) / SZ_1K, length);
	return false;
}

static u64 address(const struct nvp2p_table *t, u64 offset)
{
	return sg_pin_page(&t->pin, offset >> SG_PAGE_SHIFT) + offset % SG_PAGE_SIZE;
}

bool nvp2p_fill_pages(struct nvp2p_table *t)
{
	u64 size = 1ULL << t->page_shift, part;
	u32 i;

	for (i = 0; i < t->table.entries; i++) {
		u64 offset = i * size, phys = address(t, offset);

		for (part = SG_PAGE_SIZE; part < size; part += SG_PAGE_SIZE) {
			if (address(t, offset + part) == phys + part)
				continue;
			pr_notice_ratelimited("page_size=%llu: VRAM at %#llx is not contiguous over so many bytes: not pinned\n",
					      size / SZ_1K, t->pin.va + offset);
			return false;
		}
		t->pages[i].physical_address = phys;
	}
	return true;
}
