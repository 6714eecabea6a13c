// SPDX-License-Identifier: MIT
/* peerdma_test_calls.c - what the calls refuse: every struct, field and number. */
#include <sys/resource.h>

#include "peerdma_test.h"

static const struct {
	unsigned long cmd;
	size_t size;
	size_t first;		/* the first release's, if it was shorter */
} calls[] = {
	{ PEERDMA_INFO, sizeof(struct peerdma_info), offsetof(struct peerdma_info, user_pins) },
	{ PEERDMA_PIN, sizeof(struct peerdma_pin_args), 0 },
	{ PEERDMA_UNPIN, sizeof(struct peerdma_handle_args), 0 },
	{ PEERDMA_QUERY, sizeof(struct peerdma_query_args), 0 },
	{ PEERDMA_MAP, sizeof(struct peerdma_map_args), 0 },
	{ PEERDMA_UNMAP, sizeof(struct peerdma_handle_args), 0 },
	{ PEERDMA_EXPORT, sizeof(struct peerdma_export_args), 0 },
	{ PEERDMA_PAGES, sizeof(struct peerdma_pages_args), 0 },
};
#define NCALLS (sizeof(calls) / sizeof(calls[0]))

/* A page behind which nothing is mapped: a read past its end faults. */
static char *last_page(void)
{
	char *p = anonymous(2 * PAGE);

	CHECK(p != MAP_FAILED);
	munmap(p + PAGE, PAGE);
	return p;
}

static void sizes(void)
{
	char *page = last_page();
	int fd = dev_open();

	for (size_t i = 0; i < NCALLS; i++) {
		size_t size = calls[i].size, first = calls[i].first ? calls[i].first : size;
		/* What a whole but empty struct answers. */
		int plain = calls[i].cmd == PEERDMA_INFO ? 0 :
			calls[i].cmd == PEERDMA_PIN || calls[i].cmd == PEERDMA_MAP ? EINVAL : ENOENT;
		char *arg;

		for (size_t n = first - 1; n <= size + 9; n++) {
			memset(page, 0, PAGE);
			arg = page + PAGE - n;
			memcpy(arg, &(uint32_t){ (uint32_t)n }, 4);
			FAILS(n < first ? EINVAL : plain, ioctl(fd, calls[i].cmd, arg));
			if (n <= size)
				continue;
			memcpy(arg, &(uint32_t){ (uint32_t)n }, 4);
			memset(arg + 4, 0, n - 4);
			arg[n - 1] = 1;
			FAILS(E2BIG, ioctl(fd, calls[i].cmd, arg));
		}
		/* The struct says more than there is; nothing there; too much. */
		memset(page, 0, PAGE);
		arg = page + PAGE - size;
		memcpy(arg, &(uint32_t){ (uint32_t)size + 8 }, 4);
		FAILS(EFAULT, ioctl(fd, calls[i].cmd, arg));
		FAILS(EFAULT, ioctl(fd, calls[i].cmd, NULL));
		FAILS(EFAULT, ioctl(fd, calls[i].cmd, page + PAGE - 2));
		memcpy(page, &(uint32_t){ PAGE + 1 }, 4);
		FAILS(E2BIG, ioctl(fd, calls[i].cmd, page));
		memcpy(page, &(uint32_t){ UINT32_MAX }, 4);
		FAILS(E2BIG, ioctl(fd, calls[i].cmd, page));
		memcpy(page, &(uint32_t){ 0 }, 4);
		FAILS(EINVAL, ioctl(fd, calls[i].cmd, page));
	}
	CHECK(live_pins(fd) == 0);
	close(fd);
	munmap(page, PAGE);
}

static void numbers(void)
{
	struct peerdma_info info = { .size = sizeof(info) };
	int fd = dev_open();

	FAILS(ENOTTY, ioctl(fd, PEERDMA_IOC(0x09), &info));
	FAILS(ENOTTY, ioctl(fd, PEERDMA_IOC(0xff), &info));
	FAILS(ENOTTY, ioctl(fd, _IO(PEERDMA_IOC_MAGIC, 0), &info));
	FAILS(ENOTTY, ioctl(fd, _IOWR(PEERDMA_IOC_MAGIC, 0, struct peerdma_info), &info));
	FAILS(ENOTTY, ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 0xb5, 0, 0), &info));
	WORKS(ioctl(fd, PEERDMA_INFO, &info));
	CHECK(info.abi == PEERDMA_ABI && info.providers >= 1);
	info.flags = 1;
	FAILS(EINVAL, ioctl(fd, PEERDMA_INFO, &info));
	close(fd);
}

static void pin_arguments(void)
{
	char *memory = host_memory(4 * PAGE);
	struct peerdma_pin_args a;
	int fd = dev_open();

	for (int bit = 4; bit < 32; bit++)
		FAILS(EINVAL, pin(fd, memory, PAGE, PEERDMA_PIN_HOST | 1U << bit, &a));
	FAILS(EINVAL, pin(fd, memory, PAGE, PEERDMA_PIN_HOST | PEERDMA_PIN_DEVICE, &a));
	FAILS(EOPNOTSUPP, pin(fd, memory, PAGE, PEERDMA_PIN_HOST | PEERDMA_PIN_PERSISTENT, &a));
	FAILS(EINVAL, pin(fd, memory, 0, PEERDMA_PIN_HOST, &a));
	FAILS(EINVAL, pin(fd, memory, -(size_t)memory, PEERDMA_PIN_HOST, &a));
	FAILS(EINVAL, pin(fd, memory, SIZE_MAX, PEERDMA_PIN_HOST, &a));
	FAILS(EINVAL, pin_va(fd, UINT64_MAX, 1, PEERDMA_PIN_HOST, &a));
	FAILS(EINVAL, pin_va(fd, UINT64_MAX - 4094, 4094, PEERDMA_PIN_HOST, &a));
	FAILS(EINVAL, pin_va(fd, UINT64_MAX - 4095, 4096, PEERDMA_PIN_HOST, &a));
	/* The kernel's half of the address space, and its edges. */
	FAILS(EFAULT, pin_va(fd, 0xffff888000000000, PAGE, PEERDMA_PIN_HOST, &a));
	FAILS(EFAULT, pin_va(fd, 0x7ffffffff000, 2 * PAGE, PEERDMA_PIN_HOST, &a));
	FAILS(EFAULT, pin_va(fd, 0, PAGE, PEERDMA_PIN_HOST, &a));
	FAILS(ENOMEM, pin_va(fd, PAGE, (1ULL << 40) + PAGE, PEERDMA_PIN_HOST, &a));
	FAILS(ENOMEM, pin_va(fd, PAGE, UINT64_MAX / 2, PEERDMA_PIN_HOST, &a));
	FAILS(EFAULT, pin_va(fd, PAGE, 1ULL << 30, PEERDMA_PIN_HOST, &a));

	a = (struct peerdma_pin_args){ .size = sizeof(a), .addr = (uintptr_t)memory, .length = PAGE,
				       .flags = PEERDMA_PIN_HOST, .reserved = 1 };
	FAILS(EINVAL, ioctl(fd, PEERDMA_PIN, &a));
	a.reserved = 0;
	a.p2p_token = 1;
	FAILS(EINVAL, ioctl(fd, PEERDMA_PIN, &a));
	a.p2p_token = 0;
	a.va_space_token = 1;
	FAILS(EINVAL, ioctl(fd, PEERDMA_PIN, &a));
	/* Tokens are for GPU memory that may go away; this is none. */
	a.flags = 0;
	FAILS(ENXIO, ioctl(fd, PEERDMA_PIN, &a));
	a.flags = PEERDMA_PIN_PERSISTENT;
	FAILS(EINVAL, ioctl(fd, PEERDMA_PIN, &a));
	FAILS(ENXIO, pin(fd, memory, PAGE, PEERDMA_PIN_DEVICE, &a));

	/* Half mapped; read-only for a pin that writes; and the same read-only. */
	munmap(memory + 3 * PAGE, PAGE);
	FAILS(EFAULT, pin(fd, memory, 4 * PAGE, PEERDMA_PIN_HOST, &a));
	mprotect(memory + 2 * PAGE, PAGE, PROT_READ);
	FAILS(EFAULT, pin(fd, memory, 3 * PAGE, PEERDMA_PIN_HOST, &a));
	WORKS(pin(fd, memory, 3 * PAGE, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY, &a));
	WORKS(unpin(fd, a.handle));
	CHECK(live_pins(fd) == 0);

	/* The answer cannot be written: nothing is pinned. */
	{
		struct peerdma_pin_args *page = (void *)host_memory(PAGE);

		*page = (struct peerdma_pin_args){ .size = sizeof(a), .flags = PEERDMA_PIN_HOST,
						   .addr = (uintptr_t)memory, .length = PAGE };
		mprotect(page, PAGE, PROT_READ);
		FAILS(EFAULT, ioctl(fd, PEERDMA_PIN, page));
		CHECK(live_pins(fd) == 0);
		munmap(page, PAGE);
	}
	close(fd);
	munmap(memory, 3 * PAGE);
}

static const uint32_t bad_handles[] = { 0, 1, 2, 77, PEERDMA_MAX_PINS - 1, PEERDMA_MAX_PINS,
					0x7fffffff, 0x80000000, 0xffffffff };

/* Every call with handles that no file has, or another file. */
static void refuse_handle(int fd, uint32_t handle)
{
	struct peerdma_map_args map = { .size = sizeof(map), .handle = handle, .flags = 3 };
	struct peerdma_query_args q;

	FAILS(ENOENT, unpin(fd, handle));
	FAILS(ENOENT, unmap(fd, handle));
	FAILS(ENOENT, query(fd, handle, &q));
	FAILS(ENOENT, export(fd, handle, 0, 0));
	FAILS(ENOENT, ioctl(fd, PEERDMA_MAP, &map));
	/* Handle 0 is the array of generations; large ones are no offset at all. */
	if (handle && handle < 1U << 23)
		CHECK(view(fd, handle, PAGE, PROT_READ) == MAP_FAILED && errno == ENOENT);
}

static void handles(void)
{
	char *memory = host_memory(PAGE);
	int fd = dev_open(), other = dev_open();
	struct peerdma_pin_args a;

	for (size_t i = 0; i < sizeof(bad_handles) / sizeof(bad_handles[0]); i++)
		refuse_handle(fd, bad_handles[i]);

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	refuse_handle(other, a.handle);
	WORKS(unpin(fd, a.handle));
	refuse_handle(fd, a.handle);
	close(other);
	close(fd);
	munmap(memory, PAGE);
}

static void mmaps(void)
{
	char *memory = host_memory(4 * PAGE);
	struct peerdma_pin_args a, r;
	int fd = dev_open();
	void *p;

	WORKS(pin(fd, memory, 2 * PAGE, PEERDMA_PIN_HOST, &a));
	CHECK(view(fd, a.handle, 3 * PAGE, PROT_READ) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, PEERDMA_MMAP_PIN(a.handle) + 2 * PAGE) ==
	      MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, PEERDMA_MMAP_PIN(a.handle) + PAGE) ==
	      MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, PEERDMA_MMAP_PIN(a.handle)) ==
	      MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, INT64_MAX & ~(PAGE - 1)) ==
	      MAP_FAILED);
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, PEERDMA_MMAP_PIN(a.handle) + PAGE);
	CHECK(p != MAP_FAILED && *(char *)p == 1);
	CHECK(mremap(p, PAGE, 2 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED);
	munmap(p, PAGE);

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY, &r));
	CHECK(view(fd, r.handle, PAGE, PROT_READ | PROT_WRITE) == MAP_FAILED && errno == EPERM);
	p = view(fd, r.handle, PAGE, PROT_READ);
	CHECK(p != MAP_FAILED && mprotect(p, PAGE, PROT_READ | PROT_WRITE) < 0);
	munmap(p, PAGE);

	/* The array of generations: read-only for good, and no further than its end. */
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED &&
	      errno == EPERM);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, PEERDMA_MMAP_GENERATIONS_SIZE) ==
	      MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, PEERDMA_MMAP_GENERATIONS_SIZE + PAGE, PROT_READ, MAP_SHARED, fd, 0) ==
	      MAP_FAILED && errno == EINVAL);
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, PEERDMA_MMAP_GENERATIONS_SIZE - PAGE);
	/* No slot is there, and none is made for a reader. */
	CHECK(p != MAP_FAILED && signal_of_read(p) == SIGBUS);
	CHECK(mprotect(p, PAGE, PROT_READ | PROT_WRITE) < 0);
	munmap(p, PAGE);
	p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p != MAP_FAILED)
		CHECK(mprotect(p, PAGE, PROT_READ | PROT_WRITE) < 0);
	munmap(p, PAGE);
	close(fd);
	munmap(memory, 4 * PAGE);
}

static void exports(void)
{
	char *memory = host_memory(4 * PAGE);
	struct peerdma_export_args e;
	struct peerdma_pin_args a;
	struct rlimit old, few;
	int fd = dev_open(), dmabuf;

	WORKS(pin(fd, memory, 4 * PAGE, PEERDMA_PIN_HOST, &a));
	FAILS(EINVAL, export(fd, a.handle, 1, PAGE));
	FAILS(EINVAL, export(fd, a.handle, 0, PAGE - 1));
	FAILS(EINVAL, export(fd, a.handle, PAGE, 0));
	FAILS(EINVAL, export(fd, a.handle, 0, 5 * PAGE));
	FAILS(EINVAL, export(fd, a.handle, 4 * PAGE, PAGE));
	FAILS(EINVAL, export(fd, a.handle, -PAGE, 2 * PAGE));
	FAILS(EINVAL, export(fd, a.handle, PAGE, -PAGE));
	e = (struct peerdma_export_args){ .size = sizeof(e), .handle = a.handle, .flags = O_CLOEXEC };
	FAILS(EINVAL, ioctl(fd, PEERDMA_EXPORT, &e));
	dmabuf = export(fd, a.handle, PAGE, 2 * PAGE);
	CHECK(dmabuf >= 0 && lseek(dmabuf, 0, SEEK_END) == (off_t)(2 * PAGE));
	CHECK(fcntl(dmabuf, F_GETFD) == FD_CLOEXEC);
	close(dmabuf);

	getrlimit(RLIMIT_NOFILE, &old);
	few = (struct rlimit){ .rlim_cur = fd + 1, .rlim_max = old.rlim_max };
	setrlimit(RLIMIT_NOFILE, &few);
	FAILS(EMFILE, export(fd, a.handle, 0, 0));
	setrlimit(RLIMIT_NOFILE, &old);
	close(fd);
	munmap(memory, 4 * PAGE);
}

static void reading(void)
{
	struct peerdma_event event;
	int fd = dev_open();

	FAILS(EAGAIN, read(fd, &event, sizeof(event)));
	FAILS(EINVAL, read(fd, &event, sizeof(event) - 1));
	FAILS(EINVAL, read(fd, &event, 0));
	FAILS(EINVAL, write(fd, &event, sizeof(event)));
	FAILS(ESPIPE, lseek(fd, 0, SEEK_SET));
	close(fd);
}

void test_calls(void)
{
	run("struct sizes", sizes);
	run("call numbers", numbers);
	run("what PIN refuses", pin_arguments);
	run("handles of no file and of others", handles);
	run("what mmap refuses", mmaps);
	run("what EXPORT refuses", exports);
	run("read without events", reading);
}
