// SPDX-License-Identifier: MIT
/*
 * softgpu_uapi_test - /dev/softgpu0 as its header describes it: every call with
 * its struct a byte short and a byte long, fields that must be zero, handles and
 * ranges that are not there.  softgpu_abuse.c: foreign files, mappings.
 * softgpu_deaths.c: what is killed, or goes, while the GPU works for it. softgpu_charged.c: a cgroup at its limit.
 */
#include "sgraw.h"

/* ---- sizes ---- */

struct call {
	unsigned long nr;
	const char *name;
	uint32_t size, least;	/* as it is now, and as it was in the beginning */
};
#define C(name, type) { name, #name, sizeof(struct type), sizeof(struct type) }

static const struct call calls[] = {
	{ SOFTGPU_INFO, "SOFTGPU_INFO", sizeof(struct softgpu_info), offsetof(struct softgpu_info, device_pointers) },
	{ SOFTGPU_WINDOW, "SOFTGPU_WINDOW", sizeof(struct softgpu_window), offsetof(struct softgpu_window, server) },
	C(SOFTGPU_CTX_CREATE, softgpu_ctx_create),
	C(SOFTGPU_CTX_DESTROY, softgpu_handle),
	C(SOFTGPU_CTX_SYNC, softgpu_handle),
	{ SOFTGPU_MEM_ALLOC, "SOFTGPU_MEM_ALLOC", sizeof(struct softgpu_mem_alloc), offsetof(struct softgpu_mem_alloc, flags) },
	C(SOFTGPU_MEM_FREE, softgpu_va),
	C(SOFTGPU_HOST_REGISTER, softgpu_host_register),
	C(SOFTGPU_HOST_UNREGISTER, softgpu_va),
	C(SOFTGPU_VA_RESERVE, softgpu_va_reserve),
	C(SOFTGPU_VA_RELEASE, softgpu_va),
	C(SOFTGPU_PHYS_CREATE, softgpu_phys_create),
	C(SOFTGPU_PHYS_RELEASE, softgpu_handle),
	C(SOFTGPU_PHYS_EXPORT, softgpu_phys_export),
	C(SOFTGPU_PHYS_IMPORT, softgpu_phys_import),
	C(SOFTGPU_MAP, softgpu_map),
	C(SOFTGPU_UNMAP, softgpu_va_range),
	C(SOFTGPU_ACCESS, softgpu_va_range),
	{ SOFTGPU_QUERY, "SOFTGPU_QUERY", sizeof(struct softgpu_query), offsetof(struct softgpu_query, host_va) },
	C(SOFTGPU_SET_ATTR, softgpu_set_attr),
	C(SOFTGPU_STREAM_CREATE, softgpu_stream_create),
	C(SOFTGPU_STREAM_DESTROY, softgpu_stream),
	C(SOFTGPU_STREAM_QUERY, softgpu_stream),
	C(SOFTGPU_STREAM_SYNC, softgpu_stream),
	C(SOFTGPU_EVENT_CREATE, softgpu_event_create),
	C(SOFTGPU_EVENT_DESTROY, softgpu_handle),
	C(SOFTGPU_EVENT_RECORD, softgpu_event),
	C(SOFTGPU_EVENT_QUERY, softgpu_event),
	C(SOFTGPU_EVENT_SYNC, softgpu_event),
	C(SOFTGPU_STREAM_WAIT, softgpu_event),
	C(SOFTGPU_COPY, softgpu_copy),
	C(SOFTGPU_FILL, softgpu_fill),
	C(SOFTGPU_WATCH, softgpu_watch),
	C(SOFTGPU_FLUSH, softgpu_handle),
	C(SOFTGPU_VALUE, softgpu_value),
	C(SOFTGPU_HOST_FUNC, softgpu_host_func),
	C(SOFTGPU_HOST_FUNC_NEXT, softgpu_host_func),
	C(SOFTGPU_HOST_FUNC_DONE, softgpu_host_func),
	C(SOFTGPU_MEM_FREE_ASYNC, softgpu_mem_free_async),
	C(SOFTGPU_IPC_EXPORT, softgpu_ipc_export),
	C(SOFTGPU_IPC_OPEN, softgpu_ipc_open),
	C(SOFTGPU_IPC_CLOSE, softgpu_va),
	C(SOFTGPU_DMABUF, softgpu_dmabuf),
};
#define NCALLS	(sizeof(calls) / sizeof(calls[0]))

static int raw(int fd, unsigned long nr, void *arg, uint32_t size)
{
	*(uint32_t *)arg = size;
	return ioctl(fd, nr, arg) ? errno : 0;
}

/*
 * The struct stands at the end of a page, with nothing mapped behind it: a call
 * that reads or writes beyond it shows as EFAULT.
 */
static void *page_end(char *page, uint32_t size)
{
	memset(page, 0, PAGE);
	return page + PAGE - (size + 7) / 8 * 8;
}

/* With 16 KiB of zeros, but for a byte. */
static int longer(int fd, unsigned long nr, char *two, uint32_t size, uint32_t at, char byte)
{
	memset(two, 0, 16384);
	two[at] = byte;
	return raw(fd, nr, two, size);
}

static void sizes_of(int fd, const struct call *c, char *page, char *two)
{
	char *arg = page_end(page, c->size);
	int exact;

	CHECK(raw(fd, c->nr, arg, c->least - 1) == EINVAL, "%s: a byte short", c->name);
	CHECK(raw(fd, c->nr, arg, 0) == EINVAL, "%s: size 0", c->name);
	CHECK(raw(fd, c->nr, arg, 4) == EINVAL, "%s: size 4", c->name);

	/* Zeroed arguments: whatever it says, a longer struct of zeros must say, too. */
	exact = raw(fd, c->nr, arg, c->size);
	CHECK(exact != EFAULT && exact != E2BIG && exact != ENOTTY, "%s: exact size gives %d", c->name, exact);
	CHECK(longer(fd, c->nr, two, c->size + 1, 0, 0) == exact, "%s: a zero byte longer", c->name);
	CHECK(longer(fd, c->nr, two, c->size + 1, c->size, 1) == E2BIG, "%s: a byte longer", c->name);
	CHECK(longer(fd, c->nr, two, 4096, 4095, 1) == E2BIG, "%s: 4 KiB", c->name);
	CHECK(longer(fd, c->nr, two, 8192, 0, 0) == E2BIG, "%s: 8 KiB", c->name);
	CHECK(longer(fd, c->nr, two, ~0u, 0, 0) == E2BIG, "%s: 4 GiB", c->name);

	/* What cannot be read, and what cannot be written. */
	CHECK(ioctl(fd, c->nr, page + PAGE) && errno == EFAULT, "%s: unmapped", c->name);
	CHECK(ioctl(fd, c->nr, NULL) && errno == EFAULT, "%s: NULL", c->name);
	CHECK(ioctl(fd, c->nr, (void *)-4096L) && errno == EFAULT, "%s: the kernel's", c->name);
	*(uint32_t *)(page + PAGE - 8) = c->size;
	if (c->size > 8)
		CHECK(ioctl(fd, c->nr, page + PAGE - 8) && errno == EFAULT, "%s: half unmapped", c->name);
	arg = page_end(page, c->size);
	*(uint32_t *)arg = c->size;
	MUST(!mprotect(page, PAGE, PROT_READ));
	CHECK(ioctl(fd, c->nr, arg) && errno == EFAULT, "%s: read-only", c->name);
	MUST(!mprotect(page, PAGE, PROT_READ | PROT_WRITE));
}

static void sizes(struct gpu *g)
{
	char *page = anonymous(2 * PAGE), *two = anonymous(16384);

	MUST(!munmap(page + PAGE, PAGE));
	for (size_t i = 0; i < NCALLS; i++)
		sizes_of(g->fd, &calls[i], page, two);
	munmap(page, PAGE);
	munmap(two, 16384);
}

static void no_such_call(struct gpu *g)
{
	uint64_t arg[32] = { sizeof(arg) };
	unsigned int nr;
	size_t i;

	for (nr = 0; nr < 256; nr++) {
		bool known = false;

		for (i = 0; i < NCALLS; i++)
			known |= _IOC_NR(calls[i].nr) == nr;
		if (!known)
			EXPECT(ioctl(g->fd, SOFTGPU_IOC(nr), arg) ? errno : 0, ENOTTY);
	}
	/* The right number with another size or magic is another call. */
	EXPECT(ioctl(g->fd, _IOC(_IOC_READ | _IOC_WRITE, SOFTGPU_IOC_MAGIC, 0, 16), arg) ? errno : 0,
	       ENOTTY);
	EXPECT(ioctl(g->fd, _IOC(_IOC_READ, SOFTGPU_IOC_MAGIC, 0, 0), arg) ? errno : 0, ENOTTY);
	EXPECT(ioctl(g->fd, _IOC(_IOC_READ | _IOC_WRITE, 'x', 0, 0), arg) ? errno : 0, ENOTTY);
}

/* ---- fields that must be zero ---- */

#define FLAG(g, nr, type, field, want, ...) do {				\
	struct type a_ = { __VA_ARGS__ };					\
	a_.field = 0x40000000;							\
	EXPECT(SG_CALL((g)->fd, nr, &a_), want);				\
} while (0)

static void unknown_flags(struct gpu *g)
{
	uint64_t va;

	MUST(!sg_alloc(g->fd, g->ctx, PAGE64, &va));
	FLAG(g, SOFTGPU_CTX_CREATE, softgpu_ctx_create, flags, EINVAL, 0);
	FLAG(g, SOFTGPU_CTX_CREATE, softgpu_ctx_create, reserved, EINVAL, 0);
	FLAG(g, SOFTGPU_MEM_FREE, softgpu_va, flags, EINVAL, .va = va);
	FLAG(g, SOFTGPU_HOST_UNREGISTER, softgpu_va, flags, EINVAL, .va = va);
	FLAG(g, SOFTGPU_VA_RELEASE, softgpu_va, flags, EINVAL, .va = va);
	FLAG(g, SOFTGPU_VA_RESERVE, softgpu_va_reserve, flags, EINVAL, .length = PAGE64);
	FLAG(g, SOFTGPU_PHYS_CREATE, softgpu_phys_create, flags, EINVAL, .length = PAGE64);
	FLAG(g, SOFTGPU_PHYS_CREATE, softgpu_phys_create, reserved, EINVAL, .length = PAGE64);
	FLAG(g, SOFTGPU_MAP, softgpu_map, flags, EINVAL, .length = PAGE64, .va = va);
	FLAG(g, SOFTGPU_UNMAP, softgpu_va_range, access, EINVAL, .va = va, .length = PAGE64);
	FLAG(g, SOFTGPU_ACCESS, softgpu_va_range, access, EINVAL, .va = va, .length = PAGE64);
	FLAG(g, SOFTGPU_STREAM_CREATE, softgpu_stream_create, flags, EINVAL, .ctx = g->ctx);
	FLAG(g, SOFTGPU_STREAM_QUERY, softgpu_stream, reserved, EINVAL, .ctx = g->ctx);
	FLAG(g, SOFTGPU_STREAM_SYNC, softgpu_stream, reserved, EINVAL, .ctx = g->ctx);
	FLAG(g, SOFTGPU_EVENT_CREATE, softgpu_event_create, flags, EINVAL, .ctx = g->ctx);
	FLAG(g, SOFTGPU_COPY, softgpu_copy, flags, EINVAL, .ctx = g->ctx, .dst = va, .src = va,
	     .width = 1, .height = 1);
	FLAG(g, SOFTGPU_FILL, softgpu_fill, flags, EINVAL, .ctx = g->ctx, .dst = va, .width = 1,
	     .height = 1, .elem = 1);
	FLAG(g, SOFTGPU_FILL, softgpu_fill, elem, EINVAL, .ctx = g->ctx, .dst = va, .width = 1,
	     .height = 1);
	FLAG(g, SOFTGPU_SET_ATTR, softgpu_set_attr, attr, EINVAL, .va = va);
	FLAG(g, SOFTGPU_SET_ATTR, softgpu_set_attr, value, EINVAL, .va = va,
	     .attr = SOFTGPU_ATTR_SYNC_MEMOPS);
	FLAG(g, SOFTGPU_HOST_REGISTER, softgpu_host_register, kind, EINVAL, .ctx = g->ctx,
	     .va = 4096, .length = 4096);
	EXPECT(sg_free(g->fd, va), 0);
}

/* ---- handles ---- */

static void bad_handles(struct gpu *g)
{
	static const uint32_t bad[] = { 0, 0x7fffffff, 0xffffffff };
	struct softgpu_stream_create s = { .ctx = g->ctx };
	struct softgpu_event_create e = { .ctx = g->ctx };
	struct softgpu_handle h;
	uint64_t va;
	size_t i;

	EXPECT(SG_CALL(g->fd, SOFTGPU_STREAM_CREATE, &s), 0);
	EXPECT(SG_CALL(g->fd, SOFTGPU_EVENT_CREATE, &e), 0);
	for (i = 0; i < 3; i++) {
		struct softgpu_stream st = { .ctx = bad[i], .stream = s.stream };
		struct softgpu_event ev = { .ctx = g->ctx, .event = bad[i] };

		h = (struct softgpu_handle){ .handle = bad[i] };
		EXPECT(SG_CALL(g->fd, SOFTGPU_CTX_DESTROY, &h), ENOENT);
		EXPECT(SG_CALL(g->fd, SOFTGPU_CTX_SYNC, &h), ENOENT);
		EXPECT(SG_CALL(g->fd, SOFTGPU_PHYS_RELEASE, &h), ENOENT);
		EXPECT(SG_CALL(g->fd, SOFTGPU_EVENT_DESTROY, &h), ENOENT);
		/* Memory can be no context's. */
		EXPECT(sg_alloc(g->fd, bad[i], PAGE64, &va), bad[i] ? ENOENT : 0);
		if (!bad[i])
			EXPECT(sg_free(g->fd, va), 0);
		EXPECT(SG_CALL(g->fd, SOFTGPU_STREAM_QUERY, &st), ENOENT);
		EXPECT(SG_CALL(g->fd, SOFTGPU_EVENT_RECORD, &ev), ENOENT);
		EXPECT(SG_CALL(g->fd, SOFTGPU_STREAM_WAIT, &ev), ENOENT);
		EXPECT(SG_CALL(g->fd, SOFTGPU_EVENT_QUERY, &ev), ENOENT);
		EXPECT(SG_CALL(g->fd, SOFTGPU_EVENT_SYNC, &ev), ENOENT);
		if (bad[i]) {
			st = (struct softgpu_stream){ .ctx = g->ctx, .stream = bad[i] };
			EXPECT(SG_CALL(g->fd, SOFTGPU_STREAM_SYNC, &st), ENOENT);
			EXPECT(SG_CALL(g->fd, SOFTGPU_STREAM_DESTROY, &st), ENOENT);
		}
	}
	/* A handle of one type is none of another. */
	h = (struct softgpu_handle){ .handle = s.stream };
	EXPECT(SG_CALL(g->fd, SOFTGPU_CTX_DESTROY, &h), ENOENT);
	EXPECT(SG_CALL(g->fd, SOFTGPU_EVENT_DESTROY, &h), ENOENT);
	EXPECT(SG_CALL(g->fd, SOFTGPU_PHYS_RELEASE, &h), ENOENT);
	h.handle = e.event;
	EXPECT(SG_CALL(g->fd, SOFTGPU_EVENT_DESTROY, &h), 0);
	EXPECT(SG_CALL(g->fd, SOFTGPU_EVENT_DESTROY, &h), ENOENT);
	/* Nor is one that has gone. */
	EXPECT(sg_ctx_destroy(g->fd, g->ctx), 0);
	EXPECT(sg_ctx_destroy(g->fd, g->ctx), ENOENT);
	EXPECT(sg_ctx_sync(g->fd, g->ctx), ENOENT);
	EXPECT(sg_alloc(g->fd, g->ctx, PAGE64, &va), ENOENT);
}

/* ---- ranges ---- */

/* The order in which it looks at the range and at the overflow is its own. */
static void out_of_range(int err)
{
	CHECK(err == EFAULT || err == EINVAL, "%d", err);
}

static void huge_ranges(struct gpu *g)
{
	static const uint64_t huge[] = { 1ULL << 40, 1ULL << 62, ~0ULL, ~0ULL - PAGE64 + 1,
					 1ULL << 63 };
	uint64_t va, other;
	size_t i;

	MUST(!sg_alloc(g->fd, g->ctx, 4 * PAGE64, &va));
	EXPECT(sg_alloc(g->fd, g->ctx, 0, &other), EINVAL);
	for (i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
		uint64_t n = huge[i];
		struct softgpu_va_reserve r = { .length = n & ~(PAGE64 - 1) };
		struct softgpu_va_range u = { .va = va, .length = n };
		struct softgpu_phys_create p = { .length = n & ~(PAGE64 - 1) };
		struct softgpu_copy c = { .ctx = g->ctx, .dst = va, .src = va, .width = n,
					  .height = 1 };
		struct softgpu_fill f = { .ctx = g->ctx, .dst = va, .width = n, .height = 1,
					  .elem = 1 };

		EXPECT(sg_alloc(g->fd, g->ctx, n, &other), ENOSPC);
		EXPECT(SG_CALL(g->fd, SOFTGPU_VA_RESERVE, &r), ENOSPC);
		EXPECT(SG_CALL(g->fd, SOFTGPU_PHYS_CREATE, &p), ENOSPC);
		EXPECT(SG_CALL(g->fd, SOFTGPU_UNMAP, &u), EINVAL);
		out_of_range(SG_CALL(g->fd, SOFTGPU_COPY, &c));
		c.width = 16;
		c.height = n;
		c.dst_pitch = 16;
		c.src_pitch = 16;
		out_of_range(SG_CALL(g->fd, SOFTGPU_COPY, &c));
		c.height = 2;
		c.dst_pitch = n;
		out_of_range(SG_CALL(g->fd, SOFTGPU_COPY, &c));
		out_of_range(SG_CALL(g->fd, SOFTGPU_FILL, &f));
		f.elem = 4;
		f.height = n;
		f.pitch = n & ~3ULL;
		out_of_range(SG_CALL(g->fd, SOFTGPU_FILL, &f));
		EXPECT(sg_free(g->fd, n), ENOENT);
	}
	EXPECT(sg_free(g->fd, va + 1), ENOENT);
	EXPECT(sg_free(g->fd, va + PAGE64), ENOENT);
	EXPECT(sg_copy(g->fd, g->ctx, va, va + 4 * PAGE64, 1, 0), EFAULT);
	EXPECT(sg_copy(g->fd, g->ctx, va + 4 * PAGE64 - 1, va, 2, 0), EFAULT);
	EXPECT(sg_free(g->fd, va), 0);
	EXPECT(sg_free(g->fd, va), ENOENT);
	EXPECT(sg_copy(g->fd, g->ctx, va, PTR(&va), 4, SOFTGPU_OP_SYNC), EFAULT);
}

/* Until VRAM is full, and then all of it again. */
static void vram_is_full(struct gpu *g)
{
	struct softgpu_info before = sg_need_info(g->fd);
	uint64_t va, n = 0, first = 0;

	while (!sg_alloc(g->fd, g->ctx, before.vram_total / 16, &va)) {
		first = first ? first : va;
		n++;
	}
	EXPECT(n, 16);
	EXPECT(sg_need_info(g->fd).vram_free, 0);
	EXPECT(sg_alloc(g->fd, g->ctx, 1, &va), ENOSPC);
	EXPECT(sg_free(g->fd, first), 0);
	EXPECT(sg_alloc(g->fd, g->ctx, before.vram_total / 16, &va), 0);
	EXPECT(sg_ctx_destroy(g->fd, g->ctx), 0);
	EXPECT(sg_need_info(g->fd).vram_free, before.vram_free);
}

/* ---- and what works ---- */

static void copies(struct gpu *g)
{
	size_t n = (3 << 20) + 12345, i;
	unsigned char *a = malloc(n), *b = calloc(1, n);
	uint64_t x, y;

	MUST(a && b && !sg_alloc(g->fd, g->ctx, n, &x) && !sg_alloc(g->fd, g->ctx, n, &y));
	for (i = 0; i < n; i++)
		a[i] = i * 37 >> 3;
	EXPECT(sg_copy(g->fd, g->ctx, x, PTR(a), n, 0), 0);
	EXPECT(sg_copy(g->fd, g->ctx, y, x, n, 0), 0);
	EXPECT(sg_copy(g->fd, g->ctx, PTR(b), y, n, SOFTGPU_OP_SYNC), 0);
	CHECK(!memcmp(a, b, n), "host to device to device to host");
	memset(b, 0, n);
	EXPECT(sg_copy(g->fd, g->ctx, PTR(b), PTR(a), n, SOFTGPU_OP_SYNC), 0);
	CHECK(!memcmp(a, b, n), "host to host");
	free(a);
	free(b);
}

/* New memory holds nothing of the old one's. */
static void zeroed(struct gpu *g)
{
	unsigned char *host = malloc(1 << 20);
	uint64_t va;
	size_t i, bad = 0;
	int round;

	MUST(host);
	for (round = 0; round < 4; round++) {
		MUST(!sg_alloc(g->fd, g->ctx, 1 << 20, &va));
		EXPECT(sg_copy(g->fd, g->ctx, PTR(host), va, 1 << 20, SOFTGPU_OP_SYNC), 0);
		for (i = 0; i < 1 << 20; i++)
			bad += host[i] != 0;
		memset(host, 0xa5, 1 << 20);
		EXPECT(sg_copy(g->fd, g->ctx, va, PTR(host), 1 << 20, SOFTGPU_OP_SYNC), 0);
		EXPECT(sg_free(g->fd, va), 0);
	}
	CHECK(!bad, "%zu bytes of other allocations", bad);
	free(host);
}

/* A host address that is not there kills the context, and only it. */
static void copy_faults(struct gpu *g)
{
	uint32_t other = sg_ctx(g->fd);
	uint64_t va, elsewhere;
	uint32_t word = 1;

	MUST(other && !sg_alloc(g->fd, g->ctx, PAGE64, &va));
	MUST(!sg_alloc(g->fd, other, PAGE64, &elsewhere));
	EXPECT(sg_copy(g->fd, g->ctx, va, 0x1000, 64, SOFTGPU_OP_SYNC), EIO);
	EXPECT(sg_copy(g->fd, g->ctx, va, PTR(&word), 4, SOFTGPU_OP_SYNC), EIO);
	EXPECT(sg_ctx_sync(g->fd, g->ctx), EIO);
	EXPECT(sg_copy(g->fd, other, elsewhere, PTR(&word), 4, SOFTGPU_OP_SYNC), 0);
	/* The kernel's memory is not the program's. */
	EXPECT(sg_copy(g->fd, other, 0xffff888000100000ULL, elsewhere, 64, SOFTGPU_OP_SYNC), EIO);
}

static const struct gpu_case cases[] = {
	{ "sizes: a byte short, a byte long, unreadable, unwritable", sizes },
	{ "no such call", no_such_call },
	{ "unknown flags", unknown_flags },
	{ "bad handles", bad_handles },
	{ "huge and overflowing ranges", huge_ranges },
	{ "VRAM is full", vram_is_full },
	{ "copies", copies },
	{ "new memory is zeroed", zeroed },
	{ "a copy that faults", copy_faults },
	{ }
};

int main(int argc, char **argv)
{
	if (argc == 2)
		return after_exec(atoi(argv[1]));
	if (access("/dev/softgpu0", F_OK))
		check_skip("no /dev/softgpu0: load softgpu.ko first");
	run_cases(cases, NULL);
	run_cases(abuse_cases, NULL);
	run_cases(death_cases, NULL);
	run_cases(charged_cases, NULL);
	return check_end("softgpu_uapi_test");
}
