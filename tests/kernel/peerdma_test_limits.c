// SPDX-License-Identifier: MIT
/*
 * peerdma_test_limits.c - what a user may take of pins, mappings, views, dma-bufs and a
 * GPU's aperture: no more than the limit, and no other user runs short of it.
 */
#include <linux/capability.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "peerdma_client.h"
#include "peerdma_test_card.h"
#include "peerdma_test_gpu.h"
#include "peerdma_test_users.h"

/* ---- pins ---- */

static int pin_dmabuf(int fd, int dmabuf, uint32_t *handle)
{
	struct peerdma_pin_dmabuf_args a = { .size = sizeof(a), .fd = dmabuf };
	int ret = ioctl(fd, PEERDMA_PIN_DMABUF_FD, &a);

	*handle = a.handle;
	return ret;
}

/* A debug kernel takes minutes for 65536. */
static unsigned int most = 65536;

static int one_more(void *arg)
{
	struct peerdma_pin_args a;

	FAILS(EDQUOT, pin(dev_open(), arg, PAGE, PEERDMA_PIN_HOST, &a));
	return 0;
}

/* As many as a user may have, of a page that is locked once. */
static int take_all(int peer, void *arg)
{
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a;
	uint32_t handle = 0, last = 0;
	int fd = dev_open(), dmabuf;
	unsigned int n = 1;

	become(*(uid_t *)arg, 0);
	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	dmabuf = export(fd, a.handle, 0, 0);
	CHECK(info(fd).user_pins == 1 && info(fd).user_exports == 1 && info(fd).max_user_pins == most);
	for (; n <= most && !pin_dmabuf(fd, dmabuf, &handle); n++)
		last = handle;
	CHECK(errno == EDQUOT && n == most && info(fd).user_pins == n);
	FAILS(EDQUOT, pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	CHECK(check_in_child(one_more, memory) == 0);
	WORKS(unpin(fd, last));
	WORKS(pin_dmabuf(fd, dmabuf, &handle));
	FAILS(EDQUOT, pin_dmabuf(fd, dmabuf, &handle));
	CHECK(info(fd).user_pins == most);
	say(peer);
	hear(peer);
	return 0;
}

static int pin_a_hundred(void *arg)
{
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a;
	int fd = dev_open();

	become(*(uid_t *)arg, 0);
	for (int i = 0; i < 100; i++)
		WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	CHECK(info(fd).user_pins == 100);
	return 0;
}

static void pins_of_all(void)
{
	uid_t taker = 61001, other = 61002;
	struct process p = begin(take_all, &taker);

	CHECK(hear(p.peer));
	/* The page, and generations but for the first page of them: peerdma_test_locked.c. */
	CHECK(taken(taker, "pins") == most);
	CHECK(taken(taker, "locked") == (long long)(PAGE + (most * sizeof(uint32_t) / PAGE - 1) * 12 * PAGE));
	CHECK(check_in_child(pin_a_hundred, &other) == 0);
	CHECK(!kill(p.pid, SIGKILL) && finish(&p) == -SIGKILL);
	CHECK(nothing_left(taker) && nothing_left(other));
}

/* Root is charged and not limited. */
static void root_is_exempt(void)
{
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a;
	int fd = dev_open();

	for (int i = 0; i < 4; i++)
		WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	CHECK(taken(0, "pins") == 4 && info(fd).user_pins == 4 && info(fd).max_user_pins == 2);
	close(fd);
	CHECK(nothing_left(0));
	munmap(memory, PAGE);
}

/* ---- the last handles are root's ---- */

#define NO_MORE_THAN 4096

/* Those that are kept for the next ones are any user's. */
static int take_what_there_is(int peer, void *arg)
{
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a;
	int fd = dev_open(), n = 0;

	may_lock(2 * NO_MORE_THAN * PAGE);
	become(*(uid_t *)arg, 0);
	while (n < NO_MORE_THAN && !pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a))
		n++;
	CHECK(n < NO_MORE_THAN && errno == ENFILE);
	say(peer);
	hear(peer);
	FAILS(ENFILE, pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	say(peer);
	hear(peer);
	return 0;
}

static void reserve(void)
{
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a;
	uid_t uid = 61021;
	struct process p = begin(take_what_there_is, &uid);
	/* Not the other process's, too: it is closed here. */
	int fd = dev_open();

	CHECK(hear(p.peer));
	for (int i = 0; i < 100; i++)
		WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	close(fd);
	/* It goes back into the reserve. */
	say(p.peer);
	CHECK(hear(p.peer));
	CHECK(finish(&p) == 0);
	CHECK(nothing_left(uid) && nothing_left(0));
	munmap(memory, PAGE);
}

/* ---- what is told of others ---- */

static int pin_five(int peer, void *arg)
{
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a;
	int fd = dev_open();

	become(*(uid_t *)arg, 0);
	CHECK(!info(fd).pins && !info(fd).revocations);
	for (int i = 0; i < 5; i++)
		WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	CHECK(info(fd).pins == 5);
	say(peer);
	hear(peer);
	return 0;
}

static int sees_nothing(void *arg)
{
	int fd = dev_open();

	become(*(uid_t *)arg, 0);
	CHECK(!info(fd).pins && !info(fd).revocations);
	return 0;
}

static void own_figures(void)
{
	uid_t uid = 61022, other = 61023;
	struct process p = begin(pin_five, &uid);
	int fd = dev_open();

	CHECK(hear(p.peer));
	CHECK(check_in_child(sees_nothing, &other) == 0);
	CHECK(info(fd).pins == 5 && !info(fd).user_pins);
	CHECK(finish(&p) == 0);
	close(fd);
}

struct watcher {
	uid_t uid;
	uint64_t va;		/* 0: pins nothing */
	uint64_t before, after;	/* revocations it is told of */
};

/* Two turns: before the memory goes and after. */
static pthread_barrier_t turn;

static void *watch(void *arg)
{
	struct watcher *w = arg;
	struct peerdma_pin_args a;
	int fd = dev_open();

	CHECK(!syscall(SYS_setresuid, w->uid, w->uid, w->uid));
	w->before = info(fd).revocations;
	if (w->va)
		WORKS(gpu_pin(fd, w->va, GPU_PAGE, 0, &a));
	CHECK(info(fd).pins == !!w->va);
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	w->after = info(fd).revocations;
	close(fd);
	return NULL;
}

static void own_revocations(void)
{
	struct watcher w[] = { { .uid = 61024, .va = gpu_alloc(GPU_PAGE) }, { .uid = 61025 } };
	pthread_t threads[2];
	int fd = dev_open();
	uint64_t before = info(fd).revocations;

	pthread_barrier_init(&turn, NULL, 3);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, watch, &w[i]));
	pthread_barrier_wait(&turn);
	CHECK(!cu.MemFree(w[0].va));
	pthread_barrier_wait(&turn);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CHECK(info(fd).revocations == before + 1);
	CHECK(w[0].after == w[0].before + 1 && !w[1].before && !w[1].after);
	close(fd);
	prctl(PR_SET_DUMPABLE, 1);	/* as it was before a thread changed its user */
}

/* ---- mappings, views, dma-bufs: three of each ---- */

static uint32_t mappings(int fd, uint32_t handle)
{
	struct peerdma_query_args q;

	WORKS(query(fd, handle, &q));
	return q.mappings;
}

static void map_three(void)
{
	struct peerdma_segment segs[4];
	struct peerdma_pin_args a;
	uint32_t m[3], more, count;
	int fd = dev_open();

	WORKS(pin(fd, host_memory(PAGE), PAGE, PEERDMA_PIN_HOST, &a));
	for (int i = 0; i < 3; i++)
		WORKS(card_map(fd, a.handle, BOTH, segs, (count = 4, &count), &m[i]));
	FAILS(EDQUOT, card_map(fd, a.handle, BOTH, segs, (count = 4, &count), &more));
	CHECK(mappings(fd, a.handle) == 3 && info(fd).user_mappings == 3 && info(fd).max_user_mappings == 3);
	WORKS(unmap(fd, m[1]));
	CHECK(info(fd).user_mappings == 2);
	WORKS(card_map(fd, a.handle, BOTH, segs, (count = 4, &count), &m[1]));
	FAILS(EDQUOT, card_map(fd, a.handle, BOTH, segs, (count = 4, &count), &more));
	WORKS(unpin(fd, a.handle));
	CHECK(!info(fd).user_mappings && !info(fd).user_pins);
	/* Those of a process that dies are taken down with it. */
	WORKS(pin(fd, host_memory(PAGE), PAGE, PEERDMA_PIN_HOST, &a));
	WORKS(card_map(fd, a.handle, BOTH, segs, (count = 4, &count), &more));
}

static void three_mappings(void)
{
	if (card_open())
		as_user(61010, 1U << CAP_SYS_RAWIO, map_three);
	else
		skip("as many mappings as one may have", "no DMA card (PCI 1234:11e8)");
}

static int refused_view(int fd, uint32_t handle)
{
	return view(fd, handle, PAGE, PROT_READ) == MAP_FAILED ? -1 : 0;
}

static void view_three(void)
{
	struct peerdma_pin_args a;
	int fd = dev_open(), dmabuf;
	char *v[3];

	WORKS(pin(fd, host_memory(4 * PAGE), 4 * PAGE, PEERDMA_PIN_HOST, &a));
	for (int i = 0; i < 3; i++) {
		v[i] = view(fd, a.handle, 4 * PAGE, PROT_READ);
		CHECK(v[i] != MAP_FAILED && v[i][PAGE] == 1);
	}
	FAILS(EDQUOT, refused_view(fd, a.handle));
	dmabuf = export(fd, a.handle, 0, 0);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, dmabuf, 0) == MAP_FAILED && errno == EDQUOT);
	CHECK(info(fd).user_views == 3 && info(fd).max_user_views == 3 && info(fd).user_exports == 1);
	/* One in two pieces is one still. */
	munmap(v[1] + PAGE, PAGE);
	FAILS(EDQUOT, refused_view(fd, a.handle));
	munmap(v[1], PAGE);
	munmap(v[1] + 2 * PAGE, 2 * PAGE);
	CHECK(info(fd).user_views == 2);
	v[1] = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, dmabuf, 0);
	CHECK(v[1] != MAP_FAILED && v[1][PAGE] == 1);
	FAILS(EDQUOT, refused_view(fd, a.handle));
	for (int i = 0; i < 3; i++)
		munmap(v[i], 4 * PAGE);
	CHECK(!info(fd).user_views);
	CHECK(view(fd, a.handle, PAGE, PROT_READ) != MAP_FAILED);
}

struct foreign {
	uid_t uid;
	uint32_t handle;
};

/* Of a pin that is another user's. */
static int use_foreign(int peer, void *arg)
{
	const struct foreign *f = arg;
	int fd;

	become(f->uid, 0);
	fd = receive(peer);
	for (int i = 0; i < 3; i++)
		CHECK(view(fd, f->handle, PAGE, PROT_READ) != MAP_FAILED);
	FAILS(EDQUOT, refused_view(fd, f->handle));
	CHECK(export(fd, f->handle, 0, 0) >= 0);
	say(peer);
	hear(peer);
	return 0;
}

static void three_views(void)
{
	struct foreign f = { .uid = 61015 };
	struct peerdma_pin_args a;
	char *memory = host_memory(PAGE);
	int fd = dev_open();
	struct process p;

	as_user(61011, 0, view_three);
	/* The user who makes them pays, whose pin it may be. */
	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	f.handle = a.handle;
	p = begin(use_foreign, &f);
	pass(p.peer, fd);
	CHECK(hear(p.peer));
	CHECK(taken(f.uid, "views") == 3 && taken(f.uid, "exports") == 1 && !taken(f.uid, "pins"));
	CHECK(!taken(0, "views") && !taken(0, "exports") && taken(0, "pins") == 1);
	CHECK(finish(&p) == 0);
	CHECK(nothing_left(f.uid));
	close(fd);
	munmap(memory, PAGE);
}

/* ---- a user does not wait for another's views ---- */

/* Its unpin hangs, in the middle of unmapping its views, until it is told. */
static int hangs(int peer, void *arg)
{
	int fd = dev_open(), client = open("/dev/peerdma_client", O_RDWR | O_CLOEXEC);
	struct client_pin held = { .length = PAGE };
	struct peerdma_pin_args a;
	struct unpinner u;
	char *seen;

	become(*(uid_t *)arg, 0);
	WORKS(pin(fd, host_memory(PAGE), PAGE, PEERDMA_PIN_HOST, &a));
	seen = view(fd, a.handle, PAGE, PROT_READ | PROT_WRITE);
	CHECK(seen != MAP_FAILED);
	seen[0] = 1;
	held.addr = (uintptr_t)seen;
	WORKS(ioctl(client, CLIENT_HOLD, &held));
	unpin_begin(&u, fd, a.handle);
	WORKS(ioctl(client, CLIENT_HOLDS));
	say(peer);
	hear(peer);
	WORKS(ioctl(client, CLIENT_LET_GO));
	CHECK(!unpin_end(&u));
	close(client);
	return 0;
}

static int sees_its_own(int peer, void *arg)
{
	char *memory = host_memory(PAGE), *seen;
	struct peerdma_pin_args a;
	int fd = dev_open();

	become(*(uid_t *)arg, 0);
	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	seen = view(fd, a.handle, PAGE, PROT_READ | PROT_WRITE);
	CHECK(seen != MAP_FAILED);
	seen[0] = 7;
	CHECK(memory[0] == 7);
	WORKS(unpin(fd, a.handle));
	munmap(seen, PAGE);
	say(peer);
	return 0;
}

static void others_views(void)
{
	uid_t uid = 61016, other = 61017;
	struct process p = begin(hangs, &uid), q;
	struct pollfd answer = { .events = POLLIN };

	CHECK(hear(p.peer));
	q = begin(sees_its_own, &other);
	answer.fd = q.peer;
	CHECK(poll(&answer, 1, 10000) == 1);
	say(p.peer);
	CHECK(finish(&p) == 0 && finish(&q) == 0);
	CHECK(nothing_left(uid) && nothing_left(other));
}

/* ---- a killed process does not wait for a revocation ---- */

static int unpins_when_told(int peer, void *arg)
{
	const struct unpinner *u = arg;

	hear(peer);
	say(peer);
	unpin(u->fd, u->handle);
	return 0;
}

static void free_it(void *va)
{
	CHECK(!cu.MemFree(*(uint64_t *)va));
}

/* The file is open here, too: its pins do not end with the killed process. */
static void killed_in_unpin(void)
{
	int fd = dev_open(), client = open("/dev/peerdma_client", O_RDWR | O_CLOEXEC);
	uint64_t va = gpu_alloc(1 << 20);
	struct peerdma_pin_args a;
	struct client_pin held = { .length = PAGE };
	struct unpinner u;
	struct process p;
	struct task task;
	char *seen;

	WORKS(gpu_pin(fd, va, 1 << 20, 0, &a));
	u = (struct unpinner){ .fd = fd, .handle = a.handle };
	p = begin(unpins_when_told, &u);
	seen = view(fd, a.handle, PAGE, PROT_READ | PROT_WRITE);
	CHECK(seen != MAP_FAILED);
	seen[0] = 1;
	held.addr = (uintptr_t)seen;
	WORKS(ioctl(client, CLIENT_HOLD, &held));
	task_begin(&task, free_it, &va);
	WORKS(ioctl(client, CLIENT_HOLDS));
	say(p.peer);
	CHECK(hear(p.peer));
	usleep(200 * 1000);
	CHECK(is_alive(&p) && !kill(p.pid, SIGKILL));
	CHECK(finish_within(&p, 10) == -SIGKILL);
	WORKS(ioctl(client, CLIENT_LET_GO));
	task_end(&task);
	WORKS(unpin(fd, a.handle));
	munmap(seen, PAGE);
	close(client);
	close(fd);
}

static void export_three(void)
{
	struct peerdma_pin_args a;
	int fd = dev_open(), e[3];

	WORKS(pin(fd, host_memory(PAGE), PAGE, PEERDMA_PIN_HOST, &a));
	for (int i = 0; i < 3; i++)
		CHECK((e[i] = export(fd, a.handle, 0, 0)) >= 0);
	FAILS(EDQUOT, export(fd, a.handle, 0, 0));
	CHECK(info(fd).user_exports == 3 && info(fd).max_user_exports == 3);
	close(e[1]);
	CHECK(info(fd).user_exports == 2);
	CHECK((e[1] = export(fd, a.handle, 0, 0)) >= 0);
	FAILS(EDQUOT, export(fd, a.handle, 0, 0));
}

static void three_exports(void)
{
	as_user(61012, 0, export_three);
}

/* ---- generations ---- */

/* No more than a page of them: the next is not there while no pin has a slot in it. */
#define WATCHED 1024

static int pin_beside(int peer, void *arg)
{
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a;
	uint32_t handles[WATCHED];
	int fd = dev_open();
	const volatile uint32_t *own = generations(fd);

	become(61013, 0);
	for (int i = 0; i < WATCHED; i++) {
		WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
		CHECK(own[a.slot] == a.generation);
		handles[i] = a.handle;
		if (!i)
			CHECK(a.slot == *(uint32_t *)arg);
	}
	say(peer);
	hear(peer);
	for (int i = 0; i < WATCHED; i++)
		WORKS(unpin(fd, handles[i]));
	return 0;
}

/* A file's array is about its own pins, whatever others do. */
static void own_generations(void)
{
	/* The first page: there is no more of it than there are slots. */
	uint32_t before[1024];
	struct peerdma_pin_args a;
	char *memory = host_memory(PAGE);
	int fd = dev_open();
	const volatile uint32_t *own = generations(fd);
	struct process p;

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	memcpy(before, (const void *)own, sizeof(before));
	p = begin(pin_beside, &a.slot);
	CHECK(hear(p.peer));
	CHECK(!memcmp(before, (const void *)own, sizeof(before)));
	CHECK(finish(&p) == 0);
	CHECK(!memcmp(before, (const void *)own, sizeof(before)) && own[a.slot] == a.generation);
	munmap((void *)own, PEERDMA_MMAP_GENERATIONS_SIZE);
	close(fd);
	munmap(memory, PAGE);
}

/* ---- a GPU's aperture ---- */

#define TAKER 61014

/* A user id of this thread's alone: the memory is of this process. */
static void *pin_past_the_aperture(void *arg)
{
	uint64_t va = *(uint64_t *)arg;
	struct peerdma_pin_args a[2], more;
	int fd = dev_open();

	CHECK(!syscall(SYS_setresuid, TAKER, TAKER, TAKER));
	WORKS(gpu_pin(fd, va, 2 * MIB, 0, &a[0]));
	/* The same memory again takes room again. */
	WORKS(gpu_pin(fd, va, 2 * MIB, 0, &a[1]));
	FAILS(ENOBUFS, gpu_pin(fd, va, GPU_PAGE, 0, &more));
	CHECK(info(fd).user_aperture == 4 * MIB && info(fd).max_user_aperture == 4 * MIB && info(fd).user_pins == 2);
	WORKS(unpin(fd, a[0].handle));
	CHECK(info(fd).user_aperture == 2 * MIB);
	FAILS(ENOBUFS, gpu_pin(fd, va, 2 * MIB + 1, 0, &more));
	WORKS(gpu_pin(fd, va, 2 * MIB, 0, &a[0]));
	/* One that fails for another reason has taken nothing. */
	WORKS(unpin(fd, a[1].handle));
	CHECK(gpu_pin(fd, 0x1000, MIB, 0, &more) < 0 && errno != ENOBUFS);
	CHECK(info(fd).user_aperture == 2 * MIB);
	close(fd);
	return NULL;
}

static void aperture(void)
{
	uint64_t va = gpu_alloc(4 * MIB);
	struct peerdma_pin_args a;
	pthread_t thread;
	int fd = dev_open();

	CHECK(!pthread_create(&thread, NULL, pin_past_the_aperture, &va));
	pthread_join(thread, NULL);
	CHECK(nothing_left(TAKER));
	/* Root's is counted, too, until the memory goes away under it. */
	for (int i = 0; i < 2; i++)
		WORKS(gpu_pin(fd, va, 4 * MIB, 0, &a));
	CHECK(taken(0, "aperture") == 8 * MIB);
	CHECK(!cu.MemFree(va));
	CHECK(!taken(0, "aperture") && taken(0, "pins") == 2);
	close(fd);
	prctl(PR_SET_DUMPABLE, 1);	/* as it was before a thread changed its user */
}

/* Memory counts without a limit, too: PEERDMA_INFO and the table have it, and a later limit is for it as well. */
static int counted_fd;

static void *pin_without_limit(void *arg)
{
	struct peerdma_pin_args a;

	CHECK(!syscall(SYS_setresuid, TAKER, TAKER, TAKER));
	WORKS(gpu_pin(counted_fd, *(uint64_t *)arg, 4 * MIB, 0, &a));
	CHECK(info(counted_fd).user_aperture == 4 * MIB && !info(counted_fd).max_user_aperture);
	return NULL;
}

static void *pin_one_more(void *arg)
{
	struct peerdma_pin_args more;

	CHECK(!syscall(SYS_setresuid, TAKER, TAKER, TAKER));
	FAILS(ENOBUFS, gpu_pin(counted_fd, *(uint64_t *)arg, GPU_PAGE, 0, &more));
	return NULL;
}

static uint64_t counted_va;

static void aperture_limited_later(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, pin_one_more, &counted_va));
	pthread_join(thread, NULL);
}

static void aperture_counts_without_limit(void)
{
	pthread_t thread;

	counted_va = gpu_alloc(4 * MIB);
	counted_fd = dev_open();
	CHECK(!pthread_create(&thread, NULL, pin_without_limit, &counted_va));
	pthread_join(thread, NULL);
	CHECK(taken(TAKER, "aperture") == 4 * MIB);
	lowered("max_aperture_mib_per_user", "4", aperture_limited_later);
	close(counted_fd);
	CHECK(nothing_left(TAKER));
	CHECK(!cu.MemFree(counted_va));
	prctl(PR_SET_DUMPABLE, 1);
}

static void pins_of_all_lowered(void)
{
	char text[16];
	int fd = dev_open();

	CHECK(info(fd).max_user_pins == most);
	close(fd);
	if (patience() > 1)
		most /= 8;
	snprintf(text, sizeof(text), "%u", most);
	lowered("max_pins_per_user", text, pins_of_all);
}

/* Tests with a parameter of the module's at another value. */
static const struct {
	const char *name, *parameter, *value;
	void (*test)(void);
} with_limits[] = {
	{ "root is charged, not limited", "max_pins_per_user", "2", root_is_exempt },
	{ "the last handles are root's", "reserved_pins", "1048576", reserve },
	{ "as many mappings as one may have", "max_mappings_per_user", "3", three_mappings },
	{ "as many views as one may have", "max_views_per_user", "3", three_views },
	{ "as many dma-bufs as one may have", "max_exports_per_user", "3", three_exports },
};

static void aperture_lowered(void)
{
	lowered("max_aperture_mib_per_user", "4", aperture);
}

static unsigned int limit;

static void with_limit(void)
{
	lowered(with_limits[limit].parameter, with_limits[limit].value, with_limits[limit].test);
}

void test_limits(bool gpu)
{
	if (gpu) {
		if (gpu_facts->pins == ENDED_BY_FREE)
			run("a user is told of its own revocations", own_revocations);
		if (access("/dev/peerdma_client", F_OK))
			skip("a killed process does not wait for a revocation", "peerdma_client.ko is not loaded");
		else if (gpu_facts->has_view && gpu_facts->pins == ENDED_BY_FREE)
			run("a killed process does not wait for a revocation", killed_in_unpin);
		if (!gpu_facts->in_host) {
			run("as much of the aperture as one may have", aperture_lowered);
			run("the aperture is counted without a limit",
			    aperture_counts_without_limit);
		}
		return;
	}
	run("as many pins as one may have", pins_of_all_lowered);
	for (limit = 0; limit < CHECK_COUNT(with_limits); limit++)
		run(with_limits[limit].name, with_limit);
	run("a user is told of its own pins", own_figures);
	test_locked();
	test_namespaces();
	if (access("/dev/peerdma_client", F_OK))
		skip("a user does not wait for another's views", "peerdma_client.ko is not loaded");
	else
		run("a user does not wait for another's views", others_views);
	run("generations are each file's own", own_generations);
}
