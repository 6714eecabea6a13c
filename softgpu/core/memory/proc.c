// SPDX-License-Identifier: MIT
/* proc.c - the address spaces of processes. */
#include "memory.h"

struct sg_proc *sg_proc_by_key_locked(struct sg *sg, const void *key)
{
	struct sg_proc *proc;

	sg_list_for_each(proc, &sg->procs, struct sg_proc, link) {
		if (proc->key == key)
			return proc;
	}
	return NULL;
}

void sg_proc_put_locked(struct sg_proc *proc)
{
	if (--proc->refs)
		return;
	SG_WARN_ON(proc->bufs.root || proc->ranges.root || proc->copies.root ||
		   proc->reservations.root || proc->handles.objs.root);
	if (proc->has_window)
		sg_space_fini(&proc->window);
	if (proc->release)
		proc->release(proc);
	sg_list_del(&proc->link);
	sg_free(proc);
}
