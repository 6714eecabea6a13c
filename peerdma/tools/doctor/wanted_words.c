// SPDX-License-Identifier: MIT
/*
 * wanted_words.c - what an administrator wrote: the words of --need and --ignore, and the file that
 * has the same.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tool.h"
#include "doctor.h"
#include "wanted.h"

static const struct need needs[] = {
	{ "dmabuf", WAY(WAY_DMABUF), DEVICE_OTHER, NULL },
	{ "peermem", WAY(WAY_PEERMEM), DEVICE_OTHER, NULL },
	{ "nvidia_p2p", WAY(WAY_NVP2P), DEVICE_OTHER, NULL },
	{ "p2pdma", WAY(WAY_P2PDMA), DEVICE_OTHER, NULL },
	{ "coherent", WAY(WAY_COHERENT), DEVICE_OTHER, NULL },
	{ "host", WAY(WAY_HOST), DEVICE_OTHER, NULL },
	{ "rdma", WAYS_RDMA | WAY(WAY_COHERENT), DEVICE_NIC, NULL },
	{ "storage", WAYS_PCI, DEVICE_NVME, NULL },
	{ "card", WAYS_PCI, DEVICE_CARD, NULL },
	{ "gpu-initiated", WAYS_RDMA | WAY(WAY_COHERENT), DEVICE_NIC, "gpu-initiated" },
};
#define NEEDS	(sizeof(needs) / sizeof(needs[0]))

/* The nth word that may stand there; NULL: no more. */
typedef const char *(*word_at)(size_t n);

static const char *need_at(size_t n)
{
	return n < NEEDS ? needs[n].word : n == NEEDS ? "none" : NULL;
}

static const char *check_at(size_t n)
{
	return checks[n] ? checks[n]->name : NULL;
}

#define NAMES_MAX	64
#define WORD_MAX	128

/* Names the one that was meant, or all that there are. */
static void wrong(const char *from, const char *kind, const char *word, word_at at,
		  char why[WANTED_WHY])
{
	const char *names[NAMES_MAX], *meant;
	size_t n = 0, used;

	while (n < NAMES_MAX && at(n)) {
		names[n] = at(n);
		n++;
	}
	meant = near_name(word, names, n, 0);
	used = (size_t)snprintf(why, WANTED_WHY, "%s: there is no %s '%s'", from, kind, word);
	if (meant && used < WANTED_WHY)
		snprintf(why + used, WANTED_WHY - used, "; did you mean '%s'?", meant);
	for (size_t i = 0; !meant && i < n && used < WANTED_WHY; i++)
		used += (size_t)snprintf(why + used, WANTED_WHY - used, "%s%s",
					 i ? ", " : "; there are ", names[i]);
}

/* "gpus:8": that many of a kind.  1: it is one, -1: it is one that has no number, 0: none. */
static int add_number(struct wanted *w, const char *word)
{
	static const struct {
		const char *word;
		size_t at;
	} kinds[] = {
		{ "gpus:", offsetof(struct wanted, gpus) },
		{ "adapters:", offsetof(struct wanted, adapters) },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t length = strlen(kinds[i].word);
		uint64_t n;

		if (strncmp(word, kinds[i].word, length))
			continue;
		if (!text_u64(word + length, strlen(word + length), &n) || !n || n > SHOWN_MAX)
			return -1;
		*(unsigned int *)((char *)w + kinds[i].at) = (unsigned int)n;
		return 1;
	}
	return 0;
}

static bool add_need(struct wanted *w, const char *from, const char *word, char why[WANTED_WHY])
{
	size_t n = 0;
	int number = add_number(w, word);

	if (number < 0)
		snprintf(why, WANTED_WHY, "%s: '%s': give a number, 1 to %u", from, word,
			 SHOWN_MAX);
	if (number)
		return number > 0;

	while (need_at(n) && strcmp(need_at(n), word))
		n++;
	if (!need_at(n)) {
		wrong(from, "way", word, need_at, why);
		return false;
	}
	if (n == NEEDS)
		w->none = true;
	else
		w->needs[w->need_count++] = needs[n];
	return true;
}

/* "link", or "link:NIC3": of that subject only. */
static bool add_ignored(struct wanted *w, const char *from, const char *word,
			char why[WANTED_WHY])
{
	size_t length = strcspn(word, ":"), n = 0;
	char check[WORD_MAX];

	snprintf(check, sizeof(check), "%.*s", (int)length, word);
	while (checks[n] && strcmp(checks[n]->name, check))
		n++;
	if (!checks[n]) {
		wrong(from, "check", check, check_at, why);
		return false;
	}
	w->ignored[w->ignored_count].check = checks[n]->name;
	snprintf(w->ignored[w->ignored_count].subject, sizeof(w->ignored[0].subject), "%s",
		 word[length] ? word + length + 1 : "");
	w->ignored_count++;
	return true;
}

typedef bool (*add_word)(struct wanted *w, const char *from, const char *word,
			 char why[WANTED_WHY]);

static bool each_word(struct wanted *w, const char *from, const char *words,
		      const unsigned int *count, add_word add, char why[WANTED_WHY])
{
	char word[WORD_MAX];
	bool any = false;

	for (const char *s = words + strspn(words, ", \t"); *s; s += strspn(s, ", \t")) {
		size_t length = strcspn(s, ",\t");

		while (length && s[length - 1] == ' ')
			length--;
		if (*count == WANTED_MAX || length >= sizeof(word)) {
			snprintf(why, WANTED_WHY, "%s: too %s", from,
				 length < sizeof(word) ? "many words" : "long a word");
			return false;
		}
		snprintf(word, sizeof(word), "%.*s", (int)length, s);
		if (!add(w, from, word, why))
			return false;
		any = true;
		s += length;
	}
	if (!any)
		snprintf(why, WANTED_WHY, "%s: nothing stands there", from);
	return any;
}

bool wanted_need(struct wanted *w, const char *from, const char *words, char why[WANTED_WHY])
{
	return each_word(w, from, words, &w->need_count, add_need, why);
}

bool wanted_ignore(struct wanted *w, const char *from, const char *words, char why[WANTED_WHY])
{
	return each_word(w, from, words, &w->ignored_count, add_ignored, why);
}

static const char *key_at(size_t n)
{
	static const char *const keys[] = { "need", "ignore", NULL };

	return keys[n];
}

static bool line(struct wanted *w, const char *from, char *text, char why[WANTED_WHY])
{
	char *value;
	size_t length;

	text[strcspn(text, "#")] = 0;
	value = strchr(text, '=');
	text += strspn(text, " \t\r");
	if (!*text)
		return true;
	length = strcspn(text, " \t=");
	if (!value || value < text + length) {
		snprintf(why, WANTED_WHY, "%s: neither 'need = ...' nor 'ignore = ...' nor a comment", from);
		return false;
	}
	value[strcspn(value, "\r")] = 0;
	text[length] = 0;
	value++;
	if (!strcmp(text, "need"))
		return wanted_need(w, from, value, why);
	if (!strcmp(text, "ignore"))
		return wanted_ignore(w, from, value, why);
	wrong(from, "setting", text, key_at, why);
	return false;
}

bool wanted_names_nothing(const struct doctor *d, unsigned int *n, char name[128],
			  const char **meant)
{
	const struct wanted *w = d->wanted;
	const char *subjects[SHOWN_MAX];

	while (w && *n < w->ignored_count) {
		const char *check = w->ignored[*n].check, *subject = w->ignored[*n].subject;
		size_t count = 0;
		bool found = !*subject;

		(*n)++;
		for (unsigned int i = 0; i < d->count; i++) {
			if (strcmp(d->findings[i].check->name, check))
				continue;
			found |= !strcmp(d->findings[i].subject, subject);
			if (count < SHOWN_MAX)
				subjects[count++] = d->findings[i].subject;
		}
		if (found)
			continue;
		snprintf(name, 128, "%s:%s", check, subject);
		*meant = near_name(subject, subjects, count, 0);
		return true;
	}
	return false;
}

/* A pipe would be read as empty, and other devices have no end. */
static int read_file(const char *file, char **data, size_t *length, char why[WANTED_WHY])
{
	int ret = file_read_regular(file, data, length);

	if (ret == -ENOTSUP)
		snprintf(why, WANTED_WHY, "%s: not a regular file: write the lines to one", file);
	else if (ret)
		snprintf(why, WANTED_WHY, "%s: %s", file, strerror(-ret));
	return ret;
}

int wanted_read(struct wanted *w, const char *file, char why[WANTED_WHY])
{
	unsigned int number = 0;
	char *data, from[PATH_MAX + 16];
	size_t length;
	int ret = read_file(file, &data, &length, why);

	if (ret)
		return ret;
	if (memchr(data, 0, length)) {
		snprintf(why, WANTED_WHY, "%s: not a text file", file);
		ret = -EINVAL;
	}
	for (char *s = data, *next; !ret && s && *s; s = next) {
		next = strchr(s, '\n');
		if (next)
			*next++ = 0;
		snprintf(from, sizeof(from), "%s:%u", file, ++number);
		if (!line(w, from, s, why))
			ret = -EINVAL;
	}
	free(data);
	return ret;
}
