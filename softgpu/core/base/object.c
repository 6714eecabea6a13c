// SPDX-License-Identifier: MIT
/* object.c - see object.h. */
#include "object.h"

void sg_handles_init(struct sg_handles *handles, u32 *total)
{
	handles->objs.root = NULL;
	handles->next = 1;
	handles->total = total;
}

void sg_obj_init(struct sg_obj *obj, enum sg_obj_type type, struct sg_handles *handles,
		 void (*release)(struct sg_obj *obj))
{
	obj->type = type;
	obj->handles = handles;
	obj->release = release;
	obj->refs = 1;
	sg_list_init(&obj->link);
}

u32 sg_obj_publish_locked(struct sg_obj *obj, struct sg_link *owner)
{
	struct sg_handles *handles = obj->handles;

	/* Handles wrap after 2^32; skip 0 and handles still in use. */
	while (!handles->next || sg_tree_find(&handles->objs, handles->next))
		handles->next++;
	obj->node.key = handles->next++;
	sg_tree_insert(&handles->objs, &obj->node);
	++*handles->total;
	sg_list_add_tail(owner, &obj->link);
	return (u32)obj->node.key;
}

struct sg_obj *sg_obj_get_locked(struct sg_handles *handles, u32 handle, enum sg_obj_type type)
{
	struct sg_node *n = sg_tree_find(&handles->objs, handle);
	struct sg_obj *obj = n ? container_of(n, struct sg_obj, node) : NULL;

	if (!obj || obj->type != type)
		return NULL;
	obj->refs++;
	return obj;
}

bool sg_obj_retire_locked(struct sg_obj *obj)
{
	if (obj->gone)
		return false;
	obj->gone = true;
	sg_tree_erase(&obj->handles->objs, &obj->node);
	--*obj->handles->total;
	sg_list_del(&obj->link);
	return true;
}

void sg_obj_put_locked(struct sg_obj *obj)
{
	if (!--obj->refs)
		obj->release(obj);
}
