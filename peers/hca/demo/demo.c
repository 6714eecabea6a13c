// SPDX-License-Identifier: MIT
/*
 * rdma-demo - shows on one screen how an RDMA adapter writes another machine's GPU memory:
 * registered in three ways, translated, written, compared, freed under writes, and counted
 * back.
 *
 * Side B serves; side A gives orders, writes and prints.  Every figure on the screen was
 * measured by the run that shows it.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../fpga/src/screen.h"
#include "kernel.h"
#include "remote.h"

enum { EXIT_PASS, EXIT_FAIL, EXIT_USAGE, EXIT_MISSING };

#define PORT		"18516"
#define PIECES		8		/* writes in flight */
#define WAIT_MS		120000		/* for one write; the adapter gives up by itself before */
#define PROGRESS_NS	2000000000ull
#define EXTRA		32		/* writes begun after the free */
#define SUM		16		/* digits of a SHA-256 that are shown */

static const char usage_text[] =
"usage: rdma-demo [--size SIZE] --listen | HOST | --one\n"
"GPU memory of one machine is written by RDMA from GPU memory of another.\n"
"\n"
"  --listen     side B: waits for side A, and does what that asks for\n"
"  HOST         side A: writes to the GPU of the machine where side B listens, and shows the screen\n"
"  --one        both sides on this machine, through one adapter\n"
"  --size SIZE  of the memory (default 1M)\n"
"  --break WHAT  breaks one step, to see that it is noticed: flip-byte, leave-mr, or\n"
"               ignore-stop: the adapter does not stop (without an IOMMU; that would stop it)\n"
"  --help\n"
"\n"
"Be root; debugfs and tracefs are mounted. GPU memory is registered as dma-buf with LD_PRELOAD=libpeerdma-verbs.so.0.\n"
"exit code: 0 pass, 1 fail, 2 usage, 3 a GPU, an adapter or a driver is missing.\n";

enum { BREAK_NOTHING, BREAK_FLIP_BYTE, BREAK_LEAVE_MR, BREAK_IGNORE_STOP };
static const char *const breaks[] = { "", "flip-byte", "leave-mr", "ignore-stop" };

struct demo {
	struct side a;
	int b;			/* the socket to side B */
	uint64_t size;
	struct answer hello_a, hello_b;
	struct counts before_a, before_b;
	int broken;
	bool one;
};

static const struct {
	const char *title, *what;
} ways[] = {
	[WAY_PEER] = { "Peer memory", "ibv_reg_mr of a GPU pointer, at both ends" },
	[WAY_DMABUF] = { "dma-buf", "peerdma_export_dmabuf and ibv_reg_dmabuf_mr, at both ends" },
	[WAY_STAGING] = { "Host staging", "the same without peer-to-peer: ibv_reg_mr of host memory, and the GPUs copy" },
};

static bool ask(struct demo *d, enum order_what what, enum way way, struct answer *answer)
{
	struct order order = { .what = what, .way = way, .length = d->size, .address = d->a.own };

	return remote_ask(d->b, &order, answer, &d->a.why);
}

/* Makes new queue pairs at both ends and connects them. */
static bool connect_queues(struct demo *d)
{
	struct answer answer;

	return side_queue(&d->a) && ask(d, ORDER_QUEUE, 0, &answer) && side_connect(&d->a, &answer.address);
}

/* ---- the two sides ---- */

static void show_side(const char *name, const struct answer *hello)
{
	screen_row(name, "%s: GPU %s, adapter %s = %s, %s", hello->host, hello->gpu, hello->adapter, hello->adapter_pci,
		   hello->translates ? "behind an IOMMU" : "no IOMMU that translates");
}

static bool begin(struct demo *d)
{
	struct utsname os;
	char right[80];

	uname(&os);
	snprintf(right, sizeof(right), "Linux %.60s", os.release);
	screen_title("RDMA writes GPU memory to GPU memory: no copy in host memory", right);
	screen_note("The GPUs and the adapters are software: the path is real, its times say nothing about hardware.");
	remote_hello(&d->a, &d->hello_a);
	if (!ask(d, ORDER_HELLO, 0, &d->hello_b))
		return false;
	show_side("A", &d->hello_a);
	show_side("B", &d->hello_b);
	return true;
}

/* ---- a way: register, write, compare ---- */

static void translation_row(const char *name, const struct translation *t)
{
	static const int widths[] = { 14, 20, 24, 0 };
	char pointer[32], dma[32], leads[64];
	const char *cells[] = { name, pointer, dma, leads };

	snprintf(pointer, sizeof(pointer), "%#" PRIx64, t->pointer);
	snprintf(dma, sizeof(dma), "%#" PRIx64, t->dma);
	if (t->bar >= 0)
		snprintf(leads, sizeof(leads), "%#" PRIx64 " (BAR %d of the GPU + %#" PRIx64 ")", t->phys, t->bar, t->offset);
	else
		snprintf(leads, sizeof(leads), "%#" PRIx64, t->phys);
	screen_columns(false, cells, widths, 4);
}

/*
 * If an IOMMU translates, the kernel has reported the mapping, and the DMA address differs
 * from the physical one.
 */
static bool is_translated(const struct translation *t)
{
	return t->bar >= 0 && t->mapped == t->translates && (t->dma != t->phys) == t->translates;
}

static void show_translations(const struct translation *a, const struct translation *b)
{
	static const char *const cells[] = { "", "the pointer", "DMA address in the MR", "what the IOMMU makes of it" };
	static const int widths[] = { 14, 20, 24, 0 };

	screen_columns(true, cells, widths, 4);
	translation_row("A", a);
	translation_row("B", b);
	screen_check(is_translated(a) && is_translated(b), "IOMMU", "%s",
		     a->translates && b->translates ? "translates for each adapter, to the GPU's own memory" :
		     "does not translate: the adapter has the addresses of the GPU's own memory");
}

/* Shows the progress of a long step. */
static void progress(const struct demo *d, uint64_t done, uint64_t *said)
{
	if (now_ns() - *said < PROGRESS_NS)
		return;
	*said = now_ns();
	screen_row("...", "%" PRIu64 " of %" PRIu64 " KiB written", done >> 10, d->size >> 10);
}

static bool write_all(struct demo *d, const struct answer *target)
{
	uint64_t piece = d->size / PIECES, said = now_ns();
	struct ibv_wc wc;

	for (uint64_t i = 0; i < PIECES; i++)
		if (!side_write(&d->a, i * piece, piece, target->base, target->rkey, i))
			return false;
	for (uint64_t done = 0, waited = 0; done < PIECES;) {
		int n = side_poll(&d->a, &wc, 100);

		if (n < 0)
			return false;
		if (n && wc.status != IBV_WC_SUCCESS) {
			why_set(&d->a.why, "a write failed: %s", ibv_wc_status_str(wc.status));
			return false;
		}
		done += (uint64_t)n;
		waited = n ? 0 : waited + 100;
		if (waited > WAIT_MS) {
			why_set(&d->a.why, "no write was completed in %d seconds", WAIT_MS / 1000);
			return false;
		}
		progress(d, done * piece, &said);
	}
	return true;
}

static bool compare(struct demo *d, unsigned char *bytes)
{
	char sum[DIGEST_HEX];
	struct answer there;

	if (d->broken == BREAK_FLIP_BYTE && !gpu_set(&d->a.gpu, d->a.addr, (unsigned char)~bytes[0], 1, &d->a.why))
		return false;
	if (!gpu_read(&d->a.gpu, bytes, d->a.addr, d->size, &d->a.why) || !ask(d, ORDER_DIGEST, 0, &there))
		return false;
	digest(bytes, d->size, sum);
	screen_check(!strcmp(sum, there.digest), "SHA-256", "%.*s... at A, %.*s... at B", SUM, sum, SUM, there.digest);
	return true;
}

/* Writes from A's GPU memory to B's. */
static bool transfer(struct demo *d, enum way way, const struct answer *target)
{
	char took[SCREEN_CELL], size[SCREEN_CELL], at_a[SCREEN_CELL], at_b[SCREEN_CELL];
	uint64_t copied, copied_now, ns = now_ns(), expected = way == WAY_STAGING ? d->size : 0;
	struct answer there;

	if (!side_copied(&d->a, &copied) || !side_stage(&d->a, true) || !write_all(d, target) ||
	    !ask(d, ORDER_ARRIVED, way, &there) || !side_copied(&d->a, &copied_now))
		return false;
	ns = now_ns() - ns;
	copied = copied_now - copied;
	screen_check(copied == expected && there.copied == expected, "written",
		     "%s in %d writes, %s; through host memory: %s at A, %s at B", screen_bytes(size, d->size), PIECES,
		     screen_time(took, ns), screen_bytes(at_a, copied), screen_bytes(at_b, there.copied));
	return true;
}

static bool register_both(struct demo *d, enum way way, struct translation *a, struct answer *b)
{
	return side_register(&d->a, way, d->size, a) && ask(d, ORDER_REGISTER, way, b) && connect_queues(d);
}

static bool end_both(struct demo *d)
{
	struct answer ended;

	return side_end(&d->a) && ask(d, ORDER_END, 0, &ended);
}

static bool try_way(struct demo *d, enum way way)
{
	unsigned char *bytes = malloc(d->size);
	struct translation a;
	struct answer b;
	bool ok = bytes;

	screen_step((int)way + 1, ways[way].title, "%s", ways[way].what);
	if (!ok)
		why_set(&d->a.why, "no memory");
	/* Other bytes each time, so that bytes from an earlier step do not pass. */
	if (ok)
		pattern_fill(bytes, d->size, way + 1);
	ok = ok && register_both(d, way, &a, &b) && gpu_write(&d->a.gpu, d->a.addr, bytes, d->size, &d->a.why);
	if (ok && way != WAY_STAGING)
		show_translations(&a, &b.translation);
	ok = ok && transfer(d, way, &b) && compare(d, bytes) && end_both(d);
	free(bytes);
	return ok;
}

/* ---- freed under writes ---- */

struct stopped {
	uint64_t done, failed;
	enum ibv_wc_status first;	/* status of the first write that failed */
};

/*
 * Keeps eight writes in flight until one fails and the others have completed, or until
 * EXTRA writes were begun after B has freed the memory.
 */
static bool write_until_stopped(struct demo *d, const struct answer *target, struct stopped *r)
{
	struct order order = { .what = ORDER_FREE, .ignore_stop = d->broken == BREAK_IGNORE_STOP };
	uint64_t piece = d->size / PIECES, flying, extra = EXTRA;
	struct ibv_wc wc;

	*r = (struct stopped){ .first = IBV_WC_SUCCESS };
	for (flying = 0; flying < PIECES; flying++)
		if (!side_write(&d->a, flying * piece, piece, target->base, target->rkey, flying))
			return false;
	for (; flying; flying--) {
		if (side_poll(&d->a, &wc, WAIT_MS) != 1) {
			why_set(&d->a.why, "no write came back in %d seconds", WAIT_MS / 1000);
			return false;
		}
		if (wc.status != IBV_WC_SUCCESS) {
			if (!r->failed++)
				r->first = wc.status;
			continue;
		}
		if (!r->done++ && !remote_order(d->b, &order, &d->a.why))
			return false;
		/* After the first failure the queue pair accepts no more writes. */
		if (r->failed || !extra)
			continue;
		if (remote_answered(d->b))
			extra--;
		if (!side_write(&d->a, wc.wr_id * piece, piece, target->base, target->rkey, wc.wr_id))
			return false;
		flying++;
	}
	if (!r->done)
		why_set(&d->a.why, "the first write failed: %s", ibv_wc_status_str(r->first));
	return r->done;
}

/* Tries the old key in a new connection. */
static bool write_once_more(struct demo *d, const struct answer *target, enum ibv_wc_status *status)
{
	struct ibv_wc wc;

	if (!connect_queues(d) || !side_write(&d->a, 0, d->size / PIECES, target->base, target->rkey, 0))
		return false;
	if (side_poll(&d->a, &wc, WAIT_MS) != 1) {
		why_set(&d->a.why, "no write came back in %d seconds", WAIT_MS / 1000);
		return false;
	}
	*status = wc.status;
	return true;
}

static bool free_under_writes(struct demo *d, enum way way)
{
	enum ibv_wc_status later = IBV_WC_SUCCESS;
	struct answer target, freed, look;
	struct translation a;
	struct stopped r;
	char took[SCREEN_CELL];

	if (!register_both(d, way, &a, &target) || !write_until_stopped(d, &target, &r) ||
	    !remote_answer(d->b, &freed, &d->a.why) || !write_once_more(d, &target, &later) || !ask(d, ORDER_LOOK, way, &look))
		return false;
	screen_check(r.first == IBV_WC_REM_ACCESS_ERR && later == r.first, ways[way].title,
		     "A: %" PRIu64 " writes done, then \"%s\"; the key tried again: %s", r.done, ibv_wc_status_str(r.first),
		     later == r.first ? "the same" : ibv_wc_status_str(later));
	screen_check(!look.changed && (freed.unmapped || !target.translation.translates), "",
		     "B: freed in %s%s; %s memory, marked: %" PRIu64 " bytes changed", screen_time(took, freed.free_ns),
		     freed.unmapped ? ", no translation left" : "", freed.same ? "the same" : "new", look.changed);
	return end_both(d);
}

static bool free_step(struct demo *d)
{
	screen_step(4, "Free", "cuMemFree at B while A writes there; B takes the memory again, and marks it");
	return free_under_writes(d, WAY_PEER) && free_under_writes(d, WAY_DMABUF);
}

/* ---- counted back ---- */

static bool counts(struct demo *d, struct counts *a, struct counts *b)
{
	struct answer there;

	if (!side_counts(&d->a, a) || !ask(d, ORDER_COUNT, 0, &there))
		return false;
	*b = there.counts;
	return true;
}

static void count_check(const char *label, uint64_t a, uint64_t a_now, uint64_t b, uint64_t b_now)
{
	screen_check(a == a_now && b == b_now, label, "A: %" PRIu64 " before, %" PRIu64 " after; B: %" PRIu64 " before, %" PRIu64 " after",
		     a, a_now, b, b_now);
}

static bool count_step(struct demo *d)
{
	const struct counts *a = &d->before_a, *b = &d->before_b;
	struct counts a_now, b_now;
	struct translation left;

	screen_step(5, "Count", "all counts must be as before step 1, at both ends");
	if (d->broken == BREAK_LEAVE_MR && !side_register(&d->a, WAY_PEER, d->size, &left))
		return false;
	if (!counts(d, &a_now, &b_now))
		return false;
	count_check("pins", a->pins, a_now.pins, b->pins, b_now.pins);
	count_check("DMA mappings", a->maps, a_now.maps, b->maps, b_now.maps);
	count_check("MRs", a->mrs, a_now.mrs, b->mrs, b_now.mrs);
	count_check("BAR1, bytes", a->bar1, a_now.bar1, b->bar1, b_now.bar1);
	count_check("VRAM, bytes", a->vram, a_now.vram, b->vram, b_now.vram);
	return true;
}

/* ---- main ---- */

static int side_a(struct demo *d)
{
	struct answer bye;
	int wrong;

	screen_open(stdout);
	if (!begin(d) || !counts(d, &d->before_a, &d->before_b) || !try_way(d, WAY_PEER) || !try_way(d, WAY_DMABUF) ||
	    !try_way(d, WAY_STAGING) || !free_step(d) || !count_step(d))
		screen_fail("%s", d->a.why.text);
	wrong = screen_close("GPU to GPU by RDMA, none of it through host memory, and all given back");
	ask(d, ORDER_BYE, 0, &bye);
	return wrong ? EXIT_FAIL : EXIT_PASS;
}

static int side_b(struct demo *d)
{
	remote_serve(&d->a, d->b);
	return EXIT_PASS;
}

/*
 * Runs side B in a child; forked before CUDA is initialized, since it is not usable in both
 * processes after that.  Returns the child's id; 0: this is the child.
 */
static pid_t two_sides(struct demo *d)
{
	int ends[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return -1;
	child = fork();
	if (child < 0)
		return -1;
	d->b = ends[!child];
	close(ends[!!child]);
	return child;
}

static int run(struct demo *d, bool listens, const char *host)
{
	pid_t child = d->one ? two_sides(d) : 0;
	bool is_b = d->one ? !child : listens;
	int code = EXIT_MISSING;

	if (child < 0) {
		why_set(&d->a.why, "no second process");
	} else if (side_open(&d->a, is_b)) {
		if (!d->one)
			d->b = listens ? remote_listen(PORT, &d->a.why) : remote_connect(host, PORT, &d->a.why);
		if (d->b >= 0)
			code = is_b ? side_b(d) : side_a(d);
	}
	if (code == EXIT_MISSING)
		fprintf(stderr, "rdma-demo: %s\n", d->a.why.text);
	side_close(&d->a);
	close(d->b);
	if (child > 0)
		waitpid(child, NULL, 0);
	return code;
}

static int break_named(const char *name)
{
	for (int i = BREAK_FLIP_BYTE; i <= BREAK_IGNORE_STOP; i++)
		if (!strcmp(name, breaks[i]))
			return i;
	return BREAK_NOTHING;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "size", required_argument, NULL, 's' }, { "listen", no_argument, NULL, 'l' },
		{ "one", no_argument, NULL, 'o' }, { "break", required_argument, NULL, 'b' },
		{ "help", no_argument, NULL, 'h' }, { 0 }
	};
	static struct demo demo = { .size = 1 << 20, .b = -1 };
	bool listens = false;
	int c;

	argv[0] = (char *)"rdma-demo";	/* so that getopt's messages begin as all others do */
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage_text, stdout);
			return EXIT_PASS;
		}
		if (c == '?') {
			fprintf(stderr, "rdma-demo --help tells more\n");
			return EXIT_USAGE;
		}
		if (c == 's' && (!parse_size(optarg, &demo.size) || demo.size % (PIECES * 4096ul) || demo.size >> 30)) {
			fprintf(stderr, "rdma-demo: --size is a multiple of 32K, below 1G; --help tells more\n");
			return EXIT_USAGE;
		}
		if (c == 'b' && !(demo.broken = break_named(optarg))) {
			fprintf(stderr, "rdma-demo: --break is flip-byte, leave-mr or ignore-stop\n");
			return EXIT_USAGE;
		}
		listens |= c == 'l';
		demo.one |= c == 'o';
	}
	if ((optind < argc) + listens + demo.one != 1 || optind + 1 < argc) {
		fputs(usage_text, stderr);
		return EXIT_USAGE;
	}
	return run(&demo, listens, argv[optind]);
}
