/* SPDX-License-Identifier: MIT */
/*
 * peerdma_test_users.h - processes of several users, and what each user has taken.
 *
 * Each test has user ids of its own, for which debugfs must show nothing when their
 * processes are gone.
 */
#ifndef PEERDMA_TEST_USERS_H
#define PEERDMA_TEST_USERS_H

#include <sys/types.h>

#include "peerdma_test.h"

#define MIB (1UL << 20)

/* What debugfs' table of accounts has for the user in this column; a user that it does not list has nothing. */
long long taken(uid_t uid, const char *column);
/* Nothing in any column, within 10 s. */
bool nothing_left(uid_t uid);
/* PEERDMA_INFO. */
struct peerdma_info info(int fd);
/* Runs the test with the module's parameter at this value; afterwards it is as it was. */
void lowered(const char *parameter, const char *value, void (*test)(void));

/* The calling process, root's, becomes the user's for good, with these capabilities (a mask) only. */
void become(uid_t uid, uint32_t capabilities);
/* RLIMIT_MEMLOCK; before become(). */
void may_lock(size_t bytes);

/* A child, and a socket to it. */
struct process {
	pid_t pid;
	int peer;
};
struct process begin(int (*function)(int peer, void *arg), void *arg);
void say(int peer);
/* False: the other has gone. */
bool hear(int peer);
/* Closes the socket and waits; the child's exit code, or 128 and the signal. */
int finish(struct process *p);
/* A descriptor. */
void pass(int peer, int fd);
int receive(int peer);

/* peerdma_test_locked.c and peerdma_test_namespaces.c, for test_limits(). */
void test_locked(void);
void test_namespaces(void);

#endif
