// SPDX-License-Identifier: MIT
/*
 * alias.c - device pointers of host memory that differ from its host pointers.
 *
 * This emulates a GPU that cannot use host pointers (CUDA's attribute
 * CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is 0).  An alias is an address range of the
 * window where the CPU has nothing mapped.  It exists as long as the memory is registered.
 */
#include "memory.h"

int sg_alias_new_locked(struct sg_buf *buf, u64 va, u64 len)
{
	struct sg_proc *proc = buf->proc;
	u64 in_page = va % SG_PAGE_SIZE;
	struct sg_alias *alias;
	int err;

	if (!proc->has_window)
		return -EINVAL;
	alias = sg_zalloc(sizeof(*alias));
	if (!alias)
		return -ENOMEM;
	/*
	 * Both pointers have the same offset in a page, so alignment that a program checks
	 * holds for both.
	 */
	err = sg_space_take(&proc->window, (in_page + len + SG_PAGE_SIZE - 1) & ~(SG_PAGE_SIZE - 1),
			    SG_PAGE_SIZE, &alias->window);
	if (err) {
		sg_free(alias);
		return err;
	}
	alias->node.key = alias->window->node.key + in_page;
	alias->node.len = len;
	alias->buf = buf;
	buf->alias = alias;
	sg_tree_insert(&proc->aliases, &alias->node);
	return 0;
}

void sg_alias_end_locked(struct sg_buf *buf)
{
	struct sg_proc *proc = buf->proc;

	if (!buf->alias)
		return;
	sg_tree_erase(&proc->aliases, &buf->alias->node);
	sg_space_give(&proc->window, buf->alias->window);
	sg_free(buf->alias);
	buf->alias = NULL;
}

struct sg_alias *sg_alias_at(const struct sg_proc *proc, u64 va)
{
	return SG_NODE_OF(sg_covering(&proc->aliases, va), struct sg_alias);
}

bool sg_alias_resolve_locked(const struct sg_proc *proc, u64 *va, u64 span)
{
	const struct sg_alias *alias = sg_alias_at(proc, *va);
	u64 offset;

	if (!alias)
		return true;
	offset = *va - alias->node.key;
	if (span > alias->node.len - offset)
		return false;
	*va = alias->buf->node.key + offset;
	return true;
}
