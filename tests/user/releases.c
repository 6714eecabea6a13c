// SPDX-License-Identifier: MIT
/* releases.c - SOFTGPU_DRIVER: what one choice changes together, and what is no choice. */
#include <fcntl.h>
#include <sys/mman.h>

#include "nvml.h"
#include "test.h"

struct release {
	const char *choice;	/* NULL: no choice is made */
	const char *version;
	int cuda, capability;
};

static const struct release releases[] = {
	{ "560", "560.00.01", 12060, 80 }, { "570", "570.00.01", 12080, 90 }, { "575", "575.00.01", 12090, 90 },
	{ "580", "580.00.01", 13000, 90 }, { "590", "590.00.01", 13010, 100 }, { "595", "595.00.01", 13020, 100 },
	{ "610", "610.00.01", 13030, 100 }, { NULL, "610.00.01", 13030, 100 },
};

static void choose(const char *choice)
{
	if (choice)
		setenv("SOFTGPU_DRIVER", choice, 1);
	else
		unsetenv("SOFTGPU_DRIVER");
}

/* The newest name of each version of CUDA 13, and one that all have. */
static void names(int cuda)
{
	static const struct { const char *name; int since; } since[] = {
		{ "cuInit", 2000 }, { "cuMemGetMemPool", 13000 }, { "cuGraphGetId", 13010 },
		{ "cuKernelGetParamCount", 13020 }, { "cuLogicalEndpointCreate", 13030 },
	};
	CUdriverProcAddressQueryResult status;
	void *fn;

	for (size_t i = 0; i < sizeof(since) / sizeof(since[0]); i++) {
		HOLDS(cuGetProcAddress(since[i].name, &fn, cuda, 0, &status) == CUDA_SUCCESS);
		HOLDS(status == (since[i].since <= cuda ? CU_GET_PROC_ADDRESS_SUCCESS :
							  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
	}
	HOLDS(cuGetProcAddress("cuInit", &fn, cuda + 1, 0, &status) == CUDA_ERROR_INVALID_VALUE);
}

static void one(void *arg)
{
	const struct release *r = arg;
	char text[40], nvml[48];
	int major, minor, version;

	choose(r->choice);
	/* versions are asked for before anything starts */
	HOLDS(cuDriverGetVersion(&version) == CUDA_SUCCESS && version == r->cuda);
	names(r->cuda);
	HOLDS(nvmlSystemGetCudaDriverVersion(&version) == NVML_SUCCESS && version == r->cuda);
	HOLDS(cuInit(0) == CUDA_SUCCESS);
	HOLDS(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) == CUDA_SUCCESS);
	HOLDS(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0) == CUDA_SUCCESS);
	HOLDS(10 * major + minor == r->capability);
	HOLDS(nvmlInit() == NVML_SUCCESS);
	HOLDS(nvmlSystemGetDriverVersion(text, sizeof(text)) == NVML_SUCCESS && !strcmp(text, r->version));
	snprintf(nvml, sizeof(nvml), "%d.%s", r->cuda / 1000, r->version);
	HOLDS(nvmlSystemGetNVMLVersion(text, sizeof(text)) == NVML_SUCCESS && !strcmp(text, nvml));
}

CASE(one_choice_sets_all)
{
	for (size_t i = 0; i < sizeof(releases) / sizeof(releases[0]); i++)
		assert_int_equal(in_child(one, (void *)&releases[i]), 0);
}

static void refused(void *arg)
{
	char said[500] = "";
	int file = memfd_create("stderr", 0);

	choose(arg);
	setenv("SOFTGPU_LOG", "1", 1);
	HOLDS(dup2(file, 2) == 2);
	HOLDS(cuInit(0) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
	HOLDS(pread(file, said, sizeof(said) - 1, 0) > 0);
	HOLDS(nvmlInit() == NVML_ERROR_LIB_RM_VERSION_MISMATCH);
	HOLDS(nvmlInitWithFlags(NVML_INIT_FLAG_NO_GPUS) == NVML_ERROR_LIB_RM_VERSION_MISMATCH);
	HOLDS(strstr(said, "560, 570, 575, 580, 590, 595 or 610") && strstr(said, arg));
}

CASE(what_is_no_choice_is_refused_with_the_choices)
{
	static const char *const bad[] = { "", "0", "13", "585", "580.1", "-580", "4294967876" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(in_child(refused, (void *)bad[i]), 0);
}

MAIN(NULL, NULL)
