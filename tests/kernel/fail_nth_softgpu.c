// SPDX-License-Identifier: MIT
/* fail_nth_softgpu.c - every call of /dev/softgpuN, and what ends a file or a process. */
#include <sys/wait.h>
#include "fail_nth.h"
#include "fail_nth_test.h"

static struct gpu g;		/* the file under test */
static uint64_t va, va2;	/* device memory in it */
static uint32_t handle;
static int fd = -1;

/* ---- what a stage may make, and how it is ended ---- */

static void free_va(void)
{
	NEED(!sg_free(g.fd, va));
}

static int alloc_big(void)
{
	return sg_alloc(g.fd, g.ctx, 40 * PAGE64, &va);
}

static int alloc_small(void)
{
	return sg_alloc(g.fd, g.ctx, 100, &va);
}

static int open_gpu(void)
{
	fd = sg_open(0);
	return fd < 0 ? errno : 0;
}

static void close_fd(void)
{
	close(fd);
	fd = -1;
}

static int info(void)
{
	struct softgpu_info i;

	return sg_info(g.fd, &i);
}

static int window(void)
{
	struct softgpu_window w = { .base = g.window, .length = WINDOW_LEN };

	return SG_CALL(g.fd, SOFTGPU_WINDOW, &w);
}

static int ctx_create(void)
{
	struct softgpu_ctx_create c = { 0 };
	int err = SG_CALL(g.fd, SOFTGPU_CTX_CREATE, &c);

	handle = c.ctx;
	return err;
}

static int ctx_destroy(void)
{
	return sg_ctx_destroy(g.fd, handle);
}

static void need_ctx_create(void)
{
	NEED(!ctx_create());
}

static void ctx_destroy_if_there(void)
{
	ctx_destroy();
}

static void need_ctx_destroy(void)
{
	NEED(!ctx_destroy());
}

static int reserve(void)
{
	struct softgpu_va_reserve r = { .length = 4 * PAGE64 };
	int err = SG_CALL(g.fd, SOFTGPU_VA_RESERVE, &r);

	va2 = r.va;
	return err;
}

static int release(void)
{
	struct softgpu_va a = { .va = va2 };

	return SG_CALL(g.fd, SOFTGPU_VA_RELEASE, &a);
}

static void need_reserve(void)
{
	NEED(!reserve());
}

static void need_release(void)
{
	NEED(!release());
}

static int host_register(void)
{
	struct softgpu_host_register r = {
		.ctx = g.ctx, .kind = SOFTGPU_KIND_MANAGED, .va = va2, .length = PAGE64,
	};

	return SG_CALL(g.fd, SOFTGPU_HOST_REGISTER, &r);
}

static int host_unregister(void)
{
	struct softgpu_va a = { .va = va2 };

	return SG_CALL(g.fd, SOFTGPU_HOST_UNREGISTER, &a);
}

static void need_host_unregister(void)
{
	NEED(!host_unregister());
}

static int phys_create(void)
{
	struct softgpu_phys_create p = { .length = 4 * PAGE64 };
	int err = SG_CALL(g.fd, SOFTGPU_PHYS_CREATE, &p);

	handle = p.handle;
	return err;
}

static int phys_release(void)
{
	struct softgpu_handle h = { .handle = handle };

	return SG_CALL(g.fd, SOFTGPU_PHYS_RELEASE, &h);
}

static void need_phys_release(void)
{
	NEED(!phys_release());
}

static void vmm_up(void)
{
	need_reserve();
	NEED(!phys_create());
}

static void vmm_down(void)
{
	need_phys_release();
	need_release();
}

static int map(void)
{
	struct softgpu_map m = { .ctx = g.ctx, .handle = handle, .va = va2, .length = 4 * PAGE64 };

	return SG_CALL(g.fd, SOFTGPU_MAP, &m);
}

static int unmap(void)
{
	struct softgpu_va_range r = { .va = va2, .length = 4 * PAGE64 };

	return SG_CALL(g.fd, SOFTGPU_UNMAP, &r);
}

static void need_unmap(void)
{
	NEED(!unmap());
}

static void mapped_up(void)
{
	vmm_up();
	NEED(!map());
}

static void mapped_down(void)
{
	need_unmap();
	vmm_down();
}

static int access_range(void)
{
	struct softgpu_va_range r = { .va = va2, .length = 4 * PAGE64, .access = 3 };

	return SG_CALL(g.fd, SOFTGPU_ACCESS, &r);
}

static int query(void)
{
	struct softgpu_query q;

	return sg_query(g.fd, va2, &q);
}

static int set_attr(void)
{
	struct softgpu_set_attr a = { .attr = SOFTGPU_ATTR_SYNC_MEMOPS, .va = va, .value = 1 };

	return SG_CALL(g.fd, SOFTGPU_SET_ATTR, &a);
}

static int stream_create(void)
{
	struct softgpu_stream_create s = { .ctx = g.ctx };
	int err = SG_CALL(g.fd, SOFTGPU_STREAM_CREATE, &s);

	handle = s.stream;
	return err;
}

static int stream_destroy(void)
{
	struct softgpu_stream s = { .ctx = g.ctx, .stream = handle };

	return SG_CALL(g.fd, SOFTGPU_STREAM_DESTROY, &s);
}

static void need_stream_destroy(void)
{
	NEED(!stream_destroy());
}

static int event_create(void)
{
	struct softgpu_event_create e = { .ctx = g.ctx };
	int err = SG_CALL(g.fd, SOFTGPU_EVENT_CREATE, &e);

	handle = e.event;
	return err;
}

static int event_destroy(void)
{
	struct softgpu_handle h = { .handle = handle };

	return SG_CALL(g.fd, SOFTGPU_EVENT_DESTROY, &h);
}

static void need_event_create(void)
{
	NEED(!event_create());
}

static void need_event_destroy(void)
{
	NEED(!event_destroy());
}

static int event_record(void)
{
	struct softgpu_event e = { .ctx = g.ctx, .event = handle };

	return SG_CALL(g.fd, SOFTGPU_EVENT_RECORD, &e);
}

static int event_sync(void)
{
	struct softgpu_event e = { .ctx = g.ctx, .event = handle };

	return SG_CALL(g.fd, SOFTGPU_EVENT_SYNC, &e);
}

static int stream_wait(void)
{
	struct softgpu_event e = { .ctx = g.ctx, .event = handle };

	return SG_CALL(g.fd, SOFTGPU_STREAM_WAIT, &e);
}

static void sync_ctx(void)
{
	NEED(!sg_ctx_sync(g.fd, g.ctx));
}

static int copy(void)
{
	return sg_copy(g.fd, g.ctx, va, va + PAGE64, 1000, 0);
}

static int fill(void)
{
	struct softgpu_fill f = { .ctx = g.ctx, .dst = va, .width = 1000, .height = 1, .elem = 1 };

	return SG_CALL(g.fd, SOFTGPU_FILL, &f);
}

static int watch(void)
{
	struct softgpu_watch w = { .ctx = g.ctx, .va = va, .result = va + 64, .timeout_ms = 1 };

	return SG_CALL(g.fd, SOFTGPU_WATCH, &w);
}

static int value(void)
{
	struct softgpu_value v = { .ctx = g.ctx, .op = SOFTGPU_VALUE_WRITE, .va = va, .value = 1, .width = 8 };
	int err = SG_CALL(g.fd, SOFTGPU_VALUE, &v);

	v.op = SOFTGPU_VALUE_GEQ;
	return err ? err : SG_CALL(g.fd, SOFTGPU_VALUE, &v);
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

static void need_host_func(void)
{
	NEED(!host_func());
}

static void need_host_func_next(void)
{
	need_host_func();
	NEED(!host_func_next());
}

/* Whatever has failed. */
static void end_host_func(void)
{
	NEED(func != QUEUED || !host_func_next());
	NEED(func != TAKEN || !host_func_done());
	sync_ctx();
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

static int flush(void)
{
	struct softgpu_handle h = { .handle = g.ctx };

	return SG_CALL(g.fd, SOFTGPU_FLUSH, &h);
}

static int ipc_export(void)
{
	struct softgpu_ipc_export e = { .va = va };

	return SG_CALL(g.fd, SOFTGPU_IPC_EXPORT, &e);
}

static int dmabuf(void)
{
	struct softgpu_dmabuf d = { .va = va, .length = 2 * PAGE64, .fd = -1 };
	int err = SG_CALL(g.fd, SOFTGPU_DMABUF, &d);

	fd = d.fd;
	return err;
}

static int mem_free(void)
{
	return sg_free(g.fd, va);
}

static void need_alloc(void)
{
	NEED(!alloc_big());
}

static void free_if_there(void)
{
	sg_free(g.fd, va);
}

/* An open file with something of everything in it. */
static void full_file(void)
{
	fd = sg_open(0);
	NEED(fd >= 0);
	handle = sg_ctx(fd);
	NEED(handle && !sg_alloc(fd, handle, 3 * PAGE64, &va) && !sg_alloc(fd, handle, 50, &va2));
	NEED(!sg_copy(fd, handle, va, va + PAGE64, 1000, 0));
}

static int close_full(void)
{
	return close(fd) ? errno : 0;
}

static const struct stage alone[] = {
	{ "softgpu open", .op = open_gpu, .undo = close_fd },
	{ "softgpu info", .op = info },
	{ "softgpu window", .op = window },
	{ "softgpu ctx_create", .op = ctx_create, .undo = need_ctx_destroy },
	{ "softgpu mem_alloc", .op = alloc_big, .undo = free_va },
	{ "softgpu mem_alloc, small", .op = alloc_small, .undo = free_va },
	{ "softgpu va_reserve", .op = reserve, .undo = need_release },
	{ "softgpu host_register", .before = need_reserve, .op = host_register, .undo = need_host_unregister, .after = need_release },
	{ "softgpu phys_create", .op = phys_create, .undo = need_phys_release },
	{ "softgpu map", .before = vmm_up, .op = map, .undo = need_unmap, .after = vmm_down },
	{ "softgpu access", .before = mapped_up, .op = access_range, .after = mapped_down },
	{ "softgpu query", .before = mapped_up, .op = query, .after = mapped_down },
	{ "softgpu stream_create", .op = stream_create, .undo = need_stream_destroy },
	{ "softgpu event_create", .op = event_create, .undo = need_event_destroy },
	{ "softgpu event_record", .before = need_event_create, .op = event_record, .undo = sync_ctx, .after = need_event_destroy },
	{ "softgpu event_sync", .before = need_event_create, .op = event_sync, .after = need_event_destroy },
	{ "softgpu stream_wait", .before = need_event_create, .op = stream_wait, .undo = sync_ctx, .after = need_event_destroy },
	{ "softgpu flush", .op = flush },
	{ "softgpu host_func", .op = host_func, .after = end_host_func },
	{ "softgpu host_func_next", .before = need_host_func, .op = host_func_next, .after = end_host_func },
	{ "softgpu host_func_done", .before = need_host_func_next, .op = host_func_done, .after = end_host_func },
	{ "softgpu mem_free_async", .op = free_async, .undo = sync_ctx },
	{ "softgpu close", .flags = FN_CANNOT_FAIL | FN_MAY_BE_CLEAN, .before = full_file, .op = close_full },
};

/* With device memory at va. */
static const struct stage with_memory[] = {
	{ "softgpu set_attr", .op = set_attr },
	{ "softgpu copy", .op = copy, .undo = sync_ctx },
	{ "softgpu fill", .op = fill, .undo = sync_ctx },
	{ "softgpu watch", .op = watch, .undo = sync_ctx },
	{ "softgpu values", .op = value, .undo = sync_ctx },
	{ "softgpu dmabuf", .op = dmabuf, .undo = close_fd },
	{ "softgpu ipc_export", .op = ipc_export },
};

/* Without it: a call that fails has ended nothing, and ends it the next time. */
static const struct stage ends[] = {
	{ "softgpu mem_free", .before = need_alloc, .op = mem_free, .after = free_if_there },
	{ "softgpu ctx_destroy", .before = need_ctx_create, .op = ctx_destroy, .after = ctx_destroy_if_there },
};

/* ---- memory of another process ---- */

static struct softgpu_ipc_export key;

static int ipc_open(void)
{
	struct softgpu_ipc_open o = { .ctx = g.ctx, .id = key.id, .key = { key.key[0], key.key[1] } };
	int err = SG_CALL(g.fd, SOFTGPU_IPC_OPEN, &o);

	va2 = o.va;
	return err;
}

static int ipc_close(void)
{
	struct softgpu_va a = { .va = va2 };

	return SG_CALL(g.fd, SOFTGPU_IPC_CLOSE, &a);
}

static void need_ipc_close(void)
{
	NEED(!ipc_close());
}

/* The exporter is a child that waits for our end of the pipe to be closed. */
static void ipc_sweep(void)
{
	static const struct stage stage[] = {
		{ "softgpu ipc_open", .op = ipc_open, .undo = need_ipc_close },
	};
	int ready[2], over[2];
	char byte;
	pid_t pid;

	NEED(!pipe(ready) && !pipe(over));
	fflush(stdout);
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		struct gpu own;

		close(over[1]);
		own = gpu_up(0);
		NEED(!sg_alloc(own.fd, own.ctx, 2 * PAGE64, &va));
		key = (struct softgpu_ipc_export){ .va = va };
		NEED(!SG_CALL(own.fd, SOFTGPU_IPC_EXPORT, &key));
		NEED(write(ready[1], &key, sizeof(key)) == sizeof(key));
		_exit(read(over[0], &byte, 1) != 0);
	}
	NEED(read(ready[0], &key, sizeof(key)) == sizeof(key));
	sweep(stage);
	close(over[1]);
	NEED(waitpid(pid, NULL, 0) == pid);
	close(over[0]);
	close(ready[0]);
	close(ready[1]);
}

/* ---- the ends of processes ---- */

static void use_everything(void)
{
	g = gpu_up(0);
	mapped_up();
	NEED(!alloc_big() && !dmabuf() && !stream_create() && !copy());
}

static void in_a_process(void *arg)
{
	(void)arg;
	g = gpu_up(0);
	sweep(alone);
	need_alloc();
	sweep(with_memory);
	free_va();
	sweep(ends);
	ipc_sweep();
}

void fail_nth_softgpu(void)
{
	CHECK(in_child(in_a_process, NULL), "the process of softgpu's calls was killed");
	idle_begins();
	fail_nth_exits("softgpu exit", use_everything, 12, idle);
}
