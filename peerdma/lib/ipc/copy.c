// SPDX-License-Identifier: MIT
/*
 * copy.c - copies between this process's memory and what it has opened.
 *
 * Everything is checked before anything is copied. Whether the export is live is checked before and
 * after: bytes that were read from an export that ended meanwhile are reported as worthless. An
 * importer's mapping keeps the memory allocated, so that no copy touches another allocation, except
 * in small allocations (cuda.c) and pools (cuda_pool.c) of CUDA.
 */
#include <stdlib.h>
#include <string.h>

#include "signal.h"

#define KERNEL_MOST	(16ULL << 20)
#define POLL_MOST	(64ULL << 10)
/*
 * A 2D copy takes the time of two copies of a batch.  Rows that are longer, within one GPU, take more time than as many
 * copies: then nothing waits for the submission.
 */
#define ROWS_FEWEST	3
#define ROW_LONGEST	(2ULL << 20)
#define TRANSFER_FIRST END_OF(struct peerdma_ipc_transfer, reserved)

struct batch {
	char *transfers;
	size_t n, size;
	struct peerdma_ipc_signal *done;
	uint64_t value;
	int error;		/* of CUDA, for all that it copies */
};

static struct peerdma_ipc_transfer *at(const struct batch *b, size_t i)
{
	return (struct peerdma_ipc_transfer *)(b->transfers + i * b->size);
}

static const struct ipc_range *range_of(const struct peerdma_ipc_transfer *t)
{
	return (const struct ipc_range *)t->memory;
}

static int live(const struct peerdma_ipc_transfer *t)
{
	const struct ipc_mapping *m = range_of(t)->mapping;

	return ipc_exporter_live(m->exporter, m->slot, m->generation);
}

/* ---- checks ---- */

static int check(const struct batch *b)
{
	struct peerdma_ipc_transfer known;

	for (size_t i = 0; i < b->n; i++) {
		const struct peerdma_ipc_transfer *t = at(b, i);
		int ret;

		if (t->size != b->size)
			return fail(-EINVAL, "transfer %zu: its size field is %u, but the first transfer's is %zu", i, t->size, b->size);
		ret = take_in("peerdma_ipc_copy", &known, sizeof(known), TRANSFER_FIRST, t);
		if (ret)
			return ret;
		if (t->flags & ~(PEERDMA_IPC_READ | PEERDMA_IPC_KERNEL | PEERDMA_IPC_POLL) || !all_zero(t->reserved, sizeof(t->reserved)))
			return fail(-EINVAL, "transfer %zu: unknown flags, or something reserved is set; set both to zero", i);
		if (!t->memory || (!t->local && t->length))
			return fail(-EINVAL, "transfer %zu: %s is NULL", i, t->memory ? "local" : "memory");
		if (!ipc_mine(range_of(t)->ipc))
			return fail(-EPERM, "transfer %zu: a parent process opened the memory; open it here", i);
		if (t->length > t->memory->length || t->offset > t->memory->length - t->length ||
		    (uintptr_t)t->local + t->length < (uintptr_t)t->local)
			return fail(-EINVAL, "transfer %zu: [%llu, +%llu) passes the end of the memory, which has %llu bytes", i,
				    (unsigned long long)t->offset, (unsigned long long)t->length,
				    (unsigned long long)t->memory->length);
	}
	return 0;
}

/* ---- which way ---- */

static bool is_cuda(const struct peerdma_ipc_transfer *t)
{
	enum ipc_provider_id provider = range_of(t)->mapping->provider->id;

	return provider == IPC_CUDA || provider == IPC_CUDA_VMM || provider == IPC_CUDA_POOL;
}

/* For large copies engines are as fast, and take nothing from others. */
static bool kernel_can(const struct peerdma_ipc_transfer *t, struct ipc_reach *reach)
{
	return t->length <= KERNEL_MOST && ipc_cuda_kernel_reaches(reach, range_of(t)->mapping, t->local, t->length);
}

static int choose_by_local(const struct peerdma_ipc_transfer *t, enum peerdma_ipc_path *path)
{
	struct peerdma_memory local = { .size = sizeof(local) };
	int ret = peerdma_query(NULL, t->local, &local);

	if (ret)
		return ret;
	if (local.kind == PEERDMA_KIND_DEVICE || local.kind == PEERDMA_KIND_MANAGED)
		*path = local.flags & PEERDMA_MEMORY_HSA ? PEERDMA_IPC_PATH_HSA : PEERDMA_IPC_PATH_CUDA;
	else
		*path = range_of(t)->mapping->provider->id == IPC_HSA ? PEERDMA_IPC_PATH_HSA : PEERDMA_IPC_PATH_CPU;
	return 0;
}

static int choose(const struct peerdma_ipc_transfer *t, struct ipc_reach *reach, enum peerdma_ipc_path *path)
{
	if (!is_cuda(t))
		return choose_by_local(t, path);
	*path = t->flags & PEERDMA_IPC_KERNEL && kernel_can(t, reach) ? PEERDMA_IPC_PATH_KERNEL : PEERDMA_IPC_PATH_CUDA;
	return 0;
}

/* ---- copies ---- */

static void count(const struct peerdma_ipc_transfer *t)
{
	struct ipc *ipc = range_of(t)->ipc;

	__atomic_fetch_add(&ipc->counters.copies[t->path], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&ipc->counters.bytes[t->path], t->length, __ATOMIC_RELAXED);
}

/* Copies that one call of CUDA's will make. */
struct together {
	struct ipc_copies copies;
	struct peerdma_ipc_transfer *of[IPC_COPIES];
	unsigned int groups[IPC_COPIES];	/* copies of one group are from one buffer to one buffer */
	unsigned int n;
};

/* What CUDA has been given so far. */
struct given {
	void *stream;
	struct together kernel, engines;
	void *function;		/* the kernel */
	bool asked;		/* for it */
	bool many;		/* there are several transfers */
	uintptr_t base;		/* of the device memory that was last looked at, with its length */
	uint64_t length;
	const struct ipc_mapping *mapping;	/* of the last copy for engines, and its flags */
	uint32_t flags;
	unsigned int group;
};

static int add(struct together *g, struct peerdma_ipc_transfer *t, void *to, const void *from)
{
	g->copies.copy[g->n].to = (uintptr_t)to;
	g->copies.copy[g->n].from = (uintptr_t)from;
	g->copies.copy[g->n].length = t->length;
	g->of[g->n++] = t;
	return -EINPROGRESS;
}

static int began(struct peerdma_ipc_transfer *t, int error)
{
	if (!error) {
		count(t);
		return 0;
	}
	t->error = error;
	t->path = PEERDMA_IPC_PATH_NONE;
	return error;
}

/* The first error, which all have. */
static int launch(struct given *given)
{
	struct together *g = &given->kernel;
	int ret = g->n ? ipc_cuda_kernel(given->stream, given->function, &g->copies, g->n) : 0;

	for (unsigned int i = 0; i < g->n; i++)
		began(g->of[i], ret);
	g->n = 0;
	return ret;
}

/* Buffers that lie side by side are still two: CUDA copies within one. */
static void set_group(struct given *given, const struct peerdma_ipc_transfer *t)
{
	if (given->mapping != range_of(t)->mapping || given->flags != t->flags)
		given->group++;
	given->mapping = range_of(t)->mapping;
	given->flags = t->flags;
	given->engines.groups[given->engines.n] = given->group;
}

static int copy_rows(void *stream, const struct ipc_copy_2d *rows, bool all)
{
	const struct ipc_copy *first = rows->first;

	if (rows->n == 1)
		return -EOPNOTSUPP;
	if (rows->to_pitch == first->length && rows->from_pitch == first->length)
		return ipc_cuda_copy(stream, first->to, first->from, rows->n * first->length);
	return (all || rows->n >= ROWS_FEWEST) && first->length <= ROW_LONGEST ? ipc_cuda_copy_2d(stream, rows) : -EOPNOTSUPP;
}

/* Copies what is rows; the others stay, in their order. */
static void take_rows(struct given *given)
{
	struct together *g = &given->engines;
	unsigned int left = 0;
	struct ipc_copy_2d rows;

	for (unsigned int i = 0; i < g->n; i += rows.n) {
		bool taken;

		rows = ipc_copy_2d(g->copies.copy, g->groups, i, g->n);
		taken = !copy_rows(given->stream, &rows, rows.n == g->n);
		if (!taken && rows.n > 1 && rows.n < ROWS_FEWEST)
			rows.n--;	/* the last one may be the first of others */
		for (unsigned int j = i; j < i + rows.n; j++) {
			if (taken) {
				began(g->of[j], 0);
				continue;
			}
			g->copies.copy[left] = g->copies.copy[j];
			g->of[left++] = g->of[j];
		}
	}
	g->n = left;
}

/* The first error.  What a batch cannot have, or a driver not do, is copied one by one. */
static int engines(struct given *given)
{
	struct together *g = &given->engines;
	int together, first = 0;

	take_rows(given);
	together = g->n > 1 ? ipc_cuda_batch(given->stream, &g->copies, g->n) : -EOPNOTSUPP;
	for (unsigned int i = 0; i < g->n; i++) {
		int ret = together ? ipc_cuda_copy(given->stream, g->copies.copy[i].to, g->copies.copy[i].from, g->copies.copy[i].length) : 0;

		ret = began(g->of[i], ret);
		if (!first)
			first = ret;
	}
	g->n = 0;
	return first;
}

static int full(struct given *given)
{
	if (given->kernel.n == IPC_COPIES)
		return launch(given);
	return given->engines.n == IPC_COPIES ? engines(given) : 0;
}

static bool look(struct given *given, const void *ptr)
{
	struct peerdma_memory memory = { .size = sizeof(memory) };

	if (peerdma_query(NULL, ptr, &memory) || memory.kind != PEERDMA_KIND_DEVICE || memory.flags & PEERDMA_MEMORY_HSA)
		return false;
	given->base = memory.base;
	given->length = memory.length;
	given->group++;
	return true;
}

/* Most often the next part of one buffer, which is not freed meanwhile. */
static bool on_device(struct given *given, const void *ptr)
{
	return (uintptr_t)ptr - given->base < given->length || look(given, ptr);
}

/* Between GPUs a batch takes half the time of as many calls, and rows a tenth.  What is on the host may be pageable, and is in neither. */
static bool together(struct given *given, const struct peerdma_ipc_transfer *t)
{
	return given->many && is_cuda(t) && on_device(given, t->local);
}

static int copy_one(struct peerdma_ipc_transfer *t, struct given *given)
{
	char *there = (char *)t->memory->ptr + t->offset;
	void *to = t->flags & PEERDMA_IPC_READ ? t->local : there;
	const void *from = t->flags & PEERDMA_IPC_READ ? there : t->local;
	int ret = live(t);

	if (ret)
		return ipc_fail_live(range_of(t)->mapping->exporter, ret);
	switch (t->path) {
	case PEERDMA_IPC_PATH_CUDA:
		if (together(given, t)) {
			set_group(given, t);
			return add(&given->engines, t, to, from);
		}
		ret = ipc_cuda_copy(given->stream, (uintptr_t)to, (uintptr_t)from, t->length);
		return began(t, ret) ? ret : -EINPROGRESS;
	case PEERDMA_IPC_PATH_KERNEL:
		return add(&given->kernel, t, to, from);
	case PEERDMA_IPC_PATH_HSA:
		ret = ipc_hsa_copy(to, from, t->length);
		break;
	default:
		memmove(to, from, t->length);
	}
	if (ret)
		return ret;
	ret = live(t);
	return began(t, ret ? ipc_fail_live(range_of(t)->mapping->exporter, ret) : 0);
}

/* What CUDA copied is complete, or has failed.  Runs in a thread of CUDA's, too. */
static int finish(const struct batch *b)
{
	int first = 0;

	for (size_t i = 0; i < b->n; i++) {
		struct peerdma_ipc_transfer *t = at(b, i);

		if (t->error == -EINPROGRESS) {
			int error = b->error ? b->error : live(t);

			__atomic_store_n(&t->error, error, __ATOMIC_RELEASE);
		}
		if (!first)
			first = t->error;
	}
	return first;
}

static void finish_later(void *stream, int error, void *arg)
{
	struct batch *b = arg;

	b->error = error ? -EIO : 0;
	if (error)
		ipc_cuda_stream_lost(stream);
	finish(b);
	if (ipc_mine(b->done->ipc)) {
		ipc_signal_store(b->done, b->value);
		ipc_signal_put(b->done, true);
	}
	free(b);
}

/* Starts all; *pending: some of CUDA's run.  The first error. */
static int start(struct batch *b, void **stream, bool *pending)
{
	struct given given;
	struct ipc_reach reach = { 0 };
	int first = 0, ret = 0;

	given.stream = NULL;
	given.kernel.n = given.engines.n = 0;
	given.asked = false;
	given.many = b->n > 1;
	given.base = given.length = 0;
	given.mapping = NULL;
	given.flags = given.group = 0;
	for (size_t i = 0; i < b->n; i++) {
		struct peerdma_ipc_transfer *t = at(b, i);
		enum peerdma_ipc_path path = PEERDMA_IPC_PATH_NONE;

		t->path = PEERDMA_IPC_PATH_NONE;
		ret = t->length ? choose(t, &reach, &path) : 0;
		if (!ret && (path == PEERDMA_IPC_PATH_CUDA || path == PEERDMA_IPC_PATH_KERNEL) && !given.stream)
			ret = ipc_cuda_stream(&given.stream);
		if (!ret && path == PEERDMA_IPC_PATH_KERNEL && !given.asked) {
			given.function = ipc_cuda_function(given.stream);
			given.asked = true;
		}
		if (!ret && path == PEERDMA_IPC_PATH_KERNEL && !given.function)
			path = PEERDMA_IPC_PATH_CUDA;
		if (!ret && t->length) {
			t->path = path;
			ret = copy_one(t, &given);
		}
		t->error = ret;
		if (!ret || ret == -EINPROGRESS) {
			*pending |= ret == -EINPROGRESS;
			ret = full(&given);
		} else {
			t->path = PEERDMA_IPC_PATH_NONE;
		}
		if (!first)
			first = ret;
	}
	ret = launch(&given);
	if (!first)
		first = ret;
	ret = engines(&given);
	*stream = given.stream;
	return first ? first : ret;
}

/* The kernel moves 16 bytes at once where it can, and else 8, or one: then an engine is soon faster. */
static bool small_enough(uint64_t to, uint64_t from, uint64_t length)
{
	uint64_t odd = to | from;

	return length <= (odd % 8 ? POLL_MOST >> 5 : odd % 16 ? POLL_MOST >> 2 : POLL_MOST);
}

/* One small copy by the kernel that waits for it; -EOPNOTSUPP: another way. */
static int polled(struct batch *b)
{
	struct peerdma_ipc_transfer *t = at(b, 0);
	uint64_t there = (uintptr_t)t->memory->ptr + t->offset, local = (uintptr_t)t->local;
	bool reads = t->flags & PEERDMA_IPC_READ;
	struct ipc_reach reach = { 0 };
	int ret;

	if (b->n > 1 || b->done || !(t->flags & PEERDMA_IPC_POLL) || !t->length || !small_enough(there, local, t->length) || !is_cuda(t) || live(t) ||
	    !kernel_can(t, &reach))
		return -EOPNOTSUPP;
	t->path = PEERDMA_IPC_PATH_POLL;
	ret = ipc_cuda_poll(reach.context, reads ? local : there, reads ? there : local, t->length);
	if (ret == -EOPNOTSUPP)
		return ret;
	if (!ret)
		ret = live(t);
	if (ret && ret != -EIO)
		ipc_fail_live(range_of(t)->mapping->exporter, ret);
	t->error = began(t, ret);
	return ret;
}

static int run(struct batch *b)
{
	struct batch *later;
	void *stream = NULL;
	bool pending = false;
	uint32_t texts;
	int ret = polled(b);

	if (ret != -EOPNOTSUPP)
		return ret;
	ret = start(b, &stream, &pending);
	if (pending && b->done) {
		later = malloc(sizeof(*later));
		if (later) {
			*later = *b;
			ipc_signal_hold(b->done);
			if (!ipc_cuda_then(stream, finish_later, later))
				return ret;
			ipc_signal_put(b->done, false);
			free(later);
		}
	}
	if (pending) {
		texts = fail_count();
		b->error = ipc_cuda_wait(stream);
		if (b->error)
			ipc_cuda_stream_lost(stream);
		if (!ret)
			ret = finish(b);
		else
			finish(b);
		if (ret && texts == fail_count())
			fail(ret, "the export ended while its memory was copied; what was read is worthless");
	}
	if (b->done)
		ipc_signal_store(b->done, b->value);
	return ret;
}

EXPORT int peerdma_ipc_copy(struct peerdma_ipc_transfer *transfers, size_t n, struct peerdma_ipc_signal *done, uint64_t value)
{
	struct batch b = { .transfers = (char *)transfers, .n = n, .done = done, .value = value };
	int ret = check_given("peerdma_ipc_copy", "transfers", transfers, NULL), was, capture;
	uint32_t texts;

	if (ret)
		return ret;
	if (!n)
		return fail(-EINVAL, "peerdma_ipc_copy: no transfers");
	b.size = transfers->size;
	ret = check_size("peerdma_ipc_copy", transfers->size, TRANSFER_FIRST);
	if (!ret && b.size % _Alignof(struct peerdma_ipc_transfer))
		ret = fail(-EINVAL, "peerdma_ipc_copy: the struct's size field is %zu; set it to sizeof(the struct)", b.size);
	if (ret)
		return ret;
	was = cancel_off();
	ret = check(&b);
	if (!ret && done) {
		ret = ipc_signal_usable(done, "the signal");
		for (size_t i = 0; ret && i < n; i++)
			began(at(&b, i), ret);
	}
	if (!ret) {
		if (done)
			ipc_signal_hold(done);
		capture = cuda_capture_leave();
		texts = attempt_begin();
		ret = attempt_end(texts, run(&b));
		cuda_capture_return(capture);
		if (done)
			ipc_signal_put(done, false);
	}
	cancel_back(was);
	return ret ? fail(ret, "peerdma_ipc_copy: %s", peerdma_last_error()) : 0;
}
