// SPDX-License-Identifier: MIT
/*
 * phys_ipc.c - memory of a PHYS handle in other processes: the basis of
 * cuMemExportToShareableHandle and its counterpart.
 *
 * The key belongs to the memory, and opens it as long as a handle, mapping or pin of it
 * exists anywhere.  As with keys of ipc.c, the id names the memory and the 128 random bits
 * prove the right to it.
 */
#include "sg_int.h"

struct sg_phys_key {
	struct sg_node node;		/* in sg->phys_keys, by id */
	struct sg_mem *mem;		/* fixed; no reference: the key is freed with mem */
	u64 key[2];			/* fixed */
};

int sg_phys_export(struct sg_client *client, struct softgpu_phys_export *a)
{
	struct sg *sg = client->sg;
	struct sg_phys_key *fresh, *key;
	struct sg_obj *obj;
	struct sg_mem *mem;

	if (a->flags || a->reserved)
		return -EINVAL;
	fresh = sg_zalloc(sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	sg_key_make(fresh->key);

	sg_mutex_lock(&sg->lock);
	obj = sg_obj_get_locked(&client->proc->handles, a->handle, SG_OBJ_PHYS);
	if (obj) {
		mem = container_of(obj, struct sg_phys, obj)->mem;
		if (!mem->key) {
			fresh->mem = mem;
			fresh->node.key = sg->next_share_id++;
			sg_tree_insert(&sg->phys_keys, &fresh->node);
			mem->key = fresh;
			fresh = NULL;
		}
		key = mem->key;
		a->id = key->node.key;
		a->key[0] = key->key[0];
		a->key[1] = key->key[1];
		sg_obj_put_locked(obj);
	}
	sg_mutex_unlock(&sg->lock);
	sg_free(fresh);
	return obj ? 0 : -ENOENT;
}

int sg_phys_import(struct sg_client *client, struct softgpu_phys_import *a)
{
	struct sg *sg = client->sg;
	struct sg_phys_key *key;
	struct sg_phys *phys;
	int err = -ENOKEY;

	if (a->flags || a->reserved)
		return -EINVAL;
	phys = sg_zalloc(sizeof(*phys));
	if (!phys)
		return -ENOMEM;
	sg_obj_init(&phys->obj, SG_OBJ_PHYS, &client->proc->handles, sg_phys_release_locked);

	sg_mutex_lock(&sg->lock);
	key = SG_NODE_OF(sg_tree_find(&sg->phys_keys, a->id), struct sg_phys_key);
	if (!key || !sg_key_opens(key->key, a->key))
		goto out;
	err = -EINVAL;
	if (key->mem->gpu != client->gpu)
		goto out;
	phys->mem = key->mem;
	sg_mem_get_locked(phys->mem);
	a->length = phys->mem->size;
	a->handle = sg_obj_publish_locked(&phys->obj, &client->objs);
	phys = NULL;
	err = 0;
out:
	sg_mutex_unlock(&sg->lock);
	sg_free(phys);
	return err;
}

void sg_phys_key_end_locked(struct sg_mem *mem)
{
	if (!mem->key)
		return;
	sg_tree_erase(&mem->gpu->sg->phys_keys, &mem->key->node);
	sg_free(mem->key);
	mem->key = NULL;
}
