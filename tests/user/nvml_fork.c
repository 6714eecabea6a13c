// SPDX-License-Identifier: MIT
/* nvml_fork.c - a child that is made while a thread is in one of NVML's calls: its own call comes to an end. */
#include <stdbool.h>
#include <sys/syscall.h>

#include "fork_inside.h"
#include "nvml.h"

static _Thread_local bool waits_here;

/* In place of the C library's, which NVML calls with its lock. */
pid_t getpid(void)
{
	if (waits_here) {
		waits_here = false;
		wait_inside();
	}
	return (pid_t)syscall(SYS_getpid);
}

static void call(void)
{
	unsigned int count;

	nvmlDeviceGetCount(&count);
}

static void *held_call(void *unused)
{
	waits_here = true;
	call();
	return NULL;
}

int main(void)
{
	return nvmlInitWithFlags(NVML_INIT_FLAG_NO_GPUS) || child_comes_back(held_call, call);
}
