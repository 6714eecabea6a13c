// SPDX-License-Identifier: MIT
/*
 * test_verbs.c - memory regions of verbs that pins have: which way, once, and gone before
 * the pin.  The kernel, CUDA and libibverbs are stand-ins.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include "../cases.h"
#include "fake_cuda.h"
#include "fake_sys.h"
#include "fake_verbs.h"
#include "peerdma_cache.h"
#include "peerdma_verbs.h"
#include "verbs/verbs.h"
#include "verbs/verbs_forced.h"

#define PAGE	4096UL
#define MEMORY	(64 * PAGE)
#define LENGTH	10000UL
#define LOCAL_WRITE 1
#define REMOTE_READ 4
#define ZERO_BASED (1 << 5)
#define ON_DEMAND (1 << 6)

static char *memory;
static struct fake_cuda *cuda;
static struct fake_verbs *verbs;
static struct ibv_pd *const one = (struct ibv_pd *)0x1000, *const two = (struct ibv_pd *)0x2000;

static struct peerdma *open_with(const char *provider)
{
	struct peerdma *ctx = NULL;

	setenv("PEERDMA_PROVIDER", provider, 1);
	if (peerdma_open(&ctx, 0))
		fail_msg("%s", peerdma_last_error());
	return ctx;
}

static struct peerdma_region *pin(struct peerdma *ctx, unsigned int flags)
{
	struct peerdma_region *region = NULL;

	if (peerdma_pin(ctx, memory + 100, LENGTH, flags, NULL, &region))
		fail_msg("%s", peerdma_last_error());
	return region;
}

static const struct peerdma_mr *mr_of(struct peerdma_region *region, struct ibv_pd *pd, int access)
{
	const struct peerdma_mr *mr = NULL;

	if (peerdma_verbs_mr(region, pd, access, &mr))
		fail_msg("%s", peerdma_last_error());
	assert_int_equal(mr->addr, (uintptr_t)memory + 100);
	assert_int_equal(mr->length, LENGTH);
	return mr;
}

static const struct fake_mr *made(const struct peerdma_mr *mr)
{
	const struct fake_mr *f = (const void *)mr->verbs;

	assert_int_equal(f->live, 1);
	assert_int_equal(f->lkey, mr->lkey);
	assert_int_equal(f->rkey, mr->rkey);
	assert_int_equal(f->iova, mr->addr);
	assert_int_equal(f->length, mr->length);
	return f;
}

static void refuses(struct peerdma_region *region, int access, int error, const char *text)
{
	const struct peerdma_mr *mr = (void *)1;

	assert_int_equal(peerdma_verbs_mr(region, one, access, &mr), error);
	assert_ptr_equal(mr, (void *)1);
	if (!strstr(peerdma_last_error(), text))
		fail_msg("\"%s\" does not say \"%s\"", peerdma_last_error(), text);
}

static int live(void)
{
	int n = 0;

	for (int i = 0; i < FAKE_MRS; i++) {
		assert_true(verbs->mrs[i].live >= 0);
		n += verbs->mrs[i].live;
	}
	return n;
}

/* Of MRs that end with their pin, which must come after. */
static void before_unpin(struct fake_mr *mr)
{
	assert_int_equal(fake.unpins, 0);
}

static int reset(void **state)
{
	fake_reset();
	memset(verbs, 0, sizeof(*verbs));
	memset(cuda, 0, sizeof(*cuda));
	cuda->state = 3;
	return 0;
}

/* The memory is a GPU's from here on. */
static void gpu(void)
{
	fake.device_memory = 1;
	cuda->state = 0;
	cuda->memory[0] = (struct fake_memory){
		.base = (uintptr_t)memory, .size = MEMORY, .type = 2, .context = memory, .id = 5,
	};
}

static int over(void **state)
{
	return live();
}

FIXTURE(reset, over)

/* The first of all tests: it is not loaded yet. */
static void not_loaded(void **state)
{
	struct peerdma *ctx = open_with("kernel");
	void *library;
	struct fake_verbs *(*get)(void);

	refuses(pin(ctx, 0), 0, -ENODEV, "libibverbs");
	peerdma_close(ctx);
	library = dlopen("libibverbs.so.1", RTLD_NOW);
	assert_non_null(library);
	get = dlsym(library, "fake_verbs");
	assert_non_null(get);
	verbs = get();
}

CASE(once)
{
	struct peerdma *ctx = open_with("kernel");
	struct peerdma_region *region = pin(ctx, 0);
	const struct peerdma_mr *mr = mr_of(region, one, LOCAL_WRITE);

	assert_ptr_equal(made(mr)->addr, memory + 100);
	assert_string_equal(mr->way, "host");
	assert_string_equal(mr->why, "");
	assert_ptr_equal(mr_of(region, one, LOCAL_WRITE), mr);
	assert_int_equal(verbs->registered, 1);
	assert_ptr_not_equal(mr_of(region, one, REMOTE_READ), mr);
	assert_int_equal(made(mr_of(region, one, REMOTE_READ))->access, REMOTE_READ);
	assert_ptr_not_equal(mr_of(region, two, LOCAL_WRITE), mr);
	assert_ptr_equal(made(mr_of(region, two, LOCAL_WRITE))->pd, two);
	assert_int_equal(verbs->registered, 3);
	verbs->at_dereg = before_unpin;
	assert_int_equal(peerdma_unpin(region), 0);
	assert_int_equal(live(), 0);
	assert_int_equal(fake.unpins, 1);

	/* The context's end is the pins'. */
	fake.unpins = 0;
	mr_of(pin(ctx, 0), one, 0);
	peerdma_close(ctx);
	assert_int_equal(fake.unpins, 1);
}

CASE(wrong)
{
	struct peerdma *ctx = open_with("kernel");
	struct peerdma_region *region = pin(ctx, PEERDMA_READONLY);
	const struct peerdma_mr *mr;

	refuses(region, LOCAL_WRITE, -EINVAL, "READONLY");
	refuses(region, ZERO_BASED, -EINVAL, "zero");
	assert_int_equal(peerdma_verbs_mr(region, NULL, 0, &mr), -EINVAL);
	mr_of(region, one, REMOTE_READ);
	peerdma_close(ctx);
}

/* Each bit of access goes on as it is, but for those that the pin, or the addresses, rule out. */
CASE(access_bits)
{
	struct peerdma *ctx = open_with("kernel");
	struct peerdma_region *region = pin(ctx, 0), *readonly = pin(ctx, PEERDMA_READONLY);

	for (int bit = 0; bit < 20; bit++) {
		if (1 << bit == ZERO_BASED) {
			refuses(region, 1 << bit, -EINVAL, "peerdma_verbs_mr: access 0x20: addresses are the program's own");
			continue;
		}
		assert_int_equal(made(mr_of(region, one, 1 << bit))->access, 1 << bit);
		/* Local and remote writes, and atomics. */
		if (bit == 0 || bit == 1 || bit == 3)
			refuses(readonly, 1 << bit, -EINVAL, "the memory was pinned PEERDMA_READONLY");
		else
			assert_int_equal(made(mr_of(readonly, one, 1 << bit))->access, 1 << bit);
	}
	peerdma_close(ctx);
}

/* What libibverbs says of memory that it does not register: whether another way may do, or there is no room. */
CASE(each_errno)
{
	static const struct {
		int error, becomes;
		const char *says;
	} rows[] = {
		{ ENOMEM, -ENOMEM, "ibv_reg_mr: no memory, or the locked-memory limit" }, { EMFILE, -EMFILE, "RLIMIT_NOFILE" },
		{ ENFILE, -ENFILE, "fs.file-max" }, { ENOSPC, -ENOSPC, "No space left" }, { EDQUOT, -EDQUOT, "quota" },
		{ ENOBUFS, -ENOBUFS, "buffer space" }, { EINVAL, -EOPNOTSUPP, "Invalid argument" },
		{ EFAULT, -EOPNOTSUPP, "Bad address" },
		{ EPERM, -EOPNOTSUPP, "not permitted" }, { EAGAIN, -EOPNOTSUPP, "unavailable" },
		{ EOPNOTSUPP, -EOPNOTSUPP, "not supported" },
		{ -1, -EOPNOTSUPP, "Input/output error" },	/* what is no errno is taken for that */
	};
	struct peerdma *ctx = open_with("kernel");
	struct peerdma_region *region = pin(ctx, 0);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		verbs->error = rows[i].error;
		refuses(region, 0, rows[i].becomes, rows[i].says);
		refuses(region, 0, rows[i].becomes, "peerdma_verbs_mr: [");
		refuses(region, 0, rows[i].becomes, "host: ibv_reg_mr: ");
	}
	verbs->error = 0;
	assert_int_equal(verbs->registered, 0);
	mr_of(region, one, 0);

	/* Of a dma-buf: what the kernel says behind the provider library, which has no such call. */
	gpu();
	region = pin(ctx, 0);
	verbs->dmabuf_error = EOPNOTSUPP;
	verbs->not_memory = memory + 100;
	verbs->kernel_has_dmabuf = 1;
	for (size_t i = 0; i < 6; i++) {
		verbs->kernel_error = rows[i].error;
		refuses(region, LOCAL_WRITE, rows[i].becomes, "dmabuf: ibv_reg_dmabuf_mr: ");
	}
	verbs->kernel_error = 0;
	assert_int_equal(verbs->by_kernel, 0);
	assert_int_equal(peerdma_unpin(region), 0);
	peerdma_close(ctx);
}

/* ---- the trial of verbs_forced.c ---- */

static int trials, ended, trial_error;
static char *tried;

static struct ibv_mr *try_page(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	unsigned char there;

	assert_ptr_equal(pd, one);
	assert_true(length == PAGE && access == (REMOTE_READ | 1 << 20) && !mincore(addr, length, &there));
	trials++;
	tried = addr;
	errno = trial_error;
	return trial_error ? NULL : (struct ibv_mr *)addr;
}

static int end_trial(struct ibv_mr *mr)
{
	assert_ptr_equal(mr, tried);
	ended++;
	return 0;
}

CASE_WITH(forced, NULL, NULL)
{
	static const int no_room[] = { ENOMEM, ENOSPC, EDQUOT, ENOBUFS, EMFILE, ENFILE, EAGAIN, EINTR };
	static const int refused[] = { EFAULT, EINVAL, EPERM, EACCES, EOPNOTSUPP, EIO, ENODEV };
	unsigned char there;

	trials = ended = 0;
	for (int bit = 0; bit < 20; bit++) {
		if (VERBS_WRITES >> bit & 1 || 1 << bit == VERBS_ON_DEMAND)
			assert_int_equal(verbs_forced(try_page, end_trial, one, 1 << bit | REMOTE_READ | 1 << 20), 0);
	}
	assert_int_equal(trials, 0);
	trial_error = 0;
	assert_int_equal(verbs_forced(try_page, end_trial, one, REMOTE_READ | 1 << 20), 1);
	assert_true(trials == 1 && ended == 1 && mincore(tried, PAGE, &there));
	for (size_t i = 0; i < sizeof(no_room) / sizeof(no_room[0]); i++) {
		trial_error = no_room[i];
		assert_int_equal(verbs_forced(try_page, end_trial, one, REMOTE_READ | 1 << 20), -no_room[i]);
	}
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		trial_error = refused[i];
		assert_int_equal(verbs_forced(try_page, end_trial, one, REMOTE_READ | 1 << 20), 0);
	}
	assert_int_equal(ended, 1);
}

static int no_room_for_a_trial(const void *addr)
{
	verbs->error = addr == memory + 100 ? 0 : ENOMEM;
	return 1;
}

/* GPU memory: the better way first, and the reason of each that was not it. */
CASE(ways)
{
	struct peerdma *ctx = open_with("kernel,staging");
	struct peerdma_region *region;
	const struct peerdma_mr *mr;

	gpu();
	region = pin(ctx, 0);
	mr = mr_of(region, one, 0);
	assert_string_equal(mr->way, "dmabuf");
	assert_string_equal(mr->why, "");
	assert_true(made(mr)->by_dmabuf);
	assert_int_equal(made(mr)->offset, ((uintptr_t)memory + 100) % 65536);

	verbs->dmabuf_error = EOPNOTSUPP;
	mr = mr_of(region, two, 0);
	assert_string_equal(mr->way, "peer");
	assert_non_null(strstr(mr->why, "dmabuf: ibv_reg_dmabuf_mr: "));
	assert_ptr_equal(made(mr)->addr, memory + 100);

	/* By its address the kernel would register other memory. */
	verbs->forces = 1;
	refuses(region, REMOTE_READ, -EOPNOTSUPP, "peer: without IBV_ACCESS_LOCAL_WRITE");
	assert_int_equal(live(), 2);
	assert_string_equal(mr_of(region, two, LOCAL_WRITE)->way, "peer");
	/* Nor if that cannot be tried. */
	verbs->not_host = no_room_for_a_trial;
	refuses(region, REMOTE_READ, -ENOMEM, "peer: ibv_reg_mr: no memory");
	verbs->not_host = NULL;
	verbs->error = 0;
	assert_int_equal(live(), 3);
	verbs->forces = 0;
	assert_int_equal(peerdma_unpin(region), 0);

	verbs->error = EFAULT;
	region = pin(ctx, 0);
	refuses(region, 0, -EOPNOTSUPP, "dmabuf: ibv_reg_dmabuf_mr: ");
	refuses(region, 0, -EOPNOTSUPP, "peer: ibv_reg_mr: Bad address");
	refuses(region, 0, -EOPNOTSUPP, "staging: is off unless asked for");
	assert_int_equal(peerdma_unpin(region), 0);
	region = pin(ctx, PEERDMA_STAGING | PEERDMA_DIRECT);
	refuses(region, 0, -EOPNOTSUPP, "PEERDMA_DIRECT");
	assert_int_equal(peerdma_unpin(region), 0);

	/* The address of what is persistent may be another's. */
	verbs->error = 0;
	region = pin(ctx, PEERDMA_PERSISTENT);
	refuses(region, 0, -EOPNOTSUPP, "persistent");
	verbs->dmabuf_error = 0;
	assert_string_equal(mr_of(region, one, 0)->way, "dmabuf");
	peerdma_close(ctx);
}

/* Pinned by the kernel, and out of this device's reach: a copy, of which the pin's other MRs are as well. */
CASE(staging)
{
	struct peerdma *ctx = open_with("kernel,host,staging");
	struct peerdma_region *region;
	const struct peerdma_mr *mr;
	char *copy;

	gpu();
	memset(memory, 7, MEMORY);
	verbs->dmabuf_error = EOPNOTSUPP;
	verbs->not_memory = memory + 100;
	region = pin(ctx, PEERDMA_STAGING | PEERDMA_PERSISTENT);
	refuses(region, 0, -EOPNOTSUPP, "staging: has no persistent pins");
	assert_int_equal(peerdma_unpin(region), 0);

	region = pin(ctx, PEERDMA_STAGING);
	assert_int_equal(peerdma_sync(region, 0, 0, PEERDMA_TO_DEVICE), 0);
	mr = mr_of(region, one, LOCAL_WRITE);
	assert_string_equal(mr->way, "staging");
	assert_non_null(strstr(mr->why, "dmabuf: "));
	assert_non_null(strstr(mr->why, "; peer: "));
	copy = made(mr)->addr;
	assert_int_equal(copy[0], 7);
	memory[100] = 9;
	assert_int_equal(peerdma_sync(region, 0, 0, PEERDMA_TO_DEVICE), 0);
	assert_int_equal(copy[0], 9);
	copy[LENGTH - 1] = 10;
	assert_int_equal(peerdma_sync(region, LENGTH - 1, 1, PEERDMA_FROM_DEVICE), 0);
	assert_int_equal(memory[100 + LENGTH - 1], 10);
	assert_ptr_equal(made(mr_of(region, two, LOCAL_WRITE))->addr, copy);
	assert_int_equal(peerdma_unpin(region), 0);

	/* The environment does without. */
	peerdma_close(ctx);
	ctx = open_with("kernel,host");
	refuses(pin(ctx, PEERDMA_STAGING), 0, -EOPNOTSUPP, "staging: not among the back-ends");
	peerdma_close(ctx);

	/* A pin that is a copy itself. */
	ctx = open_with("host,staging");
	region = pin(ctx, PEERDMA_STAGING);
	mr = mr_of(region, one, LOCAL_WRITE);
	assert_string_equal(mr->way, "staging");
	copy = made(mr)->addr;
	copy[0] = 11;
	assert_int_equal(peerdma_sync(region, 0, 0, PEERDMA_FROM_DEVICE), 0);
	assert_int_equal(memory[100], 11);
	cuda->memory[0].id++;
	refuses(region, REMOTE_READ, -ESTALE, "freed");
	peerdma_close(ctx);
}

/* What came as a dma-buf goes to the device as one, or not at all. */
CASE(imported)
{
	struct peerdma *ctx = open_with("kernel");
	struct peerdma_region *region;
	const struct peerdma_mr *mr;

	fake.device_memory = 1;
	assert_int_equal(peerdma_pin_dmabuf(ctx, 0, 8192, PAGE, 0, NULL, &region), 0);
	assert_int_equal(peerdma_verbs_mr(region, one, 0, &mr), 0);
	assert_string_equal(mr->way, "dmabuf");
	assert_int_equal(made(mr)->offset, 8192);
	verbs->dmabuf_error = EOPNOTSUPP;
	assert_int_equal(peerdma_verbs_mr(region, two, 0, &mr), -EOPNOTSUPP);
	assert_non_null(strstr(peerdma_last_error(), "peer: it was pinned as a dma-buf"));
	assert_int_equal(verbs->registered, 1);
	peerdma_close(ctx);
}

/* That there is no room is an answer. */
CASE(no_room)
{
	struct peerdma *ctx = open_with("kernel");
	struct peerdma_region *region;

	gpu();
	region = pin(ctx, 0);
	verbs->dmabuf_error = ENOMEM;
	refuses(region, 0, -ENOMEM, "RLIMIT_MEMLOCK");
	assert_int_equal(verbs->registered, 0);
	fake.export_error = -EMFILE;
	refuses(region, 0, -EMFILE, "RLIMIT_NOFILE");
	fake.export_error = -ESTALE;
	refuses(region, 0, -ESTALE, "freed");
	peerdma_close(ctx);
}

static void revoke_it(struct fake_mr *mr)
{
	fake_revoke(1);
}

static void free_it(struct fake_mr *mr)
{
	cuda->memory[0].id++;
}

/* Freed while it is registered: the caller does not get what was made. */
CASE(freed_meanwhile)
{
	struct peerdma *ctx = open_with("kernel");
	struct peerdma_region *region = pin(ctx, 0);

	verbs->at_reg = revoke_it;
	refuses(region, 0, -ESTALE, "freed");
	assert_int_equal(live(), 0);
	peerdma_close(ctx);

	gpu();
	ctx = open_with("dmabuf");
	region = pin(ctx, 0);
	verbs->at_reg = free_it;
	refuses(region, 0, -ESTALE, "freed");
	assert_int_equal(live(), 0);
	verbs->at_reg = NULL;
	peerdma_close(ctx);
}

/* A domain goes; the others' stay, and the next may be at its address. */
CASE(domain_ends)
{
	struct peerdma *ctx = open_with("kernel");
	struct peerdma_region *a = pin(ctx, 0), *b = pin(ctx, 0);
	const struct peerdma_mr *kept = mr_of(a, two, 0), *again;
	uint32_t key = mr_of(a, one, 0)->lkey;

	mr_of(b, one, 0);
	mr_of(b, one, LOCAL_WRITE);
	verbs->dereg_error = EBUSY;
	assert_int_equal(peerdma_verbs_end(ctx, one), -EBUSY);
	assert_non_null(strstr(peerdma_last_error(), "ibv_dereg_mr"));
	assert_int_equal(mr_of(a, one, 0)->lkey, key);
	verbs->dereg_error = 0;
	assert_int_equal(peerdma_verbs_end(ctx, one), 0);
	assert_int_equal(live(), 1);
	assert_int_equal(peerdma_verbs_end(ctx, one), 0);
	again = mr_of(a, one, 0);
	assert_int_not_equal(again->lkey, key);
	assert_ptr_equal(mr_of(a, one, 0), again);
	made(kept);
	assert_ptr_equal(mr_of(a, two, 0), kept);

	/* With memory windows bound to it, the pin stays as well. */
	verbs->dereg_error = EBUSY;
	assert_int_equal(peerdma_unpin(a), -EBUSY);
	assert_int_equal(fake.unpins, 0);
	assert_ptr_equal(mr_of(a, one, 0), again);
	verbs->dereg_error = 0;
	assert_int_equal(peerdma_unpin(a), 0);

	/* The kernel kept the pin: what comes next is registered anew. */
	mr_of(b, two, 0);
	fake.unpin_error = -EBUSY;
	assert_int_equal(peerdma_unpin(b), -EBUSY);
	assert_int_equal(live(), 0);
	fake.unpin_error = 0;
	made(mr_of(b, two, 0));
	peerdma_close(ctx);
}

/* A child has its parent's MRs in name only. */
CASE(child)
{
	struct peerdma *ctx = open_with("kernel");
	struct peerdma_region *region = pin(ctx, 0);
	const struct peerdma_mr *mr = mr_of(region, one, 0);
	int status, ok;
	pid_t pid = fork();

	if (!pid) {
		ok = peerdma_verbs_mr(region, one, 0, &mr) == -EPERM && peerdma_verbs_end(ctx, one) == -EPERM;
		ok = ok && !peerdma_unpin(region) && !verbs->deregistered;
		peerdma_close(ctx);
		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	made(mr);
	peerdma_close(ctx);
}

/* ---- in a cache ---- */

CASE(cached)
{
	struct peerdma_cache_options o = { .size = sizeof(o) };
	struct peerdma *ctx = open_with("kernel");
	struct peerdma_cached *hold, *again;
	const struct peerdma_mr *mr, *same;
	struct peerdma_cache *cache;

	assert_int_equal(peerdma_cache_open(ctx, &o, &cache), 0);
	assert_int_equal(peerdma_cache_get(cache, memory, LENGTH, &hold), 0);
	assert_int_equal(peerdma_cache_mr(cache, hold, one, 0, &mr), 0);
	assert_int_equal(mr->addr, hold->addr);
	peerdma_cache_put(cache, hold);
	assert_int_equal(peerdma_cache_get(cache, memory + 1, 1, &again), 0);
	assert_int_equal(peerdma_cache_mr(cache, again, one, 0, &same), 0);
	assert_ptr_equal(mr, same);
	assert_int_equal(verbs->registered, 1);
	peerdma_cache_put(cache, again);
	verbs->at_dereg = before_unpin;
	assert_int_equal(peerdma_cache_invalidate(cache, memory, 1), 1);
	assert_int_equal(peerdma_cache_drain(cache), 1);
	assert_int_equal(live(), 0);
	assert_int_equal(fake.unpins, 1);

	/* The kernel's word: what was revoked is found by no get, and neither is its MR. */
	fake.unpins = 0;
	assert_int_equal(peerdma_cache_get(cache, memory, LENGTH, &hold), 0);
	assert_int_equal(peerdma_cache_mr(cache, hold, one, 0, &mr), 0);
	peerdma_cache_put(cache, hold);
	fake_revoke(1);
	assert_int_equal(peerdma_cache_get(cache, memory, LENGTH, &hold), 0);
	assert_int_equal(live(), 0);
	fake.unpins = 0;
	assert_int_equal(peerdma_cache_mr(cache, hold, one, 0, &mr), 0);
	peerdma_cache_put(cache, hold);
	peerdma_cache_close(cache);
	peerdma_close(ctx);
}

/* What is idle makes way for a device whose table is full. */
CASE(full)
{
	struct peerdma *ctx = open_with("kernel");
	const struct peerdma_mr *mr;
	struct peerdma_cached *hold;
	struct peerdma_cache *cache;

	assert_int_equal(peerdma_cache_open(ctx, NULL, &cache), 0);
	/* The stand-in for the kernel has one pin less than the other has MRs: there are two domains. */
	for (unsigned long i = 0; i < 60; i++) {
		assert_int_equal(peerdma_cache_get(cache, memory + i * PAGE, 1, &hold), 0);
		assert_int_equal(peerdma_cache_mr(cache, hold, one, 0, &mr), 0);
		assert_int_equal(peerdma_cache_mr(cache, hold, two, 0, &mr), 0);
		peerdma_cache_put(cache, hold);
	}
	assert_int_equal(peerdma_cache_get(cache, memory, 1, &hold), 0);
	verbs->error = ENOMEM;
	assert_int_equal(peerdma_cache_mr(cache, hold, two, ON_DEMAND, &mr), -ENOMEM);
	verbs->error = 0;
	peerdma_cache_put(cache, hold);
	peerdma_cache_close(cache);
	peerdma_close(ctx);
}

/* One that ends makes room. */
static void makes_room(struct fake_mr *mr)
{
	verbs->error = 0;
}

/* What says that there is no room, for which idle MRs end, and what does not. */
CASE(full_by_errno)
{
	static const struct {
		int error;
		bool again;
	} errors[] = {
		{ ENOMEM, true }, { ENOSPC, true }, { EDQUOT, true }, { EMFILE, false }, { ENFILE, false }, { ENOBUFS, false },
		{ EINVAL, false },
		{ EOPNOTSUPP, false }, { EIO, false },
	};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct peerdma_cached *hold, *idle;
		struct peerdma *ctx = open_with("kernel");
		const struct peerdma_mr *mr, *none = (void *)1;
		struct peerdma_cache *cache;
		int ret;

		assert_int_equal(peerdma_cache_open(ctx, NULL, &cache), 0);
		assert_int_equal(peerdma_cache_get(cache, memory + 8 * PAGE, 1, &idle), 0);
		assert_int_equal(peerdma_cache_mr(cache, idle, one, 0, &mr), 0);
		peerdma_cache_put(cache, idle);
		assert_int_equal(peerdma_cache_get(cache, memory, 1, &hold), 0);
		verbs->error = errors[i].error;
		verbs->at_dereg = makes_room;
		ret = peerdma_cache_mr(cache, hold, one, 0, &none);
		verbs->at_dereg = NULL;
		verbs->error = 0;
		if (errors[i].again ? ret || none == (void *)1 :
		    !ret || none != (void *)1 || !strstr(peerdma_last_error(), "ibv_reg_mr"))
			fail_msg("errno %d: %d, \"%s\"", errors[i].error, ret, peerdma_last_error());
		assert_int_equal(live(), 1);
		assert_int_equal(verbs->deregistered, errors[i].again);
		/* And if nothing is idle, the error is the caller's. */
		assert_int_equal(peerdma_cache_trim(cache, 64), !errors[i].again);
		verbs->error = errors[i].error;
		ret = peerdma_cache_mr(cache, hold, two, 0, &none);
		verbs->error = 0;
		assert_int_equal(ret, errors[i].error != EINVAL && errors[i].error != EIO ? -errors[i].error : -EOPNOTSUPP);
		peerdma_cache_put(cache, hold);
		peerdma_cache_close(cache);
		peerdma_close(ctx);
		memset(verbs, 0, sizeof(*verbs));
	}
}

/* Host memory without the kernel module: the library's own monitor ends what goes away, or the program does. */
CASE(of_host)
{
	struct peerdma_cache_options o = { .size = sizeof(o) };
	struct peerdma *ctx = open_with("host");
	const struct peerdma_mr *mr = NULL;
	struct peerdma_cached *hold;
	struct peerdma_cache *cache;
	void *p = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_int_equal(peerdma_cache_open(ctx, &o, &cache), 0);
	assert_int_equal(peerdma_cache_get(cache, p, LENGTH, &hold), 0);
	assert_int_equal(peerdma_cache_mr(cache, hold, one, ON_DEMAND, &mr), 0);
	assert_int_equal(peerdma_cache_mr(cache, hold, one, 0, &mr), 0);
	peerdma_cache_put(cache, hold);
	assert_int_equal(munmap(p, LENGTH), 0);
	assert_int_equal(peerdma_cache_drain(cache), 1);
	assert_int_equal(live(), 0);
	peerdma_cache_close(cache);

	o.flags = PEERDMA_CACHE_CALLS;
	assert_int_equal(peerdma_cache_open(ctx, &o, &cache), 0);
	assert_int_equal(peerdma_cache_get(cache, memory, LENGTH, &hold), 0);
	assert_int_equal(peerdma_cache_mr(cache, hold, one, 0, &mr), 0);
	assert_string_equal(mr->way, "host");
	peerdma_cache_put(cache, hold);
	assert_int_equal(peerdma_cache_invalidate(cache, memory, 1), 1);
	assert_int_equal(peerdma_cache_drain(cache), 1);
	assert_int_equal(live(), 0);
	peerdma_cache_close(cache);
	peerdma_close(ctx);
}

/* ---- threads ---- */

#define THREADS 4
#define ROUNDS	200

static struct peerdma_region *shared[ROUNDS];
static const struct peerdma_mr *found[THREADS][ROUNDS];

static void *worker(void *arg)
{
	const struct peerdma_mr **mine = arg;

	for (int i = 0; i < ROUNDS; i++) {
		if (peerdma_verbs_mr(shared[i % 16], i % 3 ? one : two, i % 2, &mine[i]))
			return peerdma_verbs_mr;
	}
	return NULL;
}

CASE(threads)
{
	struct peerdma *ctx = open_with("kernel");
	pthread_t t[THREADS];
	void *failed;

	for (int i = 0; i < 16; i++)
		shared[i] = pin(ctx, 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, worker, found[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], &failed);
		assert_null(failed);
	}
	/* All got the same, and what was made beside it is gone. */
	for (int i = 0; i < ROUNDS; i++) {
		for (int j = 1; j < THREADS; j++)
			assert_ptr_equal(found[0][i], found[j][i]);
		made(found[0][i]);
	}
	assert_int_equal(live(), verbs->registered - verbs->deregistered);
	assert_int_equal(live(), 32);
	peerdma_close(ctx);
}

int main(void)
{
	const struct CMUnitTest first[] = { cmocka_unit_test(not_loaded) };
	struct fake_cuda *(*get)(void);
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	get = library ? dlsym(library, "fake_cuda") : NULL;
	memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!get || memory == MAP_FAILED)
		return 1;
	cuda = get();
	fake_reset();
	if (cmocka_run_group_tests(first, NULL, NULL))
		return 1;
	return cases_run(NULL, NULL);
}
