/* SPDX-License-Identifier: MIT */
/*
 * cufile.h - the cuFile API, as of libcufile 1.15 (GPUDirect Storage), for programs that are built against peerdma's
 * libcufile.so.0.  Names, layouts and numbers are those of NVIDIA's library, so that a program finds either at run time.
 * docs/storage.md says what each function does here.
 */
#ifndef CUFILE_H
#define CUFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#include <cuda.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUFILEOP_BASE_ERR	5000
#define IS_CUFILE_ERR(err)	((err) > CUFILEOP_BASE_ERR)
#define IS_CUDA_ERR(status)	((status).err == CU_FILE_CUDA_DRIVER_ERROR)
#define CU_FILE_CUDA_ERR(status)	((status).cu_err)

/* Every status: its name, its number above CUFILEOP_BASE_ERR, and what it says. */
#define CUFILE_STATUSES(X) \
	X(CU_FILE_DRIVER_NOT_INITIALIZED, 1, "the driver is not open") \
	X(CU_FILE_DRIVER_INVALID_PROPS, 2, "invalid property") \
	X(CU_FILE_DRIVER_UNSUPPORTED_LIMIT, 3, "property out of range") \
	X(CU_FILE_DRIVER_VERSION_MISMATCH, 4, "the driver's version does not fit the library's") \
	X(CU_FILE_DRIVER_VERSION_READ_ERROR, 5, "the driver's version cannot be read") \
	X(CU_FILE_DRIVER_CLOSING, 6, "the driver is being closed") \
	X(CU_FILE_PLATFORM_NOT_SUPPORTED, 7, "not supported on this platform") \
	X(CU_FILE_IO_NOT_SUPPORTED, 8, "the file cannot be transferred so") \
	X(CU_FILE_DEVICE_NOT_SUPPORTED, 9, "the GPU is not supported") \
	X(CU_FILE_NVFS_DRIVER_ERROR, 10, "the kernel's driver has failed") \
	X(CU_FILE_CUDA_DRIVER_ERROR, 11, "CUDA has failed") \
	X(CU_FILE_CUDA_POINTER_INVALID, 12, "not an address of memory") \
	X(CU_FILE_CUDA_MEMORY_TYPE_INVALID, 13, "this kind of memory is not supported") \
	X(CU_FILE_CUDA_POINTER_RANGE_ERROR, 14, "the range is not in one allocation") \
	X(CU_FILE_CUDA_CONTEXT_MISMATCH, 15, "the memory is of another context") \
	X(CU_FILE_INVALID_MAPPING_SIZE, 16, "more than can be pinned") \
	X(CU_FILE_INVALID_MAPPING_RANGE, 17, "the mapping's range is invalid") \
	X(CU_FILE_INVALID_FILE_TYPE, 18, "not a file that can be transferred") \
	X(CU_FILE_INVALID_FILE_OPEN_FLAG, 19, "unsupported file open flags") \
	X(CU_FILE_DIO_NOT_SET, 20, "the file is open without O_DIRECT") \
	X(CU_FILE_INVALID_VALUE, 22, "invalid argument") \
	X(CU_FILE_MEMORY_ALREADY_REGISTERED, 23, "the buffer is registered already") \
	X(CU_FILE_MEMORY_NOT_REGISTERED, 24, "the buffer is not registered") \
	X(CU_FILE_PERMISSION_DENIED, 25, "permission denied") \
	X(CU_FILE_DRIVER_ALREADY_OPEN, 26, "the driver is open already") \
	X(CU_FILE_HANDLE_NOT_REGISTERED, 27, "the file is not registered") \
	X(CU_FILE_HANDLE_ALREADY_REGISTERED, 28, "the file is registered already") \
	X(CU_FILE_DEVICE_NOT_FOUND, 29, "no such device") \
	X(CU_FILE_INTERNAL_ERROR, 30, "internal error") \
	X(CU_FILE_GETNEWFD_FAILED, 31, "no descriptor can be had") \
	X(CU_FILE_NVFS_SETUP_ERROR, 33, "the kernel's driver cannot be set up") \
	X(CU_FILE_IO_DISABLED, 34, "transfers to this file are disabled") \
	X(CU_FILE_BATCH_SUBMIT_FAILED, 35, "the batch cannot be submitted") \
	X(CU_FILE_GPU_MEMORY_PINNING_FAILED, 36, "the GPU's memory cannot be pinned") \
	X(CU_FILE_BATCH_FULL, 37, "the batch is full") \
	X(CU_FILE_ASYNC_NOT_SUPPORTED, 38, "no transfers in streams") \
	X(CU_FILE_INTERNAL_BATCH_SETUP_ERROR, 39, "the batch cannot be set up") \
	X(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR, 40, "a transfer of the batch is invalid") \
	X(CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR, 41, "the batch's state cannot be read") \
	X(CU_FILE_INTERNAL_BATCH_CANCEL_ERROR, 42, "the batch cannot be cancelled") \
	X(CU_FILE_NOMEM_ERROR, 43, "out of memory") \
	X(CU_FILE_IO_ERROR, 44, "input/output error") \
	X(CU_FILE_INTERNAL_BUF_REGISTER_ERROR, 45, "the buffer cannot be registered") \
	X(CU_FILE_HASH_OPR_ERROR, 46, "a table cannot be changed") \
	X(CU_FILE_INVALID_CONTEXT_ERROR, 47, "no CUDA context") \
	X(CU_FILE_NVFS_INTERNAL_DRIVER_ERROR, 48, "internal error of the kernel's driver") \
	X(CU_FILE_BATCH_NOCOMPAT_ERROR, 49, "no batches in compatibility mode") \
	X(CU_FILE_IO_MAX_ERROR, 50, "the last status")

typedef enum CUfileOpError {
	CU_FILE_SUCCESS = 0,
#define X(name, number, text) name = CUFILEOP_BASE_ERR + (number),
	CUFILE_STATUSES(X)
#undef X
} CUfileOpError;

static inline const char *cufileop_status_error(CUfileOpError status)
{
	switch (status) {
	case CU_FILE_SUCCESS:
		return "success";
#define X(name, number, text) case name: return text;
	CUFILE_STATUSES(X)
#undef X
	default:
		return "unknown cuFile status";
	}
}

#define CUFILE_ERRSTR(err)	cufileop_status_error((CUfileOpError)abs(err))

typedef struct CUfileError {
	CUfileOpError err;
	CUresult cu_err;
} CUfileError_t;

/* ---- the driver ---- */

typedef enum CUfileDriverStatusFlags {
	CU_FILE_LUSTRE_SUPPORTED, CU_FILE_WEKAFS_SUPPORTED, CU_FILE_NFS_SUPPORTED, CU_FILE_GPFS_SUPPORTED, CU_FILE_NVME_SUPPORTED,
	CU_FILE_NVMEOF_SUPPORTED, CU_FILE_SCSI_SUPPORTED, CU_FILE_SCALEFLUX_CSD_SUPPORTED, CU_FILE_NVMESH_SUPPORTED,
	CU_FILE_BEEGFS_SUPPORTED, CU_FILE_NVME_P2P_SUPPORTED = 11, CU_FILE_SCATEFS_SUPPORTED, CU_FILE_VIRTIOFS_SUPPORTED,
	CU_FILE_MAX_TARGET_TYPES,
} CUfileDriverStatusFlags_t;

typedef enum CUfileDriverControlFlags {
	CU_FILE_USE_POLL_MODE, CU_FILE_ALLOW_COMPAT_MODE, CU_FILE_POSIX_IO_MODE, CU_FILE_FALLBACK_IO_MODE,
	CU_FILE_VANILLA_POSIX_IO_MODE = CU_FILE_POSIX_IO_MODE,
} CUfileDriverControlFlags_t;

typedef enum CUfileFeatureFlags {
	CU_FILE_DYN_ROUTING_SUPPORTED, CU_FILE_BATCH_IO_SUPPORTED, CU_FILE_STREAMS_SUPPORTED, CU_FILE_PARALLEL_IO_SUPPORTED,
	CU_FILE_P2P_SUPPORTED,
} CUfileFeatureFlags_t;

/* Of libcufile 1.16, whose functions take them: here are only the names, for sources that are built for each version. */
typedef enum CUfileP2PFlags {
	CUFILE_P2PDMA, CUFILE_NVFS, CUFILE_DMABUF, CUFILE_C2C, CUFILE_NVIDIA_PEERMEM,
} CUfileP2PFlags_t;

/* Sizes are in KiB. */
typedef struct CUfileDrvProps {
	struct {
		unsigned int major_version, minor_version;
		size_t poll_thresh_size, max_direct_io_size;
		unsigned int dstatusflags, dcontrolflags;
	} nvfs;
	unsigned int fflags;
	unsigned int max_device_cache_size, per_buffer_cache_size, max_device_pinned_mem_size;
	unsigned int max_batch_io_size, max_batch_io_timeout_msecs;
} CUfileDrvProps_t;

CUfileError_t cuFileDriverOpen(void);
CUfileError_t cuFileDriverClose(void);
CUfileError_t cuFileDriverClose_v2(void);
long cuFileUseCount(void);
CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t *props);
CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_size);
CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t max_direct_io_size);
CUfileError_t cuFileDriverSetMaxCacheSize(size_t max_cache_size);
CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t max_pinned_size);
CUfileError_t cuFileGetVersion(int *version);
CUfileError_t cuFileGetBARSizeInKB(int gpuIndex, size_t *barSize);

/* ---- files and buffers ---- */

/* Flags of cuFileBufRegister() for file systems over RDMA; accepted here, and without effect, as all flags. */
#define CU_FILE_RDMA_REGISTER		1
#define CU_FILE_RDMA_RELAXED_ORDERING	2

typedef struct cufileRDMAInfo {
	int version, desc_len;
	const char *desc_str;
} cufileRDMAInfo_t;

typedef struct CUfileFSOps {
	const char *(*fs_type)(const void *handle);
	int (*getRDMADeviceList)(const void *handle, struct sockaddr **hostaddrs);
	int (*getRDMADevicePriority)(const void *handle, char *, size_t, loff_t, const struct sockaddr *hostaddr);
	ssize_t (*read)(const void *handle, char *, size_t, loff_t, const cufileRDMAInfo_t *);
	ssize_t (*write)(const void *handle, const char *, size_t, loff_t, const cufileRDMAInfo_t *);
} CUfileFSOps_t;

enum CUfileFileHandleType {
	CU_FILE_HANDLE_TYPE_OPAQUE_FD = 1, CU_FILE_HANDLE_TYPE_OPAQUE_WIN32 = 2, CU_FILE_HANDLE_TYPE_USERSPACE_FS = 3,
};

typedef struct CUfileDescr {
	enum CUfileFileHandleType type;
	union {
		int fd;
		void *handle;
	} handle;
	const CUfileFSOps_t *fs_ops;
} CUfileDescr_t;

typedef void *CUfileHandle_t;

CUfileError_t cuFileHandleRegister(CUfileHandle_t *fh, CUfileDescr_t *descr);
void cuFileHandleDeregister(CUfileHandle_t fh);
CUfileError_t cuFileBufRegister(const void *bufPtr_base, size_t length, int flags);
CUfileError_t cuFileBufDeregister(const void *bufPtr_base);

/* The number of bytes; -1 and errno; or minus a CUfileOpError. */
ssize_t cuFileRead(CUfileHandle_t fh, void *bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset);
ssize_t cuFileWrite(CUfileHandle_t fh, const void *bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset);

/* ---- in streams ---- */

#define CU_FILE_STREAM_FIXED_BUF_OFFSET		1
#define CU_FILE_STREAM_FIXED_FILE_OFFSET	2
#define CU_FILE_STREAM_FIXED_FILE_SIZE		4
#define CU_FILE_STREAM_PAGE_ALIGNED_INPUTS	8

CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void *bufPtr_base, size_t *size_p, off_t *file_offset_p,
			      off_t *bufPtr_offset_p, ssize_t *bytes_read_p, CUstream stream);
CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void *bufPtr_base, size_t *size_p, off_t *file_offset_p,
			       off_t *bufPtr_offset_p, ssize_t *bytes_written_p, CUstream stream);
CUfileError_t cuFileStreamRegister(CUstream stream, unsigned int flags);
CUfileError_t cuFileStreamDeregister(CUstream stream);

/* ---- in batches ---- */

typedef enum CUfileOpcode { CUFILE_READ, CUFILE_WRITE } CUfileOpcode_t;

typedef enum CUFILEStatus_enum {
	CUFILE_WAITING = 0x1, CUFILE_PENDING = 0x2, CUFILE_INVALID = 0x4, CUFILE_CANCELED = 0x8, CUFILE_COMPLETE = 0x10,
	CUFILE_TIMEOUT = 0x20, CUFILE_FAILED = 0x40,
} CUfileStatus_t;

typedef enum cufileBatchMode { CUFILE_BATCH = 1 } CUfileBatchMode_t;

typedef struct CUfileIOParams {
	CUfileBatchMode_t mode;
	union {
		struct {
			void *devPtr_base;
			off_t file_offset, devPtr_offset;
			size_t size;
		} batch;
	} u;
	CUfileHandle_t fh;
	CUfileOpcode_t opcode;
	void *cookie;
} CUfileIOParams_t;

typedef struct CUfileIOEvents {
	void *cookie;
	CUfileStatus_t status;
	size_t ret;
} CUfileIOEvents_t;

typedef void *CUfileBatchHandle_t;

CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t *batch_idp, unsigned int nr);
CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned int nr, CUfileIOParams_t *iocbp, unsigned int flags);
CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned int min_nr, unsigned int *nr,
				     CUfileIOEvents_t *iocbp, struct timespec *timeout);
CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp);
void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp);

/* ---- parameters ---- */

typedef enum CUFileSizeTConfigParameter_t {
	CUFILE_PARAM_PROFILE_STATS, CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH, CUFILE_PARAM_EXECUTION_MAX_IO_THREADS,
	CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB, CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM,
	CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB,
	CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB, CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB,
	CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB, CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS,
} CUFileSizeTConfigParameter_t;

typedef enum CUFileBoolConfigParameter_t {
	CUFILE_PARAM_PROPERTIES_USE_POLL_MODE, CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, CUFILE_PARAM_FORCE_COMPAT_MODE,
	CUFILE_PARAM_FS_MISC_API_CHECK_AGGRESSIVE, CUFILE_PARAM_EXECUTION_PARALLEL_IO, CUFILE_PARAM_PROFILE_NVTX,
	CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY, CUFILE_PARAM_USE_PCIP2PDMA, CUFILE_PARAM_PREFER_IO_URING,
	CUFILE_PARAM_FORCE_ODIRECT_MODE, CUFILE_PARAM_SKIP_TOPOLOGY_DETECTION, CUFILE_PARAM_STREAM_MEMOPS_BYPASS,
	CUFILE_PARAM_PROPERTIES_POSIX_IO_MODE, CUFILE_PARAM_GDS_FALLBACK_IO,
} CUFileBoolConfigParameter_t;

typedef enum CUFileStringConfigParameter_t {
	CUFILE_PARAM_LOGGING_LEVEL, CUFILE_PARAM_ENV_LOGFILE_PATH, CUFILE_PARAM_LOG_DIR, CUFILE_PARAM_RDMA_TRANSPORT,
} CUFileStringConfigParameter_t;

/* What the functions for slabs take; the last two are of later libraries, which have functions for them. */
typedef enum CUFileArrayConfigParameter_t {
	CUFILE_PARAM_POSIX_POOL_SLAB_SIZE_KB, CUFILE_PARAM_POSIX_POOL_SLAB_COUNT,
	CUFILE_PARAM_GPU_BOUNCE_BUFFER_SLAB_SIZE_KB, CUFILE_PARAM_GPU_BOUNCE_BUFFER_SLAB_COUNT,
} CUFileArrayConfigParameter_t;

CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t *value);
CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t param, bool *value);
CUfileError_t cuFileGetParameterString(CUFileStringConfigParameter_t param, char *desc_str, int len);
CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t value);
CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t param, bool value);
CUfileError_t cuFileSetParameterString(CUFileStringConfigParameter_t param, const char *desc_str);
CUfileError_t cuFileGetParameterMinMaxValue(CUFileSizeTConfigParameter_t param, size_t *min_value, size_t *max_value);
CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t *size_values, const size_t *count_values, int len);
CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t *size_values, size_t *count_values, int len);

/* ---- statistics ---- */

typedef struct CUfileOpCounter {
	uint64_t ok, err;
} CUfileOpCounter_t;

typedef struct CUfileStatsLevel1 {
	CUfileOpCounter_t read_ops, write_ops, hdl_register_ops, hdl_deregister_ops, buf_register_ops, buf_deregister_ops;
	uint64_t read_bytes, write_bytes, read_bw_bytes_per_sec, write_bw_bytes_per_sec, read_lat_avg_us, write_lat_avg_us;
	uint64_t read_ops_per_sec, write_ops_per_sec, read_lat_sum_us, write_lat_sum_us;
	CUfileOpCounter_t batch_submit_ops, batch_complete_ops, batch_setup_ops, batch_cancel_ops, batch_destroy_ops;
	CUfileOpCounter_t batch_enqueued_ops, batch_posix_enqueued_ops, batch_processed_ops, batch_posix_processed_ops;
	CUfileOpCounter_t batch_nvfs_submit_ops, batch_p2p_submit_ops, batch_aio_submit_ops, batch_iouring_submit_ops;
	CUfileOpCounter_t batch_mixed_io_submit_ops, batch_total_submit_ops;
	uint64_t batch_read_bytes, batch_write_bytes, batch_read_bw_bytes, batch_write_bw_bytes;
	uint64_t batch_submit_lat_avg_us, batch_completion_lat_avg_us, batch_submit_ops_per_sec, batch_complete_ops_per_sec;
	uint64_t batch_submit_lat_sum_us, batch_completion_lat_sum_us, last_batch_read_bytes, last_batch_write_bytes;
} CUfileStatsLevel1_t;

typedef struct CUfileStatsLevel2 {
	CUfileStatsLevel1_t basic;
	uint64_t read_size_kb_hist[32], write_size_kb_hist[32];
} CUfileStatsLevel2_t;

typedef struct CUfilePerGpuStats {
	char uuid[16];
	uint64_t read_bytes, read_bw_bytes_per_sec, read_utilization, read_duration_us, n_total_reads, n_p2p_reads, n_nvfs_reads;
	uint64_t n_posix_reads, n_unaligned_reads, n_dr_reads, n_sparse_regions, n_inline_regions, n_reads_err;
	uint64_t writes_bytes, write_bw_bytes_per_sec, write_utilization, write_duration_us, n_total_writes, n_p2p_writes;
	uint64_t n_nvfs_writes, n_posix_writes, n_unaligned_writes, n_dr_writes, n_writes_err;
	uint64_t n_mmap, n_mmap_ok, n_mmap_err, n_mmap_free, reg_bytes;
} CUfilePerGpuStats_t;

typedef struct CUfileStatsLevel3 {
	CUfileStatsLevel2_t detailed;
	uint32_t num_gpus;
	CUfilePerGpuStats_t per_gpu_stats[16];
} CUfileStatsLevel3_t;

CUfileError_t cuFileSetStatsLevel(int level);
CUfileError_t cuFileGetStatsLevel(int *level);
CUfileError_t cuFileStatsStart(void);
CUfileError_t cuFileStatsStop(void);
CUfileError_t cuFileStatsReset(void);
CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t *stats);
CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t *stats);
CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t *stats);

#ifdef __cplusplus
}
#endif

#endif
