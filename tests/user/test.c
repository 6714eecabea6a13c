// SPDX-License-Identifier: MIT
/* test.c - see test.h. */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>

#include "test.h"

static CUcontext context;

void skip_program(const char *why)
{
	printf("SKIP: %s\n", why);
	exit(77);
}

bool on_softgpu(void)
{
	char name[100] = "";

	return cuDeviceGetName(name, sizeof(name), 0) == CUDA_SUCCESS &&
	       !strncmp(name, "softgpu", strlen("softgpu"));
}

CUcontext test_context(void)
{
	return context;
}

int gpu_setup(void **state)
{
	CUresult result = cuInit(0);

	if (result == CUDA_ERROR_NO_DEVICE)
		skip_program("no GPU: load softgpu.ko, or set SOFTGPU_INPROCESS=1");
	OK(result);
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	return 0;
}

int gpu_teardown(void **state)
{
	OK(cuCtxSetCurrent(NULL));
	OK(cuDevicePrimaryCtxRelease(0));
	return 0;
}

static pid_t first_process;

__attribute__((constructor)) static void remember_process(void)
{
	first_process = getpid();
}

/*
 * Asked by the leak sanitizer at exit.  In a child of a process with threads its
 * allocator's locks may have been taken by a thread that is not there any more,
 * and the check would wait for them for ever.
 */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return getpid() != first_process;
}

int in_child(void (*fn)(void *), void *arg)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		fn(arg);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static atomic_bool finished;

static void *cancelled_before(void *calls)
{
	pthread_cancel(pthread_self());
	((void (*)(void))calls)();
	atomic_store(&finished, true);
	pthread_testcancel();
	return NULL;
}

bool survives(void (*calls)(void))
{
	pthread_t thread;
	void *end = NULL;

	atomic_store(&finished, false);
	if (pthread_create(&thread, NULL, cancelled_before, (void *)calls) || pthread_join(thread, &end))
		return false;
	return atomic_load(&finished) && end == PTHREAD_CANCELED;
}

/* False: the thread has ended. */
static bool blocked_signals(const char *thread, unsigned long long *blocked)
{
	char path[300], line[200];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file))
		found = sscanf(line, "SigBlk: %llx", blocked) == 1;
	fclose(file);
	return found;
}

/* The C library blocks all signals while a thread begins and while it ends: that passes. */
static bool leaves_signals(const char *thread)
{
	const uint64_t wanted = 1ull << (SIGALRM - 1) | 1ull << (SIGTERM - 1);
#ifdef __SANITIZE_THREAD__	/* its own thread blocks all signals */
	const uint64_t own = 0;
#else
	const uint64_t own = 1ull << (SIGSEGV - 1);
#endif
	unsigned long long blocked = 0;
	bool lives;

	for (int ms = 0; (lives = blocked_signals(thread, &blocked)) && blocked & own && ms < 10000; ms++)
		usleep(1000);
	return !lives || ((blocked & wanted) == wanted && !(blocked & own));
}

bool other_threads_leave_signals(void)
{
	DIR *threads = opendir("/proc/self/task");
	unsigned int others = 0;
	bool leave = true;
	struct dirent *e;

	while ((e = readdir(threads))) {
		if (e->d_name[0] == '.' || atoi(e->d_name) == gettid())
			continue;
		others++;
		leave = leave && leaves_signals(e->d_name);
	}
	closedir(threads);
	return leave && others;
}
