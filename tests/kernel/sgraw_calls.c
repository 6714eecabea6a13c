// SPDX-License-Identifier: MIT
#include "sgraw.h"
#include "sgraw_calls.h"

struct sg_side sg_side_up(void)
{
	struct softgpu_ctx_create c = { .flags = SOFTGPU_CTX_VISIBLE };
	struct gpu g = gpu_up(0);

	NEED(!SG_CALL(g.fd, SOFTGPU_CTX_CREATE, &c));
	return (struct sg_side){ .fd = g.fd, .ctx = g.ctx, .visible = c.ctx };
}

uint64_t sg_side_alloc(const struct sg_side *side, bool visible, uint64_t length)
{
	uint64_t va;

	NEED(!sg_alloc(side->fd, visible ? side->visible : side->ctx, length, &va));
	return va;
}
