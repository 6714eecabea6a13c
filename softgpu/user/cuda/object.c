// SPDX-License-Identifier: MIT
/* object.c - the table of handles. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "object.h"

/* handle = generation << 28 | slot << 4 | type; never 0, 1 or 2, which name streams */
#define SLOT_BITS	24
#define MAX_SLOTS	(1u << SLOT_BITS)

struct slot {
	struct sgu_obj *obj;	/* NULL: free */
	uint32_t generation;	/* of the object that is, or was last, here */
	uint32_t next_free;	/* slot number + 1 */
};

/* Innermost lock of the library: nothing is called with it held. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot *slots;
static uint32_t slot_count, free_head;

static int grow(void)
{
	uint32_t count = slot_count ? slot_count * 2 : 64;
	struct slot *bigger;

	if (count > MAX_SLOTS)
		return -ENOMEM;
	bigger = realloc(slots, count * sizeof(*slots));
	if (!bigger)
		return -ENOMEM;
	slots = bigger;
	for (uint32_t i = count; i-- > slot_count;) {
		slots[i] = (struct slot) { .next_free = free_head };
		free_head = i + 1;
	}
	slot_count = count;
	return 0;
}

int sgu_obj_publish(struct sgu_obj *obj, enum sgu_type type, void (*free)(struct sgu_obj *obj))
{
	struct slot *slot;
	uint32_t i;
	int err = 0;

	obj->type = type;
	obj->free = free;
	atomic_init(&obj->refs, 1);

	pthread_mutex_lock(&table_lock);
	if (!free_head)
		err = grow();
	if (!err) {
		i = free_head - 1;
		slot = &slots[i];
		free_head = slot->next_free;
		slot->obj = obj;
		slot->generation++;
		obj->handle = (uint64_t)slot->generation << (SLOT_BITS + 4) | (uint64_t)i << 4 | type;
	}
	pthread_mutex_unlock(&table_lock);
	return err;
}

static struct sgu_obj *find(uint64_t handle, enum sgu_type type, int take, int *stale)
{
	uint32_t i = handle >> 4 & (MAX_SLOTS - 1);
	uint64_t generation = handle >> (SLOT_BITS + 4);
	struct sgu_obj *obj = NULL;
	int was = 0;

	pthread_mutex_lock(&table_lock);
	if ((handle & 15) == type && i < slot_count && generation) {
		struct slot *slot = &slots[i];

		if (slot->obj && slot->obj->handle == handle) {
			obj = slot->obj;
			if (take) {
				slot->obj = NULL;
				slot->next_free = free_head;
				free_head = i + 1;
			} else {
				atomic_fetch_add(&obj->refs, 1);
			}
		} else {
			was = generation <= slot->generation;
		}
	}
	pthread_mutex_unlock(&table_lock);
	if (stale)
		*stale = was;
	return obj;
}

struct sgu_obj *sgu_obj_get(uint64_t handle, enum sgu_type type, int *stale)
{
	return find(handle, type, 0, stale);
}

struct sgu_obj *sgu_obj_take(uint64_t handle, enum sgu_type type, int *stale)
{
	return find(handle, type, 1, stale);
}

void sgu_obj_ref(struct sgu_obj *obj)
{
	atomic_fetch_add(&obj->refs, 1);
}

void sgu_obj_put(struct sgu_obj *obj)
{
	if (atomic_fetch_sub(&obj->refs, 1) == 1)
		obj->free(obj);
}
