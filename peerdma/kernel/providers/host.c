// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * host.c - the provider of host memory.
 *
 * Pages are pinned for the long term, charged to the user (account.h) and counted in VmPin
 * of /proc/PID/status of the process that owns them.  Host memory is never revoked: a
 * pinned page stays in place, even if the mapping that it was found through is removed.
 * Only the pin's generation shows that (host_notifier.h).
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "core/charge.h"
#include "core/compat.h"
#include "core/host_notifier.h"
#include "core/pin.h"
#include "host.h"

struct host_pin {
	struct peerdma_locked locked;
	struct peerdma_host_notifier notifier;
	u32 npages;
	u32 nruns;
	struct peerdma_run *runs;
};

#define SMALL_PIN 16		/* up to so many pages, the array is on the stack */

/* 0, or an error and no page is pinned. */
static long pin_all(u64 start, u32 npages, unsigned int gup_flags, struct page **pages)
{
	u32 done = 0;
	int n;

	while (done < npages) {
		n = fatal_signal_pending(current) ? -EINTR :
			pin_user_pages_fast(start + ((u64)done << PAGE_SHIFT),
					    min_t(u32, npages - done, 1U << 18), gup_flags,
					    pages + done);
		if (n <= 0) {
			unpin_user_pages(pages, done);
			return n == -ENOMEM || n == -EINTR ? n : -EFAULT;
		}
		done += n;
		cond_resched();
	}
	return 0;
}

static long pin_readonly(u64 start, u32 npages, struct page **pages)
{
	unsigned int gup_flags;
	u32 done = 0, part;
	long err;

	while (done < npages) {
		u64 at = start + ((u64)done << PAGE_SHIFT);

		part = peerdma_readonly_part(at, (u64)(npages - done) << PAGE_SHIFT, &gup_flags) >>
		       PAGE_SHIFT;
		err = part ? pin_all(at, part, gup_flags, pages + done) : -EFAULT;
		if (err) {
			unpin_user_pages(pages, done);
			return err;
		}
		done += part;
	}
	return 0;
}

static int make_runs(struct host_pin *host, struct page **pages)
{
	u32 i, n = 1;

	for (i = 1; i < host->npages; i++)
		n += page_to_pfn(pages[i]) != page_to_pfn(pages[i - 1]) + 1;
	host->runs = peerdma_kvarray(n, sizeof(*host->runs), false);
	if (!host->runs)
		return -ENOMEM;
	for (i = 0; i < host->npages; i++) {
		unsigned long pfn = page_to_pfn(pages[i]);

		if (i && pfn == page_to_pfn(pages[i - 1]) + 1)
			continue;
		host->runs[host->nruns].phys = PFN_PHYS(pfn);
		host->runs[host->nruns++].first = i;
	}
	return 0;
}

/* Pins the pages and records their addresses as runs. */
static int find_pages(struct peerdma_pin *pin, struct host_pin *host)
{
	struct page *few[SMALL_PIN], **pages = few;
	int err;

	if (host->npages > SMALL_PIN) {
		pages = peerdma_kvarray(host->npages, sizeof(*pages), false);
		if (!pages)
			return -ENOMEM;
	}
	if (pin->flags & PEERDMA_PIN_READONLY)
		err = pin_readonly(pin->start, host->npages, pages);
	else
		err = pin_all(pin->start, host->npages, FOLL_LONGTERM | FOLL_WRITE, pages);
	if (!err) {
		err = make_runs(host, pages);
		if (err)
			unpin_user_pages(pages, host->npages);
	}
	if (pages != few)
		kvfree(pages);
	return err;
}

static int host_get(struct peerdma_pin *pin)
{
	struct host_pin *host;
	int err;

	if (!access_ok((void __user *)pin->start, pin->pinned_length))
		return -EFAULT;
	host = peerdma_zalloc(sizeof(*host));
	if (!host)
		return -ENOMEM;
	host->npages = pin->pinned_length >> PAGE_SHIFT;
	err = peerdma_lock_pages(&host->locked, pin->account, host->npages);
	if (err)
		goto free;
	err = peerdma_watch_begin(&host->notifier, pin);
	if (err)
		goto unlock;
	err = find_pages(pin, host);
	if (err)
		goto unwatch;
	peerdma_watch_found(&host->notifier);
	pin->priv = host;
	return 0;

unwatch:
	peerdma_watch_end(&host->notifier);
unlock:
	peerdma_unlock_pages(&host->locked);
free:
	kfree(host);
	return err;
}

static u32 run_end(const struct host_pin *host, u32 run)
{
	return run + 1 < host->nruns ? host->runs[run + 1].first : host->npages;
}

static void host_put(struct peerdma_pin *pin)
{
	struct host_pin *host = pin->priv;
	/* A device or a CPU view may have written without setting the page tables' dirty bits. */
	bool dirty = !(pin->flags & PEERDMA_PIN_READONLY);
	u32 i;

	/* From here on changes of the range do not matter. */
	peerdma_watch_end(&host->notifier);
	for (i = 0; i < host->nruns; i++) {
		unpin_user_page_range_dirty_lock(pfn_to_page(PHYS_PFN(host->runs[i].phys)),
						 run_end(host, i) - host->runs[i].first, dirty);
		cond_resched();
	}
	peerdma_unlock_pages(&host->locked);
	kvfree(host->runs);
	kfree(host);
}

static phys_addr_t host_page(const struct peerdma_pin *pin, u32 i)
{
	const struct host_pin *host = pin->priv;

	return peerdma_run_page(host->runs, host->nruns, i);
}

static struct peerdma_provider host_provider = {
	.name = "host",
	.owner = THIS_MODULE,
	.host = true,
	.page_shift = PAGE_SHIFT,
	.get = host_get,
	.put = host_put,
	.page = host_page,
};

void peerdma_host_init(void)
{
	peerdma_provider_enter_last(&host_provider);
}
