// SPDX-License-Identifier: MIT
/*
 * config.c - cufile.json: the file that CUFILE_ENV_PATH_JSON names, else /etc/cufile.json.  Of its keys those are read that
 * have a parameter; comments of C and C++ are allowed.  What is wrong is said on stderr, and the default stays.
 */
#include <json-c/json.h>
#include <stdio.h>

#include "cufile_int.h"

#define DEFAULT_PATH "/etc/cufile.json"
#define LONGEST	     (1L << 20)

enum type { SIZE, BOOL, STRING };

static const struct key {
	const char *section, *name;
	enum type type;
	int param;
} keys[] = {
	{ "logging", "dir", STRING, CUFILE_PARAM_LOG_DIR },
	{ "logging", "level", STRING, CUFILE_PARAM_LOGGING_LEVEL },
	{ "profile", "nvtx", BOOL, CUFILE_PARAM_PROFILE_NVTX },
	{ "profile", "cufile_stats", SIZE, CUFILE_PARAM_PROFILE_STATS },
	{ "execution", "max_io_queue_depth", SIZE, CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH },
	{ "execution", "max_io_threads", SIZE, CUFILE_PARAM_EXECUTION_MAX_IO_THREADS },
	{ "execution", "parallel_io", BOOL, CUFILE_PARAM_EXECUTION_PARALLEL_IO },
	{ "execution", "min_io_threshold_size_kb", SIZE,
	  CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB },
	{ "execution", "max_request_parallelism", SIZE,
	  CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM },
	{ "properties", "max_direct_io_size_kb", SIZE,
	  CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB },
	{ "properties", "max_device_cache_size_kb", SIZE,
	  CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB },
	{ "properties", "per_buffer_cache_size_kb", SIZE,
	  CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB },
	{ "properties", "max_device_pinned_mem_size_kb", SIZE,
	  CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB },
	{ "properties", "io_batchsize", SIZE, CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE },
	{ "properties", "poll_mode_max_size_kb", SIZE, CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB },
	{ "properties", "use_poll_mode", BOOL, CUFILE_PARAM_PROPERTIES_USE_POLL_MODE },
	{ "properties", "allow_compat_mode", BOOL, CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE },
	{ "properties", "force_compat_mode", BOOL, CUFILE_PARAM_FORCE_COMPAT_MODE },
	{ "properties", "use_pci_p2pdma", BOOL, CUFILE_PARAM_USE_PCIP2PDMA },
	{ "properties", "prefer_iouring", BOOL, CUFILE_PARAM_PREFER_IO_URING },
	{ "properties", "force_odirect_mode", BOOL, CUFILE_PARAM_FORCE_ODIRECT_MODE },
	{ "miscellaneous", "api_check_aggressive", BOOL,
	  CUFILE_PARAM_FS_MISC_API_CHECK_AGGRESSIVE },
};

/* The text of a value that does not fit; NULL: it was taken. */
static const char *take(const struct key *key, json_object *value)
{
	switch (key->type) {
	case SIZE:
		if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
			return "is no number of 0 and more";
		return parameter_take_size(key->param, (size_t)json_object_get_int64(value)) ?
			       NULL : "is too small or too large";
	case BOOL:
		if (!json_object_is_type(value, json_type_boolean))
			return "is neither true nor false";
		parameter_take_bool(key->param, json_object_get_boolean(value));
		return NULL;
	default:
		if (!json_object_is_type(value, json_type_string))
			return "is no string";
		return parameter_take_string(key->param, json_object_get_string(value)) ?
			       NULL : "is too long";
	}
}

static json_object *find(json_object *root, const char *section, const char *name)
{
	json_object *object, *value;

	if (!json_object_object_get_ex(root, section, &object) ||
	    !json_object_is_type(object, json_type_object) ||
	    !json_object_object_get_ex(object, name, &value))
		return NULL;
	return value;
}

/* How many numbers the list has, or 0: it is none, or has others than numbers. */
static size_t numbers(json_object *list, size_t *out, size_t max)
{
	size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;

	for (size_t i = 0; i < n && n <= max; i++) {
		json_object *value = json_object_array_get_idx(list, i);

		if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
			return 0;
		out[i] = (size_t)json_object_get_int64(value);
	}
	return n <= max ? n : 0;
}

static void take_slabs(const char *path, json_object *root)
{
	json_object *sizes = find(root, "properties", "posix_pool_slab_size_kb");
	json_object *counts = find(root, "properties", "posix_pool_slab_count");
	size_t size[SLABS_MAX], count[SLABS_MAX], n;

	if (!sizes && !counts)
		return;
	n = numbers(sizes, size, SLABS_MAX);
	if (n && numbers(counts, count, SLABS_MAX) == n)
		parameter_take_slabs(size, count, (int)n);
	else
		fprintf(stderr,
			"libcufile: %s: properties.posix_pool_slab_size_kb and posix_pool_slab_count are not lists of as many numbers; not used\n",
			path);
}

static void take_all(const char *path, json_object *root)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		json_object *value = find(root, keys[i].section, keys[i].name);
		const char *wrong = value ? take(&keys[i], value) : NULL;

		if (wrong)
			fprintf(stderr, "libcufile: %s: %s.%s %s; not used\n", path,
				keys[i].section, keys[i].name, wrong);
	}
	take_slabs(path, root);
}

/* NULL: there is no such file, or it is too long. */
static char *contents(const char *path, size_t *length)
{
	FILE *f = fopen(path, "re");
	char *text = f ? malloc(LONGEST) : NULL;

	*length = text ? fread(text, 1, LONGEST, f) : 0;
	if (f)
		fclose(f);
	if (*length == LONGEST) {
		free(text);
		text = NULL;
	}
	return text;
}

static const char *problem(const char *text, struct json_tokener *tokener)
{
	enum json_tokener_error error = tokener ? json_tokener_get_error(tokener) :
						  json_tokener_success;

	if (!text)
		return "cannot be read";
	if (!tokener)
		return "no memory";
	if (error == json_tokener_continue)
		return "it ends too early";
	return error ? json_tokener_error_desc(error) : "it is no object";
}

void config_read(void)
{
	const char *named = secure_getenv("CUFILE_ENV_PATH_JSON");
	const char *path = named ? named : DEFAULT_PATH;
	struct json_tokener *tokener = json_tokener_new();
	json_object *root = NULL;
	size_t length;
	char *text = contents(path, &length);

	if (text && tokener)
		root = json_tokener_parse_ex(tokener, text, (int)length);
	if (root && json_object_is_type(root, json_type_object))
		take_all(path, root);
	else if (text || named)
		fprintf(stderr, "libcufile: %s: %s; not used\n", path, problem(text, tokener));
	json_object_put(root);
	if (tokener)
		json_tokener_free(tokener);
	free(text);
}
