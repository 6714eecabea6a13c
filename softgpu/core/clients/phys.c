// SPDX-License-Identifier: MIT
/* phys.c - PHYS handles: memory without an address, its key, and the handles that the key opens. */
#include "clients.h"

static void release_locked(struct sg_obj *obj)
{
	struct sg_phys *phys = container_of(obj, struct sg_phys, obj);

	sg_mem_put_locked(phys->mem);
	sg_free(phys);
}

static struct sg_phys *new_phys(struct sg_client *client)
{
	struct sg_phys *phys = sg_zalloc(sizeof(*phys));

	if (phys)
		sg_obj_init(&phys->obj, SG_OBJ_PHYS, &client->proc->handles, release_locked);
	return phys;
}

int sg_phys_create(struct sg_client *client, struct softgpu_phys_create *a)
{
	struct sg_phys *phys;
	int err;

	if (a->flags & ~SOFTGPU_PHYS_NO_RDMA || a->reserved || !a->length ||
	    a->length % SG_PAGE_SIZE)
		return -EINVAL;
	if (a->length > client->gpu->desc.vram_size)
		return -ENOSPC;
	phys = new_phys(client);
	if (!phys)
		return -ENOMEM;
	err = sg_mem_create(client->gpu, a->length, &phys->mem);
	if (err) {
		sg_free(phys);
		return err;
	}
	phys->mem->no_rdma = a->flags & SOFTGPU_PHYS_NO_RDMA;
	sg_mutex_lock(&client->sg->lock);
	a->handle = sg_obj_publish_locked(&phys->obj, &client->objs);
	sg_mutex_unlock(&client->sg->lock);
	return 0;
}

int sg_phys_export(struct sg_client *client, struct softgpu_phys_export *a)
{
	const struct sg_mem_key *key;
	struct sg_mem_key *fresh;
	struct sg_obj *obj;

	if (a->flags || a->reserved)
		return -EINVAL;
	fresh = sg_mem_key_new();
	if (!fresh)
		return -ENOMEM;
	sg_mutex_lock(&client->sg->lock);
	obj = sg_obj_get_locked(&client->proc->handles, a->handle, SG_OBJ_PHYS);
	if (obj) {
		key = sg_mem_key_locked(container_of(obj, struct sg_phys, obj)->mem, &fresh);
		a->id = key->node.key;
		a->key[0] = key->key[0];
		a->key[1] = key->key[1];
		sg_obj_put_locked(obj);
	}
	sg_mutex_unlock(&client->sg->lock);
	sg_free(fresh);
	return obj ? 0 : -ENOENT;
}

int sg_phys_import(struct sg_client *client, struct softgpu_phys_import *a)
{
	struct sg *sg = client->sg;
	struct sg_phys *phys;
	struct sg_mem *mem;
	int err = -ENOKEY;

	if (a->flags || a->reserved)
		return -EINVAL;
	phys = new_phys(client);
	if (!phys)
		return -ENOMEM;
	sg_mutex_lock(&sg->lock);
	mem = sg_mem_by_key_locked(sg, a->id, a->key);
	if (!mem)
		goto out;
	err = -EINVAL;
	if (mem->gpu != client->gpu)
		goto out;
	phys->mem = mem;
	sg_mem_get_locked(mem);
	a->length = mem->size;
	a->handle = sg_obj_publish_locked(&phys->obj, &client->objs);
	phys = NULL;
	err = 0;
out:
	sg_mutex_unlock(&sg->lock);
	sg_free(phys);
	return err;
}
