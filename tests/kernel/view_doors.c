// SPDX-License-Identifier: MIT
/*
 * view_doors.c - other parts of the kernel are asked for the memory behind a CPU view; then
 * the pin ends, the memory is given to others, and nothing may reach it.
 *
 *	view_doors CARD DISK
 *
 * CARD: the PCI address of a DMA card that is bound to vfio-pci, behind an IOMMU, or "-" on a
 * kernel without VFIO. DISK: a block device. The process prepares as root, then tries each
 * door as a user without rights.
 *
 * The views are of GPU memory, by /dev/peerdma and by a dma-buf, and of host memory. A door
 * is closed if the kernel refuses the call, with an errno that is checked. Otherwise what was
 * asked for is used again after the pin has ended.
 */
#include <sys/prctl.h>

#include "peerdma_test_gpu.h"
#include "peerdma_test_users.h"
#include "view_doors.h"

#define STRANGER	4711
#define PIECES_MAX	4096

enum kind { OF_GPU, OF_DMABUF, OF_HOST, KINDS };
static const char *const kinds[KINDS] = { "GPU memory", "a dma-buf of GPU memory", "host memory" };

struct shown {
	enum kind kind;
	int file, dmabuf;
	uint32_t handle;
	uint64_t va;		/* of GPU memory */
	char *host;		/* or of host memory */
	char *view;
};

/* ---- GPU memory ---- */

static char pattern[VIEW_LENGTH], back[VIEW_LENGTH];

static void fill(uint64_t va, char byte)
{
	memset(pattern, byte, VIEW_LENGTH);
	CHECK(!cu.MemcpyHtoD(va, pattern, VIEW_LENGTH) && !cu.CtxSynchronize());
}

static size_t others(const char *bytes, char byte)
{
	size_t n = 0;

	for (size_t i = 0; i < VIEW_LENGTH; i++)
		n += bytes[i] != byte;
	return n;
}

/* ---- a view ---- */

static void show(struct shown *s)
{
	struct peerdma_pin_args a;

	s->file = dev_open();
	if (s->kind == OF_HOST) {
		s->host = host_memory(VIEW_LENGTH);
		memset(s->host, OWNED, VIEW_LENGTH);
		WORKS(pin(s->file, s->host, VIEW_LENGTH, PEERDMA_PIN_HOST, &a));
	} else {
		s->va = gpu_alloc(VIEW_LENGTH);
		fill(s->va, OWNED);
		WORKS(pin_va(s->file, s->va, VIEW_LENGTH, PEERDMA_PIN_DEVICE, &a));
	}
	s->handle = a.handle;
	s->dmabuf = -1;
	if (s->kind == OF_DMABUF) {
		s->dmabuf = export(s->file, a.handle, 0, VIEW_LENGTH);
		s->view = mmap(NULL, VIEW_LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, s->dmabuf, 0);
	} else {
		s->view = view(s->file, a.handle, VIEW_LENGTH, PROT_READ | PROT_WRITE);
	}
	CHECK(s->view != MAP_FAILED && s->view[0] == OWNED && s->view[VIEW_LENGTH - 1] == OWNED);
}

/* Ends the pin: GPU memory is freed, host memory unpinned.  Then others use the memory. */
static void after_host(struct shown *s, const struct door *door)
{
	WORKS(unpin(s->file, s->handle));
	memset(s->host, REUSED, VIEW_LENGTH);
	if (door->after)
		door->after(s->view);
	CHECK(others(s->host, REUSED) == 0);
	munmap(s->host, VIEW_LENGTH);
}

static void after_gpu(struct shown *s, const struct door *door)
{
	static unsigned long long pieces[PIECES_MAX];
	size_t n = 0;

	CHECK(!cu.MemFree(s->va));
	while (n < PIECES_MAX && !cu.MemAlloc(&pieces[n], VIEW_LENGTH))
		fill(pieces[n++], REUSED);
	CHECK(n > 0 && n < PIECES_MAX);
	if (door->after)
		door->after(s->view);
	while (n--) {
		CHECK(!cu.MemcpyDtoH(back, pieces[n], VIEW_LENGTH) && others(back, REUSED) == 0);
		CHECK(!cu.MemFree(pieces[n]));
	}
}

static void one(const struct door *door, enum kind kind)
{
	struct shown s = { .kind = kind };
	unsigned long before = check_counts.failures;

	show(&s);
	door->enter(s.view);
	if (kind == OF_HOST)
		after_host(&s, door);
	else
		after_gpu(&s, door);
	/* However the view was used: the program itself has lost it. */
	if (s.view)
		CHECK(signal_of_read(s.view) == SIGBUS && signal_of_write(s.view, OWNED) == SIGBUS);
	munmap(s.view, VIEW_LENGTH);
	if (s.dmabuf >= 0)
		close(s.dmabuf);
	close(s.file);
	printf("%s %s: %s\n", check_counts.failures == before ? "ok  " : "FAIL", kinds[kind], door->name);
}

static void all_kinds(const struct door *door)
{
	const char *why = door->missing ? door->missing() : NULL;

	if (why)
		return skip(door->name, why);
	for (enum kind kind = 0; kind < KINDS; kind++)
		one(door, kind);
}

int main(int argc, char **argv)
{
	const char *why = "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 3) {
		fprintf(stderr, "usage: view_doors CARD DISK\n");
		return 2;
	}
	door_vfio_prepare(argv[1]);
	doors_of_calls_prepare(argv[2]);
	may_lock(64 * MIB);
	become(STRANGER, 0);
	/* A change of user makes /proc/self root's. */
	CHECK(!prctl(PR_SET_DUMPABLE, 1));
	if (!memory_open(&why)) {
		printf("no GPU memory: %s\n", why);
		return 1;
	}
	all_kinds(&door_vfio);
	all_kinds(&door_kvm);
	for (const struct door *door = doors_of_calls; door->name; door++)
		all_kinds(door);
	return check_end("ways around a view");
}
