/* SPDX-License-Identifier: MIT */
/* softgpu_uapi_test.h - a case runs in a process of its own, with a context on GPU 0. */
#ifndef SOFTGPU_UAPI_TEST_H
#define SOFTGPU_UAPI_TEST_H

#include "sgraw.h"

struct test_case {
	const char *name;
	void (*run)(struct gpu *g);
};

extern const struct test_case abuse_cases[], death_cases[], charged_cases[];

/* A file descriptor over a socket. */
void send_fd(int socket, int fd);
int receive_fd(int socket);

/* What this program does when one of the cases has exec'ed it. */
int after_exec(int fd);

#endif
