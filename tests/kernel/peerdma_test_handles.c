// SPDX-License-Identifier: MIT
/*
 * peerdma_test_handles.c - a handle belongs to one open file: it does not depend on what
 * other files do, and what is made from it is not mistaken for what another file made from
 * the same number.
 */
#include "importer.h"
#include "peerdma_test_gpu.h"
#include "peerdma_test_users.h"

/* ---- what one user sees of another ---- */

/* Does what each byte asks for: 1 pins, 0 ends the last pin. */
static int pins_when_asked(int peer, void *arg)
{
	char *memory = host_memory(PAGE), what;
	struct peerdma_pin_args a[64];
	unsigned int n = 0;
	int fd = dev_open();

	become(*(uid_t *)arg, 0);
	while (read(peer, &what, 1) == 1) {
		if (what && n < 64)
			WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a[n++]));
		else if (!what && n)
			WORKS(unpin(fd, a[--n].handle));
		say(peer);
	}
	return 0;
}

/* Returns when the other process has done it. */
static void ask(int peer, char what)
{
	CHECK(write(peer, &what, 1) == 1 && hear(peer));
}

/* Linux shows it to all users. */
static long module_references(void)
{
	long references = file_number("/sys/module/peerdma/refcnt");

	CHECK(references >= 0);
	return references;
}

/* For each of 64 bits the other user pins, or not, between two pins of this user. */
static int watch_another(void *arg)
{
	const uint64_t bits = 0x9e3779b97f4a7c15;
	const struct process *other = arg;
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a, b;
	int fd = dev_open(), seen = 0, moved = 0, counted = 0;
	long references;

	become(61032, 0);
	for (int i = 0; i < 64; i++) {
		bool bit = bits >> i & 1;

		WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
		WORKS(unpin(fd, a.handle));
		if (bit)
			ask(other->peer, 1);
		WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &b));
		moved += a.handle != b.handle || a.slot != b.slot;
		seen += bit == (a.handle != b.handle || a.slot != b.slot);
		references = module_references();
		if (bit)
			ask(other->peer, 0);
		counted += module_references() != references;
		WORKS(unpin(fd, b.handle));
	}
	if (moved)
		printf("  %d of 64 bits of another user are seen\n", seen);
	CHECK(!moved && !counted);
	return 0;
}

static void no_channel(void)
{
	uid_t uid = 61031;
	struct process p = begin(pins_when_asked, &uid);

	CHECK(check_in_child(watch_another, &p) == 0);
	CHECK(finish(&p) == 0);
}

/* ---- the same calls have the same results, whatever others do ---- */

#define STEPS	2000
#define HELD	40

/* What a call returned. */
struct answer {
	int error;
	uint32_t handle, slot, generation, state;
};

/* One random call on the file. */
static struct answer step(int fd, int dmabuf, char *memory, uint32_t *held, unsigned int *n)
{
	struct peerdma_pin_dmabuf_args d = { .size = sizeof(d), .fd = dmabuf };
	struct answer answer = { 0 };
	struct peerdma_query_args q = { 0 };
	struct peerdma_pin_args a = { 0 };
	unsigned int i = r(HELD), kind = r(5);
	uint32_t handle;
	void *seen;

	if (kind < 2 && *n == HELD)
		kind = 2;
	switch (kind) {
	case 0:
		answer.error = pin(fd, memory + r(4) * PAGE, PAGE, PEERDMA_PIN_HOST, &a) ? errno : 0;
		answer = (struct answer){ answer.error, a.handle, a.slot, a.generation, 0 };
		held[(*n)++] = a.handle;
		break;
	case 1:
		answer.error = ioctl(fd, PEERDMA_PIN_DMABUF_FD, &d) ? errno : 0;
		answer = (struct answer){ answer.error, d.handle, d.slot, d.generation, 0 };
		held[(*n)++] = d.handle;
		break;
	case 2:
		if (!*n)
			break;
		i %= *n;
		answer.handle = held[i];
		answer.error = unpin(fd, held[i]) ? errno : 0;
		held[i] = held[--*n];
		break;
	case 3:
		handle = r(3 * HELD);
		answer.error = query(fd, handle, &q) ? errno : 0;
		answer.state = q.state;
		break;
	case 4:
		seen = view(fd, 1 + r(3 * HELD), PAGE, PROT_READ);
		answer.error = seen == MAP_FAILED ? errno : 0;
		if (seen != MAP_FAILED)
			munmap(seen, PAGE);
		break;
	}
	return answer;
}

/* The same calls each time, on a file that is opened anew. peer: another user pins and unpins between them; -1: none. */
static void all_steps(struct answer *answers, int peer)
{
	char *memory = host_memory(4 * PAGE);
	int source = dev_open(), fd = dev_open(), dmabuf;
	uint32_t held[HELD];
	unsigned int n = 0;
	struct peerdma_pin_args a;

	WORKS(pin(source, memory, PAGE, PEERDMA_PIN_HOST, &a));
	dmabuf = export(source, a.handle, 0, 0);
	random_state = 0x2545f4914f6cdd1d;
	for (int i = 0; i < STEPS; i++) {
		if (peer >= 0)
			ask(peer, i * 7 % 5 < 3);
		answers[i] = step(fd, dmabuf, memory, held, &n);
	}
	close(dmabuf);
	close(fd);
	close(source);
	munmap(memory, 4 * PAGE);
}

static void same_results(void)
{
	static struct answer alone[STEPS], beside[STEPS];
	struct process p;
	uid_t uid = 61033;
	int differ = 0;

	all_steps(alone, -1);
	p = begin(pins_when_asked, &uid);
	all_steps(beside, p.peer);
	CHECK(finish(&p) == 0);
	for (int i = 0; i < STEPS; i++)
		differ += memcmp(&alone[i], &beside[i], sizeof(alone[i])) != 0;
	if (differ)
		printf("  %d of %d calls return something else\n", differ, STEPS);
	CHECK(!differ);
}

/* ---- one number, two files ---- */

/* A pin of memory that is this number throughout, its view and a view of its dma-buf. */
struct one {
	int fd, dmabuf;
	char *memory;
	struct peerdma_pin_args pin;
	volatile char *view, *of_dmabuf;
};

static void make_views(struct one *one, char value)
{
	one->dmabuf = export(one->fd, one->pin.handle, 0, 0);
	CHECK(one->dmabuf >= 0);
	one->view = view(one->fd, one->pin.handle, 2 * GPU_PAGE, PROT_READ | PROT_WRITE);
	one->of_dmabuf = mmap(NULL, 2 * GPU_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, one->dmabuf, 0);
	CHECK(one->view != MAP_FAILED && one->of_dmabuf != MAP_FAILED);
	one->view[0] = value;
	one->view[2 * GPU_PAGE - 1] = value;
}

static bool shows(const struct one *one, char value)
{
	return one->view[0] == value && one->view[2 * GPU_PAGE - 1] == value && one->of_dmabuf[0] == value;
}

static bool shows_nothing(const struct one *one)
{
	return signal_of_read(one->view) == SIGBUS && signal_of_read(one->of_dmabuf) == SIGBUS;
}

static void drop_views(struct one *one)
{
	munmap((void *)one->view, 2 * GPU_PAGE);
	munmap((void *)one->of_dmabuf, 2 * GPU_PAGE);
	close(one->dmabuf);
}

static struct one of_host(char value)
{
	struct one one = { .fd = dev_open(), .memory = host_memory(2 * GPU_PAGE) };

	WORKS(pin(one.fd, one.memory, 2 * GPU_PAGE, PEERDMA_PIN_HOST, &one.pin));
	make_views(&one, value);
	return one;
}

static void forget(struct one *one)
{
	drop_views(one);
	close(one->fd);
	munmap(one->memory, 2 * GPU_PAGE);
}

static void equal_handles(void)
{
	struct one a = of_host(1), b = of_host(2);
	struct peerdma_query_args q;
	struct peerdma_pin_args more;

	CHECK(a.pin.handle == b.pin.handle && a.pin.slot == b.pin.slot);
	WORKS(query(a.fd, a.pin.handle, &q));
	CHECK(q.addr == (uintptr_t)a.memory);
	WORKS(query(b.fd, b.pin.handle, &q));
	CHECK(q.addr == (uintptr_t)b.memory);
	CHECK(shows(&a, 1) && shows(&b, 2) && a.memory[0] == 1 && b.memory[0] == 2);
	/* The end of one is the end of its own views only. */
	WORKS(unpin(a.fd, a.pin.handle));
	CHECK(shows_nothing(&a) && shows(&b, 2));
	FAILS(ENOENT, query(a.fd, a.pin.handle, &q));
	WORKS(query(b.fd, b.pin.handle, &q));
	CHECK(q.state == PEERDMA_STATE_LIVE && q.cpu_views == 2 && q.exports == 1);
	/* A handle that only the other file has. */
	WORKS(pin(b.fd, b.memory, PAGE, PEERDMA_PIN_HOST, &more));
	FAILS(ENOENT, query(a.fd, more.handle, &q));
	FAILS(ENOENT, unpin(a.fd, more.handle));
	FAILS(ENOENT, export(a.fd, more.handle, 0, 0));
	CHECK(view(a.fd, more.handle, PAGE, PROT_READ) == MAP_FAILED && errno == ENOENT);
	forget(&a);
	CHECK(shows(&b, 2));
	forget(&b);
}

/* The next pin of that handle: views of the one before stay dead, when either ends. */
static void handle_again(void)
{
	struct one old = of_host(3), new = old;

	WORKS(unpin(old.fd, old.pin.handle));
	CHECK(shows_nothing(&old));
	WORKS(pin(new.fd, new.memory, 2 * GPU_PAGE, PEERDMA_PIN_HOST, &new.pin));
	CHECK(new.pin.handle == old.pin.handle && new.pin.generation > old.pin.generation);
	make_views(&new, 4);
	CHECK(shows_nothing(&old) && shows(&new, 4));
	drop_views(&old);
	CHECK(shows(&new, 4));
	WORKS(unpin(new.fd, new.pin.handle));
	CHECK(shows_nothing(&new));
	forget(&new);
}

/* An importer keeps a pin whose file is closed; the next file has a pin of the same handle. */
static void kept(void)
{
	struct one old = of_host(5), new;
	struct importer_map map;
	int im = importer_up(old.dmabuf, IMPORTER_STATIC, &map), other;

	FAILS(EBUSY, unpin(old.fd, old.pin.handle));
	forget(&old);
	other = dev_open();
	CHECK(live_pins(other) == 1);
	new = of_host(6);
	CHECK(new.pin.handle == old.pin.handle && debugfs_pins(new.pin.handle) == 2);
	close(im);
	CHECK(live_pins(other) == 1 && debugfs_pins(new.pin.handle) == 1 && shows(&new, 6));
	forget(&new);
	CHECK(live_pins(other) == 0);
	close(other);
}

/* ---- processes ---- */

/* Pins, too, through a file of another user's. */
static int pin_through_it(int peer, void *arg)
{
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a;
	struct peerdma_query_args q;
	int fd, own = dev_open();

	become(*(uid_t *)arg, 0);
	fd = receive(peer);
	WORKS(pin(own, memory, PAGE, PEERDMA_PIN_HOST, &a));
	CHECK(a.handle == 1);
	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	CHECK(a.handle == 2);
	WORKS(query(fd, 1, &q));
	WORKS(unpin(own, 1));
	WORKS(query(fd, 1, &q));
	say(peer);
	hear(peer);
	FAILS(ENOENT, query(fd, 1, &q));
	return 0;
}

static void passed(void)
{
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a;
	uid_t uid = 61034;
	struct process p = begin(pin_through_it, &uid);
	int fd = dev_open();

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	CHECK(a.handle == 1);
	pass(p.peer, fd);
	CHECK(hear(p.peer));
	WORKS(unpin(fd, 1));
	WORKS(unpin(fd, 2));
	say(p.peer);
	CHECK(finish(&p) == 0);
	close(fd);
	munmap(memory, PAGE);
}

static int become_unpinner(void *arg)
{
	int fd = *(int *)arg;
	char text[16];

	snprintf(text, sizeof(text), "%d", fd);
	fcntl(fd, F_SETFD, 0);
	execl("/proc/self/exe", "peerdma_uapi_test", "--unpin", text, "1", (char *)NULL);
	return 1;
}

/* fork() and exec() leave the file's handles as they are. */
static void after_exec(void)
{
	char *memory = host_memory(PAGE);
	struct peerdma_query_args q;
	struct peerdma_pin_args a;
	int fd = dev_open();

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	CHECK(a.handle == 1);
	CHECK(check_in_child(become_unpinner, &fd) == 0);
	FAILS(ENOENT, query(fd, 1, &q));
	close(fd);
	munmap(memory, PAGE);
}

/* ---- many ---- */

static bool *taken_by;

/* Each has a handle of its own, by which it is found. */
static void check_many(int fd, uint32_t *handles, char *memory, uint32_t n)
{
	struct peerdma_query_args q;
	uint32_t wrong = 0;

	memset(taken_by, 0, n + 1);
	for (uint32_t i = 0; i < n; i++) {
		if (!handles[i] || handles[i] > n || taken_by[handles[i]]) {
			wrong++;
			continue;
		}
		taken_by[handles[i]] = true;
		wrong += query(fd, handles[i], &q) || q.addr != (uintptr_t)memory + i % PAGE || q.length != 1 + i / PAGE;
	}
	CHECK(!wrong);
}

static void many(void)
{
	/* A debug kernel takes minutes for 65536. */
	uint32_t n = patience() > 1 ? 8192 : 65536;
	uint32_t *handles = calloc(n, sizeof(*handles));
	char *memory = host_memory(2 * PAGE);
	struct peerdma_pin_args a;
	int fd = dev_open(), other;

	taken_by = calloc(n + 1, 1);
	for (uint32_t i = 0; i < n; i++) {
		WORKS(pin(fd, memory + i % PAGE, 1 + i / PAGE, PEERDMA_PIN_HOST, &a));
		handles[i] = a.handle;
	}
	check_many(fd, handles, memory, n);
	other = dev_open();
	WORKS(pin(other, memory, PAGE, PEERDMA_PIN_HOST, &a));
	CHECK(a.handle == 1);
	close(other);
	/* Those that are unpinned are the next ones', and no others are. */
	for (uint32_t i = 0; i < n; i += 3)
		WORKS(unpin(fd, handles[i]));
	for (uint32_t i = 0; i < n; i += 3) {
		WORKS(pin(fd, memory + i % PAGE, 1 + i / PAGE, PEERDMA_PIN_HOST, &a));
		handles[i] = a.handle;
	}
	check_many(fd, handles, memory, n);
	close(fd);
	free(taken_by);
	free(handles);
	munmap(memory, 2 * PAGE);
}

/* ---- a GPU's ---- */

static struct one of_gpu(uint64_t va, char value)
{
	struct one one = { .fd = dev_open() };

	WORKS(gpu_pin(one.fd, va, 2 * GPU_PAGE, 0, &one.pin));
	make_views(&one, value);
	return one;
}

/* The memory of one is freed. */
static void equal_handles_freed(void)
{
	uint64_t va[2] = { gpu_alloc(2 * GPU_PAGE), gpu_alloc(2 * GPU_PAGE) };
	struct one a = of_gpu(va[0], 7), b = of_gpu(va[1], 8);
	struct peerdma_event event;
	struct peerdma_query_args q;

	CHECK(a.pin.handle == b.pin.handle && shows(&a, 7) && shows(&b, 8));
	CHECK(!cu.MemFree(va[0]));
	CHECK(shows_nothing(&a) && shows(&b, 8));
	CHECK(read(a.fd, &event, sizeof(event)) == sizeof(event) && event.handle == a.pin.handle && event.slot == a.pin.slot);
	FAILS(EAGAIN, (int)read(b.fd, &event, sizeof(event)));
	WORKS(query(a.fd, a.pin.handle, &q));
	CHECK(q.state == PEERDMA_STATE_REVOKED);
	WORKS(query(b.fd, b.pin.handle, &q));
	CHECK(q.state == PEERDMA_STATE_LIVE);
	drop_views(&a);
	close(a.fd);
	CHECK(shows(&b, 8));
	CHECK(!cu.MemFree(va[1]));
	CHECK(shows_nothing(&b));
	drop_views(&b);
	close(b.fd);
}

void test_handles(bool gpu)
{
	if (gpu) {
		if (gpu_facts->has_view && gpu_facts->pins == ENDED_BY_FREE)
			run("equal handles of two files: the memory of one is freed", equal_handles_freed);
		return;
	}
	run("a user does not see another's pins", no_channel);
	run("calls return the same, whatever others do", same_results);
	run("equal handles of two files", equal_handles);
	run("a handle that is used again", handle_again);
	if (access("/dev/peerdma_importer", F_OK))
		skip("a handle of a pin that is kept", "peerdma_importer.ko is not loaded");
	else
		run("a handle of a pin that is kept", kept);
	run("handles of a file from a socket", passed);
	run("handles after exec", after_exec);
	run("a handle for each of 65536 pins", many);
}
