// SPDX-License-Identifier: MIT
/*
 * peerdma_test_locked.c - RLIMIT_MEMLOCK holds for the sum of what a user has pinned,
 * in whichever processes, through whichever files.
 */
#include "peerdma_test_users.h"

/* ---- locked memory ---- */

/* Pins as many MiB as it can, and leaves them. */
static int lock_and_leave(void *arg)
{
	struct peerdma_pin_args a;
	char *memory = anonymous(8 * MIB);
	int fd = *(int *)arg, n;

	for (n = 0; n < 8 && !pin(fd, memory + n * MIB, MIB, PEERDMA_PIN_HOST, &a); n++)
		;
	CHECK(n == 8 || errno == ENOMEM);
	return n;
}

static int have_children_lock(int peer, void *arg)
{
	struct peerdma_pin_args a;
	struct peerdma_query_args q;
	int fd = dev_open(), mib = 0;

	may_lock(8 * MIB);
	become(*(uid_t *)arg, 0);
	for (int i = 0; i < 80; i++)
		mib += check_in_child(lock_and_leave, &fd);
	CHECK(mib == 8 && info(fd).user_locked == 8 * MIB && info(fd).user_pins == 8);
	FAILS(ENOMEM, pin(fd, host_memory(PAGE), PAGE, PEERDMA_PIN_HOST, &a));
	say(peer);
	hear(peer);
	/* What the dead left makes room when it is unpinned. */
	for (uint32_t handle = 1; info(fd).user_pins; handle++)
		if (!query(fd, handle, &q))
			WORKS(unpin(fd, handle));
	CHECK(!info(fd).user_locked);
	WORKS(pin(fd, host_memory(8 * MIB), 8 * MIB, PEERDMA_PIN_HOST, &a));
	return 0;
}

static void locked_by_children(void)
{
	uid_t uid = 61003;
	struct process p = begin(have_children_lock, &uid);

	CHECK(hear(p.peer));
	CHECK(taken(uid, "locked") == 8 * MIB);
	say(p.peer);
	CHECK(finish(&p) == 0);
	CHECK(nothing_left(uid));
}

/* Pins 2 MiB through a file of root's that it was sent, says the handle and goes. */
static int pin_what_was_passed(int peer, void *arg)
{
	struct peerdma_pin_args a, more;
	int fd;

	may_lock(3 * MIB);
	become(*(uid_t *)arg, 0);
	fd = receive(peer);
	WORKS(pin(fd, host_memory(2 * MIB), 2 * MIB, PEERDMA_PIN_HOST, &a));
	FAILS(ENOMEM, pin(fd, host_memory(2 * MIB), 2 * MIB, PEERDMA_PIN_HOST, &more));
	CHECK(write(peer, &a.handle, sizeof(a.handle)) == sizeof(a.handle));
	return 0;
}

static int unpin_foreign(int peer, void *arg)
{
	const uint32_t *args = arg;	/* user, handle */

	become(args[0], 0);
	WORKS(unpin(receive(peer), args[1]));
	return 0;
}

static void locked_through_a_socket(void)
{
	uid_t uid = 61004;
	uint32_t other[] = { 61005, 0 };
	struct peerdma_query_args q;
	struct process p;
	int fd = dev_open();

	for (int round = 0; round < 2; round++) {
		p = begin(pin_what_was_passed, &uid);
		pass(p.peer, fd);
		CHECK(read(p.peer, &other[1], sizeof(other[1])) == sizeof(other[1]));
		CHECK(finish(&p) == 0);
		/* It outlives its maker, whose user still pays for it; the opener does not. */
		WORKS(query(fd, other[1], &q));
		CHECK(taken(uid, "locked") == 2 * MIB && taken(uid, "pins") == 1 && nothing_left(0));
		if (round) {
			close(fd);
		} else {
			p = begin(unpin_foreign, other);
			pass(p.peer, fd);
			CHECK(finish(&p) == 0);
		}
		CHECK(nothing_left(uid) && nothing_left(other[0]));
	}
}

/* Root opens; each pin is of the user that the process was by then. */
static int change_users(int peer, void *arg)
{
	const uid_t *uid = arg;
	struct peerdma_pin_args a, b;
	int fd = dev_open();
	char *memory = host_memory(2 * PAGE);

	CHECK(!setresuid(uid[0], uid[0], 0));
	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	CHECK(!setresuid(-1, 0, -1) && !setresuid(uid[1], uid[1], uid[1]));
	WORKS(pin(fd, memory, 2 * PAGE, PEERDMA_PIN_HOST, &b));
	CHECK(info(fd).user_pins == 1 && info(fd).user_locked == 2 * PAGE);
	say(peer);
	hear(peer);
	WORKS(unpin(fd, a.handle));
	CHECK(info(fd).user_pins == 1 && info(fd).user_locked == 2 * PAGE);
	say(peer);
	hear(peer);
	return 0;
}

static void user_ids_change(void)
{
	uid_t uid[] = { 61006, 61007 };
	struct process p = begin(change_users, uid);

	CHECK(hear(p.peer));
	CHECK(taken(uid[0], "locked") == (long long)PAGE && taken(uid[1], "locked") == (long long)(2 * PAGE));
	CHECK(nothing_left(0));
	say(p.peer);
	CHECK(hear(p.peer));
	CHECK(nothing_left(uid[0]) && taken(uid[1], "pins") == 1);
	CHECK(finish(&p) == 0);
	CHECK(nothing_left(uid[1]));
}

/* Pins, and becomes a program that keeps the file open and waits for its input to end. */
static int pin_and_exec(int peer, void *arg)
{
	struct peerdma_pin_args a;
	int fd = dev_open();

	may_lock(MIB);
	become(*(uid_t *)arg, 0);
	WORKS(pin(fd, host_memory(MIB), MIB, PEERDMA_PIN_HOST, &a));
	fcntl(fd, F_SETFD, 0);
	dup2(peer, 0);
	dup2(peer, 1);
	execl("/bin/sh", "sh", "-c", "printf x; read x", (char *)NULL);
	return 1;
}

static int lock_a_page(void *arg)
{
	struct peerdma_pin_args a;

	may_lock(MIB);
	become(*(uid_t *)arg, 0);
	return pin(dev_open(), host_memory(PAGE), PAGE, PEERDMA_PIN_HOST, &a) ? errno : 0;
}

static void locked_before_exec(void)
{
	uid_t uid = 61008;
	struct process p = begin(pin_and_exec, &uid);

	CHECK(hear(p.peer));
	CHECK(taken(uid, "locked") == MIB && taken(uid, "pins") == 1);
	CHECK(check_in_child(lock_a_page, &uid) == ENOMEM);
	finish(&p);
	CHECK(nothing_left(uid));
	CHECK(check_in_child(lock_a_page, &uid) == 0);
}

/* ---- generations ---- */

#define SLOT_PAGES	12	/* what a page of generations after the first takes, with its slots */
#define SLOTS		(PAGE / sizeof(uint32_t))

/* Pins of a dma-buf lock nothing. */
static unsigned int pin_many(int fd, int dmabuf, unsigned int n, uint32_t *handles)
{
	struct peerdma_pin_dmabuf_args a;
	unsigned int i;

	for (i = 0; i < n; i++) {
		a = (struct peerdma_pin_dmabuf_args){ .size = sizeof(a), .fd = dmabuf };
		if (ioctl(fd, PEERDMA_PIN_DMABUF_FD, &a))
			break;
		handles[i] = a.handle;
	}
	return i;
}

static int pin_and_unpin_many(int peer, void *arg)
{
	static uint32_t handles[1 << 16];
	struct peerdma_pin_args a;
	unsigned int n, more;
	int source = dev_open(), fd = dev_open(), dmabuf;

	/* A page of memory, and two of generations but for a page. */
	may_lock((1 + 2 * SLOT_PAGES - 1) * PAGE);
	become(*(uid_t *)arg, 0);
	WORKS(pin(source, host_memory(PAGE), PAGE, PEERDMA_PIN_HOST, &a));
	dmabuf = export(source, a.handle, 0, 0);
	n = pin_many(fd, dmabuf, 3 * SLOTS, handles);
	CHECK(n == 2 * SLOTS && errno == ENOMEM);
	CHECK(info(fd).user_locked == (1 + SLOT_PAGES) * PAGE);
	/* What fails uses nothing up. */
	for (int i = 0; i < 100; i++)
		FAILS(ENOMEM, pin_many(fd, dmabuf, 1, handles + n) ? 0 : -1);
	for (more = 0; more < n; more++)
		WORKS(unpin(fd, handles[more]));
	CHECK(info(fd).user_pins == 1 && info(fd).user_locked == (1 + SLOT_PAGES) * PAGE);
	CHECK(pin_many(fd, dmabuf, 2 * SLOTS, handles) == 2 * SLOTS);
	CHECK(info(fd).user_locked == (1 + SLOT_PAGES) * PAGE);
	/* Another file's are its own; the first page is part of it. */
	more = dev_open();
	CHECK(pin_many((int)more, dmabuf, SLOTS + 1, handles) == SLOTS && errno == ENOMEM);
	close(fd);
	CHECK(info(source).user_locked == PAGE);
	CHECK(pin_many((int)more, dmabuf, 1, handles) == 1);
	return 0;
}

static void generations_stay(void)
{
	uid_t uid = 61020;
	struct process p = begin(pin_and_unpin_many, &uid);

	CHECK(finish(&p) == 0);
	CHECK(nothing_left(uid));
}

void test_locked(void)
{
	run("memory locked by children that are gone", locked_by_children);
	run("memory locked through a file from a socket", locked_through_a_socket);
	run("a process changes its user", user_ids_change);
	run("memory locked before exec", locked_before_exec);
	run("generations of pins that have ended", generations_stay);
}
