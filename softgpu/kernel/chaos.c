// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * chaos.c - /sys/kernel/debug/softgpu/chaos/: failures and revocations on demand,
 * for all GPUs.  One number per file; 0 is off.
 *
 *   fail_pin fail_map fail_alloc   the nth operation from now fails; counts down to 0
 *   callback_delay_ms              before each free callback
 *   bar1_limit                     every aperture is at most so many bytes
 *   revoke_every                   about every so many pins, a random one is revoked
 *   seed                           of that choice
 *   strict                         asynchronous device work is held back
 *   device_pointers                host memory has device pointers that differ from host pointers
 *   dmabuf_raw, dmabuf_whole       faults of a driver's exports: export.c
 *
 * The Tegra personality, which pins host memory, obeys fail_pin, fail_map,
 * callback_delay_ms (its callback comes on put_pages, too), revoke_every and seed.
 *
 *   revoke   write a serial of N/pins: that pin is revoked, its memory stays
 *   rules    the ordering rules that strict mode saw broken, with counts
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include "fault.h"
#include "softgpu.h"

/* Makes reading all settings, changing one and writing all back one step. */
static DEFINE_MUTEX(chaos_lock);

static int knob_get(void *data, u64 *value)
{
	struct sg_chaos c;

	sg_chaos_get(softgpu_sg, &c);
	*value = sg_chaos_value(&c, (uintptr_t)data);
	return 0;
}

static int knob_set(void *data, u64 value)
{
	u32 knob = (uintptr_t)data;
	struct sg_chaos c;

	if (value > sg_chaos_knob(knob)->max)
		return -ERANGE;
	mutex_lock(&chaos_lock);
	sg_chaos_get(softgpu_sg, &c);
	sg_chaos_change(&c, knob, value);
	sg_chaos_set(softgpu_sg, &c);
	mutex_unlock(&chaos_lock);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(knob_fops, knob_get, knob_set, "%llu\n");

static int fault_get(void *data, u64 *value)
{
	*value = softgpu_fault_value(data);
	return 0;
}

static int fault_set(void *data, u64 value)
{
	return softgpu_fault_set(data, value);
}
DEFINE_DEBUGFS_ATTRIBUTE(fault_fops, fault_get, fault_set, "%llu\n");

static int revoke_set(void *data, u64 serial)
{
	return sg_pin_revoke(softgpu_sg, serial);
}
DEFINE_DEBUGFS_ATTRIBUTE(revoke_fops, NULL, revoke_set, "%llu\n");

static int rules_show(struct seq_file *m, void *unused)
{
	enum sg_rule rule;

	seq_puts(m, "broken\trule\n");
	for (rule = 0; rule < SG_RULES; rule++)
		seq_printf(m, "%llu\t%s\n", sg_rule_broken(softgpu_sg, rule), sg_rule_text(rule));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(rules);

static struct softgpu_fault *const faults[] = { &softgpu_dmabuf_raw, &softgpu_dmabuf_whole };

void softgpu_chaos_init(struct dentry *root)
{
	struct dentry *dir = debugfs_create_dir("chaos", root);
	const struct sg_chaos_knob *knob;
	uintptr_t i;

	for (i = 0; (knob = sg_chaos_knob(i)); i++)
		debugfs_create_file_unsafe(knob->name, 0600, dir, (void *)i, &knob_fops);
	for (i = 0; i < ARRAY_SIZE(faults); i++)
		debugfs_create_file_unsafe(faults[i]->name, 0600, dir, faults[i], &fault_fops);
	debugfs_create_file_unsafe("revoke", 0200, dir, NULL, &revoke_fops);
	debugfs_create_file("rules", 0444, dir, NULL, &rules_fops);
}
