// SPDX-License-Identifier: MIT
/*
 * unanswered_test.c - one user's calls stop at a page that is never answered, in each place
 * where a call of /dev/peerdma reads or writes memory of the program; another user's calls
 * go on meanwhile.  Then all are killed, and nothing is left.
 *
 *	unanswered_test [PROVIDER]	with GPU memory of this provider, too
 *
 * The test times nothing: a call that waits for the other user waits for ever, and the
 * harness ends the test.
 */
#include "peerdma_test_gpu.h"
#include "peerdma_test_users.h"
#include "unanswered.h"

#define STUCK_USER	62001
#define OTHER_USER	62002
#define ROUNDS		200

static volatile uint32_t *reads;

/* ---- calls that stop ---- */

/*
 * A call stops where it reads the program's memory, reads the struct or writes the answer into it: from a byte of the struct
 * on, that lies in the page which is never answered, and before that in an ordinary page.
 */
enum { PLAIN_STRUCT = -1 };	/* the memory to pin is in that page */
static const struct {
	const char *what;
	unsigned long call;
	int from;
	size_t size;
	uint32_t flags;		/* of PIN */
} stuck[] = {
	{ "pinned", PEERDMA_PIN, PLAIN_STRUCT, 0, PEERDMA_PIN_HOST },
	{ "pinned, and every provider is asked", PEERDMA_PIN, PLAIN_STRUCT, 0, 0 },
	{ "pinned read-only", PEERDMA_PIN, PLAIN_STRUCT, 0, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY },
	/* The pin exists when its handle is written. */
	{ "the handle", PEERDMA_PIN, offsetof(struct peerdma_pin_args, handle), sizeof(struct peerdma_pin_args), PEERDMA_PIN_HOST },
	{ "all of the struct", PEERDMA_PIN, 0, sizeof(struct peerdma_pin_args), 0 },
	{ "half of the struct", PEERDMA_PIN, offsetof(struct peerdma_pin_args, length), sizeof(struct peerdma_pin_args), 0 },
	{ "PEERDMA_QUERY's answer", PEERDMA_QUERY, sizeof(struct peerdma_query_args) - 8, sizeof(struct peerdma_query_args), 0 },
	{ "a dma-buf", PEERDMA_EXPORT, offsetof(struct peerdma_export_args, fd), sizeof(struct peerdma_export_args), 0 },
	{ "the handle of a dma-buf's pin", PEERDMA_PIN_DMABUF_FD, offsetof(struct peerdma_pin_dmabuf_args, handle),
	  sizeof(struct peerdma_pin_dmabuf_args), 0 },
	{ "PEERDMA_INFO's answer", PEERDMA_INFO, sizeof(struct peerdma_info) - 8, sizeof(struct peerdma_info), 0 },
	{ "an unpin's handle", PEERDMA_UNPIN, offsetof(struct peerdma_handle_args, handle), sizeof(struct peerdma_handle_args), 0 },
};
#define NSTUCK CHECK_COUNT(stuck)

union args {
	uint32_t size;		/* the first field of each */
	struct peerdma_pin_args pin;
	struct peerdma_query_args query;
	struct peerdma_export_args export;
	struct peerdma_pin_dmabuf_args dmabuf;
	struct peerdma_info info;
	struct peerdma_handle_args handle;
};

static void fill_in(union args *args, unsigned long call, uint32_t flags, int fd)
{
	struct peerdma_pin_args a;

	if (call == PEERDMA_PIN) {
		args->pin.flags = flags;
		args->pin.addr = (uintptr_t)host_memory(PAGE);
		args->pin.length = PAGE;
		return;
	}
	if (call != PEERDMA_QUERY && call != PEERDMA_EXPORT && call != PEERDMA_PIN_DMABUF_FD)
		return;
	WORKS(pin(fd, host_memory(PAGE), PAGE, PEERDMA_PIN_HOST, &a));
	if (call == PEERDMA_QUERY)
		args->query.handle = a.handle;
	else if (call == PEERDMA_EXPORT)
		args->export.handle = a.handle;
	else
		CHECK((args->dmabuf.fd = export(fd, a.handle, 0, 0)) >= 0);
}

static void call_stuck(unsigned int i, struct unanswered *u, int fd)
{
	union args args = { .size = (uint32_t)stuck[i].size };
	struct peerdma_pin_args a;
	char *before;

	if (stuck[i].from == PLAIN_STRUCT) {
		pin(fd, u->memory, PAGE, stuck[i].flags, &a);
		return;
	}
	before = mmap(u->memory - PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(before == u->memory - PAGE);
	fill_in(&args, stuck[i].call, stuck[i].flags, fd);
	memcpy(u->memory - stuck[i].from, &args, stuck[i].from);
	ioctl(fd, stuck[i].call, u->memory - stuck[i].from);
}

/* Comes back only if the call does. */
static int get_stuck(int peer, void *arg)
{
	unsigned int i = *(unsigned int *)arg;
	struct unanswered u;
	int fd, err;

	become(STUCK_USER, 0);
	fd = dev_open();
	err = unanswered_begin(&u, PAGE, reads);
	CHECK(!err, "no page that is never answered: %s", strerror(-err));
	/* The parent kills this server at the end. */
	CHECK(write(peer, &u.server, sizeof(u.server)) == sizeof(u.server));
	if (!err)
		call_stuck(i, &u, fd);
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
	return 0;
}

/* ---- both ---- */

static struct process attackers[NSTUCK];
static pid_t servers[NSTUCK];

static const char *provider;

static void all_get_stuck(void)
{
	uint32_t before = *reads;

	for (unsigned int i = 0; i < NSTUCK; i++) {
		attackers[i] = begin(get_stuck, &i);
		CHECK(read(attackers[i].peer, &servers[i], sizeof(servers[i])) == sizeof(servers[i]));
		CHECK(UNTIL(*reads != before), "%s: no page is asked for", stuck[i].what);
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
		CHECK(is_alive(&attackers[i]));

	/* On 6.1 a killed process may still wait for its page; it does so alone. */
	for (unsigned int i = 0; i < NSTUCK; i++)
		kill(attackers[i].pid, SIGKILL);
	worker = begin(work, (void *)provider);
	CHECK(finish(&worker) == 0);
	all_end();
	CHECK(nothing_left(OTHER_USER));
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	reads = unanswered_counter();
	provider = argc > 1 ? argv[1] : NULL;
	run("calls that are never answered hold up their user alone", others_go_on);
	return check_end("memory that is not answered");
}
