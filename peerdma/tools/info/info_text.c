// SPDX-License-Identifier: MIT
/* info_text.c - `peerdma info` for people. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tool.h"
#include "info/info.h"
#include "uapi/peerdma_ioctl.h"

#define NARROW	40	/* a terminal is taken to have so many columns */
#define STATE	8	/* "unknown " */

static size_t word_width(const char *s, size_t length)
{
	size_t n = 0;

	for (size_t i = 0; i < length; i++)
		n += (s[i] & 0xc0) != 0x80;
	return n;
}

/* A word does not break; after the last column, text goes on at `indent`. */
static void put_wrapped(const struct tool *tool, size_t indent, const char *text)
{
	size_t columns = tool->columns > NARROW ? tool->columns : NARROW, at = indent;

	while (*text) {
		size_t length = strcspn(text, " "), width = word_width(text, length);

		if (at > indent && at + 1 + width >= columns) {
			printf("\n%*s", (int)indent, "");
			at = indent;
		}
		printf("%s%.*s", at > indent ? " " : "", (int)length, text);
		at += (at > indent) + width;
		text += length + strspn(text + length, " ");
	}
	putchar('\n');
}

/* A row: a name in a column of `width`, a state or "", and text. */
static void put_row(const struct tool *tool, size_t width, const char *name, const char *state,
		    const char *text)
{
	text_pad(name, (int)width);
	putchar(' ');
	if (*state)
		text_pad(state, STATE);
	put_wrapped(tool, width + 1 + (*state ? STATE : 0), text);
}

static size_t widest(size_t width, const char *name)
{
	size_t n = text_width(name);

	return n > width ? n : width;
}

/* "FILE (VERSION): why" */
static void put_component(const struct tool *tool, size_t width, const struct peerdma_component *c)
{
	char text[sizeof(c->file) + sizeof(c->version) + sizeof(c->why) + 8];
	int n = 0;

	text[0] = 0;
	if (*c->file)
		n += snprintf(text, sizeof(text), "%s", c->file);
	if (*c->version)
		n += snprintf(text + n, sizeof(text) - (size_t)n, n ? " (%s)" : "%s", c->version);
	snprintf(text + n, sizeof(text) - (size_t)n, "%s%s", n ? ": " : "", c->why);
	put_row(tool, width, c->name, info_state(c), text);
}

static void put_components(const struct tool *tool, const struct info *info, uint32_t type,
			   const char *title)
{
	size_t width = text_width(title);

	for (size_t i = 0; i < info->count; i++) {
		if (info->components[i].type == type)
			width = widest(width, info->components[i].name);
	}
	putchar('\n');
	put_row(tool, width, title, "STATE", "WHY");
	for (size_t i = 0; i < info->count; i++) {
		if (info->components[i].type == type)
			put_component(tool, width, &info->components[i]);
	}
}

static void put_libraries(const struct tool *tool, const struct info *info)
{
	size_t width = text_width("LOADED HERE");

	for (size_t i = 0; i < INFO_LIBRARIES; i++)
		width = widest(width, info->libraries[i].name);
	putchar('\n');
	put_row(tool, width, "LOADED HERE", "STATE", "WHY");
	for (size_t i = 0; i < INFO_LIBRARIES; i++) {
		const struct info_library *l = &info->libraries[i];

		put_row(tool, width, l->name, l->why ? "off" : "on",
			l->why ? l->why : "as by a program that uses it; it is not initialized");
	}
}

/* The calls that this entry's file intercepts, if it is the first entry of that file; else NULL. To be freed. */
static char *calls_of(const struct info *info, size_t entry)
{
	const char *file = info->intercepted[entry].file;
	size_t length = 0;
	char *text = NULL;
	FILE *out;

	for (size_t i = 0; i < entry; i++) {
		if (!strcmp(info->intercepted[i].file, file))
			return NULL;
	}
	out = open_memstream(&text, &length);
	if (!out)
		return NULL;
	for (size_t i = entry; i < info->intercepted_count; i++) {
		if (!strcmp(info->intercepted[i].file, file))
			fprintf(out, "%s%s", i == entry ? "" : ", ", info->intercepted[i].call);
	}
	fclose(out);
	return text;
}

/* A row for each library, as its path may be long, and the calls below it. */
static void put_intercepted(const struct tool *tool, const struct info *info)
{
	puts("\nINTERCEPTED");
	if (!info->intercepted_count)
		puts("no preloaded library intercepts calls for memory");
	for (size_t i = 0; i < info->intercepted_count; i++) {
		char *calls = calls_of(info, i);

		if (!calls)
			continue;
		puts(info->intercepted[i].file);
		put_row(tool, 1, "", "", calls);
		free(calls);
	}
}

static void put_versions(const struct tool *tool, const struct info *info)
{
	const struct peerdma_component *library = info_library(info);
	char text[1024];

	snprintf(text, sizeof(text), "%s, %s", library ? library->version : "not known",
		 library && *library->file ? library->file : "of a file that is not known");
	put_row(tool, 10, "libpeerdma", "", text);
	snprintf(text, sizeof(text), "%d.%d.%d, ABI %u of /dev/peerdma; this command was compiled with it",
		 PEERDMA_VERSION_MAJOR, PEERDMA_VERSION_MINOR, PEERDMA_VERSION_PATCH, PEERDMA_ABI);
	put_row(tool, 10, "header", "", text);
	snprintf(text, sizeof(text), "peerdma.ko %s", !info->module ? "is not loaded" :
		 *info->module ? info->module : "is loaded; its version is not known");
	put_row(tool, 10, "module", "", text);
}

/* "8 MiB", or "no limit" */
static const char *limit(uint64_t bytes, char buf[32])
{
	if (bytes == UINT64_MAX)
		snprintf(buf, 32, "no limit");
	else
		text_size(bytes, buf);
	return buf;
}

static void put_settings(const struct tool *tool, const struct info *info)
{
	char text[128], size[32];

	puts("\nSETTING       VALUE");
	put_row(tool, 13, "page size", "", text_size(info->page_size, size));
	snprintf(text, sizeof(text), "%s (RLIMIT_MEMLOCK)%s", limit(info->memlock, size),
		 info->memlock_exempt && info->memlock != UINT64_MAX ?
			 ", which does not apply: this process has CAP_IPC_LOCK" : "");
	put_row(tool, 13, "locked memory", "", text);
	if (info->files == UINT64_MAX)
		snprintf(text, sizeof(text), "no limit (RLIMIT_NOFILE)");
	else
		snprintf(text, sizeof(text), "%" PRIu64 " (RLIMIT_NOFILE)", info->files);
	put_row(tool, 13, "open files", "", text);
	put_row(tool, 13, "copy method", "", info->copy);
}

/* NAME=VALUE, and what the library makes of it. */
static void put_variable(const struct tool *tool, const struct info_variable *v)
{
	char text[sizeof(v->read->why) + 16];

	printf("%s=%s\n", v->name, v->value);
	if (v->read)
		snprintf(text, sizeof(text), "%s%s",
			 v->read->state == PEERDMA_COMPONENT_ON ? "" : "ignored: ", v->read->why);
	else
		snprintf(text, sizeof(text), "unknown variable: libpeerdma does not read it%s%s%s",
			 v->meant ? "; did you mean " : "", v->meant ? v->meant : "",
			 v->meant ? "?" : "");
	put_row(tool, 1, "", "", text);
}

static void put_variables(const struct tool *tool, const struct info *info)
{
	bool any = false;

	puts("\nENVIRONMENT");
	for (size_t i = 0; i < info->variable_count; i++) {
		if (!info->variables[i].value)
			continue;
		put_variable(tool, &info->variables[i]);
		any = true;
	}
	if (!any)
		puts("no variable PEERDMA_... is set");
}

static void put_verdict(const struct tool *tool, const struct info *info)
{
	const struct peerdma_component *by;
	char text[256];

	putchar('\n');
	switch (info_direct(info, &by)) {
	case DIRECT_YES:
		snprintf(text, sizeof(text), "GPU memory itself, not a copy, can be pinned: by back-end '%s'.", by->name);
		break;
	case DIRECT_UNKNOWN:
		snprintf(text, sizeof(text), "Cannot tell whether GPU memory itself can be pinned: for back-end '%s' it is decided per allocation.",
			 by->name);
		break;
	default:
		snprintf(text, sizeof(text), "GPU memory itself cannot be pinned here: no back-end that could is on.");
	}
	put_wrapped(tool, 0, text);
}

void info_text(const struct tool *tool, const struct info *info)
{
	put_versions(tool, info);
	put_components(tool, info, PEERDMA_COMPONENT_BACKEND, "BACK-END");
	put_components(tool, info, PEERDMA_COMPONENT_GPU, "GPU");
	put_components(tool, info, PEERDMA_COMPONENT_MONITOR, "MONITOR");
	put_components(tool, info, PEERDMA_COMPONENT_VERBS, "VERBS");
	put_components(tool, info, PEERDMA_COMPONENT_IPC, "IPC");
	put_libraries(tool, info);
	put_intercepted(tool, info);
	put_settings(tool, info);
	put_variables(tool, info);
	put_verdict(tool, info);
}
