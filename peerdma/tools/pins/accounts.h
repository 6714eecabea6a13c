/* SPDX-License-Identifier: MIT */
/*
 * accounts.h - /sys/kernel/debug/peerdma/accounts: what each user has taken; and, from
 * the module's parameters, what one user may have.
 *
 * Like the table of pins: names of the fields in the first line, found by name.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#define ACCOUNTS_PATH "/sys/kernel/debug/peerdma/accounts"

enum { TAKEN_PINS, TAKEN_MAPPINGS, TAKEN_VIEWS, TAKEN_EXPORTS, TAKEN_APERTURE, TAKEN_LOCKED,
       TAKEN };

/* The field's name: "pins", "mappings", ... */
extern const char *const taken_names[TAKEN];

struct account {
	uint64_t uid;
	uint64_t taken[TAKEN];		/* numbers; of APERTURE and LOCKED bytes */
};

struct accounts {
	/* In the table's order; those that have nothing are left out */
	struct account *users;
	size_t count;
	size_t malformed;		/* lines that are no account, left out */
	/* 0: no limit; LOCKED has none here, it is RLIMIT_MEMLOCK */
	uint64_t limits[TAKEN];
	bool limit_known[TAKEN];
};

/* 0, -ENOMEM, or -EBADMSG: the first line does not name all fields.  Limits are not known. */
int accounts_parse(const char *data, size_t length, struct accounts *accounts);
/* Root's table and parameters, or file_read()'s errors: -ENOENT of a module that has no accounts. */
int accounts_read(const char *root, struct accounts *accounts);
void accounts_free(struct accounts *accounts);
