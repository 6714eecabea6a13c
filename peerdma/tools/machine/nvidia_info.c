// SPDX-License-Identifier: MIT
/*
 * nvidia_info.c - what NVIDIA's driver says of a GPU in procfs: lines of a key and a value.  A file is
 * read once, so there is one choice of its lines: not its serial number, nor its UUID.
 */
#include <stdio.h>
#include <string.h>

#include "machine.h"

static bool keep(const char *line, size_t length, void *arg)
{
	static const char *const keys[] = { "Model:", "Device Minor:" };

	(void)arg;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (length > strlen(keys[i]) && !strncmp(line, keys[i], strlen(keys[i])))
			return true;
	}
	return false;
}

bool nvidia_info(struct tree *t, const struct device *d, const char *key, char *out, size_t size)
{
	const char *data, *s;
	char path[96];

	snprintf(path, sizeof(path), NVIDIA_GPUS "/%s/information", d->name);
	if (tree_lines(t, path, keep, NULL, &data, NULL))
		return false;
	for (s = data; *s; s += strcspn(s, "\n"), s += *s == '\n') {
		if (strncmp(s, key, strlen(key)) || s[strlen(key)] != ':')
			continue;
		s += strlen(key) + 1;
		s += strspn(s, " \t");
		if (!*s || *s == '\n')
			return false;
		tree_clean(out, size, s, strcspn(s, "\n"));
		return true;
	}
	return false;
}
