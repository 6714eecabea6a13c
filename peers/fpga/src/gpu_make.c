// SPDX-License-Identifier: MIT
/* gpu_make.c - whose GPU an argument names. */
#include <string.h>

#include "gpu.h"

bool gpu_make(const char *text, bool *amd, const char **rest)
{
	static const char *const makes[] = { "nvidia", "amd" };

	for (int i = 0; i < 2; i++) {
		size_t length = strlen(makes[i]);

		if (!strncmp(text, makes[i], length) && (!text[length] || text[length] == ':')) {
			*amd = i;
			*rest = text + length + (text[length] == ':');
			return true;
		}
	}
	return false;
}
