// SPDX-License-Identifier: MIT
/* SOFTGPU_CHAOS: what is accepted is what it says, and in bounds. */
#include "chaos.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	const struct sg_chaos_knob *knob;
	struct sg_chaos chaos = { 0 };

	if (!sgu_chaos_parse(text, &chaos)) {
		for (u32 i = 0; (knob = sg_chaos_knob(i)); i++)
			MUST(sg_chaos_value(&chaos, i) <= knob->max);
		MUST(!strpbrk(text, "-+\t\n"));
	}
	free(text);
	return 0;
}
