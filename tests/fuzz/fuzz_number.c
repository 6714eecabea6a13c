// SPDX-License-Identifier: MIT
/* The numbers of SOFTGPU_VRAM_MIB and its kind, of knobs, and of the tables: digits and no more. */
#include "fuzz.h"
#include "parse.h"
#include "base/tool.h"
#include "../../peers/fpga/src/util.h"

static bool digits(const char *s, size_t length, const char *which)
{
	for (size_t i = 0; i < length; i++) {
		if (!s[i] || !strchr(which, s[i]))
			return false;
	}
	return length;
}

static bool is_number(const char *s, size_t length)
{
	if (length > 2 && s[0] == '0' && (s[1] | 0x20) == 'x')
		return digits(s + 2, length - 2, "0123456789abcdefABCDEF");
	return digits(s, length, "0123456789");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	char *exact = fuzz_copy(data, size), again[32];
	uint64_t value, other;

	if (sgu_number(exact, size, &value)) {
		MUST(is_number(text, size));
		snprintf(again, sizeof(again), "%llu", (unsigned long long)value);
		MUST(sgu_number(again, strlen(again), &other) && other == value);
		if (size < 24)
			MUST(text_u64(exact, size, &other) && other == value);
	} else if (size < 16) {
		MUST(!is_number(text, size));
	}
	if (text_u64(exact, size, &value))
		MUST(is_number(text, size));
	if (parse_size(text, &value))
		MUST(value && text[0] >= '0' && text[0] <= '9');
	free(exact);
	free(text);
	return 0;
}
