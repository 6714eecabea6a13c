// SPDX-License-Identifier: MIT
/*
 * hip.c - HIP's and HSA's memory beside CUDA's: what the CPU sees of it, what each
 * library says of a pointer, and its end.  It needs /dev/softgpu0.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "hip/hip_runtime.h"
#include "hip_ipc.h"
#include "hsa/hsa_ext_amd.h"
#include "test.h"

static sigjmp_buf fault;

static void on_fault(int sig)
{
	siglongjmp(fault, sig);
}

/* What a read raises; 0: nothing. */
static int signal_of(const volatile char *p)
{
	int sig;

	signal(SIGBUS, on_fault);
	signal(SIGSEGV, on_fault);
	sig = sigsetjmp(fault, 1);
	if (!sig)
		(void)*p;
	signal(SIGBUS, SIG_DFL);
	signal(SIGSEGV, SIG_DFL);
	return sig;
}

static char *hip_alloc(size_t size)
{
	void *p = NULL;

	assert_int_equal(hipMalloc(&p, size), hipSuccess);
	assert_non_null(p);
	return p;
}

CASE(cpu_view)
{
	char *p = hip_alloc(MIB + 100), back[256];

	for (size_t i = 0; i < MIB + 100; i += 1000)
		p[i] = (char)(i / 1000);
	assert_int_equal(hipMemcpy(back, p + 5000, 1, hipMemcpyDeviceToHost), hipSuccess);
	assert_int_equal(back[0], 5);
	memset(back, 0x3c, sizeof(back));
	assert_int_equal(hipMemcpy(p + 3 * 64 * KIB - 10, back, 20, hipMemcpyHostToDevice), hipSuccess);
	assert_int_equal(p[3 * 64 * KIB - 10], 0x3c);
	assert_int_equal(p[3 * 64 * KIB + 9], 0x3c);
	assert_int_equal(hipMemset(p + 1, 0x55, 4 * KIB), hipSuccess);
	assert_int_equal(p[1], 0x55);
	assert_int_equal(p[4 * KIB], 0x55);
	assert_int_equal(p[0], 0);
	assert_int_equal(hipFree(p), hipSuccess);
	assert_int_not_equal(signal_of(p), 0);
	assert_int_equal(hipFree(p), hipErrorInvalidValue);
	assert_int_equal(hipFree(NULL), hipSuccess);
}

/* What was there is not there for the next one, whose it may be. */
CASE(zeroed)
{
	char *p = hip_alloc(64 * KIB);
	CUdeviceptr cuda;
	unsigned int word = 1;

	memset(p, 0x77, 64 * KIB);
	assert_int_equal(hipFree(p), hipSuccess);
	OK(cuMemAlloc(&cuda, 64 * KIB));
	OK(cuMemcpyDtoH(&word, cuda, sizeof(word)));
	assert_int_equal(word, 0);
	/* The same address, most likely: CUDA's is not the CPU's. */
	assert_int_not_equal(signal_of((char *)(uintptr_t)cuda), 0);
	OK(cuMemFree(cuda));
}

CASE(what_is_it)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	char *p = hip_alloc(10000);
	unsigned int type;
	CUdeviceptr cuda;
	int local;

	OK(cuMemAlloc(&cuda, MIB));
	assert_int_equal(hsa_amd_pointer_info(p + 9999, &info, NULL, NULL, NULL), HSA_STATUS_SUCCESS);
	assert_int_equal(info.type, HSA_EXT_POINTER_TYPE_HSA);
	assert_ptr_equal(info.agentBaseAddress, p);
	assert_int_equal(info.sizeInBytes, 10000);
	assert_int_equal(hsa_amd_pointer_info(&local, &info, NULL, NULL, NULL), HSA_STATUS_SUCCESS);
	assert_int_equal(info.type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	assert_int_equal(hsa_amd_pointer_info((void *)(uintptr_t)cuda, &info, NULL, NULL, NULL), HSA_STATUS_SUCCESS);
	assert_int_equal(info.type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	info.size = 0;
	assert_int_equal(hsa_amd_pointer_info(p, &info, NULL, NULL, NULL), HSA_STATUS_ERROR_INVALID_ARGUMENT);
	/* Neither knows the other's, nor ends it. */
	if (!cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, P(p)))
		assert_int_not_equal(type, CU_MEMORYTYPE_DEVICE);
	assert_int_not_equal(cuMemFree(P(p)), CUDA_SUCCESS);
	assert_int_equal(hipFree((void *)(uintptr_t)cuda), hipErrorInvalidValue);
	assert_int_equal(p[0], 0);
	OK(cuMemFree(cuda));
	assert_int_equal(hipFree(p), hipSuccess);
}

/* The name of the mapping that begins at p. */
static void mapping_at(const char *p, char name[64])
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start;
	char line[512];

	assert_non_null(maps);
	name[0] = 0;
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%*s %*s %*s %*s %*s %63s", &start, name) >= 1 && start == (uintptr_t)p)
			break;
		name[0] = 0;
	}
	fclose(maps);
}

/* On the driver, a mapping of GPU memory has the name that AMD's driver gives it. */
CASE(named_as_amd)
{
	char *p = hip_alloc(MIB), name[64];

	mapping_at(p, name);
	if (!access("/sys/class/softgpu", F_OK))
		assert_string_equal(name, "/dev/dri/renderD160");
	assert_int_equal(hipFree(p), hipSuccess);
}

static void child(void *arg)
{
	void *q;

	/* Neither its memory nor its library. */
	if (!signal_of(arg) || hipMalloc(&q, 100) == hipSuccess)
		_exit(1);
	_exit(0);
}

CASE(forked)
{
	char *p = hip_alloc(64 * KIB);

	p[0] = 7;
	assert_int_equal(in_child(child, p), 0);
	assert_int_equal(p[0], 7);
	assert_int_equal(hipFree(p), hipSuccess);
}

CASE(dmabuf)
{
	char *p = hip_alloc(MIB);
	uint64_t offset = 0;
	int fd = -1, local;

	assert_int_equal(hsa_amd_portable_export_dmabuf(p + 8192, 4096, &fd, &offset), HSA_STATUS_SUCCESS);
	assert_int_equal(offset, 8192);
	assert_int_equal(lseek(fd, 0, SEEK_END), MIB);
	assert_int_equal(hsa_amd_portable_export_dmabuf(p + 8192, MIB, &fd, &offset), HSA_STATUS_ERROR_INVALID_ALLOCATION);
	assert_int_equal(hsa_amd_portable_export_dmabuf(&local, 4, &fd, &offset), HSA_STATUS_ERROR_INVALID_ALLOCATION);
	assert_int_equal(hsa_amd_portable_close_dmabuf(fd), HSA_STATUS_SUCCESS);
	assert_int_equal(hipFree(p), hipSuccess);
}

/* Frees and allocations of several threads: each finds its own at its address. */
static void *churn(void *arg)
{
	for (int i = 0; i < 100; i++) {
		char *p = NULL;

		if (hipMalloc((void **)&p, (size_t)(1 + i % 3) * 64 * KIB))
			return arg;
		*(int **)(void *)p = &i;
		if (*(int *volatile *)(void *)p != &i || hipFree(p))
			return arg;
	}
	return NULL;
}

CASE(threads)
{
	pthread_t id[3];
	void *failed;
	int n[3];

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&id[i], NULL, churn, &n[i]), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(id[i], &failed);
		assert_null(failed);
	}
}

/* ---- a GPU whose BAR shows a part of its VRAM ---- */

static hsa_status_t count_pool(hsa_amd_memory_pool_t pool, void *data)
{
	++*(int *)data;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t count_gpu(hsa_agent_t agent, void *data)
{
	hsa_device_type_t type;
	int *counts = data;

	assert_int_equal(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type), HSA_STATUS_SUCCESS);
	if (type != HSA_DEVICE_TYPE_GPU)
		return HSA_STATUS_SUCCESS;
	counts[0]++;
	return hsa_amd_agent_iterate_memory_pools(agent, count_pool, &counts[1]);
}

/* It is an agent without memory, so no device of HIP's, and the log says why. */
static void small_bar(void **state)
{
	int counts[2] = { 0, 0 }, n = -1, file = memfd_create("log", MFD_CLOEXEC), standard = dup(2);
	char text[1000] = "", wanted[60];
	hsa_status_t status;
	size_t total = 0;
	void *p;

	assert_int_equal(dup2(file, 2), 2);
	setenv("SOFTGPU_LOG", "1", 1);
	status = hsa_init();
	unsetenv("SOFTGPU_LOG");
	dup2(standard, 2);
	assert_int_equal(status, HSA_STATUS_SUCCESS);
	assert_true(pread(file, text, sizeof(text) - 1, 0) > 0);
	fputs(text, stderr);
	OK(cuInit(0));
	OK(cuDeviceTotalMem(&total, 0));
	snprintf(wanted, sizeof(wanted), " of %zu MiB, and must show all", total >> 20);
	assert_non_null(strstr(text, wanted));
	close(standard);
	close(file);
	assert_int_equal(hsa_iterate_agents(count_gpu, counts), HSA_STATUS_SUCCESS);
	assert_true(counts[0] > 0);
	assert_int_equal(counts[1], 0);
	/* The first GPU's, as the numbers have it. */
	assert_int_equal((int)hsa_amd_memory_pool_allocate((hsa_amd_memory_pool_t){ .handle = 0x201 }, KIB, 0, &p),
			 (int)HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
	assert_int_equal(hipGetDeviceCount(&n), hipErrorNoDevice);
	assert_int_equal(n, 0);
	assert_int_equal(hipMalloc(&p, KIB), hipErrorNoDevice);
	assert_int_equal(hsa_shut_down(), HSA_STATUS_SUCCESS);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest small[] = { cmocka_unit_test(small_bar) };

	if (access("/dev/softgpu0", F_OK))
		skip_program("HIP needs /dev/softgpu0");
	if (argc > 1 && !strcmp(argv[1], "--other"))
		return hip_ipc_role();
	if (argc > 1 && !strcmp(argv[1], "--small-bar"))
		return RUN(small);
	return cases_run(gpu_setup, gpu_teardown);
}
