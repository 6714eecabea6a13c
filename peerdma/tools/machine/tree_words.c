// SPDX-License-Identifier: MIT
/*
 * tree_words.c - small answers: words, numbers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/tool.h"
#include "tree_inside.h"

/* Not cut in the middle of a character. */
static void tree_fit(char *out, size_t size, const char *clean)
{
	size_t length = strlen(clean);

	if (length >= size) {
		length = size - 1;
		while (length && (clean[length] & 0xc0) == 0x80)
			length--;
	}
	memcpy(out, clean, length);
	out[length] = 0;
}

int tree_clean(char *out, size_t size, const char *s, size_t length)
{
	char *clean = text_clean(s, length < 4096 ? length : 4096);

	*out = 0;
	if (!clean)
		return -ENOMEM;
	tree_fit(out, size, clean);
	free(clean);
	return 0;
}

int tree_word(struct tree *t, const char *path, char *out, size_t size)
{
	const char *data;
	int ret = tree_read(t, path, &data, NULL);

	*out = 0;
	return ret ? ret : tree_clean(out, size, data, strcspn(data, "\n"));
}

int tree_number(struct tree *t, const char *path, int64_t *out)
{
	char word[32];
	uint64_t n;
	bool minus;
	int ret = tree_word(t, path, word, sizeof(word));

	if (ret)
		return ret;
	minus = *word == '-';
	if (!text_u64(word + minus, strlen(word + minus), &n) || n > INT64_MAX)
		return -EBADMSG;
	*out = minus ? -(int64_t)n : (int64_t)n;
	return 0;
}

bool tree_exists(struct tree *t, const char *path)
{
	const char *data;
	size_t length;
	int ret = tree_list(t, path, &data);

	if (ret == -ENOTDIR)
		ret = tree_read(t, path, &data, &length);
	return !ret || ret == -EACCES || ret == -EPERM;
}
