// SPDX-License-Identifier: MIT OR GPL-2.0
/* rdma.c - pins for AMD's clients, for both versions of the interface. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/device.h>
#include <linux/errno.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include "../charge.h"
#include "../delay.h"
#include "../peer.h"
#include "amd.h"

static bool callbacks = true;
module_param(callbacks, bool, 0644);
MODULE_PARM_DESC(callbacks, "Freed memory is revoked from its pins (default Y); N: pins keep it until put_pages, as with newer drivers");

static ulong told_page_size = PAGE_SIZE;
module_param_named(page_size, told_page_size, ulong, 0644);
MODULE_PARM_DESC(page_size, "Page size that get_page_size reports, to test clients with another one (default: the CPU's page)");

static bool short_table;
module_param(short_table, bool, 0644);
MODULE_PARM_DESC(short_table, "Tables lack their last segment, to try whether clients notice (default N)");

static bool any_memory;
module_param(any_memory, bool, 0644);
MODULE_PARM_DESC(any_memory, "Also claims the other vendor's memory, to test clients with an address that two drivers claim (default N)");

static unsigned int put_delay_ms;
module_param(put_delay_ms, uint, 0644);
MODULE_PARM_DESC(put_delay_ms, "Milliseconds that put_pages waits before it does anything, so that a free can overtake it (default 0)");

static struct amd_pin *pin_of(struct sg_pin *pin)
{
	return container_of(pin, struct amd_pin, pin);
}

/* The core's key of a client's struct, which may be any value. */
static const void *key_of(const struct amd_info *info)
{
	return (const void *)((uintptr_t)info - offsetof(struct amd_pin, info) +
			      offsetof(struct amd_pin, pin));
}

/* ---- whose memory ---- */

/* The process that a thread belongs to, with a reference; NULL: there is none. */
static struct pid *process_of(struct pid *pid)
{
	struct task_struct *task;
	struct pid *process = NULL;

	if (!pid)
		return get_pid(task_tgid(current));
	rcu_read_lock();
	task = pid_task(pid, PIDTYPE_PID);
	if (task)
		process = get_pid(task_tgid(task));
	rcu_read_unlock();
	return process;
}

/*
 * Checks that [start, end) lies in one allocation of AMD memory; allocations are rounded up
 * to whole pages.
 */
static int find(const struct pid *process, u64 start, u64 end)
{
	struct sg_found found;
	int err = sg_find(softgpu_core(), process, start, &found);

	if (err)
		return err;
	if (found.memory != SG_MEMORY_HSA && !READ_ONCE(any_memory))
		return -ENOENT;
	if (end > found.base + PAGE_ALIGN(found.length))
		return -ENOENT;
	return 0;
}

int amd_is_gpu_address(u64 address, struct pid *pid)
{
	struct pid *process = process_of(pid);
	int err;

	if (!process)
		return 0;
	err = find(process, address & PAGE_MASK, address);
	put_pid(process);
	return !err;
}

/* AMD's driver ignores the other arguments, too. */
int amd_get_page_size(u64 address, u64 length, struct pid *pid, unsigned long *size)
{
	*size = READ_ONCE(told_page_size);
	return 0;
}

/* ---- a pin's end ---- */

static void unmap(struct amd_pin *p)
{
	struct scatterlist *sg;
	u32 i;

	if (!p->dev)
		return;
	for_each_sg(p->table.sgl, sg, p->mapped, i)
		softgpu_peer_unmap(p->dev, sg_dma_address(sg), sg_dma_len(sg), DMA_BIDIRECTIONAL,
				   p->resource);
	p->mapped = 0;
	softgpu_peer_forget(p->dev);
}

static void destroy(struct amd_pin *p)
{
	sg_free_table(&p->table);
	put_device(p->dev);
	put_pid(p->info.pid);
	kvfree(p);
}

static void pin_callback(struct sg_pin *pin)
{
	struct amd_pin *p = pin_of(pin);

	wait_for_completion(&p->filled);
	if (p->callback)
		p->callback(p->data);
}

static void pin_unmap(struct sg_pin *pin)
{
	struct amd_pin *p = pin_of(pin);

	wait_for_completion(&p->filled);
	unmap(p);
}

static void pin_free(struct sg_pin *pin)
{
	destroy(pin_of(pin));
	module_put(THIS_MODULE);
}

static const struct sg_pin_ops pin_ops = {
	.callback = pin_callback,
	.unmap = pin_unmap,
	.free = pin_free,
};

/* ---- a pin's beginning ---- */

/*
 * Returns the length and physical address of the contiguous run of pinned pages that begins
 * at va, at most `most' bytes.
 */
static u64 run_at(const struct amd_pin *p, u64 va, u64 end, u64 most, u64 *phys)
{
	u64 at = va - p->pin.va, length = SG_PAGE_SIZE - at % SG_PAGE_SIZE;
	u32 page = at >> SG_PAGE_SHIFT;
	u64 base = sg_pin_page(&p->pin, page);

	*phys = base + at % SG_PAGE_SIZE;
	/* Adjacent blocks of system memory are so by chance, and are treated as separate. */
	while (p->resource && va + length < end && length < most &&
	       sg_pin_page(&p->pin, page + 1) == base + SG_PAGE_SIZE) {
		page++;
		base += SG_PAGE_SIZE;
		length += SG_PAGE_SIZE;
	}
	return min3(length, end - va, most);
}

static int map_segment(struct amd_pin *p, struct scatterlist *sg, u64 phys, u64 length)
{
	dma_addr_t addr = phys;

	if (p->dev) {
		if (phys + length - 1 > softgpu_last_address(p->dev)) {
			pr_err_ratelimited("%s cannot address GPU memory at %#llx\n", dev_name(p->dev), phys);
			return -EIO;
		}
		addr = softgpu_peer_map(p->dev, phys, length, DMA_BIDIRECTIONAL, p->resource);
		if (dma_mapping_error(p->dev, addr))
			return -EIO;
	}
	sg_set_page(sg, NULL, length, 0);
	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = length;
	p->mapped++;
	return 0;
}

/* Fills the table of [start, end), all of which is pinned. */
static int fill(struct amd_pin *p, u64 start, u64 end, u64 most)
{
	u64 va, phys, length;
	struct scatterlist *sg;
	u32 n = 0;
	int err;

	if (p->dev)
		most = max_t(u64, PAGE_SIZE, round_down(dma_get_max_seg_size(p->dev), PAGE_SIZE));
	for (va = start; va < end; va += run_at(p, va, end, most, &phys))
		n++;
	err = softgpu_sg_alloc(&p->table, n);
	if (err)
		return err;
	sg = p->table.sgl;
	for (va = start; va < end; va += length, sg = sg_next(sg)) {
		length = run_at(p, va, end, most, &phys);
		err = map_segment(p, sg, phys, length);
		if (err)
			return err;
	}
	if (READ_ONCE(short_table))
		p->table.nents--;
	return 0;
}

/* Undoes a pin of which the client must not learn. */
static void take_back(struct amd_pin *p)
{
	const void *key = &p->pin;
	bool persistent = p->pin.persistent;

	p->callback = NULL;
	complete_all(&p->filled);
	sg_pin_put(softgpu_core(), key, persistent);
}

static int pin_errno(int err)
{
	switch (err) {
	case -ENOSPC:		/* the BAR */
		return -ENOMEM;
	case -EINVAL:		/* it was freed since it was found */
	case -ENODEV:
		return -ENOENT;
	default:
		return err;
	}
}

static int get(const struct amd_request *r, struct pid *process, struct amd_info **info)
{
	u64 start = r->address & PAGE_MASK, end = PAGE_ALIGN(r->address + r->length);
	u64 first = round_down(start, SG_PAGE_SIZE), last = round_up(end, SG_PAGE_SIZE);
	const struct sg_pin_who who = {
		.proc_key = process, .memory = READ_ONCE(any_memory) ? 0 : SG_MEMORY_HSA,
	};
	struct amd_info *before = *info;
	struct amd_pin *p;
	int err;

	err = find(process, start, end);
	if (err)
		return err;
	p = softgpu_kvzalloc(sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->info.va = r->address;
	p->info.size = r->length;
	p->info.pid = get_pid(r->pid ?: process);
	p->info.pages = &p->table;
	p->info.priv = p;
	p->info.kfd_proc = process;	/* only compared, never dereferenced */
	p->dev = get_device(r->dev);
	p->callback = r->callback;
	p->data = r->data;
	init_completion(&p->filled);
	/* Each pin keeps the module loaded, whose code ends it. */
	__module_get(THIS_MODULE);
	/* Set before the pin exists: the callback may run at once, and may need it. */
	*info = &p->info;
	err = sg_pin_get(softgpu_core(), &p->pin, &pin_ops, &who, first, last - first,
			 !READ_ONCE(callbacks));
	if (err) {
		*info = before;
		destroy(p);
		module_put(THIS_MODULE);
		return pin_errno(err);
	}
	p->resource = softgpu_pin_backing(&p->pin)->pdev;
	err = fill(p, start, end, r->segment_max ?: U64_MAX);
	if (err) {
		*info = before;
		take_back(p);
		return err;
	}
	/* From here on another thread may end the pin, and free p. */
	complete_all(&p->filled);
	return 0;
}

int amd_get(const struct amd_request *r, struct amd_info **info)
{
	struct pid *process;
	int err;

	if (!r->length || r->address + r->length < r->address ||
	    r->address + r->length > round_down(U64_MAX, SG_PAGE_SIZE))
		return -EINVAL;
	process = process_of(r->pid);
	if (!process)
		return -ESRCH;
	err = get(r, process, info);
	put_pid(process);
	return err;
}

int amd_put(struct amd_info **info)
{
	int err;

	if (!info || !*info)
		return -EINVAL;
	softgpu_delay_ms(READ_ONCE(put_delay_ms));
	err = sg_pin_put(softgpu_core(), key_of(*info), false);
	if (err == -EINVAL)
		err = sg_pin_put(softgpu_core(), key_of(*info), true);
	if (!err) {
		*info = NULL;
		return 0;
	}
	if (err == -EDEADLK)
		pr_err_ratelimited("a client calls put_pages in the free callback of the same memory: ignored; the pin ends when the callback returns\n");
	else
		/* Not an error of the client if the callback came first. */
		pr_info_ratelimited("put_pages of memory that is not pinned, or no longer: ignored\n");
	return -EINVAL;
}
