// SPDX-License-Identifier: MIT
/* peerdma_test_gpu_processes.c - GPU pins over several processes and threads. */
#include <dlfcn.h>
#include <sched.h>

#include "peerdma_test_card.h"
#include "peerdma_test_gpu.h"

struct cuda cu;

static bool resolve(void *lib)
{
	const struct {
		void **function;
		const char *name;
	} names[] = {
		{ (void **)&cu.Init, "cuInit" },
		{ (void **)&cu.DeviceGet, "cuDeviceGet" },
		{ (void **)&cu.CtxCreate, "cuCtxCreate_v2" },
		{ (void **)&cu.CtxDestroy, "cuCtxDestroy_v2" },
		{ (void **)&cu.CtxSynchronize, "cuCtxSynchronize" },
		{ (void **)&cu.MemAlloc, "cuMemAlloc_v2" },
		{ (void **)&cu.MemFree, "cuMemFree_v2" },
		{ (void **)&cu.MemcpyHtoD, "cuMemcpyHtoD_v2" },
		{ (void **)&cu.MemcpyDtoH, "cuMemcpyDtoH_v2" },
		{ (void **)&cu.PointerGetAttribute, "cuPointerGetAttribute" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		*names[i].function = dlsym(lib, names[i].name);
		if (!*names[i].function)
			return false;
	}
	return true;
}

const char *nvidia_open(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *ctx;
	int dev;

	if (!lib)
		return "no libcuda.so.1";
	if (!resolve(lib))
		return "libcuda.so.1 lacks functions";
	return cu.Init(0) || cu.DeviceGet(&dev, 0) || cu.CtxCreate(&ctx, 0, dev) ? "CUDA finds no GPU" : NULL;
}

uint64_t gpu_alloc(size_t length)
{
	unsigned long long va = 0;

	CHECK(!cu.MemAlloc(&va, length));
	return va;
}

/* Runs gpu_child() in a process of its own; how that ended, and the handle that it said. */
static int child(const char *what, int fd, uint32_t *handle)
{
	char number[16], answer[16];
	int ends[2];
	pid_t pid;

	snprintf(number, sizeof(number), "%d", fd);
	CHECK(!pipe(ends));
	snprintf(answer, sizeof(answer), "%d", ends[1]);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		fcntl(fd, F_SETFD, 0);
		execl("/proc/self/exe", "peerdma_uapi_test", "--child", what, number, answer, (char *)NULL);
		_exit(98);
	}
	close(ends[1]);
	*handle = 0;
	CHECK(read(ends[0], handle, sizeof(*handle)) == sizeof(*handle) && *handle);
	close(ends[0]);
	return check_wait(pid, 600 * patience());
}

/* In a process of its own, with CUDA of its own and the parent's open file. */
int gpu_child(const char *what, int fd, int answer)
{
	struct peerdma_pin_args a;
	const char *why;
	uint64_t va;
	char *p;

	if (!memory_open(&why)) {
		printf("  child: %s\n", why);
		return 97;
	}
	va = gpu_alloc(2 * MIB);
	if (!strcmp(what, "persistent")) {
		WORKS(gpu_pin(fd, va, 2 * MIB, PEERDMA_PIN_PERSISTENT, &a));
		p = view(fd, a.handle, 2 * MIB, PROT_READ | PROT_WRITE);
		strcpy(p + 1000, "still here");
		CHECK(write(answer, &a.handle, sizeof(a.handle)) == sizeof(a.handle));
		return check_counts.failures != 0;
	}
	WORKS(gpu_pin(fd, va, 2 * MIB, 0, &a));
	if (gpu_facts->has_view) {
		p = view(fd, a.handle, 2 * MIB, PROT_READ | PROT_WRITE);
		p[0] = 1;
	}
	CHECK(write(answer, &a.handle, sizeof(a.handle)) == sizeof(a.handle));
	if (!strcmp(what, "kill"))
		raise(SIGKILL);
	return check_counts.failures != 0;
}

/* The owner of a pin's memory has gone, in one way or the other. */
static void check_orphan(int fd, uint32_t handle)
{
	struct peerdma_query_args q;
	struct peerdma_event event;

	gpu_settle();
	if (gpu_facts->pins == ENDED_BY_FREE)
		CHECK(read(fd, &event, sizeof(event)) == sizeof(event) && event.handle == handle);
	else
		FAILS(EAGAIN, read(fd, &event, sizeof(event)));
	WORKS(query(fd, handle, &q));
	CHECK(q.state == (gpu_facts->pins == ENDED_BY_FREE ? PEERDMA_STATE_REVOKED : PEERDMA_STATE_LIVE) && !q.cpu_views);
}

/* The pin's process is gone; another holds the file. */
static void owner_exits(void)
{
	int fd = dev_open();
	struct peerdma_query_args q;
	uint32_t handle;
	struct peerdma_event event;
	char *p;

	CHECK(child("exit", fd, &handle) == 0);
	check_orphan(fd, handle);
	WORKS(unpin(fd, handle));
	CHECK(child("kill", fd, &handle) == -SIGKILL);
	check_orphan(fd, handle);
	close(fd);

	/* A persistent pin is not impressed. */
	if (!gpu_facts->can_persist)
		return;
	fd = dev_open();
	CHECK(child("persistent", fd, &handle) == 0);
	FAILS(EAGAIN, read(fd, &event, sizeof(event)));
	WORKS(query(fd, handle, &q));
	CHECK(q.state == PEERDMA_STATE_LIVE);
	p = view(fd, handle, 2 * MIB, PROT_READ);
	CHECK(p != MAP_FAILED && !strcmp(p + 1000, "still here"));
	munmap(p, 2 * MIB);
	close(fd);
	check_none_left();
}

struct shared {
	int fd;
	uint32_t handle;
	uint64_t va;
	struct cu_tokens tokens;
};

static int unpin_foreign(void *arg)
{
	struct shared *s = arg;

	WORKS(unpin(s->fd, s->handle));
	return 0;
}

/* Unpinned by a child while its owner lives; then the owner frees. */
static void foreign_unpin(void)
{
	struct shared s = { .fd = dev_open(), .va = gpu_alloc(MIB) };
	struct peerdma_pin_args a;
	char *p;

	WORKS(gpu_pin(s.fd, s.va, MIB, 0, &a));
	s.handle = a.handle;
	p = gpu_facts->has_view ? view(s.fd, a.handle, MIB, PROT_READ) : MAP_FAILED;
	CHECK(!gpu_facts->has_view || signal_of_read(p) == 0);
	CHECK(check_in_child(unpin_foreign, &s) == 0);
	CHECK(live_pins(s.fd) == 0);
	if (gpu_facts->has_view) {
		CHECK(signal_of_read(p) == SIGBUS);
		munmap(p, MIB);
	}
	CHECK(!cu.MemFree(s.va));
	close(s.fd);
}

#define BESIDE 32

struct beside {
	volatile int go;
	int fd;
	unsigned int n;
	uint32_t handles[BESIDE];
};

static int unpin_beside(struct beside *b)
{
	while (!b->go)
		sched_yield();
	for (unsigned int i = 0; i < b->n; i++)
		WORKS(unpin(b->fd, b->handles[i]));
	return 0;
}

/* The memory goes at the moment in which another process unpins; the driver's log says what it was asked wrongly. */
static void foreign_unpin_beside_free(void)
{
	struct beside *b = shared_memory(PAGE);
	struct peerdma_pin_args a;
	int status;

	CHECK(b != MAP_FAILED);
	b->fd = dev_open();
	/* AMD's driver maps what it pins. */
	b->n = times_mapped(BESIDE);
	for (int round = 0; round < 40; round++) {
		uint64_t va = gpu_alloc(MIB);
		pid_t pid;

		for (unsigned int i = 0; i < b->n; i++) {
			WORKS(gpu_pin(b->fd, va, MIB, 0, &a));
			b->handles[i] = a.handle;
		}
		b->go = 0;
		fflush(stdout);
		pid = fork();
		if (!pid)
			_exit(unpin_beside(b));
		b->go = 1;
		usleep(round % 8 * 300);
		CHECK(!cu.MemFree(va));
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	CHECK(live_pins(b->fd) == 0);
	close(b->fd);
	munmap(b, PAGE);
}

static int hears(int peer, void *arg)
{
	return hear(peer);
}

/* The last close is in a child that pinned nothing. */
static void foreign_close(void)
{
	uint64_t va = gpu_alloc(MIB);
	struct peerdma_pin_args a;
	int fd = dev_open();
	struct process p;

	WORKS(gpu_pin(fd, va, MIB, 0, &a));
	p = begin(hears, NULL);
	close(fd);
	CHECK(finish(&p) == 0);
	check_none_left();
	CHECK(!cu.MemFree(va));
}

static int pin_by_token(void *arg)
{
	struct shared *s = arg;
	struct peerdma_pin_args a;
	int fd = dev_open();

	/* Another process's memory needs both tokens, and the right ones. */
	FAILS(ENXIO, gpu_pin(fd, s->va, MIB, 0, &a));
	for (int i = 0; i < 4; i++) {
		a = (struct peerdma_pin_args){ .size = sizeof(a), .flags = PEERDMA_PIN_DEVICE,
					       .addr = s->va, .length = MIB,
					       .p2p_token = s->tokens.p2p + (i & 1),
					       .va_space_token = s->tokens.va_space + (i >> 1) };
		FAILS(i ? ENXIO : 0, ioctl(fd, PEERDMA_PIN, &a));
	}
	a.va_space_token = 0;
	FAILS(ENXIO, ioctl(fd, PEERDMA_PIN, &a));
	close(fd);
	return 0;
}

static void tokens(void)
{
	struct shared s = { .va = gpu_alloc(MIB) };

	if (!cu.PointerGetAttribute || cu.PointerGetAttribute(&s.tokens, CU_P2P_TOKENS, s.va) || !s.tokens.p2p) {
		skip("tokens", "this driver gives none");
		return;
	}
	CHECK(check_in_child(pin_by_token, &s) == 0);
	CHECK(!cu.MemFree(s.va));
}

/* Memory that comes and goes under threads that pin it. */
static volatile bool stop;
static uint64_t volatile current_va;

/* It is not there any more, or so a provider puts it that has been asked too late. */
static void map_it(int fd, uint32_t handle)
{
	struct peerdma_segment segs[MIB / PAGE];
	uint32_t count = MIB / PAGE, mapping;

	if (card_open() && card_map(fd, handle, PEERDMA_MAP_TO_DEVICE, segs, &count, &mapping))
		CHECK(errno == ESTALE || errno == EOPNOTSUPP || errno == EIO);
}

static void pins_it(void *arg)
{
	struct peerdma_event events[8];
	struct peerdma_pin_args a;
	int fd = dev_open(), ends[2];

	random_state = (uintptr_t)arg;
	CHECK(!pipe2(ends, O_CLOEXEC));
	while (!stop) {
		uint64_t va = current_va;
		uint32_t flags = r(4) || !gpu_facts->can_persist ? 0 : PEERDMA_PIN_PERSISTENT;
		char *p;

		if (!va || gpu_pin(fd, va, MIB, flags, &a)) {
			/* Freed meanwhile. */
			CHECK(!va || errno == gpu_facts->gone || errno == ESTALE);
			sched_yield();
			continue;
		}
		map_it(fd, a.handle);
		p = view(fd, a.handle, MIB, PROT_READ);
		if (p == MAP_FAILED) {
			CHECK(errno == ESTALE || (!gpu_facts->has_view && errno == EOPNOTSUPP));
		} else {
			/* A system call reads it, or says EFAULT: no signal. */
			char byte;

			if (write(ends[1], p + r(MIB), 1) == 1)
				(void)!read(ends[0], &byte, 1);
			munmap(p, MIB);
		}
		if (r(2))
			(void)!read(fd, events, sizeof(events));
		if (r(8)) {
			WORKS(unpin(fd, a.handle));
		} else {
			close(fd);
			fd = dev_open();
		}
	}
	close(ends[0]);
	close(ends[1]);
	close(fd);
}

static void race(void)
{
	struct task tasks[2];

	stop = false;
	for (long i = 0; i < 2; i++)
		task_begin(&tasks[i], pins_it, (void *)(i + 5));
	for (int i = 0; i < 150; i++) {
		uint64_t va = gpu_alloc(MIB);

		current_va = va;
		usleep(rand() % 3000);
		CHECK(!cu.MemFree(va));
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		task_end(&tasks[i]);
	check_none_left();
}

void test_gpu_processes(void)
{
	run("the owner exits, is killed", owner_exits);
	run("unpinned by another process", foreign_unpin);
	run("unpinned by another process beside the free", foreign_unpin_beside_free);
	run("last close by another process", foreign_close);
	if (gpu_facts->can_persist)
		run("tokens", tokens);
	run("free races with pin, view, unpin, close", race);
}
