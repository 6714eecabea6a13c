// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * debugfs.c - /sys/kernel/debug/peerdma: pins, users (processes) and accounts (resources
 * charged to each user) are tables, tab-separated; their first line names the columns, and
 * new columns come last. stats has counters.  In pins, id is what the kernel's log calls a
 * pin, and handle what the program that pinned calls it; pins of drivers have no handle, 0.
 */
#include <linux/debugfs.h>
#include <linux/device.h>
#include <linux/seq_file.h>

#include "debugfs.h"
#include "file.h"
#include "objects/map.h"

static struct dentry *dir;

static const char *const state_names[] = {
	[PIN_NEW] = "new",
	[PIN_LIVE] = "live",
	[PIN_REVOKING] = "revoking",
	[PIN_REVOKED] = "revoked",
	[PIN_ENDING] = "held",	/* unpinned, but a dma-buf importer still has the memory */
	[PIN_ENDED] = "ended",
};

static void show_flags(struct seq_file *s, u32 flags)
{
	seq_puts(s, flags & PEERDMA_PIN_HOST ? "host" : "device");
	if (flags & PEERDMA_PIN_PERSISTENT)
		seq_puts(s, ",persistent");
	if (flags & PEERDMA_PIN_READONLY)
		seq_puts(s, ",readonly");
}

/* The name of the thread that pinned. */
static void show_comm(struct seq_file *s, const struct peerdma_pin *pin)
{
	char comm[TASK_COMM_LEN];

	strscpy(comm, pin->comm, sizeof(comm));
	seq_escape(s, comm, "\t\n\\");
}

/* Runs of physical memory, as phys:length,phys:length */
static void show_segments(struct seq_file *s, struct peerdma_pin *pin)
{
	const char *separator = "";
	phys_addr_t phys;
	u64 at, n;

	for (at = 0; at < pin->pinned_length; at += n) {
		n = peerdma_pin_run(pin, at, pin->pinned_length - at, &phys);
		seq_printf(s, "%s%#llx:%#llx", separator, (u64)phys, n);
		separator = ",";
		if (seq_has_overflowed(s))
			return;
	}
}

/*
 * The devices that the pin is mapped for, as device:mappings,device:mappings; a device may
 * appear more than once. late: only importers that have not unmapped in time. pin->lock
 * held.
 */
static void show_devices(struct seq_file *s, struct peerdma_pin *pin, bool late)
{
	const char *separator = "";
	struct device *of = NULL;
	struct peerdma_object *object;
	u32 count = 0;

	list_for_each_entry(object, &pin->objects, node) {
		const struct peerdma_map *map = peerdma_map_of(object);

		if (!map || !map->live || (late && !map->late))
			continue;
		if (map->pub.dev == of) {
			count++;
			continue;
		}
		if (of)
			seq_printf(s, ":%u", count);
		seq_puts(s, separator);
		seq_escape(s, dev_name(map->pub.dev), ",\t\n\\");
		of = map->pub.dev;
		count = 1;
		separator = ",";
	}
	if (of)
		seq_printf(s, ":%u", count);
}

static void show_pin(struct seq_file *s, struct peerdma_pin *pin)
{
	u32 maps = 0, count[CHARGES] = { 0 };
	struct peerdma_object *object;
	phys_addr_t phys = 0;
	bool memory;

	mutex_lock(&pin->lock);
	if (pin->state == PIN_ENDED || pin->state == PIN_NEW)
		goto unlock;
	/* A pin of a dma-buf has no physical addresses. */
	memory = pin->provider->page &&
		 (pin->state == PIN_LIVE || (pin->state == PIN_ENDING && !pin->revoked));
	if (memory)
		peerdma_pin_run(pin, 0, 1, &phys);
	list_for_each_entry(object, &pin->objects, node) {
		maps += peerdma_map_of(object) && peerdma_map_of(object)->live;
		count[object->ops->charge]++;
	}
	seq_printf(s, "%u\t%d\t", pin->id, pin->tgid);
	show_comm(s, pin);
	seq_printf(s, "\t%s\t%s\t%s\t", pin->client,
		   pin->provider->name, state_names[pin->state]);
	show_flags(s, pin->flags);
	seq_printf(s, "\t%#llx\t%#llx\t%#llx\t%u\t%u\t%u\t%u\t%#llx\t%u\t", pin->addr,
		   pin->length, pin->pinned_length, pin->page_shift, maps,
		   count[CHARGE_VIEWS], count[CHARGE_EXPORTS], (u64)phys, pin->generation);
	if (memory)
		show_segments(s, pin);
	seq_putc(s, '\t');
	show_devices(s, pin, false);
	seq_putc(s, '\t');
	show_devices(s, pin, true);
	seq_printf(s, "\t%u\t%#llx\t%u\n", from_kuid(seq_user_ns(s), pin->account->uid),
		   pin->cookie, pin->handle);
unlock:
	mutex_unlock(&pin->lock);
}

/* *pos is the last id shown, so each pin is shown at most once even if pins come and go. */
static struct peerdma_pin *next_pin(loff_t *pos)
{
	struct peerdma_pin *pin = peerdma_pin_from(*pos + 1);

	*pos = pin ? pin->id : PEERDMA_MAX_PINS;
	return pin;
}

static void *pins_start(struct seq_file *s, loff_t *pos)
{
	struct peerdma_pin *pin;

	if (!*pos)
		return SEQ_START_TOKEN;
	if (*pos >= PEERDMA_MAX_PINS)
		return NULL;
	/* After a pause: the pin at *pos itself was not shown yet. */
	--*pos;
	pin = next_pin(pos);
	return pin;
}

static void *pins_next(struct seq_file *s, void *v, loff_t *pos)
{
	if (v != SEQ_START_TOKEN)
		peerdma_pin_put(v);
	return next_pin(pos);
}

static void pins_stop(struct seq_file *s, void *v)
{
	if (v && v != SEQ_START_TOKEN)
		peerdma_pin_put(v);
}

static int pins_show(struct seq_file *s, void *v)
{
	if (v == SEQ_START_TOKEN)
		seq_puts(s, "id\tpid\tcomm\tclient\tprovider\tstate\tflags\taddr\tlength\tpinned_length\tpage_shift\tmappings\tviews\texports\tfirst_phys\tgeneration\tsegments\tdevices\tlate\tuid\tcookie\thandle\n");
	else
		show_pin(s, v);
	return 0;
}

static const struct seq_operations pins_sops = {
	.start = pins_start,
	.next = pins_next,
	.stop = pins_stop,
	.show = pins_show,
};
DEFINE_SEQ_ATTRIBUTE(pins);

static int stats_show(struct seq_file *s, void *v)
{
	const struct peerdma_stats *st = &peerdma_stats;

	seq_printf(s, "live\t%llu\n", peerdma_pins_live());
	seq_printf(s, "pins\t%lld\n", atomic64_read(&st->pins));
	seq_printf(s, "unpins\t%lld\n", atomic64_read(&st->unpins));
	seq_printf(s, "maps\t%lld\n", atomic64_read(&st->maps));
	seq_printf(s, "unmaps\t%lld\n", atomic64_read(&st->unmaps));
	seq_printf(s, "exports\t%lld\n", atomic64_read(&st->exports));
	seq_printf(s, "late\t%lld\n", atomic64_read(&st->late));
	seq_printf(s, "revocations\t%lld\n", atomic64_read(&st->revocations));
	seq_printf(s, "faults\t%lld\n", atomic64_read(&st->faults));
	seq_printf(s, "flushes\t%lld\n", atomic64_read(&st->flushes));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

static int users_show(struct seq_file *s, void *v)
{
	peerdma_users_show(s);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(users);

static int accounts_show(struct seq_file *s, void *v)
{
	peerdma_accounts_show(s);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(accounts);

void peerdma_debugfs_init(void)
{
	dir = debugfs_create_dir("peerdma", NULL);
	debugfs_create_file("pins", 0400, dir, NULL, &pins_fops);
	debugfs_create_file("stats", 0400, dir, NULL, &stats_fops);
	debugfs_create_file("users", 0400, dir, NULL, &users_fops);
	debugfs_create_file("accounts", 0400, dir, NULL, &accounts_fops);
}

void peerdma_debugfs_exit(void)
{
	debugfs_remove_recursive(dir);
}
