// SPDX-License-Identifier: MIT
/*
 * chaos.c - failures and revocations on demand, and strict mode.
 *
 * Strict mode holds a device-to-device copy or fill back until the program calls
 * something that CUDA documents as synchronizing with it: a copy to or from the
 * host, a synchronize, a free.  Queries let it go too, or polling would not end.
 * So what a real GPU shows once a month, stale data in BAR1 after an asynchronous
 * call, happens every time.
 */
#include "sg_int.h"

static const char *const rule_texts[SG_RULES] = {
	[SG_RULE_SYNC_MEMOPS] =
		"work was queued on pinned memory without SYNC_MEMOPS: what a device reads there before the next synchronizing call is stale",
	[SG_RULE_LAUNCH_AFTER_DMA] =
		"a kernel looked for data that a device wrote after its launch: only work launched after the DMA has completed must see it",
};

void sg_chaos_set(struct sg *sg, const struct sg_chaos *chaos)
{
	struct sg_ctx *ctx;

	sg_mutex_lock(&sg->lock);
	/* The sequence of revocations begins anew only when it is asked for. */
	if (chaos->seed != sg->chaos.seed || chaos->revoke_every != sg->chaos.revoke_every) {
		sg->random = chaos->seed;
		sg->pins_until_revoke = chaos->revoke_every;
	}
	sg->chaos = *chaos;
	if (!chaos->strict) {
		sg_list_for_each(ctx, &sg->ctxs, struct sg_ctx, in_sg)
			sg_strict_release_locked(ctx);
	}
	sg_mutex_unlock(&sg->lock);
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

int sg_chaos_map(struct sg *sg)
{
	bool hit;

	sg_mutex_lock(&sg->lock);
	hit = sg_chaos_hits_locked(&sg->chaos.fail_map);
	sg_mutex_unlock(&sg->lock);
	return hit ? -ENOMEM : 0;
}

u64 sg_chaos_random_locked(struct sg *sg)
{
	/* xorshift64*: small, repeatable, and nobody's secret. */
	u64 x = sg->random ? sg->random : 0x9e3779b97f4a7c15ULL;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	sg->random = x;
	return (x * 0x2545f4914f6cdd1dULL) >> 32;
}

void sg_chaos_pinned_locked(struct sg_gpu *gpu)
{
	struct sg *sg = gpu->sg;

	if (!sg_chaos_hits_locked(&sg->pins_until_revoke))
		return;
	/* Between one and twice as many, so that no rhythm of the client's is met. */
	sg->pins_until_revoke = sg->chaos.revoke_every +
				(u32)sg_chaos_random_locked(sg) % sg->chaos.revoke_every;
	gpu->revoke_due = true;
	sg_cond_broadcast(&gpu->work);
}

bool sg_sync_memops_locked(struct sg_proc *proc, u64 va)
{
	struct sg_buf *buf = sg_buf_at(proc, va);

	return buf && buf->sync_memops;
}

/* Whether any page of [va, va + len) is pinned; the range's pins are looked at one by one. */
static bool pinned_locked(struct sg_proc *proc, u64 va, u64 len)
{
	struct sg_range *range = sg_range_at(proc, va);
	struct sg_pin *pin;

	if (!range)
		return false;
	sg_list_for_each(pin, &range->pins, struct sg_pin, link) {
		if (pin->va < va + len && va < pin->va + pin->length)
			return true;
	}
	return false;
}

bool sg_strict_holds_locked(struct sg_proc *proc, const struct sg_job *job)
{
	struct sg *sg = proc->sg;

	if (!sg->chaos.strict || !sg_range_at(proc, job->move.dst))
		return false;
	if (job->op == SG_OP_COPY && !sg_range_at(proc, job->move.src))
		return false;
	if (pinned_locked(proc, job->move.dst, job->move.width) ||
	    (job->op == SG_OP_COPY && pinned_locked(proc, job->move.src, job->move.width))) {
		if (!sg->broken[SG_RULE_SYNC_MEMOPS]++)
			sg_info("strict: %s", rule_texts[SG_RULE_SYNC_MEMOPS]);
	}
	return true;
}

void sg_strict_release_locked(struct sg_ctx *ctx)
{
	if (ctx->released_seq == ctx->next_seq)
		return;
	ctx->released_seq = ctx->next_seq;
	sg_cond_broadcast(&ctx->gpu->work);
}

u64 sg_rule_broken(struct sg *sg, enum sg_rule rule)
{
	u64 n;

	sg_mutex_lock(&sg->lock);
	n = rule < SG_RULES ? sg->broken[rule] : 0;
	sg_mutex_unlock(&sg->lock);
	return n;
}

const char *sg_rule_text(enum sg_rule rule)
{
	return rule < SG_RULES ? rule_texts[rule] : "";
}
