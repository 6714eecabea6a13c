// SPDX-License-Identifier: MIT
/* What `peerdma top` reads of drivers in debugfs: any bytes; what is understood can be printed. */
#include "fuzz.h"
#include "top/top.h"

static void check(const char *s, size_t size)
{
	MUST(strlen(s) < size);
	for (; *s; s++)
		MUST((unsigned char)*s >= ' ' && *s != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct top_sample s = { 0 };
	char *copy = fuzz_copy(data, size), *text = calloc(1, size + 1), word[16];
	uint64_t n;

	MUST(text);
	memcpy(text, data, size);
	top_clients_parse(copy, size, "peerdma_fuzz", &s);
	MUST(!top_pin_devices(text, &s));
	top_number(text, "pins", &n);
	if (top_word(text, "uuid", word, sizeof(word)))
		check(word, sizeof(word));
	for (size_t i = 0; i < s.device_count; i++)
		check(s.devices[i].name, sizeof(s.devices[i].name));
	for (size_t i = 0; i < s.process_count; i++)
		check(s.processes[i].comm, SIZE_MAX);
	top_free(&s);
	free(text);
	free(copy);
	return 0;
}
