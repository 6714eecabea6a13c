// SPDX-License-Identifier: MIT
/* accounts.c - parses the table of accounts.  Its input may be any bytes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accounts.h"
#include "base/tool.h"

#define COLUMNS_MAX 64

const char *const taken_names[TAKEN] = {
	[TAKEN_PINS] = "pins",
	[TAKEN_MAPPINGS] = "mappings",
	[TAKEN_VIEWS] = "views",
	[TAKEN_EXPORTS] = "exports",
	[TAKEN_APERTURE] = "aperture",
	[TAKEN_LOCKED] = "locked",
};

/* In which field of a line each is. */
struct header {
	size_t count, uid, taken[TAKEN];
};

static bool find(const struct field *fields, size_t count, const char *name, size_t *at)
{
	for (*at = 0; *at < count; ++*at)
		if (field_is(&fields[*at], name))
			return true;
	return false;
}

static bool header_parse(const char *s, const char *end, struct header *h)
{
	struct field fields[COLUMNS_MAX];

	h->count = tsv_split(s, end, fields, COLUMNS_MAX);
	for (int i = 0; i < TAKEN; i++)
		if (!find(fields, h->count, taken_names[i], &h->taken[i]))
			return false;
	return find(fields, h->count, "uid", &h->uid);
}

static bool line_parse(const struct header *h, const char *s, const char *end, struct account *a)
{
	struct field fields[COLUMNS_MAX];

	if (tsv_split(s, end, fields, COLUMNS_MAX) != h->count ||
	    !text_u64(fields[h->uid].s, fields[h->uid].length, &a->uid))
		return false;
	for (int i = 0; i < TAKEN; i++)
		if (!text_u64(fields[h->taken[i]].s, fields[h->taken[i]].length, &a->taken[i]))
			return false;
	return true;
}

static bool has_something(const struct account *a)
{
	for (int i = 0; i < TAKEN; i++)
		if (a->taken[i])
			return true;
	return false;
}

static int add(struct accounts *accounts, const struct account *a)
{
	struct account *bigger = reallocarray(accounts->users, accounts->count + 1,
					      sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	accounts->users = bigger;
	accounts->users[accounts->count++] = *a;
	return 0;
}

int accounts_parse(const char *data, size_t length, struct accounts *accounts)
{
	const char *end = data + length, *newline = memchr(data, '\n', length);
	struct account a;
	struct header h;
	int ret = 0;

	memset(accounts, 0, sizeof(*accounts));
	if (!newline || !header_parse(data, newline, &h))
		return -EBADMSG;
	for (const char *s = newline + 1; !ret && s < end; s = newline + 1) {
		newline = memchr(s, '\n', (size_t)(end - s));
		if (!newline)
			newline = end;
		if (newline == s)
			continue;
		if (!line_parse(&h, s, newline, &a))
			accounts->malformed++;
		else if (has_something(&a))
			ret = add(accounts, &a);
	}
	if (ret)
		accounts_free(accounts);
	return ret;
}

static bool parameter_read(const char *root, const char *name, uint64_t *value)
{
	char path[128], *data;
	size_t length;
	bool known;

	snprintf(path, sizeof(path), "/sys/module/peerdma/parameters/%s", name);
	if (file_read(root, path, &data, &length))
		return false;
	known = text_u64(data, strcspn(data, "\n"), value);
	free(data);
	return known;
}

int accounts_read(const char *root, struct accounts *accounts)
{
	char *data, name[64];
	size_t length;
	int ret = file_read(root, ACCOUNTS_PATH, &data, &length);

	if (ret)
		return ret;
	ret = accounts_parse(data, length, accounts);
	free(data);
	if (ret)
		return ret;
	for (int i = TAKEN_PINS; i <= TAKEN_EXPORTS; i++) {
		snprintf(name, sizeof(name), "max_%s_per_user", taken_names[i]);
		accounts->limit_known[i] = parameter_read(root, name, &accounts->limits[i]);
	}
	accounts->limit_known[TAKEN_APERTURE] = parameter_read(root, "max_aperture_mib_per_user",
							       &accounts->limits[TAKEN_APERTURE]) &&
		accounts->limits[TAKEN_APERTURE] <= UINT64_MAX >> 20;
	accounts->limits[TAKEN_APERTURE] <<= 20;
	return 0;
}

void accounts_free(struct accounts *accounts)
{
	free(accounts->users);
	memset(accounts, 0, sizeof(*accounts));
}
