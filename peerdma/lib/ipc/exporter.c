// SPDX-License-Identifier: MIT
/*
 * exporter.c - an exporter as seen by its importers. The exporter's shared pages stay mapped while
 * this process has any of its objects open, so that their state can always be read.
 */
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ipc.h"

int ipc_exporter_live(const struct ipc_exporter *exporter, uint32_t slot, uint64_t generation)
{
	/* Read `alive` after the slot: slots do not change after the exporter's end. */
	bool same = __atomic_load_n(&exporter->page->slot[slot], __ATOMIC_ACQUIRE) == generation;

	if (__atomic_load_n(&exporter->page->alive, __ATOMIC_ACQUIRE) & FUTEX_OWNER_DIED)
		return -EOWNERDEAD;
	return same ? 0 : -ESTALE;
}

int ipc_fail_live(const struct ipc_exporter *exporter, int error)
{
	if (error == -EOWNERDEAD)
		return fail(error, "the exporter (pid %u) has ended", exporter->pid);
	return fail(error,
		    "the exporter (pid %u) has freed it, or ended the export; get a new handle",
		    exporter->pid);
}

int ipc_name_check(struct ipc *ipc, const struct ipc_name *name)
{
	struct ipc_id boot;
	int ret = ipc_boot(ipc, &boot);

	if (ret)
		return ret;
	if (memcmp(&boot, &name->boot, sizeof(boot)))
		return fail(-EREMOTE,
			    "the handle was made on another machine, or before this one was last booted");
	if (__atomic_load_n(&ipc->page, __ATOMIC_ACQUIRE) &&
	    !memcmp(&ipc->self, &name->process, sizeof(ipc->self)))
		return fail(-EEXIST,
			    "the handle was made by this process; use the pointer or the signal itself");
	if (name->slot >= IPC_SLOTS)
		return fail(-EINVAL, "the handle was altered on its way: it names export %u of %u",
			    name->slot, IPC_SLOTS);
	return 0;
}

struct ipc_exporter *ipc_exporter_find(struct ipc *ipc, const struct ipc_id *process)
{
	for (struct ipc_exporter *p = ipc->exporters; p; p = p->next) {
		if (!memcmp(&p->process, process, sizeof(*process))) {
			p->refs++;
			return p;
		}
	}
	return NULL;
}

int ipc_exporter_get(struct ipc *ipc, const struct ipc_name *name, int page_fd,
		     struct ipc_exporter **exporter)
{
	struct ipc_exporter *p = ipc_exporter_find(ipc, &name->process);
	void *page;
	int ret;

	*exporter = p;
	/*
	 * The handle has the id of a known exporter, but another user id. So the process that
	 * answered for it is not that exporter.
	 */
	if (p && p->uid != name->uid) {
		p->refs--;
		return fail(-EACCES, "the exporter runs as user %u, but the handle is of user %u",
			    p->uid, name->uid);
	}
	if (p)
		return 0;
	ret = ipc_file_map(page_fd, sizeof(struct ipc_page), false, &page);
	if (ret)
		return ret;
	p = calloc(1, sizeof(*p));
	if (!p ||
	    memcmp(((struct ipc_page *)page)->magic, IPC_PAGE_MAGIC,
		   sizeof(((struct ipc_page *)page)->magic)) ||
	    ((struct ipc_page *)page)->slots != IPC_SLOTS) {
		munmap(page, sizeof(struct ipc_page));
		ret = p ? fail(-EPROTO, "the exporter's pages have another format; use one release of libpeerdma on both sides") :
			  fail(-ENOMEM, "%s", error_words(-ENOMEM));
		free(p);
		return ret;
	}
	p->process = name->process;
	p->boot = name->boot;
	p->pid = name->pid;
	p->uid = name->uid;
	p->refs = 1;
	p->page = page;
	p->next = ipc->exporters;
	ipc->exporters = p;
	*exporter = p;
	return 0;
}

static void end(struct ipc *ipc, struct ipc_exporter *exporter)
{
	struct ipc_exporter **at;

	for (at = &ipc->exporters; *at != exporter; at = &(*at)->next)
		;
	*at = exporter->next;
	pthread_mutex_unlock(&ipc->lock);
	if (exporter->arena_registered)
		ipc_cuda_unregister(exporter->arena);
	if (exporter->arena)
		munmap(exporter->arena, IPC_ARENA_SIGNALS * sizeof(*exporter->arena));
	munmap((void *)(uintptr_t)exporter->page, sizeof(*exporter->page));
	free(exporter);
	pthread_mutex_lock(&ipc->lock);
}

void ipc_exporters_end(struct ipc *ipc, bool callback)
{
	struct ipc_exporter *p = ipc->exporters;

	while (p) {
		if (p->refs || (callback && p->arena_registered)) {
			p = p->next;
			continue;
		}
		end(ipc, p);
		p = ipc->exporters;
	}
}

void ipc_exporter_put(struct ipc *ipc, struct ipc_exporter *exporter, bool callback)
{
	if (!--exporter->refs)
		ipc_exporters_end(ipc, callback);
}
