/* SPDX-License-Identifier: MIT */
/*
 * peerdma_test_users.h - what each user has taken.
 *
 * Each test has user ids of its own, for which debugfs must show nothing when their
 * processes are gone.
 */
#pragma once

#include "peerdma_test.h"

/* What debugfs' table of accounts has for the user in this column; a user that it does not list has nothing. */
long long taken(uid_t uid, const char *column);
/* Nothing in any column, within 10 s. */
bool nothing_left(uid_t uid);
/* PEERDMA_INFO. */
struct peerdma_info info(int fd);
/* Runs the test with the module's parameter at this value; afterwards it is as it was. */
void lowered(const char *parameter, const char *value, void (*test)(void));

/* Runs the function as a user's process, which must end with 0 and leave nothing to the user's account. */
void as_user(uid_t uid, uint32_t capabilities, void (*function)(void));

/* peerdma_test_locked.c and peerdma_test_namespaces.c, for test_limits(). */
void test_locked(void);
void test_namespaces(void);
