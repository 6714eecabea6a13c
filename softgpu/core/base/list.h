/* SPDX-License-Identifier: MIT */
/* list.h - circular doubly linked lists, links inside the objects. */
#ifndef SG_BASE_LIST_H
#define SG_BASE_LIST_H

#include "../sg_os.h"

struct sg_link {
	struct sg_link *next, *prev;
};

static inline void sg_list_init(struct sg_link *head)
{
	head->next = head;
	head->prev = head;
}

static inline bool sg_list_empty(const struct sg_link *head)
{
	return head->next == head;
}

static inline void sg_list_add_tail(struct sg_link *head, struct sg_link *link)
{
	link->prev = head->prev;
	link->next = head;
	head->prev->next = link;
	head->prev = link;
}

/* Deleting a link twice is harmless: the first deletion leaves it pointing at itself. */
static inline void sg_list_del(struct sg_link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	sg_list_init(link);
}

#define sg_list_entry(link, type, member) container_of(link, type, member)

#define sg_list_for_each(pos, head, type, member)				\
	for (pos = sg_list_entry((head)->next, type, member);			\
	     &pos->member != (head);						\
	     pos = sg_list_entry(pos->member.next, type, member))

#endif
