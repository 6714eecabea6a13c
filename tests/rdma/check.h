/* SPDX-License-Identifier: MIT */
/* check.h - what a program of these finds, a line each, and how many of them are wrong. */
#ifndef RDMA_CHECK_H
#define RDMA_CHECK_H

extern int failures;

/* Prints "ok - what" or "not ok - what", and counts the latter. */
void check(int ok, const char *what);

#endif
