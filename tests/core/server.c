// SPDX-License-Identifier: MIT
/*
 * server.c - several processes in one context of a GPU, as with MPS: what is
 * common to them, what stays each one's own, and whose end is whose.
 */
#include "../cases.h"
#include "util.h"

#define CLIENTS		3
#define STRANGER	CLIENTS		/* a process with no server */
#define SERVER		7
#define LENGTH		(256 * PAGE)	/* of a window */
#define FAR		0x10000000000ULL

static struct machine m;
static struct user u[CLIENTS + 1];
static int keys[CLIENTS + 2];

static int no_copy(void *cookie, void *local, u64 addr, u64 len, bool to_process)
{
	return -EFAULT;
}

static const struct sg_host_ops ops = { .copy = no_copy };

static int set_window(struct sg_client *client, u64 base, u64 length, u32 server)
{
	return CALL(client, SOFTGPU_WINDOW, (&(struct softgpu_window){ .base = base, .length = length, .server = server }));
}

static int make_ctx(struct user *user)
{
	struct softgpu_ctx_create c = { 0 };
	int err = CALL(user->client, SOFTGPU_CTX_CREATE, &c);

	user->ctx = c.ctx;
	return err;
}

static int end_ctx(struct user *user)
{
	return CALL(user->client, SOFTGPU_CTX_DESTROY, &(struct softgpu_handle){ .handle = user->ctx });
}

static void open_file(struct user *user, struct sg *sg, u32 gpu, int key)
{
	user->sg = sg;
	user->key = &keys[key];
	assert_int_equal(sg_client_open(sg, gpu, &keys[key], &ops, NULL, &user->client), 0);
}

/* A client's windows lie side by side; the stranger's is where the first client's is. */
static void process_up(struct user *user, int key)
{
	open_file(user, m.sg, 0, key);
	assert_int_equal(set_window(user->client, WINDOW_BASE + key % STRANGER * LENGTH, LENGTH, key == STRANGER ? 0 : SERVER), 0);
	assert_int_equal(make_ctx(user), 0);
}

static int setup(void **state)
{
	int i;

	machine_up(&m, 2, 64 * PAGE, 32 * PAGE, 0);
	for (i = 0; i <= STRANGER; i++)
		process_up(&u[i], i);
	return 0;
}

static int teardown(void **state)
{
	int i;

	for (i = 0; i <= STRANGER; i++)
		user_down(&u[i]);
	machine_down(&m);
	return 0;
}

FIXTURE(setup, teardown)

static int pin_by(struct tpin *t, int process, const struct softgpu_query *tokens, u64 va)
{
	struct sg_pin_who who = { .proc_key = &keys[process] };

	if (tokens) {
		who.p2p_token = tokens->p2p_token;
		who.va_space_token = tokens->va_space_token;
	}
	memset(t, 0, sizeof(*t));
	return sg_pin_get(m.sg, &t->pin, &tpin_ops, &who, va, PAGE, false);
}

static bool same_tokens(const struct softgpu_query *a, const struct softgpu_query *b)
{
	return a->p2p_token == b->p2p_token && a->va_space_token == b->va_space_token;
}

/* One pair of tokens for all clients' memory; without them each pins its own. */
CASE(one_context)
{
	struct softgpu_query q[CLIENTS + 1];
	static struct tpin t;
	u64 va[CLIENTS + 1], own;
	int i, j;

	for (i = 0; i <= STRANGER; i++) {
		assert_int_equal(mem_alloc(&u[i], 2 * PAGE, &va[i]), 0);
		q[i] = query(&u[i], va[i]);
		assert_true(same_tokens(&q[i], &q[0]) == (i != STRANGER));
	}
	for (i = 0; i < CLIENTS; i++) {
		for (j = 0; j < CLIENTS; j++) {
			assert_int_equal(pin_by(&t, i, NULL, va[j]), i == j ? 0 : -EINVAL);
			if (i == j)
				assert_int_equal(sg_pin_put(m.sg, &t.pin, false), 0);
			/* by the tokens any process pins it, also one that is no client */
			assert_int_equal(pin_by(&t, j == 0 ? STRANGER : i, &q[i], va[j] + PAGE), 0);
			assert_int_equal(sg_pin_put(m.sg, &t.pin, false), 0);
			/* an address that another client has is nothing to this one's calls */
			if (i != j)
				assert_int_equal(query(&u[i], va[j]).kind, SOFTGPU_KIND_NONE);
		}
		assert_int_equal(mem_free(&u[i], va[(i + 1) % CLIENTS]), -ENOENT);
	}
	/* a stranger's memory stands at the first one's addresses: whose tokens, his memory */
	assert_true(va[STRANGER] == va[0]);
	assert_int_equal(pin_by(&t, 1, NULL, va[1]), 0);
	own = sg_pin_page(&t.pin, 0);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, false), 0);
	assert_int_equal(pin_by(&t, STRANGER, &q[0], va[1]), 0);
	assert_true(sg_pin_page(&t.pin, 0) == own);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, false), 0);
	assert_int_equal(pin_by(&t, 0, &q[STRANGER], va[1]), -EINVAL);
}

/* Several contexts of one client are one with the others', too; those on another GPU are not. */
CASE(contexts_of_a_client)
{
	struct user more = u[0], there = { 0 }, there_too = { 0 };
	struct softgpu_query first, second, far, far_too;
	u64 va;

	assert_int_equal(make_ctx(&more), 0);
	assert_int_equal(mem_alloc(&u[0], PAGE, &va), 0);
	first = query(&u[0], va);
	assert_int_equal(mem_alloc(&more, PAGE, &va), 0);
	second = query(&u[0], va);
	assert_true(same_tokens(&first, &second) && first.ctx != second.ctx);
	/* which of them the memory is in makes no difference to its tokens, but to its end */
	assert_int_equal(end_ctx(&more), 0);
	assert_int_equal(query(&u[0], va).kind, SOFTGPU_KIND_NONE);
	assert_true(query(&u[0], first.base).kind == SOFTGPU_KIND_DEVICE);
	open_file(&there, m.sg, 1, 0);
	open_file(&there_too, m.sg, 1, 1);
	assert_int_equal(make_ctx(&there), 0);
	assert_int_equal(make_ctx(&there_too), 0);
	assert_int_equal(mem_alloc(&there, PAGE, &va), 0);
	far = query(&there, va);
	assert_int_equal(mem_alloc(&there_too, PAGE, &va), 0);
	far_too = query(&there_too, va);
	assert_true(same_tokens(&far, &far_too) && !same_tokens(&far, &first));
	user_down(&there);
	user_down(&there_too);
}

/* All clients are in one address space; other servers, and processes with none, have theirs. */
CASE(windows_apart)
{
	static const struct { u64 base, length; int err; } tries[] = {
		{ WINDOW_BASE, LENGTH, -EEXIST },
		{ WINDOW_BASE + LENGTH, PAGE, -EEXIST },
		{ WINDOW_BASE + CLIENTS * LENGTH - PAGE, 2 * PAGE, -EEXIST },
		{ WINDOW_BASE - PAGE, 2 * PAGE, -EEXIST },
		{ WINDOW_BASE - PAGE, 8 * LENGTH, -EEXIST },
		{ WINDOW_BASE + CLIENTS * LENGTH, 0, -EINVAL },
		{ WINDOW_BASE + CLIENTS * LENGTH, PAGE, 0 },
	};
	struct softgpu_window w = { .reserved = 1, .base = FAR, .length = PAGE, .server = SERVER };
	struct user one = { 0 };
	size_t i;

	open_file(&one, m.sg, 0, CLIENTS + 1);
	assert_int_equal(CALL(one.client, SOFTGPU_WINDOW, &w), -EINVAL);
	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
		assert_int_equal(set_window(one.client, tries[i].base, tries[i].length, SERVER), tries[i].err);
	/* what has been decided is told, whatever is asked for */
	w.server = SERVER + 1;
	assert_int_equal(CALL(one.client, SOFTGPU_WINDOW, &w), 0);
	assert_true(w.server == SERVER && w.length == PAGE);
	user_down(&one);
	/* its addresses are free again when it has ended; another server's never were taken */
	for (i = 0; i < 3; i++) {
		open_file(&one, m.sg, 0, CLIENTS + 1);
		assert_int_equal(set_window(one.client, i == 2 ? WINDOW_BASE : WINDOW_BASE + CLIENTS * LENGTH, PAGE, SERVER + i / 2), 0);
		user_down(&one);
	}
}

/* A server is its user's: another's with the same number is another. */
CASE(another_user)
{
	struct user one = { 0 };
	struct softgpu_query mine, theirs;
	u64 va;

	open_file(&one, m.sg, 0, CLIENTS + 1);
	sg_client_set_user(one.client, 1000);
	assert_int_equal(set_window(one.client, WINDOW_BASE, LENGTH, SERVER), 0);
	assert_int_equal(make_ctx(&one), 0);
	assert_int_equal(mem_alloc(&one, PAGE, &va), 0);
	theirs = query(&one, va);
	assert_int_equal(mem_alloc(&u[0], PAGE, &va), 0);
	mine = query(&u[0], va);
	assert_false(same_tokens(&mine, &theirs));
	user_down(&one);
}

/* Who does not know of servers gives a shorter struct, and nothing is written behind it. */
CASE(an_older_caller)
{
	struct { struct softgpu_window w; u64 behind; } a;
	const u32 size = offsetof(struct softgpu_window, server);
	struct user one = { 0 };

	open_file(&one, m.sg, 0, CLIENTS + 1);
	memset(&a, 0xee, sizeof(a));
	a.w = (struct softgpu_window){ .size = size, .base = WINDOW_BASE, .length = LENGTH, .server = 0xeeeeeeee,
				       .reserved = 0xeeeeeeee };
	assert_int_equal(sg_call(one.client, _IOC_NR(SOFTGPU_WINDOW), &a, size - 1), -EINVAL);
	assert_int_equal(sg_call(one.client, _IOC_NR(SOFTGPU_WINDOW), &a, size), 0);
	assert_true(a.w.server == 0xeeeeeeee && a.w.reserved == 0xeeeeeeee);
	assert_int_equal(set_window(one.client, WINDOW_BASE, LENGTH, 0), 0);
	user_down(&one);
}

/* One's end takes its own memory and pins; the tokens live as long as any client's context. */
CASE(ends)
{
	static struct tpin own[CLIENTS], t;
	struct softgpu_query q, again;
	u64 va[CLIENTS];
	int i;

	for (i = 0; i < CLIENTS; i++) {
		assert_int_equal(mem_alloc(&u[i], PAGE, &va[i]), 0);
		assert_int_equal(pin_by(&own[i], i, NULL, va[i]), 0);
	}
	q = query(&u[0], va[0]);
	assert_int_equal(end_ctx(&u[0]), 0);
	assert_int_equal(tpin_count(&own[0].callbacks), 1);
	user_down(&u[1]);
	assert_int_equal(tpin_count(&own[1].callbacks), 1);
	assert_int_equal(tpin_count(&own[2].callbacks), 0);
	assert_int_equal(pin_by(&t, STRANGER, &q, va[0]), -EINVAL);
	assert_int_equal(pin_by(&t, STRANGER, &q, va[2]), 0);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, false), 0);
	/* the first client comes back while there is another one */
	assert_int_equal(make_ctx(&u[0]), 0);
	assert_int_equal(mem_alloc(&u[0], PAGE, &va[0]), 0);
	again = query(&u[0], va[0]);
	assert_true(same_tokens(&q, &again));
	assert_int_equal(end_ctx(&u[0]), 0);
	assert_int_equal(end_ctx(&u[2]), 0);
	assert_int_equal(tpin_count(&own[2].callbacks), 1);
	/* now there is none: the next context is another */
	assert_int_equal(make_ctx(&u[2]), 0);
	assert_int_equal(mem_alloc(&u[2], PAGE, &va[2]), 0);
	again = query(&u[2], va[2]);
	assert_false(same_tokens(&q, &again));
	assert_int_equal(pin_by(&t, 2, &q, va[2]), -EINVAL);
	assert_int_equal(pin_by(&t, 0, &again, va[2]), 0);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, false), 0);
}

/* A fault of one is the end of all, work that waits included, and of no other process. */
CASE(a_fault)
{
	struct softgpu_handle sync = { .handle = u[1].ctx };
	struct softgpu_watch watch = { .ctx = u[1].ctx, .expected = 1, .timeout_ms = 60000 };
	static struct tpin own;
	struct user late = { 0 };
	u64 va[CLIENTS], dummy;

	assert_int_equal(mem_alloc(&u[0], PAGE, &va[0]), 0);
	assert_int_equal(mem_alloc(&u[1], PAGE, &va[1]), 0);
	assert_int_equal(pin_by(&own, 1, NULL, va[1]), 0);
	watch.va = va[1];
	watch.result = va[1] + 64;
	assert_int_equal(CALL(u[1].client, SOFTGPU_WATCH, &watch), 0);
	assert_int_equal(copy(&u[1], 0, va[1] + 128, va[1], 64, 0), 0);
	assert_int_equal(copy(&u[0], 0, va[0], 8, 64, SOFTGPU_OP_SYNC), -EIO);
	assert_int_equal(CALL(u[1].client, SOFTGPU_CTX_SYNC, &sync), -EIO);
	assert_int_equal(mem_alloc(&u[2], PAGE, &dummy), -EIO);
	assert_int_equal(mem_alloc(&u[STRANGER], PAGE, &dummy), 0);
	/* what is there stays until it is freed */
	assert_int_equal(tpin_count(&own.callbacks), 0);
	assert_int_equal(query(&u[1], va[1]).kind, SOFTGPU_KIND_DEVICE);
	open_file(&late, m.sg, 0, CLIENTS + 1);
	assert_int_equal(set_window(late.client, FAR, PAGE, SERVER), 0);
	user_down(&u[0]);
	user_down(&u[1]);
	assert_int_equal(tpin_count(&own.callbacks), 1);
	assert_int_equal(make_ctx(&late), -EIO);
	assert_int_equal(end_ctx(&u[2]), 0);
	assert_int_equal(make_ctx(&late), 0);
	assert_int_equal(make_ctx(&u[2]), 0);
	assert_int_equal(mem_alloc(&u[2], PAGE, &dummy), 0);
	user_down(&late);
}

static u64 phys(void *priv, u64 offset)
{
	return VRAM_PHYS + offset;
}

/* Where one context is allowed, that may be a server's. */
CASE_WITH(exclusive, NULL, NULL)
{
	struct sg_gpu_desc desc = { .name = "test GPU", .vram_size = 4 * PAGE, .engines = 1, .phys = phys,
				    .compute_mode = SOFTGPU_COMPUTE_EXCLUSIVE, .vram = malloc(4 * PAGE) };
	struct user one = { 0 }, two = { 0 }, other = { 0 }, more;
	struct sg *sg;
	u32 gpu;

	assert_non_null(desc.vram);
	assert_int_equal(sg_create(&sg), 0);
	assert_int_equal(sg_gpu_add(sg, &desc, &gpu), 0);
	open_file(&one, sg, 0, 0);
	open_file(&two, sg, 0, 1);
	open_file(&other, sg, 0, 2);
	assert_int_equal(set_window(one.client, WINDOW_BASE, PAGE, SERVER), 0);
	assert_int_equal(set_window(two.client, WINDOW_BASE + PAGE, PAGE, SERVER), 0);
	assert_int_equal(set_window(other.client, WINDOW_BASE, PAGE, SERVER + 1), 0);
	assert_int_equal(make_ctx(&one), 0);
	assert_int_equal(make_ctx(&two), 0);
	more = one;
	assert_int_equal(make_ctx(&more), 0);
	assert_int_equal(make_ctx(&other), -EBUSY);
	assert_int_equal(end_ctx(&one), 0);
	assert_int_equal(end_ctx(&more), 0);
	assert_int_equal(make_ctx(&other), -EBUSY);
	user_down(&two);
	assert_int_equal(make_ctx(&other), 0);
	assert_int_equal(make_ctx(&one), -EBUSY);
	user_down(&other);
	assert_int_equal(make_ctx(&one), 0);
	user_down(&one);
	sg_gpu_remove(sg, gpu);
	sg_destroy(sg);
	free(desc.vram);
}

MAIN(NULL, NULL)
