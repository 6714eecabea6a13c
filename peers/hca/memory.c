// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * memory.c - memory of other devices, by its DMA addresses for the adapter's PCI function.
 *
 * A run is a part with consecutive DMA addresses, whose physical addresses were
 * consecutive, too, when it was made; it ends where a part of a BAR ends (bar.h).  The
 * kernel maps these addresses in advance, since an access must not sleep.  Each access translates its DMA addresses anew, page by page.  If an
 * address has no translation any more, or another one, that is an error, as it is on a bus
 * with an IOMMU.
 */
#include <linux/atomic.h>
#include <linux/device.h>
#include <linux/io.h>
#include <linux/iommu.h>
#include <linux/ioport.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <rdma/ib_verbs.h>

#include "access.h"
#include "bar.h"
#include "hca.h"

static bool ignore_stop;
module_param(ignore_stop, bool, 0600);
MODULE_PARM_DESC(ignore_stop, "FAULT INJECTION, for tests: revoked memory stays reachable");

struct hca_run {
	u64 at;			/* offset in the mapped memory */
	u64 length;
	dma_addr_t dma;
	phys_addr_t phys;	/* translation of dma when the run was made */
	struct hca_bar_part *part;	/* NULL: not in a BAR, or in a small one */
	void *kernel;		/* mapping of phys: in the part, or the run's own */
};

/*
 * A device that loses its driver may come back, and its BARs with other memory in them.  Its
 * driver takes the memory away from its importers, but static exporters, such as NVIDIA's,
 * have no way to notify them, and without an IOMMU that translates nothing else stops us.
 */
static DEFINE_MUTEX(all_lock);
static LIST_HEAD(all);			/* guarded by all_lock */
static atomic_t removals;

/* ---- translation ---- */

static const phys_addr_t no_translation = PHYS_ADDR_MAX;

static phys_addr_t translate(const struct hca_memory *memory, dma_addr_t dma)
{
	phys_addr_t phys;

	/* The function was bound to another driver, or removed. */
	if (iommu_get_domain_for_dev(memory->dev) != memory->domain)
		return no_translation;
	if (!memory->domain)
		return dma;
	phys = iommu_iova_to_phys(memory->domain, dma);
	/* The kernel returns 0 for no translation; no device memory is at that address. */
	return phys ?: no_translation;
}

/* ---- making runs; may sleep ---- */

static void free_runs(struct hca_run *runs, u32 nruns)
{
	u32 i;

	for (i = 0; i < nruns; i++) {
		if (runs[i].part)
			hca_bar_part_put(runs[i].part);
		else if (runs[i].kernel)
			memunmap(runs[i].kernel);
	}
	kvfree(runs);
}

static bool is_ram(const struct hca_run *run)
{
	return region_intersects(run->phys, run->length, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) == REGION_INTERSECTS;
}

/* Not -ENOMEM, with which callers try again: usually a driver has mapped it with several caching attributes. */
static int map_alone(struct hca_run *run, unsigned long flags)
{
	run->kernel = memremap(run->phys, run->length, flags);
	return run->kernel ? 0 : -EBUSY;
}

/* Maps device memory write-combined, as its drivers do. Host memory is mapped already: memremap() only returns its address. */
static int map_run(struct hca_run *run)
{
	struct hca_bar_part *part;

	if (is_ram(run))
		return map_alone(run, MEMREMAP_WB);
	part = hca_bar_part_get(run->phys);
	if (part == ERR_PTR(-ENOENT))
		return map_alone(run, MEMREMAP_WC);
	if (IS_ERR(part))
		return PTR_ERR(part);
	run->part = part;
	run->kernel = hca_bar_part_address(part, run->phys);
	return 0;
}

struct builder {
	const struct hca_memory *memory;
	struct hca_run *runs;	/* NULL: runs are only counted */
	u32 limit;		/* size of runs[] */
	u32 n;
	u64 from;		/* page of the region's first byte; no runs are made before it */
	u64 at;
	dma_addr_t next_dma;
	phys_addr_t next_phys;
};

static int add_page(struct builder *b, dma_addr_t dma, u64 length)
{
	phys_addr_t phys = translate(b->memory, dma);

	if (phys == no_translation) {
		ibdev_notice_ratelimited(b->memory->ibdev, "the IOMMU domain of %s has no translation of %pad: its exporter has not mapped it for this function\n",
					 dev_name(b->memory->dev), &dma);
		return -EFAULT;
	}
	if (!b->n || dma != b->next_dma || phys != b->next_phys || IS_ALIGNED(phys, HCA_BAR_PART)) {
		/* Translations have changed since the runs were counted. */
		if (b->runs && b->n == b->limit)
			return -EFAULT;
		if (b->runs)
			b->runs[b->n] = (struct hca_run){ .at = b->at, .dma = dma, .phys = phys };
		b->n++;
	}
	if (b->runs)
		b->runs[b->n - 1].length += length;
	b->at += length;
	b->next_dma = dma + length;
	b->next_phys = phys + length;
	return 0;
}

static int add_all(struct builder *b, const struct sg_table *sgt, u64 to)
{
	struct scatterlist *sg;
	int i;

	for_each_sgtable_dma_sg(sgt, sg, i) {
		dma_addr_t dma = sg_dma_address(sg), end = dma + sg_dma_len(sg);

		while (dma < end && b->at < to) {
			u64 length = min_t(u64, end - dma, PAGE_SIZE - offset_in_page(dma));
			int err;

			if (b->at + length <= b->from) {
				length = min_t(u64, end - dma, b->from - b->at);
				b->at += length;
				dma += length;
				continue;
			}
			err = add_page(b, dma, length);
			if (err)
				return err;
			dma += length;
			cond_resched();
		}
	}
	return b->at < to ? -EINVAL : 0;
}

static int make_runs(struct hca_memory *memory, const struct sg_table *sgt, u64 to, struct hca_run **runs, u32 *nruns)
{
	struct builder b = { .memory = memory, .from = round_down(memory->offset, PAGE_SIZE) };
	struct builder count = b;
	int err = add_all(&count, sgt, to);
	u32 i;

	if (err)
		return err;
	/* At a cgroup's limit this fails, and nothing is killed: the exporter's lock is held, and others wait for it. */
	b.runs = kvcalloc(count.n, sizeof(*b.runs), GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	if (!b.runs)
		return -ENOMEM;
	b.limit = count.n;
	err = add_all(&b, sgt, to);
	for (i = 0; !err && i < b.n; i++) {
		err = map_run(&b.runs[i]);
		cond_resched();
	}
	if (err) {
		free_runs(b.runs, count.n);
		return err;
	}
	*runs = b.runs;
	*nruns = b.n;
	return 0;
}

/* ---- the gate ---- */

int hca_memory_init(struct hca_memory *memory, struct ib_device *ibdev)
{
	struct device *dev = ibdev->dev.parent;

	if (!dev || !dev_is_pci(dev)) {
		ibdev_notice_ratelimited(ibdev, "is not a PCI function: it reaches host memory only\n");
		return -EOPNOTSUPP;
	}
	memory->ibdev = ibdev;
	memory->dev = get_device(dev);
	memory->domain = iommu_get_domain_for_dev(dev);
	rwlock_init(&memory->gate);
	memory->state = HCA_MOVED;
	mutex_lock(&all_lock);
	list_add(&memory->node, &all);
	mutex_unlock(&all_lock);
	return 0;
}

int hca_removals(void)
{
	return atomic_read(&removals);
}

/* False: a device has lost its driver since `seen`; hca_device_gone() may have come too early to find these runs. */
static bool replace(struct hca_memory *memory, struct hca_run *runs, u32 nruns, int seen)
{
	struct hca_run *old_runs;
	u32 old_nruns;
	bool valid;

	write_lock_bh(&memory->gate);
	old_runs = memory->runs;
	old_nruns = memory->nruns;
	memory->runs = runs;
	memory->nruns = nruns;
	WRITE_ONCE(memory->first_access, 0);
	valid = hca_removals() == seen;
	if (memory->state != HCA_GONE)
		memory->state = runs && valid ? HCA_OPEN : HCA_MOVED;
	write_unlock_bh(&memory->gate);
	free_runs(old_runs, old_nruns);
	return valid;
}

int hca_open(struct hca_memory *memory, const struct sg_table *sgt, u64 length, int seen)
{
	struct hca_run *runs;
	u32 nruns;
	int err = make_runs(memory, sgt, memory->offset + length, &runs, &nruns);

	if (err)
		return err;
	return replace(memory, runs, nruns, seen) ? 0 : -ENOMEM;
}

void hca_close(struct hca_memory *memory, enum hca_state state)
{
	if (ignore_stop)
		return;
	write_lock_bh(&memory->gate);
	if (memory->state != HCA_GONE)
		memory->state = state;
	write_unlock_bh(&memory->gate);
}

static bool reaches(struct hca_memory *memory, const struct pci_dev *pdev)
{
	bool found = memory->dev == &pdev->dev;
	u32 i;

	read_lock_bh(&memory->gate);
	for (i = 0; i < memory->nruns && !found; i++)
		found = hca_in_bar_of(pdev, memory->runs[i].phys, 1);
	read_unlock_bh(&memory->gate);
	return found;
}

void hca_device_gone(struct pci_dev *pdev)
{
	struct hca_memory *memory;

	atomic_inc(&removals);
	mutex_lock(&all_lock);
	list_for_each_entry(memory, &all, node)
		if (reaches(memory, pdev))
			hca_close(memory, HCA_GONE);
	mutex_unlock(&all_lock);
}

void hca_memory_end(struct hca_memory *memory)
{
	mutex_lock(&all_lock);
	list_del(&memory->node);
	mutex_unlock(&all_lock);
	hca_close(memory, HCA_GONE);
	replace(memory, NULL, 0, hca_removals());
	put_device(memory->dev);
}

/* ---- an access; any context, memory->gate held ---- */

static const struct hca_run *find_run(const struct hca_memory *memory, u64 at)
{
	u32 low = 0, high = memory->nruns;

	while (high - low > 1) {
		u32 middle = low + (high - low) / 2;

		if (memory->runs[middle].at <= at)
			low = middle;
		else
			high = middle;
	}
	return &memory->runs[low];
}

/*
 * Returns the kernel's address of the byte at this offset; reduces *length to the bytes up
 * to the end of the page or of the run.  NULL: no valid translation.
 */
static void *reach(struct hca_memory *memory, u64 at, size_t *length, bool write)
{
	const struct hca_run *run = find_run(memory, at);
	u64 in = at - run->at;
	dma_addr_t dma = run->dma + in;
	phys_addr_t phys;

	if (in >= run->length)
		return NULL;
	phys = translate(memory, dma);
	if (phys != run->phys + in) {
		ibdev_warn_ratelimited(memory->ibdev, "DMA %s fault at %pad: %s in the IOMMU domain of %s\n",
				       write ? "write" : "read", &dma,
				       phys == no_translation ? "no translation" : "translated elsewhere since it was mapped",
				       dev_name(memory->dev));
		return NULL;
	}
	*length = min3((u64)*length, run->length - in, (u64)(PAGE_SIZE - offset_in_page(dma)));
	return run->kernel + in;
}

static int copy(struct hca_memory *memory, u64 at, void *buffer, size_t length, bool to_memory)
{
	int err = 0;

	while (length) {
		size_t piece = length;
		void *there = reach(memory, at, &piece, to_memory);

		if (!there) {
			err = -EFAULT;
			break;
		}
		if (to_memory)
			memcpy(there, buffer, piece);
		else
			memcpy(buffer, there, piece);
		at += piece;
		buffer += piece;
		length -= piece;
	}
	/* Also what was written before a fault. */
	if (to_memory)
		wmb();	/* flushes write-combined data before the acknowledgement, and before the gate is left */
	return err;
}

/* Our atomic operations exclude each other only, as do rxe's. */
static DEFINE_SPINLOCK(atomics);

static int modify(struct hca_memory *memory, u64 at, struct hca_modify *op)
{
	size_t length = sizeof(u64);
	u64 *there;

	if (at & (sizeof(u64) - 1))
		return -EINVAL;
	there = reach(memory, at, &length, true);
	if (!there)
		return -EFAULT;
	/* An exporter's pieces may end anywhere. */
	if (length < sizeof(u64))
		return -EINVAL;
	spin_lock_bh(&atomics);
	op->original = READ_ONCE(*there);
	if (op->kind == HCA_STORE)
		WRITE_ONCE(*there, op->operand);
	else if (op->kind == HCA_ADD)
		WRITE_ONCE(*there, op->original + op->operand);
	else if (op->original == op->compare)
		WRITE_ONCE(*there, op->operand);
	mb();	/* the next operation may read it by another mapping */
	spin_unlock_bh(&atomics);
	return 0;
}

/* The gate's state as an errno. */
static int closed(const struct hca_memory *memory)
{
	switch (memory->state) {
	case HCA_OPEN:
		return 0;
	case HCA_MOVED:
		return -EAGAIN;
	default:
		return -EFAULT;
	}
}

static void accessed(struct hca_memory *memory)
{
	if (unlikely(!READ_ONCE(memory->first_access)))
		WRITE_ONCE(memory->first_access, jiffies ?: 1);
}

int hca_access(struct hca_memory *memory, u64 at, void *buffer, size_t length, bool to_memory)
{
	int err;

	read_lock_bh(&memory->gate);
	err = closed(memory) ?: copy(memory, memory->offset + at, buffer, length, to_memory);
	if (!err)
		accessed(memory);
	read_unlock_bh(&memory->gate);
	if (err == -EAGAIN)
		memory->want(memory);
	return err;
}

int hca_modify(struct hca_memory *memory, u64 at, struct hca_modify *op)
{
	int err;

	read_lock_bh(&memory->gate);
	err = closed(memory) ?: modify(memory, memory->offset + at, op);
	if (!err)
		accessed(memory);
	read_unlock_bh(&memory->gate);
	if (err == -EAGAIN)
		memory->want(memory);
	return err;
}
