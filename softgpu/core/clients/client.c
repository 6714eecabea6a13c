// SPDX-License-Identifier: MIT
/* client.c - clients: how one is opened, and what is freed when it is closed. */
#include "clients.h"

int sg_client_open(struct sg *sg, u32 index, const void *proc_key, const struct sg_host_ops *ops,
		   void *cookie, struct sg_client **out)
{
	struct sg_client *client = sg_zalloc(sizeof(*client));
	struct sg_proc *fresh = sg_zalloc(sizeof(*fresh));
	struct sg_proc *proc;
	struct sg_gpu *gpu;
	int err = -ENOMEM;

	if (!client || !fresh)
		goto out;
	sg_mutex_lock(&sg->lock);
	gpu = index < SOFTGPU_MAX_GPUS ? sg->gpus[index] : NULL;
	err = -ENODEV;
	if (!gpu || gpu->removed)
		goto unlock;
	proc = sg_proc_by_key_locked(sg, proc_key);
	if (!proc) {
		proc = fresh;
		fresh = NULL;
		proc->sg = sg;
		proc->key = proc_key;
		proc->release = sg_server_leave_locked;
		sg_handles_init(&proc->handles, &sg->objects);
		sg_list_init(&proc->freed);
		sg_list_add_tail(&sg->procs, &proc->link);
	}
	proc->refs++;
	sg_gpu_get_locked(gpu);
	gpu->clients++;
	client->sg = sg;
	client->gpu = gpu;
	client->proc = proc;
	client->ops = ops;
	client->cookie = cookie;
	sg_heap_init(&client->heap, NULL, gpu);
	sg_list_init(&client->objs);
	sg_list_init(&client->ctx_objs);
	sg_list_init(&client->bufs);
	sg_list_init(&client->reservations);
	sg_list_init(&client->missing);
	*out = client;
	client = NULL;
	err = 0;
unlock:
	sg_mutex_unlock(&sg->lock);
out:
	sg_free(client);
	sg_free(fresh);
	return err;
}

void sg_client_set_user(struct sg_client *client, u64 user)
{
	client->user = user;
}

/*
 * Drops the lock.  Frees what else the client made: buffers without a context, reservations,
 * handles.
 */
static void close_rest_locked(struct sg_client *client)
{
	struct sg_obj *obj;

	while (!sg_list_empty(&client->heap.bufs))
		sg_buf_release_locked(
			sg_list_entry(client->heap.bufs.next, struct sg_buf, in_owner));
	while (!sg_list_empty(&client->bufs))
		sg_buf_release_locked(sg_list_entry(client->bufs.next, struct sg_buf, in_owner));
	while (!sg_list_empty(&client->reservations))
		sg_reservation_destroy_locked(client->proc,
					      sg_list_entry(client->reservations.next,
							    struct sg_reservation, in_client));
	while (!sg_list_empty(&client->objs)) {
		obj = sg_list_entry(client->objs.next, struct sg_obj, link);
		sg_obj_retire_locked(obj);
		sg_obj_put_locked(obj);
		/* There may be millions: other threads get the lock in between. */
		sg_mutex_unlock(&client->sg->lock);
		sg_mutex_lock(&client->sg->lock);
	}
}

static struct sg_ctx *some_ctx_locked(struct sg_client *client)
{
	struct sg_obj *obj;

	if (sg_list_empty(&client->ctx_objs))
		return NULL;
	obj = sg_list_entry(client->ctx_objs.next, struct sg_obj, link);
	sg_obj_retire_locked(obj);
	return sg_ctx_of(obj);
}

bool sg_client_close(struct sg_client *client)
{
	struct sg *sg = client->sg;
	struct sg_ctx *ctx;
	bool fetching;

	sg_mutex_lock(&sg->lock);
	while ((ctx = some_ctx_locked(client))) {
		sg_ctx_destroy_locked(ctx);
		sg_obj_put_locked(&ctx->obj);
	}
	close_rest_locked(client);
	/* A context that another thread is destroying still uses this client. */
	while (client->ctxs)
		sg_cond_wait(&sg->ended, &sg->lock);
	fetching = sg_missing_close_locked(client);
	client->gpu->clients--;
	sg_gpu_put_locked(client->gpu);
	sg_proc_put_locked(client->proc);
	sg_mutex_unlock(&sg->lock);
	SG_WARN_ON(!sg_list_empty(&client->heap.slabs));
	sg_free(client);
	return fetching;
}

const void *sg_client_key(const struct sg_client *client)
{
	return client->proc->key;
}
