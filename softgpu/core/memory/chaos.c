// SPDX-License-Identifier: MIT
/* chaos.c - failures and revocations on demand. */
#include "memory.h"

/* The knobs by name; their order is that of indexes in the public functions. */
static const struct {
	struct sg_chaos_knob knob;
	size_t offset;
	size_t size;
} knobs[] = {
#define KNOB(name, max) \
	{ { #name, max }, offsetof(struct sg_chaos, name), sizeof(((struct sg_chaos *)0)->name) }
	KNOB(fail_pin, ~(u32)0),
	KNOB(fail_map, ~(u32)0),
	KNOB(fail_alloc, ~(u32)0),
	KNOB(callback_delay_ms, 60 * 1000),
	KNOB(bar1_limit, ~(u64)0),
	KNOB(revoke_every, ~(u32)0),
	KNOB(seed, ~(u64)0),
	KNOB(strict, 1),
	KNOB(device_pointers, 1),
#undef KNOB
};

#define KNOBS	(sizeof(knobs) / sizeof(knobs[0]))

const struct sg_chaos_knob *sg_chaos_knob(u32 index)
{
	return index < KNOBS ? &knobs[index].knob : NULL;
}

u64 sg_chaos_value(const struct sg_chaos *chaos, u32 index)
{
	const void *field = (const char *)chaos + knobs[index].offset;

	switch (knobs[index].size) {
	case sizeof(u64):
		return *(const u64 *)field;
	case sizeof(u32):
		return *(const u32 *)field;
	default:
		return *(const bool *)field;
	}
}

void sg_chaos_change(struct sg_chaos *chaos, u32 index, u64 value)
{
	void *field = (char *)chaos + knobs[index].offset;

	switch (knobs[index].size) {
	case sizeof(u64):
		*(u64 *)field = value;
		break;
	case sizeof(u32):
		*(u32 *)field = (u32)value;
		break;
	default:
		*(bool *)field = value;
	}
}

void sg_chaos_get(struct sg *sg, struct sg_chaos *chaos)
{
	sg_mutex_lock(&sg->lock);
	*chaos = sg->chaos;
	sg_mutex_unlock(&sg->lock);
}

bool sg_chaos_hits_locked(u32 *countdown)
{
	return *countdown && !--*countdown;
}

static int counted(struct sg *sg, u32 *countdown)
{
	bool hit;

	sg_mutex_lock(&sg->lock);
	hit = sg_chaos_hits_locked(countdown);
	sg_mutex_unlock(&sg->lock);
	return hit ? -ENOMEM : 0;
}

int sg_chaos_map(struct sg *sg)
{
	return counted(sg, &sg->chaos.fail_map);
}

int sg_chaos_pin(struct sg *sg)
{
	return counted(sg, &sg->chaos.fail_pin);
}

u64 sg_chaos_random_locked(struct sg *sg)
{
	/* xorshift64*: small and repeatable; need not be secret. */
	u64 x = sg->random ? sg->random : 0x9e3779b97f4a7c15ULL;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	sg->random = x;
	return (x * 0x2545f4914f6cdd1dULL) >> 32;
}

/* A pin was made: is it time to revoke one? */
static bool is_due_locked(struct sg *sg)
{
	if (!sg_chaos_hits_locked(&sg->pins_until_revoke))
		return false;
	/* Between one and two times revoke_every, so that it is not in step with the client. */
	sg->pins_until_revoke = sg->chaos.revoke_every +
				(u32)sg_chaos_random_locked(sg) % sg->chaos.revoke_every;
	return true;
}

void sg_chaos_pinned_locked(struct sg_gpu *gpu)
{
	if (!is_due_locked(gpu->sg))
		return;
	gpu->revoke_due = true;
	sg_cond_broadcast(&gpu->work);
}

bool sg_chaos_pinned(struct sg *sg, u64 *random)
{
	bool due;

	sg_mutex_lock(&sg->lock);
	due = is_due_locked(sg);
	if (due)
		*random = sg_chaos_random_locked(sg);
	sg_mutex_unlock(&sg->lock);
	return due;
}
