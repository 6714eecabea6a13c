// SPDX-License-Identifier: MIT
/* check.c - the comparison: a little after every step, everything now and then. */
#include "model.h"

static u32 clients_on(u32 gpu)
{
	u32 i, n = 0;

	for (i = 0; i < CLIENTS; i++)
		n += w.clients[i].used && w.clients[i].gpu == gpu;
	return n;
}

void compare_counts(void)
{
	struct sg_gpu_stats st;
	u32 g;

	sweep();
	for (g = 0; g < w.config.gpus; g++) {
		if (!w.gpus[g].used) {
			MUST(sg_gpu_stats(w.sg, g, &st) == -ENODEV);
			continue;
		}
		MUST(!sg_gpu_stats(w.sg, g, &st));
		MUST(st.vram_total == w.config.vram * PAGE);
		MUST(st.vram_total - st.vram_free == vram_used(g));
		MUST(st.bar1_total == w.config.bar1 * PAGE);
		MUST(st.bar1_reserved == w.config.reserved * PAGE);
		MUST(st.bar1_used == w.config.reserved * PAGE + bar1_used(g));
		MUST(st.pins == pins_on(g));
		MUST(st.clients == clients_on(g));
		MUST(st.revocations == w.gpus[g].revocations);
	}
	MUST(sg_rule_broken(w.sg, SG_RULE_SYNC_MEMOPS) == w.broken);
	MUST(sg_rule_broken(w.sg, SG_RULE_MANAGED) == w.managed);
	MUST(!sg_rule_broken(w.sg, SG_RULE_LAUNCH_AFTER_DMA));
}

static void check_buf(u32 i)
{
	const struct n_buf *b = &w.bufs[i];
	int client = client_of(b->proc, 0);
	struct softgpu_query q = { .va = b->va + b->len - 1 };
	int err;

	MUST(client >= 0);
	err = CALL(w.clients[client].c, SOFTGPU_QUERY, &q);
	if (client_removed((u32)client)) {
		MUST(err == -ENODEV);
		return;
	}
	MUST(!err);
	MUST(q.kind == b->kind && q.base == b->va && q.length == b->len && q.buffer_id == b->id);
	MUST(q.sync_memops == b->sync && q.host_flags == b->host_flags);
	MUST(q.access == (b->range < 0 ? 3 : w.ranges[b->range].access));
	MUST(q.ctx == (b->ctx < 0 ? 0 : w.ctxs[b->ctx].handle));
	MUST(q.p2p_token == (b->ctx < 0 ? 0 : w.ctxs[b->ctx].p2p_token));
	MUST(q.va_space_token == (b->ctx < 0 ? 0 : w.ctxs[b->ctx].va_space_token));
	MUST(q.phys == (b->phys < 0 || w.phys[b->phys].gone ? 0 : w.phys[b->phys].handle));
	if (b->range >= 0)
		MUST(q.gpu == w.mems[w.ranges[b->range].mem].gpu);
	else if (b->ctx >= 0)
		MUST(q.gpu == w.ctxs[b->ctx].gpu);
}

static void each_pin(void *arg, const struct sg_pin *pin)
{
	*(u64 *)arg += pin->serial;
}

void check_all(void)
{
	u64 serials = 0, listed = 0;
	u32 i;

	for (i = 0; i < BUFS; i++) {
		if (w.bufs[i].used)
			check_buf(i);
	}
	for (i = 0; i < PINS; i++) {
		const struct n_pin *p = &w.pins[i];

		if (!p->used)
			continue;
		serials += p->serial;
		MUST(!tpin_count(&p->t.callbacks) && !tpin_count(&p->t.frees));
		MUST(tpin_count(&p->t.unmaps) == p->orphan);
	}
	sg_pins_for_each(w.sg, each_pin, &listed);
	MUST(listed == serials);
}
