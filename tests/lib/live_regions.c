// SPDX-License-Identifier: MIT
/*
 * live_regions.c - libpeerdma with a GPU, on each back-end that a machine has: the
 * real module and a PCI device in the VM (tests/vm/lib-regions.sh), or the software
 * GPU in this process.
 *
 *	live_regions kernel PCI-ADDRESS PEERDMA-COMMAND
 *	live_regions dmabuf		(softgpu.ko or a real GPU, without peerdma.ko)
 *	live_regions soft
 *
 * Exits with 77 when this process may not lock as much memory as it takes.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "cuda_calls.h"
#include "peerdma.h"
#include "peerdma_copy.h"
#include "checks.h"

#define KIB 1024UL
#define MIB (1UL << 20)

static struct cuda_calls cu;
static struct peerdma *ctx;
static const char *card, *command;	/* NULL: this back-end has no devices; no module to ask */
static sigjmp_buf after_sigbus;

/* What there is to be seen of a back-end, for the GPU's memory and for the host's. */
static const struct subject {
	const char *name, *of_host;
	int devices, kernel, views, tells;
} subjects[] = {
	{ .name = "kernel", .of_host = "kernel", .devices = 1, .kernel = 1, .views = 1, .tells = 1 },
	{ .name = "dmabuf", .of_host = "host" },
	{ .name = "soft", .of_host = "host", .views = 1, .tells = 1 },
}, *subject;

static void on_sigbus(int signal)
{
	siglongjmp(after_sigbus, signal);
}

/* Does a touch raise SIGBUS? */
static int dead(volatile char *p)
{
	if (sigsetjmp(after_sigbus, 1))
		return 1;
	*p = 1;
	return 0;
}

static void *ptr(gpu_ptr p)
{
	return (void *)(uintptr_t)p;
}

static struct peerdma_status status(struct peerdma_region *r)
{
	struct peerdma_status s = { .size = sizeof(s) };

	CHECK(!peerdma_status(r, &s), "status");
	return s;
}

/* Runs the command and looks for the text in what it prints. */
static int shows(const char *arguments, const char *text)
{
	char line[1024];
	int found = 0;
	FILE *f;

	snprintf(line, sizeof(line), "%s %s", command, arguments);
	f = popen(line, "r");
	while (f && fgets(line, sizeof(line), f)) {
		printf("  | %s", line);
		found |= !!strstr(line, text);
	}
	return f && !pclose(f) && found;
}

static void addresses(struct peerdma_region *r, const char *what)
{
	struct peerdma_status s = status(r);
	const struct peerdma_range *ranges;
	struct peerdma_mapping *m;
	uint64_t sum = 0;
	size_t n;

	if (!subject->devices) {
		CHECK(peerdma_map(r, "03:00.0", PEERDMA_TO_DEVICE, &m) == -EOPNOTSUPP, "%s: no addresses: %s", what,
		      peerdma_last_error());
		return;
	}
	if (!CHECK(!peerdma_map(r, card, PEERDMA_TO_DEVICE | PEERDMA_FROM_DEVICE, &m), "%s: mapped for %s", what, card))
		return;
	ranges = peerdma_ranges(m, &n);
	for (size_t i = 0; i < n; i++)
		sum += ranges[i].length;
	CHECK(sum == s.pinned_length, "%s: %zu ranges cover %llu of %llu bytes, the first at %#llx", what, n,
	      (unsigned long long)sum, (unsigned long long)s.pinned_length, (unsigned long long)ranges[0].addr);
	CHECK(status(r).mappings == 1, "%s: one mapping", what);
	CHECK(!peerdma_unmap(m) && !status(r).mappings, "%s: unmapped", what);
	CHECK(peerdma_map(r, "ff:1f.7", PEERDMA_TO_DEVICE, &m) == -ENODEV, "%s: no such device: %s", what,
	      peerdma_last_error());
}

static void host_memory(void)
{
	char *p = malloc(300000), *view;
	struct peerdma_region *r, *again;
	struct peerdma_status s;
	int fd = -1;

	memset(p, 0, 300000);
	CHECK(!peerdma_pin(ctx, p + 100, 200000, 0, NULL, &r), "host memory is pinned without being told what it is");
	s = status(r);
	CHECK(s.flags & PEERDMA_HOST && !strcmp(s.provider, "host") && s.page_size == (uint32_t)getpagesize(), "by provider host");
	CHECK(!strcmp(s.backend, subject->of_host) && s.direct == (uint32_t)subject->kernel, "of back-end %s", s.backend);
	CHECK((*peerdma_why(r) != 0) != subject->kernel, "and none better because '%s'", peerdma_why(r));
	CHECK(s.pinned_addr <= (uintptr_t)p + 100 && s.pinned_addr + s.pinned_length >= (uintptr_t)p + 200100,
	      "all of it");
	CHECK(peerdma_valid(r), "valid");
	CHECK(!peerdma_cpu_view(r, (void **)&view), "a view");
	memcpy(view, "through the view", 17);
	CHECK(!strcmp(p + 100, "through the view"), "is of the same memory");
	addresses(r, "host memory");
	if (subject->kernel) {
		CHECK(!peerdma_export_dmabuf(r, 0, 0, &fd), "exported");
		CHECK(lseek(fd, 0, SEEK_END) == (off_t)s.pinned_length && status(r).exports == 1, "a dma-buf of its size");
		close(fd);
	} else {
		CHECK(peerdma_export_dmabuf(r, 0, 0, &fd) == -EOPNOTSUPP, "no dma-buf: %s", peerdma_last_error());
		CHECK(peerdma_pin(ctx, p, 4096, PEERDMA_DIRECT, NULL, &again) && strstr(peerdma_last_error(), subject->name) &&
		      strstr(peerdma_last_error(), "host: "), "not when only the direct path will do: %s", peerdma_last_error());
	}
	CHECK(!peerdma_cpu_view_end(r, view) && !status(r).views, "view ended");
	CHECK(!peerdma_unpin(r), "unpinned");
	CHECK(peerdma_pin(ctx, NULL, 4096, PEERDMA_HOST, NULL, &r) == -EFAULT, "no memory: %s", peerdma_last_error());
	CHECK(peerdma_pin(ctx, p, 0, 0, NULL, &r) == -EINVAL, "no length: %s", peerdma_last_error());
	CHECK(peerdma_pin(ctx, p, 4096, PEERDMA_HOST | PEERDMA_PERSISTENT, NULL, &r) == -EOPNOTSUPP, "persistent: %s",
	      peerdma_last_error());
	CHECK(peerdma_pin(ctx, (void *)0x100000000000, 4096, PEERDMA_DEVICE, NULL, &r) == -ENXIO, "no GPU's: %s",
	      peerdma_last_error());
	free(p);
}

static void seen_by_command(gpu_ptr p)
{
	char text[64];

	snprintf(text, sizeof(text), "%#llx", p + 100);
	CHECK(shows("pins", text), "peerdma pins shows it");
	snprintf(text, sizeof(text), "\"pid\": %d", getpid());
	CHECK(shows("pins --json", text), "peerdma pins --json");
	snprintf(text, sizeof(text), "pid %d live_regions: 128 KiB in 1 pin", getpid());
	CHECK(shows("bar1 --ascii", text), "peerdma bar1 shows who holds its aperture");
	CHECK(shows("bar1 --json", "\"held_by_peerdma\": 131072"), "peerdma bar1 --json");
}

static void gpu_memory(void)
{
	struct peerdma_memory m = { .size = sizeof(m) };
	struct peerdma_region *r;
	struct peerdma_status s;
	char back[64] = "", *view;
	gpu_ptr p;
	int sync = 0;

	CHECK(!cu.cuMemAlloc_v2(&p, MIB), "1 MiB of GPU memory");
	cu.cuMemsetD8_v2(p, 7, MIB);
	CHECK(!peerdma_query(ctx, ptr(p + 5000), &m) && m.kind == PEERDMA_KIND_DEVICE && m.base == p && m.device == 0,
	      "query: device memory of %s", m.pci);
	CHECK(!peerdma_pin(ctx, ptr(p + 100), 100000, 0, NULL, &r), "pinned");
	s = status(r);
	CHECK(s.flags & PEERDMA_DEVICE && s.pinned_addr <= p + 100 && s.pinned_addr + s.pinned_length >= p + 100100 &&
	      s.pinned_addr % s.page_size == 0 && s.sync_memops, "by provider %s, pages of %u", s.provider, s.page_size);
	CHECK(!strcmp(s.backend, subject->name) && s.direct && s.by_id == !subject->tells, "of back-end %s", s.backend);
	CHECK((*peerdma_why(r) != 0) == !strcmp(s.backend, "dmabuf"), "and none better because '%s'", peerdma_why(r));
	CHECK(!cu.cuPointerGetAttribute(&sync, 6, p) && sync == 1, "SYNC_MEMOPS is set");
	if (subject->views) {
		CHECK(!peerdma_cpu_view(r, (void **)&view), "a view");
		CHECK(view[0] == 7 && view[99999] == 7, "shows what the GPU has");
		memcpy(view, "written by the CPU", 19);
		__sync_synchronize();
		CHECK(!cu.cuMemcpyDtoH_v2(back, p + 100, 19) && !strcmp(back, "written by the CPU"),
		      "and the GPU what it writes");
	} else {
		CHECK(peerdma_cpu_view(r, (void **)&view) == -EOPNOTSUPP, "no view: %s", peerdma_last_error());
	}
	addresses(r, "GPU memory");

	if (command)
		seen_by_command(p);
	CHECK(!peerdma_unpin(r), "unpinned, with a view left");
	cu.cuMemFree_v2(p);
}

/* Of cuMemCreate() without gpuDirectRDMACapable: the driver does not pin it, CUDA exports it. */
static void incapable_memory(void)
{
	struct cuda_prop prop = { .type = 1, .location_type = 1 };
	struct peerdma_memory m = { .size = sizeof(m) };
	unsigned long long handle;
	struct peerdma_region *r;
	gpu_ptr p = 0;
	int fd;

	CHECK(!cu.cuMemCreate(&handle, 2 * MIB, &prop, 0) && !cu.cuMemAddressReserve(&p, 2 * MIB, 0, 0, 0) &&
	      !cu.cuMemMap(p, 2 * MIB, 0, handle, 0), "memory without gpuDirectRDMACapable");
	CHECK(!peerdma_query(ctx, ptr(p), &m) && m.flags == (PEERDMA_MEMORY_CUDA | PEERDMA_MEMORY_VMM), "its flags: %#x", m.flags);
	if (!strcmp(subject->name, "soft")) {
		CHECK(peerdma_pin(ctx, ptr(p), MIB, PEERDMA_DIRECT, NULL, &r) == -ENXIO &&
		      strstr(peerdma_last_error(), "this memory is not capable of GPUDirect RDMA"), "not pinned: %s", peerdma_last_error());
	} else if (CHECK(!peerdma_pin(ctx, ptr(p), MIB, PEERDMA_DIRECT, NULL, &r), "pinned: %s", peerdma_last_error())) {
		CHECK(!strcmp(status(r).backend, "dmabuf"), "by a dma-buf (%s)", status(r).backend);
		CHECK(!subject->kernel || strstr(peerdma_why(r), "kernel: this memory is not capable of GPUDirect RDMA"), "not by '%s'",
		      peerdma_why(r));
		CHECK(!peerdma_export_dmabuf(r, 0, 0, &fd) && lseek(fd, 0, SEEK_END) == (off_t)MIB, "which the program gets");
		close(fd);
		CHECK(!peerdma_unpin(r), "unpinned");
	}
	cu.cuMemUnmap(p, 2 * MIB);
	cu.cuMemRelease(handle);
	cu.cuMemAddressFree(p, 2 * MIB);
}

/* No notification comes, but a query finds it, whatever is at that address by now. */
static void freed_unseen(void)
{
	struct peerdma_notice n = { .size = sizeof(n) };
	struct peerdma_region *r, *kept = NULL;
	gpu_ptr p, q;
	int fd = -1, part = -1;

	cu.cuMemAlloc_v2(&p, MIB);
	CHECK(!peerdma_pin(ctx, ptr(p), MIB, PEERDMA_DIRECT, NULL, &r) &&
	      !peerdma_pin(ctx, ptr(p), MIB, PEERDMA_PERSISTENT, NULL, &kept), "two pins, one persistent");
	CHECK(status(r).state == PEERDMA_STATE_LIVE && !peerdma_valid(r), "is alive, if queried; no notification vouches for it");
	CHECK(!peerdma_export_dmabuf(r, 0, 0, &fd) && lseek(fd, 0, SEEK_END) == (off_t)MIB, "a dma-buf of its size");
	CHECK(!peerdma_export_dmabuf(r, 64 * KIB, 64 * KIB, &part) && lseek(part, 0, SEEK_END) == (off_t)(64 * KIB),
	      "and of a part");
	close(part);
	cu.cuMemFree_v2(p);
	CHECK(status(r).state == PEERDMA_STATE_REVOKED, "freed: its state says so");
	cu.cuMemAlloc_v2(&q, MIB);
	CHECK(status(r).state == PEERDMA_STATE_REVOKED, "also with other memory at %s address",
	      p == q ? "the same" : "another");
	CHECK(peerdma_export_dmabuf(r, 64 * KIB, 64 * KIB, &part) == -ESTALE, "no more parts: %s", peerdma_last_error());
	CHECK(lseek(fd, 0, SEEK_END) == (off_t)MIB, "the dma-buf holds the memory");
	CHECK(peerdma_next_event(ctx, &n, 0) == -EAGAIN, "no notice");
	CHECK(status(kept).state == PEERDMA_STATE_LIVE && peerdma_valid(kept), "the persistent pin is of the memory");
	close(fd);
	CHECK(!peerdma_unpin(r) && !peerdma_unpin(kept) && !cu.cuMemFree_v2(q), "unpinned, freed");
}

static void revocation(void)
{
	struct peerdma_memory m = { .size = sizeof(m) };
	struct peerdma_notice n = { .size = sizeof(n) };
	struct pollfd poll_for = { .fd = peerdma_event_fd(ctx), .events = POLLIN };
	struct peerdma_region *r, *other;
	struct peerdma_mapping *map;
	char *view;
	gpu_ptr p, q;
	int fd = -1;

	cu.cuMemAlloc_v2(&p, MIB);
	cu.cuMemAlloc_v2(&q, MIB);
	CHECK(!peerdma_pin(ctx, ptr(p), MIB, PEERDMA_DEVICE, "the cookie", &r) &&
	      !peerdma_pin(ctx, ptr(q), MIB, PEERDMA_DEVICE, NULL, &other), "two pins");
	CHECK(!peerdma_cpu_view(r, (void **)&view) && !dead(view), "a live view");
	if (subject->devices)
		CHECK(!peerdma_map(r, card, PEERDMA_TO_DEVICE, &map) && !peerdma_export_dmabuf(r, 0, 0, &fd),
		      "a mapping, a dma-buf");
	CHECK(peerdma_next_event(ctx, &n, 0) == -EAGAIN && !poll(&poll_for, 1, 0), "no events");
	CHECK(peerdma_valid(r) && peerdma_valid(other), "both valid");

	cu.cuMemFree_v2(p);
	CHECK(!peerdma_valid(r), "cuMemFree has returned: not valid any more, without a system call");
	CHECK(peerdma_valid(other), "the other one still is");
	CHECK(dead(view), "the view raises SIGBUS");
	CHECK(poll(&poll_for, 1, 1000) == 1, "an event waits");
	CHECK(!peerdma_next_event(ctx, &n, 1000) && n.region == r && !strcmp(n.cookie, "the cookie") && n.addr == p &&
	      n.length == MIB, "it names the region, the cookie and the range");
	CHECK(peerdma_next_event(ctx, &n, 0) == -EAGAIN, "once");
	CHECK(status(r).state == PEERDMA_STATE_REVOKED && !status(r).mappings, "its state, and no mappings");
	if (command)
		CHECK(shows("pins", "revoked"), "peerdma pins says so");
	CHECK(peerdma_cpu_view(r, (void **)&view) == -ESTALE, "no view: %s", peerdma_last_error());
	if (subject->devices) {
		CHECK(peerdma_map(r, card, PEERDMA_TO_DEVICE, &map) == -ESTALE, "no mapping: %s", peerdma_last_error());
		close(fd);
		CHECK(peerdma_export_dmabuf(r, 0, 0, &fd) == -ESTALE, "no dma-buf: %s", peerdma_last_error());
	}
	CHECK(!peerdma_query(ctx, ptr(p), &m) && m.kind == PEERDMA_KIND_UNKNOWN, "the pointer is not known any more");
	CHECK(!peerdma_unpin(r) && !peerdma_unpin(other), "unpinned");
	cu.cuMemFree_v2(q);

	cu.cuMemAlloc_v2(&p, MIB);
	CHECK(!peerdma_pin(ctx, ptr(p), MIB, PEERDMA_PERSISTENT, NULL, &r), "a persistent pin");
	CHECK(!peerdma_cpu_view(r, (void **)&view), "its view");
	*view = 42;
	cu.cuMemFree_v2(p);
	CHECK(peerdma_valid(r) && !dead(view + 1) && *view == 42, "outlives the allocation");
	CHECK(!peerdma_unpin(r), "and ends with unpin");

	/* Unpinned before its event is read: there is none. */
	cu.cuMemAlloc_v2(&p, MIB);
	CHECK(!peerdma_pin(ctx, ptr(p), MIB, 0, NULL, &r), "a pin");
	cu.cuMemFree_v2(p);
	CHECK(!peerdma_unpin(r) && peerdma_next_event(ctx, &n, 0) == -EAGAIN, "revoked, unpinned: no event");
}

/* In a daemon that has closed its standard input, what a context opens may be descriptor 0. */
static void without_input(void)
{
	struct peerdma_notice n = { .size = sizeof(n) };
	struct pollfd poll_for = { .events = POLLIN };
	struct peerdma_region *r;
	struct peerdma *own;
	int kept = dup(0);
	gpu_ptr p;

	close(0);
	if (!CHECK(!peerdma_open(&own, 0), "a context without standard input: %s", peerdma_last_error()))
		return;
	poll_for.fd = peerdma_event_fd(own);
	cu.cuMemAlloc_v2(&p, MIB);
	CHECK(!peerdma_pin(own, ptr(p), MIB, PEERDMA_DEVICE, NULL, &r), "its pin");
	CHECK(peerdma_next_event(own, &n, 0) == -EAGAIN && !poll(&poll_for, 1, 0), "no events on descriptor %d", poll_for.fd);
	cu.cuMemFree_v2(p);
	alarm(60);	/* where it is reported, and not found, this call would wait for ever */
	CHECK(poll(&poll_for, 1, 1000) == 1 && !peerdma_next_event(own, &n, 1000) && n.region == r, "the free is reported");
	alarm(0);
	CHECK(peerdma_next_event(own, &n, 0) == -EAGAIN && !poll(&poll_for, 1, 0), "once");
	CHECK(!peerdma_unpin(r), "unpinned");
	peerdma_close(own);
	CHECK(fcntl(0, F_GETFD) < 0, "closed with the context");
	if (kept >= 0) {
		dup2(kept, 0);
		close(kept);
	}
}

/* Through a write-combined view, at odd places; CUDA and the view see what the other wrote. */
static void moving(void)
{
	static const size_t sizes[] = { 1, 63, 64, 4095, 65537, MIB - 77 };
	unsigned char *data = malloc(MIB), *back = malloc(MIB), *view;
	struct peerdma_region *r;
	gpu_ptr p;

	cu.cuMemAlloc_v2(&p, MIB);
	CHECK(!peerdma_pin(ctx, ptr(p), MIB, 0, NULL, &r) && !peerdma_cpu_view(r, (void **)&view), "a view to copy through");
	for (size_t i = 0; i < MIB; i++)
		data[i] = (unsigned char)(i * 2654435761U >> 24);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = sizes[i], at = 7 * i;

		cu.cuMemsetD8_v2(p, 0x5a, MIB);
		peerdma_copy_to_view(view + at, data + 3, n);
		peerdma_view_fence();
		CHECK(!cu.cuMemcpyDtoH_v2(back, p, MIB) && !memcmp(back + at, data + 3, n) &&
		      (!at || back[at - 1] == 0x5a) && back[at + n] == 0x5a, "%s: CUDA reads %zu bytes written at %zu",
		      peerdma_copy_method(), n, at);
		memset(back, 0, MIB);
		peerdma_copy_from_view(back + 5, view + at, n);
		CHECK(!memcmp(back + 5, data + 3, n) && !back[4] && !back[5 + n], "and they are read back");
	}
	CHECK(!peerdma_unpin(r) && !cu.cuMemFree_v2(p), "unpinned, freed");
	free(data);
	free(back);
}

/* A copy, for who asks for it. */
static void staged(void)
{
	const char *before = getenv("PEERDMA_PROVIDER");
	char old[64] = "", back[8] = "", *view = back;
	struct peerdma_region *r;
	struct peerdma *own;
	gpu_ptr p;

	if (before)
		snprintf(old, sizeof(old), "%s", before);
	setenv("PEERDMA_PROVIDER", "staging,host", 1);
	cu.cuMemAlloc_v2(&p, MIB);
	cu.cuMemsetD8_v2(p, 7, MIB);
	CHECK(!peerdma_open(&own, 0) && peerdma_pin(own, ptr(p + 100), 100000, 0, NULL, &r) < 0, "no copy: %s",
	      peerdma_last_error());
	CHECK(!peerdma_pin(own, ptr(p + 100), 100000, PEERDMA_STAGING, NULL, &r) && !peerdma_cpu_view(r, (void **)&view),
	      "a copy for who asks");
	CHECK(!strcmp(status(r).backend, "staging") && !status(r).direct && view[0] == 7 && view[99999] == 7,
	      "says that it is one, and has what the GPU has");
	memcpy(view, "copied", 7);
	CHECK(!peerdma_sync(r, 0, 7, PEERDMA_FROM_DEVICE) && !cu.cuMemcpyDtoH_v2(back, p + 100, 7) && !strcmp(back, "copied"),
	      "to the GPU");
	cu.cuMemsetD8_v2(p, 9, MIB);
	CHECK(!peerdma_sync(r, 0, 0, PEERDMA_TO_DEVICE) && view[0] == 9 && view[99999] == 9, "and from it");
	cu.cuMemFree_v2(p);
	CHECK(peerdma_sync(r, 0, 0, PEERDMA_FROM_DEVICE) == -ESTALE && status(r).state == PEERDMA_STATE_REVOKED, "freed: %s",
	      peerdma_last_error());
	CHECK(!peerdma_unpin(r), "unpinned");
	peerdma_close(own);
	if (before)
		setenv("PEERDMA_PROVIDER", old, 1);
	else
		unsetenv("PEERDMA_PROVIDER");
}

static int child(struct peerdma_region *r, gpu_ptr p, char *host)
{
	struct peerdma_memory m = { .size = sizeof(m) };
	struct peerdma_region *own;
	struct peerdma *second;

	check_counts.failures = 0;
	CHECK(!peerdma_query(NULL, ptr(p), &m) && m.kind == PEERDMA_KIND_UNKNOWN, "child: the parent's GPU memory is not known");
	CHECK(!peerdma_query(NULL, host, &m) && m.kind == PEERDMA_KIND_HOST, "child: host memory is");
	CHECK(peerdma_pin(ctx, host, 4096, 0, NULL, &own) == -EPERM, "child: %s", peerdma_last_error());
	CHECK(peerdma_valid(r) == subject->tells, "child: sees that the parent's pin lives");
	CHECK(!peerdma_open(&second, 0) && !peerdma_pin(second, host, 4096, 0, NULL, &own), "child: pins with its own context");
	peerdma_close(second);
	CHECK(!peerdma_unpin(r), "child: gives back its copy of the region");
	peerdma_close(ctx);
	return check_counts.failures != 0;
}

static void forked(void)
{
	char *host = malloc(MIB), *view;
	struct peerdma_region *r;
	int wait_status = -1;
	gpu_ptr p;
	pid_t pid;

	memset(host, 1, MIB);
	cu.cuMemAlloc_v2(&p, MIB);
	CHECK(!peerdma_pin(ctx, ptr(p), MIB, 0, NULL, &r), "a pin before a fork");
	view = host;
	if (subject->views)
		CHECK(!peerdma_cpu_view(r, (void **)&view), "and a view");
	pid = fork();
	if (!pid)
		_exit(child(r, p, host));
	waitpid(pid, &wait_status, 0);
	CHECK(wait_status == 0, "the child has no complaints");
	CHECK(peerdma_valid(r) == subject->tells && status(r).state == PEERDMA_STATE_LIVE && !dead(view), "the parent's pin and view live on");
	CHECK(!peerdma_unpin(r), "until it unpins");

	pid = fork();
	if (!pid)
		exit(0);	/* with the handlers of libraries that run at exit */
	waitpid(pid, &wait_status, 0);
	CHECK(wait_status == 0, "a child that just exits");
	CHECK(!cu.cuMemFree_v2(p), "the parent's CUDA works on");
	free(host);
}

struct race {
	pthread_barrier_t begin, over;
	gpu_ptr memory;
};

static void *frees(void *arg)
{
	struct race *race = arg;

	for (;;) {
		pthread_barrier_wait(&race->begin);
		if (!race->memory)
			return NULL;
		cu.cuMemFree_v2(race->memory);
		pthread_barrier_wait(&race->over);
	}
}

/* Memory is freed while its pin is looked at, viewed, waited for, unpinned: in whatever order it comes. */
static void racing(void)
{
	struct race race = { .memory = 1 };
	struct peerdma_notice n = { .size = sizeof(n) };
	struct peerdma_region *r;
	pthread_t thread;
	int bad = 0;

	pthread_barrier_init(&race.begin, NULL, 2);
	pthread_barrier_init(&race.over, NULL, 2);
	CHECK(!pthread_create(&thread, NULL, frees, &race), "a second thread");
	for (int i = 0; i < 300; i++) {
		void *view;
		int ret;

		cu.cuMemAlloc_v2(&race.memory, 64 * KIB * (1 + i % 3));
		bad += !!peerdma_pin(ctx, ptr(race.memory), 64 * KIB, 0, &race, &r);
		pthread_barrier_wait(&race.begin);
		if (i % 4 == 1) {
			ret = peerdma_cpu_view(r, &view);
			bad += ret && ret != -ESTALE;
		} else if (i % 4 == 2) {
			ret = peerdma_next_event(ctx, &n, 60000);
			bad += ret || n.region != r || n.cookie != &race || peerdma_valid(r);
		} else if (i % 4 == 3) {
			ret = peerdma_next_event(ctx, &n, 0);
			bad += ret ? ret != -EAGAIN : n.region != r;
		}
		bad += !!peerdma_unpin(r);
		pthread_barrier_wait(&race.over);
	}
	race.memory = 0;
	pthread_barrier_wait(&race.begin);
	pthread_join(thread, NULL);
	CHECK(!bad, "300 times freed while in use, %d were not as they should be", bad);
	CHECK(peerdma_next_event(ctx, &n, 0) == -EAGAIN, "no notice is left");
}

static int enough_to_lock(void)
{
	void *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int enough = p != MAP_FAILED && !syscall(SYS_mlock, p, MIB);

	if (p != MAP_FAILED)
		munmap(p, MIB);
	return enough;
}

int main(int argc, char **argv)
{
	int device;
	void *context;

	for (size_t i = 0; argc > 1 && i < sizeof(subjects) / sizeof(subjects[0]); i++) {
		if (!strcmp(argv[1], subjects[i].name))
			subject = &subjects[i];
	}
	if (!subject || argc != (subject->kernel ? 4 : 2)) {
		fprintf(stderr, "Usage: live_regions kernel PCI-ADDRESS PEERDMA-COMMAND, or live_regions BACK-END\n");
		return 2;
	}
	if (!subject->kernel && !enough_to_lock()) {
		fprintf(stderr, "skipped: this process may not lock 1 MiB of memory (ulimit -l)\n");
		return 77;
	}
	if (subject->kernel) {
		card = argv[2];
		command = argv[3];
	}
	signal(SIGBUS, on_sigbus);
	if (peerdma_open(&ctx, 0)) {
		fprintf(stderr, "%s\n", peerdma_last_error());
		return 1;
	}
	host_memory();
	if (!cuda_calls_load(&cu) || cu.cuInit(0) || cu.cuDeviceGet(&device, 0) ||
	    cu.cuDevicePrimaryCtxRetain(&context, device) || cu.cuCtxSetCurrent(context)) {
		fprintf(stderr, "CUDA does not start\n");
		return 1;
	}
	host_memory();
	gpu_memory();
	incapable_memory();
	if (subject->views)
		moving();
	if (subject->tells) {
		revocation();
		without_input();
		racing();
	} else {
		freed_unseen();
	}
	staged();
	forked();
	peerdma_close(ctx);
	return check_end(NULL);
}
