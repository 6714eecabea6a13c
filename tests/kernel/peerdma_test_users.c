// SPDX-License-Identifier: MIT
/* peerdma_test_users.c - see peerdma_test_users.h */
#include "peerdma_test_users.h"

long long taken(uid_t uid, const char *column)
{
	FILE *f = fopen("/sys/kernel/debug/peerdma/accounts", "r");
	char line[512], *field, *rest;
	int at = -1, i;
	long long found = 0;

	CHECK(f && fgets(line, sizeof(line), f));
	line[strcspn(line, "\n")] = 0;
	for (i = 0, rest = line; (field = strsep(&rest, "\t")); i++)
		if (!strcmp(field, column))
			at = i;
	CHECK(at > 0);
	while (f && fgets(line, sizeof(line), f)) {
		if (strtoul(line, NULL, 10) != uid)
			continue;
		for (i = 0, rest = line; (field = strsep(&rest, "\t")) && i < at; i++)
			;
		found = field ? atoll(field) : -1;
	}
	if (f)
		fclose(f);
	return found;
}

bool nothing_left(uid_t uid)
{
	static const char *const columns[] = { "pins", "mappings", "views", "exports", "aperture", "locked" };
	bool left = true;

	/* A dma-buf's last reference may go some time after the process that had it. */
	for (int tries = 0; left && tries < 1000; tries++) {
		if (tries)
			usleep(10000);
		left = false;
		for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
			left |= taken(uid, columns[i]) != 0;
	}
	return !left;
}

struct peerdma_info info(int fd)
{
	struct peerdma_info i = { .size = sizeof(i) };

	WORKS(ioctl(fd, PEERDMA_INFO, &i));
	return i;
}

void lowered(const char *parameter, const char *value, void (*test)(void))
{
	char path[128], before[32];

	snprintf(path, sizeof(path), "/sys/module/peerdma/parameters/%s", parameter);
	snprintf(before, sizeof(before), "%ld", file_number(path));
	CHECK(module_set("peerdma", parameter, value));
	test();
	CHECK(module_set("peerdma", parameter, before));
}

struct user {
	uid_t uid;
	uint32_t capabilities;
	void (*function)(void);
};

static int be_user(void *arg)
{
	const struct user *u = arg;

	become(u->uid, u->capabilities);
	u->function();
	return 0;
}

void as_user(uid_t uid, uint32_t capabilities, void (*function)(void))
{
	struct user u = { uid, capabilities, function };

	CHECK(check_in_child(be_user, &u) == 0);
	CHECK(nothing_left(uid));
}
