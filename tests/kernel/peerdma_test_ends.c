// SPDX-License-Identifier: MIT
/*
 * peerdma_test_ends.c - a pin's two ends at once: it is unpinned, and its memory
 * is freed.  One of them is held where it is, and the other must wait for it, or
 * leave alone what is not its own any more.
 */
#include <sched.h>

#include "peerdma_client.h"
#include "importer.h"
#include "peerdma_test_gpu.h"

/* Long for a thread that fails to wait, short for a reader of the log. */
#define SLOW_MS	300

static int client(uint64_t va, uint32_t delay_ms)
{
	struct client_pin a = { .addr = va, .length = MIB, .delay_ms = delay_ms };
	int fd = open("/dev/peerdma_client", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	WORKS(ioctl(fd, CLIENT_PIN, &a));
	return fd;
}

static struct client_state state(int fd)
{
	struct client_state s = { 0 };

	WORKS(ioctl(fd, CLIENT_STATE, &s));
	return s;
}

/* Inside its revoke a driver may ask the getters: no lock of the pin's is held. */
static void getters_in_revoke(void)
{
	uint64_t va = gpu_alloc(MIB);
	int fd = client(va, 0);

	CHECK(!cu.MemFree(va));
	CHECK(state(fd).done == 1 && state(fd).page == 0);
	WORKS(ioctl(fd, CLIENT_UNPIN));
	close(fd);
}

static void unpin_revoked(void *arg)
{
	int fd = *(int *)arg;

	while (!state(fd).begun)
		sched_yield();
	WORKS(ioctl(fd, CLIENT_UNPIN));
	CHECK(state(fd).done == 1);
}

/* A driver's unpin returns when its revoke has. */
static void unpin_waits_for_revoke(void)
{
	uint64_t va = gpu_alloc(MIB);
	int fd = client(va, SLOW_MS);
	struct task task;

	task_begin(&task, unpin_revoked, &fd);
	CHECK(!cu.MemFree(va));
	task_end(&task);
	close(fd);
}

static struct importer_progress progress(int im)
{
	struct importer_progress p = { 0 };

	WORKS(ioctl(im, IMPORTER_PROGRESS, &p));
	return p;
}

/* Memory is free when all that an unpin under way takes down has been taken down. */
static void free_waits_for_unpin(void)
{
	uint64_t va = gpu_alloc(2 * MIB);
	struct importer_map map;
	uint32_t slow = SLOW_MS;
	struct peerdma_pin_args a;
	struct unpinner u;
	int fd = dev_open(), dmabuf, im;

	WORKS(gpu_pin(fd, va, 2 * MIB, 0, &a));
	dmabuf = export(fd, a.handle, 0, 0);
	im = importer_up(dmabuf, IMPORTER_DYNAMIC, &map);
	WORKS(ioctl(im, IMPORTER_SLOW, &slow));
	unpin_begin(&u, fd, a.handle);
	while (!progress(im).begun)
		sched_yield();
	CHECK(!cu.MemFree(va));
	CHECK(progress(im).done == 1);
	CHECK(!unpin_end(&u));
	close(im);
	close(dmabuf);
	close(fd);
}

static bool put_delay(const char *ms)
{
	return gpu_facts->put_delay && module_set(gpu_facts->put_delay, "put_delay_ms", ms);
}

/* Two unpin one handle: the second comes while the first gives the memory back. */
static void unpinned_twice(void)
{
	uint64_t va = gpu_alloc(MIB);
	struct peerdma_query_args q;
	struct peerdma_pin_args a;
	struct unpinner u;
	int fd = dev_open();

	if (!put_delay("300")) {
		skip("unpinned twice at once", "this provider has no such knob");
	} else {
		WORKS(gpu_pin(fd, va, MIB, 0, &a));
		unpin_begin(&u, fd, a.handle);
		while (!query(fd, a.handle, &q))
			sched_yield();
		FAILS(ENOENT, unpin(fd, a.handle));
		CHECK(!unpin_end(&u) && live_pins(fd) == 0);
		put_delay("0");
	}
	CHECK(!cu.MemFree(va));
	close(fd);
}

static int pin_and_wait(void *arg)
{
	struct peerdma_pin_args a;

	/* It is not this process's memory; what counts is that the provider is asked. */
	return pin_va(*(int *)arg, GPU_PAGE, GPU_PAGE, PEERDMA_PIN_DEVICE, &a);
}

/* A process that waits until another one has given memory back can be killed, or does not wait. */
static void killed_in_turn(void)
{
	uint64_t va = gpu_alloc(MIB);
	struct peerdma_query_args q;
	struct peerdma_pin_args a;
	struct unpinner u;
	int fd = dev_open(), status = 0;
	pid_t child;

	if (!put_delay("3000")) {
		skip("killed while it waits for the provider", "this provider has no such knob");
	} else {
		WORKS(gpu_pin(fd, va, MIB, 0, &a));
		unpin_begin(&u, fd, a.handle);
		while (!query(fd, a.handle, &q))
			sched_yield();
		child = fork();
		if (!child)
			_exit(pin_and_wait(&fd) ? 1 : 0);
		if (gpu_facts->no_turns) {
			CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
		} else {
			while (state_of(child) != 'D' && !waitpid(child, &status, WNOHANG))
				sched_yield();
			CHECK(!kill(child, SIGKILL) && waitpid(child, &status, 0) == child && WIFSIGNALED(status));
		}
		CHECK(!u.task.over);
		CHECK(!unpin_end(&u) && live_pins(fd) == 0);
		put_delay("0");
	}
	CHECK(!cu.MemFree(va));
	close(fd);
}

/*
 * What a provider knew a revoked pin by, it may know another by now: unpinning
 * the first leaves the second alone, which is told when its own memory goes.
 */
static void unpinned_late(void)
{
	struct peerdma_pin_args first, second;
	struct peerdma_query_args q;
	int fd = dev_open();

	for (int i = 0; i < 20; i++) {
		uint64_t a = gpu_alloc(MIB), b = gpu_alloc(MIB);

		WORKS(gpu_pin(fd, a, MIB, 0, &first));
		CHECK(!cu.MemFree(a));
		WORKS(gpu_pin(fd, b, MIB, 0, &second));
		WORKS(unpin(fd, first.handle));
		CHECK(!cu.MemFree(b));
		WORKS(query(fd, second.handle, &q));
		CHECK(q.state == PEERDMA_STATE_REVOKED);
		WORKS(unpin(fd, second.handle));
	}
	close(fd);
}

/* A number in the line that debugfs has for this pin; "cookie" is what the provider's callback has for it. */
static uint64_t number_of(uint32_t handle, const char *column)
{
	char value[32] = "0";

	CHECK(debugfs_field(handle, column, value, sizeof(value)));
	return strtoull(value, NULL, 0);
}

/* A callback that comes late means a pin that is gone, not the one that has its id now. */
static void revoked_late(void)
{
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args old, new;
	struct peerdma_query_args q;
	int fd = dev_open(), late = open("/dev/peerdma_client", O_RDWR | O_CLOEXEC), again = 0;
	uint64_t cookie, id;

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &old));
	for (int i = 0; i < 20; i++) {
		cookie = number_of(old.handle, "cookie");
		id = number_of(old.handle, "id");
		WORKS(unpin(fd, old.handle));
		WORKS(ioctl(late, CLIENT_REVOKE, &cookie));
		WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &new));
		again += number_of(new.handle, "id") == id;
		WORKS(ioctl(late, CLIENT_REVOKE, &cookie));
		WORKS(query(fd, new.handle, &q));
		CHECK(q.state == PEERDMA_STATE_LIVE);
		old = new;
	}
	CHECK(again);
	/* An id alone is not enough; the cookie is. */
	cookie = number_of(old.handle, "id");
	WORKS(ioctl(late, CLIENT_REVOKE, &cookie));
	WORKS(query(fd, old.handle, &q));
	CHECK(q.state == PEERDMA_STATE_LIVE);
	cookie = number_of(old.handle, "cookie");
	WORKS(ioctl(late, CLIENT_REVOKE, &cookie));
	WORKS(query(fd, old.handle, &q));
	CHECK(q.state == PEERDMA_STATE_REVOKED);
	WORKS(unpin(fd, old.handle));
	close(late);
	close(fd);
	munmap(memory, PAGE);
}

void test_ends(bool gpu)
{
	int fd = open("/dev/peerdma_client", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		skip("pins that end in two ways at once", "peerdma_client.ko is not loaded");
		return;
	}
	close(fd);
	if (!gpu) {
		run("a callback that comes late", revoked_late);
		return;
	}
	if (gpu_facts->pins != ENDED_BY_FREE)
		return;
	run("a driver's revoke asks the getters", getters_in_revoke);
	run("a driver's unpin waits for its revoke", unpin_waits_for_revoke);
	run("unpinned twice at once", unpinned_twice);
	run("killed while it waits for the provider", killed_in_turn);
	run("unpinned late", unpinned_late);
	if (access("/dev/peerdma_importer", F_OK))
		skip("memory freed while it is unpinned", "peerdma_importer.ko is not loaded");
	else
		run("memory freed while it is unpinned", free_waits_for_unpin);
}
