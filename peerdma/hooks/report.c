// SPDX-License-Identifier: MIT
/* report.c - what is seen in this process. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hooks.h"

/* What cuGetProcAddress is asked for; a driver gives what it has up to that */
#define NEWEST_CUDA 13000

EXPORT int peerdma_hooks_active(void)
{
	return hook_is_ours(hooks, real_dlsym(RTLD_DEFAULT, hooks[0].name));
}

/* As a program would ask: by the names that it finds first. */
static void *ask_proc(const char *name)
{
	int (*get)(const char *symbol, void **pfn, int version, unsigned long long flags,
		   int *status) =
		real_dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2");
	void *p = NULL;
	int status;

	for (int version = NEWEST_CUDA; get && version >= 11000 && !p; version -= 1000)
		if (get(name, &p, version, 0, &status))
			p = NULL;
	return p;
}

static void *(*program_dlsym(void))(void *, const char *)
{
	return real_dlsym(RTLD_DEFAULT, "dlsym");
}

static void note(struct peerdma_hook_report *r, const struct hook *h, uint32_t way, const void *p)
{
	if (p)
		*(hook_is_ours(h, p) ? &r->ways : &r->missed) |= way;
}

static struct peerdma_hook_report try_all(struct hook *h)
{
	struct peerdma_hook_report r = { .call = h->name, .events = atomic_load(&h->events) };

	if (!hook_real(h, 0)) {
		r.missed = PEERDMA_HOOK_ABSENT;
		return r;
	}
	note(&r, h, PEERDMA_HOOK_BY_NAME, real_dlsym(RTLD_DEFAULT, h->name));
	note(&r, h, PEERDMA_HOOK_BY_DLSYM, program_dlsym()(library(h->library), h->name));
	if (h->proc)
		note(&r, h, PEERDMA_HOOK_BY_PROC, ask_proc(h->proc));
	return r;
}

static bool any_library(void)
{
	for (unsigned int i = 0; i < LIBRARIES; i++)
		if (library(i))
			return true;
	return false;
}

EXPORT unsigned int peerdma_hooks_report(struct peerdma_hook_report *reports, unsigned int n)
{
	unsigned int i;

	if (!any_library())
		return 0;
	for (i = 0; hooks[i].name; i++)
		if (reports && i < n)
			reports[i] = try_all(&hooks[i]);
	return i;
}

/* The file of what `call' goes to, or comes from: not ours, and not the watched library's. */
static const char *other(struct hook *h, int place)
{
	const void *p = NULL;
	Dl_info info;

	if (place == PEERDMA_HOOK_BEHIND)
		p = hook_real(h, 0);
	else if (place == PEERDMA_HOOK_IN_FRONT)
		p = real_dlsym(RTLD_DEFAULT, h->name);
	if (!p || p == hook_own(h) || hook_is_ours(h, p) || !dladdr(p, &info))
		return NULL;
	return info.dli_fname;
}

EXPORT const char *peerdma_hooks_other(const char *call, int place)
{
	for (struct hook *h = hooks; h->name; h++)
		if (!strcmp(h->name, call))
			return other(h, place);
	return NULL;
}

static const char *word(const struct peerdma_hook_report *r, uint32_t way)
{
	return r->ways & way ? "seen" : r->missed & way ? "MISSED" : "-";
}

static void print_other(struct hook *h, int place, const char *words)
{
	const char *file = other(h, place);

	if (file)
		fprintf(stderr, "%s: also intercepted %s, by %s\n", h->name, words, file);
}

static void print(void)
{
	struct peerdma_hook_report r[PEERDMA_HOOKS_MAX];
	unsigned int n = peerdma_hooks_report(r, PEERDMA_HOOKS_MAX);

	fprintf(stderr, "libpeerdma-hooks: %s\n", !n ? "this process has neither libcuda.so.1 nor libhsa-runtime64.so.1: nothing to see" :
		peerdma_hooks_active() ? "in front" :
		"NOT in front: preload it, or link it before libcuda and libhsa-runtime64");
	if (n)
		fprintf(stderr, "%-32s %-8s %-8s %-18s %s\n", "function", "by name", "dlsym",
			"cuGetProcAddress", "calls");
	for (unsigned int i = 0; i < n; i++) {
		if (r[i].missed & PEERDMA_HOOK_ABSENT)
			continue;
		fprintf(stderr, "%-32s %-8s %-8s %-18s %llu\n", r[i].call,
			word(&r[i], PEERDMA_HOOK_BY_NAME), word(&r[i], PEERDMA_HOOK_BY_DLSYM),
			word(&r[i], PEERDMA_HOOK_BY_PROC), (unsigned long long)r[i].events);
	}
	for (unsigned int i = 0; i < n; i++) {
		print_other(&hooks[i], PEERDMA_HOOK_IN_FRONT, "before this library");
		print_other(&hooks[i], PEERDMA_HOOK_BEHIND, "after this library");
	}
}

/* ---- for programs ---- */

static void json_text(const char *text)
{
	if (!text) {
		fputs("null", stderr);
		return;
	}
	fputc('"', stderr);
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p == '"' || *p == '\\')
			fputc('\\', stderr);
		if (*p < ' ')
			fprintf(stderr, "\\u%04x", *p);
		else
			fputc(*p, stderr);
	}
	fputc('"', stderr);
}

static const char *json_word(const struct peerdma_hook_report *r, uint32_t way)
{
	return r->ways & way ? "true" : r->missed & way ? "false" : "null";
}

static void json_function(const struct peerdma_hook_report *r, struct hook *h)
{
	fprintf(stderr, "{\"call\":\"%s\",\"by_name\":%s,\"dlsym\":%s,\"cuGetProcAddress\":%s,"
		"\"calls\":%llu,\"before\":", r->call, json_word(r, PEERDMA_HOOK_BY_NAME),
		json_word(r, PEERDMA_HOOK_BY_DLSYM), json_word(r, PEERDMA_HOOK_BY_PROC),
		(unsigned long long)r->events);
	json_text(other(h, PEERDMA_HOOK_IN_FRONT));
	fputs(",\"after\":", stderr);
	json_text(other(h, PEERDMA_HOOK_BEHIND));
	fputc('}', stderr);
}

static void print_json(void)
{
	struct peerdma_hook_report r[PEERDMA_HOOKS_MAX];
	unsigned int n = peerdma_hooks_report(r, PEERDMA_HOOKS_MAX);
	const char *comma = "";

	fprintf(stderr, "{\"schema\":\"peerdma-hooks/1\",\"in_front\":%s,\"functions\":[",
		n && peerdma_hooks_active() ? "true" : "false");
	for (unsigned int i = 0; i < n; i++) {
		if (r[i].missed & PEERDMA_HOOK_ABSENT)
			continue;
		fputs(comma, stderr);
		json_function(&r[i], &hooks[i]);
		comma = ",";
	}
	fputs("]}\n", stderr);
}

__attribute__((destructor)) static void at_end(void)
{
	const char *wish = secure_getenv("PEERDMA_HOOKS");

	if (wish && !strcmp(wish, "report"))
		print();
	else if (wish && !strcmp(wish, "json"))
		print_json();
}
