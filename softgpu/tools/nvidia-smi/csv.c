// SPDX-License-Identifier: MIT
/* csv.c - --query-gpu and --query-compute-apps: chosen fields, separated by commas. */
#include <stdio.h>
#include <string.h>

#include "smi.h"

#define FIELDS_MAX 512

struct choice {
	const struct smi_field *fields[FIELDS_MAX];
	unsigned int n;
};

/* Empty names are left out, as in NVIDIA's command. */
static int choose(const struct smi_field *list, const char *names, struct choice *choice)
{
	choice->n = 0;
	for (const char *p = names;; p++) {
		size_t length = strcspn(p, ",");
		const char *end = p + length;
		const struct smi_field *f;

		while (length && *p == ' ')
			p++, length--;
		while (length && p[length - 1] == ' ')
			length--;
		f = length ? smi_field(list, p, length) : NULL;
		if (length && (!f || choice->n == FIELDS_MAX)) {
			printf("Field \"%.*s\" is not a valid field to query.\n\n", (int)length, p);
			return SMI_ARGUMENT;
		}
		if (f)
			choice->fields[choice->n++] = f;
		if (!*end)
			return SMI_OK;
		p = end;
	}
}

static int begin(const struct smi_field *list, const char *names, struct smi_format format,
		 struct choice *choice)
{
	int ret = choose(list, names, choice);

	if (ret)
		return ret;
	for (unsigned int i = 0; i < choice->n && !format.noheader; i++) {
		const struct smi_field *f = choice->fields[i];

		printf("%s%s", i ? ", " : "", f->name);
		if (f->unit)
			printf(" [%s]", f->unit);
	}
	if (!format.noheader)
		puts("");
	return SMI_OK;
}

static void print_one(const struct smi_field *f, bool known, const char *text, bool nounits)
{
	if (!known)
		printf("[%s]", SMI_NONE);
	else if (f->unit && !nounits)
		printf("%s %s", text, f->unit);
	else
		printf("%s", text);
}

int smi_csv_gpus(const struct smi *smi, const char *fields, struct smi_format format)
{
	char text[SMI_TEXT];
	struct choice choice;
	int ret = begin(smi_fields, fields, format, &choice);

	for (unsigned int g = 0; g < smi->count && !ret; g++) {
		for (unsigned int i = 0; i < choice.n; i++) {
			const struct smi_field *f = choice.fields[i];
			bool known = f->get && f->get(f, &smi->gpus[g], text);

			printf("%s", i ? ", " : "");
			print_one(f, known, text, format.nounits);
		}
		puts("");
	}
	return ret;
}

/* ---- processes ---- */

bool smi_apps(const struct smi_gpu *gpu, struct smi_app apps[SMI_APPS], unsigned int *n)
{
	nvmlReturn_t (*list)(nvmlDevice_t device, unsigned int *n, struct smi_app *apps);

	*n = SMI_APPS;
	*(void **)&list = smi_call("nvmlDeviceGetComputeRunningProcesses_v3");
	return list && !list(gpu->device, n, apps);
}

void smi_app_name(const struct smi_app *its, char name[SMI_TEXT])
{
	nvmlReturn_t (*get)(unsigned int pid, char *name, unsigned int length);

	*(void **)&get = smi_call("nvmlSystemGetProcessName");
	if (!get || get(its->pid, name, SMI_TEXT))
		strcpy(name, SMI_NONE);
}

static const struct smi_app *app;

#define FIELD(get) \
	static bool get(const struct smi_field *f, const struct smi_gpu *gpu, char text[SMI_TEXT])

FIELD(of_gpu)
{
	const struct smi_field *its = smi_field(smi_fields, f->call, strlen(f->call));

	return its && its->get && its->get(its, gpu, text);
}

FIELD(pid)
{
	(void)f;
	(void)gpu;
	return snprintf(text, SMI_TEXT, "%u", app->pid) > 0;
}

FIELD(process_name)
{
	(void)f;
	(void)gpu;
	smi_app_name(app, text);
	return strcmp(text, SMI_NONE) != 0;
}

FIELD(used_memory)
{
	(void)f;
	(void)gpu;
	return ~app->memory && snprintf(text, SMI_TEXT, "%llu", app->memory >> 20) > 0;
}

const struct smi_field smi_app_fields[] = {
	{ "gpu_name", NULL, NULL, of_gpu, "name", 0, "name of the GPU" },
	{ "gpu_bus_id", NULL, NULL, of_gpu, "pci.bus_id", 0, "PCI address of the GPU" },
	{ "gpu_serial", NULL, NULL, of_gpu, "serial", 0, "serial number of the GPU" },
	{ "gpu_uuid", NULL, NULL, of_gpu, "uuid", 0, "identity of the GPU" },
	{ "pid", NULL, NULL, pid, NULL, 0, "the process" },
	{ "process_name", "name", NULL, process_name, NULL, 0, "its name" },
	{ "used_gpu_memory", "used_memory", "MiB", used_memory, NULL, 0, "its memory on the GPU" },
	{ 0 },
};

static void print_apps(const struct smi_gpu *gpu, const struct choice *choice, bool nounits)
{
	struct smi_app apps[SMI_APPS];
	char text[SMI_TEXT];
	unsigned int n;

	if (!smi_apps(gpu, apps, &n)) {
		fprintf(stderr, "GPU %u: the library does not list processes\n", gpu->index);
		return;
	}
	for (app = apps; app < apps + n; app++) {
		for (unsigned int i = 0; i < choice->n; i++) {
			const struct smi_field *f = choice->fields[i];

			printf("%s", i ? ", " : "");
			print_one(f, f->get(f, gpu, text), text, nounits);
		}
		puts("");
	}
}

int smi_csv_apps(const struct smi *smi, const char *fields, struct smi_format format)
{
	struct choice choice;
	int ret = begin(smi_app_fields, fields, format, &choice);

	for (unsigned int g = 0; g < smi->count && !ret; g++)
		print_apps(&smi->gpus[g], &choice, format.nounits);
	return ret;
}
