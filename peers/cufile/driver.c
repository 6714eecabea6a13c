// SPDX-License-Identifier: MIT
/* driver.c - cuFileDriverOpen() and what it opens; properties. */
#include "cufile_int.h"

struct state state = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Lock. */
static CUfileOpError open_once(void)
{
	struct peerdma *ctx;
	struct peerdma_cache *cache;

	if (state.cache)
		return CU_FILE_SUCCESS;
	if (peerdma_open(&ctx, 0))
		return CU_FILE_NVFS_DRIVER_ERROR;
	if (peerdma_cache_open(ctx, NULL, &cache)) {
		peerdma_close(ctx);
		return CU_FILE_NOMEM_ERROR;
	}
	state.ctx = ctx;
	state.cache = cache;
	return CU_FILE_SUCCESS;
}

CUfileOpError driver_use(void)
{
	CUfileOpError error;

	parameters_ready();
	lock();
	error = open_once();
	if (!error && !state.opened) {
		parameters_settle();
		state.opened = 1;
	}
	unlock();
	return error;
}

EXPORT CUfileError_t cuFileDriverOpen(void)
{
	CUfileOpError error;

	parameters_ready();
	lock();
	error = open_once();
	if (!error && !state.opened++)
		parameters_settle();
	unlock();
	return status(error);
}

/*
 * The context and its cache stay: handles that the program has not deregistered are still valid, and a
 * later open finds its pins again.
 */
EXPORT CUfileError_t cuFileDriverClose_v2(void)
{
	bool was;

	lock();
	was = state.opened;
	if (was)
		state.opened--;
	unlock();
	return status(was ? CU_FILE_SUCCESS : CU_FILE_DRIVER_NOT_INITIALIZED);
}

EXPORT CUfileError_t cuFileDriverClose(void)
{
	return cuFileDriverClose_v2();
}

EXPORT long cuFileUseCount(void)
{
	long n;

	lock();
	n = state.opened;
	unlock();
	return n;
}

/* Views are P2PDMA to the program: the kernel's own driver transfers. */
EXPORT CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t *props)
{
	CUfileOpError error = props ? driver_use() : CU_FILE_INVALID_VALUE;

	if (error)
		return status(error);
	*props = (CUfileDrvProps_t){
		.nvfs.poll_thresh_size = parameter_size(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB),
		.nvfs.max_direct_io_size = parameter_size(
			CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB),
		.nvfs.dstatusflags = 1u << CU_FILE_NVME_SUPPORTED |
				     1u << CU_FILE_NVME_P2P_SUPPORTED,
		.nvfs.dcontrolflags =
			(unsigned int)parameter_bool(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE)
				<< CU_FILE_USE_POLL_MODE |
			(unsigned int)parameter_bool(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE)
				<< CU_FILE_ALLOW_COMPAT_MODE,
		.fflags = 1u << CU_FILE_BATCH_IO_SUPPORTED | 1u << CU_FILE_STREAMS_SUPPORTED,
		.max_device_cache_size = (unsigned int)parameter_size(
			CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB),
		.per_buffer_cache_size = (unsigned int)parameter_size(
			CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB),
		.max_device_pinned_mem_size = (unsigned int)parameter_size(
			CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB),
		.max_batch_io_size = (unsigned int)parameter_size(
			CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE),
		.max_batch_io_timeout_msecs = (unsigned int)parameter_size(
			CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS),
	};
	return status(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileGetVersion(int *version)
{
	if (!version)
		return status(CU_FILE_INVALID_VALUE);
	*version = 1150;
	return status(CU_FILE_SUCCESS);
}

/* One way to set a limit: by its own function, while the driver is open. */
static CUfileError_t set(CUFileSizeTConfigParameter_t param, size_t value)
{
	if (!cuFileUseCount())
		return status(CU_FILE_DRIVER_NOT_INITIALIZED);
	if (!value || value % 4)
		return status(CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
	parameter_set_size(param, value);
	return status(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t kb)
{
	return set(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, kb);
}

EXPORT CUfileError_t cuFileDriverSetMaxCacheSize(size_t kb)
{
	return set(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB, kb);
}

EXPORT CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t kb)
{
	return set(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB, kb);
}

EXPORT CUfileError_t cuFileDriverSetPollMode(bool poll, size_t kb)
{
	CUfileError_t ret = set(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB, kb);

	/* The properties report it; transfers are not polled for. */
	if (!ret.err)
		parameter_set_bool(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE, poll);
	return ret;
}
