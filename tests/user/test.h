/* SPDX-License-Identifier: MIT */
/*
 * test.h - what the tests of softgpu's user libraries share.
 *
 * They use nothing but the public API, so they run on the core in this process
 * (SOFTGPU_INPROCESS=1), on softgpu.ko, and on a real GPU with NVIDIA's
 * libraries; what only a software GPU promises asks on_softgpu().
 */
#pragma once

#include "../cases.h"
#include "cuda.h"

static inline void check(CUresult got, CUresult want, const char *call, const char *file, int line)
{
	const char *got_name = "?", *want_name = "?";

	if (got == want)
		return;
	cuGetErrorName(got, &got_name);
	cuGetErrorName(want, &want_name);
	print_error("%s: %s (%d), not %s\n", call, got_name ? got_name : "?", got, want_name);
	_fail(file, line);
}

#define OK(call)		check(call, CUDA_SUCCESS, #call, __FILE__, __LINE__)
#define FAILS(error, call)	check(call, error, #call, __FILE__, __LINE__)
#define BAD(call)		FAILS(CUDA_ERROR_INVALID_VALUE, call)

#define KIB	((size_t)1 << 10)
#define MIB	((size_t)1 << 20)

/* A CUdeviceptr of a host pointer. */
static inline CUdeviceptr P(const void *p)
{
	return (uintptr_t)p;
}

/* In a child: cmocka belongs to the parent. */
#define HOLDS(what)									\
	do {										\
		if (!(what)) {								\
			print_error("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);	\
			_exit(1);							\
		}									\
	} while (0)

bool on_softgpu(void);

/*
 * In a case that asks for what only softgpu promises: with another driver the case is skipped, and prints the reason.
 * tests/gpu/run repeats these lines.
 */
#define ONLY_SOFTGPU(why)							\
	do {									\
		if (!on_softgpu()) {						\
			print_message("not asked: %s: %s\n", __func__, why);	\
			skip();							\
		}								\
	} while (0)

/* A group's setup: cuInit, and GPU 0's primary context made current.  No GPU: the program skips. */
int gpu_setup(void **state);
int gpu_teardown(void **state);

CUcontext test_context(void);

/* Runs fn in a forked child: its exit status, or -signal. */
int in_child(void (*fn)(void *), void *arg);

/*
 * Makes the calls in a thread that was cancelled (pthread_cancel) before. Whether the thread made all of them, and then
 * ended: it would end at the first cancellation point.
 */
bool survives(void (*calls)(void));

/*
 * Whether all threads but the caller block SIGALRM and SIGTERM, and none that only bad code raises. False: there are no
 * others. For programs in which the others are the libraries'.
 */
bool other_threads_leave_signals(void);

/* A program's end: skips are 77 and say so. */
void skip_program(const char *why) __attribute__((noreturn));

#define RUN(tests) cmocka_run_group_tests(tests, gpu_setup, gpu_teardown)
