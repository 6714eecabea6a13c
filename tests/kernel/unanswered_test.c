// SPDX-License-Identifier: MIT
/*
 * unanswered_test.c - one user's calls stop at a page that is never answered, in each place
 * where a call of /dev/peerdma reads or writes memory of the program; another user's calls
 * go on meanwhile.  Then all are killed, and nothing is left.
 *
 *	unanswered_test [PROVIDER]	with GPU memory of this provider, too
 *	unanswered_test --worst		prints how long the other user's slowest of 1,000
 *					pins and unpins takes, alone and beside the first,
 *					in nine turns of each, and the medians' ratio
 *
 * The test times nothing: a call that waits for the other user waits for ever, and the
 * harness ends the test.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "peerdma_test_gpu.h"
#include "peerdma_test_users.h"
#include "unanswered.h"

#define STUCK_USER	62001
#define OTHER_USER	62002
#define ROUNDS		200

static volatile uint32_t *reads;

/* ---- calls that stop ---- */

/* A struct whose end, from this field on, lies in the page. */
static void *reaching_into(struct unanswered *u, size_t offset)
{
	return u->memory - offset;
}

/* The page before the one that is never answered is an ordinary one. */
static char *page_before(struct unanswered *u)
{
	char *before = mmap(u->memory - PAGE, PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	CHECK(before == u->memory - PAGE);
	return before;
}

static void pins_it(struct unanswered *u, int fd)
{
	struct peerdma_pin_args a;

	pin(fd, u->memory, PAGE, PEERDMA_PIN_HOST, &a);
}

/* No flag: every provider is asked. */
static void pins_any(struct unanswered *u, int fd)
{
	struct peerdma_pin_args a;

	pin(fd, u->memory, PAGE, 0, &a);
}

static void pins_read_only(struct unanswered *u, int fd)
{
	struct peerdma_pin_args a;

	pin(fd, u->memory, PAGE, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY, &a);
}

/* The pin exists when its handle is written. */
static void gets_a_handle(struct unanswered *u, int fd)
{
	struct peerdma_pin_args *a = reaching_into(u, offsetof(struct peerdma_pin_args, handle));

	page_before(u);
	pin(fd, host_memory(PAGE), PAGE, PEERDMA_PIN_HOST, a);
}

static void gives_a_struct(struct unanswered *u, int fd)
{
	ioctl(fd, PEERDMA_PIN, u->memory);
}

static void gives_half_a_struct(struct unanswered *u, int fd)
{
	struct peerdma_pin_args *a = reaching_into(u, offsetof(struct peerdma_pin_args, length));

	page_before(u);
	a->size = sizeof(*a);
	ioctl(fd, PEERDMA_PIN, a);
}

static void asks(struct unanswered *u, int fd)
{
	struct peerdma_query_args *q = reaching_into(u, sizeof(*q) - 8);
	struct peerdma_pin_args a;

	page_before(u);
	WORKS(pin(fd, host_memory(PAGE), PAGE, PEERDMA_PIN_HOST, &a));
	q->size = sizeof(*q);
	q->handle = a.handle;
	ioctl(fd, PEERDMA_QUERY, q);
}

static void exports(struct unanswered *u, int fd)
{
	struct peerdma_export_args *e = reaching_into(u, offsetof(struct peerdma_export_args, fd));
	struct peerdma_pin_args a;

	page_before(u);
	WORKS(pin(fd, host_memory(PAGE), PAGE, PEERDMA_PIN_HOST, &a));
	e->size = sizeof(*e);
	e->handle = a.handle;
	ioctl(fd, PEERDMA_EXPORT, e);
}

static void informs(struct unanswered *u, int fd)
{
	struct peerdma_info *i = reaching_into(u, sizeof(*i) - 8);

	page_before(u);
	i->size = sizeof(*i);
	ioctl(fd, PEERDMA_INFO, i);
}

static void unpins(struct unanswered *u, int fd)
{
	struct peerdma_handle_args *h = reaching_into(u, offsetof(struct peerdma_handle_args, handle));

	page_before(u);
	h->size = sizeof(*h);
	ioctl(fd, PEERDMA_UNPIN, h);
}

static void imports(struct unanswered *u, int fd)
{
	struct peerdma_pin_dmabuf_args *d = reaching_into(u, offsetof(struct peerdma_pin_dmabuf_args, handle));
	struct peerdma_pin_args a;

	page_before(u);
	WORKS(pin(fd, host_memory(PAGE), PAGE, PEERDMA_PIN_HOST, &a));
	d->size = sizeof(*d);
	d->fd = export(fd, a.handle, 0, 0);
	CHECK(d->fd >= 0);
	ioctl(fd, PEERDMA_PIN_DMABUF_FD, d);
}

static void (*const stuck[])(struct unanswered *u, int fd) = {
	pins_it, pins_any, pins_read_only, gets_a_handle, gives_a_struct, gives_half_a_struct,
	asks, exports, imports, informs, unpins,
};
#define NSTUCK (sizeof(stuck) / sizeof(stuck[0]))

/* Comes back only if the call does. */
static int get_stuck(int peer, void *arg)
{
	unsigned int i = *(unsigned int *)arg;
	struct unanswered u;
	int fd, err;

	become(STUCK_USER, 0);
	fd = dev_open();
	err = unanswered_begin(&u, PAGE, reads);
	if (err)
		printf("  no page that is never answered: %s\n", strerror(-err));
	CHECK(!err);
	/* The one that tells when to kill, and whom. */
	CHECK(write(peer, &u.server, sizeof(u.server)) == sizeof(u.server));
	if (!err)
		stuck[i](&u, fd);
	return 1;
}

/* ---- the other user ---- */

static void works_on_host_memory(int fd)
{
	struct peerdma_query_args q;
	struct peerdma_pin_args a;
	char *memory = host_memory(PAGE), *shown;
	int buf;

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	shown = view(fd, a.handle, PAGE, PROT_READ | PROT_WRITE);
	CHECK(shown != MAP_FAILED);
	shown[0] = 7;
	CHECK(memory[0] == 7);
	buf = export(fd, a.handle, 0, 0);
	CHECK(buf >= 0);
	close(buf);
	munmap(shown, PAGE);
	WORKS(query(fd, a.handle, &q));
	WORKS(unpin(fd, a.handle));
	munmap(memory, PAGE);
}

static void works_on_gpu_memory(int fd)
{
	uint64_t va = gpu_alloc(GPU_PAGE);
	struct peerdma_pin_args a;

	WORKS(gpu_pin(fd, va, GPU_PAGE, 0, &a));
	if (gpu_facts->has_view) {
		char *shown = view(fd, a.handle, a.pinned_length, PROT_READ | PROT_WRITE);

		CHECK(shown != MAP_FAILED);
		shown[0] = 7;
		munmap(shown, a.pinned_length);
	}
	/* Half of the pins are revoked. */
	if (va & GPU_PAGE) {
		CHECK(!cu.MemFree(va));
		WORKS(unpin(fd, a.handle));
	} else {
		WORKS(unpin(fd, a.handle));
		CHECK(!cu.MemFree(va));
	}
}

static int work(int peer, void *arg)
{
	const char *why, *provider = arg;
	int fd;

	(void)peer;
	may_lock(64 * MIB);
	become(OTHER_USER, 0);
	if (provider)
		setenv("PEERDMA_TEST_PROVIDER", provider, 1);
	if (provider && !memory_open(&why)) {
		printf("  no memory of %s: %s\n", provider, why);
		return 1;
	}
	fd = dev_open();
	for (int i = 0; i < ROUNDS; i++) {
		works_on_host_memory(fd);
		if (provider)
			works_on_gpu_memory(fd);
	}
	close(fd);
	return failures ? 1 : 0;
}

/* ---- both ---- */

static struct process attackers[NSTUCK];
static pid_t servers[NSTUCK];

static const char *provider;

static bool ended(pid_t pid)
{
	return waitpid(pid, NULL, WNOHANG) == pid;
}

static void all_get_stuck(void)
{
	uint32_t before = *reads;

	for (unsigned int i = 0; i < NSTUCK; i++) {
		attackers[i] = begin(get_stuck, &i);
		CHECK(read(attackers[i].peer, &servers[i], sizeof(servers[i])) == sizeof(servers[i]));
		while (*reads == before && !ended(attackers[i].pid))
			usleep(1000);
		before = *reads;
	}
}

static void all_end(void)
{
	for (unsigned int i = 0; i < NSTUCK; i++) {
		if (servers[i] > 0)
			kill(servers[i], SIGKILL);
		finish(&attackers[i]);
	}
	CHECK(nothing_left(STUCK_USER));
}

static void others_go_on(void)
{
	struct process worker;

	all_get_stuck();
	worker = begin(work, (void *)provider);
	CHECK(finish(&worker) == 0);
	for (unsigned int i = 0; i < NSTUCK; i++)
		CHECK(!ended(attackers[i].pid));

	/* On 6.1 a killed process may still wait for its page; it does so alone. */
	for (unsigned int i = 0; i < NSTUCK; i++)
		kill(attackers[i].pid, SIGKILL);
	worker = begin(work, (void *)provider);
	CHECK(finish(&worker) == 0);
	all_end();
	CHECK(nothing_left(OTHER_USER));
}

/* ---- how long ---- */

static int tell_worst(int peer, void *arg)
{
	char *memory = host_memory(PAGE);
	double worst = 0, took;
	struct peerdma_pin_args a;
	struct timespec t0, t1;
	int fd;

	(void)arg;
	become(OTHER_USER, 0);
	fd = dev_open();
	for (int i = 0; i < 1000; i++) {
		clock_gettime(CLOCK_MONOTONIC, &t0);
		WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
		WORKS(unpin(fd, a.handle));
		clock_gettime(CLOCK_MONOTONIC, &t1);
		took = (t1.tv_sec - t0.tv_sec) * 1e6 + (t1.tv_nsec - t0.tv_nsec) / 1e3;
		worst = took > worst ? took : worst;
	}
	CHECK(write(peer, &worst, sizeof(worst)) == sizeof(worst));
	return failures ? 1 : 0;
}

static double worst_of_1000(void)
{
	struct process p = begin(tell_worst, NULL);
	double worst = 0;

	CHECK(read(p.peer, &worst, sizeof(worst)) == sizeof(worst));
	CHECK(finish(&p) == 0);
	return worst;
}

#define TURNS	9

static int smaller_first(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *us, const char *what)
{
	qsort(us, TURNS, sizeof(*us), smaller_first);
	printf("worst of 1000, %s: median %.0f us (%.0f to %.0f)\n", what, us[TURNS / 2], us[0],
	       us[TURNS - 1]);
	return us[TURNS / 2];
}

/* Alternately, since other work on the machine shows in both. */
static void worst(void)
{
	double alone[TURNS], beside[TURNS], ratio;

	for (int i = 0; i < TURNS; i++) {
		alone[i] = worst_of_1000();
		all_get_stuck();
		beside[i] = worst_of_1000();
		all_end();
	}
	ratio = median(alone, "alone");
	ratio = median(beside, "beside calls that are never answered") / ratio;
	printf("ratio of the medians: %.2f\n", ratio);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	reads = unanswered_counter();
	if (argc > 1 && !strcmp(argv[1], "--worst")) {
		worst();
		return failures ? 1 : 0;
	}
	provider = argc > 1 ? argv[1] : NULL;
	run("calls that are never answered hold up their user alone", others_go_on);
	printf("%s\n", failures ? "FAILED" : "all passed");
	return failures ? 1 : 0;
}
