// SPDX-License-Identifier: MIT
/* peer_client_races.c - registrations beside frees, and the ends of processes and of the module. */
#include <sys/syscall.h>

#include "peer_client_util.h"
#include "peerdma_test_gpu.h"
#include "peerdma_test_users.h"

/* ---- races ---- */

/* A registration and its end beside a free, at every phase; in each manner of cores. */
static void race(uint32_t on, unsigned int rounds)
{
	unsigned int early = 0, late = 0, never = 0;
	uint64_t pins = pins_now();

	for (unsigned int i = 0; i < rounds && !check_counts.failures; i++) {
		uint64_t va = memory_get(256 * KIB);
		int fd = region_open(on), err;
		struct freer f;
		bool mapped;

		if (i % 3)
			CHECK(region_acquire(fd, va, 256 * KIB) == 1);
		free_begin(&f, va);
		for (volatile unsigned int j = 0; j < i * 37 % 5000; j++)
			;
		err = i % 3 ? 1 : region_acquire(fd, va, 256 * KIB);
		err = err == 1 ? region_get(fd, va, 256 * KIB) : -EFAULT;
		err = err ?: region_map(fd, 0, NULL);
		mapped = !err;
		CHECK(!err || err == -EFAULT);
		CHECK(!peer(fd, P_ACTIVATE, 0) || !mapped);
		if (mapped && i & 4)
			usleep(1000);
		peer(fd, P_DEREGISTER, 0);
		free_end(&f);
		/* It was told at most once, and has returned. */
		CHECK(begun(fd) <= 1 && begun(fd) == done(fd));
		early += !mapped;
		late += mapped && begun(fd);
		never += mapped && !begun(fd);
		CHECK(mapped || !begun(fd));
		close(fd);
	}
	PINS_BACK(pins);
	printf("     %u registrations failed, %u were invalidated, %u were not\n", early, late, never);
}

void race_plain(void)
{
	race(0, 40);
}

void race_unmapping(void)
{
	race(P_ON_UNMAP, 40);
}

void race_with_a_lock(void)
{
	race(P_CORE_LOCK | P_LATE, 40);
}

/* ---- processes ---- */

/* Before this process has opened a GPU: each child opens its own. */
static int dies(void *arg)
{
	unsigned int order = *(unsigned int *)arg;
	const char *why;
	uint64_t va;
	int fds[4];

	/* Descriptors are closed in the order of their numbers: the regions first, or the GPU. */
	for (int i = 0; i < 4 && order & 1; i++)
		fds[i] = region_open(order & 2 ? P_CORE_LOCK : 0);
	if (!memory_begin(which, &why))
		return 1;
	for (int i = 0; i < 4 && !(order & 1); i++)
		fds[i] = region_open(order & 2 ? P_CORE_LOCK : 0);
	va = memory_get(MIB);
	for (int i = 0; i < 4; i++) {
		if (region_acquire(fds[i], va, MIB) != 1)
			return 2;
		if (i > 0 && region_get(fds[i], va, MIB))
			return 3;
		if (i > 1 && region_map(fds[i], 0, NULL))
			return 4;
		/* No program dies in the midst of a core's call. */
		if (i > 2 || (order & 2 && i > 1))
			peer(fds[i], P_ACTIVATE, 0);
	}
	kill(getpid(), SIGKILL);
	return 5;
}

void killed(void)
{
	uint64_t pins = pins_now();

	for (unsigned int order = 0; order < 4; order++) {
		CHECK(check_in_child(dies, &order) == -SIGKILL);
		PINS_BACK(pins);
	}
}

#define USER	7411

/* A user without any right: what it registers is its own, and counts as its pins. */
static int registers(int peer_end, void *arg)
{
	int fd = region_open(0), other = region_open(0);
	const char *why;
	uint64_t va;

	become(USER, 0);
	if (!memory_begin(which, &why))
		return 1;
	va = memory_get(MIB);
	if (region_acquire(fd, va, MIB) != 1 || region_get(fd, va, MIB) || region_map(fd, 0, NULL))
		return 2;
	say(peer_end);
	if (!hear(peer_end))
		return 3;
	/* As many pins as it may have: no more, and the log says so. */
	if (region_acquire(other, va, MIB) != -EDQUOT)
		return 4;
	region_down(fd);
	memory_free(va);
	return 0;
}

void charged(void)
{
	struct process p = begin(registers, NULL);

	CHECK(hear(p.peer));
	CHECK(taken(USER, "pins") == 1 && taken(USER, "mappings") == 1);
	CHECK(module_set("peerdma", "max_pins_per_user", "1"));
	say(p.peer);
	CHECK(finish(&p) == 0);
	CHECK(module_set("peerdma", "max_pins_per_user", "65536"));
	CHECK(nothing_left(USER));
}

static int rmmod(const char *name)
{
	return syscall(SYS_delete_module, name, O_NONBLOCK) ? errno : 0;
}

void unloading(void)
{
	uint64_t va = memory_get(MIB), pins = pins_now();
	int fd = region_open(0);

	CHECK(region_acquire(fd, va, MIB) == 1);
	CHECK(rmmod("peerdma_peermem") == EWOULDBLOCK);
	CHECK(!region_get(fd, va, MIB) && !region_map(fd, 0, NULL));
	memory_free(va);
	CHECK(rmmod("peerdma_peermem") == EWOULDBLOCK);
	region_down(fd);
	PINS_BACK(pins);
	CHECK(file_number("/sys/module/peerdma_peermem/refcnt") == 0);
}
