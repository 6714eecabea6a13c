// SPDX-License-Identifier: MIT
/*
 * library.c - libnvidia-ml.so.1, opened when the program runs: it may be softgpu's or NVIDIA's, and
 * which functions it has is seen then.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "smi.h"

static void *library;

void *smi_call(const char *name)
{
	return library ? dlsym(library, name) : NULL;
}

const char *smi_error(nvmlReturn_t result)
{
	const char *(*text)(nvmlReturn_t result);

	*(void **)&text = smi_call("nvmlErrorString");
	return text ? text(result) : "unknown error";
}

int smi_fail(const char *what, nvmlReturn_t result)
{
	printf("%s: %s\n", what, smi_error(result));
	return (int)result < (int)SMI_OTHER ? (int)result : SMI_OTHER;
}

static int begin(void)
{
	nvmlReturn_t (*init)(void);
	nvmlReturn_t result;

	*(void **)&init = smi_call("nvmlInit_v2");
	if (!init) {
		puts("NVIDIA-SMI cannot use this libnvidia-ml.so.1: it has no nvmlInit_v2().");
		return SMI_NO_FUNCTION;
	}
	result = init();
	if (result == NVML_ERROR_DRIVER_NOT_LOADED) {
		printf("NVIDIA-SMI has failed because there is no driver (%s).\n"
		       "For a software GPU, load softgpu.ko, or set SOFTGPU_INPROCESS=1.\n", smi_error(result));
		return SMI_NO_DRIVER;
	}
	return result ? smi_fail("NVIDIA-SMI cannot start", result) : SMI_OK;
}

int smi_open(void)
{
	int ret;

	library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!library) {
		printf("NVIDIA-SMI cannot find libnvidia-ml.so.1: %s.\n"
		       "Add the folder that has it to LD_LIBRARY_PATH.\n", dlerror());
		return SMI_NO_LIBRARY;
	}
	ret = begin();
	if (ret) {
		dlclose(library);
		library = NULL;
	}
	return ret;
}

void smi_close(void)
{
	nvmlReturn_t (*end)(void);

	*(void **)&end = smi_call("nvmlShutdown");
	if (end)
		end();
	if (library)
		dlclose(library);
	library = NULL;
}

static void version(const char *call, char text[SMI_TEXT])
{
	nvmlReturn_t (*get)(char *version, unsigned int length);

	*(void **)&get = smi_call(call);
	if (!get || get(text, SMI_TEXT))
		strcpy(text, SMI_NONE);
}

void smi_driver_version(char text[SMI_TEXT])
{
	version("nvmlSystemGetDriverVersion", text);
}

/* The library's number begins with that of its interface, which the command does not print. */
void smi_nvml_version(char text[SMI_TEXT])
{
	char *rest;

	version("nvmlSystemGetNVMLVersion", text);
	rest = strchr(text, '.');
	if (rest)
		memmove(text, rest + 1, strlen(rest));
}

void smi_cuda_version(char text[SMI_TEXT])
{
	nvmlReturn_t (*get)(int *version);
	int n;

	*(void **)&get = smi_call("nvmlSystemGetCudaDriverVersion_v2");
	if (get && !get(&n))
		snprintf(text, SMI_TEXT, "%d.%d", n / 1000, n % 1000 / 10);
	else
		strcpy(text, SMI_NONE);
}
