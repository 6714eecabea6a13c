// SPDX-License-Identifier: MIT
/* call.c - the calls of softgpu_uapi.h: one table; sizes are checked in one place. */
#include "clients.h"

#define FULL_MAX	sizeof(struct softgpu_info)

/* Calls whose function takes the argument as it is. */
#define DIRECT(name, fn)						\
	static int name(struct sg_client *c, void *arg)			\
	{								\
		return fn(c, arg);					\
	}

DIRECT(call_window, sg_vmm_window)
DIRECT(call_info, sg_info_call)
DIRECT(call_mem_alloc, sg_buf_alloc)
DIRECT(call_mem_free_async, sg_mem_free_async)
DIRECT(call_host_register, sg_buf_register)
DIRECT(call_ipc_export, sg_ipc_export)
DIRECT(call_ipc_open, sg_ipc_open)
DIRECT(call_va_reserve, sg_vmm_reserve)
DIRECT(call_phys_create, sg_phys_create)
DIRECT(call_phys_export, sg_phys_export)
DIRECT(call_phys_import, sg_phys_import)
DIRECT(call_map, sg_vmm_map)
DIRECT(call_query, sg_query)
DIRECT(call_set_attr, sg_set_attr)
DIRECT(call_stream_create, sg_stream_create)
DIRECT(call_stream_destroy, sg_stream_destroy)
DIRECT(call_stream_query, sg_stream_query)
DIRECT(call_stream_sync, sg_stream_sync)
DIRECT(call_event_create, sg_event_create)
DIRECT(call_event_record, sg_event_record)
DIRECT(call_event_query, sg_event_query)
DIRECT(call_event_sync, sg_event_sync)
DIRECT(call_stream_wait, sg_stream_wait)
DIRECT(call_copy, sg_copy)
DIRECT(call_fill, sg_fill)
DIRECT(call_watch, sg_watch)
DIRECT(call_value, sg_value)
DIRECT(call_host_func, sg_host_func)
DIRECT(call_host_func_next, sg_host_func_next)
DIRECT(call_host_func_done, sg_host_func_done)

static int release_handle(struct sg_client *c, u32 handle, enum sg_obj_type type)
{
	struct sg_obj *obj;

	sg_mutex_lock(&c->sg->lock);
	obj = sg_obj_get_locked(&c->proc->handles, handle, type);
	if (obj) {
		if (sg_obj_retire_locked(obj))
			sg_obj_put_locked(obj);
		sg_obj_put_locked(obj);
	}
	sg_mutex_unlock(&c->sg->lock);
	return obj ? 0 : -ENOENT;
}

static int call_ctx_create(struct sg_client *c, void *arg)
{
	struct softgpu_ctx_create *a = arg;

	return a->reserved ? -EINVAL : sg_ctx_create(c, a->flags, &a->ctx);
}

static int call_ctx_destroy(struct sg_client *c, void *arg)
{
	struct softgpu_handle *a = arg;
	struct sg_obj *obj;

	sg_mutex_lock(&c->sg->lock);
	obj = sg_obj_get_locked(&c->proc->handles, a->handle, SG_OBJ_CTX);
	if (obj) {
		if (sg_obj_retire_locked(obj)) {
			sg_ctx_destroy_locked(sg_ctx_of(obj));
			sg_obj_put_locked(obj);
		}
		sg_obj_put_locked(obj);
	}
	sg_mutex_unlock(&c->sg->lock);
	return obj ? 0 : -ENOENT;
}

static int call_ctx_sync(struct sg_client *c, void *arg)
{
	struct softgpu_handle *a = arg;
	struct sg_obj *obj;
	int err = -ENOENT;

	sg_mutex_lock(&c->sg->lock);
	obj = sg_obj_get_locked(&c->proc->handles, a->handle, SG_OBJ_CTX);
	if (obj) {
		err = sg_ctx_drain_locked(sg_ctx_of(obj));
		sg_obj_put_locked(obj);
	}
	sg_mutex_unlock(&c->sg->lock);
	return err;
}

static int call_mem_free(struct sg_client *c, void *arg)
{
	struct softgpu_va *a = arg;

	if (a->flags & ~(u32)SOFTGPU_FREE_VISIBLE)
		return -EINVAL;
	return sg_buf_free(c, a->va,
			   a->flags ? 1u << SOFTGPU_KIND_VISIBLE : 1u << SOFTGPU_KIND_DEVICE);
}

static int call_host_unregister(struct sg_client *c, void *arg)
{
	struct softgpu_va *a = arg;

	return a->flags ? -EINVAL : sg_buf_unregister(c, a->va);
}

static int call_va_release(struct sg_client *c, void *arg)
{
	struct softgpu_va *a = arg;

	return a->flags ? -EINVAL : sg_vmm_release(c, a->va);
}

static int call_ipc_close(struct sg_client *c, void *arg)
{
	struct softgpu_va *a = arg;

	if (a->flags & ~(u32)SOFTGPU_FREE_VISIBLE)
		return -EINVAL;
	return sg_ipc_close(c, a->va,
			    a->flags ? 1u << SOFTGPU_KIND_VISIBLE_IPC : 1u << SOFTGPU_KIND_IPC);
}

static int call_phys_release(struct sg_client *c, void *arg)
{
	struct softgpu_handle *a = arg;

	return release_handle(c, a->handle, SG_OBJ_PHYS);
}

static int call_unmap(struct sg_client *c, void *arg)
{
	struct softgpu_va_range *a = arg;

	return a->access ? -EINVAL : sg_vmm_unmap(c, a->va, a->length);
}

static int call_access(struct sg_client *c, void *arg)
{
	struct softgpu_va_range *a = arg;

	return sg_vmm_access(c, a->va, a->length, a->access);
}

static int call_event_destroy(struct sg_client *c, void *arg)
{
	struct softgpu_handle *a = arg;

	return release_handle(c, a->handle, SG_OBJ_EVENT);
}

static int call_flush(struct sg_client *c, void *arg)
{
	struct softgpu_handle *a = arg;

	return sg_flush(c, a->handle);
}

/* ---- undo calls, by their results ---- */

static void undo_ctx_create(struct sg_client *c, const void *arg)
{
	const struct softgpu_ctx_create *a = arg;

	call_ctx_destroy(c, &(struct softgpu_handle){ .handle = a->ctx });
}

static void undo_mem_alloc(struct sg_client *c, const void *arg)
{
	const struct softgpu_mem_alloc *a = arg;

	sg_buf_free(c, a->va, 1u << SOFTGPU_KIND_VISIBLE | 1u << SOFTGPU_KIND_DEVICE);
}

static void undo_host_register(struct sg_client *c, const void *arg)
{
	const struct softgpu_host_register *a = arg;

	sg_buf_unregister(c, a->va);
}

static void undo_ipc_open(struct sg_client *c, const void *arg)
{
	const struct softgpu_ipc_open *a = arg;

	sg_ipc_close(c, a->va, 1u << SOFTGPU_KIND_VISIBLE_IPC | 1u << SOFTGPU_KIND_IPC);
}

static void undo_va_reserve(struct sg_client *c, const void *arg)
{
	const struct softgpu_va_reserve *a = arg;

	sg_vmm_release(c, a->va);
}

static void undo_phys_create(struct sg_client *c, const void *arg)
{
	const struct softgpu_phys_create *a = arg;

	release_handle(c, a->handle, SG_OBJ_PHYS);
}

static void undo_phys_import(struct sg_client *c, const void *arg)
{
	const struct softgpu_phys_import *a = arg;

	release_handle(c, a->handle, SG_OBJ_PHYS);
}

static void undo_map(struct sg_client *c, const void *arg)
{
	const struct softgpu_map *a = arg;

	sg_vmm_unmap(c, a->va, a->length);
}

static void undo_stream_create(struct sg_client *c, const void *arg)
{
	const struct softgpu_stream_create *a = arg;

	sg_stream_destroy(c, &(struct softgpu_stream){ .ctx = a->ctx, .stream = a->stream });
}

static void undo_event_create(struct sg_client *c, const void *arg)
{
	const struct softgpu_event_create *a = arg;

	release_handle(c, a->event, SG_OBJ_EVENT);
}

static void undo_host_func_next(struct sg_client *c, const void *arg)
{
	sg_host_func_return(c, arg);
}

/* For a call that changes nothing, or that would return the same if it were repeated. */
static void undo_nothing(struct sg_client *c, const void *arg)
{
	(void)c;
	(void)arg;
}

struct call {
	int (*fn)(struct sg_client *c, void *arg);
	void (*undo)(struct sg_client *c, const void *arg);	/* NULL: call writes no results */
	u32 size;	/* current size of the struct */
	u32 min;	/* its size in the first release */
};

#define ANSWER(name, fn, undo, type)	\
	[_IOC_NR(name)] = { fn, undo, sizeof(struct type), sizeof(struct type) }
/* A call whose struct has grown: `field` is the first one added after the first release. */
#define GREW(name, fn, undo, type, field)	\
	[_IOC_NR(name)] = { fn, undo, sizeof(struct type), offsetof(struct type, field) }
#define CALL(name, fn, type)	ANSWER(name, fn, NULL, type)

static const struct call calls[] = {
	GREW(SOFTGPU_INFO, call_info, undo_nothing, softgpu_info, device_pointers),
	GREW(SOFTGPU_WINDOW, call_window, undo_nothing, softgpu_window, server),
	ANSWER(SOFTGPU_CTX_CREATE, call_ctx_create, undo_ctx_create, softgpu_ctx_create),
	CALL(SOFTGPU_CTX_DESTROY, call_ctx_destroy, softgpu_handle),
	CALL(SOFTGPU_CTX_SYNC, call_ctx_sync, softgpu_handle),
	GREW(SOFTGPU_MEM_ALLOC, call_mem_alloc, undo_mem_alloc, softgpu_mem_alloc, flags),
	CALL(SOFTGPU_MEM_FREE, call_mem_free, softgpu_va),
	CALL(SOFTGPU_MEM_FREE_ASYNC, call_mem_free_async, softgpu_mem_free_async),
	ANSWER(SOFTGPU_HOST_REGISTER, call_host_register, undo_host_register,
	       softgpu_host_register),
	CALL(SOFTGPU_HOST_UNREGISTER, call_host_unregister, softgpu_va),
	ANSWER(SOFTGPU_VA_RESERVE, call_va_reserve, undo_va_reserve, softgpu_va_reserve),
	CALL(SOFTGPU_VA_RELEASE, call_va_release, softgpu_va),
	ANSWER(SOFTGPU_PHYS_CREATE, call_phys_create, undo_phys_create, softgpu_phys_create),
	CALL(SOFTGPU_PHYS_RELEASE, call_phys_release, softgpu_handle),
	ANSWER(SOFTGPU_MAP, call_map, undo_map, softgpu_map),
	CALL(SOFTGPU_UNMAP, call_unmap, softgpu_va_range),
	CALL(SOFTGPU_ACCESS, call_access, softgpu_va_range),
	GREW(SOFTGPU_QUERY, call_query, undo_nothing, softgpu_query, host_va),
	CALL(SOFTGPU_SET_ATTR, call_set_attr, softgpu_set_attr),
	ANSWER(SOFTGPU_STREAM_CREATE, call_stream_create, undo_stream_create,
	       softgpu_stream_create),
	CALL(SOFTGPU_STREAM_DESTROY, call_stream_destroy, softgpu_stream),
	CALL(SOFTGPU_STREAM_QUERY, call_stream_query, softgpu_stream),
	CALL(SOFTGPU_STREAM_SYNC, call_stream_sync, softgpu_stream),
	ANSWER(SOFTGPU_EVENT_CREATE, call_event_create, undo_event_create, softgpu_event_create),
	CALL(SOFTGPU_EVENT_DESTROY, call_event_destroy, softgpu_handle),
	CALL(SOFTGPU_EVENT_RECORD, call_event_record, softgpu_event),
	ANSWER(SOFTGPU_EVENT_QUERY, call_event_query, undo_nothing, softgpu_event),
	ANSWER(SOFTGPU_EVENT_SYNC, call_event_sync, undo_nothing, softgpu_event),
	CALL(SOFTGPU_STREAM_WAIT, call_stream_wait, softgpu_event),
	CALL(SOFTGPU_COPY, call_copy, softgpu_copy),
	CALL(SOFTGPU_FILL, call_fill, softgpu_fill),
	CALL(SOFTGPU_WATCH, call_watch, softgpu_watch),
	CALL(SOFTGPU_FLUSH, call_flush, softgpu_handle),
	CALL(SOFTGPU_VALUE, call_value, softgpu_value),
	CALL(SOFTGPU_HOST_FUNC, call_host_func, softgpu_host_func),
	ANSWER(SOFTGPU_HOST_FUNC_NEXT, call_host_func_next, undo_host_func_next, softgpu_host_func),
	CALL(SOFTGPU_HOST_FUNC_DONE, call_host_func_done, softgpu_host_func),
	ANSWER(SOFTGPU_IPC_EXPORT, call_ipc_export, undo_nothing, softgpu_ipc_export),
	ANSWER(SOFTGPU_IPC_OPEN, call_ipc_open, undo_ipc_open, softgpu_ipc_open),
	CALL(SOFTGPU_IPC_CLOSE, call_ipc_close, softgpu_va),
	ANSWER(SOFTGPU_PHYS_EXPORT, call_phys_export, undo_nothing, softgpu_phys_export),
	ANSWER(SOFTGPU_PHYS_IMPORT, call_phys_import, undo_phys_import, softgpu_phys_import),
};

static const struct call *find_call(u32 nr)
{
	return nr < sizeof(calls) / sizeof(calls[0]) && calls[nr].fn ? &calls[nr] : NULL;
}

u32 sg_call_size(u32 nr, u32 *min)
{
	const struct call *call = find_call(nr);

	*min = call ? call->min : 0;
	return call ? call->size : 0;
}

bool sg_call_answers(u32 nr)
{
	const struct call *call = find_call(nr);

	return call && call->undo;
}

void sg_call_undo(struct sg_client *client, u32 nr, const void *arg)
{
	find_call(nr)->undo(client, arg);
}

static bool all_zero(const u8 *p, u32 len)
{
	while (len && !*p) {
		p++;
		len--;
	}
	return !len;
}

/*
 * Returns whether a call also releases the memory that the process's streams have freed
 * (async_free.c).  These are the calls that end, wait for or query work, that allocate or free
 * memory, and that return how much is free.  They may call clients of pins, which may call
 * libcuda; so libcuda holds none of its locks in these calls.
 */
static bool releases_async_frees(u32 nr)
{
	switch (nr) {
	case _IOC_NR(SOFTGPU_INFO):
	case _IOC_NR(SOFTGPU_CTX_DESTROY):
	case _IOC_NR(SOFTGPU_CTX_SYNC):
	case _IOC_NR(SOFTGPU_MEM_ALLOC):
	case _IOC_NR(SOFTGPU_MEM_FREE):
	case _IOC_NR(SOFTGPU_MEM_FREE_ASYNC):
	case _IOC_NR(SOFTGPU_STREAM_QUERY):
	case _IOC_NR(SOFTGPU_STREAM_SYNC):
	case _IOC_NR(SOFTGPU_EVENT_QUERY):
	case _IOC_NR(SOFTGPU_EVENT_SYNC):
	case _IOC_NR(SOFTGPU_COPY):
	case _IOC_NR(SOFTGPU_FILL):
		return true;
	default:
		return false;
	}
}

int sg_call(struct sg_client *client, u32 nr, void *arg, u32 size)
{
	const struct call *call = find_call(nr);
	u8 full[FULL_MAX] __attribute__((aligned(8)));
	int err;

	if (!call)
		return -ENOTTY;
	if (size < call->min)
		return -EINVAL;
	if (size > call->size && !all_zero((u8 *)arg + call->size, size - call->size))
		return -E2BIG;
	if (releases_async_frees(nr))
		sg_async_frees_release(client);
	if (client->gpu->removed)
		return -ENODEV;
	if (size >= call->size) {
		err = call->fn(client, arg);
	} else {
		/*
		 * An older caller: fields that it does not know are zero, and their results are
		 * not returned.
		 */
		memset(full, 0, sizeof(full));
		memcpy(full, arg, size);
		err = call->fn(client, full);
		memcpy(arg, full, size);
	}
	if (releases_async_frees(nr))
		sg_async_frees_release(client);
	return err;
}
