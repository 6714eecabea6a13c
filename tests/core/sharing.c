// SPDX-License-Identifier: MIT
/*
 * sharing.c - several processes on one GPU: compute modes, who may pin whose
 * memory, and tokens as keys: none is guessed, and a near miss looks like any other.
 */
#include "../cases.h"
#include "util.h"

#define PROCESSES	4
#define GUESSES		1000000

static struct machine m;
static struct user u[PROCESSES];
static int keys[PROCESSES + 1];

static int setup(void **state)
{
	int i;

	machine_up(&m, 2, 64 * PAGE, 32 * PAGE, 0);
	for (i = 0; i < PROCESSES; i++)
		user_up(&u[i], &m, 0, &keys[i]);
	return 0;
}

static int teardown(void **state)
{
	int i;

	for (i = 0; i < PROCESSES; i++)
		user_down(&u[i]);
	machine_down(&m);
	return 0;
}

FIXTURE(setup, teardown)

/* ---- compute modes ---- */

static u64 phys(void *priv, u64 offset)
{
	return VRAM_PHYS + offset;
}

static int no_copy(void *cookie, void *local, u64 addr, u64 len, bool to_process)
{
	return -EFAULT;
}

CASE_WITH(compute_modes, NULL, NULL)
{
	static const struct sg_host_ops ops = { .copy = no_copy };
	struct sg_gpu_desc desc = { .name = "test GPU", .vram_size = 4 * PAGE, .engines = 1, .phys = phys };
	struct softgpu_ctx_create c = { 0 }, further = { 0 };
	struct sg_client *one, *two;
	struct softgpu_info info;
	struct sg *sg;
	u32 mode, gpu;

	desc.vram = malloc(4 * PAGE);
	assert_int_equal(sg_create(&sg), 0);
	for (mode = 0; mode < 5; mode++) {
		desc.compute_mode = mode;
		if (mode == 1 || mode == 4) {
			assert_int_equal(sg_gpu_add(sg, &desc, &gpu), -EINVAL);
			continue;
		}
		assert_int_equal(sg_gpu_add(sg, &desc, &gpu), 0);
		assert_int_equal(sg_client_open(sg, gpu, &keys[0], &ops, NULL, &one), 0);
		assert_int_equal(sg_client_open(sg, gpu, &keys[1], &ops, NULL, &two), 0);
		assert_int_equal(CALL(one, SOFTGPU_INFO, &info), 0);
		assert_int_equal(info.compute_mode, mode);
		switch (mode) {
		case SOFTGPU_COMPUTE_PROHIBITED:
			assert_int_equal(CALL(one, SOFTGPU_CTX_CREATE, &c), -EACCES);
			break;
		case SOFTGPU_COMPUTE_EXCLUSIVE:
			assert_int_equal(CALL(one, SOFTGPU_CTX_CREATE, &c), 0);
			assert_int_equal(CALL(two, SOFTGPU_CTX_CREATE, &further), -EBUSY);
			assert_int_equal(CALL(one, SOFTGPU_CTX_CREATE, &further), -EBUSY);
			assert_int_equal(CALL(one, SOFTGPU_CTX_DESTROY, (&(struct softgpu_handle){ .handle = c.ctx })), 0);
			assert_int_equal(CALL(two, SOFTGPU_CTX_CREATE, &further), 0);
			assert_int_equal(CALL(one, SOFTGPU_CTX_CREATE, &c), -EBUSY);
			break;
		default:
			assert_int_equal(CALL(one, SOFTGPU_CTX_CREATE, &c), 0);
			assert_int_equal(CALL(two, SOFTGPU_CTX_CREATE, &c), 0);
		}
		/* the end of a process is that of its contexts */
		sg_client_close(two);
		c = (struct softgpu_ctx_create){ 0 };
		assert_int_equal(CALL(one, SOFTGPU_CTX_CREATE, &c),
				 mode == SOFTGPU_COMPUTE_PROHIBITED ? -EACCES : 0);
		sg_client_close(one);
		sg_gpu_remove(sg, gpu);
	}
	sg_destroy(sg);
	free(desc.vram);
}

/* ---- who may pin what ---- */

static int pin_as(struct tpin *t, const struct sg_pin_who *who, u64 va)
{
	memset(&t->pin, 0, sizeof(t->pin));
	t->callbacks = t->unmaps = t->frees = 0;
	return sg_pin_get(m.sg, &t->pin, &tpin_ops, who, va, PAGE, false);
}

/* Each pins its own and, by tokens, all others'; by its own right no other's. */
CASE(each_its_own)
{
	static struct tpin own[PROCESSES], by_token[PROCESSES];
	struct softgpu_query q[PROCESSES];
	u64 va[PROCESSES];
	int i, j;

	for (i = 0; i < PROCESSES; i++) {
		/* so that no two have anything at the same address */
		struct softgpu_va_reserve gap = { .length = 8 * PAGE * (i + 1) };

		assert_int_equal(CALL(u[i].client, SOFTGPU_VA_RESERVE, &gap), 0);
		assert_int_equal(mem_alloc(&u[i], 2 * PAGE, &va[i]), 0);
		q[i] = query(&u[i], va[i]);
		assert_int_equal(tpin_get(&own[i], &u[i], va[i], 2 * PAGE, false), 0);
	}
	for (i = 0; i < PROCESSES; i++) {
		for (j = 0; j < PROCESSES; j++) {
			struct sg_pin_who bare = { .proc_key = &keys[i] };
			struct sg_pin_who token = { .proc_key = &keys[i], .p2p_token = q[j].p2p_token, .va_space_token = q[j].va_space_token };
			struct sg_pin_who mixed = { .proc_key = &keys[i], .p2p_token = q[i].p2p_token, .va_space_token = q[j].va_space_token };
			static struct tpin t;

			if (i == j)
				continue;
			assert_int_equal(pin_as(&t, &bare, va[j]), -EINVAL);
			assert_int_equal(pin_as(&t, &mixed, va[j]), -EINVAL);
			/* a token is of one context, not of whatever its holder has */
			assert_int_equal(pin_as(&t, &token, va[i]), -EINVAL);
			assert_int_equal(pin_as(&by_token[j], &token, va[j]), 0);
			assert_int_equal(sg_pin_put(m.sg, &by_token[j].pin, false), 0);
		}
	}
	/* one's end is nothing to the others */
	user_down(&u[1]);
	for (i = 0; i < PROCESSES; i++)
		assert_int_equal(tpin_count(&own[i].callbacks), i == 1);
	{
		struct sg_pin_who stale = { .proc_key = &keys[0], .p2p_token = q[1].p2p_token, .va_space_token = q[1].va_space_token };

		assert_int_equal(pin_as(&by_token[0], &stale, va[1]), -EINVAL);
	}
	for (i = 0; i < PROCESSES; i++) {
		if (i != 1)
			assert_int_equal(sg_pin_put(m.sg, &own[i].pin, false), 0);
	}
}

/* VMM memory belongs to no context: its tokens are 0, with which its process alone pins. */
CASE(vmm_has_no_tokens)
{
	struct softgpu_va_reserve r = { .length = PAGE };
	struct softgpu_phys_create p = { .length = PAGE };
	struct softgpu_map map = { .length = PAGE };
	struct softgpu_query q, mine;
	struct sg_pin_who who;
	static struct tpin t;
	u64 va;

	assert_int_equal(CALL(u[0].client, SOFTGPU_VA_RESERVE, &r), 0);
	assert_int_equal(CALL(u[0].client, SOFTGPU_PHYS_CREATE, &p), 0);
	map.va = r.va;
	map.handle = p.handle;
	assert_int_equal(CALL(u[0].client, SOFTGPU_MAP, &map), 0);
	q = query(&u[0], r.va);
	assert_true(!q.p2p_token && !q.va_space_token);
	who = (struct sg_pin_who){ .proc_key = &keys[1], .p2p_token = q.p2p_token, .va_space_token = q.va_space_token };
	assert_int_equal(pin_as(&t, &who, r.va), -EINVAL);
	who.proc_key = &keys[0];
	assert_int_equal(pin_as(&t, &who, r.va), 0);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, false), 0);
	/* nor by those of a context of its process */
	assert_int_equal(mem_alloc(&u[0], PAGE, &va), 0);
	mine = query(&u[0], va);
	who = (struct sg_pin_who){ .proc_key = &keys[1], .p2p_token = mine.p2p_token, .va_space_token = mine.va_space_token };
	assert_int_equal(pin_as(&t, &who, r.va), -EINVAL);
}

/*
 * The document's example: an address is freed on one GPU and given out again on
 * another.  The old tokens do not reach what stands there now.
 */
CASE(an_address_moves_to_another_gpu)
{
	struct softgpu_query q0, q1;
	struct sg_pin_who old, new;
	static struct tpin t;
	struct user other;
	u64 va0, va1;

	user_up(&other, &m, 1, &keys[0]);
	assert_int_equal(mem_alloc(&u[0], 2 * PAGE, &va0), 0);
	q0 = query(&u[0], va0);
	assert_int_equal(mem_free(&u[0], va0), 0);
	assert_int_equal(mem_alloc(&other, 2 * PAGE, &va1), 0);
	q1 = query(&u[0], va1);
	assert_true(va0 == va1);
	assert_true(q0.gpu == 0 && q1.gpu == 1 && q0.buffer_id != q1.buffer_id);
	assert_true(q0.p2p_token != q1.p2p_token && q0.va_space_token != q1.va_space_token);
	old = (struct sg_pin_who){ .proc_key = &keys[0], .p2p_token = q0.p2p_token, .va_space_token = q0.va_space_token };
	new = (struct sg_pin_who){ .proc_key = &keys[1], .p2p_token = q1.p2p_token, .va_space_token = q1.va_space_token };
	assert_int_equal(pin_as(&t, &old, va0), -EINVAL);
	assert_int_equal(pin_as(&t, &new, va1), 0);
	assert_int_equal(sg_pin_gpu_index(&t.pin), 1);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, false), 0);
	user_down(&other);
}

/* ---- guessing ---- */

enum guess { FAR, WRONG_SPACE, WRONG_TOKEN, ONE_BIT, TWO_OF_TWO, KINDS };

static const char *const guess_names[KINDS] = {
	[FAR] = "both at random",
	[WRONG_SPACE] = "p2pToken right, vaSpaceToken at random",
	[WRONG_TOKEN] = "vaSpaceToken right, p2pToken at random",
	[ONE_BIT] = "one bit of the 96 wrong",
	[TWO_OF_TWO] = "both right, of two contexts",
};

static struct sg_pin_who make_guess(enum guess kind, const struct softgpu_query *right,
				    const struct softgpu_query *other, u64 *seed)
{
	struct sg_pin_who who = { .proc_key = &keys[PROCESSES], .p2p_token = rnd_u64(seed) | 1, .va_space_token = (u32)rnd_u64(seed) | 1 };
	u64 bit;

	switch (kind) {
	case WRONG_SPACE:
		who.p2p_token = right->p2p_token;
		if (who.va_space_token == right->va_space_token)
			who.va_space_token ^= 2;
		break;
	case WRONG_TOKEN:
		who.va_space_token = right->va_space_token;
		break;
	case ONE_BIT:
		who.p2p_token = right->p2p_token;
		who.va_space_token = right->va_space_token;
		bit = rnd_u64(seed) % 96;
		if (bit < 64)
			who.p2p_token ^= 1ULL << bit;
		else
			who.va_space_token ^= 1u << (bit - 64);
		break;
	case TWO_OF_TWO:
		who.p2p_token = right->p2p_token;
		who.va_space_token = other->va_space_token;
		break;
	default:
		break;
	}
	return who;
}

static int by_value(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/*
 * A million, each kind in turn, so that what else the machine does falls on all
 * alike.  The errno is checked; times are only shown.
 */
CASE(a_million_guesses)
{
	static u64 times[KINDS][GUESSES / KINDS];
	struct softgpu_query right, other;
	u64 va, dummy, seed = sg_random64(), lowest = ~0ULL, highest = 0, i;
	u32 accepted = 0;
	enum guess kind;

	test_seed = seed;
	assert_int_equal(mem_alloc(&u[2], PAGE, &va), 0);
	assert_int_equal(mem_alloc(&u[3], PAGE, &dummy), 0);
	right = query(&u[2], va);
	other = query(&u[3], dummy);
	for (i = 0; i < GUESSES / KINDS; i++) {
		for (kind = 0; kind < KINDS; kind++) {
			static struct tpin t;
			struct sg_pin_who who = make_guess(kind, &right, &other, &seed);
			u64 start;
			int err;

			test_step = i * KINDS + kind;
			start = sg_now_ns();
			err = pin_as(&t, &who, va);
			times[kind][i] = sg_now_ns() - start;
			accepted += !err;
			/* -EIO is for a token without a space: what the guess itself shows */
			MUST(err == (who.va_space_token ? -EINVAL : -EIO));
		}
	}
	assert_int_equal(accepted, 0);
	print_message("%llu guesses, %u accepted; ns per refusal:\n",
		      (unsigned long long)(GUESSES / KINDS * KINDS), accepted);
	print_message("  %-42s %7s %7s %7s\n", "", "1%", "median", "99%");
	for (kind = 0; kind < KINDS; kind++) {
		u64 n = GUESSES / KINDS, *t = times[kind];

		qsort(t, n, sizeof(*t), by_value);
		print_message("  %-42s %7llu %7llu %7llu\n", guess_names[kind],
			      (unsigned long long)t[n / 100], (unsigned long long)t[n / 2],
			      (unsigned long long)t[n - 1 - n / 100]);
		lowest = t[n / 2] < lowest ? t[n / 2] : lowest;
		highest = t[n / 2] > highest ? t[n / 2] : highest;
	}
	print_message("  the medians lie %llu ns apart\n", (unsigned long long)(highest - lowest));
}

MAIN(NULL, NULL)
