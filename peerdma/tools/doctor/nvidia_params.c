// SPDX-License-Identifier: MIT
/*
 * nvidia_params.c - see nvidia_params.h.  The file has lines "EnableStreamMemOPs: 0" and
 * 'RegistryDwords: "PeerMappingOverride=1;RMForceStaticBar1=1;"'.
 */
#include <string.h>
#include <strings.h>

#include "base/tool.h"
#include "nvidia_params.h"

#define REGISTRY "RegistryDwords"

/* Those that checks ask for: others may hold paths. */
static bool keep(const char *line, size_t length, void *arg)
{
	static const char *const names[] = { "EnableStreamMemOPs:", "DmaRemapPeerMmio:", REGISTRY };

	(void)arg;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (length > strlen(names[i]) && !memcmp(line, names[i], strlen(names[i])))
			return true;
	}
	return false;
}

/* NULL: there is no such line; *known: the file could be read, and is one. */
static const char *line_of(struct doctor *d, const char *name, bool *known)
{
	const char *data;
	size_t length, n = strlen(name);

	*known = !tree_lines(d->tree, NVIDIA_PARAMS, keep, NULL, &data, &length) && length;
	for (const char *s = *known ? data : ""; *s; s += strcspn(s, "\n"), s += *s == '\n') {
		if (!strncmp(s, name, n) && s[n] == ':')
			return s + n + 1 + strspn(s + n + 1, " \"");
	}
	return NULL;
}

enum answer nvidia_param(struct doctor *d, const char *name, uint64_t *value)
{
	bool known;
	const char *s = line_of(d, name, &known);

	if (!known)
		return ANSWER_UNKNOWN;
	return s && text_u64(s, strcspn(s, " \n"), value) ? ANSWER_YES : ANSWER_NO;
}

enum answer nvidia_registry(struct doctor *d, const char *key, uint64_t *value)
{
	bool known;
	const char *s = line_of(d, REGISTRY, &known);
	size_t n = strlen(key), length;

	if (!known)
		return ANSWER_UNKNOWN;
	for (; s && *s && !strchr("\"\n", *s); s += length, s += strspn(s, "; ")) {
		length = strcspn(s, "; \"\n");
		if (length > n && !strncasecmp(s, key, n) && s[n] == '=' &&
		    text_u64(s + n + 1, length - n - 1, value))
			return ANSWER_YES;
	}
	return ANSWER_NO;
}
