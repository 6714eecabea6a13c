// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * chaos.c - /sys/kernel/debug/softgpu/chaos/: failures and revocations on demand,
 * for all GPUs.  One number per file; 0 is off.
 *
 *   fail_pin fail_map fail_alloc   the nth from now fails; counts down to 0
 *   callback_delay_ms              before each free callback
 *   bar1_limit                     every aperture is at most so many bytes
 *   revoke_every                   about every so many pins, a random one is revoked
 *   seed                           of that choice
 *   strict                         asynchronous device work is held back
 *
 *   revoke   write a serial of N/pins: that pin is revoked, its memory stays
 *   rules    the ordering rules that strict mode saw broken, with counts
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include "softgpu.h"

/* Reading all, changing one and writing all back is one step. */
static DEFINE_MUTEX(chaos_lock);

enum knob {
	FAIL_PIN, FAIL_MAP, FAIL_ALLOC, CALLBACK_DELAY_MS, BAR1_LIMIT, REVOKE_EVERY, SEED, STRICT,
	KNOBS
};

static const struct {
	const char *name;
	u64 max;
} knobs[KNOBS] = {
	[FAIL_PIN] = { "fail_pin", U32_MAX },
	[FAIL_MAP] = { "fail_map", U32_MAX },
	[FAIL_ALLOC] = { "fail_alloc", U32_MAX },
	[CALLBACK_DELAY_MS] = { "callback_delay_ms", 60 * 1000 },
	[BAR1_LIMIT] = { "bar1_limit", U64_MAX },
	[REVOKE_EVERY] = { "revoke_every", U32_MAX },
	[SEED] = { "seed", U64_MAX },
	[STRICT] = { "strict", 1 },
};

static u64 knob_value(const struct sg_chaos *c, enum knob knob)
{
	switch (knob) {
	case FAIL_PIN:
		return c->fail_pin;
	case FAIL_MAP:
		return c->fail_map;
	case FAIL_ALLOC:
		return c->fail_alloc;
	case CALLBACK_DELAY_MS:
		return c->callback_delay_ms;
	case BAR1_LIMIT:
		return c->bar1_limit;
	case REVOKE_EVERY:
		return c->revoke_every;
	case SEED:
		return c->seed;
	default:
		return c->strict;
	}
}

static void knob_change(struct sg_chaos *c, enum knob knob, u64 value)
{
	switch (knob) {
	case FAIL_PIN:
		c->fail_pin = value;
		break;
	case FAIL_MAP:
		c->fail_map = value;
		break;
	case FAIL_ALLOC:
		c->fail_alloc = value;
		break;
	case CALLBACK_DELAY_MS:
		c->callback_delay_ms = value;
		break;
	case BAR1_LIMIT:
		c->bar1_limit = value;
		break;
	case REVOKE_EVERY:
		c->revoke_every = value;
		break;
	case SEED:
		c->seed = value;
		break;
	default:
		c->strict = value;
		break;
	}
}

static int knob_get(void *data, u64 *value)
{
	struct sg_chaos c;

	sg_chaos_get(softgpu_sg, &c);
	*value = knob_value(&c, (uintptr_t)data);
	return 0;
}

static int knob_set(void *data, u64 value)
{
	enum knob knob = (uintptr_t)data;
	struct sg_chaos c;

	if (value > knobs[knob].max)
		return -ERANGE;
	mutex_lock(&chaos_lock);
	sg_chaos_get(softgpu_sg, &c);
	knob_change(&c, knob, value);
	sg_chaos_set(softgpu_sg, &c);
	mutex_unlock(&chaos_lock);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(knob_fops, knob_get, knob_set, "%llu\n");

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

void softgpu_chaos_init(struct dentry *root)
{
	struct dentry *dir = debugfs_create_dir("chaos", root);
	uintptr_t i;

	for (i = 0; i < KNOBS; i++)
		debugfs_create_file_unsafe(knobs[i].name, 0600, dir, (void *)i, &knob_fops);
	debugfs_create_file_unsafe("revoke", 0200, dir, NULL, &revoke_fops);
	debugfs_create_file("rules", 0444, dir, NULL, &rules_fops);
}
