// SPDX-License-Identifier: MIT
/* page_views_util.c - see page_views.h */
#include <arpa/inet.h>
#include <linux/io_uring.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "page_views.h"

int pages(int fd, uint32_t handle, uint32_t flags, uint64_t offset, uint64_t length)
{
	struct peerdma_pages_args a = {
		.size = sizeof(a), .handle = handle, .flags = flags, .offset = offset, .length = length,
	};

	return ioctl(fd, PEERDMA_PAGES, &a) ? -1 : a.fd;
}

int pages_for_disk(int fd, uint32_t handle)
{
	struct peerdma_pages_args a = { .size = sizeof(a), .handle = handle, .flags = PEERDMA_PAGES_FOR_DEVICE };
	unsigned int device, function;
	char path[256];
	ssize_t n = readlink("/sys/block/nvme0n1/device/device", path, sizeof(path) - 1);

	MUST(n > 0);
	path[n] = 0;
	MUST(sscanf(strrchr(path, '/') + 1, "%x:%x:%x.%x", &a.domain, &a.bus, &device, &function) == 4);
	a.devfn = device << 3 | function;
	return ioctl(fd, PEERDMA_PAGES, &a) ? -1 : a.fd;
}

void seen_make_length(struct seen *s, uint32_t flags, size_t length)
{
	struct peerdma_pin_args a;

	s->length = length;
	s->file = dev_open();
	s->va = gpu_alloc(length);
	WORKS(pin_va(s->file, s->va, length, PEERDMA_PIN_DEVICE, &a));
	s->handle = a.handle;
	s->fd = pages(s->file, a.handle, flags, 0, 0);
	MUST(s->fd >= 0);
	s->view = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	MUST(s->view != MAP_FAILED);
}

void seen_make(struct seen *s, uint32_t flags)
{
	seen_make_length(s, flags, SEEN_LENGTH);
}

void seen_free(struct seen *s)
{
	CHECK(!cu.MemFree(s->va));
}

void seen_end(struct seen *s)
{
	CHECK(!munmap(s->view, s->length) && !close(s->fd) && !close(s->file));
}

unsigned int kept(const char *client)
{
	char line[4096];
	unsigned int n = 0;
	FILE *f = fopen("/sys/kernel/debug/peerdma/pins", "re");

	MUST(f);
	while (fgets(line, sizeof(line), f))
		n += !!strstr(line, client);
	fclose(f);
	return n;
}

void none_left(void)
{
	int fd = dev_open();

	CHECK(UNTIL(!kept("page view") && !live_pins(fd)));
	close(fd);
	check_none_left();
}

char bytes[SEEN_LENGTH] __attribute__((aligned(4096)));

void pattern(unsigned int seed)
{
	for (size_t i = 0; i < SEEN_LENGTH; i += sizeof(seed)) {
		memcpy(bytes + i, &seed, sizeof(seed));
		seed = seed * 1664525 + 1013904223;
	}
}

void gpu_write(uint64_t va)
{
	CHECK(!cu.MemcpyHtoD(va, bytes, SEEN_LENGTH) && !cu.CtxSynchronize());
}

bool gpu_has(uint64_t va)
{
	static char back[SEEN_LENGTH];

	CHECK(!cu.MemcpyDtoH(back, va, SEEN_LENGTH) && !cu.CtxSynchronize());
	return !memcmp(back, bytes, SEEN_LENGTH);
}

ssize_t read_part(const struct seen *s, size_t offset, size_t length)
{
	ssize_t n = pread(disk, s->view + offset, length, (off_t)offset);

	return n < 0 ? -errno : n;
}

ssize_t read_into(const struct seen *s)
{
	return read_part(s, 0, s->length);
}

ssize_t pipe_offer(int ends[2], char *page)
{
	struct iovec v = { page, PAGE };

	MUST(!pipe(ends));
	return vmsplice(ends[1], &v, 1, 0);
}

void pipe_take(int ends[2], char *page)
{
	CHECK(pipe_offer(ends, page) == (ssize_t)PAGE);
}

int register_buffer(void *addr, size_t length, int *ring)
{
	struct io_uring_params p = { 0 };
	struct iovec v = { addr, length };

	*ring = (int)syscall(SYS_io_uring_setup, 4, &p);
	MUST(*ring >= 0);
	return syscall(SYS_io_uring_register, *ring, IORING_REGISTER_BUFFERS, &v, 1) ? errno : 0;
}

/* ---- a socket ---- */

#define BEFORE	(256 * KIB)	/* bytes in front of the page: more than the receiver has room for */

/* TCP over the loopback device. */
static void connect_both(int ends[2])
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), few = 4096, many = 4 * BEFORE, on = 1;
	socklen_t length = sizeof(to);

	WORKS(ioctl(listener, SIOCSIFFLAGS, &lo));
	WORKS(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &few, sizeof(few)));
	WORKS(bind(listener, (struct sockaddr *)&to, sizeof(to)));
	WORKS(listen(listener, 1));
	WORKS(getsockname(listener, (struct sockaddr *)&to, &length));
	ends[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	WORKS(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUFFORCE, &many, sizeof(many)));
	WORKS(setsockopt(ends[1], SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)));
	WORKS(connect(ends[1], (struct sockaddr *)&to, sizeof(to)));
	ends[0] = accept(listener, NULL, NULL);
	MUST(ends[0] >= 0);
	close(listener);
}

bool socket_take(int ends[2], const char *page)
{
	static const char before[BEFORE];

	connect_both(ends);
	CHECK(send(ends[1], before, BEFORE, 0) == (ssize_t)BEFORE);
	return send(ends[1], page, PAGE, MSG_ZEROCOPY) == (ssize_t)PAGE;
}

bool socket_has(int ends[2], char byte)
{
	char got[4096];
	size_t all = 0;
	ssize_t n = 1;

	shutdown(ends[1], SHUT_WR);
	for (; n > 0; all += n > 0 ? (size_t)n : 0) {
		n = recv(ends[0], got, sizeof(got), 0);
		for (ssize_t i = 0; i < n; i++) {
			if (got[i] != (all + (size_t)i < BEFORE ? 0 : byte))
				return false;
		}
	}
	close(ends[0]);
	close(ends[1]);
	return all == BEFORE + PAGE;
}
