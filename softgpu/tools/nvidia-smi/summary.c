// SPDX-License-Identifier: MIT
/* summary.c - the table of all GPUs, which is printed without arguments; -L; --version. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "smi.h"

static const char line[] =
	"+-----------------------------------------+------------------------+----------------------+";
static const char wide_line[] =
	"+-----------------------------------------------------------------------------------------+";

static const char *value(const char *name, const struct smi_gpu *gpu, char text[SMI_TEXT])
{
	smi_value(name, gpu, text);
	return text;
}

/* Without its fraction and its blank: 123W, 38%. */
static const char *tight(const char *name, const struct smi_gpu *gpu, char text[SMI_TEXT])
{
	char *blank, *point;

	smi_value(name, gpu, text);
	blank = strchr(text, ' ');
	point = strchr(text, '.');
	if (blank)
		memmove(point && point < blank ? point : blank, blank + 1, strlen(blank));
	return text;
}

static const char *on_off(const char *name, const struct smi_gpu *gpu, char text[SMI_TEXT])
{
	smi_value(name, gpu, text);
	return !strcmp(text, "Enabled") ? "On" : !strcmp(text, "Disabled") ? "Off" : text;
}

/* In a narrow column. */
static const char *compute_mode(const struct smi_gpu *gpu, char text[SMI_TEXT])
{
	static const char prefix[] = "Exclusive_";
	size_t n = strlen(prefix);

	smi_value("compute_mode", gpu, text);
	if (!strncmp(text, prefix, n)) {
		memmove(text + 3, text + n, strlen(text + n) + 1);
		memcpy(text, "E. ", 3);
	}
	return text;
}

static const char *celsius(const struct smi_gpu *gpu, char text[SMI_TEXT])
{
	smi_value("temperature.gpu", gpu, text);
	return strcmp(text, SMI_NONE) ? strcat(text, "C") : text;
}

/* Without its blank: 143771MiB. */
static void memory(const char *name, const struct smi_gpu *gpu, char text[SMI_TEXT])
{
	char *blank;

	smi_value(name, gpu, text);
	blank = strchr(text, ' ');
	if (blank)
		memmove(blank, blank + 1, strlen(blank));
}

static void print_gpu(const struct smi_gpu *gpu)
{
	char a[SMI_TEXT], b[SMI_TEXT], c[SMI_TEXT], d[SMI_TEXT], e[SMI_TEXT];

	printf("|%4u  %-24.24s %8.8s  ", gpu->index, value("name", gpu, a),
	       on_off("persistence_mode", gpu, b));
	printf("|%19.19s %3.3s ", value("pci.bus_id", gpu, a), on_off("display_active", gpu, b));
	printf("|%21.21s |\n", value("ecc.errors.uncorrected.volatile.total", gpu, a));
	printf("|%4.4s%6.6s%6.6s%16.16s /%6.6s ", tight("fan.speed", gpu, a), celsius(gpu, b),
	       value("pstate", gpu, c), tight("power.draw", gpu, d),
	       tight("enforced.power.limit", gpu, e));
	memory("memory.used", gpu, a);
	memory("memory.total", gpu, b);
	printf("|%11.11s / %9.9s ", a, b);
	printf("|%8.8s %12.12s |\n", tight("utilization.gpu", gpu, a), compute_mode(gpu, b));
	printf("|%41s|%24s|%21.21s |\n", "", "", value("mig.mode.current", gpu, a));
	puts(line);
}

static void print_head(void)
{
	char driver[SMI_TEXT], cuda[SMI_TEXT], now[64];
	time_t t = time(NULL);
	struct tm local;

	smi_driver_version(driver);
	smi_cuda_version(cuda);
	strftime(now, sizeof(now), "%a %b %e %H:%M:%S %Y", localtime_r(&t, &local));
	printf("%s       \n%s\n", now, wide_line);
	printf("| NVIDIA-SMI %-22.22s Driver Version: %-14.14s CUDA Version: %-8.8s |\n", driver, driver, cuda);
	puts(line);
	puts("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
	     "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
	     "|                                         |                        |               MIG M. |\n"
	     "|=========================================+========================+======================|");
}

/* 1: some, 0: none, -1: the library does not list them. */
static int print_apps(const struct smi_gpu *gpu)
{
	struct smi_app apps[SMI_APPS];
	char name[SMI_TEXT];
	unsigned int n;

	if (!smi_apps(gpu, apps, &n))
		return -1;
	for (unsigned int i = 0; i < n; i++) {
		smi_app_name(&apps[i], name);
		printf("|%5u   N/A  N/A %16u      C   %-34.34s %7lluMiB |\n", gpu->index, apps[i].pid, name,
		       apps[i].memory >> 20);
	}
	return n > 0;
}

static void print_processes(const struct smi *smi)
{
	bool some = false, unknown = false;

	printf("\n%s\n", wide_line);
	puts("| Processes:                                                                              |\n"
	     "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
	     "|        ID   ID                                                               Usage      |\n"
	     "|=========================================================================================|");
	for (unsigned int i = 0; i < smi->count; i++) {
		int apps = print_apps(&smi->gpus[i]);

		some |= apps > 0;
		unknown |= apps < 0;
	}
	if (!some)
		printf("|  %-87s|\n", unknown ? "The library does not list processes" : "No running processes found");
	puts(wide_line);
}

int smi_summary(const struct smi *smi)
{
	print_head();
	for (unsigned int i = 0; i < smi->count; i++)
		print_gpu(&smi->gpus[i]);
	print_processes(smi);
	return SMI_OK;
}

int smi_list(const struct smi *smi)
{
	char name[SMI_TEXT], uuid[SMI_TEXT];

	for (unsigned int i = 0; i < smi->count; i++)
		printf("GPU %u: %s (UUID: %s)\n", smi->gpus[i].index,
		       value("name", &smi->gpus[i], name), value("uuid", &smi->gpus[i], uuid));
	return SMI_OK;
}

int smi_version(void)
{
	char driver[SMI_TEXT], nvml[SMI_TEXT], cuda[SMI_TEXT];

	smi_driver_version(driver);
	smi_nvml_version(nvml);
	smi_cuda_version(cuda);
	printf("NVIDIA-SMI version  : %s (softgpu %s)\nNVML version        : %s\nDRIVER version      : %s\n"
	       "CUDA Version        : %s\n", driver, SOFTGPU_VERSION, nvml, driver, cuda);
	return SMI_OK;
}
