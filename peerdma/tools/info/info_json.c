// SPDX-License-Identifier: MIT
/* info_json.c - `peerdma info --json`. */
#include "base/json.h"
#include "info/info.h"
#include "uapi/peerdma_ioctl.h"

#define STR(x)	#x
#define XSTR(x)	STR(x)
#define HEADER	XSTR(PEERDMA_VERSION_MAJOR) "." XSTR(PEERDMA_VERSION_MINOR) "." \
		XSTR(PEERDMA_VERSION_PATCH)

static const char *const types[] = {
	[PEERDMA_COMPONENT_LIBRARY] = "library", [PEERDMA_COMPONENT_BACKEND] = "backend",
	[PEERDMA_COMPONENT_GPU] = "gpu",	 [PEERDMA_COMPONENT_MONITOR] = "monitor",
	[PEERDMA_COMPONENT_VERBS] = "verbs",	 [PEERDMA_COMPONENT_IPC] = "ipc",
};

/* "": null */
static void json_known(struct json_object *o, const char *key, const char *s)
{
	json_text(o, key, *s ? s : NULL);
}

static void json_limit(struct json_object *o, const char *key, uint64_t limit)
{
	if (limit == UINT64_MAX)
		json_null(o, key);
	else
		json_number(o, key, limit);
}

static void json_components(struct json_object *o, const struct info *info)
{
	struct json_object *all = json_array_in(o, "components"), *one;

	for (size_t i = 0; i < info->count; i++) {
		const struct peerdma_component *c = &info->components[i];

		if (c->type >= sizeof(types) / sizeof(types[0]) || !types[c->type])
			continue;
		one = json_append(all);
		json_text(one, "type", types[c->type]);
		json_text(one, "name", c->name);
		json_text(one, "state", info_state(c));
		if (c->type == PEERDMA_COMPONENT_BACKEND)
			json_truth(one, "direct", !!(c->flags & PEERDMA_COMPONENT_DIRECT));
		json_known(one, "version", c->version);
		json_known(one, "file", c->file);
		json_known(one, "why", c->why);
	}
}

static void json_libraries(struct json_object *o, const struct info *info)
{
	struct json_object *all = json_array_in(o, "libraries"), *one;

	for (size_t i = 0; i < INFO_LIBRARIES; i++) {
		one = json_append(all);
		json_text(one, "name", info->libraries[i].name);
		json_truth(one, "loaded", !info->libraries[i].why);
		json_text(one, "why", info->libraries[i].why);
	}
}

static void json_intercepted(struct json_object *o, const struct info *info)
{
	struct json_object *all = json_array_in(o, "intercepted"), *one;

	for (size_t i = 0; i < info->intercepted_count; i++) {
		one = json_append(all);
		json_text(one, "call", info->intercepted[i].call);
		json_text(one, "file", info->intercepted[i].file);
	}
}

static void json_variables(struct json_object *o, const struct info *info)
{
	struct json_object *all = json_array_in(o, "variables"), *one;

	for (size_t i = 0; i < info->variable_count; i++) {
		const struct info_variable *v = &info->variables[i];

		one = json_append(all);
		json_text(one, "name", v->name);
		json_text(one, "value", v->value);
		json_truth(one, "read", !!v->read);
		json_text(one, "state", v->read ? info_state(v->read) : "off");
		json_text(one, "why", v->read ? v->read->why : NULL);
		json_text(one, "meant", v->meant);
	}
}

static void json_settings(struct json_object *o, const struct info *info)
{
	struct json_object *settings = json_object_in(o, "settings");

	json_number(settings, "page_size", info->page_size);
	json_limit(settings, "memlock", info->memlock);
	json_truth(settings, "memlock_exempt", info->memlock_exempt);
	json_limit(settings, "open_files", info->files);
	json_text(settings, "copy_method", info->copy);
}

int info_json(const struct info *info)
{
	const struct peerdma_component *by, *library = info_library(info);
	enum info_direct direct = info_direct(info, &by);
	struct json_object *o = json_new("peerdma-info/1");

	if (direct == DIRECT_UNKNOWN)
		json_null(o, "direct");
	else
		json_truth(o, "direct", direct == DIRECT_YES);
	json_text(o, "by", by ? by->name : NULL);
	json_text(o, "library_version", library ? library->version : NULL);
	json_text(o, "library_file", library && *library->file ? library->file : NULL);
	json_text(o, "header_version", HEADER);
	json_number(o, "header_abi", PEERDMA_ABI);
	json_text(o, "module_version", info->module);
	json_components(o, info);
	json_libraries(o, info);
	json_intercepted(o, info);
	json_settings(o, info);
	json_variables(o, info);
	return json_print(o);
}
