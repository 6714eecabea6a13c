// SPDX-License-Identifier: MIT
/* structures.c - trees, spaces and the hash against a naive second version, on random operations. */
#include "util.h"
#include "base/hash.h"

#include "memory/space.h"

#define UNITS	512u	/* small, so that the space is full and in pieces all the time */

static u8 owner[UNITS];		/* the naive version: who has each unit; 0 is free */
static struct sg_extent *held[256];

static u64 naive_first_fit(u64 len, u64 align)
{
	u64 start, i;

	for (start = 0; start + len <= UNITS; start += align) {
		for (i = 0; i < len && !owner[start + i]; i++)
			;
		if (i == len)
			return start;
	}
	return UNITS;
}

static u64 naive_longest(void)
{
	u64 i, run = 0, best = 0;

	for (i = 0; i < UNITS; i++) {
		run = owner[i] ? 0 : run + 1;
		if (run > best)
			best = run;
	}
	return best;
}

static void check_tree(const struct sg_node *n, u64 *sum)
{
	u32 l, r;
	u64 max;

	if (!n)
		return;
	check_tree(n->left, sum);
	check_tree(n->right, sum);
	l = n->left ? n->left->height : 0;
	r = n->right ? n->right->height : 0;
	MUST(n->height == 1 + (l > r ? l : r));
	MUST((l > r ? l - r : r - l) <= 1);
	max = n->len;
	if (n->left) {
		MUST(n->left->parent == n && n->left->key < n->key);
		max = n->left->max > max ? n->left->max : max;
	}
	if (n->right) {
		MUST(n->right->parent == n && n->right->key > n->key);
		max = n->right->max > max ? n->right->max : max;
	}
	MUST(n->max == max);
	*sum += n->len;
}

static void take(struct sg_space *space, u32 slot, u64 *state)
{
	u64 len = 1 + rnd_u64(state) % 24, align = 1ULL << rnd_u64(state) % 4, i, want;
	struct sg_extent *e = NULL;
	int err;

	switch (rnd_u64(state) % 3) {
	case 0:
		want = naive_first_fit(len, align);
		err = sg_space_take(space, len, align, &e);
		MUST(err == (want == UNITS ? -ENOSPC : 0));
		break;
	case 1:
		want = rnd_u64(state) % UNITS;
		for (i = want; i < want + len && i < UNITS && !owner[i]; i++)
			;
		err = sg_space_take_at(space, want, len, &e);
		MUST(err == (i == want + len ? 0 : -ENOSPC));
		break;
	default:
		if (len > naive_longest())
			len = naive_longest();
		want = len ? naive_first_fit(len, 1) : UNITS;
		err = sg_space_take_longest(space, len ? len : 1, &e);
		MUST(err == (len ? 0 : -ENOSPC));
		break;
	}
	if (err)
		return;
	MUST(e->node.key == want && e->node.len == len);
	for (i = want; i < want + len; i++)
		owner[i] = (u8)(slot + 1) ? (u8)(slot + 1) : 255;
	held[slot] = e;
}

static void give(struct sg_space *space, u32 slot)
{
	u64 i;

	for (i = 0; i < held[slot]->node.len; i++)
		owner[held[slot]->node.key + i] = 0;
	sg_space_give(space, held[slot]);
	held[slot] = NULL;
}

/* ---- the hash, against a flat array; now and then there is no memory to grow ---- */

#define KEYS	3000u

static void hash_steps(u64 steps, u64 *state)
{
	static struct sg_hash_node nodes[KEYS];
	static bool in[KEYS];
	struct sg_hash hash;
	u32 count = 0, i;
	u64 s;

	MUST(!sg_hash_init(&hash));
	for (s = 0; s < steps; s++) {
		/* More and fewer in turn. */
		bool add = rnd_u64(state) % 8 < (s / 5000 % 2 ? 2 : 6);

		i = (u32)(rnd_u64(state) % KEYS);
		nodes[i].key = (u64)(unsigned long)&nodes[i];
		MUST((sg_hash_find(&hash, nodes[i].key) == &nodes[i]) == in[i]);
		if (in[i] == add)
			continue;
		sg_fail_alloc(rnd_u64(state) % 4 == 0);
		if (add)
			sg_hash_add(&hash, &nodes[i]);
		else
			sg_hash_del(&hash, &nodes[i]);
		sg_fail_alloc(0);
		in[i] = add;
		count += add ? 1u : -1u;
		MUST(hash.count == count);
	}
	for (i = 0; i < KEYS; i++) {
		MUST((sg_hash_find(&hash, (u64)(unsigned long)&nodes[i]) != NULL) == in[i]);
		if (in[i])
			sg_hash_del(&hash, &nodes[i]);
	}
	MUST(!hash.count);
	sg_hash_fini(&hash);
}

int main(int argc, char **argv)
{
	u64 steps = argc > 1 ? strtoull(argv[1], NULL, 0) : 200000, state, sum, i;
	struct sg_space space;
	struct sg_node *n;

	test_seed = argc > 2 ? strtoull(argv[2], NULL, 0) : sg_now_ns();
	state = test_seed;
	MUST(!sg_space_init(&space, 0, UNITS));
	for (test_step = 0; test_step < steps; test_step++) {
		u32 slot = (u32)(rnd_u64(&state) % 200);

		if (held[slot])
			give(&space, slot);
		else
			take(&space, slot, &state);
		if (test_step % 64)
			continue;
		sum = 0;
		check_tree(space.free.root, &sum);
		MUST(sum == space.free_len);
		for (i = 0, n = sg_tree_first(&space.free); n; n = sg_tree_next(n)) {
			MUST(n->key >= i);
			MUST(sg_tree_find(&space.free, n->key) == n);
			MUST(sg_tree_floor(&space.free, n->key + n->len - 1) == n);
			i = n->key + n->len;
		}
	}
	for (i = 0; i < 200; i++) {
		if (held[i])
			give(&space, (u32)i);
	}
	MUST(space.free_len == UNITS && space.free.root->len == UNITS);
	sg_space_fini(&space);
	hash_steps(steps, &state);
	printf("structures: %llu steps, seed %llu\n", steps, test_seed);
	return 0;
}
