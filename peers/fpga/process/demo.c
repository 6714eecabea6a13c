// SPDX-License-Identifier: MIT
/*
 * process-demo - the main job without a kernel: softgpu's core and a software DMA card,
 * both inside this process.  The quick look: no PCI, no driver and no IOMMU is real here.
 * "make demo" does the same in a real kernel.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "card.h"
#include "screen.h"
#include "sg.h"
#include "softgpu_uapi.h"

#define VRAM_SIZE	((uint64_t)16 << 20)
#define BAR1_BASE	0xe0000000ULL
#define WINDOW_BASE	0x200000000ULL
#define WINDOW_LENGTH	((uint64_t)1 << 32)
#define SIZE		((uint64_t)1 << 20)
#define SLOW_US		200	/* a transfer's duration while its memory is freed */

enum { EXIT_PASS, EXIT_FAIL, EXIT_USAGE };
enum broken { NOTHING, FLIP_BYTE, SKIP_UNPIN, WRONG_ADDRESS };

static struct sg *sg;
static struct sg_client *client;
static struct bus bus;
static struct card card;
static uint8_t *vram;
static uint32_t ctx;
static int callbacks;	/* atomic */

#define CALL(name, arg) \
	((arg)->size = sizeof(*(arg)), sg_call(client, _IOC_NR(name), arg, sizeof(*(arg))))

/* Ends a run that cannot go on; what went wrong is shown as a failed check. */
static void need(bool ok, const char *what)
{
	if (ok)
		return;
	screen_fail("%s", what);
	exit(screen_close("") ? EXIT_FAIL : EXIT_PASS);
}

static u64 phys(void *priv, u64 offset)
{
	(void)priv;
	return BAR1_BASE + offset;
}

static int host_copy(void *cookie, void *local, u64 addr, u64 len, bool to_process)
{
	void *mine = (void *)(uintptr_t)addr;

	(void)cookie;
	memcpy(to_process ? mine : local, to_process ? local : mine, len);
	return 0;
}

static const struct sg_host_ops host_ops = { .copy = host_copy };

/* ---- a surface: device memory, and its pin and mapping while a card uses it ---- */

struct surface {
	struct sg_pin pin;
	u64 va, id;
	u64 iova;	/* for the card; 0: not mapped */
	bool ended;	/* by put or by callback */
};

static void on_revoke(struct sg_pin *pin)
{
	(void)pin;
	card_stop(&card);
	__atomic_add_fetch(&callbacks, 1, __ATOMIC_SEQ_CST);
}

static void on_unmap(struct sg_pin *pin)
{
	card_unmap(&card, container_of(pin, struct surface, pin)->iova);
}

static void on_free(struct sg_pin *pin)
{
	container_of(pin, struct surface, pin)->ended = true;
}

static const struct sg_pin_ops pin_ops = { on_revoke, on_unmap, on_free };

static void surface_new(struct surface *s)
{
	struct softgpu_mem_alloc a = { .ctx = ctx, .length = SIZE };

	memset(s, 0, sizeof(*s));
	need(!CALL(SOFTGPU_MEM_ALLOC, &a), "no VRAM for a surface");
	s->va = a.va;
	s->id = a.buffer_id;
}

static void surface_free(struct surface *s)
{
	struct softgpu_va a = { .va = s->va };

	need(!CALL(SOFTGPU_MEM_FREE, &a), "a surface cannot be freed");
}

static void surface_pin(struct surface *s)
{
	struct sg_pin_who who = { .proc_key = &sg };

	memset(&s->pin, 0, sizeof(s->pin));
	s->ended = false;
	need(!sg_pin_get(sg, &s->pin, &pin_ops, &who, s->va, SIZE, false), "a surface cannot be pinned");
	s->iova = card_map(&card, sg_pin_page(&s->pin, 0), SIZE);
	need(s->iova, "the card's IOMMU table is full");
}

static void engine_copy(u64 dst, u64 src)
{
	struct softgpu_copy c = { .ctx = ctx, .flags = SOFTGPU_OP_SYNC, .dst = dst, .src = src,
				  .width = SIZE, .height = 1 };

	need(!CALL(SOFTGPU_COPY, &c), "the copy engine failed");
}

/* ---- counts ---- */

struct counts {
	struct sg_gpu_stats gpu;
	struct card_totals card;
};

static struct counts count(void)
{
	struct counts c = { .card = card_totals(&card) };

	sg_gpu_stats(sg, 0, &c.gpu);
	return c;
}

static void sleep_us(long us)
{
	struct timespec t = { 0, us * 1000 };

	nanosleep(&t, NULL);
}

/* ---- the steps ---- */

static void setup(void)
{
	struct sg_gpu_desc desc = {
		.name = "softgpu", .vram_size = VRAM_SIZE, .bar1_reserved = 2 * SG_PAGE_SIZE,
		.engines = 1, .phys = phys, .uuid = { 's', 'o', 'f', 't' },
	};
	struct softgpu_window w = { .base = WINDOW_BASE, .length = WINDOW_LENGTH };
	struct softgpu_ctx_create c = { 0 };
	char bytes[SCREEN_CELL];
	u32 index;

	vram = calloc(1, VRAM_SIZE);
	desc.vram = vram;
	need(vram && !sg_create(&sg) && !sg_gpu_add(sg, &desc, &index) &&
	     !sg_client_open(sg, index, &sg, &host_ops, NULL, &client) &&
	     !CALL(SOFTGPU_WINDOW, &w) && !CALL(SOFTGPU_CTX_CREATE, &c), "no software GPU");
	ctx = c.ctx;
	bus.windows[bus.count].base = BAR1_BASE;
	bus.windows[bus.count].length = VRAM_SIZE;
	bus.windows[bus.count++].behind = vram;
	card_init(&card, &bus);
	screen_row("GPU 0", "softgpu's core in this process, VRAM %s, BAR1 at %#llx",
		   screen_bytes(bytes, VRAM_SIZE), BAR1_BASE);
	screen_row("card", "a thread; %d bytes a transfer", CARD_TRANSFER_MAX);
	screen_row("IOMMU", "a table; the card has addresses of its own");
}

static void addresses(const char *name, const struct surface *s)
{
	screen_row(name, "%#llx for the program, %#llx on the bus, %#llx for the card", s->va,
		   sg_pin_page(&s->pin, 0), s->iova);
}

static void copy_and_check(struct surface *a, struct surface *b, uint8_t *expected, uint8_t *found,
			   enum broken broken)
{
	struct counts before = count(), during, after;
	char used[SCREEN_CELL], was[SCREEN_CELL], moved[SCREEN_CELL], time[SCREEN_CELL];
	uint64_t start, done;

	screen_step(2, "Pin and map", "whole pages of 64 KiB; the card gets addresses for them");
	surface_pin(a);
	surface_pin(b);
	during = count();
	addresses("A", a);
	addresses("B", b);
	screen_check(during.gpu.bar1_used == before.gpu.bar1_used + 2 * SIZE, "BAR1 used",
		     "%s before, %s now", screen_bytes(was, before.gpu.bar1_used),
		     screen_bytes(used, during.gpu.bar1_used));

	screen_step(3, "Copy A to B", "by the card, through a buffer of its own");
	card.wrong_by = broken == WRONG_ADDRESS ? 64 : 0;
	start = sg_now_ns();
	done = card_copy(&card, b->iova, a->iova, SIZE);
	after = count();
	screen_check(done == SIZE && after.gpu.bytes_copied == before.gpu.bytes_copied, "by DMA",
		     "%s in %llu transfers and %s; %llu bytes by the GPU's engine",
		     screen_bytes(moved, done), (u64)(after.card.transfers - before.card.transfers),
		     screen_time(time, sg_now_ns() - start),
		     after.gpu.bytes_copied - before.gpu.bytes_copied);
	if (broken == FLIP_BYTE)
		vram[sg_pin_page(&b->pin, 0) - BAR1_BASE + SIZE / 2] ^= 1;
	engine_copy((uintptr_t)found, b->va);
	screen_check(!memcmp(expected, found, SIZE), "validated", "B is A, byte for byte");

	need(!sg_pin_put(sg, &a->pin, false), "A cannot be unpinned");
	if (broken != SKIP_UNPIN)
		need(!sg_pin_put(sg, &b->pin, false), "B cannot be unpinned");
	after = count();
	screen_check(after.gpu.bar1_used == before.gpu.bar1_used && !after.card.mappings, "unpinned",
		     "BAR1 used %s, %d mappings", screen_bytes(used, after.gpu.bar1_used),
		     after.card.mappings);
}

static void bounce(struct surface *a, struct surface *b, uint8_t *expected, uint8_t *found)
{
	struct counts before = count(), after;
	char by_engine[SCREEN_CELL], by_cpu[SCREEN_CELL], extra[SCREEN_CELL];
	uint8_t *user = malloc(SIZE), *driver = malloc(SIZE);
	uint64_t cpu = 0;

	screen_step(4, "The old way", "the same through the host: the program's buffer and the driver's");
	need(user && driver, "no host memory");
	engine_copy((uintptr_t)user, a->va);
	memcpy(driver, user, SIZE);
	cpu += SIZE;
	engine_copy(b->va, (uintptr_t)driver);
	after = count();
	engine_copy((uintptr_t)found, b->va);
	screen_check(!memcmp(expected, found, SIZE), "moved",
		     "%s by the GPU's engine and %s by the CPU, through %s of host memory",
		     screen_bytes(by_engine, after.gpu.bytes_copied - before.gpu.bytes_copied),
		     screen_bytes(by_cpu, cpu), screen_bytes(extra, 2 * SIZE));
	free(user);
	free(driver);
}

static void *slow_copy(void *arg)
{
	struct surface *s = arg;

	return (void *)(uintptr_t)card_copy(&card, s[1].iova, s[0].iova, SIZE);
}

static void revoke(struct surface pair[2], enum broken broken)
{
	struct counts before = count(), after;
	uint64_t transfers, done;
	pthread_t thread;
	void *result;

	screen_step(5, "Revocation", "cuMemFree of A while the card reads it");
	if (broken != SKIP_UNPIN)
		surface_pin(&pair[1]);
	surface_pin(&pair[0]);
	card.transfer_us = SLOW_US;
	need(!pthread_create(&thread, NULL, slow_copy, pair), "no thread");
	while (count().card.transfers < before.card.transfers + 20)
		sleep_us(50);
	surface_free(&pair[0]);
	transfers = count().card.transfers;
	pthread_join(thread, &result);
	done = (uintptr_t)result;
	after = count();
	screen_check(pair[0].ended && __atomic_load_n(&callbacks, __ATOMIC_SEQ_CST) == 1, "callback",
		     "ran once, in the thread that frees, and waited for the card");
	screen_check(done < SIZE && after.card.transfers == transfers, "the card",
		     "stopped after %llu of %llu bytes; no transfer since", (u64)done, (u64)SIZE);
	card_start_again(&card);
	screen_check(!card_copy(&card, pair[1].iova, pair[0].iova, 64) && count().card.faults == before.card.faults + 1, "old address",
		     "of A faults when the card uses it");
	screen_check(sg_pin_put(sg, &pair[0].pin, false) == -ENOENT, "put of A",
		     "finds that the callback has ended it");
	if (broken != SKIP_UNPIN)
		need(!sg_pin_put(sg, &pair[1].pin, false), "B cannot be unpinned");
	surface_free(&pair[1]);
}

static void back_to_start(const struct counts *start)
{
	struct counts end = count();
	char vram_used[SCREEN_CELL], bar1[SCREEN_CELL];

	screen_step(6, "Count", "everything is back where it started");
	screen_check(end.gpu.pins == start->gpu.pins && !end.card.mappings, "pins", "%u, and %d mappings",
		     end.gpu.pins, end.card.mappings);
	screen_check(end.gpu.bar1_used == start->gpu.bar1_used &&
		     end.gpu.vram_free == start->gpu.vram_free, "memory",
		     "BAR1 used %s, VRAM used %s", screen_bytes(bar1, end.gpu.bar1_used),
		     screen_bytes(vram_used, end.gpu.vram_total - end.gpu.vram_free));
	screen_check(end.gpu.revocations == 1, "revocations", "%llu", end.gpu.revocations);
}

static const char usage_text[] =
"usage: process-demo [--break flip-byte|skip-unpin|wrong-dma-address]\n"
"The main job in one process: a software GPU and a software DMA card, no kernel.\n"
"--break breaks one step, to see that it is noticed.\n"
"exit code: 0 pass, 1 fail, 2 usage.\n";

static int parse(int argc, char **argv, enum broken *broken)
{
	static const char *const names[] = { "", "flip-byte", "skip-unpin", "wrong-dma-address" };

	if (argc == 2 && !strcmp(argv[1], "--help")) {
		fputs(usage_text, stdout);
		exit(EXIT_PASS);
	}
	if (argc == 1)
		return 0;
	for (int i = 1; argc == 3 && !strcmp(argv[1], "--break") && i < 4; i++) {
		if (!strcmp(argv[2], names[i])) {
			*broken = (enum broken)i;
			return 0;
		}
	}
	fputs(usage_text, stderr);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	enum broken broken = NOTHING;
	struct surface pair[2];
	uint8_t *expected, *found;
	struct counts start;
	int code = parse(argc, argv, &broken);

	if (code)
		return code;
	screen_open(stdout);
	screen_title("A DMA card copies one GPU surface into another: the quick look", "one process");
	screen_note("GPU, card, bus and IOMMU are software in this process; \"make demo\" runs it in a real kernel.");
	setup();
	expected = malloc(SIZE);
	found = calloc(1, SIZE);
	need(expected && found, "no host memory");
	for (uint64_t i = 0; i < SIZE; i++)
		expected[i] = (uint8_t)(i * 131 + i / 251);
	start = count();

	screen_step(1, "Allocate", "two surfaces in the GPU's memory");
	surface_new(&pair[0]);
	surface_new(&pair[1]);
	screen_row("A and B", "at %#llx and %#llx, buffer ids %llu and %llu; A filled with a pattern",
		   pair[0].va, pair[1].va, pair[0].id, pair[1].id);
	engine_copy(pair[0].va, (uintptr_t)expected);
	copy_and_check(&pair[0], &pair[1], expected, found, broken);
	bounce(&pair[0], &pair[1], expected, found);
	revoke(pair, broken);
	back_to_start(&start);

	sg_client_close(client);
	sg_gpu_remove(sg, 0);
	sg_destroy(sg);
	free(expected);
	free(found);
	free(vram);
	return screen_close("every byte by the card, none through the host, and all given back") ?
		EXIT_FAIL : EXIT_PASS;
}
