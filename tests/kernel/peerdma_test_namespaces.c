// SPDX-License-Identifier: MIT
/*
 * peerdma_test_namespaces.c - user namespaces have many user ids, and one account: of the
 * user who made them, or of the ids that root gave them.
 */
#include <sched.h>
#include <sys/prctl.h>

#include "peerdma_test_users.h"

struct lodger {
	uid_t uid;		/* in the namespace */
	int fd;
	size_t length;
};

static int pin_as_lodger(void *arg)
{
	struct lodger *l = arg;
	struct peerdma_pin_args a;

	CHECK(!setresuid(l->uid, l->uid, l->uid));
	return pin(l->fd, anonymous(l->length), l->length,
		   PEERDMA_PIN_HOST, &a) ? errno : 0;
}

/* Says so, and goes on when the other has written the maps. */
static bool enter(int peer)
{
	if (unshare(CLONE_NEWUSER))
		return false;
	say(peer);
	CHECK(hear(peer));
	CHECK(!setresgid(0, 0, 0) && !setresuid(0, 0, 0));
	return true;
}

static void write_maps(pid_t pid, const char *map)
{
	must_write(map, "/proc/%d/uid_map", pid);
	must_write(map, "/proc/%d/gid_map", pid);
}

/* ---- a user's ---- */

#define NO_NAMESPACES 77
#define MAPPED_FROM 300000

static int make_namespace(int peer, void *arg)
{
	struct lodger l = { .fd = dev_open(), .uid = 5, .length = 5 * MIB };

	may_lock(8 * MIB);
	become(*(uid_t *)arg, 0);
	if (!enter(peer))
		return NO_NAMESPACES;
	CHECK(check_in_child(pin_as_lodger, &l) == 0);
	/* Its own user id has nothing yet; nor has the namespace's root, which may do all in it. */
	l.uid = 6;
	CHECK(check_in_child(pin_as_lodger, &l) == ENOMEM);
	l.uid = 0;
	CHECK(check_in_child(pin_as_lodger, &l) == ENOMEM);
	l.length = 3 * MIB;
	CHECK(check_in_child(pin_as_lodger, &l) == 0);
	CHECK(info(l.fd).user_pins == 2 && info(l.fd).user_locked == 8 * MIB);
	say(peer);
	hear(peer);
	return 0;
}

static void namespaces(void)
{
	uid_t uid = 61009;
	struct process p = begin(make_namespace, &uid);
	int code;

	if (hear(p.peer)) {
		write_maps(p.pid, "0 300000 10\n");	/* MAPPED_FROM */
		say(p.peer);
		CHECK(hear(p.peer));
		CHECK(taken(uid, "locked") == 8 * MIB && taken(uid, "pins") == 2);
		for (uid_t i = 0; i < 10; i++)
			CHECK(nothing_left(MAPPED_FROM + i));
	}
	code = finish(&p);
	if (code == NO_NAMESPACES)
		skip("user namespaces", "this kernel gives users none");
	else
		CHECK(code == 0);
	CHECK(nothing_left(uid));
}

/* ---- root's: containers ---- */

#define IDS		16
#define LIMIT		8
#define FIRST		310000
#define OTHER		320000

/* A namespace of a user's in the container. */
static int pin_deeper(void *arg)
{
	struct lodger *l = arg;

	CHECK(!setresuid(12, 12, 12) && !prctl(PR_SET_DUMPABLE, 1) && !unshare(CLONE_NEWUSER));
	must_write("0 12 1\n", "/proc/self/uid_map");
	l->uid = 0;
	return pin_as_lodger(l);
}

static int be_container(int peer, void *arg)
{
	struct lodger l = { .fd = dev_open(), .length = PAGE };

	may_lock(MIB);
	if (!enter(peer))
		return NO_NAMESPACES;
	for (l.uid = 0; l.uid < IDS; l.uid++)
		CHECK(check_in_child(pin_as_lodger, &l) == (l.uid < LIMIT ? 0 : EDQUOT));
	CHECK(check_in_child(pin_deeper, &l) == EDQUOT);
	CHECK(info(l.fd).user_pins == LIMIT && info(l.fd).user_locked == LIMIT * PAGE);
	say(peer);
	hear(peer);
	/* What one lets go another of them may have. */
	close(l.fd);
	l.fd = dev_open();
	CHECK(check_in_child(pin_deeper, &l) == 0);
	CHECK(info(l.fd).user_pins == 1);
	return 0;
}

static struct process container(const char *map)
{
	struct process p = begin(be_container, NULL);

	if (hear(p.peer)) {
		write_maps(p.pid, map);
		say(p.peer);
		CHECK(hear(p.peer));
	}
	return p;
}

static void containers(void)
{
	struct process one = container("0 310000 16\n");	/* FIRST */
	struct process other = container("0 320000 16\n");	/* OTHER */
	int code;

	CHECK(taken(FIRST, "pins") == LIMIT && taken(OTHER, "pins") == LIMIT && nothing_left(0));
	for (uid_t i = 1; i < IDS; i++)
		CHECK(nothing_left(FIRST + i));
	/* In this order: the other one has this end of the first one's socket, too. */
	code = finish(&other);
	CHECK(code == finish(&one));
	if (code == NO_NAMESPACES)
		skip("containers", "this kernel has no user namespaces");
	else
		CHECK(code == 0);
	CHECK(nothing_left(FIRST) && nothing_left(OTHER));
}

static void containers_lowered(void)
{
	lowered("max_pins_per_user", "8", containers);	/* LIMIT */
}

void test_namespaces(void)
{
	run("user namespaces", namespaces);
	run("containers", containers_lowered);
}
