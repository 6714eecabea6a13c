/* SPDX-License-Identifier: MIT */
/*
 * object.h - objects that a program names by a handle, and a process's table of handles.
 *
 * The handle is one reference.  When the last reference is dropped, the object's release
 * operation frees it.  All functions are called with the core's lock held.
 */
#ifndef SG_BASE_OBJECT_H
#define SG_BASE_OBJECT_H

#include "list.h"
#include "tree.h"

enum sg_obj_type { SG_OBJ_CTX = 1, SG_OBJ_STREAM, SG_OBJ_EVENT, SG_OBJ_PHYS };

struct sg_handles {
	struct sg_tree objs;		/* by handle */
	u32 next;
	u32 *total;			/* counter of the handles of all processes */
};

struct sg_obj {
	struct sg_node node;		/* in handles->objs while the handle is valid */
	struct sg_link link;		/* in its owner's list while the handle is valid */
	enum sg_obj_type type;		/* fixed */
	struct sg_handles *handles;	/* fixed */
	void (*release)(struct sg_obj *obj);	/* fixed */
	u32 refs;			/* the handle is one of them */
	bool gone;			/* the handle is no longer valid */
};

void sg_handles_init(struct sg_handles *handles, u32 *total);
/* Makes an object with one reference and without a handle. */
void sg_obj_init(struct sg_obj *obj, enum sg_obj_type type, struct sg_handles *handles,
		 void (*release)(struct sg_obj *obj));
/*
 * Gives an object a handle: the last step of making one.  `owner` lists the object until it is
 * retired.
 */
u32 sg_obj_publish_locked(struct sg_obj *obj, struct sg_link *owner);
/* Returns the object with a handle of that type, with a reference; NULL: none. */
struct sg_obj *sg_obj_get_locked(struct sg_handles *handles, u32 handle, enum sg_obj_type type);
/* Invalidates a handle; false if that was done before.  The caller puts the handle's reference. */
bool sg_obj_retire_locked(struct sg_obj *obj);
void sg_obj_put_locked(struct sg_obj *obj);

#endif
