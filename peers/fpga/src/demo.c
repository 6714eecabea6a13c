// SPDX-License-Identifier: MIT
/*
 * fpga-demo - the demonstration on one screen: GPU memory, pinned by peerdma, copied by DMA
 * of FPGA cards, validated, revoked, and counted back.
 *
 * Every figure on the screen was measured by the run that shows it.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "demo.h"
#include "sysfs.h"

enum { EXIT_PASS, EXIT_FAIL, EXIT_USAGE, EXIT_MISSING };

#define DEFAULT_FILE	"/usr/share/common-licenses/GPL-3"
#define DEFAULT_SIZE	(64 << 10)
#define WRONG_OFFSET	"65536"		/* the next page of the GPU's memory */

static const char usage_text[] =
"usage: fpga-demo [options]\n"
"Shows the whole path: GPU memory, pinned, copied by FPGA cards, validated, revoked.\n"
"\n"
"  --size SIZE    of the surfaces (default 64K)\n"
"  --cards LIST   all (default), or as in 0,2\n"
"  --file PATH    carried through the cards too (default " DEFAULT_FILE ")\n"
"  --gpu MAKE     whose memory, and how the cards get it: nvidia (default), amd, tegra,\n"
"                 tegra-wc (write-combined), dmabuf (NVIDIA's by a dma-buf), amd-dmabuf,\n"
"                 host; amd,nvidia: A is AMD's, B NVIDIA's\n"
"  --break WHAT   breaks one step, to see that it is noticed: flip-byte,\n"
"                 skip-unpin or wrong-dma-address\n"
"  --help\n"
"\n"
"exit code: 0 pass, 1 fail, 2 usage, 3 a GPU, a card or a driver is missing.\n";

static int usage(const char *problem, const char *value)
{
	fprintf(stderr, "fpga-demo: '%s' %s\n", value, problem);
	return EXIT_USAGE;
}

static bool parse_break(const char *text, enum demo_break *what)
{
	static const char *const names[] = { "", "flip-byte", "skip-unpin", "wrong-dma-address" };

	for (int i = BREAK_FLIP_BYTE; i <= BREAK_WRONG_ADDRESS; i++) {
		if (!strcmp(text, names[i])) {
			*what = (enum demo_break)i;
			return true;
		}
	}
	return false;
}

/* Parses one kind of memory for both surfaces, or one each. */
static bool parse_makes(const char *text, struct demo *demo)
{
	char first[16];
	const char *comma = strchr(text, ','), *rest;
	size_t length = comma ? (size_t)(comma - text) : strlen(text);

	if (length >= sizeof(first))
		return false;
	memcpy(first, text, length);
	first[length] = '\0';
	demo->make_a = gpu_make(first, &rest);
	if (!demo->make_a || *rest)
		return false;
	demo->make_b = comma ? gpu_make(comma + 1, &rest) : demo->make_a;
	return demo->make_b && !*rest;
}

static void show_cards(const struct demo *demo)
{
	char names[32], text[SCREEN_WIDTH] = "";
	int shown = 0;

	if (demo->card_count == 1)
		snprintf(names, sizeof(names), "fpga%u", demo->cards[0].info.index);
	else
		snprintf(names, sizeof(names), "fpga%u to %u", demo->cards[0].info.index,
			 demo->cards[demo->card_count - 1].info.index);
	for (; shown < demo->card_count && shown < 5; shown++) {
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used, "%s  ", demo->cards[shown].pci);
	}
	screen_row(names, "%s%s%u bytes a transfer", text, shown < demo->card_count ? "...  " : "",
		   demo->cards[0].info.max_transfer);
}

/* One line per GPU and kind of path, naming the cards that have it. */
static void show_paths(const struct demo *demo)
{
	for (int g = 0; g < demo->gpu_count; g++) {
		bool named[CARDS_MAX] = { false };

		for (int c = 0; c < demo->card_count; c++) {
			char path[SYSFS_TEXT], other[SYSFS_TEXT], cards[SCREEN_WIDTH] = "";
			int count = 0;

			if (named[c])
				continue;
			pci_path(demo->gpus[g].pci, demo->cards[c].pci, path);
			for (int k = c; k < demo->card_count; k++) {
				size_t used = strlen(cards);

				pci_path(demo->gpus[g].pci, demo->cards[k].pci, other);
				if (strcmp(path, other))
					continue;
				named[k] = true;
				if (count++ < 8)
					snprintf(cards + used, sizeof(cards) - used, "%s%u",
						 used ? "," : "", demo->cards[k].info.index);
			}
			screen_row("path", "GPU %d to fpga%s: %s", demo->gpus[g].index, cards, path);
		}
	}
}

static void show_devices(const struct demo *demo)
{
	static const char *const iommu[] = {
		[FPGA_IOMMU_NONE] = "none: devices use bus addresses",
		[FPGA_IOMMU_PASSTHROUGH] = "passes through: devices use bus addresses",
		[FPGA_IOMMU_TRANSLATING] = "translates: each card has addresses of its own",
	};
	uint32_t kind = demo->cards[0].info.iommu;
	struct utsname os;
	char right[80];

	uname(&os);
	snprintf(right, sizeof(right), "Linux %.60s", os.release);
	screen_title("FPGA cards copy one GPU surface into another: no host memory, no CPU",
		     right);
	if (module_refs("softgpu") >= 0)
		screen_note("softgpu is a software GPU and QEMU plays the cards: the path is real, its times say nothing about "
			    "hardware.");
	for (int i = 0; i < demo->gpu_count; i++) {
		struct gpu_usage usage = gpu_usage(&demo->gpus[i]);
		char label[32], vram[SCREEN_CELL], bar1[SCREEN_CELL];

		snprintf(label, sizeof(label), "GPU %d", demo->gpus[i].index);
		if (usage.known)
			screen_row(label, "%s  %s, VRAM %s, BAR1 %s", demo->gpus[i].pci,
				   demo->gpus[i].name, screen_bytes(vram, usage.vram_total),
				   screen_bytes(bar1, usage.bar1_total));
		else
			screen_row(label, "%s  %s", demo->gpus[i].pci, demo->gpus[i].name);
	}
	show_cards(demo);
	screen_row("IOMMU", "%s", kind < 3 ? iommu[kind] : "unknown");
	show_paths(demo);
}

static bool prepare(struct demo *demo, const char *cards)
{
	demo->peerdma = open("/dev/peerdma", O_RDWR | O_CLOEXEC);
	if (demo->peerdma < 0) {
		why_set(&demo->why, "/dev/peerdma: %s (load peerdma.ko)", strerror(errno));
		return false;
	}
	if (!cards_open(cards, demo->cards, &demo->card_count, &demo->why) ||
	    !gpus_open(demo->gpus, &demo->gpu_count, &demo->why))
		return false;
	demo->gpu_a = &demo->gpus[0];
	demo->gpu_b = &demo->gpus[demo->gpu_count > 1];
	if (!gpu_as(demo->gpu_a, demo->make_a, &demo->as_other[0], &demo->why) ||
	    !gpu_as(demo->gpu_b, demo->make_b, &demo->as_other[1], &demo->why))
		return false;
	/* Two surfaces of one kind on the same GPU share one handle. */
	demo->gpu_b = &demo->as_other[demo->gpu_b != demo->gpu_a || demo->make_a != demo->make_b];
	demo->gpu_a = &demo->as_other[0];
	if (demo->broken == BREAK_WRONG_ADDRESS &&
	    !module_param_set("peerdma_fpga", "fault_dma_offset", WRONG_OFFSET)) {
		why_set(&demo->why, "cannot set peerdma_fpga's fault_dma_offset: %s (be root)",
			strerror(errno));
		return false;
	}
	return true;
}

static void run(struct demo *demo)
{
	static bool (*const steps[])(struct demo *demo) = {
		demo_allocate, demo_pin_and_copy, demo_validate, demo_bounce, demo_revoke,
		demo_count,
	};
	bool ok = demo_counts(demo, &demo->before);

	for (size_t i = 0; ok && i < sizeof(steps) / sizeof(steps[0]); i++)
		ok = steps[i](demo);
	if (!ok)
		screen_fail("%s", demo->why.text);
}

static int parse_options(int argc, char **argv, struct demo *demo, const char **cards)
{
	static const struct option longs[] = {
		{ "size", required_argument, NULL, 's' },
		{ "cards", required_argument, NULL, 'c' },
		{ "file", required_argument, NULL, 'f' },
		{ "gpu", required_argument, NULL, 'g' },
		{ "break", required_argument, NULL, 'b' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 }
	};
	int c;

	argv[0] = (char *)"fpga-demo";	/* so that getopt's messages begin as all others do */
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 's':
			if (!parse_size(optarg, &demo->size))
				return usage("is no size: give for example 64K", optarg);
			break;
		case 'c':
			*cards = optarg;
			break;
		case 'f':
			demo->file = optarg;
			break;
		case 'g':
			if (!parse_makes(optarg, demo))
				return usage("is no make of memory: give nvidia, amd, tegra, tegra-wc, dmabuf, amd-dmabuf, host, or one for A and one for B as in amd,nvidia",
					     optarg);
			break;
		case 'b':
			if (!parse_break(optarg, &demo->broken))
				return usage("cannot be broken: give flip-byte, skip-unpin or wrong-dma-address",
					     optarg);
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(EXIT_PASS);
		default:
			fprintf(stderr, "fpga-demo --help tells more\n");
			return EXIT_USAGE;
		}
	}
	return optind < argc ? usage("is too much: there are only options", argv[optind]) : 0;
}

int main(int argc, char **argv)
{
	static struct demo demo = {
		.size = DEFAULT_SIZE, .file = DEFAULT_FILE, .make_a = &make_nvidia, .make_b = &make_nvidia,
	};
	const char *cards = "all";
	struct why ignored;
	int code;

	code = parse_options(argc, argv, &demo, &cards);
	if (code)
		return code;
	if (!prepare(&demo, cards)) {
		fprintf(stderr, "fpga-demo: %s\n", demo.why.text);
		return EXIT_MISSING;
	}
	screen_open(stdout);
	show_devices(&demo);
	run(&demo);
	if (demo.broken == BREAK_WRONG_ADDRESS)
		module_param_set("peerdma_fpga", "fault_dma_offset", "0");
	surface_end(&demo.a, &ignored);
	surface_end(&demo.b, &ignored);
	code = screen_close("every byte by DMA, none through the host, and all given back")
		? EXIT_FAIL : EXIT_PASS;
	free(demo.expected);
	free(demo.found);
	gpus_close(demo.gpus, demo.gpu_count);
	cards_close(demo.cards, demo.card_count);
	close(demo.peerdma);
	return code;
}
