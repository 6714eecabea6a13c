// SPDX-License-Identifier: MIT
/*
 * hip_ipc.c - HIP's memory and events in another process, which is this program once more. Both must be on one driver,
 * so these are skipped where the driver is inside the program.
 */
#include <fcntl.h>
#include <sys/wait.h>

#include "hip/hip_runtime.h"
#include "hip_ipc.h"
#include "test.h"

#define HIP(call)		assert_int_equal(call, hipSuccess)
#define NOT(error, call)	assert_int_equal(call, hipError##error)
#define EVENT_FLAGS		(hipEventDisableTiming | hipEventInterprocess)

struct message {
	hipIpcMemHandle_t memory;
	hipIpcEventHandle_t event;
};

/* ---- the other process: it gets handles on descriptor 0, and answers on 1 ---- */

static void answer(void)
{
	char byte = 1;

	HOLDS(write(1, &byte, 1) == 1);
}

static void hear(void)
{
	char byte;

	HOLDS(read(0, &byte, 1) == 1);
}

int hip_ipc_role(void)
{
	struct message m;
	hipEvent_t event;
	char *p, *again;

	HOLDS(read(0, &m, sizeof(m)) == sizeof(m));
	HOLDS(hipIpcOpenMemHandle((void **)&p, m.memory, 0) == hipErrorInvalidValue);
	HOLDS(!hipIpcOpenMemHandle((void **)&p, m.memory, hipIpcMemLazyEnablePeerAccess));
	HOLDS(!hipIpcOpenMemHandle((void **)&again, m.memory, hipIpcMemLazyEnablePeerAccess) && again == p);
	HOLDS(*p == 0x17 && p[-100] == 0x16);
	*p = 0x18;
	HOLDS(hipFree(p) != hipSuccess);
	HOLDS(!hipIpcOpenEventHandle(&event, m.event));
	HOLDS(hipEventQuery(event) == hipErrorNotReady);
	answer();
	/* Done, as soon as the other process's stream has come to it. */
	HOLDS(!hipEventSynchronize(event) && !hipEventQuery(event));
	answer();
	hear();
	HOLDS(!hipIpcCloseMemHandle(p) && !hipIpcCloseMemHandle(p));
	HOLDS(hipIpcCloseMemHandle(p) == hipErrorInvalidValue);
	/* Freed meanwhile. */
	HOLDS(hipIpcOpenMemHandle((void **)&p, m.memory, hipIpcMemLazyEnablePeerAccess) == hipErrorInvalidDevicePointer);
	HOLDS(!hipEventDestroy(event));
	return 0;
}

/* ---- this process ---- */

static pid_t start(int *to, int *from)
{
	int out[2], in[2];
	pid_t pid;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		dup2(out[0], 0);
		dup2(in[1], 1);
		execl("/proc/self/exe", "user_hip", "--other", NULL);
		_exit(127);
	}
	close(out[0]);
	close(in[1]);
	*to = out[1];
	*from = in[0];
	return pid;
}

static void wait_for(int fd)
{
	char byte;

	assert_int_equal(read(fd, &byte, 1), 1);
}

static void held(void *arg)
{
	char byte;

	if (read(*(int *)arg, &byte, 1) != 1)
		abort();
}

CASE(ipc)
{
	int to, from, gate[2], status;
	struct message m;
	hipEvent_t event, plain;
	hipStream_t stream;
	pid_t pid;
	void *q;
	char *p;

	if (access("/sys/class/softgpu", F_OK))
		skip();
	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	HIP(hipMalloc((void **)&p, 100000));
	p[0] = 0x16;
	p[100] = 0x17;
	HIP(hipIpcGetMemHandle(&m.memory, p + 100));
	NOT(InvalidContext, hipIpcOpenMemHandle(&q, m.memory, hipIpcMemLazyEnablePeerAccess));
	NOT(InvalidValue, hipIpcGetMemHandle(&m.memory, &m));
	NOT(InvalidValue, hipIpcCloseMemHandle(p));
	HIP(hipIpcGetMemHandle(&m.memory, p + 100));
	HIP(hipEventCreateWithFlags(&plain, hipEventDisableTiming));
	NOT(InvalidHandle, hipIpcGetEventHandle(&m.event, plain));
	HIP(hipEventDestroy(plain));
	HIP(hipEventCreateWithFlags(&event, EVENT_FLAGS));
	HIP(hipIpcGetEventHandle(&m.event, event));
	NOT(InvalidContext, hipIpcOpenEventHandle(&plain, m.event));
	HIP(hipStreamCreate(&stream));
	HIP(hipLaunchHostFunc(stream, held, &gate[0]));
	HIP(hipEventRecord(event, stream));

	pid = start(&to, &from);
	assert_int_equal(write(to, &m, sizeof(m)), sizeof(m));
	wait_for(from);
	assert_int_equal(p[100], 0x18);
	assert_int_equal(write(gate[1], "", 1), 1);
	wait_for(from);
	HIP(hipStreamSynchronize(stream));
	HIP(hipFree(p));
	assert_int_equal(write(to, "", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	HIP(hipEventDestroy(event));
	HIP(hipStreamDestroy(stream));
	close(to);
	close(from);
	close(gate[0]);
	close(gate[1]);
}
