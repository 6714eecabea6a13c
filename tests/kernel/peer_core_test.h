/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* peer_core_test.h - what the files of the conformance test for peer-memory cores share. */
#ifndef PEER_CORE_TEST_H
#define PEER_CORE_TEST_H

#include "peer_core_client.h"

struct row {
	const char *what;
	void (*run)(enum kind kind);
	unsigned int kinds;	/* BIT(kind): run once for each */
};

#define ALL_KINDS	(BIT(PERSISTENT) | BIT(PLAIN) | BIT(UNMAPS))
#define REVOCABLE_KINDS	(BIT(PLAIN) | BIT(UNMAPS))

extern const struct row life_rows[], invalidate_rows[];	/* until one without what */

/* The adapter: its device, and two addresses in this process where nothing is mapped. */
extern struct ib_device *adapter;
extern struct device *function;
extern unsigned long nowhere;
#define ALL_FLAGS	(IB_PEER_MEM_ALLOW | IB_PEER_MEM_INVAL_SUPP)

/* /dev/peer_core_test. */
int test_file_init(void);
void test_file_exit(void);

void check(bool holds, const char *what);
#define CHECK(condition)	check(condition, #condition)

/* A registered client that owns 1 MiB at nowhere, and is asked for length bytes at offset. */
void client_at(struct test_client *client, const char *name, enum kind kind, unsigned long offset,
	       size_t length);
/* The registration that it expects. */
struct ib_umem *get(struct test_client *client, int access, unsigned long flags);
struct ib_umem *get_rw(struct test_client *client);
/* The same, and its end. */
void get_works(struct test_client *client);
/* With err, or any error if 0. */
void get_fails(struct test_client *client, long err);
/* Its trace, and that it saw nothing wrong; and it is unregistered. */
void check_trace(struct test_client *client, const char *expected);
void client_end(struct test_client *client, const char *expected);

#endif
