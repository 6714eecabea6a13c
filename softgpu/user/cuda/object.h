/* SPDX-License-Identifier: MIT */
/*
 * object.h - the objects of opaque CUDA handles.
 *
 * A handle (CUcontext, CUstream, ...) is a slot number and a generation, never an address. So an
 * old or invalid handle leads to an error and not to a crash.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum sgu_type {
	SGU_CONTEXT = 1,
	SGU_STREAM = 2,
	SGU_EVENT = 3,
	SGU_PHYS = 4,
	SGU_POOL = 5,
};

/* The first member of every object. */
struct sgu_obj {
	enum sgu_type type;
	atomic_uint refs;
	uint64_t handle;
	void (*free)(struct sgu_obj *obj);	/* called by the last put */
};

/* Gives obj a handle and one reference, which belongs to the table. 0 or -ENOMEM. */
int sgu_obj_publish(struct sgu_obj *obj, enum sgu_type type, void (*free)(struct sgu_obj *obj));

/*
 * Returns a reference. NULL: no such object; *stale then says whether there was one. stale may be
 * NULL.
 */
struct sgu_obj *sgu_obj_get(uint64_t handle, enum sgu_type type, int *stale);

/*
 * Removes the object from the table. If several threads call it, one gets the object, with the
 * table's reference.
 */
struct sgu_obj *sgu_obj_take(uint64_t handle, enum sgu_type type, int *stale);

void sgu_obj_ref(struct sgu_obj *obj);
void sgu_obj_put(struct sgu_obj *obj);
