// SPDX-License-Identifier: MIT
/*
 * fpga_calls.c - calls each ioctl of /dev/fpgaN with arguments that it must refuse, and
 * checks the errno.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fpga_ioctl.h"
#include "peerdma_ioctl.h"

#define BYTES	8192u

static int failures;
static int card;

/* A copy that would work: from the first half of some memory to the second. */
/* Whole pages for any page size. */
static unsigned char memory[65536] __attribute__((aligned(65536)));

static struct fpga_copy good_copy(void)
{
	return (struct fpga_copy){
		.size = sizeof(struct fpga_copy),
		.src = (uintptr_t)memory,
		.dst = (uintptr_t)memory + BYTES,
		.length = 100,
	};
}

static void expect_of(int fd, const char *what, unsigned long call, void *arg, int want)
{
	int got = ioctl(fd, call, arg) ? errno : 0;

	if (got == want)
		return;
	printf("%s: %s, not %s\n", what, got ? strerrorname_np(got) : "0",
	       want ? strerrorname_np(want) : "0");
	failures++;
}

static void expect(const char *what, unsigned long call, void *arg, int want)
{
	expect_of(card, what, call, arg, want);
}

/* Each struct a byte short, a byte long with and without content, and far too long. */
static void test_sizes(const char *name, unsigned long call, const void *good, __u32 size, __u32 least)
{
	const size_t page = (size_t)getpagesize();
	unsigned char *room = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	__u32 *asked = (__u32 *)room;

	if (room == MAP_FAILED)
		abort();
	printf("sizes of %s\n", name);
	memcpy(room, good, size);
	expect("as it is", call, room, 0);
	memcpy(room, good, size);
	memset(room + least, 0xee, size - least);
	*asked = least;
	expect("as it was in the beginning", call, room, 0);
	for (__u32 i = least; i < size; i++) {
		if (room[i] == 0xee)
			continue;
		printf("%s: byte %u is written, which the caller has not given\n", name, i);
		failures++;
	}
	memcpy(room, good, size);
	*asked = least - 1;
	expect("a byte short", call, room, EINVAL);
	*asked = 0;
	expect("size 0", call, room, EINVAL);
	*asked = 4;
	expect("size 4", call, room, EINVAL);
	memcpy(room, good, size);
	*asked = size + 1;
	expect("a zero byte long", call, room, 0);
	memcpy(room, good, size);
	*asked = size + 1;
	room[size] = 1;
	expect("a byte long", call, room, E2BIG);
	room[size] = 0;
	*asked = (__u32)page + 1;
	expect("longer than a page", call, room, E2BIG);
	*asked = 0xffffffff;
	expect("the largest size", call, room, E2BIG);

	/* The second half of the struct is not readable. */
	memcpy(room + page - size / 2, good, size / 2);
	mprotect(room + page, page, PROT_NONE);
	expect("half of it", call, room + page - size / 2, EFAULT);
	expect("nothing", call, NULL, EFAULT);
	munmap(room, 2 * page);
}

static void test_copy_arguments(void)
{
	static const struct {
		const char *what;
		__u32 flags, reserved;
		__u64 dst, src, length;
		int want;
	} cases[] = {
		{ "an unknown flag", FPGA_DST_DMABUF << 1, 0, BYTES, 0, 100, EINVAL },
		{ "all flags", ~0u, 0, BYTES, 0, 100, EINVAL },
		{ "a reserved field", 0, 1, BYTES, 0, 100, EINVAL },
		{ "nothing to copy", 0, 0, BYTES, 0, 0, EINVAL },
		{ "a length that wraps", 0, 0, BYTES, 0, ~0ull, EINVAL },
		{ "the same range", 0, 0, 0, 0, 100, EINVAL },
		{ "overlap at the end", 0, 0, 99, 0, 100, EINVAL },
		{ "overlap at the start", 0, 0, 0, 99, 100, EINVAL },
		{ "neighbours", 0, 0, 100, 0, 100, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fpga_copy copy = good_copy();

		copy.flags = cases[i].flags;
		copy.reserved = cases[i].reserved;
		copy.dst = (uintptr_t)memory + cases[i].dst;
		copy.src = (uintptr_t)memory + cases[i].src;
		copy.length = cases[i].length;
		expect(cases[i].what, FPGA_COPY, &copy, cases[i].want);
	}
}

/* Exports host memory through the bridge.  flags: PEERDMA_PIN_READONLY or 0. */
static int export_memory(__u32 flags)
{
	struct peerdma_pin_args pin = {
		.size = sizeof(pin), .flags = PEERDMA_PIN_HOST | flags, .addr = (uintptr_t)memory, .length = sizeof(memory),
	};
	struct peerdma_export_args export = { .size = sizeof(export) };
	int fd = open("/dev/peerdma", O_RDWR | O_CLOEXEC);

	expect_of(fd, "a pin", PEERDMA_PIN, &pin, 0);
	export.handle = pin.handle;
	expect_of(fd, "its export", PEERDMA_EXPORT, &export, 0);
	/* fd stays open until the end, to keep the pin. */
	return export.fd;
}

/*
 * Copies with one end or both in a dma-buf: what is no dma-buf, and ranges outside of it,
 * are refused.
 */
static void test_copy_dmabufs(void)
{
	int dmabuf = export_memory(0), readonly = export_memory(PEERDMA_PIN_READONLY);
	struct fpga_copy copy = good_copy();

	memset(memory, 0x5a, BYTES);
	memset(memory + BYTES, 0, BYTES);
	copy.flags = FPGA_SRC_DMABUF | FPGA_DST_DMABUF;
	copy.src_fd = copy.dst_fd = dmabuf;
	copy.src = 10;
	copy.dst = BYTES + 3;
	copy.length = 5000;
	expect("within a dma-buf", FPGA_COPY, &copy, 0);
	if (memory[BYTES + 2] || memory[BYTES + 3] != 0x5a || memory[BYTES + 5002] != 0x5a || memory[BYTES + 5003] ||
	    strcmp(copy.from.provider, "dmabuf") || strcmp(copy.to.provider, "dmabuf")) {
		printf("within a dma-buf: the bytes, or the providers, are wrong\n");
		failures++;
	}
	copy.dst = 5009;
	expect("overlap in a dma-buf", FPGA_COPY, &copy, EINVAL);
	copy.dst = sizeof(memory) - 4999;
	expect("past a dma-buf's end", FPGA_COPY, &copy, ENXIO);
	copy.dst = ~0ull - 100;
	expect("past all there could be", FPGA_COPY, &copy, EINVAL);
	copy.dst = BYTES;
	copy.dst_fd = card;
	expect("into no dma-buf", FPGA_COPY, &copy, EINVAL);
	copy.dst_fd = 12345;
	expect("into no file", FPGA_COPY, &copy, EBADF);
	copy.dst_fd = -1;
	expect("into a negative one", FPGA_COPY, &copy, EBADF);
	copy.dst_fd = readonly;
	expect("into one for reading only", FPGA_COPY, &copy, EACCES);
	copy.dst_fd = dmabuf;
	copy.src_fd = readonly;
	copy.length = 100;
	expect("out of one for reading only", FPGA_COPY, &copy, 0);
	copy.src_fd = dmabuf;
	copy.length = 5000;
	copy.flags = FPGA_SRC_DMABUF;
	expect("a dma-buf without its flag", FPGA_COPY, &copy, EINVAL);
	/* From the dma-buf to host memory, and back. */
	copy.dst_fd = 0;
	copy.dst = (uintptr_t)memory + BYTES;
	copy.src = 0;
	copy.length = 100;
	expect("out of a dma-buf", FPGA_COPY, &copy, 0);
	copy.flags = FPGA_DST_DMABUF;
	copy.src_fd = 0;
	copy.dst_fd = dmabuf;
	copy.src = (uintptr_t)memory;
	copy.dst = BYTES + 200;
	expect("into a dma-buf", FPGA_COPY, &copy, 0);
	if (memory[BYTES] != 0x5a || memory[BYTES + 299] != 0x5a) {
		printf("in and out of a dma-buf: the bytes are wrong\n");
		failures++;
	}
	close(dmabuf);
	close(readonly);
}

static void test_copy_addresses(void)
{
	unsigned char *hole = mmap(NULL, (size_t)getpagesize(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *constant = mmap(NULL, (size_t)getpagesize(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct fpga_copy copy;

	/* Nothing is mapped here now. */
	munmap(hole, (size_t)getpagesize());
	copy = good_copy();
	copy.src = (uintptr_t)hole;
	expect("from where no memory is", FPGA_COPY, &copy, EFAULT);
	copy = good_copy();
	copy.dst = (uintptr_t)hole;
	expect("to where no memory is", FPGA_COPY, &copy, EFAULT);
	copy = good_copy();
	copy.dst = (uintptr_t)constant;
	expect("to read-only memory", FPGA_COPY, &copy, EFAULT);
	copy = good_copy();
	copy.src = 0xffff888000000000ull;
	expect("from the kernel's addresses", FPGA_COPY, &copy, EFAULT);
	copy = good_copy();
	copy.dst = 0xffff888000000000ull;
	expect("to the kernel's addresses", FPGA_COPY, &copy, EFAULT);
	copy = good_copy();
	copy.src = 1ull << 62;
	expect("from no address at all", FPGA_COPY, &copy, EFAULT);
	if (copy.done || copy.transfers || copy.interrupts) {
		printf("a copy that could not begin says that it did something\n");
		failures++;
	}
	munmap(constant, (size_t)getpagesize());
}

static void test_copy_result(void)
{
	struct fpga_copy copy = good_copy();

	for (size_t i = 0; i < BYTES; i++)
		memory[i] = (unsigned char)(i * 7 + 1);
	memset(memory + BYTES, 0xee, BYTES);
	/* Two odd ends, across pages; pieces as they come. */
	copy.src += 3;
	copy.dst += 5;
	copy.length = BYTES - 9;
	expect("an odd copy", FPGA_COPY, &copy, 0);
	if (memcmp(memory + 3, memory + BYTES + 5, copy.length) ||
	    memory[BYTES + 4] != 0xee || memory[2 * BYTES - 4] != 0xee) {
		printf("an odd copy: the bytes are wrong\n");
		failures++;
	}
	if (copy.done != copy.length || copy.transfers != copy.interrupts || copy.transfers < 4 ||
	    copy.revoked || strcmp(copy.from.provider, "host")) {
		printf("an odd copy: the figures are wrong: %llu bytes, %u transfers, %u interrupts\n",
		       (unsigned long long)copy.done, copy.transfers, copy.interrupts);
		failures++;
	}
}

int main(void)
{
	struct fpga_info info = { .size = sizeof(info) };
	struct fpga_copy copy = good_copy();

	card = open("/dev/fpga0", O_RDWR | O_CLOEXEC);
	if (card < 0) {
		printf("/dev/fpga0: %s\n", strerror(errno));
		return 77;
	}
	test_sizes("INFO", FPGA_INFO, &info, sizeof(info), sizeof(info));
	test_sizes("COPY", FPGA_COPY, &copy, sizeof(copy), offsetof(struct fpga_copy, src_fd));
	info.flags = 1;
	expect("INFO with a flag", FPGA_INFO, &info, EINVAL);
	expect("an unknown call", FPGA_IOC(2), &info, ENOTTY);
	expect("the last call there could be", FPGA_IOC(255), &info, ENOTTY);
	expect("a call of another device", _IOWR('x', 1, int), &info, ENOTTY);
	test_copy_arguments();
	test_copy_addresses();
	test_copy_dmabufs();
	test_copy_result();
	printf("%d wrong\n", failures);
	return failures ? 1 : 0;
}
