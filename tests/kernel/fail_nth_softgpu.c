// SPDX-License-Identifier: MIT
/* fail_nth_softgpu.c - every call of /dev/softgpuN, and what ends a file or a process. */
#include "fail_nth.h"
#include "fail_nth_test.h"

static struct gpu g;		/* the file under test */
static uint64_t va, va2;	/* device memory in it */
static uint32_t handle;
static int fd = -1;

/* ---- files and device memory ---- */

static int open_gpu(void)
{
	fd = sg_open(0);
	return fd < 0 ? errno : 0;
}

static int close_fd(void)
{
	return close(fd) ? errno : 0;
}

static int info(void)
{
	struct softgpu_info i;

	return sg_info(g.fd, &i);
}

static int alloc_big(void)
{
	return sg_alloc(g.fd, g.ctx, 40 * PAGE64, &va);
}

static int alloc_small(void)
{
	return sg_alloc(g.fd, g.ctx, 100, &va);
}

static int mem_free(void)
{
	return sg_free(g.fd, va);
}

static int mem_free_if_there(void)
{
	mem_free();
	return 0;
}

static int query(void)
{
	struct softgpu_query q;

	return sg_query(g.fd, va2, &q);
}

static int free_async(void)
{
	struct softgpu_mem_free_async a = { .ctx = g.ctx };
	uint64_t at;
	int err = sg_alloc(g.fd, g.ctx, PAGE64, &at);

	if (err)
		return err;
	a.va = at;
	err = SG_CALL(g.fd, SOFTGPU_MEM_FREE_ASYNC, &a);
	if (err)
		sg_free(g.fd, at);
	return err;
}

OP(window, g.fd, SOFTGPU_WINDOW, softgpu_window, .base = g.window, .length = WINDOW_LEN)
OP_GIVES(ctx_create, handle, ctx, g.fd, SOFTGPU_CTX_CREATE, softgpu_ctx_create, 0)
OP(ctx_destroy, g.fd, SOFTGPU_CTX_DESTROY, softgpu_handle, .handle = handle)
OP(sync_ctx, g.fd, SOFTGPU_CTX_SYNC, softgpu_handle, .handle = g.ctx)
OP(flush, g.fd, SOFTGPU_FLUSH, softgpu_handle, .handle = g.ctx)
OP(set_attr, g.fd, SOFTGPU_SET_ATTR, softgpu_set_attr, .attr = SOFTGPU_ATTR_SYNC_MEMOPS, .va = va, .value = 1)

static int ctx_destroy_if_there(void)
{
	ctx_destroy();
	return 0;
}

/* ---- memory that is mapped by hand, and the host's ---- */

OP_GIVES(reserve, va2, va, g.fd, SOFTGPU_VA_RESERVE, softgpu_va_reserve, .length = 4 * PAGE64)
OP(release, g.fd, SOFTGPU_VA_RELEASE, softgpu_va, .va = va2)
OP(host_register, g.fd, SOFTGPU_HOST_REGISTER, softgpu_host_register,
	.ctx = g.ctx, .kind = SOFTGPU_KIND_MANAGED, .va = va2, .length = PAGE64)
OP(host_unregister, g.fd, SOFTGPU_HOST_UNREGISTER, softgpu_va, .va = va2)
OP_GIVES(phys_create, handle, handle, g.fd, SOFTGPU_PHYS_CREATE, softgpu_phys_create, .length = 4 * PAGE64)
OP(phys_release, g.fd, SOFTGPU_PHYS_RELEASE, softgpu_handle, .handle = handle)
OP(map, g.fd, SOFTGPU_MAP, softgpu_map, .ctx = g.ctx, .handle = handle, .va = va2, .length = 4 * PAGE64)
OP(unmap, g.fd, SOFTGPU_UNMAP, softgpu_va_range, .va = va2, .length = 4 * PAGE64)
OP(access_range, g.fd, SOFTGPU_ACCESS, softgpu_va_range, .va = va2, .length = 4 * PAGE64, .access = 3)

static int map_new(void)
{
	return reserve() ?: phys_create() ?: map();
}

/* ---- work ---- */

OP_GIVES(stream_create, handle, stream, g.fd, SOFTGPU_STREAM_CREATE, softgpu_stream_create, .ctx = g.ctx)
OP(stream_destroy, g.fd, SOFTGPU_STREAM_DESTROY, softgpu_stream, .ctx = g.ctx, .stream = handle)
OP_GIVES(event_create, handle, event, g.fd, SOFTGPU_EVENT_CREATE, softgpu_event_create, .ctx = g.ctx)
OP(event_destroy, g.fd, SOFTGPU_EVENT_DESTROY, softgpu_handle, .handle = handle)
OP(event_record, g.fd, SOFTGPU_EVENT_RECORD, softgpu_event, .ctx = g.ctx, .event = handle)
OP(event_sync, g.fd, SOFTGPU_EVENT_SYNC, softgpu_event, .ctx = g.ctx, .event = handle)
OP(stream_wait, g.fd, SOFTGPU_STREAM_WAIT, softgpu_event, .ctx = g.ctx, .event = handle)
OP(fill, g.fd, SOFTGPU_FILL, softgpu_fill, .ctx = g.ctx, .dst = va, .width = 1000, .height = 1, .elem = 1)
OP(watch, g.fd, SOFTGPU_WATCH, softgpu_watch, .ctx = g.ctx, .va = va, .result = va + 64, .timeout_ms = 1)
OP(value_write, g.fd, SOFTGPU_VALUE, softgpu_value, .ctx = g.ctx, .op = SOFTGPU_VALUE_WRITE, .va = va, .value = 1, .width = 8)
OP(value_wait, g.fd, SOFTGPU_VALUE, softgpu_value, .ctx = g.ctx, .op = SOFTGPU_VALUE_GEQ, .va = va, .value = 1, .width = 8)

static int values(void)
{
	return value_write() ?: value_wait();
}

static int copy(void)
{
	return sg_copy(g.fd, g.ctx, va, va + PAGE64, 1000, 0);
}

/* A function of the stream's: queued, handed out, done. */
static enum { NO_FUNC, QUEUED, TAKEN } func;

static int call_func(unsigned long nr, int becomes)
{
	struct softgpu_host_func f = { .ctx = g.ctx, .id = 5 };
	int err = SG_CALL(g.fd, nr, &f);

	if (!err)
		func = becomes;
	return err;
}

static int host_func(void)
{
	return call_func(SOFTGPU_HOST_FUNC, QUEUED);
}

static int host_func_next(void)
{
	return call_func(SOFTGPU_HOST_FUNC_NEXT, TAKEN);
}

static int host_func_done(void)
{
	return call_func(SOFTGPU_HOST_FUNC_DONE, NO_FUNC);
}

/* Whatever has failed. */
static int end_host_func(void)
{
	MUST(func != QUEUED || !host_func_next());
	MUST(func != TAKEN || !host_func_done());
	return sync_ctx();
}

/* ---- for others ---- */

OP(ipc_export, g.fd, SOFTGPU_IPC_EXPORT, softgpu_ipc_export, .va = va)
OP_GIVES(dmabuf, fd, fd, g.fd, SOFTGPU_DMABUF, softgpu_dmabuf, .va = va, .length = 2 * PAGE64, .fd = -1)

/* An open file with something of everything in it. */
static int full_file(void)
{
	MUST(!open_gpu());
	handle = sg_ctx(fd);
	MUST(handle && !sg_alloc(fd, handle, 3 * PAGE64, &va) && !sg_alloc(fd, handle, 50, &va2));
	return sg_copy(fd, handle, va, va + PAGE64, 1000, 0);
}

static const struct stage alone[] = {
	{ "softgpu open", .op = open_gpu, .undo = { close_fd } },
	{ "softgpu info", .op = info },
	{ "softgpu window", .op = window },
	{ "softgpu ctx_create", .op = ctx_create, .undo = { ctx_destroy } },
	{ "softgpu mem_alloc", .op = alloc_big, .undo = { mem_free } },
	{ "softgpu mem_alloc, small", .op = alloc_small, .undo = { mem_free } },
	{ "softgpu va_reserve", .op = reserve, .undo = { release } },
	{ "softgpu host_register", .before = { reserve }, .op = host_register, .undo = { host_unregister }, .after = { release } },
	{ "softgpu phys_create", .op = phys_create, .undo = { phys_release } },
	{ "softgpu map", .before = { reserve, phys_create }, .op = map, .undo = { unmap }, .after = { phys_release, release } },
	{ "softgpu access", .before = { map_new }, .op = access_range, .after = { unmap, phys_release, release } },
	{ "softgpu query", .before = { map_new }, .op = query, .after = { unmap, phys_release, release } },
	{ "softgpu stream_create", .op = stream_create, .undo = { stream_destroy } },
	{ "softgpu event_create", .op = event_create, .undo = { event_destroy } },
	{ "softgpu event_record", .before = { event_create }, .op = event_record, .undo = { sync_ctx }, .after = { event_destroy } },
	{ "softgpu event_sync", .before = { event_create }, .op = event_sync, .after = { event_destroy } },
	{ "softgpu stream_wait", .before = { event_create }, .op = stream_wait, .undo = { sync_ctx }, .after = { event_destroy } },
	{ "softgpu flush", .op = flush },
	{ "softgpu host_func", .op = host_func, .after = { end_host_func } },
	{ "softgpu host_func_next", .before = { host_func }, .op = host_func_next, .after = { end_host_func } },
	{ "softgpu host_func_done", .before = { host_func, host_func_next }, .op = host_func_done, .after = { end_host_func } },
	{ "softgpu mem_free_async", .op = free_async, .undo = { sync_ctx } },
	{ "softgpu close", .flags = FN_CANNOT_FAIL | FN_MAY_BE_CLEAN, .before = { full_file }, .op = close_fd },
};

/* With device memory at va. */
static const struct stage with_memory[] = {
	{ "softgpu set_attr", .op = set_attr },
	{ "softgpu copy", .op = copy, .undo = { sync_ctx } },
	{ "softgpu fill", .op = fill, .undo = { sync_ctx } },
	{ "softgpu watch", .op = watch, .undo = { sync_ctx } },
	{ "softgpu values", .op = values, .undo = { sync_ctx } },
	{ "softgpu dmabuf", .op = dmabuf, .undo = { close_fd } },
	{ "softgpu ipc_export", .op = ipc_export },
};

/* Without it: a call that fails has ended nothing, and ends it the next time. */
static const struct stage ends[] = {
	{ "softgpu mem_free", .before = { alloc_big }, .op = mem_free, .after = { mem_free_if_there } },
	{ "softgpu ctx_destroy", .before = { ctx_create }, .op = ctx_destroy, .after = { ctx_destroy_if_there } },
};

/* ---- memory of another process ---- */

static struct softgpu_ipc_export key;

OP_GIVES(ipc_open, va2, va, g.fd, SOFTGPU_IPC_OPEN, softgpu_ipc_open,
	 .ctx = g.ctx, .id = key.id, .key = { key.key[0], key.key[1] })
OP(ipc_close, g.fd, SOFTGPU_IPC_CLOSE, softgpu_va, .va = va2)

/* The exporter is a child that waits for our end of the pipe to be closed. */
static void ipc_sweep(void)
{
	static const struct stage stage[] = {
		{ "softgpu ipc_open", .op = ipc_open, .undo = { ipc_close } },
	};
	int ready[2], over[2];
	char byte;
	pid_t pid;

	MUST(!pipe(ready) && !pipe(over));
	fflush(stdout);
	pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		struct gpu own;

		close(over[1]);
		own = gpu_up(0);
		MUST(!sg_alloc(own.fd, own.ctx, 2 * PAGE64, &va));
		key = (struct softgpu_ipc_export){ .va = va };
		MUST(!SG_CALL(own.fd, SOFTGPU_IPC_EXPORT, &key));
		MUST(write(ready[1], &key, sizeof(key)) == sizeof(key));
		_exit(read(over[0], &byte, 1) != 0);
	}
	MUST(read(ready[0], &key, sizeof(key)) == sizeof(key));
	sweep(stage);
	close(over[1]);
	MUST(waitpid(pid, NULL, 0) == pid);
	close(over[0]);
	close(ready[0]);
	close(ready[1]);
}

/* ---- the ends of processes ---- */

static void use_everything(void)
{
	g = gpu_up(0);
	MUST(!map_new() && !alloc_big() && !dmabuf() && !stream_create() && !copy());
}

static void in_a_process(void *arg)
{
	g = gpu_up(0);
	sweep(alone);
	MUST(!alloc_big());
	sweep(with_memory);
	MUST(!mem_free());
	sweep(ends);
	ipc_sweep();
}

void fail_nth_softgpu(void)
{
	CHECK(in_child(in_a_process, NULL), "the process of softgpu's calls was killed");
	idle_begins();
	fail_nth_exits("softgpu exit", use_everything, 12, idle);
}
