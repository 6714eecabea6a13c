// SPDX-License-Identifier: MIT
/* peerdma_test_host.c - pins of host memory. */
#include "peerdma_test_card.h"

static void life(void)
{
	char *memory = host_memory(8 * PAGE), value[128];
	const volatile uint32_t *gen, *seen;
	struct peerdma_pin_args a, b;
	struct peerdma_query_args q;
	int fd = dev_open(), other;

	gen = generations(fd);
	WORKS(pin(fd, memory + 100, 2 * PAGE, PEERDMA_PIN_HOST, &a));
	CHECK(a.page_shift == PAGE_SHIFT && a.offset == 100 && a.pinned_length == 3 * PAGE);
	CHECK(gen[a.slot] == a.generation);
	CHECK(live_pins(fd) == 1);
	WORKS(query(fd, a.handle, &q));
	CHECK(q.state == PEERDMA_STATE_LIVE && q.flags == PEERDMA_PIN_HOST);
	CHECK(q.addr == (uintptr_t)memory + 100 && q.length == 2 * PAGE);
	CHECK(q.pinned_length == 3 * PAGE && q.page_shift == PAGE_SHIFT);
	CHECK(!q.mappings && !q.cpu_views && !q.exports && !strcmp(q.provider, "host"));

	CHECK(debugfs_field(a.handle, "pid", value, sizeof(value)) && atoi(value) == getpid());
	CHECK(debugfs_is(a.handle, "provider", "host") && debugfs_is(a.handle, "state", "live"));
	CHECK(debugfs_field(a.handle, "pinned_length", value, sizeof(value)) &&
	      strtoull(value, NULL, 0) == 3 * PAGE);
	CHECK(debugfs_field(a.handle, "segments", value, sizeof(value)) && strstr(value, "0x"));

	/* No flags: the host's too. */
	WORKS(pin(fd, memory, PAGE, 0, &b));
	CHECK(b.handle != a.handle && b.slot != a.slot);
	WORKS(query(fd, b.handle, &q));
	CHECK(q.flags == PEERDMA_PIN_HOST);
	WORKS(unpin(fd, a.handle));
	CHECK(gen[a.slot] != a.generation && gen[b.slot] == b.generation);
	FAILS(ENOENT, unpin(fd, a.handle));
	CHECK(!debugfs_pins(a.handle));

	/* The last close ends the rest; what is mapped through a file keeps it open. */
	other = dev_open();
	seen = generations(other);
	close(fd);
	CHECK(gen[b.slot] == b.generation && live_pins(other) == 1);
	munmap((void *)gen, PEERDMA_MMAP_GENERATIONS_SIZE);
	CHECK(seen[b.slot] != b.generation && live_pins(other) == 0);
	munmap((void *)seen, PEERDMA_MMAP_GENERATIONS_SIZE);
	close(other);
	munmap(memory, 8 * PAGE);
}

static void generation_never_back(void)
{
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a, b;
	int fd = dev_open();
	uint32_t last = 0;

	for (int i = 0; i < 100; i++) {
		WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
		WORKS(unpin(fd, a.handle));
		WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &b));
		if (a.slot == b.slot)
			CHECK(b.generation > a.generation && a.generation > last);
		last = b.generation;
		WORKS(unpin(fd, b.handle));
	}
	close(fd);
	munmap(memory, PAGE);
}

static int pin_shared_pages(void *memory)
{
	struct peerdma_pin_args a, b;
	int fd = dev_open();
	const volatile uint32_t *gen = generations(fd);

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	WORKS(pin(fd, (char *)memory + PAGE, PAGE, PEERDMA_PIN_HOST, &b));
	CHECK(gen[a.slot] == a.generation && gen[b.slot] == b.generation);
	CHECK(!madvise(memory, PAGE, MADV_DONTNEED));
	CHECK(gen[a.slot] != a.generation && gen[b.slot] == b.generation);
	return 0;
}

/*
 * Pages that are shared until they are written, with a parent or as zeros, become
 * the process's own when they are pinned: for that pin nothing has changed.
 */
static void shared_pages(void)
{
	char *memory = host_memory(2 * PAGE), *zeros = memory + PAGE;

	memset(memory, 1, PAGE);
	CHECK(!madvise(zeros, PAGE, MADV_DONTNEED) && *(volatile char *)zeros == 0);
	CHECK(check_in_child(pin_shared_pages, memory) == 0);
	munmap(memory, 2 * PAGE);
}

/* The pin holds what was there; the generation tells that something else is, or nothing. */
static void range_changes(void)
{
	static const struct {
		const char *what;
		bool changes;
	} ways[] = {
		{ "munmap of a page of it", true }, { "MADV_DONTNEED", true }, { "mremap", true },
		{ "a mapping in its place", true }, { "munmap of its neighbour", false },
		{ "mprotect", false }, { "fork, and a write", false }, { "MADV_WILLNEED", false },
	};
	const volatile uint32_t *gen;
	struct peerdma_pin_args a, b;
	struct peerdma_query_args q;
	int fd = dev_open(), status;
	pid_t pid;

	gen = generations(fd);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		char *memory = host_memory(8 * PAGE);

		WORKS(pin(fd, memory + PAGE, 4 * PAGE, PEERDMA_PIN_HOST, &a));
		CHECK(gen[a.slot] == a.generation);
		switch (i) {
		case 0:
			CHECK(!munmap(memory + 4 * PAGE, 4 * PAGE));
			break;
		case 1:
			CHECK(!madvise(memory + 2 * PAGE, PAGE, MADV_DONTNEED));
			break;
		case 2:
			CHECK(mremap(memory, 8 * PAGE, 16 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
				     host_memory(16 * PAGE)) != MAP_FAILED);
			break;
		case 3:
			CHECK(mmap(memory, 8 * PAGE, PROT_READ | PROT_WRITE,
				   MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == memory);
			break;
		case 4:
			CHECK(!munmap(memory + 5 * PAGE, 3 * PAGE));
			break;
		case 5:
			CHECK(!mprotect(memory, 8 * PAGE, PROT_READ));
			break;
		case 6:
			pid = fork();
			if (!pid)
				_exit(0);
			memset(memory, 7, 8 * PAGE);
			waitpid(pid, &status, 0);
			break;
		case 7:
			CHECK(!madvise(memory, 8 * PAGE, MADV_WILLNEED));
			break;
		}
		if ((gen[a.slot] != a.generation) != ways[i].changes) {
			printf("%s: the generation is %s\n", ways[i].what, ways[i].changes ? "the same" : "over");
			CHECK(0);
		}
		WORKS(query(fd, a.handle, &q));
		CHECK(q.state == PEERDMA_STATE_LIVE);
		/* What is there now is another pin's. */
		if (i == 3) {
			WORKS(pin(fd, memory + PAGE, 4 * PAGE, PEERDMA_PIN_HOST, &b));
			CHECK(gen[b.slot] == b.generation && gen[a.slot] != a.generation);
			WORKS(unpin(fd, b.handle));
		}
		WORKS(unpin(fd, a.handle));
		CHECK(gen[a.slot] != a.generation);
		if (i != 2)
			munmap(memory, 8 * PAGE);
	}
	munmap((void *)gen, PEERDMA_MMAP_GENERATIONS_SIZE);
	close(fd);
}

static void cpu_view(void)
{
	size_t length = 6 << 20;
	char *memory = host_memory(length);
	struct peerdma_pin_args a;
	struct peerdma_query_args q;
	int fd = dev_open();
	char *p, *second;

	WORKS(pin(fd, memory, length, PEERDMA_PIN_HOST, &a));
	p = view(fd, a.handle, length, PROT_READ | PROT_WRITE);
	second = view(fd, a.handle, length, PROT_READ);
	CHECK(p != MAP_FAILED && second != MAP_FAILED);
	WORKS(query(fd, a.handle, &q));
	CHECK(q.cpu_views == 2);
	CHECK(!memcmp(p, memory, length));
	memset(p, 0x5a, length);
	CHECK(memory[0] == 0x5a && memory[length - 1] == 0x5a && second[length / 2] == 0x5a);

	/* What the program does with its own mapping does not concern the pin. */
	munmap(memory, length);
	CHECK(signal_of_read(p) == 0 && p[length / 3] == 0x5a);

	/* Split in three, the middle gone. */
	munmap(p + (2 << 20), 2 << 20);
	WORKS(query(fd, a.handle, &q));
	CHECK(q.cpu_views == 2);
	CHECK(p[5 << 20] == 0x5a && signal_of_read(p + (3 << 20)) == SIGSEGV);

	/* Not a source for a caller that takes references on pages. */
	{
		struct peerdma_pin_args again;

		FAILS(EFAULT, pin(fd, second, PAGE, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY, &again));
	}
	WORKS(unpin(fd, a.handle));
	CHECK(signal_of_read(p) == SIGBUS && signal_of_write(p + (5 << 20), 1) == SIGBUS);
	CHECK(signal_of_read(second) == SIGBUS);

	/* The same handle for another pin: the old views stay dead. */
	memory = host_memory(length);
	WORKS(pin(fd, memory, length, PEERDMA_PIN_HOST, &a));
	CHECK(signal_of_read(p) == SIGBUS && signal_of_read(second) == SIGBUS);
	close(fd);
	munmap(p, length);
	munmap(second, length);
	munmap(memory, length);
}

static int touch_view(void *arg)
{
	return signal_of_read(arg);
}

static void forked(void)
{
	char *memory = host_memory(PAGE);
	struct peerdma_pin_args a;
	int fd = dev_open();
	char *p;

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	p = view(fd, a.handle, PAGE, PROT_READ | PROT_WRITE);
	CHECK(signal_of_read(p) == 0);
	CHECK(check_in_child(touch_view, p) == SIGSEGV);
	/* Copy-on-write after fork must not part the view from the memory. */
	memory[1] = 42;
	CHECK(p[1] == 42);
	p[2] = 43;
	CHECK(memory[2] == 43);
	/* The child's exit closed its copy of the file: nothing ended. */
	CHECK(live_pins(fd) == 1);
	munmap(p, PAGE);
	close(fd);
	munmap(memory, PAGE);
}

struct inherited {
	int fd;
	uint32_t handle;
	void *memory;
};

/* A holder of the file that did not open it. */
static int foreign(void *arg)
{
	struct inherited *in = arg;
	struct peerdma_query_args q;
	struct peerdma_pin_args a;
	char *p;

	WORKS(query(in->fd, in->handle, &q));
	p = view(in->fd, in->handle, PAGE, PROT_READ);
	CHECK(p != MAP_FAILED && signal_of_read(p) == 0);
	/* Its own memory, counted against it. */
	WORKS(pin(in->fd, in->memory, PAGE, PEERDMA_PIN_HOST, &a));
	WORKS(unpin(in->fd, in->handle));
	CHECK(signal_of_read(p) == SIGBUS);
	return a.handle == in->handle;
}

static void other_process(void)
{
	struct inherited in = { .fd = dev_open(), .memory = host_memory(PAGE) };
	struct peerdma_query_args q;
	struct peerdma_pin_args a;

	WORKS(pin(in.fd, in.memory, PAGE, PEERDMA_PIN_HOST, &a));
	in.handle = a.handle;
	CHECK(check_in_child(foreign, &in) == 0);
	FAILS(ENOENT, query(in.fd, in.handle, &q));
	/* The dead child's pin is still there: it is the file's. */
	CHECK(live_pins(in.fd) == 1);
	close(in.fd);
	munmap(in.memory, PAGE);
	in.fd = dev_open();
	CHECK(live_pins(in.fd) == 0);
	close(in.fd);
}

/* RLIMIT_MEMLOCK, for one who has no privilege; run in a child. */
static int limited(void *arg)
{
	char *memory = host_memory(16 * PAGE);
	struct peerdma_map_args map = { .size = sizeof(map), .flags = 3 };
	struct peerdma_pin_args a, b;
	int fd = dev_open();

	may_lock(8 * PAGE);
	become(1000, 0);
	FAILS(ENOMEM, pin(fd, memory, 9 * PAGE, PEERDMA_PIN_HOST, &a));
	WORKS(pin(fd, memory, 8 * PAGE, PEERDMA_PIN_HOST, &a));
	FAILS(ENOMEM, pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &b));
	WORKS(unpin(fd, a.handle));
	WORKS(pin(fd, memory, 5 * PAGE, PEERDMA_PIN_HOST, &a));
	WORKS(pin(fd, memory, 3 * PAGE, PEERDMA_PIN_HOST, &b));
	FAILS(ENOMEM, pin(fd, memory, 1, PEERDMA_PIN_HOST, &b));
	/* MAP is for the privileged. */
	map.handle = a.handle;
	find_cards(&map, 1);
	FAILS(EPERM, ioctl(fd, PEERDMA_MAP, &map));
	close(fd);
	/* Counted back: all of it can be had again, by a file opened anew. */
	fd = dev_open();
	WORKS(pin(fd, memory, 8 * PAGE, PEERDMA_PIN_HOST, &a));
	return 0;
}

static void memlock(void)
{
	CHECK(check_in_child(limited, NULL) == 0);
}

/* Of this process, in KiB. */
static long long vm_pin(void)
{
	return line_number("/proc/self/status", "VmPin");
}

static void accounting(void)
{
	size_t length = 64 << 20;
	char *memory = host_memory(length);
	struct peerdma_pin_args a;
	int fd = dev_open();
	long long before = vm_pin();

	WORKS(pin(fd, memory, length, PEERDMA_PIN_HOST, &a));
	CHECK(vm_pin() == before + 65536);
	WORKS(unpin(fd, a.handle));
	CHECK(vm_pin() == before);
	mprotect(memory + length / 2, PAGE, PROT_NONE);
	FAILS(EFAULT, pin(fd, memory, length, PEERDMA_PIN_HOST, &a));
	CHECK(vm_pin() == before);
	close(fd);
	munmap(memory, length);
}

static void many(void)
{
	enum { N = 3000 };
	static struct peerdma_pin_args a[N];
	char *memory = host_memory(16 * PAGE);
	int fd = dev_open();
	const volatile uint32_t *gen = generations(fd);

	for (int i = 0; i < N; i++)
		WORKS(pin(fd, memory, 16 * PAGE, PEERDMA_PIN_HOST, &a[i]));
	for (int i = 0; i < N; i++)
		CHECK(gen[a[i].slot] == a[i].generation);
	/* The table of debugfs is longer than one read. */
	CHECK(debugfs_pins(a[0].handle) == 1 && debugfs_pins(a[N - 1].handle) == 1);
	for (int i = 0; i < N; i += 2)
		WORKS(unpin(fd, a[i].handle));
	for (int i = 0; i < N; i++)
		CHECK((gen[a[i].slot] == a[i].generation) == (i % 2));
	CHECK(live_pins(fd) == N / 2);
	munmap((void *)gen, PEERDMA_MMAP_GENERATIONS_SIZE);
	close(fd);
	check_none_left();
	munmap(memory, 16 * PAGE);
}

static void dmabuf_views(void)
{
	char *memory = host_memory(4 * PAGE), *p, *whole;
	struct peerdma_query_args q;
	struct peerdma_pin_args a;
	int fd = dev_open(), dmabuf;

	WORKS(pin(fd, memory, 4 * PAGE, PEERDMA_PIN_HOST, &a));
	dmabuf = export(fd, a.handle, 2 * PAGE, 2 * PAGE);
	WORKS(query(fd, a.handle, &q));
	CHECK(q.exports == 1);
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
	CHECK(p != MAP_FAILED && p[0] == 2 && p[PAGE] == 3);
	CHECK(mmap(NULL, 3 * PAGE, PROT_READ, MAP_SHARED, dmabuf, 0) == MAP_FAILED);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, dmabuf, 2 * PAGE) == MAP_FAILED);
	p[0] = 99;
	CHECK(memory[2 * PAGE] == 99);
	whole = view(fd, a.handle, 4 * PAGE, PROT_READ);
	CHECK(whole[2 * PAGE] == 99);
	close(dmabuf);
	/* The view of the dma-buf holds it. */
	WORKS(query(fd, a.handle, &q));
	CHECK(q.exports == 1 && q.cpu_views == 2 && signal_of_read(p + PAGE) == 0);
	WORKS(unpin(fd, a.handle));
	CHECK(signal_of_read(p) == SIGBUS && signal_of_read(whole) == SIGBUS);
	munmap(p, 2 * PAGE);
	munmap(whole, 4 * PAGE);

	/* A dma-buf that outlives its pin, its file and its handle. */
	WORKS(pin(fd, memory, 4 * PAGE, PEERDMA_PIN_HOST, &a));
	dmabuf = export(fd, a.handle, 0, 0);
	close(fd);
	CHECK(lseek(dmabuf, 0, SEEK_END) == (off_t)(4 * PAGE));
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, dmabuf, 0) == MAP_FAILED && errno == ENOENT);
	close(dmabuf);
	munmap(memory, 4 * PAGE);
}

static void page_of_readonly(void)
{
	int file = open("/tmp/peerdma-readonly", O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct peerdma_pin_args a;
	int fd = dev_open();
	char *memory, *p;

	CHECK(file >= 0 && !ftruncate(file, PAGE));
	memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	/* Untouched and private: the pin must be of the page that the program will see. */
	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY, &a));
	p = view(fd, a.handle, PAGE, PROT_READ);
	memory[7] = 7;
	CHECK(p[7] == 7);
	close(fd);
	close(file);
	munmap(p, PAGE);
	munmap(memory, PAGE);
	unlink("/tmp/peerdma-readonly");
}

/* Of a file that others write: read-only, and beside private memory, which is found otherwise. */
static void shared_readonly(void)
{
	int file = memfd_create("peerdma-shared", MFD_CLOEXEC), fd = dev_open();
	char *memory = host_memory(3 * PAGE), *writer, *p;
	struct peerdma_pin_args a;

	CHECK(file >= 0 && !ftruncate(file, PAGE));
	writer = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(mmap(memory + PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == memory + PAGE);
	FAILS(EFAULT, pin(fd, memory + PAGE, PAGE, PEERDMA_PIN_HOST, &a));
	WORKS(pin(fd, memory, 3 * PAGE, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY, &a));
	p = view(fd, a.handle, 3 * PAGE, PROT_READ);
	memory[7] = 1;
	writer[7] = 2;
	memory[2 * PAGE + 7] = 3;
	CHECK(p[7] == 1 && p[PAGE + 7] == 2 && p[2 * PAGE + 7] == 3);
	close(fd);
	close(file);
	munmap(p, 3 * PAGE);
	munmap(writer, PAGE);
	munmap(memory, 3 * PAGE);
}

/* As the addresses that CUDA reserves for GPU memory: there are no pages, and none must come by a pin. */
static void reserved(void)
{
	char *memory = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct peerdma_pin_args a;
	int fd = dev_open();

	CHECK(memory != MAP_FAILED);
	FAILS(EFAULT, pin(fd, memory, PAGE, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY, &a));
	FAILS(EFAULT, pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	CHECK(!mprotect(memory, 2 * PAGE, PROT_READ));
	FAILS(EFAULT, pin(fd, memory, 3 * PAGE, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY, &a));
	WORKS(pin(fd, memory, 2 * PAGE, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY, &a));
	close(fd);
	munmap(memory, 3 * PAGE);
}

/* Threads that pin, look and unpin handles of each other. */
struct crowd {
	int fd;
	int pipe;
	char *memory;
	unsigned int seed;
};

static void *crowd_thread(void *arg)
{
	struct crowd *c = arg;
	struct peerdma_query_args q;
	struct peerdma_pin_args a;

	for (int i = 0; i < 400; i++) {
		uint32_t guess = 1 + rand_r(&c->seed) % 6;
		char *p;
		int dmabuf;

		switch (rand_r(&c->seed) % 6) {
		case 0:
		case 1:
			pin(c->fd, c->memory, 16 * PAGE, PEERDMA_PIN_HOST, &a);
			break;
		case 2:
			unpin(c->fd, guess);
			break;
		case 3:
			query(c->fd, guess, &q);
			break;
		case 4:
			p = view(c->fd, guess, PAGE, PROT_READ);
			if (p != MAP_FAILED) {
				/* It may be gone by now; a system call says so without a signal. */
				(void)!write(c->pipe, p, 1);
				munmap(p, PAGE);
			}
			break;
		case 5:
			dmabuf = export(c->fd, guess, 0, 0);
			if (dmabuf >= 0)
				close(dmabuf);
			break;
		}
	}
	return NULL;
}

static void crowd(void)
{
	struct crowd c[4];
	pthread_t threads[4];
	int fd = dev_open(), ends[2];
	char *memory = host_memory(16 * PAGE);

	CHECK(!pipe2(ends, O_CLOEXEC | O_NONBLOCK));
	for (int i = 0; i < 4; i++) {
		c[i] = (struct crowd){ .fd = fd, .pipe = ends[1], .memory = memory, .seed = 77 + i };
		CHECK(!pthread_create(&threads[i], NULL, crowd_thread, &c[i]));
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	close(ends[0]);
	close(ends[1]);
	close(fd);
	check_none_left();
	munmap(memory, 16 * PAGE);
}

void test_host(void)
{
	run("pin, query, unpin, close", life);
	run("generations do not come back", generation_never_back);
	run("the range changes under a pin", range_changes);
	run("shared pages are pinned", shared_pages);
	run("CPU view", cpu_view);
	run("fork", forked);
	run("a file used by another process", other_process);
	run("RLIMIT_MEMLOCK", memlock);
	run("accounting", accounting);
	run("many pins", many);
	run("views of dma-bufs", dmabuf_views);
	run("read-only pin of private pages", page_of_readonly);
	run("read-only memory that others write", shared_readonly);
	run("memory that may not be accessed", reserved);
	run("threads on one file", crowd);
}
