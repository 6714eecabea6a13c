// SPDX-License-Identifier: MIT
/*
 * config_test.c - cufile.json: what is read of it, and what is wrong with it.
 *
 *	config_test good|bad|broken|missing FOLDER
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "../check.h"
#include "cufile.h"

#define STATUS(call, want)	EXPECT((call).err, want)

static const char good[] =
	"// a comment\n{\n\"logging\": { \"dir\": \"/somewhere\", \"level\": \"INFO\" },\n"
	"\"profile\": { \"nvtx\": false, \"cufile_stats\": 2 }, /* and another one */\n"
	"\"execution\": { \"max_io_threads\": 8, \"parallel_io\": false },\n"
	"\"properties\": { \"max_direct_io_size_kb\": 8192, \"io_batchsize\": 16, \"allow_compat_mode\": false,\n"
	"  \"rdma_dev_addr_list\": [ ], \"posix_pool_slab_size_kb\": [ 4, 8 ], \"posix_pool_slab_count\": [ 1, 2 ] },\n"
	"\"denylist\": { \"mounts\": [ ] }\n}\n";
static const char bad[] =
	"{ \"properties\": { \"max_direct_io_size_kb\": \"many\", \"io_batchsize\": 1000000, \"allow_compat_mode\": 1,\n"
	"  \"posix_pool_slab_size_kb\": [ 4, 8 ], \"posix_pool_slab_count\": [ 1 ], \"max_device_cache_size_kb\": 4096 },\n"
	"\"execution\": 7, \"logging\": { \"dir\": 3 } }\n";

static size_t size_of(CUFileSizeTConfigParameter_t param)
{
	size_t value = 12345;

	STATUS(cuFileGetParameterSizeT(param, &value), CU_FILE_SUCCESS);
	return value;
}

static bool bool_of(CUFileBoolConfigParameter_t param)
{
	bool value = false;

	STATUS(cuFileGetParameterBool(param, &value), CU_FILE_SUCCESS);
	return value;
}

static void all_good(int fd)
{
	CUfileDescr_t d = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd };
	size_t size[2], count[2];
	CUfileStatsLevel1_t one;
	CUfileDrvProps_t props;
	CUfileBatchHandle_t batch;
	CUfileHandle_t fh;
	CUdeviceptr gpu;
	char text[100];
	int level;

	STATUS(cuFileGetParameterString(CUFILE_PARAM_LOG_DIR, text, sizeof(text)), CU_FILE_SUCCESS);
	CHECK(!strcmp(text, "/somewhere"));
	EXPECT(size_of(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS), 8);
	CHECK(!bool_of(CUFILE_PARAM_EXECUTION_PARALLEL_IO));
	STATUS(cuFileGetParameterPosixPoolSlabArray(size, count, 2), CU_FILE_SUCCESS);
	CHECK(size[1] == 8 && count[1] == 2);
	/* The program's own settings come afterwards. */
	STATUS(cuFileSetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 2), CU_FILE_SUCCESS);
	STATUS(cuFileDriverOpen(), CU_FILE_SUCCESS);
	EXPECT(size_of(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS), 2);
	STATUS(cuFileDriverGetProperties(&props), CU_FILE_SUCCESS);
	CHECK(props.nvfs.max_direct_io_size == 8192 && !(props.nvfs.dcontrolflags & 1 << CU_FILE_ALLOW_COMPAT_MODE));
	STATUS(cuFileBatchIOSetUp(&batch, 17), CU_FILE_INVALID_VALUE);
	/* Nothing is copied, and what happens is counted. */
	MUST(!cuMemAlloc(&gpu, 65536));
	STATUS(cuFileHandleRegister(&fh, &d), CU_FILE_SUCCESS);
	EXPECT(cuFileRead(fh, (void *)(uintptr_t)(gpu + 1), 100, 3, 0), -CU_FILE_IO_NOT_SUPPORTED);
	cuFileHandleDeregister(fh);
	STATUS(cuFileGetStatsLevel(&level), CU_FILE_SUCCESS);
	EXPECT(level, 2);
	STATUS(cuFileGetStatsL1(&one), CU_FILE_SUCCESS);
	CHECK(one.read_ops.err == 1 && one.hdl_register_ops.ok == 1);
}

static void defaults(void)
{
	EXPECT(size_of(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB), 16384);
	EXPECT(size_of(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE), 128);
	CHECK(bool_of(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE));
	STATUS(cuFileDriverOpen(), CU_FILE_SUCCESS);
}

int main(int argc, char **argv)
{
	char path[300], file[300];
	const char *text;
	CUcontext context;
	CUdevice device;
	int fd;

	if (argc != 3) {
		fprintf(stderr, "usage: config_test good|bad|broken|missing FOLDER\n");
		return 2;
	}
	MUST(!cuInit(0) && !cuDeviceGet(&device, 0) && !cuDevicePrimaryCtxRetain(&context, device) && !cuCtxSetCurrent(context));
	text = !strcmp(argv[1], "good") ? good : !strcmp(argv[1], "bad") ? bad : "{ \"properties\": { ";
	snprintf(path, sizeof(path), "%s/cufile-%s.json", argv[2], argv[1]);
	snprintf(file, sizeof(file), "%s/cufile-%s.data", argv[2], argv[1]);
	unlink(path);
	if (strcmp(argv[1], "missing")) {
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		MUST(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && !close(fd));
	}
	MUST(!setenv("CUFILE_ENV_PATH_JSON", path, 1));
	fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	MUST(fd >= 0 && !ftruncate(fd, 65536));
	if (text == good)
		all_good(fd);
	else
		defaults();
	/* What is right beside what is wrong is used. */
	EXPECT(size_of(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB), text == bad ? 4096 : 131072);
	return check_end("cufile.json");
}
