// SPDX-License-Identifier: MIT
/*
 * tegra_hostile.c - one user's processes do with their own memory what they can, while it is
 * pinned as device memory on a Tegra.  Another user's calls go on, and after kill -9 of all
 * of them nothing is left.
 *
 * Root's, with peerdma_tegra.ko and peerdma_client.ko, and with /dev/peerdma and /dev/fuse open to all.
 *
 *	tegra_hostile [oom]
 *
 * oom: only the test with the OOM killer, whose report in the kernel's log is a warning.
 */
#include <poll.h>
#include <sys/syscall.h>

#include "now.h"
#include "peerdma_client.h"
#include "peerdma_test.h"
#include "peerdma_test_users.h"
#include "unanswered.h"

#define ATTACKER	5100	/* and one more for each test */
#define VICTIM		5200
#define ROUNDS		300
#define RACE_S		3.0
#define LENGTH		(4 * PAGE)
/* A call that waits for another user takes for ever; one that waits for a processor, not as long as this. */
#define WORST_S		(2.0 * patience())
#define END_S		10	/* times patience() */

static void *memory(size_t length)
{
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* ---- the victim ---- */

struct worst {
	double seconds;		/* of a pin or an unpin */
	int failed;
};

/* In a process of its own: memory that all its callers share. */
static struct worst *shared_worst(void)
{
	return shared_memory(sizeof(struct worst));
}

static double timed(double *began)
{
	double at = now(), took = at - *began;

	*began = at;
	return took;
}

static int pin_and_unpin(int peer, void *arg)
{
	struct worst *w = arg;
	struct peerdma_pin_args a;
	char *p = memory(LENGTH);
	int fd;

	become(VICTIM, 0);
	fd = dev_open();
	say(peer);
	for (int i = 0; i < ROUNDS; i++) {
		double began = now(), one;

		w->failed += pin(fd, p, LENGTH, PEERDMA_PIN_DEVICE, &a) != 0;
		one = timed(&began);
		w->seconds = one > w->seconds ? one : w->seconds;
		w->failed += unpin(fd, a.handle) != 0;
		one = timed(&began);
		w->seconds = one > w->seconds ? one : w->seconds;
	}
	return 0;
}

static void victim_works(const char *beside)
{
	struct worst *w = shared_worst();
	struct process p = begin(pin_and_unpin, w);

	CHECK(hear(p.peer));
	CHECK(finish_within(&p, END_S + ROUNDS / 10) == 0);
	printf("  %d pins and unpins beside %s: the longest call took %.3f s, %d failed\n", ROUNDS, beside, w->seconds, w->failed);
	CHECK(!w->failed && w->seconds < WORST_S);
	munmap(w, sizeof(*w));
}

static void killed(struct process *p)
{
	kill(p->pid, SIGKILL);
	CHECK(finish_within(p, END_S) == -SIGKILL);
}

/* ---- threads that pin memory and replace it ---- */

static struct race {
	char *range;
	int fd;
	volatile bool over;
	unsigned long pins, unpinned_late, maps;
} race;

static void *pinner(void *unused)
{
	struct peerdma_pin_args a;

	while (!race.over) {
		if (pin(race.fd, race.range, LENGTH, PEERDMA_PIN_DEVICE, &a))
			continue;
		__atomic_fetch_add(&race.pins, 1, __ATOMIC_RELAXED);
		if (unpin(race.fd, a.handle))
			return "an unpin failed";
	}
	return NULL;
}

/* In part and as a whole, and what a file system or the kernel would do. */
static void *replacer(void *unused)
{
	static const int advices[] = { MADV_DONTNEED, MADV_PAGEOUT, MADV_COLD };

	for (unsigned long i = 0; !race.over; i++) {
		char *at = race.range + (i % 3 == 1 ? PAGE : 0);
		size_t length = i % 3 == 2 ? PAGE : LENGTH - (size_t)(at - race.range);

		if (i % 4 == 3)
			madvise(at, length, advices[i / 4 % 3]);
		else if (mmap(at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
			return "an mmap failed";
		*(volatile char *)at = 1;
		__atomic_fetch_add(&race.maps, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static int race_within(int peer, void *arg)
{
	pthread_t threads[4];
	void *bad = NULL, *one;
	double until;

	become(ATTACKER, 0);
	race.fd = dev_open();
	race.range = memory(LENGTH);
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, i % 2 ? replacer : pinner, NULL));
	say(peer);
	until = now() + RACE_S * patience();
	while (now() < until)
		usleep(10000);
	race.over = true;
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &one);
		bad = bad ?: one;
	}
	printf("  %lu pins against %lu changes%s%s\n", race.pins, race.maps, bad ? ": " : "", bad ? (char *)bad : "");
	fflush(stdout);
	return bad || !race.pins || !race.maps;
}

static void pins_against_mmap(void)
{
	struct process p;

	victim_works("nothing");
	p = begin(race_within, NULL);
	CHECK(hear(p.peer));
	victim_works("pins of memory that is replaced");
	CHECK(finish_within(&p, END_S + (int)RACE_S) == 0);
	/* And once more, killed in the middle. */
	p = begin(race_within, NULL);
	CHECK(hear(p.peer));
	usleep(300000);
	killed(&p);
	CHECK(nothing_left(ATTACKER) && nothing_left(VICTIM));
}

/* ---- a page that is never answered ---- */

struct shared {
	uint32_t reads;		/* first: unanswered_counter() */
	volatile pid_t server;
	uint32_t handle;
};

static int pin_unanswered(int peer, void *arg)
{
	struct shared *s = arg;
	struct peerdma_pin_args a;
	struct unanswered u;

	become(ATTACKER + 1, 0);
	CHECK(!unanswered_begin(&u, LENGTH, &s->reads));
	s->server = u.server;
	say(peer);
	return pin(dev_open(), u.memory, LENGTH, PEERDMA_PIN_DEVICE, &a) ? 77 : 1;
}

static void wait_for_read(const struct shared *s)
{
	CHECK(UNTIL(__atomic_load_n(&s->reads, __ATOMIC_SEQ_CST)));
	/* It has asked for the page, and sleeps soon. */
	usleep(20000);
}

static void unanswered_page(void)
{
	struct shared *s = (void *)unanswered_counter();
	struct process p = begin(pin_unanswered, s), victim;
	struct worst *w = shared_worst();

	CHECK(hear(p.peer));
	wait_for_read(s);
	victim_works("a pin of a page that is never answered");
	/* The victim dies when it is killed, whatever it does. */
	victim = begin(pin_and_unpin, w);
	CHECK(hear(victim.peer));
	killed(&victim);
	/* The pin can wait for the page until its server is gone. */
	kill(p.pid, SIGKILL);
	kill(s->server, SIGKILL);
	killed(&p);
	CHECK(nothing_left(ATTACKER + 1) && nothing_left(VICTIM));
	munmap(w, sizeof(*w));
}

/* ---- the OOM killer takes the memory of a process that cannot end ---- */

static void pin_it(void *memory)
{
	struct peerdma_pin_args a;

	pin(dev_open(), memory, LENGTH, PEERDMA_PIN_DEVICE, &a);
}

struct reaped {
	struct shared *s;
	int fd;
};

static int cannot_end(int peer, void *arg)
{
	struct reaped *r = arg;
	struct peerdma_pin_args a;
	struct unanswered u;
	struct task task;
	char *p;

	become(ATTACKER + 2, 0);
	CHECK(!unanswered_begin(&u, LENGTH, &r->s->reads));
	r->s->server = u.server;
	p = memory(LENGTH);
	WORKS(pin(r->fd, p, LENGTH, PEERDMA_PIN_DEVICE, &a));
	r->s->handle = a.handle;
	task_begin(&task, pin_it, u.memory);
	say(peer);
	pause();
	return 1;
}

/*
 * process_mrelease() does what the OOM killer's thread does: it takes the memory of a process
 * that is dying, and must not sleep in MMU notifiers.
 */
static void reaped_memory(void)
{
	struct reaped r = { .s = (void *)unanswered_counter(), .fd = dev_open() };
	struct process p = begin(cannot_end, &r);
	struct pollfd ready = { .fd = r.fd, .events = POLLIN };
	struct peerdma_event event = { 0 };
	struct peerdma_query_args q;
	int pidfd;

	CHECK(hear(p.peer));
	wait_for_read(r.s);
	pidfd = (int)syscall(SYS_pidfd_open, p.pid, 0);
	WORKS(query(r.fd, r.s->handle, &q));
	kill(p.pid, SIGKILL);
	usleep(100000);
	CHECK(is_alive(&p));
	WORKS((int)syscall(SYS_process_mrelease, pidfd, 0));
	close(pidfd);
	CHECK(poll(&ready, 1, END_S * 1000 * patience()) == 1);
	CHECK(read(r.fd, &event, sizeof(event)) == sizeof(event) && event.handle == r.s->handle);
	WORKS(unpin(r.fd, r.s->handle));
	/* What waits for its page counts still. */
	CHECK(taken(ATTACKER + 2, "pins") == 1);
	kill(r.s->server, SIGKILL);
	killed(&p);
	close(r.fd);
	CHECK(nothing_left(ATTACKER + 2));
}

#define GROUP_MIB	64
#define OOM_PINS	64

/* One thread cannot end, so the memory goes before the process does. */
static int eats(int peer, void *arg)
{
	struct reaped *r = arg;
	struct peerdma_pin_args a;
	struct unanswered u;
	struct task task;

	cgroup_enter();
	become(ATTACKER + 5, 0);
	CHECK(!unanswered_begin(&u, LENGTH, &r->s->reads));
	r->s->server = u.server;
	for (int i = 0; i < OOM_PINS; i++)
		WORKS(pin(r->fd, memory(LENGTH), LENGTH, PEERDMA_PIN_DEVICE, &a));
	task_begin(&task, pin_it, u.memory);
	say(peer);
	hear(peer);
	for (size_t eaten = 0; eaten < 4 * GROUP_MIB * MIB; eaten += MIB)
		memory(MIB);
	return 1;
}

/* The OOM killer itself: each pin's owner hears of it, other users' calls go on, and nothing is left. */
static void killed_for_memory(void)
{
	struct reaped r = { .s = (void *)unanswered_counter(), .fd = dev_open() };
	struct pollfd ready = { .fd = r.fd, .events = POLLIN };
	struct peerdma_event event = { 0 };
	struct process p;

	if (!cgroup_make(GROUP_MIB * MIB)) {
		printf("  no cgroups\n");
		return;
	}
	p = begin(eats, &r);
	CHECK(hear(p.peer));
	wait_for_read(r.s);
	say(p.peer);
	victim_works("a process that the OOM killer ends");
	for (int i = 0; i < OOM_PINS; i++) {
		CHECK(poll(&ready, 1, END_S * 1000 * patience()) == 1);
		CHECK(read(r.fd, &event, sizeof(event)) == sizeof(event));
		WORKS(unpin(r.fd, event.handle));
	}
	/* It could not end: its memory was taken from it. */
	CHECK(is_alive(&p));
	CHECK(taken(ATTACKER + 5, "pins") == 1);
	kill(r.s->server, SIGKILL);
	CHECK(finish_within(&p, END_S) == -SIGKILL);
	close(r.fd);
	CHECK(nothing_left(ATTACKER + 5) && nothing_left(VICTIM));
	cgroup_remove();
}

/* ---- the limit on locked memory ---- */

#define LIMIT (8 * MIB)

static int within_limit(int peer, void *arg)
{
	struct peerdma_pin_args a, b;
	char *p = memory(LIMIT), *q = memory(LIMIT), *shared;
	int fd;

	may_lock(LIMIT);
	become(ATTACKER + 3, 0);
	fd = dev_open();
	shared = shared_memory(LIMIT);
	CHECK(p && q);
	WORKS(pin(fd, p, LIMIT, PEERDMA_PIN_DEVICE, &a));
	FAILS(ENOMEM, pin(fd, q, PAGE, PEERDMA_PIN_DEVICE, &b));
	FAILS(ENOMEM, pin(fd, q, PAGE, 0, &b));
	FAILS(ENOMEM, pin(fd, q, PAGE, PEERDMA_PIN_HOST, &b));
	CHECK(info(fd).user_locked == LIMIT);
	WORKS(unpin(fd, a.handle));
	CHECK(info(fd).user_locked == 0);
	FAILS(ENOMEM, pin(fd, q, LIMIT + PAGE, PEERDMA_PIN_DEVICE, &b));
	/* What has gone is not charged any longer than its pin. */
	for (int i = 0; i < 20; i++) {
		WORKS(pin(fd, shared, LIMIT, PEERDMA_PIN_DEVICE, &a));
		CHECK(mmap(shared, LIMIT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == shared);
		WORKS(unpin(fd, a.handle));
	}
	/* Nor is what could not be pinned. */
	CHECK(!munmap(q + PAGE, PAGE));
	FAILS(ENXIO, pin(fd, q, 2 * PAGE, PEERDMA_PIN_DEVICE, &b));
	CHECK(info(fd).user_locked == 0);
	return 0;
}

static void locked_memory(void)
{
	struct process p = begin(within_limit, NULL);

	CHECK(finish(&p) == 0);
	CHECK(nothing_left(ATTACKER + 3));
}

/* ---- an end that takes long ---- */

#define SLOW_S (4 * patience())

/* A driver's pin takes SLOW_S to revoke.  The user's other pin is over at once, and its calls end. */
static int slow_end(int peer, void *arg)
{
	int client = *(int *)arg, fd = dev_open();
	char *slow = memory(LENGTH), *p = memory(LENGTH);
	struct client_pin c = { .addr = (uintptr_t)slow, .length = LENGTH, .delay_ms = (uint32_t)SLOW_S * 1000 };
	const volatile uint32_t *words = generations(fd);
	struct client_state state = { 0 };
	struct peerdma_query_args q;
	struct peerdma_pin_args a;
	double began;

	become(ATTACKER + 4, 0);
	WORKS(ioctl(client, CLIENT_PIN, &c));
	WORKS(pin(fd, p, LENGTH, PEERDMA_PIN_DEVICE, &a));
	CHECK(!munmap(slow, LENGTH));
	for (began = now(); !state.begun && now() < began + END_S * patience(); usleep(1000))
		WORKS(ioctl(client, CLIENT_STATE, &state));
	say(peer);
	CHECK(state.begun && !state.done);
	began = now();
	CHECK(!munmap(p, LENGTH));
	CHECK(words[a.slot] != a.generation);
	WORKS(query(fd, a.handle, &q));
	CHECK(q.state == PEERDMA_STATE_REVOKED);
	CHECK(view(fd, a.handle, LENGTH, PROT_READ) == MAP_FAILED && errno == ESTALE);
	WORKS(unpin(fd, a.handle));
	WORKS(ioctl(client, CLIENT_STATE, &state));
	CHECK(!state.done && now() - began < WORST_S);
	hear(peer);
	return 0;
}

static int prompt_end(int peer, void *arg)
{
	int fd = dev_open();
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	char *p = memory(LENGTH);
	struct peerdma_pin_args a;

	become(VICTIM, 0);
	WORKS(pin(fd, p, LENGTH, PEERDMA_PIN_DEVICE, &a));
	CHECK(!munmap(p, LENGTH));
	CHECK(poll(&ready, 1, (int)(WORST_S * 1000)) == 1);
	WORKS(unpin(fd, a.handle));
	return 0;
}

static void users_apart(void)
{
	int client = open("/dev/peerdma_client", O_RDWR | O_CLOEXEC);
	struct process p, victim;

	CHECK(client >= 0);
	p = begin(slow_end, &client);
	close(client);
	CHECK(hear(p.peer));
	victim = begin(prompt_end, NULL);
	CHECK(finish(&victim) == 0);
	CHECK(finish(&p) == 0);
	CHECK(nothing_left(ATTACKER + 4) && nothing_left(VICTIM));
}

/* ---- a change that the driver does not notice ---- */

static void changed_in_part(void)
{
	static const size_t places[] = { 0, 4096, 3 * 4096 };
	int fd = dev_open();

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		const volatile uint32_t *words = generations(fd);
		struct peerdma_pin_args a;
		char *p = memory(LENGTH);

		WORKS(pin(fd, p, LENGTH, PEERDMA_PIN_DEVICE, &a));
		CHECK(words[a.slot] == a.generation);
		CHECK(!munmap(p + places[i], PAGE));
		CHECK(words[a.slot] != a.generation);
		CHECK(poll(&ready, 1, END_S * 1000 * patience()) == 1);
		WORKS(unpin(fd, a.handle));
		munmap(p, LENGTH);
	}
	CHECK(live_pins(fd) == 0);
	close(fd);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && !strcmp(argv[1], "oom")) {
		run("Tegra: the OOM killer", killed_for_memory);
		return check_end("the OOM killer");
	}
	run("Tegra: part of a pin's memory is unmapped", changed_in_part);
	run("Tegra: pins are locked memory", locked_memory);
	run("Tegra: an end that takes long", users_apart);
	run("Tegra: pins against mmap()", pins_against_mmap);
	run("Tegra: a page that is never answered", unanswered_page);
	run("Tegra: memory that the OOM killer takes", reaped_memory);
	return check_end("hostile users of a Tegra");
}
