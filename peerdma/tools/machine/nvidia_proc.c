// SPDX-License-Identifier: MIT
/*
 * nvidia_proc.c - what NVIDIA's driver says of a GPU in /proc/driver/nvidia/gpus/ADDRESS.
 *
 * Its file `information' also has the GPU's UUID, which identifies the board: only these lines are read.
 */
#include <stdio.h>
#include <string.h>

#include "machine.h"

static const char *const keys[] = { "Model", "Device Minor" };

static bool is_key(const char *line, size_t length, const char *key)
{
	size_t n = strlen(key);

	return length > n && !memcmp(line, key, n) && line[n] == ':';
}

static bool keep(const char *line, size_t length, void *arg)
{
	(void)arg;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (is_key(line, length, keys[i]))
			return true;
	}
	return false;
}

bool nvidia_information(struct tree *t, const struct device *d, const char *key, char *out,
			size_t size)
{
	const char *data;
	char path[96];

	*out = 0;
	snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/information", d->name);
	if (tree_lines(t, path, keep, NULL, &data, NULL))
		return false;
	for (const char *line = data; *line;) {
		size_t length = strcspn(line, "\n"), n = strlen(key) + 1;

		if (is_key(line, length, key)) {
			n += strspn(line + n, " \t");
			return n < length && !tree_clean(out, size, line + n, length - n) && *out;
		}
		line += length + (line[length] == '\n');
	}
	return false;
}
