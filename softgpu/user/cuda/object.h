/* SPDX-License-Identifier: MIT */
/*
 * object.h - what opaque CUDA handles stand for.
 *
 * A handle (CUcontext, CUstream, ...) is a slot number and a generation, never
 * an address, so that a stale or made-up handle is an error and not a crash.
 */
#ifndef SGU_OBJECT_H
#define SGU_OBJECT_H

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
	void (*free)(struct sgu_obj *obj);	/* at the last put */
};

/* Gives obj a handle and one reference, the table's.  0 or -ENOMEM. */
int sgu_obj_publish(struct sgu_obj *obj, enum sgu_type type, void (*free)(struct sgu_obj *obj));

/* NULL when there is no such object; *stale then tells whether there was one.  stale may be NULL. */
struct sgu_obj *sgu_obj_get(uint64_t handle, enum sgu_type type, int *stale);

/* Takes the object out of the table: one caller gets it, with the table's reference. */
struct sgu_obj *sgu_obj_take(uint64_t handle, enum sgu_type type, int *stale);

void sgu_obj_ref(struct sgu_obj *obj);
void sgu_obj_put(struct sgu_obj *obj);

#endif
