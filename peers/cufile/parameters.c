// SPDX-License-Identifier: MIT
/*
 * parameters.c - cuFile's settings, from cufile.json and from the program.  They are kept and returned.  Three have an effect here:
 * whether transfers may be copied (ALLOW_COMPAT_MODE), the size of a batch, and what the properties report.
 */
#include "cufile_int.h"

/* Defaults and ranges are those of libcufile 1.15.1.  max 0: without a range. */
static struct {
	size_t value, min, max, initial;
} sizes[] = {
	[CUFILE_PARAM_PROFILE_STATS] = { 0, 0, 0, 0 },
	[CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH] = { 128, 1, 256, 128 },
	[CUFILE_PARAM_EXECUTION_MAX_IO_THREADS] = { 4, 0, 32, 4 },
	[CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB] = { 8192, 4, UINT32_MAX, 8192 },
	[CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM] = { 4, 0, 8, 4 },
	[CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB] = { 16384, 64, 16384, 16384 },
	[CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB] = { 131072, 0, 268435456, 131072 },
	[CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB] = { 1024, 64, 16384, 1024 },
	[CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB] = { 33554432, 64, 268435456,
								    33554432 },
	[CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE] = { 128, 1, 256, 128 },
	[CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB] = { 4, 4, SIZE_MAX / 1024 - 3, 4 },
	[CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS] = { 5, 1, 1000, 5 },
};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

#define BOOLS (CUFILE_PARAM_GDS_FALLBACK_IO + 1)
static bool bools[BOOLS] = {
	[CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE] = true,
	[CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY] = true,
	[CUFILE_PARAM_EXECUTION_PARALLEL_IO] = true,
};

#define STRING_MAX 256
static char strings[][STRING_MAX] = {
	[CUFILE_PARAM_LOGGING_LEVEL] = "ERROR",
	[CUFILE_PARAM_ENV_LOGFILE_PATH] = "",
	[CUFILE_PARAM_LOG_DIR] = "",
	[CUFILE_PARAM_RDMA_TRANSPORT] = "",
};
#define STRINGS (sizeof(strings) / sizeof(strings[0]))

static struct {
	size_t size[SLABS_MAX], count[SLABS_MAX];
	int n;
} slabs = { { 4, 1024, 16384 }, { 128, 64, 64 }, 3 };

/* Lock. */
void parameters_settle(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		bool above = sizes[i].value > sizes[i].max;

		if (sizes[i].max && (sizes[i].value < sizes[i].min || above))
			sizes[i].value = sizes[i].initial;
	}
}

/* ---- cufile.json, which is read before a setting is used or made ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;

void parameters_ready(void)
{
	pthread_once(&once, config_read);
}

bool parameter_take_size(int param, size_t value)
{
	bool fits = !sizes[param].max ||
		    (value >= sizes[param].min && value <= sizes[param].max);

	if (fits)
		sizes[param].value = value;
	if (fits && param == CUFILE_PARAM_PROFILE_STATS && value)
		stats_from_start((int)value);
	return fits;
}

void parameter_take_bool(int param, bool value)
{
	bools[param] = value;
}

bool parameter_take_string(int param, const char *text)
{
	if (strlen(text) >= STRING_MAX)
		return false;
	strcpy(strings[param], text);
	return true;
}

void parameter_take_slabs(const size_t *size, const size_t *count, int n)
{
	memcpy(slabs.size, size, (size_t)n * sizeof(*size));
	memcpy(slabs.count, count, (size_t)n * sizeof(*count));
	slabs.n = n;
}

/* ---- in the program ---- */

size_t parameter_size(CUFileSizeTConfigParameter_t param)
{
	size_t value;

	parameters_ready();
	lock();
	value = sizes[param].value;
	unlock();
	return value;
}

void parameter_set_size(CUFileSizeTConfigParameter_t param, size_t value)
{
	lock();
	sizes[param].value = value;
	unlock();
}

void parameter_set_bool(CUFileBoolConfigParameter_t param, bool value)
{
	lock();
	bools[param] = value;
	unlock();
}

bool parameter_bool(CUFileBoolConfigParameter_t param)
{
	bool value;

	parameters_ready();
	lock();
	value = bools[param];
	unlock();
	return value;
}

EXPORT CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t *value)
{
	if (!value || (unsigned int)param >= SIZES)
		return status(CU_FILE_INVALID_VALUE);
	*value = parameter_size(param);
	return status(CU_FILE_SUCCESS);
}

/* Settings are made before the driver is opened. */
static CUfileOpError may_set(void)
{
	parameters_ready();
	return cuFileUseCount() ? CU_FILE_DRIVER_ALREADY_OPEN : CU_FILE_SUCCESS;
}

EXPORT CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t value)
{
	CUfileOpError error = may_set();

	if (!error && (unsigned int)param >= SIZES)
		error = CU_FILE_INVALID_VALUE;
	if (!error)
		parameter_set_size(param, value);
	return status(error);
}

EXPORT CUfileError_t cuFileGetParameterMinMaxValue(CUFileSizeTConfigParameter_t param, size_t *min,
						   size_t *max)
{
	if (!min || !max || (unsigned int)param >= SIZES || !sizes[param].max)
		return status(CU_FILE_INVALID_VALUE);
	*min = sizes[param].min;
	*max = sizes[param].max;
	return status(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t param, bool *value)
{
	if (!value || (unsigned int)param >= BOOLS)
		return status(CU_FILE_INVALID_VALUE);
	*value = parameter_bool(param);
	return status(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t param, bool value)
{
	CUfileOpError error = may_set();

	if (!error && (unsigned int)param >= BOOLS)
		error = CU_FILE_INVALID_VALUE;
	if (!error)
		parameter_set_bool(param, value);
	return status(error);
}

EXPORT CUfileError_t cuFileGetParameterString(CUFileStringConfigParameter_t param, char *text,
					      int len)
{
	CUfileOpError error = CU_FILE_INVALID_VALUE;

	if (!text || len <= 0 || (unsigned int)param >= STRINGS)
		return status(error);
	parameters_ready();
	lock();
	if (strlen(strings[param]) < (size_t)len) {
		strcpy(text, strings[param]);
		error = CU_FILE_SUCCESS;
	}
	unlock();
	return status(error);
}

EXPORT CUfileError_t cuFileSetParameterString(CUFileStringConfigParameter_t param, const char *text)
{
	CUfileOpError error = may_set();

	if (!error && (!text || (unsigned int)param >= STRINGS || strlen(text) >= STRING_MAX))
		error = CU_FILE_INVALID_VALUE;
	if (!error) {
		lock();
		strcpy(strings[param], text);
		unlock();
	}
	return status(error);
}

EXPORT CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t *size, const size_t *count,
							  int len)
{
	CUfileOpError error = may_set();

	if (!error && (!size || !count || len <= 0 || len > SLABS_MAX))
		error = CU_FILE_INVALID_VALUE;
	if (!error) {
		lock();
		memcpy(slabs.size, size, (size_t)len * sizeof(*size));
		memcpy(slabs.count, count, (size_t)len * sizeof(*count));
		slabs.n = len;
		unlock();
	}
	return status(error);
}

EXPORT CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t *size, size_t *count, int len)
{
	CUfileOpError error = CU_FILE_INVALID_VALUE;

	if (!size || !count)
		return status(error);
	parameters_ready();
	lock();
	if (len == slabs.n) {
		memcpy(size, slabs.size, (size_t)len * sizeof(*size));
		memcpy(count, slabs.count, (size_t)len * sizeof(*count));
		error = CU_FILE_SUCCESS;
	}
	unlock();
	return status(error);
}
