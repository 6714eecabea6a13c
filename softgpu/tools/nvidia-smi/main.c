// SPDX-License-Identifier: MIT
/* main.c - options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "smi.h"

struct options {
	const char *ids, *display, *gpu_fields, *app_fields, *file, *loop;
	struct smi_format format;
	bool list, detail;
};

/* ---- which GPUs ---- */

static bool by_index(const char *id, nvmlDevice_t *device)
{
	nvmlReturn_t (*get)(unsigned int index, nvmlDevice_t *device);
	char *end;
	unsigned long n = strtoul(id, &end, 10);

	*(void **)&get = smi_call("nvmlDeviceGetHandleByIndex_v2");
	return get && end != id && !*end && n < SMI_GPUS && !get((unsigned int)n, device);
}

static bool by_text(const char *call, const char *id, nvmlDevice_t *device)
{
	nvmlReturn_t (*get)(const char *text, nvmlDevice_t *device);

	*(void **)&get = smi_call(call);
	return get && !get(id, device);
}

static bool add(struct smi *smi, const char *id)
{
	nvmlReturn_t (*index)(nvmlDevice_t device, unsigned int *index);
	struct smi_gpu *gpu = &smi->gpus[smi->count];

	*(void **)&index = smi_call("nvmlDeviceGetIndex");
	if (!index || smi->count == SMI_GPUS)
		return false;
	if (!by_index(id, &gpu->device) &&
	    !by_text("nvmlDeviceGetHandleByUUID", id, &gpu->device) &&
	    !by_text("nvmlDeviceGetHandleByPciBusId_v2", id, &gpu->device))
		return false;
	if (index(gpu->device, &gpu->index))
		return false;
	for (unsigned int i = 0; i < smi->count; i++)
		if (smi->gpus[i].index == gpu->index)
			return true;
	smi->count++;
	return true;
}

static int no_devices(void)
{
	puts("No devices were found");
	return SMI_NOT_FOUND;
}

static int select_gpus(struct smi *smi, const char *ids)
{
	nvmlReturn_t (*count)(unsigned int *count);
	char copy[4096], text[16];
	nvmlReturn_t result;

	*(void **)&count = smi_call("nvmlDeviceGetCount_v2");
	result = count ? count(&smi->total) : NVML_ERROR_FUNCTION_NOT_FOUND;
	if (result)
		return smi_fail("The GPUs cannot be counted", result);
	for (unsigned int i = 0; !ids && i < smi->total; i++) {
		snprintf(text, sizeof(text), "%u", i);
		add(smi, text);
	}
	if (ids) {
		snprintf(copy, sizeof(copy), "%s", ids);
		for (char *id = strtok(copy, ","); id; id = strtok(NULL, ","))
			if (!add(smi, id))
				return no_devices();
	}
	return smi->count ? SMI_OK : no_devices();
}

/* ---- options ---- */

static int parse_format(const char *words, struct smi_format *format)
{
	char copy[256];

	snprintf(copy, sizeof(copy), "%s", words);
	for (char *word = strtok(copy, ", "); word; word = strtok(NULL, ", ")) {
		if (!strcmp(word, "noheader"))
			format->noheader = true;
		else if (!strcmp(word, "nounits"))
			format->nounits = true;
		else if (strcmp(word, "csv")) {	/* the only one, also without the word */
			puts("Format modifier is not recognized.");
			return SMI_ARGUMENT;
		}
	}
	return SMI_OK;
}

/* The argument of an option: behind "=", or the next word. NULL: another option. */
static const char *argument(char **argv, int *i, const char *brief, const char *full)
{
	const char *word = argv[*i];
	size_t length = strlen(full);

	if (!strncmp(word, full, length) && word[length] == '=')
		return word + length + 1;
	if (brief && !strncmp(word, brief, 2) && strlen(brief) == 2 && word[2] == '=')
		return word + 3;
	if (strcmp(word, full) && (!brief || strcmp(word, brief)))
		return NULL;
	return argv[*i + 1] ? argv[++*i] : "";
}

static bool is(const char *word, const char *brief, const char *full)
{
	return !strcmp(word, brief) || !strcmp(word, full);
}

static int parse(char **argv, struct options *o)
{
	const struct {
		const char *brief, *full;
		const char **to;
	} with[] = {
		{ "-i", "--id", &o->ids }, { "-d", "--display", &o->display },
		{ "-f", "--filename", &o->file }, { "-l", "--loop", &o->loop },
		{ NULL, "--query-gpu", &o->gpu_fields },
		{ NULL, "--query-compute-apps", &o->app_fields },
	};
	const char *format;

	for (int i = 0; argv[i]; i++) {
		const char *value = NULL;

		for (size_t k = 0; k < sizeof(with) / sizeof(with[0]) && !value; k++) {
			value = argument(argv, &i, with[k].brief, with[k].full);
			if (value)
				*with[k].to = value;
		}
		if (value)
			continue;
		format = argument(argv, &i, NULL, "--format");
		if (format && parse_format(format, &o->format))
			return SMI_ARGUMENT;
		else if (format)
			continue;
		else if (is(argv[i], "-L", "--list-gpus"))
			o->list = true;
		else if (is(argv[i], "-q", "--query"))
			o->detail = true;
		else {
			printf("ERROR: Option %s is not recognized. Please run 'nvidia-smi -h'.\n\n", argv[i]);
			return SMI_OTHER;
		}
	}
	return SMI_OK;
}

/* ---- what to print ---- */

static int print(const struct smi *smi, const struct options *o)
{
	if (o->gpu_fields)
		return smi_csv_gpus(smi, o->gpu_fields, o->format);
	if (o->app_fields)
		return smi_csv_apps(smi, o->app_fields, o->format);
	if (o->list)
		return smi_list(smi);
	if (o->detail)
		return smi_detail(smi, o->display);
	return smi_summary(smi);
}

static int query(char **argv)
{
	struct smi smi = { 0 };
	struct options o = { 0 };
	unsigned int seconds;
	int ret = parse(argv, &o);

	if (!ret && o.display && !o.detail) {
		puts("-d, --display is for -q, --query.");
		ret = SMI_ARGUMENT;
	}
	if (!ret)
		ret = select_gpus(&smi, o.ids);
	if (!ret && o.file && !freopen(o.file, "we", stdout)) {
		fprintf(stderr, "%s cannot be written\n", o.file);
		ret = SMI_ARGUMENT;
	}
	if (ret)
		return ret;
	seconds = o.loop ? (unsigned int)strtoul(o.loop, NULL, 10) : 0;
	if (o.loop && !seconds)
		seconds = 5;
	for (;;) {
		ret = print(&smi, &o);
		fflush(stdout);
		if (ret || !seconds)
			return ret;
		sleep(seconds);
	}
}

static int subcommand(int argc, char **argv, int (*run)(const struct smi *, int, char **))
{
	struct smi smi = { 0 };
	int ret = select_gpus(&smi, NULL);

	return ret ? ret : run(&smi, argc, argv);
}

int main(int argc, char **argv)
{
	const char *first = argc > 1 ? argv[1] : "";
	int ret;

	if (is(first, "-h", "--help"))
		return smi_help();
	if (!strcmp(first, "--help-query-gpu"))
		return smi_help_fields(smi_fields);
	if (!strcmp(first, "--help-query-compute-apps"))
		return smi_help_fields(smi_app_fields);
	ret = smi_open();
	if (ret)
		return ret;
	if (!strcmp(first, "--version"))
		ret = smi_version();
	else if (!strcmp(first, "topo"))
		ret = subcommand(argc - 2, argv + 2, smi_topo);
	else if (!strcmp(first, "nvlink"))
		ret = subcommand(argc - 2, argv + 2, smi_nvlink);
	else
		ret = query(argv + 1);
	smi_close();
	if (fflush(stdout) || ferror(stdout))
		return SMI_OTHER;
	return ret;
}
