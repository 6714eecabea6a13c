// SPDX-License-Identifier: MIT
/*
 * softgpu_share_test - what softgpu.ko gives of device memory to others:
 *
 *   dmabuf              as a dma-buf, imported for a DMA card by peerdma_importer.ko
 *   removal ADDRESS     the same, when the GPU at this PCI address is taken away
 *   four-processes      four processes on one GPU, each pinning by nvp2p_test.ko
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include "nvp2p_test.h"
#include "peerdma_importer.h"
#include "sgraw.h"

#define ENOTSUPP	524	/* the kernel's own */
#define MMAP_PARAMETER	"/sys/module/softgpu/parameters/dmabuf_mmap"

/* ---- exports and imports ---- */

static int export_err(struct gpu *g, uint64_t va, uint64_t length, int *fd)
{
	struct softgpu_dmabuf a = { .va = va, .length = length, .fd = -1 };
	int err = SG_CALL(g->fd, SOFTGPU_DMABUF, &a);

	*fd = a.fd;
	return err;
}

static int export(struct gpu *g, uint64_t va, uint64_t length)
{
	int fd;

	NEED(!export_err(g, va, length, &fd));
	return fd;
}

static int import_err(int fd, uint32_t kind, int *importer)
{
	struct importer_attach a = { .fd = fd, .kind = kind };

	*importer = open("/dev/peerdma_importer", O_RDWR | O_CLOEXEC);
	NEED(*importer >= 0);
	if (!ioctl(*importer, IMPORTER_ATTACH, &a))
		return 0;
	close(*importer);
	return errno;
}

static int map(int importer, struct importer_map *m)
{
	memset(m, 0, sizeof(*m));	/* both directions */
	return ioctl(importer, IMPORTER_MAP, m) ? errno : 0;
}

static uint64_t dma_address(int importer)
{
	struct importer_map m;

	NEED(!map(importer, &m));
	return m.dma_addr;
}

/* ---- QEMU's edu card, by hand ---- */

static uint8_t *card;

static char *card_path(const char *file)
{
	static char path[600];
	char id[64] = "";
	struct dirent *d;
	DIR *dir = opendir("/sys/bus/pci/devices");
	FILE *f;

	while (dir && (d = readdir(dir))) {
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/modalias", d->d_name);
		f = fopen(path, "r");
		if (f && fgets(id, sizeof(id), f) && strstr(id, "v00001234d000011E8")) {
			snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", d->d_name, file);
			fclose(f);
			closedir(dir);
			return path;
		}
		if (f)
			fclose(f);
	}
	printf("not ok: no DMA card\n");
	exit(1);
}

static void card_up(void)
{
	const uint8_t bus_master_and_memory = 0x06;
	int fd = open(card_path("config"), O_RDWR);

	NEED(fd >= 0 && pwrite(fd, &bus_master_and_memory, 1, 4) == 1);
	close(fd);
	fd = open(card_path("resource0"), O_RDWR | O_SYNC);
	NEED(fd >= 0);
	card = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	NEED(card != MAP_FAILED);
	close(fd);
}

#define CARD_MEMORY	0x40000
#define CARD_MOST	4092

static void set_register(uint32_t at, uint64_t value)
{
	__atomic_store_n((uint64_t *)(card + at), value, __ATOMIC_RELEASE);
}

static uint64_t get_register(uint32_t at)
{
	return __atomic_load_n((uint64_t *)(card + at), __ATOMIC_ACQUIRE);
}

static void card_dma(uint64_t from, uint64_t to, uint32_t length, uint32_t direction)
{
	set_register(0x80, from);
	set_register(0x88, to);
	set_register(0x90, length);
	set_register(0x98, 1 | direction << 1);
	while (get_register(0x98) & 1)
		usleep(1000);
}

/* ---- small helpers ---- */

static uint64_t vram_free(struct gpu *g)
{
	struct softgpu_info info;

	NEED(!sg_info(g->fd, &info));
	return info.vram_free;
}

static uint64_t bar1_used(struct gpu *g)
{
	struct softgpu_info info;

	NEED(!sg_info(g->fd, &info));
	return info.bar1_used;
}

static uint64_t need_alloc(struct gpu *g, uint64_t length)
{
	uint64_t va;

	NEED(!sg_alloc(g->fd, g->ctx, length, &va));
	return va;
}

static void put(struct gpu *g, uint64_t va, const void *data, uint64_t length)
{
	NEED(!sg_copy(g->fd, g->ctx, va, PTR(data), length, SOFTGPU_OP_SYNC));
}

static void get(struct gpu *g, void *data, uint64_t va, uint64_t length)
{
	NEED(!sg_copy(g->fd, g->ctx, PTR(data), va, length, SOFTGPU_OP_SYNC));
}

/* Whether the card's addresses are the bus's own: then they follow the range's. */
static bool untranslated(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64), a, b;
	int fd = export(g, va, PAGE64), one, two;

	NEED(!import_err(fd, IMPORTER_STATIC, &one) && !import_err(fd, IMPORTER_STATIC, &two));
	a = dma_address(one);
	b = dma_address(two);
	close(one);
	close(two);
	close(fd);
	NEED(!sg_free(g->fd, va));
	return a == b;
}

/* ---- dma-bufs ---- */

static void bad_arguments(struct gpu *g)
{
	struct softgpu_dmabuf a = { .flags = 1 };
	uint64_t va = need_alloc(g, 2 * PAGE64), other = need_alloc(g, 2 * PAGE64);
	int fd;

	a.va = va;
	a.length = PAGE64;
	EXPECT(SG_CALL(g->fd, SOFTGPU_DMABUF, &a), EINVAL);
	a.flags = 0;
	a.reserved = 1;
	EXPECT(SG_CALL(g->fd, SOFTGPU_DMABUF, &a), EINVAL);
	EXPECT(export_err(g, va, 0, &fd), EINVAL);
	EXPECT(export_err(g, va + 512, PAGE, &fd), EINVAL);
	EXPECT(export_err(g, va, 512, &fd), EINVAL);
	EXPECT(export_err(g, va, 2 * PAGE64 + PAGE, &fd), EINVAL);
	EXPECT(export_err(g, va, 4 * PAGE64, &fd), EINVAL);	/* two allocations */
	EXPECT(export_err(g, va, -PAGE64, &fd), EINVAL);
	EXPECT(export_err(g, va, 1ULL << 60, &fd), EINVAL);
	EXPECT(export_err(g, 0, PAGE64, &fd), EINVAL);
	EXPECT(export_err(g, PTR(&fd) & -PAGE, PAGE, &fd), EINVAL);
	NEED(!sg_free(g->fd, va));
	EXPECT(export_err(g, va, PAGE64, &fd), EINVAL);
	NEED(!sg_free(g->fd, other));
}

static void ways_of_attaching(struct gpu *g)
{
	uint64_t va = need_alloc(g, 4 * PAGE64);
	int fd = export(g, va, 4 * PAGE64), importer;
	struct softgpu_info info;
	struct importer_map m;

	NEED(!sg_info(g->fd, &info));
	CHECK(lseek(fd, 0, SEEK_END) == 4 * (off_t)PAGE64, "the size is not told");
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC, "it is kept over exec");
	EXPECT(import_err(fd, IMPORTER_STATIC, &importer), 0);
	EXPECT(map(importer, &m), 0);
	CHECK(m.length == 4 * PAGE64, "%llu bytes are mapped", (unsigned long long)m.length);
	/* edu has no limit of its own: the kernel's is 64 KiB */
	CHECK(m.segments == 4, "%u segments", m.segments);
	EXPECT(ioctl(importer, IMPORTER_UNMAP), 0);
	EXPECT(map(importer, &m), 0);
	close(importer);
	EXPECT(import_err(fd, IMPORTER_DYNAMIC, &importer), 0);
	EXPECT(map(importer, &m), 0);
	close(importer);
	/* one that can do without struct pages only; system memory has them */
	EXPECT(import_err(fd, IMPORTER_NO_PEER, &importer), info.on_pci ? ENOTSUPP : 0);
	if (!info.on_pci)
		close(importer);
	close(fd);
	NEED(!sg_free(g->fd, va));
}

/* Real data through the addresses: within one buffer, then out of it when its memory is freed. */
static void dma(struct gpu *g)
{
	static unsigned char out[CARD_MOST], back[CARD_MOST];
	uint64_t va = need_alloc(g, 4 * PAGE64), at;
	int fd = export(g, va + PAGE, 2 * PAGE64), importer, other;
	size_t i;

	for (i = 0; i < sizeof(out); i++)
		out[i] = i * 7 + 3;
	put(g, va + PAGE, out, sizeof(out));
	NEED(!import_err(fd, IMPORTER_STATIC, &importer));
	at = dma_address(importer);
	card_dma(at, CARD_MEMORY, sizeof(out), 0);
	card_dma(CARD_MEMORY, at + 8192, sizeof(out), 1);
	get(g, back, va + PAGE + 8192, sizeof(back));
	CHECK(!memcmp(out, back, sizeof(out)), "what the card wrote is not what it read");

	/* so that the card does not have it by chance */
	card_dma(at + PAGE64, CARD_MEMORY, sizeof(out), 0);
	NEED(!sg_free(g->fd, va));
	card_dma(at + 8192, CARD_MEMORY, sizeof(out), 0);
	close(fd);
	va = need_alloc(g, 4 * PAGE64);
	fd = export(g, va, PAGE64);
	NEED(!import_err(fd, IMPORTER_STATIC, &other));
	card_dma(CARD_MEMORY, dma_address(other), sizeof(out), 1);
	get(g, back, va, sizeof(back));
	CHECK(!memcmp(out, back, sizeof(out)), "exported memory has changed with the free");
	close(other);
	close(importer);
	close(fd);
	NEED(!sg_free(g->fd, va));
}

/* The addresses are those of the range, not of its 64 KiB pages. */
static void addresses(struct gpu *g)
{
	uint64_t va = need_alloc(g, 2 * PAGE64), whole, part;
	int fd = export(g, va, 2 * PAGE64), importer;
	struct importer_map m;

	NEED(!import_err(fd, IMPORTER_STATIC, &importer));
	whole = dma_address(importer);
	close(importer);
	close(fd);
	fd = export(g, va + PAGE64 - PAGE, 2 * PAGE);
	NEED(!import_err(fd, IMPORTER_STATIC, &importer));
	NEED(!map(importer, &m));
	part = m.dma_addr;
	CHECK(m.length == 2 * PAGE, "%llu bytes are mapped", (unsigned long long)m.length);
	if (untranslated(g))
		CHECK(part == whole + PAGE64 - PAGE, "%#llx, where the allocation is at %#llx",
		      (unsigned long long)part, (unsigned long long)whole);
	close(importer);
	close(fd);
	NEED(!sg_free(g->fd, va));
}

static void memory_and_aperture_are_kept(struct gpu *g)
{
	uint64_t free_before = vram_free(g), used_before = bar1_used(g), va, next;
	int fd, again, importer;
	struct importer_map m;

	va = need_alloc(g, 4 * PAGE64);
	fd = export(g, va + PAGE, PAGE64);
	again = export(g, va, 4 * PAGE64);
	CHECK(bar1_used(g) == used_before + 4 * PAGE64, "the same pages are counted twice");
	close(again);
	CHECK(bar1_used(g) == used_before + 2 * PAGE64, "not the two pages that the range touches");
	NEED(!sg_free(g->fd, va));
	CHECK(vram_free(g) == free_before - 4 * PAGE64, "the memory went with the allocation");
	next = need_alloc(g, 4 * PAGE64);
	CHECK(vram_free(g) == free_before - 8 * PAGE64, "exported memory is given out");
	NEED(!sg_free(g->fd, next));
	/* still to be imported, and the importer alone keeps it, too */
	NEED(!import_err(fd, IMPORTER_STATIC, &importer));
	EXPECT(map(importer, &m), 0);
	close(fd);
	CHECK(vram_free(g) == free_before - 4 * PAGE64, "the memory went with the descriptor");
	close(importer);
	CHECK(vram_free(g) == free_before, "memory is lost");
	CHECK(bar1_used(g) == used_before, "aperture is lost");
}

static void owner_exports_and_dies(void *arg)
{
	struct importer_attach a = { .kind = IMPORTER_STATIC };
	struct gpu g = gpu_up(0);
	int *importer = arg;
	uint32_t word = 0xabcd;
	uint64_t va;

	va = need_alloc(&g, PAGE64);
	put(&g, va, &word, sizeof(word));
	a.fd = export(&g, va, PAGE64);
	CHECK(!ioctl(*importer, IMPORTER_ATTACH, &a), "attach: %s", strerror(errno));
}

static void the_owner_dies(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);
	uint32_t word = 0;
	int importer = open("/dev/peerdma_importer", O_RDWR), fd, mine;

	NEED(importer >= 0);
	in_child(owner_exports_and_dies, &importer);
	card_dma(dma_address(importer), CARD_MEMORY, 4, 0);
	fd = export(g, va, PAGE64);
	NEED(!import_err(fd, IMPORTER_STATIC, &mine));
	card_dma(CARD_MEMORY, dma_address(mine), 4, 1);
	get(g, &word, va, sizeof(word));
	CHECK(word == 0xabcd, "%#x is read from the memory of the dead", word);
	close(mine);
	close(fd);
	close(importer);
	NEED(!sg_free(g->fd, va));
}

/* Held open by nobody but an importer: the module must stay. */
static void the_module_stays(void)
{
	int importer = open("/dev/peerdma_importer", O_RDWR);

	NEED(importer >= 0);
	in_child(owner_exports_and_dies, &importer);
	CHECK(system("rmmod softgpu 2>/dev/null") != 0, "softgpu.ko was unloaded with memory exported");
	close(importer);
}

static uint32_t seen(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static void programs_map_it(struct gpu *g)
{
	uint64_t va = need_alloc(g, 2 * PAGE64);
	const size_t last = 2 * PAGE / sizeof(uint32_t) - 1;
	int fd = export(g, va + PAGE, PAGE64);
	uint32_t *p;
	uint32_t word = 0x1234;
	char *none;

	NEED(!write_text(MMAP_PARAMETER, "N"));
	none = mmap(NULL, PAGE64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(none == MAP_FAILED && errno == ENOTSUPP, "mmap: %s", strerror(errno));
	NEED(!write_text(MMAP_PARAMETER, "Y"));
	none = mmap(NULL, PAGE64, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(none == MAP_FAILED && errno == EINVAL, "private mmap: %s", strerror(errno));
	none = mmap(NULL, PAGE64 + PAGE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(none == MAP_FAILED && errno == EINVAL, "mmap past the end: %s", strerror(errno));
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE64 - 2 * PAGE);
	NEED(p != MAP_FAILED);
	NEED(!write_text(MMAP_PARAMETER, "N"));
	put(g, va + PAGE + PAGE64 - 4, &word, sizeof(word));
	CHECK(seen(&p[last]) == 0x1234, "%#x is seen", seen(&p[last]));
	__atomic_store_n(p, 0x5678, __ATOMIC_SEQ_CST);
	get(g, &word, va + PAGE + PAGE64 - 2 * PAGE, sizeof(word));
	CHECK(word == 0x5678, "%#x is seen by the GPU", word);
	/* the mapping alone keeps it */
	close(fd);
	NEED(!sg_free(g->fd, va));
	CHECK(seen(p) == 0x5678, "%#x is seen after the free", seen(p));
	munmap(p, 2 * PAGE);
}

/* A map that chaos refuses is a clean error. */
static void maps_that_fail(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);
	int fd = export(g, va, PAGE64), importer;
	struct importer_map m;

	NEED(!import_err(fd, IMPORTER_STATIC, &importer));
	NEED(!write_text("/sys/kernel/debug/softgpu/chaos/fail_map", "1"));
	EXPECT(map(importer, &m), ENOMEM);
	EXPECT(map(importer, &m), 0);
	close(importer);
	close(fd);
	NEED(!sg_free(g->fd, va));
}

static int dmabuf(void)
{
	struct gpu g = gpu_up(0);
	struct idle idle = idle_now(g.fd);

	card_up();
	bad_arguments(&g);
	ways_of_attaching(&g);
	addresses(&g);
	dma(&g);
	memory_and_aperture_are_kept(&g);
	the_owner_dies(&g);
	programs_map_it(&g);
	maps_that_fail(&g);
	check_idle(g.fd, &idle, "all of it");
	close(g.fd);
	the_module_stays();
	return test_end("dmabuf");
}

/* ---- the GPU is taken away ---- */

static void touch(void *arg)
{
	__atomic_store_n((uint32_t *)arg, 1, __ATOMIC_SEQ_CST);
}

static void comes(const char *path)
{
	int tries;

	for (tries = 0; tries < 6000 && access(path, F_OK); tries++)
		usleep(10000);
	NEED(!access(path, F_OK));
}

/* The GPU that came back, as another one: what the card was given of the first is none of its memory. */
static void is_not_reached(void *arg)
{
	static uint8_t bytes[2 << 20];
	const uint64_t *stale = arg;
	struct gpu g = gpu_up(1);
	uint64_t va[1024];
	int i, n = 0, reached = 0;

	while (n < 1024 && !sg_alloc(g.fd, g.ctx, sizeof(bytes), &va[n]))
		n++;
	NEED(n && n < 1024);
	card_dma(CARD_MEMORY, *stale + PAGE64, 64, 1);
	for (i = 0; i < n; i++) {
		get(&g, bytes, va[i], sizeof(bytes));
		reached += bytes[0] || memcmp(bytes, bytes + 1, sizeof(bytes) - 1);
	}
	CHECK(!reached, "the card writes to a GPU by an address of the one before");
}

static int removal(const char *address)
{
	struct gpu g = gpu_up(0);
	bool translated = !untranslated(&g);
	uint64_t va = need_alloc(&g, 2 * PAGE64), stale;
	int fd = export(&g, va, 2 * PAGE64), mapped, attached, late;
	const uint8_t bytes[64] = "what the card has";
	struct importer_map m;
	char path[100];
	uint32_t *p;

	NEED(!import_err(fd, IMPORTER_STATIC, &mapped) && !import_err(fd, IMPORTER_STATIC, &attached));
	stale = dma_address(mapped);
	card_up();
	put(&g, va, bytes, sizeof(bytes));
	card_dma(stale, CARD_MEMORY, sizeof(bytes), 0);
	NEED(!write_text(MMAP_PARAMETER, "Y"));
	p = mmap(NULL, PAGE64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	NEED(p != MAP_FAILED);
	*p = 1;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/remove", address);
	NEED(!write_text(path, "1"));
	EXPECT(map(attached, &m), ENODEV);
	EXPECT(import_err(fd, IMPORTER_STATIC, &late), 0);
	EXPECT(map(late, &m), ENODEV);
	close(late);
	CHECK(!in_child(touch, p), "memory of a GPU that is gone can be written");
	NEED(!write_text("/sys/bus/pci/rescan", "1"));
	comes("/dev/softgpu1");
	if (translated)
		CHECK(in_child(is_not_reached, &stale), "the child did not end well");
	/* the importer that had it mapped unmaps what is gone already */
	EXPECT(ioctl(mapped, IMPORTER_UNMAP), 0);
	close(mapped);
	close(attached);
	munmap(p, PAGE64);
	close(fd);
	close(g.fd);
	return test_end("removal");
}

/* ---- four processes ---- */

#define PROCESSES	4

/* What each tells the others. */
struct told {
	uint64_t va, p2p_token;
	uint32_t va_space_token;
};

static struct shared {
	struct told told[PROCESSES];
	int arrived[4];		/* at each step */
	int failed;
} *all;

static void meet(int step)
{
	__atomic_add_fetch(&all->arrived[step], 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&all->arrived[step], __ATOMIC_SEQ_CST) < PROCESSES)
		usleep(1000);
}

static struct nvp2p_test_call pin(int fd, int slot, const struct told *what, uint64_t token, uint32_t space)
{
	struct nvp2p_test_call c = { .op = T_GET, .slot = slot, .va = what->va, .length = PAGE64,
				     .token = token, .va_space = space };

	NEED(!ioctl(fd, NVP2P_TEST_CALL, &c));
	return c;
}

static int unpin(int fd, int slot)
{
	struct nvp2p_test_call c = { .op = T_PUT, .slot = slot };

	NEED(!ioctl(fd, NVP2P_TEST_CALL, &c));
	return c.ret;
}

static uint32_t peek(int fd, int slot)
{
	uint32_t word = 0;
	struct nvp2p_test_call c = { .op = T_PEEK, .slot = slot, .data = PTR(&word), .length = 4 };

	NEED(!ioctl(fd, NVP2P_TEST_CALL, &c));
	return word;
}

/* The slots are the module's, so each process uses its own. */
static void one_of_four(int me)
{
	int fd = open("/dev/" NVP2P_TEST_DEVICE, O_RDWR), i, slot = me * 2;
	struct gpu g = gpu_up(0);
	struct told *mine = &all->told[me];
	struct softgpu_query q;
	uint32_t word = 0x1000 + me;
	uint64_t pad;

	NEED(fd >= 0);
	/* so that no two have the same address, which would be one's own to pin */
	NEED(!sg_alloc(g.fd, g.ctx, (me + 1) * 4 * PAGE64, &pad));
	mine->va = need_alloc(&g, 2 * PAGE64);
	put(&g, mine->va, &word, sizeof(word));
	NEED(!sg_free(g.fd, pad));
	NEED(!sg_query(g.fd, mine->va, &q));
	mine->p2p_token = q.p2p_token;
	mine->va_space_token = q.va_space_token;
	meet(0);

	EXPECT(pin(fd, slot, mine, 0, 0).ret, 0);
	for (i = 0; i < PROCESSES; i++) {
		const struct told *other = &all->told[i];

		if (i == me)
			continue;
		EXPECT(pin(fd, slot + 1, other, 0, 0).ret, -EINVAL);
		EXPECT(pin(fd, slot + 1, other, mine->p2p_token, mine->va_space_token).ret, -EINVAL);
		EXPECT(pin(fd, slot + 1, other, other->p2p_token, mine->va_space_token).ret, -EINVAL);
		EXPECT(pin(fd, slot + 1, other, other->p2p_token, other->va_space_token).ret, 0);
		CHECK(peek(fd, slot + 1) == (uint32_t)(0x1000 + i), "it is not process %d's memory", i);
		EXPECT(unpin(fd, slot + 1), 0);
	}
	meet(1);
	/* one goes without a word; the others' pins are theirs still */
	if (me == 2)
		raise(SIGKILL);
	while (__atomic_load_n(&all->arrived[2], __ATOMIC_SEQ_CST) == 0)
		usleep(1000);
	CHECK(peek(fd, slot) == word, "the pin is gone with another process");
	EXPECT(pin(fd, slot + 1, &all->told[2], all->told[2].p2p_token, all->told[2].va_space_token).ret,
	       -EINVAL);
	EXPECT(unpin(fd, slot), 0);
	__atomic_add_fetch(&all->failed, failures, __ATOMIC_SEQ_CST);
	printf("process %d: %d checks, %d failures\n", me, checks, failures);
	fflush(stdout);
	_exit(failures != 0);
}

static int several_at_once(void)
{
	int g = sg_open(0), status, i, ended = 0;
	struct idle idle = idle_now(g);
	pid_t pids[PROCESSES];

	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(all != MAP_FAILED);
	for (i = 0; i < PROCESSES; i++) {
		fflush(stdout);
		pids[i] = fork();
		NEED(pids[i] >= 0);
		if (!pids[i])
			one_of_four(i);
	}
	NEED(waitpid(pids[2], &status, 0) == pids[2]);
	CHECK(WIFSIGNALED(status), "process 2 was to be killed");
	__atomic_add_fetch(&all->arrived[2], 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < PROCESSES; i++) {
		if (i == 2)
			continue;
		NEED(waitpid(pids[i], &status, 0) == pids[i]);
		ended += WIFEXITED(status) && !WEXITSTATUS(status);
	}
	CHECK(ended == PROCESSES - 1 && !all->failed, "%d of them are content", ended);
	check_idle(g, &idle, "four processes");
	return test_end("four processes");
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "dmabuf"))
		return dmabuf();
	if (argc == 3 && !strcmp(argv[1], "removal"))
		return removal(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "four-processes"))
		return several_at_once();
	fprintf(stderr, "usage: softgpu_share_test dmabuf | removal ADDRESS | four-processes\n");
	return 2;
}
