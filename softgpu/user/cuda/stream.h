/* SPDX-License-Identifier: MIT */
/* stream.h - a stream of the program. */
#pragma once

#include "internal.h"

struct stream {
	struct sgu_obj obj;
	struct sgu_ctx *ctx;		/* a reference */
	uint32_t kctx;			/* the life of ctx in which the stream was made */
	uint32_t handle;
	unsigned int flags;
};

/* Whether the context in which the stream was made has ended, or the stream was destroyed. */
bool sgu_stream_ended(CUstream handle);
