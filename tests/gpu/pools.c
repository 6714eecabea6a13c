// SPDX-License-Identifier: MIT
/*
 * pools.c - memory of CUDA's stream-ordered pools, shared with another process by peerdma_ipc.h.
 *
 *	LD_PRELOAD=.../libpeerdma-hooks.so pools
 *
 * Each part has two processes of its own: the importer, and a child that exports. Each check prints a line. Runs on
 * softgpu, too; exit code 77: no CUDA, or no such pools.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "checks.h"
#include "../descriptors.h"
#include "pool_calls.h"

#define LENGTH	(3UL << 20)
#define LARGE	(96UL << 20)
#define MANY	8

enum { BUFFER_ID = 7 };			/* CUpointer_attribute */

/* ---- the exporter ---- */

enum op {
	MAKE,			/* the pool */
	ALLOC,			/* length bytes, as memory n, each of them `fill` */
	ALLOC_DEFAULT,		/* the same, of the GPU's own pool */
	FILL, LOOK,		/* LOOK: answers the byte at `length` */
	EXPORT, UNEXPORT,	/* by the library */
	FREE,			/* and waits for the stream */
	FREE_HELD,		/* in a stream that waits until the word is set */
	TRIM, DESTROY,
	PLAIN,			/* fills `length` bytes of cuMemAlloc(): where memory of the pool may have been */
	CONTEXTS,		/* makes another context, and destroys it */
	DIE,
};

struct ask {
	enum op op;
	int n;
	size_t length;
	uint8_t fill;
	unsigned int flags;
};

struct answer {
	int ret;
	uint64_t value;
	struct peerdma_ipc_handle handle;
	char text[400];
};

static int sock;
static pid_t exporter;
static uint64_t *word;			/* both processes' */

static int free_held(gpu_ptr p)
{
	gpu_ptr at;
	void *stream;
	int ret = cu.cuMemHostRegister_v2(word, 4096, 3);

	if (!ret)
		ret = host_pointer(&at, word, 0);
	if (!ret)
		ret = stream_create(&stream, 1);
	if (!ret)
		ret = stream_wait(stream, at, 1, 0);
	if (!ret)
		ret = cu.cuMemFreeAsync(p, stream);
	if (!ret)
		ret = cu.cuStreamSynchronize(stream);
	return ret;
}

static void serve(void)
{
	const struct cuda_pool_props props = { .type = 1, .handle_types = FD, .location_type = 1 };
	struct peerdma_ipc_handle handles[MANY];
	void *pool = NULL, *own = NULL, *context;
	gpu_ptr p[MANY] = { 0 }, plain;
	struct answer a;
	struct ask q;

	start_cuda(0);
	while (read(sock, &q, sizeof(q)) == sizeof(q)) {
		memset(&a, 0, sizeof(a));
		switch (q.op) {
		case MAKE:
			a.ret = pool_create(&pool, &props);
			break;
		case ALLOC:
		case ALLOC_DEFAULT:
			a.ret = default_pool(&own, 0);
			if (!a.ret)
				a.ret = pool_alloc(&p[q.n], q.length, q.op == ALLOC ? pool : own, NULL);
			if (!a.ret)
				a.ret = cu.cuStreamSynchronize(NULL);
			if (a.ret)
				break;
			/* fall through */
		case FILL:
			a.ret = cu.cuMemsetD8_v2(p[q.n], q.fill, q.length);
			if (!a.ret)
				a.ret = synchronize();
			break;
		case LOOK:
			a.ret = cu.cuMemcpyDtoH_v2(&q.fill, p[q.n] + q.length, 1);
			a.value = q.fill;
			break;
		case EXPORT:
			a.ret = peerdma_ipc_export((void *)p[q.n], q.length, q.flags, &handles[q.n]);
			a.handle = handles[q.n];
			snprintf(a.text, sizeof(a.text), "%.399s", peerdma_last_error());
			break;
		case UNEXPORT:
			a.ret = peerdma_ipc_unexport(&handles[q.n]);
			break;
		case FREE:
			a.ret = cu.cuMemFreeAsync(p[q.n], NULL);
			if (!a.ret)
				a.ret = cu.cuStreamSynchronize(NULL);
			break;
		case FREE_HELD:
			a.ret = free_held(p[q.n]);
			break;
		case TRIM:
			a.ret = pool_trim(pool, 0);
			break;
		case DESTROY:
			a.ret = pool_destroy(pool);
			break;
		case PLAIN:
			a.ret = cu.cuMemAlloc_v2(&plain, q.length) || cu.cuMemsetD8_v2(plain, q.fill, q.length) ||
				synchronize();
			break;
		case CONTEXTS:
			a.ret = cu.cuCtxCreate_v2(&context, 0, 0) || cu.cuCtxDestroy_v2(context);
			break;
		case DIE:
			kill(getpid(), SIGKILL);
		}
		if (write(sock, &a, sizeof(a)) != sizeof(a))
			break;
	}
	_exit(0);
}

/* Before this process uses CUDA. */
static void begin(void)
{
	int pair[2];

	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(word == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), "socketpair");
	fflush(stdout);
	exporter = fork();
	sock = pair[!exporter];
	close(pair[!!exporter]);
	if (!exporter) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve();
	}
}

static void tell(struct ask q)
{
	need(write(sock, &q, sizeof(q)) != sizeof(q), "the exporter");
}

static struct answer hear(void)
{
	struct answer a = { .ret = -EPIPE };

	if (read(sock, &a, sizeof(a)) != sizeof(a))
		a.ret = -EPIPE;
	return a;
}

static struct answer ask(struct ask q)
{
	tell(q);
	return hear();
}

#define ASK(...) ask((struct ask) { .op = __VA_ARGS__ })

static void end(void)
{
	kill(exporter, SIGKILL);
	waitpid(exporter, NULL, 0);
}

/* ---- the importer ---- */

/* Every byte of it, or -1: not all are the same; -2: CUDA's error. */
static int bytes_of(gpu_ptr p, size_t length)
{
	uint8_t *b = malloc(length);
	size_t i = 0;
	int ret;

	memset(b, 0xee, length);
	ret = cu.cuMemcpyDtoH_v2(b, p, length) ? -2 : b[0];
	while (i < length && b[i] == b[0])
		i++;
	free(b);
	return ret == -2 || i == length ? ret : -1;
}

static int bytes(const struct peerdma_ipc_memory *m)
{
	return bytes_of((gpu_ptr)m->ptr, m->length);
}

static int open_it(const struct peerdma_ipc_handle *h, struct peerdma_ipc_memory **m)
{
	return peerdma_ipc_open(h, sizeof(*h), 0, m);
}

static struct peerdma_ipc_handle exported(int n, size_t length, uint8_t fill)
{
	struct answer a;

	need(ASK(ALLOC, .n = n, .length = length, .fill = fill).ret, "memory of the pool");
	a = ASK(EXPORT, .n = n, .length = length);
	CHECK(!a.ret, "exported: %d %s", a.ret, a.text);
	return a.handle;
}

static bool empty(void)
{
	struct peerdma_ipc_counters c = { .size = sizeof(c) };

	if (peerdma_ipc_trim_pools())
		return false;
	peerdma_ipc_counters(&c);
	return !c.imports;
}

/* The path, or what it failed with. */
static int copy(struct peerdma_ipc_memory *m, gpu_ptr local, size_t length, uint32_t flags)
{
	struct peerdma_ipc_transfer t = { .size = sizeof(t), .flags = flags, .memory = m, .local = (void *)local, .length = length };
	int ret = peerdma_ipc_copy(&t, 1, NULL, 0);

	return ret ? ret : (int)t.path;
}

/* Device memory at both ends, several at once. */
static int batch(struct peerdma_ipc_memory *m, gpu_ptr local)
{
	struct peerdma_ipc_transfer t[16];

	memset(t, 0, sizeof(t));
	for (size_t i = 0; i < 16; i++) {
		t[i] = (struct peerdma_ipc_transfer) {
			.size = sizeof(t[0]), .flags = PEERDMA_IPC_READ, .memory = m, .local = (void *)(local + i * i * 512),
			.offset = i * 8192, .length = 512,
		};
	}
	return peerdma_ipc_copy(t, 16, NULL, 0);
}

static void two(void)
{
	struct peerdma_ipc_memory *m[3] = { NULL }, *again = NULL;
	struct peerdma_ipc_info info = { .size = sizeof(info) };
	struct peerdma_ipc_handle h[3];
	gpu_ptr local;
	int path;

	begin();
	need(ASK(MAKE).ret, "a pool");
	for (int i = 0; i < 2; i++)
		h[i] = exported(i, LENGTH, (uint8_t)(i + 7));
	start_cuda(0);
	need(cu.cuMemAlloc_v2(&local, LENGTH) || cu.cuMemsetD8_v2(local, 3, LENGTH), "memory");
	for (int i = 0; i < 2; i++)
		CHECK(!open_it(&h[i], &m[i]) && bytes(m[i]) == i + 7, "allocation %d of the pool: its bytes", i);
	CHECK(!open_it(&h[0], &again) && again == m[0] && !peerdma_ipc_close(again), "the same memory opened twice");
	CHECK(!peerdma_ipc_query(m[1]->ptr, &info) && !strcmp(info.provider, "cuda-pool"), "the provider: %s", info.provider);
	CHECK(copy(m[0], local, LENGTH, 0) == PEERDMA_IPC_PATH_CUDA && ASK(LOOK, .n = 0, .length = LENGTH - 1).value == 3 &&
	      bytes(m[1]) == 8, "written to one, not to the other");
	CHECK(copy(m[1], local, LENGTH, PEERDMA_IPC_READ) == PEERDMA_IPC_PATH_CUDA && bytes_of(local, LENGTH) == 8, "read from the other");
	path = copy(m[0], local, 65536, PEERDMA_IPC_READ | PEERDMA_IPC_KERNEL);
	CHECK(path > 0 && bytes_of(local, 65536) == 3, "with _KERNEL: path %d", path);
	path = copy(m[0], local, 64, PEERDMA_IPC_READ | PEERDMA_IPC_POLL);
	CHECK(path > 0, "with _POLL: path %d", path);
	CHECK(!batch(m[1], local) && bytes_of(local + 15 * 15 * 512, 512) == 8, "16 at once");
	/* The pool grows after it was imported. */
	h[2] = exported(2, LARGE, 9);
	CHECK(!open_it(&h[2], &m[2]) && bytes(m[2]) == 9, "memory that the pool got later");
	CHECK(!ASK(FREE, .n = 2).ret && !peerdma_ipc_valid(m[2]) && peerdma_ipc_valid(m[0]) && peerdma_ipc_valid(m[1]),
	      "freed: known, of this allocation only");
	for (int i = 0; i < 3; i++)
		CHECK(!peerdma_ipc_close(m[i]), "closed: %s", peerdma_last_error());
	CHECK(empty(), "nothing is left: %s", peerdma_last_error());
	CHECK(!ASK(FREE, .n = 0).ret && !ASK(FREE, .n = 1).ret && !ASK(TRIM).ret && !ASK(DESTROY).ret,
	      "the exporter frees all, after the importer");
	end();
}

static void refused(void)
{
	struct answer a;

	begin();
	need(ASK(MAKE).ret || ASK(ALLOC_DEFAULT, .n = 0, .length = LENGTH).ret || ASK(ALLOC, .n = 1, .length = LENGTH).ret, "memory");
	a = ASK(EXPORT, .n = 0, .length = LENGTH);
	CHECK(a.ret == -EOPNOTSUPP && strstr(a.text, "default pool"), "of the GPU's own pool: %d, %s", a.ret, a.text);
	a = ASK(EXPORT, .n = 1, .length = LENGTH, .flags = PEERDMA_IPC_ANY_USER);
	CHECK(a.ret == -EOPNOTSUPP && strstr(a.text, "PEERDMA_IPC_ANY_USER"), "for any user: %d, %s", a.ret, a.text);
	CHECK(!ASK(EXPORT, .n = 1, .length = LENGTH).ret, "and otherwise it is exported");
	end();
}

/* Known when cuMemFreeAsync() is called: work before it in its stream may be waiting still. */
static void held(void)
{
	struct peerdma_ipc_memory *m = NULL, *again = NULL;
	struct peerdma_ipc_handle h;
	struct answer a;

	begin();
	need(ASK(MAKE).ret, "a pool");
	h = exported(0, LENGTH, 7);
	start_cuda(0);
	CHECK(!open_it(&h, &m) && peerdma_ipc_valid(m), "opened");
	tell((struct ask) { .op = FREE_HELD, .n = 0 });
	for (int i = 0; i < 10000 && peerdma_ipc_valid(m); i++)
		usleep(1000);
	CHECK(!peerdma_ipc_valid(m) && bytes(m) == 7, "cuMemFreeAsync() was called: not valid, and the bytes are there");
	CHECK(open_it(&h, &again) == -ESTALE, "not opened again");
	CHECK(!peerdma_ipc_close(m) && empty(), "closed before the free is through: %s", peerdma_last_error());
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	a = hear();
	CHECK(!a.ret, "freed: %d", a.ret);
	end();
}

/* CUDA does not count imports: what was closed is not there any more. */
static bool unmapped(gpu_ptr p)
{
	uint64_t id;

	return cu.cuPointerGetAttribute(&id, BUFFER_ID, p);
}

/* Opens what may be at the address of what is open and has ended: that is in the way until it is closed. */
static void open_over(const struct peerdma_ipc_handle *h, struct peerdma_ipc_memory *old, uint8_t byte)
{
	struct peerdma_ipc_memory *m = NULL;
	int ret = open_it(h, &m);
	gpu_ptr was;

	if (ret) {
		CHECK(ret == -EADDRINUSE, "the old memory is in the way: %d %s", ret, peerdma_last_error());
		CHECK(bytes(old) >= 0 && !peerdma_ipc_valid(old), "and is there still: it reads %d", bytes(old));
		CHECK(!peerdma_ipc_close(old), "closed: %s", peerdma_last_error());
		CHECK(!open_it(h, &m), "then the new memory is opened: %s", peerdma_last_error());
	} else {
		CHECK(m->ptr != old->ptr, "opened beside the old memory (%p, %p)", m->ptr, old->ptr);
		CHECK(!peerdma_ipc_close(old), "the old memory closed: %s", peerdma_last_error());
	}
	if (!m)
		return;
	was = (gpu_ptr)m->ptr;
	CHECK(bytes(m) == byte && peerdma_ipc_valid(m), "its bytes: %d", bytes(m));
	CHECK(!peerdma_ipc_close(m) && empty() && unmapped(was), "closed: %s", peerdma_last_error());
}

/* The importer closes what it has after the exporter has freed it, and allocated again. */
static void closed_after(void)
{
	struct peerdma_ipc_memory *old = NULL;
	struct peerdma_ipc_handle h;

	begin();
	need(ASK(MAKE).ret, "a pool");
	h = exported(0, LENGTH, 7);
	start_cuda(0);
	CHECK(!open_it(&h, &old) && !ASK(FREE, .n = 0).ret && !peerdma_ipc_valid(old), "opened, then freed");
	CHECK(bytes(old) == 7, "the importer reads what was there: %d", bytes(old));
	h = exported(0, LENGTH, 8);
	open_over(&h, old, 8);
	end();
}

/* The same, and the next allocation begins there or before that, and is larger. */
static void larger(int old_one)
{
	struct peerdma_ipc_memory *old = NULL;
	struct peerdma_ipc_handle h[2], next;

	begin();
	need(ASK(MAKE).ret, "a pool");
	for (int i = 0; i < 2; i++)
		h[i] = exported(i, LENGTH, (uint8_t)(i + 7));
	start_cuda(0);
	CHECK(!open_it(&h[old_one], &old) && !ASK(FREE, .n = 0).ret && !ASK(FREE, .n = 1).ret, "the %s of two opened, both freed",
	      old_one ? "second" : "first");
	next = exported(0, 2 * LENGTH, 9);
	open_over(&next, old, 9);
	end();
}

static void larger_there(void)
{
	larger(0);
}

static void larger_before(void)
{
	larger(1);
}

/* The importer has closed the old memory before it opens the new one: that stays mapped until then. */
static void closed_before(void)
{
	struct peerdma_ipc_memory *m = NULL, *other = NULL;
	struct peerdma_ipc_handle h[2];

	begin();
	need(ASK(MAKE).ret, "a pool");
	for (int i = 0; i < 2; i++)
		h[i] = exported(i, LENGTH, (uint8_t)(i + 7));
	start_cuda(0);
	CHECK(!open_it(&h[0], &m) && !open_it(&h[1], &other) && !peerdma_ipc_close(m) && !ASK(FREE, .n = 0).ret, "opened, closed, freed");
	h[0] = exported(0, LENGTH, 9);
	CHECK(!open_it(&h[0], &m) && bytes(m) == 9 && bytes(other) == 8, "the new memory, at the first try, and the other one: %s",
	      peerdma_last_error());
	CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_close(other) && empty(), "closed: %s", peerdma_last_error());
	end();
}

/* All of the pool goes, while the importer has memory of it. */
static void pool_gone(void)
{
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_handle h;
	int before;

	begin();
	need(ASK(MAKE).ret, "a pool");
	h = exported(0, LENGTH, 7);
	start_cuda(0);
	CHECK(!open_it(&h, &m) && !ASK(FREE, .n = 0).ret && !ASK(TRIM).ret && !ASK(DESTROY).ret && !peerdma_ipc_valid(m),
	      "freed, the pool trimmed and destroyed");
	before = bytes(m);
	need(ASK(PLAIN, .length = LARGE, .fill = 66).ret, "other memory");
	CHECK(before == 7 && bytes(m) == 7, "the importer reads what was there: %d, and %d when other memory was allocated", before, bytes(m));
	CHECK(!peerdma_ipc_close(m) && empty(), "closed: %s", peerdma_last_error());
	end();
}

static void killed(void)
{
	struct peerdma_ipc_memory *m = NULL, *again = NULL;
	struct peerdma_ipc_handle h;

	begin();
	need(ASK(MAKE).ret, "a pool");
	h = exported(0, LENGTH, 7);
	start_cuda(0);
	CHECK(!open_it(&h, &m), "opened");
	tell((struct ask) { .op = DIE });
	waitpid(exporter, NULL, 0);
	CHECK(!peerdma_ipc_valid(m) && open_it(&h, &again) == -EOWNERDEAD, "the exporter was killed: known");
	CHECK(bytes(m) == 7, "the bytes are there: %d", bytes(m));
	CHECK(!peerdma_ipc_close(m) && empty(), "closed: %s", peerdma_last_error());
}

/* Pools, and memory of them, belong to no context: of the exporter, */
static void context_ends(void)
{
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_handle h;

	begin();
	need(ASK(MAKE).ret, "a pool");
	h = exported(0, LENGTH, 7);
	start_cuda(0);
	CHECK(!open_it(&h, &m) && !ASK(TRIM).ret && peerdma_ipc_valid(m), "opened; a pool that is trimmed keeps what is allocated");
	CHECK(!ASK(CONTEXTS).ret && peerdma_ipc_valid(m) && bytes(m) == 7, "a context of the exporter is destroyed: nothing ends");
	CHECK(!peerdma_ipc_close(m) && empty(), "closed: %s", peerdma_last_error());
	end();
}

/* or of the importer. */
static void own_contexts_end(void)
{
	struct peerdma_ipc_memory *m[2] = { NULL }, *again = NULL;
	struct peerdma_ipc_handle h[2];
	void *context;

	begin();
	need(ASK(MAKE).ret, "a pool");
	for (int i = 0; i < 2; i++)
		h[i] = exported(i, LENGTH, (uint8_t)(i + 7));
	start_cuda(0);
	need(cu.cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate");
	CHECK(!open_it(&h[0], &m[0]) && bytes(m[0]) == 7, "opened in a context");
	need(cu.cuCtxDestroy_v2(context) || primary_reset(0), "the ends of all contexts");
	CHECK(!unmapped((gpu_ptr)m[0]->ptr) && peerdma_ipc_valid(m[0]), "all contexts of the importer have ended: it is there");
	CHECK(open_it(&h[1], &m[1]) == -ENODEV, "in the one that is current nothing is opened: %s", peerdma_last_error());
	start_cuda(0);
	CHECK(bytes(m[0]) == 7 && !open_it(&h[0], &again) && again == m[0] && !peerdma_ipc_close(again), "its bytes: %d", bytes(m[0]));
	CHECK(!open_it(&h[1], &m[1]) && bytes(m[1]) == 8, "other memory of the pool: %s", peerdma_last_error());
	for (int i = 0; i < 2; i++)
		CHECK(!peerdma_ipc_close(m[i]), "closed: %s", peerdma_last_error());
	CHECK(empty() && !ASK(FREE, .n = 0).ret && !ASK(FREE, .n = 1).ret && !ASK(DESTROY).ret, "nothing is left: %s", peerdma_last_error());
	end();
}

/* The program imports the pool itself, too, and frees what the library has mapped. */
static void freed_by_program(void)
{
	struct peerdma_ipc_memory *m = NULL, *again = NULL;
	struct peerdma_ipc_handle h;
	unsigned int before;

	begin();
	need(ASK(MAKE).ret, "a pool");
	h = exported(0, LENGTH, 7);
	start_cuda(0);
	before = descriptors();
	CHECK(!open_it(&h, &m) && bytes(m) == 7, "opened");
	need(cu.cuMemFree_v2((gpu_ptr)m->ptr), "cuMemFree");
	CHECK(!open_it(&h, &again) && again != m && bytes(again) == 7, "freed by the program, and opened again");
	CHECK(!peerdma_ipc_close(m) && bytes(again) == 7 && !peerdma_ipc_close(again) && empty() && descriptors() <= before,
	      "closed: %u descriptors, before %u, %s", descriptors(), before, peerdma_last_error());
	end();
}

/* An export ends, and memory of its pool is exported anew, while the first is open. */
static void anew(void)
{
	struct peerdma_ipc_memory *old = NULL;
	struct peerdma_ipc_handle h;
	struct answer a;

	begin();
	need(ASK(MAKE).ret, "a pool");
	h = exported(0, LENGTH, 7);
	start_cuda(0);
	CHECK(!open_it(&h, &old) && !ASK(UNEXPORT, .n = 0).ret, "opened, and the export ended");
	a = ASK(EXPORT, .n = 0, .length = LENGTH);
	CHECK(!a.ret, "exported again: %s", a.text);
	open_over(&a.handle, old, 7);
	end();
}

/* What the exporter has given up is free memory of the GPU after a trim: with NVIDIA's driver not before. */
static void given_back(void)
{
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_handle h;
	size_t at_first, open, after, all;

	begin();
	need(ASK(MAKE).ret, "a pool");
	start_cuda(0);
	need(memory_info(&at_first, &all), "cuMemGetInfo");
	h = exported(0, LARGE, 7);
	CHECK(!open_it(&h, &m) && bytes(m) == 7, "opened");
	need(memory_info(&open, &all), "cuMemGetInfo");
	CHECK(!ASK(FREE, .n = 0).ret && !peerdma_ipc_close(m) && !ASK(DESTROY).ret && empty(), "closed, destroyed, and trimmed");
	need(memory_info(&after, &all), "cuMemGetInfo");
	CHECK(open + LARGE <= at_first && after + LARGE / 2 > at_first, "%zu MiB are free, then %zu, then %zu", at_first >> 20, open >> 20, after >> 20);
	end();
}

static void second_gpu(void)
{
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_handle h;
	int count = 0, peer = 0, ret, path;
	gpu_ptr local;

	begin();
	need(ASK(MAKE).ret, "a pool");
	h = exported(0, LENGTH, 7);
	need(cu.cuInit(0) || cu.cuDeviceGetCount(&count), "cuInit");
	if (count < 2) {
		printf("# there is no second GPU\n");
		end();
		return;
	}
	start_cuda(1);
	if (can_access_peer)
		can_access_peer(&peer, 1, 0);
	need(cu.cuMemAlloc_v2(&local, LENGTH) || cu.cuMemsetD8_v2(local, 3, LENGTH), "memory");
	ret = open_it(&h, &m);
	CHECK(!ret || !peer, "opened by the second GPU: %d %s", ret, ret ? peerdma_last_error() : "");
	if (m) {
		CHECK(bytes(m) == 7, "its bytes: %d", bytes(m));
		path = copy(m, local, LENGTH, PEERDMA_IPC_READ);
		CHECK(path > 0 && bytes_of(local, LENGTH) == 7, "read by it: path %d", path);
		path = copy(m, local, 4096, PEERDMA_IPC_READ | PEERDMA_IPC_KERNEL);
		CHECK(path > 0, "by a kernel: path %d", path);
		need(cu.cuMemsetD8_v2(local, 4, LENGTH), "cuMemsetD8");
		CHECK(copy(m, local, LENGTH, 0) > 0 && ASK(LOOK, .n = 0, .length = LENGTH - 1).value == 4, "written by it");
		CHECK(!peerdma_ipc_close(m) && empty(), "closed: %s", peerdma_last_error());
	}
	end();
}

/* ---- */

static const struct part {
	const char *name;
	void (*run)(void);
} parts[] = {
	{ "two allocations", two }, { "refused", refused }, { "a free that is held", held }, { "closed after the free", closed_after },
	{ "closed before the free", closed_before }, { "a larger one in its place", larger_there }, { "a larger one around it", larger_before },
	{ "a pool that is gone", pool_gone }, { "an exporter that is killed", killed }, { "a context's end", context_ends },
	{ "the importer's contexts end", own_contexts_end }, { "freed by the program", freed_by_program }, { "exported anew", anew },
	{ "given back", given_back }, { "a second GPU", second_gpu },
};

/* In a process of its own, which has not used CUDA. */
static int run(const struct part *part)
{
	int status;
	pid_t pid;

	printf("# ---- %s\n", part->name);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		setvbuf(stdout, NULL, _IOLBF, 0);
		alarm(60);
		part->run();
		fflush(stdout);
		_exit(check_counts.failures ? 1 : 0);
	}
	waitpid(pid, &status, 0);
	if (status)
		printf("not ok - %s: status %#x\n", part->name, status);
	return status ? 1 : 0;
}

int main(void)
{
	int bad = 0, ret;

	ret = pools_there();
	if (ret)
		return ret;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		bad += run(&parts[i]);
	return bad ? 1 : 0;
}
