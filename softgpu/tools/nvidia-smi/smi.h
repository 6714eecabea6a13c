/* SPDX-License-Identifier: MIT */
/*
 * smi.h - nvidia-smi for the software GPU: the part of NVIDIA's command that scripts use, on
 * libnvidia-ml.so.1 alone.
 *
 *	main.c      options, selection of GPUs, exit codes
 *	library.c   the library and its functions
 *	fields.c    --query-gpu's fields, which -q and the summary print as well
 *	csv.c       --query-gpu, --query-compute-apps
 *	detail.c    -q
 *	summary.c   no arguments, -L, --version
 *	topo.c      topo -m, nvlink -s
 *	help.c      -h, --help-query-gpu, --help-query-compute-apps
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "nvml.h"

#define SMI_GPUS	256
#define SMI_TEXT	256
#define SMI_NONE	"N/A"	/* what cannot be known; in CSV: [N/A] */

/* Exit codes, as the manual of NVIDIA's command has them; others are the library's results. */
enum smi_exit {
	SMI_OK = 0,
	SMI_ARGUMENT = 2,
	SMI_NOT_FOUND = 6,
	SMI_NO_DRIVER = 9,
	SMI_NO_LIBRARY = 12,
	SMI_NO_FUNCTION = 13,
	SMI_OTHER = 255,
};

struct smi_gpu {
	nvmlDevice_t device;
	unsigned int index;
};

struct smi {
	struct smi_gpu gpus[SMI_GPUS];	/* those that -i selects */
	unsigned int count;
	unsigned int total;		/* of the machine */
};

/* ---- library.c ---- */

/* 0, or an exit code; then the reason was printed. */
int smi_open(void);
void smi_close(void);
/* A function of the library; NULL: this library has none of that name. */
void *smi_call(const char *name);
const char *smi_error(nvmlReturn_t result);
/* Prints what failed, and returns the exit code. */
int smi_fail(const char *what, nvmlReturn_t result);
void smi_driver_version(char text[SMI_TEXT]);
void smi_nvml_version(char text[SMI_TEXT]);
void smi_cuda_version(char text[SMI_TEXT]);

/* ---- fields.c ---- */

struct smi_field {
	const char *name, *alias;	/* both are accepted, the first is printed */
	const char *unit;		/* NULL: none */
	/* Writes the value without its unit.  False: it cannot be known. */
	bool (*get)(const struct smi_field *f, const struct smi_gpu *gpu, char text[SMI_TEXT]);
	const char *call;		/* of the library, for the get functions that need one */
	unsigned int arg;
	const char *help;
};

extern const struct smi_field smi_fields[];	/* ends with a NULL name */

const struct smi_field *smi_field(const struct smi_field *list, const char *name, size_t length);
/* A value with its unit, or SMI_NONE. */
void smi_value(const char *name, const struct smi_gpu *gpu, char text[SMI_TEXT]);

/* ---- the others ---- */

struct smi_format {
	bool noheader, nounits;
};

#define SMI_APPS	512

/* As nvmlProcessInfo_t. */
struct smi_app {
	unsigned int pid;
	unsigned long long memory;	/* all ones: not known */
	unsigned int gpu_instance, compute_instance;
};

/* The processes of a GPU; false: the library does not list them. */
bool smi_apps(const struct smi_gpu *gpu, struct smi_app apps[SMI_APPS], unsigned int *n);
void smi_app_name(const struct smi_app *app, char name[SMI_TEXT]);

extern const struct smi_field smi_app_fields[];

int smi_csv_gpus(const struct smi *smi, const char *fields, struct smi_format format);
int smi_csv_apps(const struct smi *smi, const char *fields, struct smi_format format);
int smi_detail(const struct smi *smi, const char *sections);
int smi_summary(const struct smi *smi);
int smi_list(const struct smi *smi);
int smi_version(void);
int smi_topo(const struct smi *smi);
int smi_nvlink(const struct smi *smi);
int smi_help(void);
int smi_help_fields(const struct smi_field *list);
